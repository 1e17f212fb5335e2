"""What is shown while a class is graded: how far it is, and nothing that a student could make of it."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from lockstep.classroom.plan import Plan, Work
from lockstep.classroom.progress import ClassProgress
from lockstep.result import CheckResult
from lockstep.verdict import Verdict

CHECKS = {"steps": 2}


def _work(number: int, name: str) -> Work:
    return Work(number, name, Path(name), "", {"steps": "f"}, {})


def _checked(progress: ClassProgress, attempt: int, work: Work, name: str) -> None:
    progress.checked(attempt, work, "steps", CheckResult(name, Verdict.PASSED, 1.0, 1.0))


def _graded(console: Console) -> None:
    """Two hand-ins, one of which is lost with one check made, and taken up again; a third cannot be graded."""
    ada, bob, eve = _work(1, "Ada"), _work(2, "Bob [red]\x1b[2J\n::error::x"), _work(3, "Eve")
    with ClassProgress(console) as progress:
        progress.planned(Plan((ada, bob, eve), 4, 1), CHECKS)
        progress.begun(11, ada, "here", 2)
        progress.begun(12, bob, "here", 2)
        _checked(progress, 11, ada, "one")
        _checked(progress, 12, bob, "one")
        progress.lost(12, bob, "the process that graded was ended by SIGKILL")
        _checked(progress, 11, ada, "two")
        progress.ended(11, ada, "")
        progress.begun(12, bob, "here", 1)
        _checked(progress, 12, bob, "two")
        progress.ended(12, bob, "")
        progress.ended(13, eve, "It took too long.")
        assert progress.through == 3
        task = progress._bar.tasks[0]
        assert (task.completed, task.total) == (6, 6)


def test_a_log_gets_a_line_for_each_hand_in() -> None:
    file = StringIO()
    _graded(Console(file=file, width=60))
    assert file.getvalue().splitlines() == [
        "3 to grade, 4 unchanged, 1 not graded",
        "Bob [red] ::error::x is taken up again, because the process that graded was ended by SIGKILL",
        "1 of 3: Ada",
        "2 of 3: Bob [red] ::error::x",
        "Eve: It took too long.",
    ]


@pytest.mark.parametrize("width", [40, 120])
def test_a_terminal_shows_who_is_graded(width: int) -> None:
    file = StringIO()
    _graded(Console(file=file, width=width, force_terminal=True, color_system=None))
    shown = file.getvalue()
    assert "Eve: It took too long." in shown
    assert "\x1b[2J" not in shown
    if width == 120:
        assert "3 of 3, 4 unchanged, 2 not graded" in shown
