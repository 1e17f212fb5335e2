"""What a check can end in: a small closed set, and the exceptions that carry it out of a judge."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How a check ended, in the order a table shows them: worst for the reader first."""

    FAULT = "grader fault"
    HUNG = "hung"
    LIMIT = "exceeded a limit"
    CRASHED = "crashed"
    FAILED = "failed"
    NOT_CHECKED = "not checked"
    PASSED = "passed"


@dataclass(frozen=True)
class Feedback:
    """What a student reads about one check.

    `message` says what was run, what was seen and what was expected; `hint` names the usual cause and
    the next step. Neither ever holds a grader's traceback, a host path or the seed.
    """

    message: str
    hint: str = ""


class CheckEnded(Exception):
    """A judge reached its verdict before its last line; `points` is the partial credit it leaves.

    `spoils` says that the exercise's other checks would only fail of the same cause: it is reported once,
    here, and they end as not checked.
    """

    verdict = Verdict.FAILED
    spoils = False

    def __init__(self, message: str, hint: str = "", points: float = 0.0) -> None:
        super().__init__(message)
        self.feedback = Feedback(message, hint)
        self.points = points


class Failed(CheckEnded):
    """The student's code ran and did something else than the exercise asks."""


class Crashed(CheckEnded):
    """The student's code raised, or its process died."""

    verdict = Verdict.CRASHED


class Hung(CheckEnded):
    """The student's code did not come back within the wall-clock limit of the check."""

    verdict = Verdict.HUNG


class LimitExceeded(CheckEnded):
    """The student's code used more memory, processes, disk or output than the check allows."""

    verdict = Verdict.LIMIT


class NotChecked(CheckEnded):
    """A check this one builds on did not pass, so there was nothing to look at."""

    verdict = Verdict.NOT_CHECKED


class GraderFault(Exception):
    """Something of lockstep's own broke. It never costs a student points and is never their message."""
