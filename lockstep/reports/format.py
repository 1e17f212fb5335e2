"""Whether a file is a `perf-report/1`, the format in which students hand in measurements.

The format is `lockstep/schemas/perf-report-1.schema.json`. Whether the numbers in a report can be true is
another question; this one is only whether they are all there, where a reader looks for them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import jsonschema

from lockstep.jsontext import Json, JsonError, parse_json
from lockstep.text import safe

SCHEMA = Path(__file__).parent.parent / "schemas" / "perf-report-1.schema.json"
MAX_BYTES = 1 << 20
# A slip in every run is one slip; and who reads five sentences mends them before reading a sixth.
MAX_ERRORS, MAX_PROBLEMS = 2000, 5

_TYPES = {
    "object": "an object", "array": "a list", "string": "text", "integer": "a whole number",
    "number": "a number", "boolean": "true or false", "null": "null",
}  # fmt: skip


def problems(data: bytes | str) -> list[str]:
    """What keeps `data` from being a valid report, a sentence each for the student; empty if nothing does.

    The bytes are untrusted: size and depth are limited, and nothing of them is shown at length.
    """
    report = read(data)
    return [report] if isinstance(report, str) else schema_problems(report)


def read(data: bytes | str) -> dict[str, Json] | str:
    """The report as plain values, or a sentence that says why it is no JSON object."""
    raw = data.encode("utf-8", "replace") if isinstance(data, str) else data
    if len(raw) > MAX_BYTES:
        return f"The file is larger than {MAX_BYTES >> 20} MiB; a report holds readings, not raw logs."
    try:
        value = parse_json(raw)
    except JsonError as error:
        return f"The file is not JSON: {_unreadable(raw) or error}."
    if not isinstance(value, dict):
        return f"The file holds {_kind(value)}, expected an object: {{...}}."
    return value


def schema_problems(report: dict[str, Json]) -> list[str]:
    """How values differ from the schema, the most telling first."""
    found: dict[tuple[object, ...], list[str]] = {}
    errors = list(islice(_validator().iter_errors(report), MAX_ERRORS))
    for error in sorted(errors, key=lambda error: len(error.absolute_path)):
        path = list(error.absolute_path)
        for sentence, about in _sentences(error, _where(path)):
            names = tuple(part if isinstance(part, str) else "[]" for part in path)
            found.setdefault((names, error.validator, about), []).append(sentence)
    told = [
        alike[0] if len(alike) == 1 else f"{alike[0]} The same in {len(alike) - 1} more places."
        for alike in found.values()
    ]
    if len(told) > MAX_PROBLEMS:
        return [*told[:MAX_PROBLEMS], f"And {len(told) - MAX_PROBLEMS} more problems."]
    return told


@cache
def _validator() -> Any:
    return jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))


def _sentences(error: Any, where: str) -> Iterator[tuple[str, str]]:
    """What one error of the validator says, and the word that tells it from others at the same place."""
    seen, wanted = error.instance, error.validator_value
    if error.validator == "required":
        # One error for each missing name, and no other way to know which than its message.
        name = error.message.split("'")[1]
        yield f'{where} lacks "{name}".', name
    elif error.validator == "additionalProperties" and isinstance(wanted, bool):
        for name in sorted(seen.keys() - error.schema.get("properties", {}).keys())[:3]:
            yield f'{where} has "{safe(name, 40)}", which the format does not know.', name
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
    elif error.validator == "uniqueItems":
        yield f"{where} holds an entry twice.", ""
    else:
        yield f"{where}: {safe(error.message, 160)}.", ""


def _where(path: list[str | int]) -> str:
    if not path:
        return "The report"
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{safe(part, 40)}" for part in path)
    return f"`{place.removeprefix('.')[:120]}`"


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
    return json.dumps(safe(value, 40) if isinstance(value, str) else value)


def _unreadable(raw: bytes) -> str | None:
    """Why the parser stopped, if it was for a common reason."""
    try:
        json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        return f"{error.msg} in line {error.lineno}, column {error.colno}"
    except UnicodeDecodeError:
        return "it is not UTF-8 text"
    except _NotANumber as error:
        return f"it holds {error}, which is no number in JSON; leave such a value out"
    except (ValueError, RecursionError):
        pass
    return None


class _NotANumber(Exception):
    pass


def _no_constant(name: str) -> Json:
    raise _NotANumber(name)
