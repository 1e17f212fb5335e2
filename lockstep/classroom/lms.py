"""Sorts a class's download by who handed in, whatever has made it: an LMS, or a person with folders and archives."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from lockstep.classroom.arrival import Arrival, Item, Person, Piece, Sorted
from lockstep.classroom.canvas import named_by_canvas, sort_canvas
from lockstep.classroom.filenames import is_archive, stem_of
from lockstep.classroom.github import sort_github
from lockstep.classroom.gradescope import number_of, sort_gradescope
from lockstep.classroom.moodle import is_moodle, sort_moodle
from lockstep.classroom.names import folded
from lockstep.classroom.roster import Roster
from lockstep.leftovers import file_reason
from lockstep.submission import GRADABLE, SOURCES

_DOWNLOADED_AGAIN = re.compile(r"(.+?)(?: \([0-9]{1,2}\)| - Copy| copy)", re.DOTALL)
_NO_HAND_IN = "It is neither a folder nor an archive, a .py or an .ipynb file."


def is_lms_made(items: Sequence[Item]) -> bool:
    """Whether names say that an LMS has put these items together."""
    return any(number_of(item.name) or is_moodle(item.name) for item in items) or bool(named_by_canvas(items))


def junk_reason(name: str) -> str:
    """Why a file or folder called `name` is nobody's hand-in; empty when it may be one."""
    if reason := file_reason(name):
        return f"Left out: {reason}."
    return "Left out: a hidden file." if name.startswith(".") else ""


def sort_out(items: Iterable[Item], roster: Roster | None) -> Sorted:
    """Tell apart who handed in what; every item is in one arrival, or set aside."""
    entries = roster.entries if roster is not None else ()
    logins = frozenset(folded(entry.numbers["github"]) for entry in entries if "github" in entry.numbers)
    ids = frozenset(folded(entry.student.id) for entry in entries)
    rest: list[Item] = []
    set_aside: list[tuple[Item, str]] = []
    for item in items:
        if reason := item.stray or junk_reason(item.name):
            set_aside.append((item, reason))
        else:
            rest.append(item)
    arrivals: list[Arrival] = []
    for sort in (
        sort_gradescope,
        sort_moodle,
        sort_canvas,
        lambda left: sort_github(left, logins),
        lambda left: _by_id(left, ids),
        _plain,
    ):
        part = sort(rest)
        arrivals += part.arrivals
        set_aside += part.set_aside
        done = {id(piece.item) for arrival in part.arrivals for piece in arrival.pieces}
        done |= {id(item) for item, _ in part.set_aside}
        rest = [item for item in rest if id(item) not in done]
    return Sorted(tuple(arrivals), tuple(set_aside))


def _by_id(items: Sequence[Item], ids: frozenset[str]) -> Sorted:
    """Files with an id in front, `m100_ddp_train.py` and `m100_answers.md`: what follows is what they were called."""
    pieces: dict[str, list[Piece]] = defaultdict(list)
    for item in items:
        if item.is_folder or os.path.splitext(item.name)[1].lower() not in GRADABLE:
            continue
        for sign in re.finditer("[_-]", item.name):
            number, name = item.name[: sign.start()], item.name[sign.end() :]
            if number.strip() == number and folded(number) in ids and stem_of(name):
                pieces[folded(number)].append(Piece(item, name))
                break
    return Sorted(tuple(Arrival((Person(id=number),), tuple(files)) for number, files in pieces.items()))


def _plain(items: Sequence[Item]) -> Sorted:
    arrivals = []
    for item in items:
        stem = item.name if item.is_folder and not is_archive(item.name) else stem_of(item.name)
        copy = _DOWNLOADED_AGAIN.fullmatch(stem)
        stem = copy[1] if copy else stem
        is_hand_in = item.is_folder or is_archive(item.name) or item.name.lower().endswith(SOURCES)
        arrivals.append(
            Arrival(
                people=(Person(id=stem, name=stem, email=stem),),
                pieces=(Piece(item, "" if item.is_folder else item.name),),
                doubt="" if is_hand_in else _NO_HAND_IN,
            )
        )
    return Sorted(tuple(arrivals))
