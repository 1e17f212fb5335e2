"""`lockstep check`: what it prints, what it writes, and the exit status, without grading anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from lockstep import cli, grading
from lockstep.grading import PUBLIC_SEED, CouldNotGrade, Events, Options
from lockstep.result import CheckResult, Result
from tests.results import FAILED, FAULT, NOT_CHECKED, PASSED, a_result

EXERCISE = """
title = "An exercise"
files = ["x.py"]
[[check]]
id = "first"
points = 1
"""
Stub = Callable[..., list[Options]]


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Stub:
    """Make `grade` return the given checks; the list it gives back holds the options it was called with."""

    def install(*checks: CheckResult, notes: tuple[str, ...] = ()) -> list[Options]:
        calls: list[Options] = []

        def grade(options: Options, events: Events) -> Result:
            calls.append(options)
            result = a_result(*checks)
            events.started(len(checks), SimpleNamespace(notes=notes))  # type: ignore[arg-type]
            for check in checks:
                events.check_started("lfw_dataset", check.id, f"The title of {check.id}.")
                events.check_done("lfw_dataset", check)
            events.finished(result)
            return result

        monkeypatch.setattr(grading, "grade", grade)
        return calls

    return install


@pytest.fixture
def graders(tmp_path: Path) -> Path:
    """A graders folder that knows two exercises."""
    for name in ("lfw_dataset", "ddp_train"):
        (tmp_path / "graders" / name).mkdir(parents=True)
        (tmp_path / "graders" / name / "exercise.toml").write_text(EXERCISE)
    return tmp_path / "graders"


@pytest.mark.parametrize(
    ("checks", "status"),
    [
        ((PASSED,), 0),
        ((PASSED, FAILED), 1),
        ((NOT_CHECKED,), 1),
        ((PASSED, FAULT), 2),
        ((FAILED, FAULT), 2),
        ((), 2),
    ],
)
def test_the_exit_status_tells_passed_failed_and_could_not_grade(
    stub: Stub, checks: tuple[CheckResult, ...], status: int
) -> None:
    stub(*checks)
    assert cli.main(["check", "."]) == status


def test_a_self_check_uses_the_public_seed_and_all_exercises(stub: Stub) -> None:
    calls = stub(PASSED)
    cli.main(["check", "somewhere"])
    assert calls == [Options(Path("somewhere"), self_check=True)]
    assert ["--seed", str(PUBLIC_SEED)] == grading._arguments(calls[0])[-2:]


def test_every_option_reaches_the_grading(stub: Stub, graders: Path) -> None:
    calls = stub(PASSED)
    arguments = "check work.zip --exercise lfw_dataset,ddp_train --exercise other --check length,lazy --seed 12 --sandbox none"
    cli.main([*arguments.split(), "--world-sizes", "4,2", "--graders", str(graders)])
    assert calls == [
        Options(
            Path("work.zip"),
            exercises=("lfw_dataset", "ddp_train", "other"),
            checks=("length", "lazy"),
            seed=12,
            sandbox="none",
            self_check=True,
            world_sizes=(2, 4),
            graders=graders,
        )
    ]


def test_the_table_and_the_hints_are_printed(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    stub(PASSED, FAILED)
    cli.main(["check", "."])
    shown = capsys.readouterr()
    assert "items_are_images" in shown.out
    assert "│ The title of items_are_images." in shown.out
    assert "│ Try: walk into every folder" in shown.out
    assert "1 of 2 checks passed: 2.5 of 5 points." in shown.out
    assert shown.err == ""


def test_notes_of_the_intake_come_first(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    stub(PASSED, notes=("`x.ipynb` was read as x.py", "::error::forged \x1b[31mname"))
    cli.main(["check", "."])
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["  │ `x.ipynb` was read as x.py", "  │ ::error::forged name", ""]


def test_without_a_sandbox_it_says_so(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    stub(PASSED)
    cli.main(["check", ".", "--sandbox", "none"])
    assert "Running without a sandbox" in capsys.readouterr().err


def test_json_is_written_beside_the_table(stub: Stub, tmp_path: Path) -> None:
    stub(PASSED, FAILED)
    assert cli.main(["check", ".", "--json", str(tmp_path / "out.json")]) == 1
    assert json.loads((tmp_path / "out.json").read_text()) == a_result(PASSED, FAILED).to_json()


def _one_sentence(capsys: pytest.CaptureFixture[str]) -> str:
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("lockstep: ")
    assert shown.err.count("\n") == 1
    return shown.err


def test_json_into_a_missing_folder_is_refused_before_grading(
    stub: Stub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = stub(PASSED)
    assert cli.main(["check", ".", "--json", str(tmp_path / "missing" / "out.json")]) == 2
    assert f"no folder {tmp_path / 'missing'}" in _one_sentence(capsys)
    assert calls == []


def test_json_that_cannot_be_written_is_said_after_the_table(
    stub: Stub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stub(PASSED)
    assert cli.main(["check", ".", "--json", str(tmp_path)]) == 2
    shown = capsys.readouterr()
    assert "The one check passed" in shown.out
    assert f"lockstep: cannot write {tmp_path}: Is a directory" in shown.err


def test_a_path_that_is_not_there_is_one_sentence(graders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "/no/such\npath", "--graders", str(graders)]) == 2
    assert _one_sentence(capsys) == "lockstep: there is no file or folder /no/such path\n"


def test_an_unknown_exercise_lists_the_known_ones(graders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", str(graders), "--exercise", "ddp", "--graders", str(graders)]) == 2
    assert "no exercise 'ddp'; there are ddp_train, lfw_dataset" in _one_sentence(capsys)


def test_a_folder_without_graders_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", str(tmp_path), "--graders", str(tmp_path)]) == 2
    assert f"no graders in {tmp_path}" in _one_sentence(capsys)


def test_a_faulty_exercise_is_named(graders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (graders / "ddp_train" / "exercise.toml").write_text("title = 1 = 2")
    assert cli.main(["check", str(graders), "--graders", str(graders)]) == 2
    assert "ddp_train/exercise.toml" in _one_sentence(capsys)


@pytest.mark.parametrize(
    ("error", "status", "sentence"),
    [
        (CouldNotGrade("the archive\nholds ../x"), 2, "lockstep: the archive holds ../x\n"),
        (KeyboardInterrupt(), 130, "lockstep: stopped before there was a result\n"),
    ],
)
def test_no_verdict_is_one_sentence_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    status: int,
    sentence: str,
) -> None:
    def grade(options: Options, events: Events) -> Result:
        raise error

    monkeypatch.setattr(grading, "grade", grade)
    assert cli.main(["check", "."]) == status
    assert _one_sentence(capsys) == sentence


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--seed", "-1"], "a whole number from 0 on"),
        (["--seed", "x"], "a whole number from 0 on"),
        (["--world-sizes", "1,2"], "numbers from 2 to 8"),
        (["--world-sizes", "two"], "numbers from 2 to 8"),
        (["--sandbox", "docker"], "invalid choice"),
    ],
)
def test_a_wrong_option_is_explained(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["check", ".", *arguments])
    assert stopped.value.code == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", ""],
        ["check", ".", "--json", ""],
        ["check", ".", "--graders", ""],
        ["compare", "", "NEW"],
        ["compare", "OLD", " "],
        ["export", ""],
        *(["export", "RESULTS", option, ""] for option in ("--out", "--canvas", "--moodle", "--graders")),
        *(["export", option, ""] for option in ("--gradescope", "--github")),
        ["grade", "", "--out", "RESULTS"],
        ["grade", "class", "--out", ""],
        *(
            ["grade", "class", "--out", "RESULTS", option, ""]
            for option in ("--roster", "--late", "--gradebook", "--cluster-config", "--graders")
        ),
        ["override", ""],
        ["remove", ""],
        ["review", ""],
        *(["review", "RESULTS", option, ""] for option in ("--write", "--read")),
        ["show", "", "ann"],
        ["verify-report", ""],
        *(["verify-report", "r.json", option, ""] for option in ("--devices", "--reference", "--pictures")),
    ],
    ids=" ".join,
)
def test_an_empty_path_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        cli.main(arguments)
    assert stopped.value.code == 2
    assert "a file or folder, not an empty text" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_help_and_version_load_nothing_heavy() -> None:
    program = (
        "import sys\nfrom lockstep import cli\n"
        "try: cli.main(sys.argv[1:])\nexcept SystemExit as stop: assert not stop.code\n"
        "assert not {'torch', 'numpy', 'pytest', 'rich'} & sys.modules.keys(), sys.modules.keys()"
    )
    for arguments in (["--help"], ["check", "--help"], ["--version"], []):
        command = [sys.executable, "-c", program, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert "lockstep" in done.stdout


def test_a_sentence_can_be_printed_in_an_ascii_locale() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    done = subprocess.run(
        [sys.executable, "-m", "lockstep.cli", "check", "/dev/null/näme"],
        capture_output=True,
        timeout=300,
        check=False,
        env=environment,
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"lockstep: there is no file or folder /dev/null/n")
