"""The gradebook: what was written stays, what a person said stays, and the newest grading counts.

`make postgres` runs these tests in PostgreSQL as well: see test_gradebook_postgres.py.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lockstep.classroom.catalogue import CheckTitle, ExerciseTitle
from lockstep.classroom.exports.grade import scale
from lockstep.classroom.gradebook import Gradebook, GradebookError, open_gradebook
from lockstep.classroom.handin import HandIn, Unmatched
from lockstep.classroom.latepolicy import LatePolicy
from lockstep.classroom.people import Student
from lockstep.classroom.record import Flag, Mark, Override, answer_key
from lockstep.result import CheckResult, Review
from lockstep.verdict import Verdict
from tests.gradebook_child import SECONDS, child

ADA = Student("a1", "Ada", "ada@example.org", team="t1", columns=(("SIS Login ID", "ada"),))


@pytest.fixture
def place(tmp_path: Path) -> str:
    """Where there is room for a gradebook."""
    return str(tmp_path / "gradebook.db")


@pytest.fixture
def book(place: str) -> Iterator[Gradebook]:
    with open_gradebook(place) as book:
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


def test_only_the_exercise_whose_last_attempt_failed_is_tried_again(book: Gradebook) -> None:
    handin = _handin(book)
    _grade(book, handin, _passed("one"), exercise="ex")
    _grade(book, handin, _passed("two"), exercise="other")
    failed = book.begin(handin, {"ex": "f"}, seed=1)
    book.end(failed.id, "It took too long.")
    _grade(book, handin, _passed("two"), exercise="other")
    graded = book.received()[ADA.id].graded
    assert {name: grading.failed_since for name, grading in graded.items()} == {"ex": True, "other": False}
    _grade(book, handin, _passed("one"), exercise="ex")
    assert not book.received()[ADA.id].graded["ex"].failed_since


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


def test_flags_are_replaced_and_values_are_kept(book: Gradebook) -> None:
    book.set_flags({"a1": [Flag("hung", "ex", "rank 1 waits")]})
    book.set_flags({"a1": [Flag("copy", "ex", "equal readings", ("b2",))]})
    assert book.records()[0].flags == (Flag("copy", "ex", "equal readings", ("b2",)),)
    book.remember("title", {"a": 1})
    assert book.recall("title") == {"a": 1}
    assert book.recall("nothing") is None


@pytest.mark.parametrize(("found", "advice"), [(99, "update lockstep"), (0, "the version that wrote it")])
def test_a_gradebook_of_another_format_is_refused(place: str, found: int, advice: str) -> None:
    with open_gradebook(place) as book:
        book.remember("format", found)
    with pytest.raises(GradebookError, match=f"format {found} .* {advice}"):
        open_gradebook(place)


def test_a_gradebook_that_must_be_there_is_not_made(place: str) -> None:
    for _ in range(2):
        with pytest.raises(GradebookError, match="gradebook"):
            open_gradebook(place, create=False)
    open_gradebook(place).close()
    open_gradebook(place, create=False).close()


def test_one_student_is_read_as_in_the_class(book: Gradebook) -> None:
    book.enroll([Student("b2", "Bob")])
    _grade(book, _handin(book), _passed("one"), _failed("two"))
    book.override("a1", Override("ex", "two", 1.5, "", "Kim", ""))
    assert [book.record("a1"), book.record("b2")] == list(book.records())
    with pytest.raises(GradebookError, match="no student 'c3'"):
        book.record("c3")


def test_of_each_exercise_the_newest_grading_counts(book: Gradebook) -> None:
    handin = _handin(book)
    _grade(book, handin, _passed("one"), exercise="b", fingerprint="f1")
    _grade(book, handin, _failed("two"), _passed("three"), exercise="a", fingerprint="f2")
    _grade(book, handin, _failed("one"), exercise="b", fingerprint="f3")
    (record,) = book.records()
    assert [(exercise.id, exercise.checks) for exercise in record.exercises] == [
        ("a", (_failed("two"), _passed("three"))),
        ("b", (_failed("one"),)),
    ]
    assert _fingerprints(book) == {"a": "f2", "b": "f3"}


def test_points_are_sums_that_compare_equal(book: Gradebook) -> None:
    _grade(book, _handin(book), _passed("one", 0.1), _passed("two", 0.2))
    (record,) = book.records()
    assert record.raw_points == record.max_points == record.points_of(record.exercises[0]) == 0.3


def test_a_person_gives_points_for_what_was_never_handed_in(book: Gradebook) -> None:
    checks = (CheckTitle("one", "First.", 2.0), CheckTitle("two", "Second.", 3.0))
    book.remember_catalogue([ExerciseTitle("ex", "An exercise", checks)])
    book.override("a1", Override("ex", "two", 2.5, "shown in the lab", "Kim", ""))
    (record,) = book.records()
    assert not record.handed_in
    assert (record.raw_points, record.max_points) == (2.5, 5.0)
    assert {check.verdict for check in record.exercises[0].checks} == {Verdict.NOT_CHECKED}
    book.override("a1", Override("ex", "", 4.0, "", "Kim", ""))
    assert book.records()[0].raw_points == 4.0


def test_questions_count_whoever_has_answered_them(book: Gradebook) -> None:
    title = ExerciseTitle("ex", "Answers", (CheckTitle("one", "There are answers.", 0.0),), 4.0)
    book.remember_catalogue([title])
    assert book.catalogue() == (title,)
    book.enroll([Student("a2"), Student("a3")])
    none = replace(_failed("one"), points=0.0, max_points=0.0)
    _grade(book, _handin(book), none)
    assert book.record("a1").max_points == 4.0
    assert scale(book.records(), book.catalogue()).max_points == 4.0
    other = book.receive(HandIn(Student("a2"), Path("work"), "work.zip"), "d2")
    _grade(book, other, replace(none, reviews=(Review("Q1", "Why?", 4.0, "Because."),)))
    book.override("a3", Override("ex", "", 3.0, "by word of mouth", "Kim", ""))
    assert [record.max_points for record in book.records()] == [4.0, 4.0, 4.0]
    assert scale(book.records(), book.catalogue()).max_points == 4.0


def test_a_mark_says_nothing_about_an_answer_written_later(book: Gradebook) -> None:
    def grade(text: str, fingerprint: str) -> Review:
        review = Review("Q1", "Why?", 4.0, text)
        answered = replace(_passed("one"), reviews=(review,))
        _grade(book, _handin(book, text), answered, fingerprint=fingerprint)
        return review

    first = grade("Because.", "f")
    book.mark("a1", Mark("ex", "Q1", 3.0, "well put", "Kim", "", answer_key("a1", "ex", first)))
    grade("Because.", "g")
    assert (book.records()[0].raw_points, book.records()[0].waiting_reviews) == (5.0, 0)
    grade("Because of it.", "g")
    assert (book.records()[0].raw_points, book.records()[0].waiting_reviews) == (2.0, 1)
    grade("Because.", "g")
    assert (book.records()[0].raw_points, book.records()[0].waiting_reviews) == (5.0, 0)


def test_the_late_policy_is_remembered(book: Gradebook) -> None:
    assert book.policy() == LatePolicy()
    policy = LatePolicy(10.0, 50.0, 0.25, datetime(2026, 5, 1, 23, 59, tzinfo=UTC))
    _grade(book, _handin(book, late_days=2.0), _passed("one"))
    book.remember_policy(policy)
    assert book.policy() == policy
    assert book.records()[0].penalty == 0.4
    assert book.record("a1").final_points == 1.6
    assert book.records(LatePolicy())[0].penalty == 0.0


def test_students_are_written_down_anew_and_the_others_stay(book: Gradebook) -> None:
    book.enroll([])
    book.enroll([replace(ADA, name="Ada L.", extra_days=2.0), Student("b2", "Bob", enrolled=False)])
    assert [record.student for record in book.records()] == [
        replace(ADA, name="Ada L.", extra_days=2.0),
        Student("b2", "Bob", enrolled=False),
    ]


HOSTILE = [
    "\0",
    "\udcff",
    "\ufdd0",
    "\ufdd00000",
    "\ufffd",
    "",
    "%",
    "'; DROP TABLE students; --",
    "\\",
    "ﷺ🏳️‍🌈\u202e",
]


def test_names_that_no_database_takes_come_back_as_they_were(book: Gradebook) -> None:
    ids = [f"a{text}b" for text in HOSTILE]
    students = [Student(name, name, name, team=name, columns=((name, name),)) for name in ids]
    book.enroll(students)
    for student in students:
        problem = f"It is {student.id}."
        handin = book.receive(HandIn(student, None, student.id, problem=problem, notes=(student.id,)), "d")
        review = Review(student.id, student.id, 1.0, student.id, numbers=(student.id,))
        result = replace(_failed("one"), message=student.id, hint=student.id, reviews=(review,))
        _grade(book, handin, result)
        book.override(student.id, Override("ex", "one", 1.0, student.id, student.id, ""))
        book.mark(student.id, Mark("ex", student.id, 1.0, student.id, student.id, ""))
    book.set_flags({name: [Flag("copy", name, name, tuple(ids))] for name in ids})
    book.list_unmatched([Unmatched(name, name) for name in ids])
    found = {record.student.id: record for record in book.records() if record.student != ADA}
    assert found.keys() == set(ids)
    for name, record in found.items():
        assert (record.label, record.student.team, record.student.columns) == (name, name, ((name, name),))
        assert record.raw_points == 2.0
        assert record.exercises[0].reviews[0].answer == name
        assert record.flags[0].others == tuple(ids)
        assert book.record(name) == record
        shown = name.replace("\0", "\ufffd").replace("\udcff", "\ufffd")
        assert (record.problem, record.student.name) == (f"It is {shown}.", shown)
        assert record.exercises[0].checks[0].message == shown
    assert [item.label for item in book.unmatched()] == ids


def test_long_texts_and_large_seeds_are_kept_whole(book: Gradebook) -> None:
    message, seed = "ß" * 1_000_000, 2**70
    attempt = book.begin(_handin(book), {"ex": "f"}, seed=seed, versions={"torch": message})
    book.write_check(attempt.id, "ex", 0, replace(_failed("one"), message=message))
    book.end(attempt.id)
    (record,) = book.records()
    assert record.exercises[0].checks[0].message == message
    assert record.attempt is not None
    assert (record.attempt.seed, record.attempt.versions) == (seed, {"torch": message})


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_no_sum_is_spoiled_by_what_is_no_number(book: Gradebook, number: float) -> None:
    attempt = book.begin(_handin(book), {"ex": "f"}, seed=1)
    review = Review("Q1", "Why?", number)
    for result in (_passed("one", number), replace(_passed("one"), reviews=(review,))):
        with pytest.raises(GradebookError, match="cannot be written"):
            book.write_check(attempt.id, "ex", 0, result)
    with pytest.raises(GradebookError, match="no finite number"):
        book.override("a1", Override("ex", "", number, "", "", ""))
    with pytest.raises(GradebookError, match="no finite number"):
        _handin(book, late_days=number)
    assert book.records()[0].raw_points == 0.0


def test_many_marks_are_written_together_or_not_at_all(book: Gradebook) -> None:
    mark = Mark("ex", "Q1", 1.0, "", "Kim", "")
    with pytest.raises(GradebookError, match="no student 'nobody'"):
        book.mark_all([("a1", mark), ("nobody", mark)])
    assert book.records()[0].marks == ()
    book.mark_all([("a1", mark), ("a1", replace(mark, points=2.0))])
    assert book.records()[0].marks == (replace(mark, points=2.0),)


def test_what_was_written_survives_a_kill_at_any_moment(place: str) -> None:
    written = 0
    moments = random.Random(20)
    for _ in range(3):
        with child(place, "write_checks") as process:
            assert process.stdout is not None
            for _ in range(moments.randrange(1, 60)):
                written = int(process.stdout.readline())
            process.kill()
            rest = process.stdout.read().split("\n")
        # The last line may have been cut off, and of the last check the word that it was written.
        written = max([written, *map(int, rest[:-1])])
        with open_gradebook(place) as book:
            begun = book.begin(book.received()["a1"].id, {"ex": "f"}, seed=99)
            assert begun.seed == 0
            checks = [check.id for _, check in begun.done]
            assert checks == [f"check_{position}" for position in range(len(checks))]
            assert written + 1 <= len(checks) <= written + 2


def test_a_person_decides_while_a_class_is_graded(book: Gradebook, place: str) -> None:
    with child(place, "write_checks") as process:
        assert process.stdout is not None
        process.stdout.readline()
        for count in range(10):
            book.override("a1", Override("ex", f"check_{count}", 1.5, "", "Kim", ""))
            assert len(book.records()[0].overrides) == count + 1
        book.enroll([Student(f"s{count}") for count in range(300)])
        before = process.poll()
        process.kill()
        assert len(process.stdout.read().splitlines()) > 10
        assert before is None, process.stderr and process.stderr.read()


def test_several_people_begin_a_gradebook_and_decide_at_the_same_moment(place: str) -> None:
    with ExitStack() as stack:
        people = [stack.enter_context(child(place, "decide", number)) for number in range(3)]
        for person in people:
            _, errors = person.communicate(timeout=SECONDS)
            assert (person.returncode, errors) == (0, "")
    with open_gradebook(place) as book:
        (record,) = book.records()
        assert len(record.overrides) == 15
        assert len(record.marks) == 1


def test_one_process_grades_at_a_time_and_a_killed_one_keeps_nobody_out(book: Gradebook, place: str) -> None:
    with child(place, "hold") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(GradebookError, match="another process is grading into"), book.grading():
            pass
        book.override("a1", Override("ex", "", 1.0, "", "Kim", ""))
        process.kill()
        process.wait(SECONDS)
    hold_again(book)


def hold_again(book: Gradebook) -> None:
    with book.grading():
        pass
