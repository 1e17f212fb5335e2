"""One submission graded again and again gives one and the same verdicts, also on a machine that is busy."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fixtures import build
from lockstep.grading import Options, Silent, grade
from lockstep.sandbox.box import Box

REFERENCE = build.ROOT / "reference"
# A mistake per exercise whose verdicts depend on timing the most: a hang, and a race for a file.
MIXED = {"ddp_train": "no_wait_for_the_file", "lfw_dataset": "keeps_handles_open"}


def verdicts(folder: Path, box: Box, exercises: tuple[str, ...] = ()) -> tuple[tuple[str, str, float], ...]:
    """What a grading with a fresh secret seed says; the messages hold figures of its data."""
    result = grade(Options(submission=folder, exercises=exercises), Silent(), box)
    return tuple((check.id, str(check.verdict), check.points) for e in result.exercises for check in e.checks)


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


def graded_often(folder: Path, box: Box, times: int, exercises: tuple[str, ...] = ()) -> set[object]:
    """The different outcomes of `times` gradings, half of them under full load."""
    seen: set[object] = {verdicts(folder, box, exercises) for _ in range(times - times // 2)}
    with full_load():
        seen |= {verdicts(folder, box, exercises) for _ in range(times // 2)}
    return seen


def test_the_reference_twice(box: Box) -> None:
    # Under full load all of it would take minutes, and slow down every test beside it.
    (outcome,) = graded_often(REFERENCE, box, 2, ("lfw_dataset",))
    assert all(verdict == "passed" for _, verdict, _ in outcome)  # type: ignore[attr-defined]


@pytest.mark.slow
def test_the_reference_fifty_times(box: Box) -> None:
    assert len(graded_often(REFERENCE, box, 50)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("exercise", MIXED)
def test_a_mistake_fifty_times(exercise: str, tmp_path: Path, box: Box) -> None:
    samples = {sample.name: sample for sample in build.all_submissions(exercise)}
    folder = build.build(samples[MIXED[exercise]], tmp_path / "hand-in")
    assert len(graded_often(folder, box, 50, (exercise,))) == 1
