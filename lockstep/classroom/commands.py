"""The commands for a class: what they are asked on the command line, and with what exit status they answer.

Parsers only, until a command is run: `lockstep --help` answers at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep import arguments
from lockstep.text import safe_line

if TYPE_CHECKING:
    from lockstep.classroom.grade import Order

ALL_GRADED, SOME_NOT, REFUSED = 0, 1, 2
STOPPED = 130
"""What a shell reports for a program that Ctrl-C ended."""

TIMEOUT = 3600.0
"""Seconds that one hand-in may take unless somebody says otherwise: thirty times what a slow one takes."""


def grade(options: argparse.Namespace) -> int:
    """`lockstep grade SUBMISSIONS --out RESULTS`: a whole class."""
    from rich.progress import track

    from lockstep import terminal
    from lockstep.classroom import flags
    from lockstep.classroom import grade as course
    from lockstep.classroom.classfolder import IntakeError
    from lockstep.classroom.gradebook import GradebookError, open_gradebook
    from lockstep.classroom.latepolicy import PolicyError
    from lockstep.classroom.progress import ClassProgress
    from lockstep.classroom.publish import publish
    from lockstep.classroom.roster import RosterError
    from lockstep.classroom.sheet import SheetError
    from lockstep.classroom.summary import summary, ungraded
    from lockstep.grading import CouldNotGrade

    out, err = terminal.console_for(sys.stdout), terminal.console_for(sys.stderr)
    folder: Path = options.out
    try:
        order = _order(options)
        folder.mkdir(parents=True, exist_ok=True)
        with open_gradebook(options.gradebook or folder / "gradebook.db") as book:
            err.print(terminal.notes(book.notes))
            with ClassProgress(err) as progress:
                graded = course.grade_class(order, book, progress)
            if graded.stopped:
                return _stopped(progress.through, len(graded.plan.work))
            watched = track(graded.intake.handins, "comparing", console=err, transient=True)
            handed = flags.handed_out(order.graders)
            published = publish(book, folder, lambda: flags.refresh(book, watched, handed))
            out.print(summary(graded, published.records, book.catalogue(), folder))
            out.print(terminal.notes(published.notes))
            for failure in published.failures:
                _refused(failure)
            if published.failures:
                return REFUSED
            left = ungraded(published.records, book.catalogue())
            return SOME_NOT if left or graded.intake.unmatched else ALL_GRADED
    except (CouldNotGrade, GradebookError, IntakeError, PolicyError, RosterError, SheetError) as refusal:
        return _refused(str(refusal))
    except OSError as error:
        return _refused(f"{error.filename}: {error.strerror}")
    except KeyboardInterrupt:
        return _stopped()


def _order(options: argparse.Namespace) -> Order:
    from lockstep.classroom.grade import Order
    from lockstep.classroom.latepolicy import read_policy
    from lockstep.classroom.task import Setup
    from lockstep.grading import CouldNotGrade

    if options.sandbox == "none" and not options.i_trust_this_code:
        raise CouldNotGrade(
            "--sandbox none runs everybody's code unprotected, with your rights, on this machine; "
            "say --i-trust-this-code as well if that is what you want"
        )
    graders = str(options.graders.absolute()) if options.graders else ""
    return Order(
        submissions=options.submissions,
        out=options.out,
        setup=Setup(options.sandbox, options.device, options.world_sizes, graders),
        jobs=options.jobs or default_jobs(),
        timeout=options.timeout,
        roster=options.roster,
        exercises=tuple(options.exercise),
        only=tuple(options.only_check),
        regrade=options.regrade,
        seed=options.seed,
        policy=read_policy(options.late) if options.late else None,
        cluster=options.cluster or "",
        cluster_config=options.cluster_config,
    )


MOST_JOBS = 200
"""There are 256 users to run sandboxes as, and a job may hold two sandboxes for a moment."""


def default_jobs() -> int:
    """Hand-ins at a time: more than there are cores, because some wait for their time to be up."""
    cores = len(os.sched_getaffinity(0))
    return cores + max(1, cores // 2)


def add_to(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands for a class."""
    _add_grade(subparsers)
    _add_export(subparsers)


def _add_grade(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = subparsers.add_parser(
        "grade",
        help="grade a whole class, or what is new of it",
        description="Grades a whole class. What was graded before and has not changed is not graded again; what was "
        "stopped goes on where it was.",
        epilog="Exit status: 0 all that was handed in has a grade, 1 something has none or belongs to nobody, "
        "2 nothing was graded or something could not be written.",
    )
    command.set_defaults(command=grade)
    command.add_argument(
        "submissions",
        type=Path,
        metavar="SUBMISSIONS",
        help="a folder of folders or archives, or the one big zip of a learning platform",
    )
    command.add_argument(
        "--out", type=Path, required=True, metavar="RESULTS", help="folder of the gradebook, tables and pages"
    )
    command.add_argument("--roster", type=Path, metavar="FILE", help="who is in the class, as CSV")
    command.add_argument("--late", type=Path, metavar="FILE", help="deadline and late penalty, as TOML")
    command.add_argument(
        "--jobs",
        type=_count,
        metavar="N",
        help=f"hand-ins at a time (default: {default_jobs()} on this machine)",
    )
    arguments.add_exercise(command, "grade")
    command.add_argument(
        "--only-check",
        action="extend",
        type=arguments.names,
        default=[],
        metavar="NAME",
        help="make this check anew for everybody and leave the others as they are; a name or EXERCISE/NAME",
    )
    command.add_argument("--regrade", action="store_true", help="grade what has not changed as well")
    command.add_argument(
        "--timeout",
        type=_seconds,
        default=TIMEOUT,
        metavar="SECONDS",
        help="how long one hand-in may take (default: %(default)g)",
    )
    command.add_argument(
        "--seed",
        type=arguments.seed,
        metavar="N",
        help="draw all data from this number (default: a secret one for each hand-in)",
    )
    command.add_argument(
        "--gradebook",
        metavar="URL",
        help="the database to write to, such as postgresql://user@host/name (default: RESULTS/gradebook.db)",
    )
    command.add_argument(
        "--cluster",
        metavar="WHERE",
        help="grade on other machines: a Dask scheduler as tcp://host:8786, or slurm, pbs, lsf or sge",
    )
    command.add_argument(
        "--cluster-config", type=Path, metavar="FILE", help="queue, account and time of the jobs, as TOML"
    )
    arguments.add_how_to_grade(command)
    command.add_argument(
        "--i-trust-this-code", action="store_true", help="allow `--sandbox none` for a whole class"
    )


def export(options: argparse.Namespace) -> int:
    """`lockstep export`: grades for learning platforms, folders for services that grade."""
    from lockstep.classroom.exports.command import run_export

    return run_export(
        gradebook=options.gradebook,
        out=options.out,
        canvas=options.canvas,
        assignment=options.assignment,
        moodle=options.moodle,
        gradescope=options.gradescope,
        github=options.github,
        exercises=tuple(options.exercise),
        graders=options.graders,
    )


def _add_export(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = subparsers.add_parser(
        "export",
        help="hand grades on to a learning platform, or make what lets a service grade",
        description="Writes RESULTS/exports anew, fills files of learning platforms in place, or makes folders for "
        "Gradescope and GitHub Classroom, which need no RESULTS.",
        epilog="Exit status: 0 done, 1 a file was filled and somebody who handed in is not in it, 2 nothing was done.",
    )
    command.set_defaults(command=export)
    command.add_argument(
        "gradebook", nargs="?", metavar="RESULTS", help="folder of the results, or URL of the gradebook"
    )
    command.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="write all exports into this folder (default: RESULTS/exports)",
    )
    command.add_argument(
        "--canvas", type=Path, metavar="FILE", help="fill this gradebook, exported from Canvas, in place"
    )
    command.add_argument(
        "--assignment",
        default="",
        metavar="NAME",
        help="the column to fill in it: an assignment's title or id",
    )
    command.add_argument(
        "--moodle",
        type=Path,
        metavar="FILE",
        help="fill this offline grading worksheet of Moodle's, in place",
    )
    command.add_argument(
        "--gradescope", type=Path, metavar="DIR", help="make an autograder for Gradescope in this folder"
    )
    command.add_argument(
        "--github",
        type=Path,
        metavar="DIR",
        help="write a workflow for GitHub Classroom into this repository",
    )
    arguments.add_exercise(command, "let a service grade")
    command.add_argument(
        "--graders", type=Path, metavar="DIR", help="folder of the graders (default: those of this checkout)"
    )


def _count(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= MOST_JOBS:
        raise argparse.ArgumentTypeError(f"a number from 1 to {MOST_JOBS}, not {text!r}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"a number of seconds from 1 on, not {text!r}")
    return seconds


def _stopped(done: int = 0, of: int = 0) -> int:
    so_far = f"{done} of {of} hand-ins are through; " if of else ""
    _say(f"stopped. {so_far}what was graded is kept, and the same command goes on from there")
    return STOPPED


def _refused(sentence: str) -> int:
    _say(sentence)
    return REFUSED


def _say(sentence: str) -> None:
    from rich.text import Text

    from lockstep import terminal

    console = terminal.console_for(sys.stderr)
    console.print(Text(f"lockstep: {safe_line(sentence, 1000)}"), soft_wrap=True)
