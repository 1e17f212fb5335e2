"""Written answers as a table that a person fills in, and the way back: every row of it or none."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lockstep.classroom import rows
from lockstep.classroom.csvfile import CELL, ROUNDED, text_of, to_csv
from lockstep.classroom.decisions import DecisionError, refuse_odd
from lockstep.classroom.exports.cells import line
from lockstep.classroom.gradebook import Gradebook
from lockstep.classroom.record import Mark, Record, answer_key, in_class
from lockstep.classroom.sheet import Row, Sheet, SheetError, read_sheet
from lockstep.result import Review
from lockstep.text import safe, safe_line
from lockstep.wholefile import write_whole

COLUMNS = (
    "student", "exercise", "question", "title", "max_points", "answer", "numbers", "look_for",
    "points", "comment", "note", "key",
)  # fmt: skip
"""Of the table. `points` and `comment` are for the person; `key` says which answer it is, however a spreadsheet
changes the other cells."""

NEEDED = ("student", "exercise", "question", "points", "comment")

SHOWN = 20
"""Problems of one file that are told at a time."""

# In a country where the comma is the decimal mark a spreadsheet splits at semicolons and line ends, quoted or not.
_BEGINS_A_CELL = re.compile(r"([;\n](?:[^\S\n]|[\"'])*)(?=[=+\-@＝＋－＠])")
_KEY = re.compile(r"a[0-9a-f]{15}")
_NUMBER = re.compile(r"[0-9]{1,9}(?:[.,][0-9]{1,9})?")
_ELSEWHERE = "name another file, or move this one away."


class MarkingError(Exception):
    """A table that cannot be taken in; `problems` are sentences, with lines where they are about one."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True)
class Answer:
    """One student's answer to a question. `earlier` is what a person said about another answer to it.

    `is_held` says that a decision about the exercise as a whole holds, whatever the answer gets.
    """

    student: str
    exercise: str
    review: Review
    earlier: Mark | None = None
    is_held: bool = False

    @property
    def key(self) -> str:
        """See `answer_key`."""
        return answer_key(self.student, self.exercise, self.review)

    @property
    def place(self) -> tuple[str, str, str]:
        """Whose it is, and to what."""
        return self.student, self.exercise, self.review.question


@dataclass(frozen=True)
class Taken:
    """What came of reading a table: rows with points, with a comment only, and with nothing.

    `outdated` are about answers that their students have replaced since. `changed` had other points before. `held`
    names students and exercises with points as a whole, which hold whatever was given for answers.
    """

    marked: int = 0
    commented: int = 0
    empty: int = 0
    outdated: int = 0
    changed: int = 0
    held: tuple[str, ...] = ()


def answers(records: Sequence[Record]) -> Iterator[Answer]:
    """Every answer of a class, with the points and comments it has."""
    for record in records:
        marks = {(mark.exercise, mark.question): mark for mark in record.marks}
        for exercise in record.exercises:
            for review in record.reviews_of(exercise):
                mark = marks.get((exercise.id, review.question))
                key = answer_key(record.student.id, exercise.id, review)
                earlier = mark if mark is not None and mark.answer not in ("", key) else None
                yield Answer(record.student.id, exercise.id, review, earlier, record.is_held(exercise.id))


def waiting(records: Sequence[Record]) -> list[Answer]:
    """Answers that nobody has given points for, question by question: so one reads them evenly.

    Those are left out whose exercise has points as a whole: points for them would not count.
    """
    found = [answer for answer in answers(in_class(records)) if answer.review.waits and not answer.is_held]
    return sorted(
        found, key=lambda answer: (answer.exercise, _natural(answer.review.question), answer.student)
    )


def write_reviews(book: Gradebook, path: Path) -> int:
    """Write the answers that wait as a table, one row each, and return how many.

    What somebody has typed into a table of before is not written over until it is in the gradebook. Raises
    MarkingError, OSError and GradebookError.
    """
    records = book.records()
    _refuse_to_lose(records, path)
    found = waiting(records)
    write_whole(path, to_csv(COLUMNS, map(_row, found)))
    return len(found)


def _refuse_to_lose(records: Sequence[Record], path: Path) -> None:
    """Raise MarkingError for a file at `path` with points or comments that nobody has taken in."""
    if not path.is_file() or not path.stat().st_size:
        return
    try:
        sheet, titles = _sheet(path)
    except MarkingError as error:
        raise MarkingError(
            [*error.problems, f"{path} is there and not written over: {_ELSEWHERE}"]
        ) from error
    known = _Known(records)
    open_rows = [
        (row.number, cells["student"])
        for row, cells in ((row, _cells(row, titles)) for row in sheet.rows)
        if (cells["points"] or cells["comment"]) and not known.holds(cells)
    ]
    if open_rows:
        number, student = open_rows[0]
        many = f"{len(open_rows)} rows have" if len(open_rows) > 1 else "1 row has"
        raise MarkingError(
            [
                f"{path} is not written over: {many} points or a comment that the gradebook does not (line {number}, "
                f"{safe_line(student, 60)}). Take them in first, with --read; or {_ELSEWHERE}"
            ]
        )


def _row(answer: Answer) -> Sequence[object]:
    review = answer.review
    return (
        line(answer.student),
        answer.exercise,
        review.question,
        _cell(review.title),
        f"{review.max_points:g}",
        _cell(review.answer),
        _cell("\n".join(review.numbers)),
        _cell(review.look_for),
        None,
        _cell(review.comment),
        _cell(_note(answer)),
        answer.key,
    )


def _cell(text: str) -> str:
    """Text of several lines, none of which a spreadsheet computes; the first one `to_csv` guards."""
    return _BEGINS_A_CELL.sub(r"\1'", safe(text.strip(), CELL - 100))


def _note(answer: Answer) -> str:
    notes = [answer.review.duplicate or ""]
    if answer.earlier is not None and answer.earlier.points is not None:
        notes.append(f"an earlier answer had {answer.earlier.points:g} points: {answer.earlier.comment}")
    return "\n".join(filter(None, notes))


def read_reviews(book: Gradebook, path: Path, by: str, *, above_max: bool = False) -> Taken:
    """Take the points and comments in that a person wrote into the table: all rows or, where one is wrong, none.

    Rows without either are left as they are. A table of one's own needs the columns student, exercise, question,
    points and comment. Raises MarkingError and GradebookError.
    """
    sheet, titles = _sheet(path)
    found, problems = _rows(sheet, titles, _Known(book.records()), by, above_max)
    if problems:
        more = len(problems) - SHOWN
        raise MarkingError([*problems[:SHOWN], *([f"and {more} more"] if more > 0 else [])])
    book.mark_all((row.student, row.mark) for row in found if row.mark is not None)
    count = Counter(row.outcome for row in found)
    changed = sum(row.changed for row in found)
    held = tuple(dict.fromkeys(row.held for row in found if row.held))
    return Taken(count["marked"], count["commented"], count["empty"], count["outdated"], changed, held)


def _sheet(path: Path) -> tuple[Sheet, Sequence[str]]:
    """The table at `path`, and what its columns are called. Raises MarkingError where it is none of answers."""
    try:
        sheet = read_sheet(path)
    except SheetError as error:
        raise MarkingError([str(error)]) from error
    titles = [title.casefold() for title in sheet.header]
    if missing := [name for name in NEEDED if name not in titles]:
        raise MarkingError(
            [f"{path.name} has no column {', '.join(missing)}; it has {', '.join(sheet.header)}."]
        )
    return sheet, titles


def _cells(row: Row, titles: Sequence[str]) -> Mapping[str, str]:
    return {title: text_of(cell) for title, cell in zip(titles, row.cells, strict=True)}


@dataclass(frozen=True)
class _Read:
    """One row as it was understood: the field of `Taken` it counts for, and what there is to write down."""

    outcome: str
    student: str = ""
    mark: Mark | None = None
    changed: bool = False
    held: str = ""


class _Known:
    """The answers of a class as they are now, to be found by key or by place."""

    def __init__(self, records: Sequence[Record]) -> None:
        found = list(answers(records))
        self.by_key: Mapping[str, Answer] = {answer.key: answer for answer in found}
        self.by_place: Mapping[tuple[str, str, str], Answer] = {answer.place: answer for answer in found}
        self.students = {record.student.id for record in records}
        self.marks: Mapping[tuple[str, str, str], Mark] = {
            (record.student.id, mark.exercise, mark.question): mark
            for record in records
            for mark in record.marks
        }

    def holds(self, cells: Mapping[str, str]) -> bool:
        """Whether the gradebook has the points and the comment of a row, about the answer that was read."""
        try:
            answer, key = self.find(cells)
        except DecisionError:
            return False
        mark = self.marks.get(answer.place)
        if mark is None or mark.answer not in ("", key):
            return False
        is_points = not cells["points"] or (
            bool(_NUMBER.fullmatch(cells["points"])) and _points(cells["points"]) == mark.points
        )
        said = cells["comment"].split()
        return is_points and (not said or said in (mark.comment.split(), _cell(mark.comment).split()))

    def find(self, cells: Mapping[str, str]) -> tuple[Answer, str]:
        """The answer that a row is about, and the key of the one that was read. Raises DecisionError."""
        student, exercise, question = cells["student"], cells["exercise"], cells["question"]
        key = cells.get("key", "")
        if key and not _KEY.fullmatch(key):
            raise DecisionError(f"its key {key!r} was changed; leave that column as it is, or empty")
        if ROUNDED.fullmatch(student) and student not in self.students:
            raise DecisionError(
                f"a spreadsheet has rounded the student {student!r}: format that column as text and put the id in again"
            )
        found = self.by_key.get(key) or self.by_place.get((self._student(student), exercise, question))
        if found is None:
            raise DecisionError(f"{student!r} has no answer to {exercise}/{question}")
        if not _same_id(student, found.student) or (exercise, question) != found.place[1:]:
            raise DecisionError(
                f"its key is of {found.student}, {found.exercise}/{found.review.question}, and it says {student}, "
                f"{exercise}/{question}: was one column sorted and not the others?"
            )
        return found, key or found.key

    def _student(self, cell: str) -> str:
        if cell in self.students:
            return cell
        alike = [student for student in self.students if _same_id(cell, student)]
        if len(alike) != 1:
            raise DecisionError(f"the gradebook knows no student {cell!r}")
        return alike[0]


def _same_id(cell: str, student: str) -> bool:
    """Whether a cell is an id, perhaps one that a spreadsheet took for a number and cut zeros off."""
    if cell.isdecimal() and student.isdecimal():
        return cell.lstrip("0") == student.lstrip("0")
    return cell in (student, safe_line(student, CELL), line(student))


def _rows(
    sheet: Sheet, titles: Sequence[str], known: _Known, by: str, above_max: bool
) -> tuple[list[_Read], list[str]]:
    found: list[_Read] = []
    problems: list[str] = []
    lines: dict[tuple[str, str, str], int] = {}
    for row in sheet.rows:
        cells = _cells(row, titles)
        try:
            read = _row_read(cells, known, by, above_max)
            if read.mark is not None:
                place = (read.student, read.mark.exercise, read.mark.question)
                first = lines.setdefault(place, row.number)
                if first != row.number:
                    raise DecisionError(f"line {first} is about the same answer")
            found.append(read)
        except DecisionError as error:
            whose = f"{cells['student']}, {cells['exercise']}/{cells['question']}"
            problems.append(f"line {row.number} ({safe_line(whose, 100)}): {error}")
    return found, problems


def _row_read(cells: Mapping[str, str], known: _Known, by: str, above_max: bool) -> _Read:
    if not cells["points"] and not cells["comment"]:
        return _Read("empty")
    answer, key = known.find(cells)
    before = answer.review.points
    points = before  # a comment alone takes none away
    if cells["points"]:
        if not _NUMBER.fullmatch(cells["points"]):
            raise DecisionError(f"{cells['points']!r} is no number of points")
        points = _points(cells["points"])
        refuse_odd(points, answer.review.max_points, above_max)
    earlier = answer.earlier
    if points is None and key != answer.key and earlier is not None and earlier.answer == key:
        points = earlier.points
    mark = Mark(answer.exercise, answer.review.question, points, cells["comment"], by, rows.now(), key)
    if key != answer.key:
        # What was said of an answer that is no more helps whoever reads the next; it never replaces what counts, and
        # a comment alone never the points that another answer keeps for when it is handed in again.
        counts = before is not None or (points is None and earlier is not None and earlier.points is not None)
        return _Read("outdated", answer.student, None if counts else mark)
    outcome = "marked" if cells["points"] else "commented"
    changed = before is not None and before != points
    held = f"{answer.student}, {answer.exercise}" if answer.is_held and cells["points"] else ""
    return _Read(outcome, answer.student, mark, changed, held)


def _points(cell: str) -> float:
    return float(cell.replace(",", "."))


def _natural(name: str) -> tuple[str, int, str]:
    """Q2 before Q10."""
    digits = re.search(r"[0-9]+", name)
    return (name[: digits.start()], int(digits[0]), name) if digits else (name, 0, name)
