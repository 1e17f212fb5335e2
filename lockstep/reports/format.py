"""Whether a file is a `perf-report/1`, the format in which students hand in measurements.

The format is `lockstep/schemas/perf-report-1.schema.json`. Whether the numbers in a report can be true is
another question; this one is only whether they are all there, where a reader looks for them.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import jsonschema

from lockstep.jsontext import Json, JsonError, parse_json
from lockstep.reports import names
from lockstep.text import listed, more_places, safe_line

MAX_BYTES = 1 << 20
# A slip in every run is one slip; and who reads five sentences mends them before reading a sixth.
MAX_ERRORS, MAX_PROBLEMS, MAX_NAMES = 300, 5, 100
# Rules compare every run with every other, and the schema's validator needs 30 us for a value.
MAX_ENTRIES, MAX_VALUES, MAX_CONFIGS = 1000, 40_000, 200

# What a rule may have to square and to divide by must not overflow. No clock, no GPU and no loss comes near.
LEAST, MOST, MOST_FLOAT = 1e-30, 1e15, 1e30
MAX_DIGITS = 100
"""Characters of a decimal text; `str(Decimal(seconds))` writes up to 70."""
LAST_SECOND = 253_402_300_799
"""The end of the year 9999; `time.time_ns() // 10**6` is beyond it."""

_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?")
_TYPES = {
    "object": "an object", "array": "a list", "string": "text", "integer": "a whole number",
    "number": "a number", "boolean": "true or false", "null": "null",
}  # fmt: skip

Place: TypeAlias = tuple[str | int, ...]


def problems(data: bytes | str) -> list[str]:
    """What keeps `data` from being a valid report, a sentence each for the student; empty if nothing does.

    The bytes are untrusted: size and depth are limited, and nothing of them is shown at length.
    """
    report = read(data)
    return [report] if isinstance(report, str) else schema_problems(report)


def read_file(path: Path) -> dict[str, Json] | str:
    """`read` for a file; never waits for one that is a pipe, never loads more of it than a report may have."""
    name = safe_line(str(path), 100)
    try:
        # Without O_NONBLOCK, opening a named pipe waits until somebody writes into it.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return f"{name} is not a regular file."
            data = file.read(MAX_BYTES + 1)
    except IsADirectoryError:
        return f"{name} is a folder, expected a file."
    except FileNotFoundError:
        return f"There is no file {name}."
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL character
        return f"{name} cannot be read: {getattr(error, 'strerror', None) or 'that is no name of a file'}."
    return read(data)


def read(data: bytes | str) -> dict[str, Json] | str:
    """The report as plain values, or a sentence that says why it is no JSON object."""
    raw = data.encode("utf-8", "replace") if isinstance(data, str) else data
    if len(raw) > MAX_BYTES:
        return f"The file is larger than {MAX_BYTES >> 20} MiB; a report holds readings, not raw logs."
    if not raw.strip():
        return "The file is empty."
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in raw[:64]:
        return "The file is not JSON: it is UTF-16 text (as PowerShell's > writes it) or no text, expected UTF-8 text."
    try:
        # Windows editors put a mark before UTF-8 text, which RFC 8259 allows a reader to skip.
        value = parse_json(raw.removeprefix(b"\xef\xbb\xbf"))
    except JsonError as error:
        return f"The file is not JSON: {safe_line(str(error), 160)}.{_usual_cause(raw, str(error))}"
    if not isinstance(value, dict):
        return f"The file holds {_kind(value)}, expected an object: {{...}}."
    return value


def _usual_cause(raw: bytes, said: str) -> str:
    """What was done by hand to a file that is no JSON any more, where its parser says something else."""
    if "Extra data" in said:
        return " Something stands behind the report, such as a second one: all runs go into one."
    if "Expecting" in said and re.search(rb",\s*[}\]]", raw):
        return " Behind the last entry of a list or an object stands no comma."
    if re.match(rb"\s*\{\s*'", raw):
        return " JSON has double quotes only: json.dump writes them, str() does not."
    return ""


def schema_problems(report: dict[str, Json]) -> list[str]:
    """What keeps values from being a report, the most telling first: the schema, then what it cannot say.

    A report without any can be named (`lockstep.reports.document`): its dates are dates, and its numbers have
    sizes that can be reckoned with.
    """
    known = {name: part for name, part in report.items() if name in names.parts()}
    too_much = _too_much(known)
    if too_much:
        return [too_much]
    errors = list(islice(_validator().iter_errors(report), MAX_ERRORS))
    if not errors:
        return _told((place, (), f"{_where(place)} {fault}.") for place, fault in _beyond_the_schema(known))
    errors.sort(key=lambda error: len(error.absolute_path))
    return _told(
        (place, (error.validator, about), sentence)
        for error in errors
        for place in [tuple(error.absolute_path)]
        for sentence, about in _sentences(error, _where(place))
    )


def _too_much(report: dict[str, Json]) -> str | None:
    """What is too long to be looked at, in a sentence."""
    for name, section in report.items():
        if isinstance(section, list) and len(section) > MAX_ENTRIES:
            return f"`{safe_line(name, 40)}` has {len(section)} entries; a report has at most {MAX_ENTRIES}."
    values = _count(report)
    if values > MAX_VALUES:
        return f"The report holds {values} values, at most {MAX_VALUES} are read; leave out `step_s`."
    return None


def _count(value: Json) -> int:
    if isinstance(value, list):
        return 1 + sum(map(_count, value))
    if isinstance(value, dict):
        return 1 + sum(map(_count, value.values()))
    return 1


def _told(found: Iterable[tuple[Place, tuple[str, ...], str]]) -> list[str]:
    """A few sentences; what is alike but for its place in a list is one."""
    alike: dict[tuple[object, ...], list[str]] = {}
    for place, about, sentence in found:
        names = tuple(part if isinstance(part, str) else "[]" for part in place)
        alike.setdefault((names, about), []).append(sentence)
    told = [
        each[0] if len(each) == 1 else f"{each[0]} The same in {more_places(len(each) - 1)}."
        for each in alike.values()
    ]
    if len(told) > MAX_PROBLEMS:
        return [*told[:MAX_PROBLEMS], f"And {len(told) - MAX_PROBLEMS} more problems."]
    return told


@cache
def _validator() -> Any:
    types = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_whole)
    kind = jsonschema.validators.extend(jsonschema.Draft202012Validator, type_checker=types)
    return kind(names.schema())


def _is_whole(_: object, value: object) -> bool:
    # 3.0 is a whole number to JSON Schema; so is 1e300, which no rule can divide by anything.
    if isinstance(value, float):
        return value.is_integer() and abs(value) < 1 << 63
    return isinstance(value, int) and not isinstance(value, bool)


def _beyond_the_schema(report: Any) -> Iterator[tuple[Place, str]]:
    """What the schema's words let through and nobody can reckon with, in the known parts of a report that it allows."""
    created = report["attempt"]["created_utc"]
    try:
        datetime.fromisoformat(created)
    except ValueError:
        yield ("attempt", "created_utc"), f"is {_shown(created)}, which is no date of the calendar"
    configs = len({json.dumps(run["config"], sort_keys=True) for run in report["runs"]})
    if configs > MAX_CONFIGS:
        yield ("runs",), f"has {configs} configurations; a report has at most {MAX_CONFIGS}"
    for index, run in enumerate(report["runs"]):
        for name in ("t_start", "t_end"):
            if run[name] > LAST_SECOND:
                said = f"is {run[name]:g}, expected seconds since 1970 as time.time() gives them"
                yield ("runs", index, name), said
        yield from _decimals(("runs", index, "wall_s"), run["wall_s"])
        for step, text in enumerate(run.get("step_s", ())):
            yield from _decimals(("runs", index, "step_s", step), text)
    claims = list(names.known_claims(report))
    for section, entries, name in (
        ("claims", claims, "value"),
        ("discarded", enumerate(report.get("discarded", ())), "wall_s"),
    ):
        for index, entry in entries:
            if name in entry:
                yield from _decimals((section, index, name), entry[name])
    for index, claim in claims:
        yield from _huge(("claims", index), claim)
    yield from _huge((), {**report, "claims": [], **names.looked_into(report)})


def _decimals(place: Place, text: str) -> Iterator[tuple[Place, str]]:
    if len(text) > MAX_DIGITS:
        yield place, f"has {len(text)} characters; a number has at most {MAX_DIGITS}"
    elif not _DECIMAL.fullmatch(text) or not (
        LEAST <= abs(float(text)) <= MOST or not text.lower().partition("e")[0].strip("-.0")
    ):
        yield place, f"is {_shown(text)}, expected 0 or a number from {LEAST:g} to {MOST:g}"


def _huge(place: Place, value: Json) -> Iterator[tuple[Place, str]]:
    if isinstance(value, float) and abs(value) > MOST_FLOAT:
        yield place, f"is {value:g}, expected a number of at most {MOST_FLOAT:g}"
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _huge((*place, index), item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _huge((*place, key), item)


def _sentences(error: Any, where: str) -> Iterator[tuple[str, str]]:
    """What one error of the validator says, and the word that tells it from others at the same place."""
    seen, wanted = error.instance, error.validator_value
    if error.validator == "required":
        # One error for each missing name, and no other way to know which than its message.
        name = error.message.split("'")[1]
        others = {
            other[:80].lower(): other for other in islice(seen, MAX_NAMES) if other not in names.parts()
        }
        slip = None if error.absolute_path else names.meant(name, others, names.ALIKE_ENOUGH)
        yield f'{where} lacks "{name}".{_is_a_slip(slip and others[slip])}', name
    elif error.validator == "additionalProperties" and isinstance(wanted, bool):
        for name in sorted(seen.keys() - error.schema.get("properties", {}).keys())[:3]:
            yield f'{where} has "{safe_line(name, 40)}", which the format does not know.', name
    elif error.validator == "not":
        # The names of settings are all that is refused so.
        yield f'{where} has "{safe_line(str(seen), 40)}", which this kind of report does not know.', str(seen)
    elif error.validator == "type":
        kinds = [wanted] if isinstance(wanted, str) else wanted
        expected = " or ".join(_TYPES[kind] for kind in kinds)
        yield f"{where} is {_kind(seen)}, expected {expected}.{_described(error)}", ""
    elif error.validator in ("enum", "const"):
        choices = wanted if error.validator == "enum" else [wanted]
        expected = ", ".join(json.dumps(choice) for choice in choices)
        yield f"{where} is {_shown(seen)}, expected {'one of ' * (len(choices) > 1)}{expected}.", ""
    elif error.validator == "pattern":
        yield f"{where} is {_shown(seen)}, which has not the right form.{_described(error)}", ""
    elif error.validator in ("minimum", "exclusiveMinimum"):
        least = "at least" if error.validator == "minimum" else "more than"
        yield f"{where} is {_shown(seen)}, expected {least} {wanted}.", ""
    elif error.validator in ("minItems", "minLength"):
        yield f"{where} is empty.", ""
    elif error.validator == "contains":
        known = f"holds nothing that can be verified, which is {listed(names.whats())}"
        yield f"{where} {known if seen else 'is empty'}.", ""
    elif error.validator == "uniqueItems":
        yield f"{where} holds an entry twice.", ""
    else:
        yield f"{where}: {safe_line(error.message, 160)}.", ""


def _is_a_slip(name: str | None) -> str:
    return f' Is "{safe_line(name, 40)}" meant to be that?' if name else ""


def _where(place: Place) -> str:
    if not place:
        return "The report"
    name = "".join(f"[{part}]" if isinstance(part, int) else f".{safe_line(part, 40)}" for part in place)
    return f"`{name.removeprefix('.')[:120]}`"


def _described(error: Any) -> str:
    description = error.schema.get("description", "")
    return f" {description.rstrip('.')}." if description else ""


def _kind(value: Json) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    kinds: dict[type, str] = {int: "a whole number", float: "a number", str: "text", list: "a list"}
    return "null" if value is None else kinds.get(type(value), "an object")


def _shown(value: Json) -> str:
    if isinstance(value, list | dict):
        return _kind(value)
    return json.dumps(safe_line(value, 40) if isinstance(value, str) else value)
