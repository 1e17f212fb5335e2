"""Which row of a learning platform's table is whose: by what both sides know of people, never by a guess."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lockstep.classroom.names import folded, words_of
from lockstep.classroom.people import Student
from lockstep.text import safe_line

EMAIL, NAME = "email", "name"
IDENTIFIER = "identifier"
Ids = Mapping[str, str]
"""Who somebody is: by kind, a column's name or one of those above, what is written there; the surest comes first."""

_OWN = ""
"""Stands for the student's id among the titles of the roster's columns."""

_Compared = Mapping[str, frozenset[str]]
"""The same as it is compared: all spellings of each, without the empty ones."""


@dataclass(frozen=True)
class Matched:
    """Students by the number of their row, and the reasons for rows that are nobody's."""

    students: Mapping[int, Student]
    unmatched: Mapping[int, str]


def match(rows: Mapping[int, Ids], students: Sequence[Student]) -> Matched:
    """Find the student of each row.

    Who differs from a row in one of its kinds is not meant, whatever a less sure one says; two whom one kind does not
    tell apart are told apart by the next one or not at all; who would get two rows gets none.
    """
    compared = {number: _compared(ids) for number, ids in rows.items()}
    known = _known(list(compared.values()), students)
    owners: dict[tuple[str, str], set[str]] = {}
    for student, ids in known.items():
        for kind, values in ids.items():
            for value in values:
                owners.setdefault((kind, value), set()).add(student)
    by_id = {student.id: student for student in students}
    unmatched: dict[int, str] = {}
    found: dict[str, list[int]] = {}
    for number, row in compared.items():
        candidates = _candidates(row, owners, known)
        if len(candidates) == 1:
            found.setdefault(candidates.pop(), []).append(number)
        elif candidates:
            unmatched[number] = f"could be any of {len(candidates)} students"
        else:
            unmatched[number] = "is nobody's who handed in or is in the roster"
    for student, numbers in found.items():
        if len(numbers) > 1:
            reason = f"is one of {len(numbers)} rows of {safe_line(by_id[student].shown, 80)}"
            unmatched.update(dict.fromkeys(numbers, reason))
    once = {numbers[0]: by_id[student] for student, numbers in found.items() if len(numbers) == 1}
    return Matched(once, dict(sorted(unmatched.items())))


def _known(rows: Sequence[_Compared], students: Sequence[Student]) -> Mapping[str, _Compared]:
    """What is known of each student, by id, in the kinds of the rows."""
    kinds = [
        kind for kind in dict.fromkeys(kind for row in rows for kind in row) if kind not in (EMAIL, NAME)
    ]
    by_title = {student.id: _columns(student) for student in students}
    known: dict[str, dict[str, frozenset[str]]] = {
        student.id: {
            **_compared({kind: by_title[student.id][kind] for kind in kinds if kind in by_title[student.id]}),
            **_compared({EMAIL: student.email, NAME: student.name}),
        }
        for student in students
    }
    for kind in kinds:
        there = frozenset(value for row in rows for value in row.get(kind, ()))
        without = {student: columns for student, columns in by_title.items() if kind not in known[student]}
        title = _meaning(kind, there, len(rows), without)
        if title is not None:
            for student, columns in without.items():
                known[student].update(_compared({kind: columns.get(title, "")}))
    return known


def _columns(student: Student) -> dict[str, str]:
    """The roster's columns by title, and the id. The column that the id is from has no say: an `ID` of the institution
    is not Canvas'. Of somebody in no roster they came with the download and mean what they say.
    """
    titled = {title.casefold(): value for title, value in student.columns}
    if student.enrolled:
        titled = {title: value for title, value in titled.items() if value != student.id}
    return {_OWN: student.id, **titled}


def _meaning(
    kind: str, there: frozenset[str], rows: int, students: Mapping[str, Mapping[str, str]]
) -> str | None:
    """Which of a roster's columns holds a platform's ids, whatever it is called: the one by which most are found.

    They have to be more than half of all, and no two alike. One that is equal by chance, as running numbers are,
    decides nothing.
    """
    best, most = None, min(rows, len(students)) / 2
    for title in dict.fromkeys(title for columns in students.values() for title in columns):
        spelt = [_spellings(kind, columns.get(title, "")) for columns in students.values()]
        values = [value for value in spelt if value]
        hits = sum(bool(value & there) for value in values)
        if hits > most and len(set(values)) == len(values):
            best, most = title, hits
    return best


def _compared(ids: Ids) -> _Compared:
    spelt = ((kind, _spellings(kind, value)) for kind, value in ids.items())
    return {kind: values for kind, values in spelt if values}


def _spellings(kind: str, value: str) -> frozenset[str]:
    if kind == NAME:
        return words_of(value)
    # Moodle writes "Participant 12345" in the language of whoever downloads it; its ZIP has the number alone.
    number = re.search(r"(?<![0-9])[0-9]+$", value.strip()) if kind == IDENTIFIER else None
    return frozenset({number[0] if number else folded(value)} - {""})


def _candidates(
    row: _Compared, owners: Mapping[tuple[str, str], set[str]], known: Mapping[str, _Compared]
) -> set[str]:
    """The students that a row can mean."""
    candidates: set[str] = set()
    surer: list[str] = []
    for kind, values in row.items():
        surer.append(kind)
        fitting = {
            student
            for value in values
            for student in owners.get((kind, value), set())
            if all(known[student].get(before, row[before]) & row[before] for before in surer)
        }
        candidates = (fitting & candidates or candidates) if candidates else fitting
        if len(candidates) == 1:
            break
    return candidates
