"""Fills the students' rows of a learning platform's own file, and lists everybody whose row was left as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lockstep.classroom.exports import cells
from lockstep.classroom.exports.grade import MISSING, Scale, why_no_grade
from lockstep.classroom.exports.owners import Ids, match
from lockstep.classroom.exports.worksheet import Worksheet
from lockstep.classroom.people import Student
from lockstep.classroom.record import Record
from lockstep.text import safe_line


@dataclass(frozen=True)
class LeftOut:
    """Somebody whose grade was not handed on, and why."""

    who: str
    reason: str


@dataclass(frozen=True)
class Filled:
    """A file with `grades` grades in it.

    `left_out` are students with a hand-in whose grade is not in it; `unmatched` are rows that are nobody's. Rows of
    those who handed in nothing are neither: they stay as they are. `notes` are sentences for the instructor.
    """

    content: bytes
    grades: int
    left_out: tuple[LeftOut, ...] = ()
    unmatched: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """A student's row in a file. `closed` says why it must stay as it is; empty where it may be filled.

    `most` are the points possible in the platform; None where it says nothing.
    """

    shown: str
    ids: Ids
    most: float | None
    closed: str = ""


@dataclass(frozen=True)
class Grade:
    """What goes into a row: points out of `Row.most`, as the file writes numbers; empty where there is no grade."""

    record: Record
    points: str


def fill(
    sheet: Worksheet,
    rows: Mapping[int, Row],
    records: Sequence[Record],
    graded_on: Scale,
    mark: str,
    may_exceed: bool,
    written: Callable[[Grade], Mapping[str, str]],
) -> Filled:
    """Write each student's grade into their row; `written` says which columns get what.

    `mark` is the decimal mark. Unless grades `may_exceed` the maximum, those that do are cut to it.
    """
    by_id = {record.student.id: record for record in records}
    matched = match({number: row.ids for number, row in rows.items()}, [record.student for record in records])
    changes: dict[tuple[int, str], str] = {}
    left_out: list[LeftOut] = []
    graded: list[Record] = []
    cut = 0
    for number, student in matched.students.items():
        record, row = by_id[student.id], rows[number]
        reason = why_no_grade(record, graded_on) or row.closed
        if reason == MISSING:
            continue
        points = ""
        if reason:
            left_out.append(_left_out(student, reason))
        else:
            value = _scaled(record, graded_on, row.most)
            if row.most is not None and value > row.most and not may_exceed:
                value = row.most
                cut += 1
            points = cells.number(value).replace(".", mark)
            graded.append(record)
        if not row.closed:
            for column, text in written(Grade(record, points)).items():
                changes[number, column] = text
    placed = {student.id for student in matched.students.values()}
    left_out += [
        _left_out(record.student, why_no_grade(record, graded_on) or "has no row in the file")
        for record in records
        if record.student.id not in placed and why_no_grade(record, graded_on) != MISSING
    ]
    return Filled(
        sheet.with_cells(changes),
        len(graded),
        tuple(left_out),
        tuple(LeftOut(safe_line(rows[number].shown, 80), why) for number, why in matched.unmatched.items()),
        tuple(_notes(graded, graded_on, {row.most for row in rows.values()}, cut)),
    )


def waiting(graded: Sequence[Record]) -> list[str]:
    """A sentence on grades that may still rise, or none."""
    count = sum(record.waiting_reviews > 0 for record in graded)
    if not count:
        return []
    who = "1 student has answers" if count == 1 else f"{count} students have answers"
    return [f"{who} that wait for a person: grades may still rise"]


def _notes(graded: Sequence[Record], graded_on: Scale, most: set[float | None], cut: int) -> Iterator[str]:
    scaled = sorted(value for value in most if value and value != graded_on.max_points)
    if scaled and graded:
        whole = ", ".join(cells.number(value) for value in scaled)
        yield f"points are scaled from {cells.number(graded_on.max_points)} to {whole}"
    if cut:
        yield f"grades above the maximum are cut to it: {cut}"
    yield from waiting(graded)


def _scaled(record: Record, graded_on: Scale, most: float | None) -> float:
    if not most or not graded_on.max_points:
        return record.final_points
    return record.final_points * most / graded_on.max_points


def _left_out(student: Student, reason: str) -> LeftOut:
    return LeftOut(safe_line(student.shown, 80), safe_line(reason))
