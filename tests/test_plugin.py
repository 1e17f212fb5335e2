"""The plugin as pytest's users meet it: options, verdicts, dependencies, seeds, xdist."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lockstep.exercise import find_exercises
from lockstep.grading import CouldNotGrade, Options, Silent, grade
from lockstep.judged import ANSWER_CHARACTERS
from lockstep.result import CheckResult
from lockstep.sandbox.box import Box, open_box
from lockstep.text import safe
from lockstep.verdict import Verdict
from tests.samples import impatient_checks

LAB = Path(__file__).parent / "labs" / "graders"
ESSAYS = Path(__file__).parent / "labs" / "essays"
RIGHT = """
import torch.distributed as dist
def double(x):
    return 2 * x
def add_up(x):
    dist.all_reduce(x)
    return x
"""


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    with open_box(find_exercises(LAB), isolated=True) as warm:
        yield warm


def graded(folder: Path, source: str, box: Box | None = None, **options: Any) -> Mapping[str, CheckResult]:
    (folder / "tiny.py").write_text(source)
    result = grade(Options(submission=folder, graders=LAB, **options), Silent(), box)
    return {check.id: check for exercise in result.exercises for check in exercise.checks}


@pytest.mark.parametrize(
    ("source", "wanted", "words"),
    [
        (RIGHT, {"doubles": Verdict.PASSED, "adds_up": Verdict.PASSED}, ""),
        (
            RIGHT.replace("2 * x", "3 * x"),
            {"doubles": Verdict.FAILED, "adds_up": Verdict.NOT_CHECKED},
            "differs by up",
        ),
        (
            RIGHT.replace("2 * x", "1 / 0"),
            {"doubles": Verdict.CRASHED, "draws": Verdict.PASSED},
            "tiny.py, line 4",
        ),
        ("def double(x) return x", {"doubles": Verdict.CRASHED, "draws": Verdict.NOT_CHECKED}, "line 1"),
        ("x = 1", {"doubles": Verdict.FAILED, "draws": Verdict.PASSED}, "does not define double"),
        (
            RIGHT.replace("double", "Double"),
            {"doubles": Verdict.FAILED},
            "tiny.py does not define double, but Double",
        ),
        ("", {"doubles": Verdict.FAILED, "draws": Verdict.NOT_CHECKED}, "tiny.py is empty"),
        (
            "import argparse\nargs = argparse.ArgumentParser().parse_args()\nfor n in (2, 3):\n    double = n",
            {"doubles": Verdict.FAILED},
            "defines double only among the lines that run the script",
        ),
        (
            RIGHT.replace(
                "    dist.all_reduce(x)", "    if dist.get_rank() == 1:\n        dist.all_reduce(x)"
            ),
            {"doubles": Verdict.PASSED, "adds_up": Verdict.HUNG},
            "rank 0 has finished; rank 1 waits in all_reduce at tiny.py, line 7",
        ),
        (
            f'{RIGHT}while True:\n    pass\nif __name__ == "__main__":\n    double(2)\n',
            {"doubles": Verdict.HUNG, "adds_up": Verdict.NOT_CHECKED, "draws": Verdict.NOT_CHECKED},
            "No answer within 4 s while importing tiny.py: it is busy at tiny.py, line",
        ),
    ],
    ids=[
        "right",
        "wrong",
        "raises",
        "syntax",
        "missing",
        "misspelt",
        "empty",
        "left_out",
        "hangs",
        "never_imported",
    ],
)
def test_verdicts(tmp_path: Path, box: Box, source: str, wanted: Mapping[str, Verdict], words: str) -> None:
    never_imported = source.startswith(f"{RIGHT}while True")
    with impatient_checks(seconds=2.0) if never_imported else contextlib.nullcontext():
        checks = graded(tmp_path, source, box, exercises=("tiny",))
    assert {name: checks[name].verdict for name in wanted} == wanted
    assert words in " ".join(check.message for check in checks.values())
    for check in checks.values():
        full = check.points == check.max_points
        assert full is (check.verdict is Verdict.PASSED)
        assert full or check.hint


def test_the_seed_decides_what_is_drawn(tmp_path: Path, box: Box) -> None:
    drawn = [graded(tmp_path, RIGHT, box, seed=seed)["draws"].message for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_partial_credit(tmp_path: Path, box: Box) -> None:
    check = graded(tmp_path, RIGHT.replace("2 * x", "3 * x"), box)["doubles"]
    assert (check.points, check.max_points, check.verdict) == (1.0, 3.0, Verdict.FAILED)


def test_without_a_sandbox_the_verdicts_are_the_same(tmp_path: Path) -> None:
    checks = graded(tmp_path, RIGHT.replace("2 * x", "3 * x"), sandbox="none")
    assert checks["doubles"].verdict is Verdict.FAILED
    assert checks["draws"].verdict is Verdict.PASSED


def test_unknown_exercise_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(CouldNotGrade, match="there is no exercise 'huge'; there are tiny"):
        graded(tmp_path, RIGHT, exercises=("huge",))


def test_one_check_alone_can_be_asked_for(tmp_path: Path, box: Box) -> None:
    assert set(graded(tmp_path, RIGHT, box, checks=("draws",))) == {"draws"}


def test_unknown_check_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(CouldNotGrade, match="there is no check 'draw'; there are adds_up, doubles, draws"):
        graded(tmp_path, RIGHT, checks=("draw",))


def test_plain_pytest_with_xdist_writes_json_and_junit(tmp_path: Path) -> None:
    (tmp_path / "tiny.py").write_text(RIGHT.replace("2 * x", "3 * x"))
    found = tmp_path / "result.json"
    junit = tmp_path / "junit.xml"
    command = [sys.executable, "-m", "pytest", str(LAB), "--submission", str(tmp_path / "tiny.py"), "-n", "2",
               "--seed", "5", "--json", str(found), "--junitxml", str(junit), "-p", "no:cacheprovider"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stdout
    result = json.loads(found.read_text())
    assert (result["seed"], result["points"], result["max_points"]) == (5, 2.0, 6.0)
    verdicts = {check["id"]: check["verdict"] for check in result["exercises"][0]["checks"]}
    assert verdicts == {"doubles": "failed", "adds_up": "not checked", "draws": "passed"}
    # A student's failure is told in its own words, never with a traceback of the judge.
    assert "failed: double(x) differs by up to" in done.stdout
    assert "check.expect" not in done.stdout
    suite = ElementTree.parse(junit).getroot().find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")


@pytest.fixture(scope="module")
def essay_box() -> Iterator[Box]:
    with open_box(find_exercises(ESSAYS), isolated=True) as warm:
        yield warm


@pytest.mark.parametrize(
    "text", ["Because it is so.", "one\x1b[31m two\u202e three\r\nfour", "word " * 30_000]
)
def test_an_answer_is_handed_to_a_person_harmless_and_cut(tmp_path: Path, essay_box: Box, text: str) -> None:
    (tmp_path / "essay.md").write_text(text)
    result = grade(Options(submission=tmp_path, graders=ESSAYS), Silent(), essay_box)
    (review,) = result.exercises[0].reviews
    assert review.answer == safe(text, ANSWER_CHARACTERS)
    assert len(review.answer) < ANSWER_CHARACTERS + 50
    assert (review.numbers, review.duplicate) == (("speedup 1.4",), "x")
    assert (review.max_points, review.points, review.comment) == (3, None, "")
    assert (result.points, result.max_points) == (0, 0)


def test_a_check_that_fails_leaves_its_review(tmp_path: Path, essay_box: Box) -> None:
    (tmp_path / "other.md").write_text("not the one")
    result = grade(Options(submission=tmp_path, graders=ESSAYS), Silent(), essay_box)
    (check,) = result.exercises[0].checks
    assert check.verdict is Verdict.FAILED
    assert [(review.question, review.waits) for review in check.reviews] == [("Q1", False)]


@pytest.mark.parametrize(("self_check", "look_for"), [(False, "reasons"), (True, "")])
def test_a_judge_knows_who_will_read_the_review(
    tmp_path: Path, essay_box: Box, self_check: bool, look_for: str
) -> None:
    (tmp_path / "essay.md").write_text("Because.")
    options = Options(submission=tmp_path, graders=ESSAYS, self_check=self_check)
    assert grade(options, Silent(), essay_box).exercises[0].reviews[0].look_for == look_for


def test_reviews_travel_between_the_processes_of_xdist(tmp_path: Path) -> None:
    (tmp_path / "essay.md").write_text("Fordi alle venter på hinanden.")
    found = tmp_path / "result.json"
    command = [sys.executable, "-m", "pytest", str(ESSAYS), "--submission", str(tmp_path), "-n", "2",
               "--json", str(found), "-p", "no:cacheprovider"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout
    (exercise,) = json.loads(found.read_text())["exercises"]
    (review,) = exercise["review"]
    assert (review["answer"], review["words"], review["numbers"]) == (
        "Fordi alle venter på hinanden.",
        5,
        ["speedup 1.4"],
    )
    assert "Not counted: up to 3 points that a person gives for answers; 1 waits." in done.stdout


def test_graders_without_a_submission_say_what_is_missing() -> None:
    command = [sys.executable, "-m", "pytest", str(LAB), "-p", "no:cacheprovider"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--submission PATH" in done.stdout + done.stderr


@pytest.mark.parametrize("option", ["--submission", "--json"])
def test_an_empty_path_is_not_the_folder_one_stands_in(option: str) -> None:
    command = [sys.executable, "-m", "pytest", str(LAB), "-p", "no:cacheprovider", option, ""]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"argument {option}: a file or folder, not an empty text" in done.stdout + done.stderr
