"""Grade the unusual but right submissions again and again: `python -m tests.soak.honest --minutes 60`.

Two hundred gradings of each of them take a machine with two cores more than ten hours, so they are done in pieces:
docs/honest-runs.csv counts them, and whatever was graded least often so far comes next. Each grading is that of a
student who hands in everything of one exercise, with hidden data of its own. The exit status is 1 where one of them
lost a point.
"""

from __future__ import annotations

import argparse
import csv
import heapq
import io
import math
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, fields, replace
from pathlib import Path

from fixtures import build
from fixtures.demo import Job, Outcome, grading_processes, run
from lockstep.classroom.fingerprint import fingerprints
from lockstep.classroom.task import Setup
from lockstep.exercise import find_exercises
from lockstep.grading import default_graders, known_exercises
from lockstep.stopping import end_with
from lockstep.wholefile import write_whole
from tests.sandboxed import ROOT

COUNTED = ROOT / "docs" / "honest-runs.csv"
WANTED = 200


@dataclass(frozen=True)
class Count:
    """How often one submission was graded, and how often it lost a point.

    `of_these` of the gradings were made by the `engine` of the last one: the first digits of its fingerprint.
    """

    exercise: str
    submission: str
    gradings: int = 0
    harmed: int = 0
    engine: str = ""
    of_these: int = 0

    def and_one(self, engine: str, is_harmed: bool) -> Count:
        """The count after one grading more."""
        return replace(
            self,
            gradings=self.gradings + 1,
            harmed=self.harmed + is_harmed,
            engine=engine,
            of_these=(self.of_these if engine == self.engine else 0) + 1,
        )


Key = tuple[str, str]
Counts = dict[Key, Count]


def read(text: str) -> Counts:
    """The counts in a file that `written` wrote."""
    numbers = {field.name for field in fields(Count) if field.type == "int"}
    counts = {}
    for row in csv.DictReader(io.StringIO(text)):
        values = {name: int(value) if name in numbers else value for name, value in row.items()}
        count = Count(**values)  # type: ignore[arg-type]
        counts[count.exercise, count.submission] = count
    return counts


def written(counts: Mapping[Key, Count]) -> str:
    """All counts as CSV, by exercise and submission."""
    text = io.StringIO()
    names = [field.name for field in fields(Count)]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(vars(counts[key]) for key in sorted(counts))
    return text.getvalue()


def next_ones(counts: Mapping[Key, Count], samples: Mapping[Key, build.Sample]) -> Iterator[build.Sample]:
    """The sample that was graded least often, those given out already counted in, until all have their gradings."""
    queue = [(counts[key].gradings if key in counts else 0, key) for key in samples]
    heapq.heapify(queue)
    while queue and queue[0][0] < WANTED:
        gradings, key = queue[0]
        heapq.heapreplace(queue, (gradings + 1, key))
        yield samples[key]


def graded(samples: Iterator[build.Sample], processes: int, until: float) -> Iterator[Outcome]:
    """Grade, as they end, so many at a time; none begins after `until` (monotonic)."""
    with (
        tempfile.TemporaryDirectory(prefix="lockstep-honest-") as scratch,
        grading_processes(processes) as pool,
    ):
        running: dict[Future[Outcome], Path] = {}
        number = 0
        while True:
            while len(running) < processes and time.monotonic() < until:
                sample = next(samples, None)
                if sample is None:
                    break
                number += 1
                folder = Path(scratch, str(number))
                job = Job(sample.name, sample.kind, (sample.exercise,), sample)
                running[pool.submit(run, job, folder)] = folder
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                shutil.rmtree(running.pop(future))
                yield future.result()


def table(counts: Mapping[Key, Count], engines: Mapping[str, str]) -> str:
    """A row an exercise, for docs/soak.md."""
    rows = [
        "| exercise | submissions | gradings of each | of these by the present engine | lost a point |",
        "|---|---:|---:|---:|---:|",
    ]
    for exercise in sorted({count.exercise for count in counts.values()}):
        of = [count for count in counts.values() if count.exercise == exercise]
        present = [count.of_these if count.engine == engines[exercise] else 0 for count in of]
        rows.append(
            f"| `{exercise}` | {len(of)} | {_range([count.gradings for count in of])} | {_range(present)} "
            f"| {sum(count.harmed for count in of)} |"
        )
    return "\n".join(rows)


def _range(numbers: Sequence[int]) -> str:
    return f"{min(numbers)}" if min(numbers) == max(numbers) else f"{min(numbers)} to {max(numbers)}"


def main() -> int:
    """Grade until the time is over or everything was graded often enough, and count."""
    known = known_exercises(default_graders())
    parser = argparse.ArgumentParser(prog="python -m tests.soak.honest", description=__doc__)
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no grading after so many")
    parser.add_argument("--exercise", action="append", choices=known, help="only this one (repeatable)")
    parser.add_argument("--submission", action="append", metavar="NAME", help="only this one (repeatable)")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 4), help="gradings at a time")
    options = parser.parse_args()

    until = time.monotonic() + 60 * options.minutes
    found = fingerprints(find_exercises(default_graders()), Setup())
    engines = {exercise: digest[:8] for exercise, digest in found.items()}
    samples = {
        (exercise, sample.name): sample
        for exercise in options.exercise or known
        for sample in build.all_submissions(exercise)
        if sample.kind == "correct" and sample.name in (options.submission or [sample.name])
    }
    if unknown := {*(options.submission or ())} - {name for _, name in samples}:
        parser.error(f"there is no right submission called {', '.join(sorted(unknown))}")
    counts = read(COUNTED.read_text("utf-8")) if COUNTED.exists() else {}
    harmed = 0
    for outcome in graded(next_ones(counts, samples), options.jobs, until):
        (exercise,), name = outcome.job.exercises, outcome.job.name
        count = counts.get((exercise, name), Count(exercise, name))
        counts[exercise, name] = count.and_one(engines[exercise], bool(outcome.surprises))
        write_whole(COUNTED, written(counts).encode())
        if outcome.surprises:
            harmed += 1
            seed = outcome.result.seed if outcome.result else "none"
            print(f"{exercise}/{name}, seed {seed}: {'; '.join(outcome.surprises)}", flush=True)
    never = {key: Count(*key) for key in samples if key not in counts}
    print(table({**counts, **never}, engines))
    return 1 if harmed else 0


if __name__ == "__main__":
    end_with(main, "honest: stopped; what was graded is counted")
