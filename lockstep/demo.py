"""`make demo`: grades the reference, the template and every sample submission, and says what each scored.

Writes `results/demo.json` and the result of each submission beside it. Exit status: 0 when every one of
them scored what it must, 1 when one did not.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from fixtures import build, expect
from lockstep import terminal
from lockstep.grading import CouldNotGrade, Options, Silent, default_graders, grade, known_exercises
from lockstep.jsonfile import write_json
from lockstep.result import Result
from lockstep.text import safe_line
from lockstep.verdict import Verdict

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"


@dataclass(frozen=True)
class Job:
    """One submission to grade: a sample, or where there is none the folder `name` of this checkout."""

    name: str
    kind: str
    exercises: tuple[str, ...]
    sample: build.Sample | None = None

    def __str__(self) -> str:
        """The exercises and the name, for a person."""
        return " ".join([*self.exercises, self.name])


@dataclass(frozen=True)
class Outcome:
    """What a job scored; `surprises` is empty when that is what it must score."""

    job: Job
    result: Result | None
    surprises: tuple[str, ...]
    seconds: float


def jobs(exercises: tuple[str, ...]) -> Iterator[Job]:
    """The reference, the template, then every sample of `exercises`."""
    yield Job("reference", "reference", exercises)
    yield Job("student_template", "template", exercises)
    for exercise in exercises:
        for sample in build.all_submissions(exercise):
            yield Job(sample.name, sample.kind, (exercise,), sample=sample)


def run(job: Job, scratch: Path) -> Outcome:
    """Grade one job in this process; a sample is built below `scratch`, which is the caller's to remove."""
    begun = time.monotonic()
    result: Result | None = None
    try:
        folder = ROOT / job.name
        if job.sample is not None:
            folder = build.build(job.sample, scratch.joinpath(*job.exercises, job.kind, job.name))
        result = grade(Options(submission=folder, exercises=job.exercises), Silent())
        surprises = _surprises(job, result)
    except (CouldNotGrade, ValueError) as error:  # ValueError: the sample does not follow its format
        surprises = [str(error)]
    return Outcome(job, result, tuple(surprises), time.monotonic() - begun)


def _surprises(job: Job, result: Result) -> list[str]:
    if job.sample is not None:
        return expect.surprises(job.sample, result)
    return (expect.reference_surprises if job.kind == "reference" else expect.template_surprises)(result)


def run_all(todo: list[Job], processes: int, scratch: Path, progress: Progress) -> list[Outcome]:
    """Grade all jobs, `processes` at a time, and return their outcomes in the order of `todo`."""
    outcomes: list[Outcome] = []
    task = progress.add_task("", total=len(todo))
    # Each process grades many submissions, so that it reads torch and the graders only once.
    # Spawned, not forked: by now this process has a thread that paints the progress.
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        try:
            for outcome in pool.map(run, todo, repeat(scratch)):
                outcomes.append(outcome)
                progress.update(task, advance=1, description=f"{outcome.job} graded")
                if not progress.console.is_terminal and len(outcomes) % 10 == 0:
                    progress.console.print(f"{len(outcomes)} of {len(todo)} submissions graded")
        except KeyboardInterrupt:
            # Left alone they would first grade what is already queued. Their sandboxes die with them.
            for process in multiprocessing.active_children():
                process.terminate()
            raise
    return outcomes


def table(outcomes: list[Outcome], exercises: tuple[str, ...]) -> Table:
    """Under each exercise one row a submission: as expected or not, its points, and what failed."""
    grid = Table(box=None, pad_edge=False, header_style="bold")
    grid.add_column("ok", no_wrap=True)
    grid.add_column("submission", no_wrap=True)
    grid.add_column("kind", no_wrap=True)
    grid.add_column("points", no_wrap=True, justify="right")
    grid.add_column("failed")
    for exercise in exercises:
        grid.add_row()
        grid.add_row("", Text(exercise, style="bold"))
        for outcome in outcomes:
            if exercise in outcome.job.exercises:
                mark = terminal.MARKS[Verdict.FAILED if outcome.surprises else Verdict.PASSED]
                grid.add_row(
                    terminal.Sign(mark),
                    outcome.job.name,
                    outcome.job.kind,
                    *_points_and_failed(outcome, exercise),
                )
    return grid


def _points_and_failed(outcome: Outcome, exercise: str) -> tuple[str, Text]:
    """The last two cells of a row. For the template, where every check fails, their number will do."""
    graded = [found for found in (outcome.result.exercises if outcome.result else ()) if found.id == exercise]
    if not graded:
        return "", Text("not graded", style="red")
    checks = graded[0].checks
    failed = [check.id for check in checks if check.verdict in expect.CAUGHT]
    many = outcome.job.sample is None and len(failed) > 3
    cell = f"{len(failed)} of {len(checks)} checks" if many else ", ".join(failed)
    return f"{graded[0].points:g} of {graded[0].max_points:g}", Text(cell)


def write(outcomes: list[Outcome], seconds: float, folder: Path) -> None:
    """Write each result below `folder`, and `demo.json`, which lists them with what was expected."""
    listed = []
    for outcome in outcomes:
        job = outcome.job
        name = Path(*job.exercises, job.kind, f"{job.name}.json") if job.sample else Path(f"{job.name}.json")
        if outcome.result is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_json(folder / name, outcome.result.to_json())
        listed.append(
            {
                "submission": job.name,
                "kind": job.kind,
                "exercises": list(job.exercises),
                "as_expected": not outcome.surprises,
                "surprises": list(outcome.surprises),
                "points": outcome.result.points if outcome.result else None,
                "max_points": outcome.result.max_points if outcome.result else None,
                "seconds": round(outcome.seconds, 2),
                "result": name.as_posix() if outcome.result else None,
            }
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "demo.json", {"seconds": round(seconds, 1), "submissions": listed})


def main() -> int:
    """Grade everything and return the exit status."""
    known = known_exercises(default_graders())
    parser = argparse.ArgumentParser(prog="python -m lockstep.demo", description=__doc__.splitlines()[0])
    parser.add_argument("--exercise", action="append", choices=known, help="only this exercise")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 4), help="submissions at a time")
    options = parser.parse_args()
    exercises = tuple(options.exercise or known)

    out, err = terminal.console_for(sys.stdout), terminal.console_for(sys.stderr)
    begun = time.monotonic()
    columns = (BarColumn(bar_width=30), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        tempfile.TemporaryDirectory(prefix="lockstep-demo-") as scratch,
        Progress(
            *columns,
            TextColumn("{task.description}", markup=False),
            console=err,
            transient=True,
            disable=not err.is_terminal,
        ) as progress,
    ):
        outcomes = run_all(list(jobs(exercises)), options.jobs, Path(scratch), progress)
    seconds = time.monotonic() - begun
    write(outcomes, seconds, RESULTS)

    out.print(table(outcomes, exercises))
    unexpected = [outcome for outcome in outcomes if outcome.surprises]
    for outcome in unexpected:
        out.print()
        out.print(
            Text(f"{' '.join(outcome.job.exercises)} {outcome.job.name}: not as expected", style="bold red")
        )
        out.print(terminal.notes(outcome.surprises))
    out.print()
    out.print(
        f"{len(outcomes) - len(unexpected)} of {len(outcomes)} submissions scored what they must, "
        f"in {seconds:.0f} s; the results are in {safe_line(RESULTS.relative_to(ROOT).as_posix())}/."
    )
    return 1 if unexpected else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CouldNotGrade as refusal:
        sys.exit(f"demo: {refusal}")
    except KeyboardInterrupt:
        print("demo: stopped before there was a result", file=sys.stderr)
        sys.exit(130)
