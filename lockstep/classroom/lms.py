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
from lockstep.classroom.matching import ID_IN_NAME, Register
from lockstep.classroom.moodle import is_moodle, sort_moodle
from lockstep.classroom.names import folded
from lockstep.classroom.roster import Roster
from lockstep.leftovers import file_reason
from lockstep.members import shown
from lockstep.submission import GRADABLE, SOURCES
from lockstep.text import safe_line

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
        lambda left: _by_id(left, roster),
        _plain,
    ):
        part = sort(rest)
        arrivals += part.arrivals
        set_aside += part.set_aside
        done = {id(piece.item) for arrival in part.arrivals for piece in arrival.pieces}
        done |= {id(item) for item, _ in part.set_aside}
        rest = [item for item in rest if id(item) not in done]
    return Sorted(tuple(arrivals), tuple(set_aside))


def _by_id(items: Sequence[Item], roster: Roster | None) -> Sorted:
    """Files with an id in front, `m100_ddp_train.py` and `m100_answers.md`: what follows is what they were called.

    Of several ids that begin alike the longest counts. What somebody else is known by, as a longer beginning or behind
    the id, makes it nobody's.
    """
    if roster is None:
        return Sorted()
    register = Register(roster)
    ids = frozenset(folded(student.id) for student in roster.students)
    pieces: dict[str, list[Piece]] = defaultdict(list)
    notes: dict[str, list[str]] = defaultdict(list)
    arrivals: list[Arrival] = []
    for item in items:
        if item.is_folder or os.path.splitext(item.name)[1].lower() not in GRADABLE:
            continue
        stem = _called(stem_of(item.name))
        signs = list(re.finditer("[_-]", item.name))
        ends = [sign.start() for sign in signs if stem_of(item.name[sign.end() :])]
        known = [end for end in ends if _is_one_of(item.name[:end], ids)]
        if not known or _is_one_of(stem, ids):
            continue
        number = folded(item.name[: known[-1]])
        further = [sign.start() for sign in signs if sign.start() > known[-1]]
        longer = [*(item.name[:end] for end in further), stem]
        behind = [name[known[-1] + 1 :] for name in longer]
        called = [*longer, *(name for name in behind if not _is_a_count(name))]
        if elsewhere := _elsewhere(dict.fromkeys(called), number, register):
            arrivals.append(Arrival((Person(),), (Piece(item),), doubt=elsewhere))
            continue
        pieces[number].append(Piece(item, item.name[known[-1] + 1 :]))
        if len(known) > 1:
            notes[number].append(f"{shown(item.name)} begins with more than one id: the longest counts")
    arrivals += (
        Arrival((Person(id=number),), tuple(files), tuple(notes[number])) for number, files in pieces.items()
    )
    return Sorted(tuple(arrivals))


def _is_one_of(text: str, ids: frozenset[str]) -> bool:
    return text.strip() == text and folded(text) in ids


def _is_a_count(text: str) -> bool:
    """Whether it is too short for an id that stands somewhere in a name: `12_3_scaling.py` is of lab 3."""
    return len(text) < ID_IN_NAME and text.isdecimal()


def _elsewhere(parts: Iterable[str], number: str, register: Register) -> str:
    """Why the student with the id `number` may not be meant, a sentence; empty where nothing says so."""
    for part in parts:
        if others := register.others_called(part, number):
            return (
                f"It begins with the id `{safe_line(number, 60)}`, but `{safe_line(part, 60)}` leads to {others}. "
                "Rename it to the student's id."
            )
    return ""


def _called(stem: str) -> str:
    """`stem` without what a browser or a desktop writes behind the name of a copy."""
    copy = _DOWNLOADED_AGAIN.fullmatch(stem)
    return copy[1] if copy else stem


def _plain(items: Sequence[Item]) -> Sorted:
    arrivals = []
    for item in items:
        stem = item.name if item.is_folder and not is_archive(item.name) else stem_of(item.name)
        stem = _called(stem)
        is_hand_in = item.is_folder or is_archive(item.name) or item.name.lower().endswith(SOURCES)
        arrivals.append(
            Arrival(
                people=(Person(id=stem, name=stem, email=stem),),
                pieces=(Piece(item, "" if item.is_folder else item.name),),
                doubt="" if is_hand_in else _NO_HAND_IN,
            )
        )
    return Sorted(tuple(arrivals))
