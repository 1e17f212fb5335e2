"""Without a sandbox nothing is graded, whichever way it was asked for; the sentence says who knows what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lockstep import cli
from lockstep.grading import CouldNotGrade, Options, Silent
from lockstep.grading import grade as grade_one
from lockstep.sandbox import bubblewrap, seccomp
from tests.batches import LAB, grade, hand_in

NO_BWRAP = """
from lockstep.sandbox import bubblewrap

def find():
    raise bubblewrap.SandboxUnavailable("bubblewrap (bwrap) is not installed")

bubblewrap.find = find
"""
PLUGINS = ("-p", "lockstep.plugin", "-p", "xdist.plugin", "-p", "no:cacheprovider")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A class of one, whose hand-in is a whole submission as well."""
    return hand_in(tmp_path / "class", {"ada": ""})


def no_bubblewrap(patch: pytest.MonkeyPatch) -> str:
    def find() -> str:
        raise bubblewrap.SandboxUnavailable("bubblewrap (bwrap) is not installed")

    patch.setattr(bubblewrap, "find", find)
    return "bubblewrap (bwrap) is not installed"


def no_filter(patch: pytest.MonkeyPatch) -> str:
    def filter_program() -> bytes:
        raise RuntimeError("Unable to find libseccomp")

    patch.setattr(seccomp, "filter_program", filter_program)
    return "libseccomp (Unable to find libseccomp)"


def no_box(patch: pytest.MonkeyPatch) -> str:
    patch.setattr(bubblewrap, "find", lambda: "false")
    return "bubblewrap cannot make a sandbox here (exit status 1)"


def no_tools(patch: pytest.MonkeyPatch) -> str:
    patch.setenv("PATH", "/nowhere")
    patch.setattr(bubblewrap, "find", lambda: "/nowhere/bwrap")
    return "is not installed"


@pytest.mark.parametrize("lack", [no_bubblewrap, no_filter, no_box, no_tools])
def test_nothing_is_graded_without_a_sandbox(
    lack: Callable[[pytest.MonkeyPatch], str],
    work: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    reason = lack(monkeypatch)
    asked = [
        (cli.main(["check", str(work / "ada"), "--graders", str(LAB)]), capfd.readouterr().err),
        (grade(work, tmp_path / "results"), capfd.readouterr().err),
    ]
    with pytest.raises(CouldNotGrade) as refused:
        grade_one(Options(submission=work / "ada", graders=LAB), Silent())
    for status, said in [*asked, (2, str(refused.value))]:
        assert status == 2
        assert "no sandbox, so nothing is graded: " in said
        assert reason in said
        assert "`lockstep doctor` says what mends it" in said
    # A student's own folder and somebody else's code are not the same.
    assert "`--sandbox none`, without any protection, is for your own code" in asked[0][1]
    assert "--sandbox none" not in asked[1][1]
    assert "`--sandbox none --i-trust-this-code`" in str(refused.value)


def test_the_same_where_pytest_was_started_by_hand(work: Path, tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "no_bwrap.py").write_text(NO_BWRAP)
    for more in ([], ["-n", "2"]):
        done = by_hand(work / "ada", "-p", "no_bwrap", *more, path=tmp_path / "plugins")
        assert done.returncode == pytest.ExitCode.USAGE_ERROR
        assert "`lockstep doctor` says what mends it" in done.stderr
        assert "passed" not in done.stdout


def test_somebody_else_s_code_runs_unprotected_only_where_that_was_said_twice(work: Path) -> None:
    once = by_hand(work / "ada", "--sandbox", "none")
    assert once.returncode == pytest.ExitCode.USAGE_ERROR
    assert "say --i-trust-this-code as well" in once.stderr
    assert "passed" not in once.stdout


def by_hand(submission: Path, *options: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """`pytest GRADERS --submission PATH`."""
    arguments = [str(LAB), "--submission", str(submission), "-c", os.devnull, "--rootdir", str(LAB), *options]
    return subprocess.run(
        # Whatever else is installed takes longer to load than all of this takes.
        [sys.executable, "-m", "pytest", "--disable-plugin-autoload", *PLUGINS, *arguments],
        env={**os.environ, "PYTHONPATH": str(path or "")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
