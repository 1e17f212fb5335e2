"""What the tests of the graders share: grade one submission in this process, in the sandbox all tests share."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from fixtures import build, expect
from lockstep.grading import Options, Silent, grade
from lockstep.result import Result
from lockstep.sandbox.box import Box

# Besides its own, a mistake is put to so many checks here; `make demo` puts every sample to all of them.
OTHERS = 1
# Of these exercises, whose checks take seconds each, to none: their odd solutions and the worked one meet all checks.
LONG = ("amp", "ddp_train", "lightning_train", "reports")


def graded(
    submission: Path, exercise: str, box: Box, seed: int | None = None, checks: Sequence[str] = ()
) -> Result:
    """The result of one exercise of one submission, with a secret seed unless one is given."""
    options = Options(submission=submission, exercises=(exercise,), checks=tuple(checks), seed=seed)
    return grade(options, Silent(), box)


def checks_for(sample: build.Sample) -> tuple[str, ...]:
    """The checks that a sample is put to in the tests: its own and mostly one other; none stands for all.

    The other differs from mistake to mistake, so that each check meets mistakes that are not its own.
    """
    if sample.kind == "correct":
        return ()
    known = [check["id"] for check in build.exercise_toml(sample.exercise)["check"]]
    rest = [name for name in known if name not in sample.fails] if sample.exercise not in LONG else []
    return (*sample.fails, *random.Random(str(sample)).sample(rest, min(OTHERS, len(rest))))


def surprises(
    sample: build.Sample, folder: Path, box: Box, words: Mapping[str, Sequence[str]] | None = None
) -> list[str]:
    """Build a sample below `folder`, grade it, and say how that differs from what it must score.

    `words`, by check: what the message or hint of that check must hold.
    """
    checks = checks_for(sample)
    result = graded(build.build(sample, folder / sample.name), sample.exercise, box, checks=checks)
    found = expect.surprises(sample, result, checks)
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
