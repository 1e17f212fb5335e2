"""`lockstep grade`: from what a class handed in to a gradebook, and from there to tables and pages."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from types import FrameType

from lockstep.classroom.batch import Batch, Way
from lockstep.classroom.catalogue import catalogue
from lockstep.classroom.claims import in_their_teams
from lockstep.classroom.database import FILE
from lockstep.classroom.fingerprint import fingerprints, versions
from lockstep.classroom.gradebook import Gradebook
from lockstep.classroom.handin import Intake
from lockstep.classroom.intake import OWN, UNPACKED, late_by_roster, take_in
from lockstep.classroom.latepolicy import read_policy
from lockstep.classroom.matching import Register
from lockstep.classroom.pages.write import is_foreign
from lockstep.classroom.plan import Plan, Wanted, forget_forced, make_plan, only_checks
from lockstep.classroom.pool import LocalPool, Pool
from lockstep.classroom.progress import ClassProgress
from lockstep.classroom.roster import Roster, read_roster, roster_of
from lockstep.classroom.scratch import Scratch
from lockstep.classroom.sheet import read_sheet
from lockstep.classroom.strangers import recognised
from lockstep.classroom.task import Setup
from lockstep.classroom.worker import machine_problem
from lockstep.exercise import Exercise, ExerciseError, find_exercises
from lockstep.grading import CouldNotGrade, default_graders
from lockstep.stopping import ENDING
from lockstep.text import safe_line

WORK = ".work"
"""In the folder of results: what a grading needs while it runs."""

WRITTEN_INTO = frozenset({UNPACKED, "students", "exports", WORK})
"""Folders in the folder of results that are made, and tidied up, by lockstep alone."""


@dataclass(frozen=True)
class Order:
    """What was asked for. No `exercises` means all, `timeout` is seconds for one hand-in; `out` is there.

    `late` is the file of a late policy; without one the policy holds that the gradebook remembers, and likewise the
    `roster`.
    """

    submissions: Path
    out: Path
    setup: Setup
    jobs: int
    timeout: float
    roster: Path | None = None
    late: Path | None = None
    exercises: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    regrade: bool = False
    seed: int | None = None
    cluster: str = ""
    cluster_config: Path | None = None

    @property
    def graders(self) -> Path:
        """The folder of the exercises."""
        return Path(self.setup.graders) if self.setup.graders else default_graders()


@dataclass(frozen=True)
class Graded:
    """How it went: who handed in, what there was to do, and whether somebody stopped it before it was done.

    `remarks` are sentences about machines that graded nothing, `renamed` about students whom the roster calls otherwise
    than an earlier grading did.
    """

    intake: Intake
    plan: Plan
    stopped: bool
    remarks: tuple[str, ...] = ()
    renamed: tuple[str, ...] = ()


def check_arguments(order: Order) -> None:
    """Refuse what cannot be meant, before anything is written: a student of a wrong grading would stay for good.

    Raises CouldNotGrade, RosterError and PolicyError with a sentence.
    """
    exercises = _exercises(order)
    try:
        catalogue(exercises)
    except ExerciseError as error:
        raise CouldNotGrade(str(error)) from error
    _refuse_contradiction(order)
    _refuse_results_among_handins(order)
    if is_foreign(order.out / "index.html"):
        raise CouldNotGrade(
            f"--out {order.out} holds an index.html that is no page of lockstep's and would be written over: name "
            "another folder"
        )
    only_checks(order.only, exercises)
    if order.roster is not None:
        read_roster(order.roster)
    if order.late is not None:
        read_policy(order.late)


def grade_class(order: Order, book: Gradebook, progress: ClassProgress) -> Graded:
    """Grade what has to be graded; what was written by then stays, however this ends. Whoever asks holds the gradebook.

    Raises CouldNotGrade, IntakeError, RosterError, PolicyError and GradebookError with a sentence, and
    KeyboardInterrupt when somebody insists on stopping at once.
    """
    exercises = _exercises(order)
    if not order.cluster and (problem := machine_problem(order.setup)) is not None:
        raise CouldNotGrade(problem)
    with Scratch(order.out / WORK) as scratch:
        intake, renamed = _take_in(order, book, exercises)
        book.remember_catalogue(catalogue(exercises))
        wanted = _wanted(order, exercises)
        plan = make_plan(book, intake.handins, wanted)
        progress.planned(plan, {exercise.id: len(exercise.checks) for exercise in exercises})
        stop = _Stop()
        remarks: tuple[str, ...] = ()
        if plan.work:
            batch = Batch(book, Way(order.setup, wanted, versions(), order.seed), progress)
            with _pool(order, scratch, progress) as pool, stop.listening(pool, progress):
                batch.grade(pool, plan.work)
                remarks = pool.remarks
        if not stop.asked:
            forget_forced(book)
        return Graded(intake, plan, stop.asked, remarks, renamed)


def _exercises(order: Order) -> tuple[Exercise, ...]:
    """The exercises that are graded, in the order of the graders."""
    try:
        known = {exercise.id: exercise for exercise in find_exercises(order.graders)}
    except ExerciseError as error:
        raise CouldNotGrade(str(error)) from error
    if not known:
        raise CouldNotGrade(
            f"there are no graders in {order.graders}: each exercise is a folder with an exercise.toml"
        )
    for name in order.exercises:
        if name not in known:
            raise CouldNotGrade(f"there is no exercise {safe_line(name)!r}; there are {', '.join(known)}")
    return tuple(
        exercise for exercise in known.values() if not order.exercises or exercise.id in order.exercises
    )


def _refuse_results_among_handins(order: Order) -> None:
    """Refuse folders of which one would be written into the other: pages would be graded, and work overwritten.

    Results may lie in a folder of their own directly among the hand-ins: intake tells it from them.
    """
    given, out = Path(os.path.realpath(order.submissions)), Path(os.path.realpath(order.out))
    graded_before = (out / FILE).exists()
    if given == out and given.is_dir():
        # Who has done so before goes on there: intake tells what is lockstep's own from what was handed in.
        if not graded_before:
            raise CouldNotGrade(
                f"--out names the folder of the hand-ins, {order.out}: what is written there would be taken for "
                "students' work; name a folder of its own"
            )
    elif out in given.parents and (place := given.relative_to(out).parts[0]) in WRITTEN_INTO:
        if place == UNPACKED and graded_before:
            return  # intake says what these files are
        raise CouldNotGrade(
            f"the hand-ins {order.submissions} lie in {order.out / place}, where --out {order.out} would have its own "
            "files written: they would be mixed; name another folder"
        )
    elif given in out.parents and out.parent != given:
        raise CouldNotGrade(
            f"--out {order.out} lies inside of {order.submissions / out.relative_to(given).parts[0]}, which would be "
            "taken for a hand-in; name a folder beside it"
        )
    elif given in out.parents and out.is_dir() and not graded_before and (found := _not_results(out)):
        raise CouldNotGrade(
            f"--out {order.out} lies among the hand-ins and holds {safe_line(found)}, so it may be one of them, which "
            "nobody would grade; name a folder of its own"
        )


def _not_results(folder: Path) -> str:
    """Something in a folder that no grading has written; empty where there is nothing."""
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    return next((name for name in names if name not in OWN), "")


def _refuse_contradiction(order: Order) -> None:
    """Where both say what is graded, neither may leave out the whole of what the other names."""
    if not order.exercises or not order.only:
        return
    only = only_checks(order.only, _exercises(replace(order, exercises=())))
    others = (name.rpartition("/")[0] for name in order.only)
    if not only.keys() >= set(order.exercises) or not {*others} <= {"", *order.exercises}:
        raise CouldNotGrade(
            f"--exercise {','.join(order.exercises)} and --only-check {','.join(order.only)} do not go together: "
            "name a check of each of these exercises and of no other, or leave --exercise out"
        )


def _take_in(
    order: Order, book: Gradebook, exercises: tuple[Exercise, ...]
) -> tuple[Intake, tuple[str, ...]]:
    """What came in, with everybody it concerns in the gradebook; and sentences on whom a roster has renamed."""
    sheet = read_sheet(order.roster) if order.roster is not None else None
    roster = book.roster() if sheet is None else roster_of(sheet)
    if roster is None and any(student.enrolled for student in book.students()):
        # A gradebook of before: hand-ins would be taken for strangers', and the class for a few of them.
        raise CouldNotGrade(
            "the gradebook knows students of a roster, and not the roster: give it once more, by --roster"
        )
    if order.late is not None:
        book.remember_policy(read_policy(order.late))
    asked_for = {file for exercise in exercises for file in exercise.files}
    intake = take_in(order.submissions, order.out / UNPACKED, roster, book.policy().deadline, asked_for)
    if not intake.handins:
        raise CouldNotGrade(_nobody(order.submissions, intake))
    if sheet is not None:
        book.remember_roster(sheet)
    absent = in_their_teams(intake.missing, book.students())
    book.enroll([*(handin.student for handin in intake.handins), *absent], everybody=roster is not None)
    book.list_unmatched(intake.unmatched)
    if roster is None:
        return intake, ()
    renamed = tuple(_renamed(book, roster))
    book.set_late(dict(_late_before(intake, roster, book.policy().deadline)))
    return intake, renamed


def _late_before(intake: Intake, roster: Roster, deadline: datetime | None) -> Iterator[tuple[str, float]]:
    """How late by the roster those were who are not in this download, by id: it may say so after they were graded."""
    absent = {student.id for student in intake.missing}
    for entry in roster.entries:
        late = late_by_roster(entry, deadline) if entry.student.id in absent else None
        if late is not None:
            yield entry.student.id, late


def _renamed(book: Gradebook, roster: Roster) -> Iterator[str]:
    """Let the roster's students have what was graded before anybody knew that it was theirs."""
    students = {student.id: student for student in book.students()}
    for known, student in recognised(students.values(), Register(roster)).items():
        book.adopt(known, student)
        yield f"{students[known].shown} is {students[student].with_id}"


def _nobody(submissions: Path, intake: Intake) -> str:
    """Why there is nothing to grade, for who gave the wrong folder."""
    where = f"{submissions} holds no hand-in"
    if intake.unmatched:
        item = intake.unmatched[0]
        return f"{where}, only what belongs to nobody, such as {item.label}: {item.reason}"
    return f"{where}; give a folder with one folder or archive for each student, or the zip of a learning platform"


def _wanted(order: Order, exercises: tuple[Exercise, ...]) -> Wanted:
    only = only_checks(order.only, exercises)
    try:
        current = fingerprints(exercises, order.setup)
    except OSError as error:
        raise CouldNotGrade(f"{error.filename} cannot be read: {error.strerror}") from error
    return Wanted(
        {name: value for name, value in current.items() if not only or name in only}, only, order.regrade
    )


def _pool(order: Order, scratch: Scratch, progress: ClassProgress) -> Pool:
    if not order.cluster:
        return LocalPool(order.jobs, order.timeout, scratch)
    from lockstep.classroom.cluster import open_pool

    # Keys and logs of jobs: the folder of results is the one that other machines are most likely to see.
    folder = order.out.absolute() / WORK / "jobs"
    return open_pool(order.cluster, order.cluster_config, order.setup, order.timeout, folder, progress.say)


class _Stop:
    """What Ctrl-C means: first to stop when the present checks are done, then to stop at once."""

    def __init__(self) -> None:
        self.asked = False

    @contextlib.contextmanager
    def listening(self, pool: Pool, progress: ClassProgress) -> Iterator[None]:
        """Hear Ctrl-C, `kill`, and that the terminal was closed."""

        def handle(number: int, frame: FrameType | None) -> None:
            if self.asked:
                raise KeyboardInterrupt
            self.asked = True
            pool.stop()
            progress.stopping()

        heard = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
        before = {number: signal.signal(number, handle) for number in (signal.SIGINT, *heard)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
