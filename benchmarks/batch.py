"""How long a class takes: against what its checks compute, and when nothing of it has changed."""

from __future__ import annotations

import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.figure import Figure
from fixtures.classroom import build_class
from fixtures.pretending import Pretending, Unwatched
from fixtures.works import REFERENCE, class_works
from lockstep.classroom.batch import Batch, Way
from lockstep.classroom.catalogue import catalogue
from lockstep.classroom.fingerprint import fingerprints, versions
from lockstep.classroom.gradebook import open_gradebook
from lockstep.classroom.intake import take_in
from lockstep.classroom.plan import Wanted, make_plan
from lockstep.classroom.roster import read_roster
from lockstep.classroom.task import Setup
from lockstep.exercise import Exercise, find_exercises
from lockstep.grading import default_graders

CORES = 2
WHOLE = 20
STUDENTS = 300
PYTHON_STARTS = 0.02  # seconds, on the machine that the bounds were set on


def figures(repetitions: int) -> Iterator[Figure]:
    """Every row. The class that is graded whole is graded once: it takes minutes."""
    with tempfile.TemporaryDirectory() as folder:
        yield whole(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        yield unchanged(Path(folder), repetitions)


def whole(folder: Path) -> Figure:
    """Worked solutions of all exercises on two cores: wall time against what their checks computed."""
    submissions, results = folder / "submissions", folder / "results"
    submissions.mkdir()
    for number in range(WHOLE):
        (submissions / f"student {number}").symlink_to(REFERENCE)
    cores = sorted(os.sched_getaffinity(0))[:CORES]
    wall = _grade(submissions, results, before=lambda: os.sched_setaffinity(0, cores))
    with sqlite3.connect(results / "gradebook.db") as book:
        ((computed, checks),) = book.execute("SELECT sum(cpu_seconds), count(*) FROM checks")
    ratio = wall / (computed / len(cores))
    return Figure(
        f"a class of {WHOLE} worked solutions, {checks} checks, on {len(cores)} cores",
        f"{wall:.0f} s; the checks computed {computed:.0f} s: {ratio:.2f} of their share of a core",
        "at most 1.25",
        ratio <= 1.25,
    )


def unchanged(folder: Path, repetitions: int) -> Figure:
    """A class that is graded already."""
    submissions, results = folder / "submissions", folder / "results"
    submissions.mkdir()
    results.mkdir()
    exercises = find_exercises(default_graders())
    works = class_works(tuple(exercise.id for exercise in exercises))
    made = build_class(submissions, works, STUDENTS)
    _pretend(made.submissions, made.roster, results, exercises)
    _grade(made.submissions, results, "--roster", made.roster)  # which writes tables and pages
    took, bare = [], []
    for _ in range(repetitions):
        took.append(_grade(made.submissions, results, "--roster", made.roster))
        bare.append(_python())
    median = statistics.median(took)
    # This machine may be slower than the one that the bounds were set on, or busy.
    slower = max(1.0, statistics.median(bare) / PYTHON_STARTS)
    return Figure(
        f"`lockstep grade` on a class of {STUDENTS} of which nothing has changed",
        f"{median:.1f} s, of which {statistics.median(bare) * 1000:.0f} ms start Python",
        f"5 s where Python starts in {PYTHON_STARTS} s",
        median < 5 * slower,
    )


def _grade(
    submissions: Path, results: Path, *more: object, before: Callable[[], None] | None = None
) -> float:
    """Seconds of a whole `lockstep grade`."""
    command = [sys.executable, "-m", "lockstep.cli", "grade", str(submissions), "--out", str(results)]
    began = time.perf_counter()
    done = subprocess.run(
        [*command, *map(str, more)],
        capture_output=True,
        text=True,
        timeout=3600,
        check=False,
        preexec_fn=before,
    )
    took = time.perf_counter() - began
    if done.returncode not in (0, 1):
        raise SystemExit(f"the class could not be graded: {done.stderr[-2000:]}")
    return took


def _python() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True, timeout=60)
    return time.perf_counter() - began


def _pretend(submissions: Path, roster: Path, results: Path, exercises: tuple[Exercise, ...]) -> None:
    """Write a gradebook in which every check of everybody has passed."""
    wanted = Wanted(fingerprints(exercises, Setup()), {})
    with open_gradebook(results / "gradebook.db") as book:
        intake = take_in(submissions, results / "submissions", read_roster(roster))
        book.enroll([*(handin.student for handin in intake.handins), *intake.missing])
        book.remember_catalogue(catalogue(exercises))
        plan = make_plan(book, intake.handins, wanted)
        way = Way(Setup(), wanted, versions())
        Batch(book, way, Unwatched()).grade(Pretending(exercises), plan.work)
