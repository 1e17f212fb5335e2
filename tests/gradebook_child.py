"""Another process at the gradebook, for tests that kill it or write at the same time: `python -m tests.gradebook_child`.

Arguments: the place, a role and a number. What it has done it says line by line on standard output.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lockstep.classroom.gradebook import Gradebook, open_gradebook
from lockstep.classroom.handin import HandIn
from lockstep.classroom.people import Student
from lockstep.classroom.record import Mark, Override
from lockstep.result import CheckResult
from lockstep.verdict import Verdict

ROOT = Path(__file__).resolve().parent.parent
STUDENT = Student("a1", "Ada")
SECONDS = 120


@contextmanager
def child(place: str | Path, role: str, number: int = 0) -> Iterator[subprocess.Popen[str]]:
    """A process in a role; killed at the latest when the block ends."""
    command = [sys.executable, "-m", "tests.gradebook_child", str(place), role, str(number)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def write_checks(book: Gradebook, number: int) -> None:
    """Write checks until somebody ends this; say each one's number once it is written."""
    book.enroll([STUDENT])
    handin = book.receive(HandIn(STUDENT, None, "work.zip"), "d1")
    begun = book.begin(handin, {"ex": "f"}, seed=number)
    for position in range(len(begun.done), 1_000_000):
        result = CheckResult(f"check_{position}", Verdict.FAILED, 1.0, 2.0, f"seen {position} " * 50)
        book.write_check(begun.id, "ex", position, result)
        print(position, flush=True)


def decide(book: Gradebook, number: int) -> None:
    """Enroll, override and mark the same as the others do, at the same time as they do."""
    book.enroll([STUDENT])
    for count in range(15):
        book.override("a1", Override("ex", f"check_{count}", float(number), "", f"person {number}", ""))
        book.mark("a1", Mark("ex", "Q1", float(number), f"{count}", f"person {number}", ""))


def hold(book: Gradebook, number: int) -> None:
    """Hold the gradebook until standard input ends."""
    with book.grading():
        print("held", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    with open_gradebook(sys.argv[1]) as opened:
        {"write_checks": write_checks, "decide": decide, "hold": hold}[sys.argv[2]](opened, int(sys.argv[3]))
