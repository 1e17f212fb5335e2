"""Points that changed though the work is the same: an upgrade in the middle of a term must not change them silently."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lockstep.classroom.gradebook import POINTS, Gradebook, open_gradebook
from lockstep.classroom.handin import HandIn
from lockstep.classroom.people import Student
from lockstep.classroom.record import Override
from lockstep.classroom.turned import told, turned
from lockstep.result import CheckResult
from lockstep.verdict import Verdict

ANN, BEN = Student("ann", "Ann"), Student("ben", "Ben")


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Gradebook]:
    with open_gradebook(tmp_path / "gradebook.db") as book:
        book.enroll([ANN, BEN])
        yield book


def _grade(book: Gradebook, student: Student, points: float, work: str = "w", graders: str = "old") -> None:
    handin = book.receive(HandIn(student, None, "work.zip"), work)
    attempt = book.begin(handin, {"ex": graders}, seed=1).id
    verdict = Verdict.PASSED if points == 2.0 else Verdict.FAILED
    book.write_check(attempt, "ex", 0, CheckResult("one", verdict, points, 2.0))
    book.end(attempt)


def test_other_points_for_the_same_work_are_told_once(book: Gradebook) -> None:
    _grade(book, ANN, 2.0)
    _grade(book, BEN, 1.0)
    assert turned(book) == ()
    _grade(book, ANN, 1.5, graders="new")
    _grade(book, BEN, 1.0, graders="new")
    found = turned(book)
    assert told(found, {"ann": "Ann Abe"}) == ["Ann Abe: ex was 2, now 1.5"]
    assert turned(book) == ()


def test_other_work_and_what_people_decide_are_no_news(book: Gradebook) -> None:
    _grade(book, ANN, 1.0)
    turned(book)
    book.override("ann", Override("ex", "one", 2.0, "", "Kim", ""))
    book.override("ann", Override("later", "", 1.0, "", "Kim", ""))
    assert turned(book) == ()
    _grade(book, ANN, 2.0, work="other")
    assert turned(book) == ()


def test_of_who_is_removed_nothing_is_kept_and_who_is_another_has_what_they_had(book: Gradebook) -> None:
    for student in (ANN, BEN, Student("lab one")):
        book.enroll([student])
        _grade(book, student, 2.0, work=student.id)
    turned(book)
    book.remove(["ben"])
    assert set(book.recall(POINTS)) == {"ann", "lab one"}
    book.enroll([Student("m7", "Eve")])
    book.adopt("lab one", "m7")
    _grade(book, Student("m7"), 1.0, work="lab one", graders="new")
    assert turned(book) == (("m7", "ex was 2, now 1"),)
    # A gradebook of before, which forgot it of nobody.
    book.remember(POINTS, {**book.recall(POINTS), "gone": {"work": "w", "points": {}}})
    turned(book)
    assert set(book.recall(POINTS)) == {"ann", "m7"}


def test_who_was_away_for_a_while_is_compared_with_what_they_had(book: Gradebook) -> None:
    _grade(book, ANN, 2.0)
    _grade(book, BEN, 2.0)
    turned(book)
    book.enroll([BEN], everybody=True)
    _grade(book, ANN, 1.0, graders="new")
    assert turned(book) == ()
    book.enroll([ANN, BEN], everybody=True)
    assert turned(book) == (("ann", "ex was 2, now 1"),)
