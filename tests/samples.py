"""What the tests of the graders share: grade one submission in this process, in the sandbox all tests share."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures import build, expect
from lockstep import plugin
from lockstep.exercise import Exercise, load_exercise
from lockstep.grading import Options, Silent, grade
from lockstep.result import Result
from lockstep.sandbox.box import Box

# Of the mistakes that a check has for its own `make test` grades so many, `make soak` the others, `make samples` all.
MOST_MISTAKES = 3
# One mistake in so many is put to a check that is not its own; `make samples` puts every sample to all of them.
ONE_IN = 3
# Of these exercises, whose checks take seconds each, none: their odd solutions and the worked one meet all checks.
LONG = ("amp", "ddp_train", "lightning_train", "reports")


def graded(
    submission: Path,
    exercise: str,
    box: Box,
    seed: int | None = None,
    checks: Sequence[str] = (),
    world_sizes: tuple[int, ...] = Options.world_sizes,
) -> Result:
    """The result of one exercise of one submission, with a secret seed unless one is given."""
    options = Options(
        submission, exercises=(exercise,), checks=tuple(checks), seed=seed, world_sizes=world_sizes
    )
    return grade(options, Silent(), box)


def samples_to_meet(samples: Sequence[build.Sample]) -> list[object]:
    """The samples as parameters of a test: all odd solutions, and of each check's mistakes some, the others slow."""
    met: Counter[str] = Counter()
    slow = set()
    for sample in sorted(samples, key=lambda sample: random.Random(str(sample)).random()):
        if sample.kind == "mistake":
            met[sample.fails[0]] += 1
            if met[sample.fails[0]] > MOST_MISTAKES:
                slow.add(sample)
    return [
        pytest.param(sample, id=str(sample), marks=pytest.mark.slow if sample in slow else ())
        for sample in samples
    ]


def checks_for(sample: build.Sample, but_not: str = "") -> tuple[str, ...]:
    """The checks that a sample is put to in the tests: of a mistake its own, and now and then one other.

    The other differs from mistake to mistake, so that each check meets mistakes that are not its own. An odd solution
    is put to all, `but_not` to this one.
    """
    known = [check["id"] for check in build.exercise_toml(sample.exercise)["check"]]
    if sample.kind == "correct":
        return tuple(name for name in known if name != but_not)
    draw = random.Random(str(sample))
    if sample.exercise in LONG or draw.randrange(ONE_IN):
        return sample.fails
    rest = [name for name in known if name not in sample.fails]
    return (*sample.fails, *draw.sample(rest, min(1, len(rest))))


@contextlib.contextmanager
def impatient_checks(seconds: float = 5.0) -> Iterator[None]:
    """Checks wait only so long for an answer: what never comes need not be waited for as long as the exercise says."""

    def impatient(folder: Path) -> Exercise:
        exercise = load_exercise(folder)
        checks = tuple(replace(check, seconds=min(check.seconds, seconds)) for check in exercise.checks)
        return replace(exercise, checks=checks)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugin, "load_exercise", impatient)
        yield


def surprises(
    sample: build.Sample,
    folder: Path,
    box: Box,
    words: Mapping[str, Sequence[str]] | None = None,
    *,
    but_not: str = "",
    world_sizes: tuple[int, ...] = Options.world_sizes,
) -> list[str]:
    """Build a sample below `folder`, grade it, and say how that differs from what it must score.

    `words`, by check: what the message or hint of that check must hold. `but_not`: see `checks_for`.
    """
    checks = checks_for(sample, but_not)
    folder = build.build(sample, folder / sample.name)
    result = graded(folder, sample.exercise, box, checks=checks, world_sizes=world_sizes)
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
