"""The roster: who is in the class, as a CSV file says that the institution or an LMS has written.

The files that LMSs export serve as they are: Canvas's gradebook, Moodle's grading worksheet, GitHub Classroom's
roster. What each column may be called is in `FIELDS`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from lockstep.classroom.csvfile import ROUNDED
from lockstep.classroom.names import folded
from lockstep.classroom.people import Student
from lockstep.classroom.sheet import Row, Sheet, SheetError, read_sheet
from lockstep.text import safe_line

FIELDS: Mapping[str, tuple[str, ...]] = {
    "id": (
        "student id", "student number", "student no", "matriculation number", "matriculation no", "matriculation",
        "matrikelnummer", "matrikelnr", "matr nr", "sis user id", "sis id", "sid", "id number", "id",
    ),
    "login": ("sis login id", "login id", "login", "username", "user name", "user"),
    "canvas": ("canvas id", "canvas user id", "canvas"),
    "moodle": ("moodle id", "moodle participant id", "participant id", "participant number", "participant"),
    "github": ("github", "github username", "github user", "github login", "github name"),
    "name": ("name", "full name", "student", "student name", "display name"),
    "first": ("first name", "given name", "firstname", "vorname"),
    "last": ("last name", "surname", "family name", "lastname", "nachname"),
    "email": ("email", "email address", "e mail", "e mail address", "mail"),
    "team": ("team", "team name", "group", "group name", "gruppe"),
    "late_days": ("late days", "days late"),
    "submitted_at": ("submitted at", "submission time", "submitted on", "submitted", "last modified submission"),
    "extra_days": ("extra days", "extra time", "extension days", "extension"),
}  # fmt: skip
"""What a column may be called, case and punctuation aside; of several the first that is there counts.

`id` means Canvas's own number beside another column with ids, `identifier` Moodle's where it is a word and a number.
"""

MOST_DAYS = 3650.0
"""A day count beyond this is a slip: another column's number, or a time in seconds."""

_DATES = (
    "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S", "%A, %d %B %Y, %I:%M %p", "%A, %d %B %Y, %H:%M",
)  # fmt: skip
_EARNED = "Points Possible"
_PARTICIPANT = re.compile(r"\D*[^\W\d]\s*(\d+)")


class RosterError(Exception):
    """A roster that cannot be used; the message says in which row, what is expected and what to try."""


@dataclass(frozen=True)
class Entry:
    """One row of the roster: a student, what other systems call them, and what it says about this assignment.

    `numbers` are the student's names in `canvas`, `moodle` and `github`, and their `login`. `late_days` are days
    after the deadline; `submitted_at` has the time zone of the file, or none.
    """

    student: Student
    numbers: Mapping[str, str]
    late_days: float | None = None
    submitted_at: datetime | None = None


@dataclass(frozen=True)
class Roster:
    """A class, in the order of its file; ids differ in more than case."""

    entries: tuple[Entry, ...]

    @property
    def students(self) -> tuple[Student, ...]:
        """Everybody in the class."""
        return tuple(entry.student for entry in self.entries)


def read_roster(path: Path) -> Roster:
    """Read the roster at `path`. Raises RosterError."""
    try:
        sheet = read_sheet(path)
    except SheetError as error:
        raise RosterError(f"The roster {error}") from error
    return roster_of(sheet)


def roster_of(sheet: Sheet) -> Roster:
    """The class that a table describes. Raises RosterError."""
    columns = _columns(sheet)
    ids = [columns[field] for field in ("id", "login", "canvas", "moodle") if field in columns]
    # Canvas without the institution's numbers leaves their column empty for everybody.
    filled = [column for column in ids if any(row.cells[column] for row in sheet.rows)]
    if not ids:
        seen = ", ".join(f"`{safe_line(title, 40)}`" for title in sheet.header[:8]) or "none"
        raise RosterError(
            "The roster has no column with the students' ids. Call one `id`, "
            f"or `student id`, `SIS User ID`, `matriculation number`. Its columns are {seen}."
        )
    entries: list[Entry] = []
    lines: dict[str, int] = {}
    for row in sheet.rows:
        if _is_no_student(row, columns):
            continue
        entry = _entry(row, sheet.header, columns, [*filled, *ids][0])
        key = folded(entry.student.id)
        if key in lines:
            raise RosterError(
                f"The roster has the id `{safe_line(entry.student.id, 60)}` twice, in lines {lines[key]} and "
                f"{row.number}. Remove one of the two."
            )
        lines[key] = row.number
        entries.append(entry)
    if not entries:
        raise RosterError("The roster has a header and no students under it.")
    return Roster(tuple(entries))


def _columns(sheet: Sheet) -> dict[str, int]:
    """Where each field stands."""
    titles: dict[str, int] = {}
    for position, title in enumerate(sheet.header):
        titles.setdefault(_plain(title), position)
    columns: dict[str, int] = {}
    for field, names in FIELDS.items():
        found = next((titles[name] for name in names if name in titles), None)
        if found is not None:
            columns[field] = found
    if columns.get("id") == titles.get("id", -1) and _is_canvas(sheet, titles):
        # The gradebook for those who may not see the institution's numbers.
        columns.setdefault("canvas", columns.pop("id"))
    elif "id" in titles and columns["id"] != titles["id"]:
        columns.setdefault("canvas", titles["id"])
    if "identifier" in titles:
        column = titles["identifier"]
        first = next((row.cells[column] for row in sheet.rows if row.cells[column]), "")
        columns.setdefault("moodle" if _PARTICIPANT.fullmatch(first) else "id", column)
    return columns


def _is_canvas(sheet: Sheet, titles: Mapping[str, int]) -> bool:
    return "student" in titles and any(row.cells[titles["student"]] == _EARNED for row in sheet.rows[:3])


def _plain(title: str) -> str:
    return " ".join(re.sub(r"[\W_]+", " ", title.casefold()).split())


def _is_no_student(row: Row, columns: Mapping[str, int]) -> bool:
    """Canvas's first rows hold what can be earned and how it is posted, and its last may be a student who is nobody."""
    if "canvas" not in columns or "name" not in columns:
        return False
    name = row.cells[columns["name"]]
    nobody = not any(
        row.cells[columns[field]] for field in ("name", "id", "login", "canvas") if field in columns
    )
    return nobody or name in (_EARNED, "Student, Test", "Test Student")


def _entry(row: Row, header: Sequence[str], columns: Mapping[str, int], id_column: int) -> Entry:
    def cell(field: str) -> str:
        return row.cells[columns[field]] if field in columns else ""

    number = row.cells[id_column]
    if not number:
        raise RosterError(
            f"The roster has no `{safe_line(header[id_column], 60)}` in line {row.number}. Fill it in, or remove the "
            "line."
        )
    if ROUNDED.fullmatch(number):
        raise RosterError(
            f"The roster has the id `{number}` in line {row.number}: a spreadsheet has rounded it. Format the column "
            "as text, put the ids in again and save once more."
        )
    participant = _PARTICIPANT.fullmatch(cell("moodle"))
    numbers = {
        "login": cell("login"),
        "canvas": cell("canvas"),
        "moodle": participant[1] if participant else cell("moodle"),
        "github": cell("github").removeprefix("https://github.com/").removeprefix("@").strip("/"),
    }
    student = Student(
        id=number,
        name=cell("name") or f"{cell('first')} {cell('last')}".strip(),
        email=cell("email"),
        team=cell("team"),
        extra_days=_days(cell("extra_days"), row, "extra days") or 0.0,
        columns=tuple((title, value) for title, value in zip(header, row.cells, strict=True) if title),
    )
    return Entry(
        student,
        {system: value for system, value in numbers.items() if value},
        late_days=_days(cell("late_days"), row, "late days"),
        submitted_at=_moment(cell("submitted_at"), row),
    )


def _days(text: str, row: Row, what: str) -> float | None:
    if text in ("", "-"):
        return None
    try:
        days = float(text.replace(",", "."))
    except ValueError:
        days = math.nan
    if not 0 <= days <= MOST_DAYS:
        raise RosterError(
            f"The roster has the {what} `{safe_line(text, 40)}` in line {row.number}. Give a number of days, such as 2 "
            "or 0.5, or nothing."
        )
    return days


def _moment(text: str, row: Row) -> datetime | None:
    if text in ("", "-"):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        pass
    for form in _DATES:
        try:
            return datetime.strptime(text, form)
        except ValueError:
            continue
    raise RosterError(
        f"The roster has the time `{safe_line(text, 40)}` in line {row.number}. Write it as 2026-05-03 14:00."
    )
