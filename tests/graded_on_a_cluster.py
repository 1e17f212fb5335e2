"""A small class that is graded where a test says, and what the gradebook holds then."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from lockstep.classroom.grade import Order, grade_class
from lockstep.classroom.gradebook import Gradebook, open_gradebook
from lockstep.classroom.plan import Work
from lockstep.classroom.progress import ClassProgress
from lockstep.classroom.task import Setup
from lockstep.result import CheckResult
from tests.tiny_class import ESSAY, LAB, RIGHT

CLASS = {
    "ann": {"doubling.py": RIGHT, "essay.md": ESSAY},
    "ben": {"work/doubling.py": RIGHT.replace("2 * x", "3 * x")},
    # The first check passes, and for the seconds of the second one there is something to kill.
    "zoe": {"doubling.py": RIGHT.replace("return x / 2", "while True: pass"), "essay.md": ESSAY},
}
CHECKS = 9
"""What there is to check in it: two exercises, three checks, three students."""


EXERCISE = """
title = "Two checks, the second of which may have to wait"
files = ["doubling.py"]
early = true
[[check]]
id = "first"
points = 1
[[check]]
id = "second"
points = 1
"""
JUDGE = '''
from pathlib import Path

def test_first(check):
    """The first is there."""

def test_second(check):
    """The second comes when the gate is open."""
    gate = Path(__file__).parent.with_name("gate")
    if gate.exists():
        gate.read_text()
'''


class Watching(ClassProgress):
    """Writes down what it hears, and does something about the first check, of all or of one student."""

    def __init__(self, at_first_check: Callable[[], object] = lambda: None, of: str = "") -> None:
        super().__init__(Console(file=io.StringIO(), force_terminal=False))
        self.checks: list[tuple[str, str, str]] = []
        self.losses: list[str] = []
        self.said: list[str] = []
        self._at_first_check = at_first_check
        self._of = of

    def say(self, sentence: str) -> None:
        self.said.append(sentence)

    def checked(self, attempt: int, work: Work, exercise: str, result: CheckResult) -> None:
        super().checked(attempt, work, exercise, result)
        self.checks.append((work.name, exercise, result.id))
        if sum(self._of in ("", name) for name, *_ in self.checks) == 1 and self._of in ("", work.name):
            self._at_first_check()

    def lost(self, attempt: int, work: Work, reason: str) -> None:
        super().lost(attempt, work, reason)
        self.losses.append(reason)


def hand_in(folder: Path, works: Mapping[str, Mapping[str, str]] = CLASS) -> Path:
    """Write a folder of hand-ins."""
    for student, files in works.items():
        for name, text in files.items():
            path = folder / student / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return folder


def make_graders(folder: Path) -> Path:
    """Graders that run nothing of a submission. With a pipe `gate` beside the exercise its second check never ends."""
    (folder / "held").mkdir(parents=True)
    (folder / "held" / "exercise.toml").write_text(EXERCISE)
    (folder / "held" / "test_held.py").write_text(JUDGE)
    return folder


def order(folder: Path, cluster: str = "", graders: Path = LAB, config: Path | None = None) -> Order:
    """To grade the class in a folder, here or on a cluster."""
    out = folder / "results"
    out.mkdir(exist_ok=True)
    setup = Setup(graders=str(graders))
    handins = hand_in(folder / "class")
    return Order(handins, out, setup, 1, 100.0, seed=7, cluster=cluster, cluster_config=config)


def graded(wanted: Order, watching: Watching | None = None) -> object:
    """Grade and say what the gradebook holds then, but for times."""
    with open_gradebook(wanted.out) as book, book.grading():
        grade_class(wanted, book, watching or Watching())
        return contents(book)


def contents(book: Gradebook) -> object:
    """Everything of a gradebook that has to be the same wherever it was made."""
    return [
        (
            record.student.id,
            record.problem,
            len(book.attempts(record.student.id)),
            [
                (exercise.id, replace(check, seconds=0, cpu_seconds=None))
                for exercise in record.exercises
                for check in exercise.checks
            ],
        )
        for record in book.records()
    ]
