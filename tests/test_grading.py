"""`grade`: pytest as it is run for one submission, with graders small enough to need no run of anything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lockstep import cli
from lockstep.grading import CouldNotGrade, Options, Silent, grade
from lockstep.judged import FAULT_MESSAGE
from lockstep.result import CheckResult, Result
from lockstep.submission import Submission
from lockstep.verdict import Verdict

EXERCISE = """
title = "Two checks"
files = ["work.py"]
[[check]]
id = "first"
points = 2
[[check]]
id = "second"
points = 3
needs = ["first"]
"""
JUDGE = '''
def test_second(check):
    """The second is there."""

def test_first(check):
    """The first is there."""
    check.expect(check.self_check, "nobody checks themselves", points=0.5)
'''


class Recorder(Silent):
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def started(self, total_checks: int, submission: Submission) -> None:
        self.heard.append((total_checks, submission.name))

    def check_started(self, exercise: str, check: str, title: str) -> None:
        self.heard.append((exercise, check, title))

    def check_done(self, exercise: str, result: CheckResult) -> None:
        self.heard.append((exercise, result.id, result.verdict))

    def finished(self, result: Result) -> None:
        self.heard.append(result)


def _judge(graders: Path) -> Path:
    # As in one checkout, no two graders of one process share a name.
    return graders / "tiny" / f"{graders.parent.name}.py"


@pytest.fixture
def graders(tmp_path: Path) -> Path:
    """One exercise, `tiny`, whose judge looks at nothing of the submission."""
    folder = tmp_path / "graders" / "tiny"
    folder.mkdir(parents=True)
    (folder / "exercise.toml").write_text(EXERCISE)
    (folder / "probe.py").write_text("")
    _judge(tmp_path / "graders").write_text(JUDGE)
    return tmp_path / "graders"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A submission."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "work.py").write_text("x = 1\n")
    return tmp_path / "work"


def test_events_come_in_order_and_end_with_the_result(work: Path, graders: Path) -> None:
    recorder = Recorder()
    result = grade(Options(work, self_check=True, seed=5, graders=graders), recorder)
    assert recorder.heard == [
        (2, "work"),
        ("tiny", "first", "The first is there."),
        ("tiny", "first", Verdict.PASSED),
        ("tiny", "second", "The second is there."),
        ("tiny", "second", Verdict.PASSED),
        result,
    ]
    assert (result.submission, result.seed, result.points, result.max_points) == ("work", 5, 5, 5)


def test_gradings_in_one_process_know_nothing_of_each_other(work: Path, graders: Path) -> None:
    results = [grade(Options(work, self_check=own, graders=graders), Silent()) for own in (True, False, True)]
    verdicts = [[check.verdict for check in result.exercises[0].checks] for result in results]
    passed, failed = [Verdict.PASSED, Verdict.PASSED], [Verdict.FAILED, Verdict.NOT_CHECKED]
    assert verdicts == [passed, failed, passed]
    assert [result.points for result in results] == [5, 0.5, 5]


def test_settings_lying_about_change_nothing(
    work: Path, graders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (work, graders.parent):
        (folder / "pytest.ini").write_text("[pytest]\naddopts = --collect-only\n")
        (folder / "conftest.py").write_text("raise SystemExit('a conftest that nobody asked for')\n")
    monkeypatch.chdir(work)
    monkeypatch.setenv("PYTEST_ADDOPTS", "--collect-only -k nothing")
    monkeypatch.setenv("PYTEST_PLUGINS", "no_such_plugin")
    assert grade(Options(work, self_check=True, graders=graders), Silent()).points == 5
    assert os.environ["PYTEST_ADDOPTS"] == "--collect-only -k nothing"


def test_nothing_is_printed(work: Path, graders: Path, capfd: pytest.CaptureFixture[str]) -> None:
    grade(Options(work, graders=graders), Silent())
    assert capfd.readouterr() == ("", "")


def _refusal(options: Options) -> str:
    with pytest.raises(CouldNotGrade) as refused:
        grade(options, Silent())
    sentence = str(refused.value)
    assert "\n" not in sentence
    return sentence


def test_an_empty_folder_is_refused(tmp_path: Path, graders: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    assert "empty" in _refusal(Options(tmp_path / "empty", graders=graders))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("judge", "sentence"),
    [
        ("import no_such_module", ".py cannot be read: ModuleNotFoundError: No module named"),
        ("def test_third(check): pass", "has no check 'third'"),
        ("x = 1", "hold no check for this"),
    ],
)
def test_a_broken_grader_is_named_and_never_a_verdict(
    work: Path, graders: Path, capfd: pytest.CaptureFixture[str], judge: str, sentence: str
) -> None:
    _judge(graders).write_text(judge)
    assert sentence in _refusal(Options(work, graders=graders))
    assert capfd.readouterr() == ("", "")


def test_a_class_is_not_begun_with_a_judge_that_is_no_python(
    work: Path, graders: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    judge = graders / "tiny" / f"test_{graders.parent.name}.py"
    judge.write_text("def (:")
    out = graders.parent / "results"
    assert cli.main(["grade", str(work.parent), "--graders", str(graders), "--out", str(out)]) == 2
    said = " ".join(capfd.readouterr().err.split())
    assert "cannot be read: invalid syntax" in said
    assert not (out / "index.html").exists()


def test_a_check_in_two_judges_is_refused(work: Path, graders: Path) -> None:
    judge = _judge(graders)
    judge.with_name("test_twice.py").write_text(judge.read_text())
    assert f"{judge.name} and test_twice.py both have a test_" in _refusal(Options(work, graders=graders))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("\ndef test_first(check)", "\n@pytest.mark.parametrize('n', [3, 4])\ndef test_first(check, n)"),
        ("\ndef test_second", "\nclass TestOther:\n    def test_first(self, check): pass\n\ndef test_second"),
    ],
)
def test_a_check_that_is_made_twice_is_refused(work: Path, graders: Path, before: str, after: str) -> None:
    """Whoever fails for one number would have all points of the other."""
    judge = _judge(graders)
    judge.write_text("import pytest\n" + JUDGE.replace(before, after))
    refusal = _refusal(Options(work, graders=graders))
    assert f"tiny: {judge.name} makes test_first 2 times" in refusal
    assert "one function, with a loop in it" in refusal


@pytest.mark.parametrize("arguments", ["", "chek"])
def test_a_judge_that_holds_no_check_is_refused(work: Path, graders: Path, arguments: str) -> None:
    _judge(graders).write_text(JUDGE.replace("test_second(check)", f"test_second({arguments})"))
    assert "::test_second does not take `check`, so it can find nothing wrong" in _refusal(
        Options(work, graders=graders)
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("check.expect(", "return ("),
        ("def test_first", "async def test_first"),
        ("    check.expect(", "    assert not check\n    check.expect("),
        ("def test_first", "@pytest.mark.skip\ndef test_first"),
        ("    check.expect(", "    pytest.skip()\n    check.expect("),
        ("    check.expect(", "    raise SystemExit(0)\n    check.expect("),
    ],
)
def test_a_judge_that_reaches_no_verdict_passes_nobody_and_costs_nothing(
    work: Path, graders: Path, before: str, after: str
) -> None:
    judge = JUDGE.replace(", points=0.5", "").replace('"nobody checks themselves"', '"no"')
    _judge(graders).write_text("import pytest\n" + judge.replace(before, after))
    (exercise,) = grade(Options(work, graders=graders), Silent()).exercises
    assert [check.verdict for check in exercise.checks] == [Verdict.FAULT, Verdict.NOT_CHECKED]


def test_an_exercise_without_a_judge_is_refused_beside_others(work: Path, graders: Path) -> None:
    """Its points would be missing from every total, and nobody would be told."""
    (graders / "other").mkdir()
    (graders / "other" / "exercise.toml").write_text(EXERCISE)
    assert "lists first, but there is no test_first" in _refusal(Options(work, graders=graders))
    # A judge that cannot be read is told as that.
    (graders / "other" / f"test_of_{graders.parent.name}.py").write_text("import no_such_module")
    assert "cannot be read" in _refusal(Options(work, graders=graders))


def test_a_judge_without_a_check_says_what_to_do(work: Path, graders: Path) -> None:
    _judge(graders).write_text(JUDGE + "\ndef test_third(check): pass\n")
    assert "list it there, or name the function without test_" in _refusal(Options(work, graders=graders))


def test_a_judge_that_breaks_is_a_fault_of_the_grader(work: Path, graders: Path) -> None:
    _judge(graders).write_text(JUDGE.replace("check.self_check", "check.no_such_name"))
    (exercise,) = grade(Options(work, graders=graders), Silent()).exercises
    assert [check.verdict for check in exercise.checks] == [Verdict.FAULT, Verdict.NOT_CHECKED]
    assert "no_such_name" not in exercise.checks[0].message


EXPECTS = 'expect(check.self_check, "nobody checks themselves", points=0.5)'


@pytest.mark.parametrize("points", ["2", "2.5", "-1", "float('nan')"])
@pytest.mark.parametrize(
    "call", ["expect(True, 'no', points={})", "expect(False, 'no', points={})", "fail('no', points={})"]
)
def test_a_judge_that_leaves_all_points_is_a_fault_of_the_grader(
    work: Path, graders: Path, call: str, points: str
) -> None:
    _judge(graders).write_text(JUDGE.replace(EXPECTS, call.format(points)))
    (exercise,) = grade(Options(work, graders=graders), Silent()).exercises
    assert [check.verdict for check in exercise.checks] == [Verdict.FAULT, Verdict.NOT_CHECKED]
    assert exercise.points == 0
    assert exercise.checks[0].message == FAULT_MESSAGE


def test_its_author_reads_what_may_be_left(work: Path, graders: Path) -> None:
    _judge(graders).write_text(JUDGE.replace("points=0.5", "points=2"))
    command = [sys.executable, "-m", "pytest", "--disable-plugin-autoload", "-p", "lockstep.plugin"]
    command += [str(graders), "--submission", str(work), "-p", "no:cacheprovider"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (
        "ValueError: first is worth 2 points and would leave 2 to whoever fails it: leave fewer"
        in done.stdout
    )
