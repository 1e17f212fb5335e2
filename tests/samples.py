"""What the tests of the graders share: grade one submission in this process, in the sandbox all tests share."""

from __future__ import annotations

import contextlib
import random
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures import build, expect
from lockstep import selection
from lockstep.exercise import Exercise, load_exercise
from lockstep.grading import Options, Silent, grade
from lockstep.result import Result
from lockstep.sandbox.box import Box
from tests.sandboxed import ROOT

# Of the mistakes that a check has for its own `make test` grades so many, `make soak` the others, `make samples` all.
MOST_MISTAKES = 2
# One mistake in so many is put to a check that is not its own; `make samples` puts every sample to all of them.
ONE_IN = 3
# Of these exercises, whose checks take seconds each, none: their odd solutions and the worked one meet all checks.
LONG = ("amp", "ddp_train", "lightning_train", "reports")
# What takes a moment meets all of its mistakes: these exercises, and these checks of others.
QUICK = ("answers", "scaling", "pytorchjob", "azure", "consistent")


def graded(
    submission: Path,
    exercise: str,
    box: Box,
    seed: int | None = None,
    checks: Sequence[str] = (),
    world_sizes: tuple[int, ...] = Options.world_sizes,
    device: str = Options.device,
) -> Result:
    """The result of one exercise of one submission.

    The hidden data is drawn by the names of the two unless a seed is given, so that a test grades the same whenever it
    runs. `make steady` and `make honest` grade with other data every time.
    """
    drawn = random.Random(f"{exercise} {submission.name}").getrandbits(48)
    options = Options(
        submission,
        exercises=(exercise,),
        checks=tuple(checks),
        seed=drawn if seed is None else seed,
        world_sizes=world_sizes,
        device=device,
    )
    return grade(options, Silent(), box)


def edited(exercise: str, folder: Path, *edits: tuple[str, str]) -> Path:
    """The worked solution of an exercise in `folder`: its Python file, in which words that occur once are replaced.

    A shell script of the same name comes with it.
    """
    name = f"{exercise}.py"
    text = (ROOT / "reference" / name).read_text()
    for find, replacement in edits:
        assert text.count(find) == 1, find
        text = text.replace(find, replacement)
    (folder / name).write_text(text)
    script = ROOT / "reference" / f"{exercise}.sh"
    if script.exists():
        shutil.copy(script, folder)
    return folder


def messages_of_losses(submission: Path, exercise: str, box: Box, checks: Sequence[str]) -> list[str]:
    """What those of the checks say in which points were lost."""
    (result,) = graded(submission, exercise, box, checks=checks).exercises
    return [check.message for check in result.checks if check.points < check.max_points]


def samples_to_meet(samples: Sequence[build.Sample]) -> list[object]:
    """The samples as parameters of a test: all odd solutions, and of each check's mistakes some, the others slow."""
    met: Counter[str] = Counter()
    slow = set()
    for sample in sorted(samples, key=lambda sample: random.Random(str(sample)).random()):
        if sample.kind == "mistake":
            met[sample.fails[0]] += 1
            if met[sample.fails[0]] > MOST_MISTAKES and not {sample.exercise, sample.fails[0]} & {*QUICK}:
                slow.add(sample)
    return [
        pytest.param(sample, id=str(sample), marks=pytest.mark.slow if sample in slow else ())
        for sample in samples
    ]


def checks_for(sample: build.Sample) -> tuple[str, ...]:
    """The checks that a sample is put to in the tests: of a mistake its own, and now and then one other.

    The other differs from mistake to mistake, so that each check meets mistakes that are not its own. An odd solution
    is put to all but those that meet nothing odd in it.
    """
    known = [check["id"] for check in build.exercise_toml(sample.exercise)["check"]]
    if sample.kind == "correct":
        return tuple(name for name in known if name not in sample.like_reference)
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
        patch.setattr(selection, "load_exercise", impatient)
        yield


def surprises(sample: build.Sample, folder: Path, box: Box, device: str = Options.device) -> list[str]:
    """Build a sample below `folder`, grade it, and say how that differs from what it must score."""
    checks = checks_for(sample)
    # Each number of ranks is met by half of the odd solutions, and by the reference.
    sizes = (2, 3 + len(sample.name) % 2) if sample.kind == "correct" else Options.world_sizes
    folder = build.build(sample, folder / sample.name)
    with impatient_checks() if sample.hangs else contextlib.nullcontext():
        result = graded(folder, sample.exercise, box, checks=checks, world_sizes=sizes, device=device)
    return [f"{surprise} (seed {result.seed})" for surprise in expect.surprises(sample, result, checks)]
