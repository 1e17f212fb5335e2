"""The gradebook: what was written stays, what a person said stays, and the newest grading counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lockstep.classroom.gradebook import Gradebook, GradebookError, open_gradebook
from lockstep.classroom.handin import HandIn
from lockstep.classroom.latepolicy import LatePolicy
from lockstep.classroom.people import Student
from lockstep.classroom.record import Flag, Mark, Override
from lockstep.result import CheckResult, Review
from lockstep.verdict import Verdict

ADA = Student("a1", "Ada", "ada@example.org", team="t1", columns=(("SIS Login ID", "ada"),))


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Gradebook]:
    with open_gradebook(tmp_path / "gradebook.db") as book:
        book.enroll([ADA])
        yield book


def _passed(name: str, points: float = 2.0) -> CheckResult:
    return CheckResult(name, Verdict.PASSED, points, points)


def _failed(name: str, points: float = 2.0) -> CheckResult:
    return CheckResult(
        name, Verdict.FAILED, 0.0, points, "seen 3, expected 4", "count again", 0.5, cpu_seconds=0.4
    )


def _handin(book: Gradebook, digest: str = "d1", late_days: float | None = None) -> int:
    return book.receive(HandIn(ADA, Path("work"), "work.zip", late_days), digest, ["a note"])


def _grade(
    book: Gradebook, handin: int, *results: CheckResult, exercise: str = "ex", fingerprint: str = "f"
) -> int:
    attempt = book.begin(handin, {exercise: fingerprint}, seed=7)
    for position, result in enumerate(results):
        book.write_check(attempt.id, exercise, position, result)
    book.end(attempt.id)
    return attempt.id


def _fingerprints(book: Gradebook) -> dict[str, str]:
    """Of the exercises that need not be graded again."""
    graded = book.received()[ADA.id].graded
    return {name: grading.fingerprint for name, grading in graded.items() if not grading.faulty}


def test_what_was_graded_is_read_back(book: Gradebook) -> None:
    _grade(book, _handin(book), _passed("one"), _failed("two"))
    (record,) = book.records()
    assert record.student == ADA
    assert record.notes == ("a note",)
    assert record.exercises[0].checks == (_passed("one"), _failed("two"))
    assert (record.raw_points, record.max_points, record.final_points) == (2.0, 4.0, 2.0)
    assert record.attempt is not None
    assert record.attempt.seed == 7


def test_a_cut_off_attempt_goes_on_with_its_seed_and_its_checks(book: Gradebook) -> None:
    handin = _handin(book)
    first = book.begin(handin, {"ex": "f"}, seed=7)
    book.write_check(first.id, "ex", 0, _failed("one"))
    again = book.begin(handin, {"ex": "f"}, seed=8)
    assert (again.id, again.seed, again.done) == (first.id, 7, (("ex", _failed("one")),))


def test_an_attempt_that_ended_with_a_problem_goes_on_with_its_checks(book: Gradebook) -> None:
    handin = _handin(book)
    first = book.begin(handin, {"ex": "f"}, seed=7)
    book.write_check(first.id, "ex", 0, _failed("one"))
    book.end(first.id, "It took too long.")
    assert book.records()[0].exercises == ()
    again = book.begin(handin, {"ex": "f"}, seed=8)
    assert (again.id, again.seed, again.done) == (first.id, 7, (("ex", _failed("one")),))
    assert [attempt.state for attempt in book.attempts("a1")] == ["running"]


def test_an_attempt_that_takes_other_checks_over_is_another(book: Gradebook) -> None:
    handin = _handin(book)
    over = [("ex", 0, _passed("one")), ("ex", 2, _passed("three"))]
    first = book.begin(handin, {"ex": "f"}, seed=7, taken_over=over)
    assert first.done == (("ex", _passed("one")), ("ex", _passed("three")))
    assert book.begin(handin, {"ex": "f"}, seed=7, taken_over=over).id == first.id
    book.write_check(first.id, "ex", 1, _failed("two"))
    book.end(first.id)
    assert book.records()[0].exercises[0].checks == (_passed("one"), _failed("two"), _passed("three"))
    assert book.checks_of(first.id, "ex") == ((0, _passed("one")), (1, _failed("two")), (2, _passed("three")))
    cut_off = book.begin(handin, {"ex": "f"}, seed=7, taken_over=over[:1])
    assert book.begin(handin, {"ex": "f"}, seed=7).id not in (first.id, cut_off.id)


def test_a_cut_off_attempt_with_other_graders_is_dropped(book: Gradebook) -> None:
    handin = _handin(book)
    first = book.begin(handin, {"ex": "f"}, seed=7)
    again = book.begin(handin, {"ex": "other"}, seed=8)
    assert again.id != first.id
    assert again.done == ()
    assert [attempt.state for attempt in book.attempts("a1")] == ["dropped", "running"]


def test_an_attempt_that_runs_hides_nothing_that_was_graded(book: Gradebook) -> None:
    handin = _handin(book)
    _grade(book, handin, _passed("one"))
    book.begin(handin, {"ex": "other"}, seed=8)
    assert book.records()[0].raw_points == 2.0


def test_unchanged_work_is_known_by_its_fingerprints(book: Gradebook) -> None:
    handin = _handin(book)
    _grade(book, handin, _passed("one"), exercise="ex", fingerprint="f1")
    _grade(book, handin, _passed("two"), exercise="other", fingerprint="f2")
    assert _fingerprints(book) == {"ex": "f1", "other": "f2"}
    assert [exercise.id for exercise in book.records()[0].exercises] == ["ex", "other"]


def test_a_graders_fault_is_no_grade(book: Gradebook) -> None:
    handin = _handin(book)
    _grade(book, handin, CheckResult("one", Verdict.FAULT, 0.0, 2.0))
    assert _fingerprints(book) == {}


def test_what_could_not_be_graded_says_why_and_is_tried_again(book: Gradebook) -> None:
    handin = _handin(book)
    attempt = book.begin(handin, {"ex": "f"}, seed=1)
    book.end(attempt.id, "It is empty.")
    assert book.records()[0].problem == "It is empty."
    assert _fingerprints(book) == {}


def test_the_newest_work_counts_and_work_handed_in_again_keeps_its_grade(book: Gradebook) -> None:
    _grade(book, _handin(book, "d1"), _passed("one"))
    newer = _handin(book, "d2")
    assert book.records()[0].exercises == ()
    _grade(book, newer, _failed("one"))
    assert book.records()[0].raw_points == 0.0
    _handin(book, "d1")
    assert _fingerprints(book) == {"ex": "f"}
    assert book.records()[0].raw_points == 2.0
    assert len(book.attempts("a1")) == 2


def test_what_a_person_decided_survives_a_new_grading(book: Gradebook) -> None:
    handin = _handin(book)
    _grade(book, handin, _passed("one"), _failed("two"))
    book.override("a1", Override("ex", "two", 1.5, "half of it is right", "Kim", "2026-01-01T00:00:00+00:00"))
    book.mark("a1", Mark("ex", "Q1", 3.0, "well put", "Kim", "2026-01-01T00:00:00+00:00"))
    review = Review("Q1", "Why?", 4.0, "Because.", 1)
    answered = CheckResult("one", Verdict.PASSED, 2.0, 2.0, reviews=(review,))
    _grade(book, handin, answered, _failed("two"), fingerprint="g")
    (record,) = book.records()
    assert record.raw_points == 2.0 + 1.5 + 3.0
    assert record.max_points == 8.0
    assert record.reviews_of(record.exercises[0])[0].comment == "well put"
    assert record.exercises[0].points == 2.0, "what the graders gave is kept beside it"


def test_an_override_of_an_exercise_replaces_its_sum(book: Gradebook) -> None:
    _grade(book, _handin(book), _passed("one"), _failed("two"))
    book.override("a1", Override("ex", "", 3.25, "shown in the lab", "Kim", "2026-01-01T00:00:00+00:00"))
    assert book.records()[0].raw_points == 3.25
    assert book.withdraw_override("a1", "ex")
    assert not book.withdraw_override("a1", "ex")
    assert book.records()[0].raw_points == 2.0


def test_nobody_unknown_can_be_given_points(book: Gradebook) -> None:
    with pytest.raises(GradebookError, match="no student 'nobody'"):
        book.override("nobody", Override("ex", "", 1.0, "", "", ""))


@pytest.mark.parametrize(
    ("late_days", "extra_days", "penalty"),
    [
        (None, 0, 0),
        (0.0, 0, 0),
        (0.01, 0, 0),
        (0.5, 0, 1),
        (1.01, 0, 1),
        (2.5, 0, 3),
        (2.5, 2, 1),
        (9, 0, 5),
        (1, 3, 0),
    ],
)
def test_late_work_loses_a_part_for_each_day_begun(
    late_days: float | None, extra_days: float, penalty: float
) -> None:
    policy = LatePolicy(percent_per_day=10, max_percent=50, grace_days=0.02)
    assert policy.penalty(10.0, late_days, extra_days) == pytest.approx(penalty)


def test_flags_are_replaced_and_values_are_kept(book: Gradebook) -> None:
    book.set_flags({"a1": [Flag("hung", "ex", "rank 1 waits")]})
    book.set_flags({"a1": [Flag("copy", "ex", "equal readings", ("b2",))]})
    assert book.records()[0].flags == (Flag("copy", "ex", "equal readings", ("b2",)),)
    book.remember("title", {"a": 1})
    assert book.recall("title") == {"a": 1}
    assert book.recall("nothing") is None


def test_a_gradebook_of_another_format_is_refused(tmp_path: Path) -> None:
    with open_gradebook(tmp_path / "book.db") as book:
        book.remember("format", 99)
    with pytest.raises(GradebookError, match="format 99"):
        open_gradebook(tmp_path / "book.db")


def test_a_place_that_cannot_hold_a_gradebook_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(GradebookError, match="cannot be opened"):
        open_gradebook(tmp_path / "file" / "book.db")
    with pytest.raises(GradebookError, match="cannot be opened"):
        open_gradebook("nosuchdatabase://somewhere/book")
