"""Gradescope's export: folders `submission_123456/`, and a `submission_metadata.yml` that says whose they are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from lockstep.classroom.arrival import Arrival, Item, Person, Piece, Sorted
from lockstep.members import SubmissionError, shown
from lockstep.wire import Json
from lockstep.yamlfile import YamlError, read_yaml

METADATA = "submission_metadata.yml"

_FOLDER = re.compile(r"submission_([0-9]+)")
_BLOCK = re.compile(r"^['\"]?(submission_[0-9]+)['\"]?[ \t]*:", re.MULTILINE)
# A submission's results and history stand in the same place; they are long, and not about who it is.
_SECTION = re.compile(r"^  :?['\"]?(submitters|created_at)['\"]?:.*\n(?:(?:  - |   ).*\n|\n)*", re.MULTILINE)
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.\d+)?\s*(Z|UTC|[-+]\d\d:?\d\d)?")


@dataclass(frozen=True)
class Submitted:
    """What is known of one submission; `problem` is a sentence where that cannot be read."""

    people: tuple[Person, ...] = ()
    at: datetime | None = None
    problem: str = ""


def number_of(folder: str) -> str:
    """The number of the submission that lies in `folder`; empty for any other folder."""
    match = _FOLDER.fullmatch(folder)
    return match[1] if match else ""


def sort_gradescope(items: Sequence[Item]) -> Sorted:
    """The folders that Gradescope numbered, by who submitted them."""
    numbered = [item for item in items if item.is_folder and number_of(item.name)]
    if not numbered:
        return Sorted()
    file = next((item for item in items if item.name == METADATA and not item.is_folder), None)
    known: Mapping[str, Submitted] = {}
    problem = f"There is no {METADATA} beside it, which says whose it is."
    set_aside: list[tuple[Item, str]] = []
    if file is not None:
        problem = f"{METADATA} does not say whose it is."
        try:
            known = read_metadata(file.members()[0].read())
        except SubmissionError as error:
            problem = str(error)
        there = {item.name for item in numbered}
        gone = [shown(folder) for folder in known if folder not in there]
        more = f" Of what it names there is no folder for {', '.join(gone[:20])}." if gone else ""
        set_aside.append((file, f"Gradescope's list of who handed in what; it was read.{more}"))
    arrivals = []
    for item in numbered:
        about = known.get(item.name, Submitted())
        nobody = (Person("gradescope", number_of(item.name)),)
        arrivals.append(
            Arrival(
                people=about.people or nobody,
                pieces=(Piece(item),),
                notes=() if about.people else (about.problem or problem,),
                submitted_at=about.at,
            )
        )
    return Sorted(tuple(arrivals), tuple(set_aside))


def read_metadata(data: bytes) -> Mapping[str, Submitted]:
    """Who submitted, by the name of the folder. Never raises: what cannot be read is a problem of its submission."""
    text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n") + "\n"
    return {folder: _submitted(folder, block) for folder, block in _blocks(text)}


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Each submission's part of the file, which as a whole may be far larger than any file that is read at once."""
    starts = list(_BLOCK.finditer(text))
    for index, start in enumerate(starts):
        end = starts[index + 1].start() if index + 1 < len(starts) else len(text)
        yield start[1], text[start.start() : end]


def _submitted(folder: str, block: str) -> Submitted:
    sections = "".join(match[0] for match in _SECTION.finditer(block))
    try:
        documents = read_yaml((f"{folder}:\n{sections}" if sections else block).encode())
    except YamlError as error:
        return Submitted(problem=f"{METADATA} cannot be read where it says whose it is: {error}")
    content = _get(documents[0].value, folder) if documents else None
    listed = _get(content, "submitters")
    people = tuple(
        Person("gradescope", number_of(folder), _text(item, "sid"), _text(item, "name"), _text(item, "email"))
        for item in (listed if isinstance(listed, list) else [])
    )
    return Submitted(
        tuple(person for person in people if person.id or person.name or person.email), _at(content)
    )


def _get(value: Json, key: str) -> Json:
    """Gradescope writes its keys as Ruby does, with a colon in front."""
    if not isinstance(value, dict):
        return None
    return value.get(f":{key}", value.get(key))


def _text(value: Json, key: str) -> str:
    found = _get(value, key)
    return str(found).strip() if isinstance(found, str | int) and not isinstance(found, bool) else ""


def _at(content: Json) -> datetime | None:
    match = _TIME.match(_text(content, "created_at"))
    if match is None:
        return None
    zone = (match[3] or "").replace("UTC", "Z")
    try:
        return datetime.fromisoformat(f"{match[1]}T{match[2]}{zone}")
    except ValueError:
        return None
