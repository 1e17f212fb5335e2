"""What a worker is asked to grade, and what it says on the way: plain values, the same here and on other machines."""

from __future__ import annotations

from dataclasses import dataclass

from lockstep.result import CheckResult


@dataclass(frozen=True)
class Setup:
    """How a class is graded: the same for every task of a batch."""

    sandbox: str = "auto"
    device: str = "cpu"
    world_sizes: tuple[int, ...] = (2, 3, 4)
    graders: str = ""
    """Path of the graders' folder where the worker runs; empty for the one beside lockstep."""


@dataclass(frozen=True)
class Task:
    """One hand-in to grade. `attempt` is its number in the gradebook.

    `path` is where the hand-in lies on the machine of the worker; with a `digest`, files that have another are not
    graded. Of the checks of these `exercises` those in `done` are not made again.
    """

    attempt: int
    path: str
    exercises: tuple[str, ...]
    seed: int
    setup: Setup
    digest: str = ""
    done: tuple[tuple[str, CheckResult], ...] = ()


@dataclass(frozen=True)
class Began:
    """A worker took a task up; it will make `total_checks` checks. `node` names its machine."""

    attempt: int
    node: str
    total_checks: int


@dataclass(frozen=True)
class CheckEnded:
    """One check of a task ended, whichever way. `position` is its place in its exercise.toml."""

    attempt: int
    exercise: str
    position: int
    result: CheckResult


@dataclass(frozen=True)
class Ended:
    """A task is done. With a `problem` nothing of it could be graded, and that sentence says why."""

    attempt: int
    problem: str = ""


@dataclass(frozen=True)
class Lost:
    """A worker went away with a task; its checks so far stand, and it has to be taken up again."""

    attempt: int
    reason: str


Event = Began | CheckEnded | Ended | Lost

STOP = "stop"
"""What a worker is sent instead of a task to have it end its present check and begin no other."""
