"""Grade each mistake several times by its own checks: `python -m tests.soak.steady --exercise scaling --times 5`.

Whoever made a mistake is to earn the same for it on any day, with any hidden data. What earns now more, now less, is
printed with the seeds that replay both; the exit status is 1 then. Whether a check failed or crashed may depend on the
data: a slip in a shape is an exception for one batch, and a wrong number for another.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Collection, Iterable
from pathlib import Path

from fixtures import build
from lockstep.exercise import find_exercises
from lockstep.grading import default_graders, known_exercises
from lockstep.result import Result
from lockstep.sandbox.box import Box, open_box
from lockstep.stopping import end_with
from tests.samples import graded, impatient_checks


def ways(results: Iterable[Result], checks: Collection[str]) -> dict[str, dict[float, int]]:
    """The points that each of these checks gave, each with the first seed that led to them."""
    seen: dict[str, dict[float, int]] = {}
    for result in results:
        for exercise in result.exercises:
            for check in exercise.checks:
                if check.id in checks:
                    seen.setdefault(check.id, {}).setdefault(check.points, result.seed)
    return seen


def unsteady(sample: build.Sample, times: int, box: Box) -> list[str]:
    """A sentence for each check of a mistake that did not always give the same."""
    with (
        tempfile.TemporaryDirectory(prefix="lockstep-steady-") as scratch,
        impatient_checks() if sample.hangs else contextlib.nullcontext(),
    ):
        folder = build.build(sample, Path(scratch, sample.name))
        results = [graded(folder, sample.exercise, box, checks=sample.fails) for _ in range(times)]
    return [
        f"{sample}, {check}: "
        + " or ".join(f"{points:g} points (seed {seed})" for points, seed in ends.items())
        for check, ends in ways(results, sample.fails).items()
        if len(ends) > 1
    ]


def main() -> int:
    """Grade all mistakes of the exercises that are asked for, and tell."""
    known = known_exercises(default_graders())
    parser = argparse.ArgumentParser(prog="python -m tests.soak.steady", description=__doc__)
    parser.add_argument("--exercise", action="append", choices=known, help="only this one (repeatable)")
    parser.add_argument("--times", type=int, default=3, help="gradings of each mistake")
    options = parser.parse_args()

    mistakes = [
        sample
        for exercise in options.exercise or known
        for sample in build.all_submissions(exercise)
        if sample.kind == "mistake"
    ]
    found = 0
    with open_box(find_exercises(default_graders()), isolated=True) as box:
        for sample in mistakes:
            for sentence in unsteady(sample, options.times, box):
                found += 1
                print(sentence, flush=True)
    print(
        f"{len(mistakes)} mistakes, {options.times} gradings of each: {found} checks gave now more, now less"
    )
    return 1 if found else 0


if __name__ == "__main__":
    end_with(main, "steady: stopped")
