"""Moodle's "Download all submissions": `Full Name_12345_assignsubmission_file_/`, with or without folders.

As `mod/assign/locallib.php` makes these names. The number is the participant's in this assignment alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from lockstep.classroom.arrival import Arrival, Item, Person, Piece, Sorted
from lockstep.classroom.names import folded
from lockstep.members import shown

_NAME = re.compile(
    r"(?P<name>.+?)_(?P<number>[0-9]{1,20})_assignsubmission_(?P<kind>[a-z]+)(?:_(?P<file>.*))?", re.DOTALL
)
_ONLY_TEXT = "Only a text was typed into Moodle, and no file was handed in."


def is_moodle(name: str) -> bool:
    """Whether Moodle gave this name to a file or folder."""
    return _NAME.fullmatch(name) is not None


def sort_moodle(items: Sequence[Item]) -> Sorted:
    """What Moodle named, by its participants. Texts that were typed in are set aside."""
    # Of two downloads in one folder, a number may be two people's.
    files: dict[tuple[str, str], list[Piece]] = defaultdict(list)
    others: dict[tuple[str, str], list[tuple[Piece, str]]] = defaultdict(list)
    names: dict[tuple[str, str], str] = {}
    for item in items:
        match = _NAME.fullmatch(item.name)
        if match is None:
            continue
        # Where marking is blind, everybody is called so.
        name = "" if match["name"].lower() == "participant" else match["name"]
        who = (match["number"], folded(name))
        names[who] = name
        piece = Piece(item, "" if item.is_folder else match["file"] or item.name)
        if match["kind"] == "file":
            files[who].append(piece)
        else:
            others[who].append((piece, match["kind"]))
    arrivals: list[Arrival] = []
    set_aside: list[tuple[Item, str]] = []
    for who, name in names.items():
        people = (Person("moodle", who[0], name=name),)
        besides = [(piece.item, f"Moodle's {kind}; only files are graded.") for piece, kind in others[who]]
        if files[who]:
            notes = [f"{shown(item.label)} was not read: {reason}" for item, reason in besides]
            arrivals.append(Arrival(people, tuple(files[who]), tuple(notes)))
            set_aside += besides
        else:
            arrivals.append(Arrival(people, tuple(piece for piece, _ in others[who]), problem=_ONLY_TEXT))
    return Sorted(tuple(arrivals), tuple(set_aside))
