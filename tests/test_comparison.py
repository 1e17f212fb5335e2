"""`lockstep compare`: what turned between two gradings, and what it is put down to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
from rich.console import Console

from lockstep.classroom.comparison import run_compare, to_json, told
from lockstep.classroom.difference import Difference, Moved, Turned
from lockstep.classroom.gradebook import Gradebook, open_gradebook
from lockstep.classroom.handin import HandIn
from lockstep.classroom.latepolicy import LatePolicy
from lockstep.classroom.people import Student
from lockstep.classroom.record import Override
from lockstep.jsonfile import write_json
from lockstep.result import CheckResult, ExerciseResult, Result
from lockstep.verdict import Verdict

SCHEMA = json.loads(files("lockstep").joinpath("schemas/comparison-1.schema.json").read_text())
P, F, H = Verdict.PASSED, Verdict.FAILED, Verdict.HUNG
ADA, BOB, EVE = Student("a1", "Ada"), Student("b2", "Bob"), Student("e3", "Eve \x1b[31m[red]")
ALL_PASS = {"one": P, "two": P}


def _checks(verdicts: Mapping[str, Verdict]) -> tuple[CheckResult, ...]:
    return tuple(
        CheckResult(name, verdict, 2.0 if verdict is P else 0.0, 2.0) for name, verdict in verdicts.items()
    )


def _grade(
    book: Gradebook,
    student: Student,
    verdicts: Mapping[str, Verdict],
    *,
    work: str = "w",
    graders: str = "g",
    seed: int = 1,
    torch: str = "2.15",
) -> None:
    book.enroll([student])
    handin = book.receive(HandIn(student, None, "work.zip", late_days=1.0), work)
    attempt = book.begin(handin, {"ex": graders}, seed, versions={"torch": torch}).id
    for position, result in enumerate(_checks(verdicts)):
        book.write_check(attempt, "ex", position, result)
    book.end(attempt)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    place = tmp_path / "old.db"
    with open_gradebook(place) as book:
        for student in (ADA, BOB, EVE):
            _grade(book, student, ALL_PASS)
    return place


@pytest.fixture
def new(tmp_path: Path) -> Path:
    return tmp_path / "new.db"


def _compare(
    old: Path, new: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[int, dict[str, list[dict[str, object]]]]:
    status = run_compare(old=str(old), new=str(new), as_json=True)
    found = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    assert found["changed"] == bool(status)
    return status, found


def test_nothing_changed(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_compare(old=str(old), new=str(old), as_json=False) == 0
    assert capsys.readouterr().out == "Nothing changed: 3 students and 6 verdicts in both.\n"
    assert _compare(old, old, capsys)[0] == 0


def test_other_graders_of_the_same_verdicts_are_told_and_change_no_grade(
    old: Path, new: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_gradebook(new) as book:
        for student in (ADA, BOB, EVE):
            _grade(book, student, ALL_PASS, graders="other", seed=2, torch="2.16")
    assert run_compare(old=str(old), new=str(new), as_json=False) == 0
    said = capsys.readouterr().out
    assert "Graded with something else: ex (3 students)." in said
    assert "torch: 2.15, now 2.16." in said
    status, found = _compare(old, new, capsys)
    assert (status, found["graders"]) == (0, [{"exercise": "ex", "students": 3}])
    assert found["versions"] == [{"name": "torch", "before": ["2.15"], "after": ["2.16"]}]


def test_lost_verdicts_come_first_each_with_what_else_changed(
    old: Path, new: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_gradebook(old) as book:
        _grade(book, BOB, {"one": F, "two": P}, work="first")
        _grade(book, EVE, {"one": F, "two": H}, work="first")
    with open_gradebook(new) as book:
        _grade(book, ADA, {"one": P, "two": F}, graders="other", seed=2)
        _grade(book, BOB, ALL_PASS, work="second", graders="other")
        _grade(book, EVE, {"one": H, "two": H}, work="first", seed=2)
    status, found = _compare(old, new, capsys)
    assert status == 1
    assert [
        (item["student"], item["before"], item["after"], item["cause"]) for item in found["verdicts"]
    ] == [
        ("a1", "passed", "failed", "other graders"),
        ("b2", "failed", "passed", "other work"),
        ("e3", "failed", "hung", "other data"),
    ]
    assert [(item["student"], item["before"], item["after"]) for item in found["points"]] == [
        ("a1", 4.0, 2.0),
        ("b2", 2.0, 4.0),
    ]
    run_compare(old=str(old), new=str(new), as_json=False)
    said = capsys.readouterr().out
    assert " ".join(said.split()).endswith(
        "3 students and 6 verdicts in both. Of the verdicts 1 passed before, 1 pass now, 1 changed otherwise; "
        "2 students with other points."
    )
    assert "\x1b" not in said
    assert "Eve [red]" in said


def test_a_verdict_that_turns_by_itself_is_named_as_such(
    old: Path, new: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_gradebook(new) as book:
        for student, verdicts in ((ADA, {"one": F, "two": P}), (BOB, ALL_PASS), (EVE, ALL_PASS)):
            _grade(book, student, verdicts)
    assert run_compare(old=str(old), new=str(new), as_json=False) == 1
    assert "does not always end alike" in " ".join(capsys.readouterr().out.split())


def test_students_come_and_go_and_checks_as_well(
    old: Path, new: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    late = Student("z9", "Zoe")
    with open_gradebook(new) as book:
        for student in (ADA, BOB, late):
            _grade(book, student, {"two": P, "three": P}, graders="other")
    status, found = _compare(old, new, capsys)
    assert status == 1
    assert found["students"] == {"both": 2, "added": ["z9"], "gone": ["e3"]}
    assert {(item["check"], item["before"], item["after"]) for item in found["verdicts"]} == {
        ("one", "passed", None),
        ("three", None, "passed"),
    }
    run_compare(old=str(old), new=str(new), as_json=False)
    said = capsys.readouterr().out
    assert "Only in the first: e3." in said
    assert "not made" in said


def test_points_say_whether_people_or_lateness_changed_them(
    old: Path, new: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_gradebook(new) as book:
        for student in (ADA, BOB, EVE):
            _grade(book, student, ALL_PASS)
        book.override("b2", Override("ex", "", 3.0, "", "Kim", ""))
        book.remember_policy(LatePolicy(percent_per_day=50))
    found = _compare(old, new, capsys)[1]
    assert {item["student"]: (item["after"], item["where"]) for item in found["points"]} == {
        "a1": (2.0, ["lateness"]),
        "b2": (1.5, ["decisions", "lateness"]),
        "e3": (2.0, ["lateness"]),
    }
    assert found["verdicts"] == []


def test_two_results_of_one_submission(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    result = Result("work", 1, (ExerciseResult("ex", _checks({"one": F, "two": P})),))
    write_json(before, result.to_json())
    better = replace(result, submission="work2", exercises=(ExerciseResult("ex", _checks(ALL_PASS)),))
    write_json(after, better.to_json())
    assert _compare(before, before, capsys)[0] == 0
    status, found = _compare(before, after, capsys)
    assert status == 1
    (turned,) = found["verdicts"]
    assert (turned["check"], turned["after"], turned["cause"]) == ("one", "passed", "")
    assert run_compare(old=str(before), new=str(after), as_json=False) == 1
    assert "always" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "there is no gradebook"),
        ("", "neither a gradebook nor a result"),
        ("[" * 100_000, "neither a gradebook nor a result"),
        ("{}", "is no result of `lockstep check --json`: the whole"),
        ('{"schema": "lockstep/result/2"}', "is no result"),
        ("\udcff", "neither a gradebook nor a result"),
    ],
)
def test_what_cannot_be_read_is_a_sentence(
    tmp_path: Path, content: str | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "odd.json"
    if content is not None:
        place.write_text(content, errors="surrogateescape")
    assert run_compare(old=str(place), new=str(place), as_json=True) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in " ".join(captured.err.split())


def test_a_result_and_a_gradebook_are_not_compared(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_json(tmp_path / "a.json", Result("work", 1, ()).to_json())
    assert run_compare(old=str(tmp_path / "a.json"), new=str(old), as_json=False) == 2
    assert "compare like with like" in capsys.readouterr().err


def test_a_folder_of_results_is_its_gradebook(tmp_path: Path, old: Path) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    old.rename(folder / "gradebook.db")
    assert run_compare(old=str(folder), new=str(folder / "gradebook.db"), as_json=False) == 0


def test_many_students_are_shortened_for_a_person_and_all_there_for_a_program() -> None:
    turned = tuple(Turned(f"s{n}", f"S{n}", "ex", "one", P, F, 2.0, 0.0, "other graders") for n in range(300))
    moved = tuple(Moved(item.student, item.name, 4.0, 2.0, ("verdicts",)) for item in turned)
    found = Difference((), (), turned, moved, {"ex": 300}, {}, 300, 600)
    console = Console(width=100, color_system=None)
    with console.capture() as capture:
        console.print(told(found))
    shown = capture.get()
    assert "300: S0, S1, S2, S3, S4, S5, and 294 more" in " ".join(shown.split())
    assert "and 260 more: --json has them all" in shown
    assert len(shown.splitlines()) < 60
    value = to_json(found)
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(json.dumps(value)))
    assert str(value).count("'student': 's299'") == 2
