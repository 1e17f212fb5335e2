"""What it costs that ranks are apart: the same runs with ranks that share their files and processes, in turn."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from benchmarks.figure import Figure
from benchmarks.weight_sync import sync_run
from benchmarks.whole import whole_reference
from fixtures.works import REFERENCE
from lockstep.exercise import find_exercises
from lockstep.grading import default_graders
from lockstep.sandbox.box import open_box
from lockstep.submission import open_submission

RUNS_PER_REPETITION = 6


def figures(repetitions: int) -> Iterator[Figure]:
    """Every row."""
    yield two_ranks(repetitions * RUNS_PER_REPETITION)
    yield reference(repetitions)


def two_ranks(times: int) -> Figure:
    """The weight-sync check."""
    submission = open_submission(REFERENCE)
    apart, together = [], []
    with open_box(find_exercises(default_graders()), isolated=True) as box:
        for _ in range(times):
            together.append(sync_run(box, submission, shared_files=True)[0])
            apart.append(sync_run(box, submission)[0])
    ratio = statistics.median(apart) / statistics.median(together)
    return Figure(
        "a two-rank weight-sync check with its ranks apart, against ranks that share files and processes",
        f"{statistics.median(apart) * 1000:.0f} ms against {statistics.median(together) * 1000:.0f} ms: x {ratio:.2f}",
        "at most x 1.30",
        ratio <= 1.3,
    )


def reference(times: int) -> Figure:
    """The exercises that have ranks, graded whole."""
    exercises = ("ddp_train", "lightning_train")
    apart, together = [], []
    for _ in range(times):
        together.append(whole_reference(*exercises, apart=False)[0])
        apart.append(whole_reference(*exercises)[0])
    ratio = statistics.median(apart) / statistics.median(together)
    return Figure(
        "the reference's exercises with several ranks, graded whole, in the same way",
        f"{statistics.median(apart):.1f} s against {statistics.median(together):.1f} s: x {ratio:.2f}",
        "at most x 1.15",
        ratio <= 1.15,
    )
