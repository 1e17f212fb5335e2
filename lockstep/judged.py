"""From how a judge ended to the result that is kept and read, and that result on its way between processes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from lockstep.exercise import CheckSpec
from lockstep.result import CheckResult, Review
from lockstep.text import safe, safe_line
from lockstep.verdict import CheckEnded, Verdict

FAULT_MESSAGE = (
    "lockstep itself failed at this check. It says nothing about your work and is not held against it."
)
FAULT_HINT = "Tell your instructor the name of this check."
ANSWER_CHARACTERS = 20_000
"""Kept of an answer that a person marks: several times what anybody wants to read."""


def made(verdict: object) -> None:
    """Raise TypeError where a judge returned something: nobody reads it, and everybody would pass."""
    if verdict is not None:
        close = getattr(verdict, "close", None)
        if callable(close):  # a coroutine that nobody awaits
            close()
        raise TypeError(
            f"a judge returned a {type(verdict).__name__}: it says what is wrong by check.expect alone"
        )


def result_of(spec: CheckSpec, error: BaseException | None, notes: str, seconds: float) -> CheckResult:
    """The result of the check `spec`, whose judge raised `error` or None after so many seconds of wall time.

    What a student's code had a hand in is made harmless here, before it reaches a file or a terminal.
    """
    if error is None:
        return CheckResult(spec.id, Verdict.PASSED, spec.points, spec.points, safe(notes), "", seconds)
    if not isinstance(error, CheckEnded):
        return CheckResult(spec.id, Verdict.FAULT, 0.0, spec.points, FAULT_MESSAGE, FAULT_HINT, seconds)
    points = min(max(0.0, error.points), spec.points)  # in this order NaN becomes 0
    message, hint = safe(f"{error.feedback.message} {notes}".strip()), safe(error.feedback.hint)
    return CheckResult(
        spec.id, error.verdict, points, spec.points, message, hint, seconds, spoils=error.spoils
    )


def harmless(review: Review) -> Review:
    """A review whose texts can go to a file and onto a page, as a message can."""
    return replace(
        review,
        answer=safe(review.answer, ANSWER_CHARACTERS),
        numbers=tuple(safe_line(number) for number in review.numbers),
        duplicate=None if review.duplicate is None else safe_line(review.duplicate),
    )


def to_text(exercise: str, result: CheckResult) -> str:
    """An exercise's result as a test's report can carry it."""
    reviews = [vars(review) for review in result.reviews]
    return json.dumps(
        {"exercise": exercise, **vars(result), "verdict": str(result.verdict), "reviews": reviews}
    )


def from_text(text: str) -> tuple[str, CheckResult]:
    """The exercise and the result that `to_text` wrote."""
    fields: dict[str, Any] = json.loads(text)
    exercise = fields.pop("exercise")
    reviews = (Review(**{**review, "numbers": tuple(review["numbers"])}) for review in fields["reviews"])
    return exercise, CheckResult(
        **{**fields, "verdict": Verdict(fields["verdict"]), "reviews": tuple(reviews)}
    )
