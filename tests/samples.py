"""What the tests of the graders share: grade one submission in this process, in the sandbox all tests share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from fixtures import build, expect
from lockstep.grading import Options, Silent, grade
from lockstep.result import Result
from lockstep.sandbox.box import Box


def graded(submission: Path, exercise: str, box: Box, seed: int | None = None) -> Result:
    """The result of one exercise of one submission, with a secret seed unless one is given."""
    return grade(Options(submission=submission, exercises=(exercise,), seed=seed), Silent(), box)


def surprises(
    sample: build.Sample, folder: Path, box: Box, words: Mapping[str, Sequence[str]] | None = None
) -> list[str]:
    """Build a sample below `folder`, grade it, and say how that differs from what it must score.

    `words`, by check: what the message or hint of that check must hold.
    """
    result = graded(build.build(sample, folder / sample.name), sample.exercise, box)
    found = expect.surprises(sample, result)
    told = {
        check.id: f"{check.message}\n{check.hint}"
        for exercise in result.exercises
        for check in exercise.checks
    }
    for check, wanted in (words or {}).items():
        found += [
            f"{check} says nothing of {word!r}: {told[check]}" for word in wanted if word not in told[check]
        ]
    return [f"{surprise} (seed {result.seed})" for surprise in found]
