"""Commands whose output nobody reads, that have no output at all, or whose output is full, as real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import pytest

from lockstep import cli
from lockstep.classroom.gradebook import open_gradebook
from lockstep.classroom.people import Student
from tests.sandboxed import ROOT
from tests.tiny_class import ESSAY, LAB, RIGHT

FULL = "lockstep: the output cannot be written: no space left on the device"
PROGRESS = "1 to grade, 0 unchanged, 0 not graded\n1 of 1: ann"
CHECK = ["check", "mine", "--graders", str(LAB), "--exercise", "doubling"]
GRADE = ["grade", "class", "--out", "graded", "--graders", str(LAB), "--exercise", "doubling", "--jobs", "1"]
COMMANDS = {
    "check": CHECK,
    "compare": ["compare", "RESULTS", "RESULTS"],
    "compare as JSON": ["compare", "RESULTS", "RESULTS", "--json"],
    "doctor": ["doctor", "--quick"],
    "doctor as JSON": ["doctor", "--quick", "--json"],
    "export": ["export", "RESULTS"],
    "grade": GRADE,
    "help": ["--help"],
    "override": ["override", "RESULTS"],
    "remove": ["remove", "RESULTS"],
    "review": ["review", "RESULTS"],
    "show": ["show", "RESULTS", "ann"],
    "verify-report": ["verify-report", "none.json"],
    "verify-report as JSON": ["verify-report", "none.json", "--json"],
    "version": ["--version"],
}
every_command = pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
# In what becomes of the words the sandbox has no part, and it takes seconds to start: an essay needs none.
every_command_at_once = pytest.mark.parametrize(
    "command",
    [["essay" if word == "doubling" else word for word in command] for command in COMMANDS.values()],
    ids=COMMANDS,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with RESULTS of a student, a hand-in, and a class of one."""
    (tmp_path / "RESULTS").mkdir()
    with open_gradebook(tmp_path / "RESULTS" / "gradebook.db") as book:
        book.enroll([Student("ann", "Ann Lee")])
    for mine in (tmp_path / "mine", tmp_path / "class" / "ann"):
        mine.mkdir(parents=True)
        (mine / "doubling.py").write_text(RIGHT)
        (mine / "essay.md").write_text(ESSAY)
    return tmp_path


@pytest.fixture
def unread() -> Iterator[int]:
    """The end to write to of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


def _run(
    command: Sequence[str],
    folder: Path,
    *,
    stdout: int | IO[bytes] = subprocess.PIPE,
    stderr: int | IO[bytes] = subprocess.PIPE,
    streams: str = "",
) -> tuple[int, str]:
    """Its status, and what it says on stderr; `streams` are a shell's words for it."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        ["bash", "-c", f'exec "$@" {streams}', "bash", sys.executable, "-m", "lockstep", *command],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        timeout=300,
        check=False,
    )
    return done.returncode, (done.stderr or b"").decode()


@every_command_at_once
def test_that_nobody_reads_it_is_a_status_of_its_own(command: list[str], folder: Path, unread: int) -> None:
    status, said = _run(command, folder, stdout=unread)
    assert status == cli.UNREAD
    assert said.strip() == (PROGRESS if command[0] == "grade" else "")


@every_command_at_once
def test_a_full_device_is_one_sentence(command: list[str], folder: Path) -> None:
    with open("/dev/full", "wb") as full:
        status, said = _run(command, folder, stdout=full)
    assert (status, said.replace(PROGRESS, "").strip()) == (2, FULL)


@every_command
def test_closed_stdout_changes_nothing(command: list[str], folder: Path) -> None:
    status, said = _run(command, folder, streams=">&-")
    assert status == (2 if command[0] == "verify-report" else 0)
    assert "Traceback" not in said


def test_a_grading_without_any_stream_is_done(folder: Path) -> None:
    assert _run(GRADE, folder, streams="<&- >&- 2>&-") == (0, "")
    assert (folder / "graded" / "exports" / "grades.csv").exists()


@pytest.mark.parametrize("device", ["/dev/full", "unread"])
def test_a_grading_goes_on_when_nobody_hears_about_it(device: str, folder: Path, unread: int) -> None:
    with open("/dev/full", "wb") as full:
        assert _run(GRADE, folder, stderr=unread if device == "unread" else full) == (0, "")
    assert (folder / "graded" / "exports" / "grades.csv").exists()


def test_a_grading_of_which_the_first_line_is_read_is_done(folder: Path) -> None:
    status, _ = _run(GRADE, folder, streams="> >(head -1) 2>&1")
    assert status == cli.UNREAD
    assert (folder / "graded" / "exports" / "grades.csv").exists()


def test_a_wrong_option_keeps_its_status_when_nobody_hears_about_it(folder: Path, unread: int) -> None:
    assert _run(["check"], folder, stdout=unread, stderr=unread) == (2, "")
