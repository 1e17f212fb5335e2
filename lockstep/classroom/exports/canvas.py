"""Canvas' gradebook CSV: filled where the instructor has exported one, built from the roster's columns otherwise.

Canvas Instructor Guide, "How do I export grades in the Gradebook?" and "How do I import grades in the Gradebook?":
the columns Student, ID, SIS User ID, SIS Login ID and Section come first and say whose a row is; an assignment's
column is called `Name (id)`; the row `Points Possible` stands above the students'.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence

from lockstep.classroom.catalogue import ExerciseTitle
from lockstep.classroom.csvfile import to_csv
from lockstep.classroom.exports.cells import Number, line
from lockstep.classroom.exports.fill import Filled, LeftOut, Row, fill, waiting
from lockstep.classroom.exports.grade import MISSING, scale, why_no_grade
from lockstep.classroom.exports.owners import EMAIL, NAME
from lockstep.classroom.exports.worksheet import Worksheet, parse_number, read_worksheet
from lockstep.classroom.people import Student
from lockstep.classroom.record import Record
from lockstep.classroom.roster import FIELDS
from lockstep.classroom.sheet import SheetError
from lockstep.text import safe_line

IDS = ("ID", "SIS User ID", "SIS Login ID")
"""Canvas finds a student by any of these."""

NEW_ASSIGNMENT = "lockstep"
"""A column without an id: Canvas asks whether it is a new assignment or one that is there."""

POSSIBLE = "Points Possible"
_ASSIGNMENT = re.compile(r"(.*\S)\s*\(([0-9]+)\)")
_MAY_BE_THOUSANDS = re.compile(r"[1-9][0-9]{0,2}[.,][0-9]{3}")
_TEST_STUDENTS = ("student, test", "test student")


def canvas_ids(student: Student) -> tuple[str, ...]:
    """What Canvas knows a student by, a text for each of `IDS`; nothing at all where the roster has none of them.

    A roster's `ID` is Canvas' own number only beside another of Canvas' columns; of somebody in no roster, it came
    with the download.
    """
    number, *others = (_roster(student, name) for name in IDS)
    titles = {title.casefold() for title, _ in student.columns}
    if student.enrolled and not any(name.casefold() in titles for name in IDS[1:]):
        number = ""
    number = number or next((_roster(student, name) for name in FIELDS["canvas"] if name in titles), "")
    return (number, *others) if number or any(others) else ()


def build_canvas(
    records: Sequence[Record], catalogue: Sequence[ExerciseTitle], assignment: str = ""
) -> Filled:
    """A new file of the students who have a grade and, in the roster, at least one of the columns `IDS`.

    Nobody else is in it: an empty cell could take away a grade that stands in Canvas.
    """
    graded_on = scale(records, catalogue)
    rows: list[list[object]] = []
    left_out: list[LeftOut] = []
    graded: list[Record] = []
    for record in records:
        ids = canvas_ids(record.student)
        reason = why_no_grade(record, graded_on) or ("" if ids else f"the roster has no {', '.join(IDS)}")
        if not reason:
            person = [record.student.shown, *ids, _roster(record.student, "Section")]
            rows.append([*(line(value) for value in person), Number(record.final_points)])
            graded.append(record)
        elif reason != MISSING:
            left_out.append(LeftOut(safe_line(record.student.shown, 80), safe_line(reason)))
    header = ["Student", *IDS, "Section", line(assignment or NEW_ASSIGNMENT)]
    possible = [f"    {POSSIBLE}", "", "", "", "", Number(graded_on.max_points)]
    content = to_csv(header, [possible, *rows]).removeprefix(codecs.BOM_UTF8)
    return Filled(content, len(rows), tuple(left_out), notes=tuple(waiting(graded)))


def fill_canvas(
    data: bytes,
    name: str,
    records: Sequence[Record],
    catalogue: Sequence[ExerciseTitle],
    assignment: str = "",
) -> Filled:
    """An exported gradebook with the column of one assignment filled. Raises SheetError.

    `assignment` is the column's name, its id, or both as in the file; empty where the file has only one. Points are
    scaled to the points possible in Canvas where those differ. Who is excused stays excused.
    """
    sheet = read_worksheet(data, name, ("Student",))
    if not any(sheet.has(column) for column in IDS):
        raise SheetError(
            f"{safe_line(name)} has none of the columns {', '.join(IDS)}: nobody can be found in it."
        )
    column = _column(sheet, name, assignment)
    names = [sheet.text(row, "Student").casefold() for row in range(len(sheet.rows))]
    possible = names.index(POSSIBLE.casefold()) if POSSIBLE.casefold() in names else -1
    most = _possible(sheet.text(possible, column), name, column) if possible >= 0 else None
    rows = {
        row: Row(
            sheet.text(row, "Student"),
            dict(_ids(sheet, row)),
            most,
            "is excused in Canvas" if sheet.text(row, column).casefold() == "ex" else "",
        )
        for row, name in enumerate(names)
        if row > possible and name not in _TEST_STUDENTS
    }
    return fill(
        sheet,
        rows,
        records,
        scale(records, catalogue),
        sheet.decimal_mark(column),
        may_exceed=True,
        written=lambda grade: {column: grade.points} if grade.points else {},
    )


def _possible(text: str, file: str, column: str) -> float | None:
    """The points possible; None where the cell is empty. Raises SheetError where it is not sure how many they are."""
    most = parse_number(text)
    if text and (most is None or _MAY_BE_THOUSANDS.fullmatch(text)):
        raise SheetError(
            f"{safe_line(file)} has `{safe_line(text, 40)}` for `{POSSIBLE}` of `{safe_line(column, 80)}`: how many "
            "points are they? Write them without a separator of thousands, such as 1000 or 7.5, or leave it empty."
        )
    return most


def _ids(sheet: Worksheet, row: int) -> Iterator[tuple[str, str]]:
    for name in IDS:
        yield name.casefold(), sheet.text(row, name)
    login = sheet.text(row, "SIS Login ID")
    if "@" in login:  # many institutions log people in by their address
        yield EMAIL, login
    yield NAME, sheet.text(row, "Student")


def _column(sheet: Worksheet, file: str, assignment: str) -> str:
    found = [name for name in sheet.header if _ASSIGNMENT.fullmatch(name)]
    wanted = assignment.strip()
    fitting = [name for name in found if not wanted or wanted in _names(name)]
    if len(fitting) == 1:
        return fitting[0]
    there = ", ".join(f"`{safe_line(name, 80)}`" for name in (fitting or found)) or "none"
    if not fitting:
        missing = f"no assignment `{safe_line(wanted, 80)}`" if wanted else "no column of an assignment"
        raise SheetError(f"{safe_line(file)} has {missing}; its assignments are {there}.")
    raise SheetError(
        f"{safe_line(file)} has several assignments; say with --assignment which one is meant: {there}."
    )


def _names(column: str) -> tuple[str, ...]:
    match = _ASSIGNMENT.fullmatch(column)
    return (column,) if match is None else (column, match[1], match[2])


def _roster(student: Student, name: str) -> str:
    return next((value for column, value in student.columns if column.casefold() == name.casefold()), "")
