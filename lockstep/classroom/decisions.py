"""What a person decides about points, against what the graders said: kept beside theirs, through every grading.

Marks for written answers are decisions as well; whoever has many of them to give writes them into a table: see
`lockstep.classroom.marking`.
"""

from __future__ import annotations

import getpass
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from lockstep import terminal
from lockstep.classroom import rows
from lockstep.classroom.catalogue import ExerciseTitle
from lockstep.classroom.exports.grade import scale
from lockstep.classroom.gradebook import Gradebook, GradebookError, open_gradebook
from lockstep.classroom.people import Student
from lockstep.classroom.record import Mark, Override, Record, answer_key
from lockstep.classroom.renewal import renew
from lockstep.result import Review
from lockstep.terminal import of_points
from lockstep.text import safe_line

DONE, REFUSED = 0, 2


class DecisionError(Exception):
    """A decision that cannot be taken; the message is a sentence that says what can."""


@dataclass(frozen=True)
class Subject:
    """What a decision is about: an exercise, one of its checks, or with `review` an answer in it.

    `max_points` are what it can give, `points` what it gives now.
    """

    student: Student
    exercise: str
    check: str
    review: Review | None
    points: float
    max_points: float

    @property
    def name(self) -> str:
        """As on the command line."""
        part = self.review.question if self.review is not None else self.check
        return f"{self.exercise}/{part}" if part else self.exercise


def override(
    book: Gradebook,
    student: str,
    what: str,
    points: float | None,
    comment: str,
    by: str,
    *,
    above_max: bool = False,
) -> Subject:
    """Give a student points, or with None only a comment, for `exercise`, `exercise/check` or `exercise/question`.

    `student` is an id, or a name or an e-mail address that only one student has. More points than there are for it
    are a slip of the hand unless `above_max` says otherwise. Returns what it was before. Raises DecisionError.
    """
    subject = find_subject(book, student, what)
    if points is None and not comment:
        raise DecisionError("neither points nor a comment: there is nothing to write down")
    if points is not None:
        refuse_odd(points, subject.max_points, above_max)
    if subject.review is None:
        decided = Override(subject.exercise, subject.check, points, comment, by, rows.now())
        book.override(subject.student.id, decided)
    else:
        key = answer_key(subject.student.id, subject.exercise, subject.review)
        mark = Mark(subject.exercise, subject.review.question, points, comment, by, rows.now(), key)
        book.mark(subject.student.id, mark)
    return subject


def withdraw(book: Gradebook, student: str, what: str) -> Subject:
    """Take back what was decided, so that the graders' points count again. Returns what it was before.

    Raises DecisionError where nothing was decided.
    """
    found = find_student(book, student)
    exercise, _, part = what.partition("/")
    # Asked of the gradebook, not of the catalogue: also for a check that is no more.
    subject = _known(book, found, exercise, part)
    if not (
        book.withdraw_override(found.id, exercise, part)
        or (part and book.withdraw_mark(found.id, exercise, part))
    ):
        raise DecisionError(f"nobody has decided anything about {what} of {found.shown}")
    return subject


def refuse_odd(points: float, max_points: float, above_max: bool) -> None:
    """Raise DecisionError for points that cannot be meant."""
    if not math.isfinite(points) or points < 0:
        raise DecisionError(f"{points:g} points cannot be given: it must be a number from 0 on")
    if points > max_points and not above_max:
        raise DecisionError(
            f"{points:g} is more than the {max_points:g} points there are for it; --above-max gives them all the same"
        )


def find_student(book: Gradebook, text: str) -> Student:
    """The student with this id, or the only one with this name or e-mail address. Raises DecisionError."""
    students = book.students()
    for student in students:
        if student.id == text:
            return student
    wanted = text.casefold().strip()
    alike = [
        student
        for student in students
        if wanted and wanted in {student.name.casefold(), student.email.casefold()}
    ]
    if len(alike) == 1:
        return alike[0]
    if alike:
        raise DecisionError(
            f"{text!r} are {len(alike)} students: say {_or([student.id for student in alike])}"
        )
    raise DecisionError(
        f"the gradebook knows no student {text!r}; say the id, the name or the e-mail address"
    )


def find_subject(book: Gradebook, student: str, what: str) -> Subject:
    """What `exercise`, `exercise/check` or `exercise/question` of a student stands for. Raises DecisionError."""
    found = find_student(book, student)
    known = {exercise.id: exercise for exercise in book.catalogue()}
    exercise, _, part = what.partition("/")
    if exercise not in known:
        there_are = f"there are {_or(list(known))}" if known else "nothing has been graded yet"
        raise DecisionError(f"the gradebook knows no exercise {exercise!r}; {there_are}")
    subject = _known(book, found, exercise, part)
    if subject.review is None and part and part not in {check.id for check in known[exercise].checks}:
        record = book.record(found.id)
        questions = [review.question for review in _reviews(record, exercise)]
        parts = [*(check.id for check in known[exercise].checks), *questions]
        raise DecisionError(f"{exercise} has no {part!r}; it has {_or(parts)}")
    return subject


def _known(book: Gradebook, student: Student, exercise: str, part: str) -> Subject:
    record = book.record(student.id)
    graded = next((item for item in record.exercises if item.id == exercise), None)
    title = next((item for item in book.catalogue() if item.id == exercise), ExerciseTitle(exercise, "", ()))
    if not part:
        points = 0.0 if graded is None else record.points_of(graded)
        most = _most(book, title) if graded is None else record.max_points_of(graded)
        return Subject(student, exercise, "", None, points, most)
    if graded is not None:
        for check in graded.checks:
            if check.id == part:
                points = record.points_of_check(exercise, check)
                return Subject(student, exercise, part, None, points, check.max_points)
        for review in record.reviews_of(graded):
            if review.question == part:
                return Subject(student, exercise, "", review, review.points or 0.0, review.max_points)
    most = next((check.max_points for check in title.checks if check.id == part), 0.0)
    return Subject(student, exercise, part, None, 0.0, most)


def _most(book: Gradebook, title: ExerciseTitle) -> float:
    """The points of an exercise as the class was graded."""
    return scale(book.records(), book.catalogue()).exercises.get(title.id, title.max_points)


def _reviews(record: Record, exercise: str) -> Sequence[Review]:
    return [review for item in record.exercises if item.id == exercise for review in record.reviews_of(item)]


def _or(names: Sequence[str]) -> str:
    shown = [safe_line(name, 60) for name in names[:20]]
    more = [f"{len(names) - 20} more"] if len(names) > 20 else []
    return ", ".join([*shown, *more])


def user() -> str:
    """Who decides, unless they say another name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return ""


def run_override(
    *,
    gradebook: str,
    student: str | None,
    what: str | None,
    points: float | None,
    comment: str,
    by: str,
    withdraw: bool,
    above_max: bool,
) -> int:
    """`lockstep override`: decide, take back, or with no student list what was decided. Returns the exit status."""
    out = terminal.console_for(sys.stdout)
    try:
        with open_gradebook(gradebook, create=False) as book:
            if student is None and not (points is not None or comment or withdraw):
                out.print(_listed(book.records(), book.catalogue()))
                return DONE
            if student is None or what is None:
                missing = "whose work and which exercise" if student is None else "which exercise"
                raise DecisionError(
                    f"say {missing} it is about: {_or([item.id for item in book.catalogue()])}"
                )
            if withdraw:
                before = _withdrawn(book, student, what, points, comment)
            else:
                before = override(book, student, what, points, comment, by or user(), above_max=above_max)
            out.print(_told(before, book.record(before.student.id)), soft_wrap=True)
            out.print(Text(renew(book, gradebook)), soft_wrap=True)
            return DONE
    except (DecisionError, GradebookError) as refusal:
        terminal.complain(str(refusal))
        return REFUSED


def _withdrawn(book: Gradebook, student: str, what: str, points: float | None, comment: str) -> Subject:
    if points is not None or comment:
        raise DecisionError("what is withdrawn takes neither points nor a comment")
    return withdraw(book, student, what)


def _told(before: Subject, record: Record) -> Text:
    """What changed, in one line."""
    graded = next((item for item in record.exercises if item.id == before.exercise), None)
    now = before.points
    if before.review is not None:
        marked = {review.question: review for review in _reviews(record, before.exercise)}
        now = marked[before.review.question].points or 0.0
    elif graded is None:
        now = 0.0
    elif before.check:
        checks = {check.id: record.points_of_check(graded.id, check) for check in graded.checks}
        now = checks.get(before.check, 0.0)
    else:
        now = record.points_of(graded)
    change = f"{before.points:g}, now {of_points(now, before.max_points)}"
    is_part = before.check or before.review is not None
    held = (
        f" The points that {safe_line(before.exercise)} was given as a whole hold, whatever its parts get."
        if is_part and record.is_held(before.exercise)
        else ""
    )
    return Text(
        f"{safe_line(before.student.shown)}: {safe_line(before.name)} was {change}; "
        f"in all {of_points(record.final_points, record.max_points)}.{held}"
    )


def _listed(records: Sequence[Record], catalogue: Sequence[ExerciseTitle]) -> Table | Text:
    known = {(exercise.id, check.id) for exercise in catalogue for check in exercise.checks}
    known |= {(exercise.id, "") for exercise in catalogue}
    grid = Table("student", "what", "points", "by", "comment", box=None, pad_edge=False)
    for record in records:
        for item in record.overrides:
            gone = "" if (item.exercise, item.check) in known else " (no longer graded)"
            what = f"{item.exercise}/{item.check}" if item.check else item.exercise
            _add(grid, record, f"{what}{gone}", item)
        for mark in record.marks:
            read = {
                answer_key(record.student.id, mark.exercise, review)
                for review in _reviews(record, mark.exercise)
                if review.question == mark.question
            }
            old = " (an earlier answer)" if mark.answer and mark.answer not in read else ""
            _add(grid, record, f"{mark.exercise}/{mark.question}{old}", mark)
    return grid if grid.row_count else Text("Nobody has decided anything yet.")


def _add(grid: Table, record: Record, what: str, item: Override | Mark) -> None:
    points = "" if item.points is None else f"{item.points:g}"
    said = (record.student.shown, what, points, item.by, item.comment)
    grid.add_row(*(Text(safe_line(cell, 300)) for cell in said))
