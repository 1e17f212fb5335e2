"""What the judges of all manifests share: a file is found, read, and held against a schema, and every problem has a
place and a next step. Nothing here runs anything.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from graders.launch.commands import Start
from lockstep.compare import elements
from lockstep.text import safe_line
from lockstep.wire import Json
from lockstep.yamlfile import Document, Place, YamlError, read_yaml

SHOWN = 3
"""Problems told at once; whoever mends three has learnt what the others are about."""
MANY = 20
"""Unknown fields that are looked at: names that are alike take long to find."""
PLACEHOLDER = re.compile(r"<[^<>]*>|\bTODO\b|\bFIXME\b|\.\.\.", re.IGNORECASE)
NVIDIA = "nvidia.com/gpu"


@dataclass(frozen=True)
class Problem:
    """Something that has to be mended: what is seen and what was expected, the next step, and the line."""

    message: str
    hint: str
    line: int = 0

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}" if self.line else self.message


@dataclass(frozen=True)
class Claim:
    """How many processes a launch file starts: every number it may come to, none where it cannot be told.

    `how` is the sum as it is shown to the student, `nodes` the number of machines or pods, `hint` what counts. `odds`
    are figures within the file that contradict one another. `may_be_alone` says that on one machine it is a job of its
    own, which need not be as large as the others.
    """

    file: str
    worlds: frozenset[int] = frozenset()
    how: str = ""
    nodes: int | None = None
    odds: tuple[Problem, ...] = ()
    hint: str = ""
    may_be_alone: bool = True


@dataclass
class Reading:
    """What the judge of one manifest found: without `problems` it earns the points, with `slips` half of them.

    `starts` is each command that it starts something with, by where it stands; those in `apart` have to reach another
    machine or pod.
    """

    file: str
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    claim: Claim | None = None
    slips: list[Problem] = field(default_factory=list)
    starts: dict[str, Start] = field(default_factory=dict)
    apart: set[str] = field(default_factory=set)

    def told(self) -> tuple[str, str]:
        """The message and the hint for all problems; for the slips where there are none."""
        told = self.problems or self.slips
        first, *others = sorted(told, key=lambda problem: problem.line)[:SHOWN]
        left = len(told) - 1 - len(others)
        more = "".join(f" Also, {other}" for other in others) + (f" And {left} more." if left > 0 else "")
        return f"{self.file}, {first}{more}" if first.line else f"{self.file}: {first}{more}", first.hint


@dataclass(frozen=True)
class Manifest:
    """One document of a file, with what is needed to speak about its places."""

    document: Document

    def get(self, *place: str | int) -> Json:
        """The value at a place; None when there is none."""
        value = self.document.value
        for step in place:
            if isinstance(value, dict) and isinstance(step, str):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return None
        return value

    def problem(self, place: Place, message: str, hint: str) -> Problem:
        """A problem of the value at a place."""
        return Problem(message, hint, self.document.line(place))


def texts(value: Json) -> list[str]:
    """The texts of a list; nothing for anything else."""
    return [item for item in elements(value) if isinstance(item, str)]


def whole(value: Json) -> int | None:
    """A whole number; None for everything else, a boolean among it."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def shown(value: Json) -> str:
    """A value in a message."""
    if isinstance(value, str):
        return f'"{safe_line(value, 60)}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "nothing"
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return f"{value}"[:30]


def stated(value: Json) -> str:
    """What a message says of a value that should be another, or should be there: the verb with it."""
    return "is missing" if value is None else f"is {shown(value)}"


def documents(data: bytes) -> list[Document]:
    """The documents of a file, with those inside of a Kubernetes List taken out of it. Raises YamlError."""
    found: list[Document] = []
    for document in read_yaml(data):
        value = document.value
        items = value.get("items") if isinstance(value, dict) else None
        if (
            isinstance(value, dict)
            and str(value.get("kind", "")).endswith("List")
            and isinstance(items, list)
        ):
            found += [
                Document(item, _below(document.lines, ("items", position)), document.traps)
                for position, item in enumerate(items)
            ]
        else:
            found.append(document)
    return found


def _below(lines: Mapping[Place, int], place: Place) -> dict[Place, int]:
    return {where[len(place) :]: line for where, line in lines.items() if where[: len(place)] == place}


def opened(reading: Reading, data: bytes, wanted: str) -> list[Document]:
    """The documents of the file that is being read; where there are none, the reading says why."""
    try:
        found = documents(data)
    except YamlError as error:
        hint = "Mend this place first: up to it the file may be right."
        reading.problems.append(Problem(str(error).partition(": ")[2], hint, error.line))
        return []
    if not found:
        comments = any(line.lstrip().startswith(b"#") for line in data.splitlines())
        holds = "holds nothing but comments" if comments else "is empty"
        reading.problems.append(
            Problem(f"the file {holds}.", f"Write {wanted}; a line that begins with `#` is for people only.")
        )
    return found


def named(files: Mapping[str, bytes], stem: str, suffixes: Iterable[str]) -> str | None:
    """The path of `launch/STEM.SUFFIX`, with the first suffix there is; a hand-in may be the folder launch/ itself."""
    for folder in ("launch/", ""):
        for suffix in suffixes:
            if (path := f"{folder}{stem}{suffix}") in files:
                return path
    return None


def manifests(files: Mapping[str, bytes], word: bytes) -> list[tuple[str, bytes]]:
    """The YAML files in launch/ and at the top that hold a word, by name; the first few of them."""
    near = (path for path in sorted(files) if path.startswith("launch/") or "/" not in path)
    return [(path, files[path]) for path in near if path.endswith((".yaml", ".yml")) and word in files[path]][
        :4
    ]


def readable(data: bytes) -> list[Document]:
    """The documents of a file; none when it cannot be read."""
    try:
        return documents(data)
    except YamlError:
        return []


# A schema

_TYPES = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}


def schema_problems(manifest: Manifest, schema: Mapping[str, Any]) -> list[Problem]:
    """How a document differs from a JSON schema that uses `type`, `required` and `additionalProperties`."""
    errors = Draft202012Validator(schema).iter_errors(manifest.document.value)
    found = (problem for error in errors for problem in _explained(manifest, error))
    return list(itertools.islice(found, MANY))


def _explained(manifest: Manifest, error: ValidationError) -> Iterator[Problem]:
    place: Place = tuple(error.absolute_path)
    where = dotted(place)
    if error.validator == "type":
        wanted = error.validator_value if isinstance(error.validator_value, list) else [error.validator_value]
        expected = " or ".join(_TYPES.get(name, "something else") for name in wanted)
        yield manifest.problem(
            place,
            f"`{where}` is {_kind(error.instance)}, but Kubernetes takes {expected} there and refuses the file.",
            _type_hint(str(place[-1]) if place else "", error.instance, wanted),
        )
    elif error.validator == "required":
        missing = [key for key in error.validator_value if key not in error.instance]
        for key in missing[:1]:
            yield manifest.problem(
                place,
                f"`{where}` lacks `{key}`." if where else f"`{key}` is missing.",
                f"Write `{key}:` there.",
            )
    elif error.validator == "additionalProperties":
        known = list(error.schema.get("properties", ()))
        for key in error.instance:
            if key not in known:
                yield manifest.problem(
                    (*place, key),
                    f"there is no field `{safe_line(key, 40)}`"
                    + (f" in `{where}`." if where else " at the top."),
                    like(key, known)
                    or "Look at the indentation: a field belongs where it would mean something.",
                )


def dotted(place: Place) -> str:
    """A place as people write it: `spec.containers[0].image`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{safe_line(step, 40)}" for step in place)
    return text.removeprefix(".")


def like(key: str, known: Iterable[str]) -> str:
    """A hint with the field that was probably meant; nothing when none is alike."""
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(key.lower()[:60], by_lower, n=1, cutoff=0.75)
    return f"Did you mean `{by_lower[close[0]]}`?" if close else ""


def _kind(value: Json) -> str:
    if isinstance(value, str):
        return f"the text {shown(value)}"
    if isinstance(value, bool):
        return f"the boolean {shown(value)}"
    if isinstance(value, int | float):
        return f"the number {shown(value)}"
    return "empty" if value is None else shown(value)


def _type_hint(key: str, value: Json, wanted: list[str]) -> str:
    if "string" in wanted and isinstance(value, bool | int | float):
        kind = "boolean" if isinstance(value, bool) else "number"
        return f'YAML reads a bare {shown(value)} as a {kind}: put quotes around it, "{shown(value)}".'
    if "integer" in wanted and isinstance(value, str):
        return "Take the quotes away, so that it is a number." if value.isdigit() else "Write a whole number."
    if "array" in wanted and isinstance(value, str):
        return f'Write every word on its own: {key}: ["python", "ddp_train.py"].'
    if "array" in wanted and isinstance(value, dict):
        return "Every item of a list begins with `- `."
    if "object" in wanted and isinstance(value, str) and re.search("[=:]", value):
        return "A mapping is written `name: value`, with a colon and a blank behind it."
    if value is None and "string" in wanted:
        return f"Its value stands behind the colon: `{key}: ...`."
    if value is None:
        return "What belongs to it has to be indented further than it is; leave it out if nothing does."
    return "Look at the indentation of what stands there."
