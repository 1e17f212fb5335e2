"""A judge whose checks run nothing: `steps.md` lists those that fail, and what else is to happen in one.

`LOCKSTEP_TESTS_GATE` names a pipe that hears of each check as it begins.
"""

import os
import signal
import threading

from lockstep.check import Check


def test_one(check: Check) -> None:
    """The first step."""
    _step(check)


def test_two(check: Check) -> None:
    """The second step."""
    _step(check)


def test_three(check: Check) -> None:
    """The third step."""
    _step(check)


def test_four(check: Check) -> None:
    """The fourth step."""
    _step(check)


def test_five(check: Check) -> None:
    """The fifth step."""
    _step(check)


def test_six(check: Check) -> None:
    """The sixth step."""
    _step(check)


def _step(check: Check) -> None:
    gate = os.environ.get("LOCKSTEP_TESTS_GATE")
    if gate is not None:
        with open(gate, "wb", buffering=0) as pipe:
            pipe.write(b".")
    words = check.submission.files["steps.md"].decode().split()
    check.note(f"drawn {check.rng.integers(1 << 30)}")
    if f"{check.id}:dies" in words:
        os.kill(os.getpid(), signal.SIGKILL)
    if f"{check.id}:waits" in words:
        threading.Event().wait()
    check.expect(
        check.id not in words, f"{check.id} is among the steps that fail.", "Leave it out.", points=0.25
    )
