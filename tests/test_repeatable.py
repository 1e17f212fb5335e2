"""One submission graded again and again gives one and the same verdicts, also on a machine that is busy."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from fixtures import build
from lockstep.grading import Options, Silent, default_graders, grade, known_exercises
from lockstep.sandbox.box import Box

REFERENCE = build.ROOT / "reference"
# Mistakes whose verdicts depend on timing the most: a hang, a race for a file, a clock that is read too early.
MIXED = {
    "ddp_train": "no_wait_for_the_file",
    "lfw_dataset": "keeps_handles_open",
    "data_parallel": "no_synchronise",
}
EXERCISES = known_exercises(default_graders())
TIMES = 50

Verdicts = tuple[tuple[str, str, float], ...]


def verdicts(folder: Path, box: Box, exercise: str) -> tuple[Verdicts, int]:
    """What a grading with a fresh secret seed says, and the seed; the messages hold figures of its data."""
    result = grade(Options(submission=folder, exercises=(exercise,)), Silent(), box)
    (graded,) = result.exercises
    return tuple((check.id, str(check.verdict), check.points) for check in graded.checks), result.seed


def _burn() -> None:
    while True:
        pass


@contextmanager
def full_load() -> Iterator[None]:
    """Two busy processes for every core."""
    burners = [multiprocessing.Process(target=_burn, daemon=True) for _ in range(2 * (os.cpu_count() or 1))]
    for burner in burners:
        burner.start()
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.join()


def graded_often(folder: Path, box: Box, times: int, exercise: str) -> dict[Verdicts, list[int]]:
    """The different outcomes of `times` gradings, half of them under full load, each with its seeds."""
    seen: dict[Verdicts, list[int]] = {}
    for loaded in (False, True):
        with full_load() if loaded else nullcontext():
            for _ in range(times // 2):
                outcome, seed = verdicts(folder, box, exercise)
                seen.setdefault(outcome, []).append(seed)
    return seen


def test_the_reference_twice(box: Box) -> None:
    # Under full load all of it would take minutes, and slow down every test beside it.
    (outcome,) = graded_often(REFERENCE, box, 2, "lfw_dataset")
    assert all(verdict == "passed" for _, verdict, _ in outcome)


@pytest.mark.slow
@pytest.mark.parametrize("exercise", EXERCISES)
def test_the_reference_fifty_times(exercise: str, box: Box) -> None:
    outcomes = graded_often(REFERENCE, box, TIMES, exercise)
    assert len(outcomes) == 1, outcomes
    assert all(verdict == "passed" for _, verdict, _ in next(iter(outcomes)))


@pytest.mark.slow
@pytest.mark.parametrize("exercise", MIXED)
def test_a_mistake_fifty_times(exercise: str, tmp_path: Path, box: Box) -> None:
    samples = {sample.name: sample for sample in build.all_submissions(exercise)}
    folder = build.build(samples[MIXED[exercise]], tmp_path / "hand-in")
    outcomes = graded_often(folder, box, TIMES, exercise)
    assert len(outcomes) == 1, outcomes
