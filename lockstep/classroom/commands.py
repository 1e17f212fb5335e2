"""The commands for a class, as they are asked on the command line; what they do is imported when they are run."""

from __future__ import annotations

import argparse
import os

from lockstep import arguments

TIMEOUT = 3600.0
"""Seconds that one hand-in may take unless somebody says otherwise: thirty times what a slow one takes."""

MOST_JOBS = 200
"""There are 256 users to run sandboxes as, and a job may hold two sandboxes for a moment."""

BOOK = "the folder that `lockstep grade --out` has made, or the URL of a gradebook"


def add_to(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands for a class."""
    for add in (_add_grade, _add_show, _add_override, _add_review, _add_remove, _add_compare, _add_export):
        add(subparsers)


def default_jobs() -> int:
    """Hand-ins at a time: more than there are cores, because some wait for their time to be up."""
    cores = len(os.sched_getaffinity(0))
    return min(cores + max(1, cores // 2), MOST_JOBS)


def _grade(options: argparse.Namespace) -> int:
    from lockstep.classroom.grade import Order
    from lockstep.classroom.run import run_grade
    from lockstep.classroom.task import Setup

    graders = str(options.graders.absolute()) if options.graders else ""
    order = Order(
        submissions=options.submissions,
        out=options.out,
        setup=Setup(options.sandbox, options.device, options.world_sizes, graders),
        jobs=options.jobs or default_jobs(),
        timeout=options.timeout,
        roster=options.roster,
        late=options.late,
        exercises=tuple(options.exercise),
        only=tuple(options.only_check),
        regrade=options.regrade,
        seed=options.seed,
        cluster=options.cluster or "",
        cluster_config=options.cluster_config,
    )
    return run_grade(order, gradebook=options.gradebook, trusted=options.i_trust_this_code)


def _show(options: argparse.Namespace) -> int:
    from lockstep.classroom.show import run_show

    return run_show(gradebook=options.results, student=options.student, what=options.what)


def _override(options: argparse.Namespace) -> int:
    from lockstep.classroom.decisions import run_override

    return run_override(
        gradebook=options.results,
        student=options.student,
        what=options.what,
        points=options.points,
        comment=options.comment,
        by=options.by,
        withdraw=options.withdraw,
        above_max=options.above_max,
    )


def _review(options: argparse.Namespace) -> int:
    from lockstep.classroom.review import run_review

    return run_review(
        gradebook=options.results,
        write=options.write,
        read=options.read,
        by=options.by,
        above_max=options.above_max,
    )


def _remove(options: argparse.Namespace) -> int:
    from lockstep.classroom.removal import run_remove

    return run_remove(
        gradebook=options.results, students=tuple(options.students), not_on_roster=options.not_on_roster
    )


def _compare(options: argparse.Namespace) -> int:
    from lockstep.classroom.comparison import run_compare

    return run_compare(old=options.old, new=options.new, as_json=options.json)


def _export(options: argparse.Namespace) -> int:
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


def _add_grade(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = subparsers.add_parser(
        "grade",
        help="grade a whole class, or what is new of it",
        description="Grades a whole class. What was graded before and has not changed is not graded again; what was "
        "stopped goes on where it was.",
        epilog="Exit status: 0 all that was handed in has a grade, 1 something has none or belongs to nobody, "
        "2 nothing was graded or something could not be written.",
    )
    command.set_defaults(command=_grade)
    command.add_argument(
        "submissions",
        type=arguments.path,
        metavar="SUBMISSIONS",
        help="a folder of folders or archives, or the one big zip of a learning platform",
    )
    command.add_argument(
        "--out",
        type=arguments.path,
        required=True,
        metavar="RESULTS",
        help="folder of the gradebook, tables and pages",
    )
    command.add_argument("--roster", type=arguments.path, metavar="FILE", help="who is in the class, as CSV")
    command.add_argument(
        "--late", type=arguments.path, metavar="FILE", help="deadline and late penalty, as TOML"
    )
    where = command.add_mutually_exclusive_group()
    where.add_argument(
        "--jobs",
        type=_count,
        metavar="N",
        help=f"hand-ins at a time on this machine (default: {default_jobs()}; on a cluster its workers decide)",
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
        type=arguments.place,
        metavar="URL",
        help="the database to write to, such as postgresql://user@host/name (default: RESULTS/gradebook.db)",
    )
    where.add_argument(
        "--cluster",
        metavar="WHERE",
        help="grade on other machines: a Dask scheduler as tcp://host:8786, or slurm, pbs, lsf or sge",
    )
    command.add_argument(
        "--cluster-config",
        type=arguments.path,
        metavar="FILE",
        help="queue, account and time of the jobs, as TOML",
    )
    arguments.add_how_to_grade(command)
    command.add_argument(
        "--i-trust-this-code", action="store_true", help="allow `--sandbox none` for a whole class"
    )


def _add_show(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = subparsers.add_parser(
        "show",
        help="why a student has these points",
        description="Prints what a student reads about a check, an exercise or, where none is named, all that did "
        "not pass or has a point missing; and how to make the same checks again, on the same data.",
        epilog="Exit status: 0 done, 2 there is no such student or check.",
    )
    command.set_defaults(command=_show)
    command.add_argument("results", type=arguments.place, metavar="RESULTS", help=BOOK)
    command.add_argument("student", metavar="STUDENT", help="id, email or name")
    command.add_argument("what", nargs="?", metavar="EXERCISE[/CHECK]", help="a check, or an exercise")


def _add_override(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = subparsers.add_parser(
        "override",
        help="give points or a comment that survive every grading",
        description="Writes down what a person decided, beside what the graders said. Without a student it lists "
        "what was decided.",
        epilog="Exit status: 0 done, 2 nothing was changed.",
    )
    command.set_defaults(command=_override)
    command.add_argument("results", type=arguments.place, metavar="RESULTS", help=BOOK)
    command.add_argument("student", nargs="?", metavar="STUDENT", help="id, email or name")
    command.add_argument(
        "what",
        nargs="?",
        metavar="EXERCISE[/CHECK]",
        help="what it is about: a check, or an exercise as a whole",
    )
    command.add_argument("--points", type=float, metavar="P", help="points in the place of those earned")
    command.add_argument("--comment", default="", metavar="TEXT", help="what the student reads about it")
    command.add_argument("--withdraw", action="store_true", help="take back what was decided about it")
    _add_decider(command)


def _add_review(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = subparsers.add_parser(
        "review",
        help="mark written answers in a table",
        description="Writes the written answers of a class as a table and takes it in again, with points. Without "
        "options it says how many wait.",
        epilog="Exit status: 0 done, 2 nothing was changed.",
    )
    command.set_defaults(command=_review)
    command.add_argument("results", type=arguments.place, metavar="RESULTS", help=BOOK)
    direction = command.add_mutually_exclusive_group()
    direction.add_argument("--write", type=arguments.path, metavar="FILE", help="write the table, as CSV")
    direction.add_argument(
        "--read", type=arguments.path, metavar="FILE", help="take the table in, all of it or nothing"
    )
    _add_decider(command)


def _add_remove(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = subparsers.add_parser(
        "remove",
        help="take out who is not in the class",
        description="Takes students out of a gradebook, with all that was graded and decided: those whom a wrong "
        "roster or a wrong folder has made. Without students it lists whom the roster does not name.",
        epilog="Exit status: 0 done, 2 nothing was changed.",
    )
    command.set_defaults(command=_remove)
    command.add_argument("results", type=arguments.place, metavar="RESULTS", help=BOOK)
    command.add_argument("students", nargs="*", metavar="STUDENT", help="id, email or name")
    command.add_argument(
        "--not-on-roster",
        action="store_true",
        help="everybody whom the last roster does not name, but for those about whom a person decided",
    )


def _add_decider(command: argparse.ArgumentParser) -> None:
    command.add_argument("--by", default="", metavar="NAME", help="who decides (default: your user name)")
    command.add_argument("--above-max", action="store_true", help="allow more points than there are")


def _add_compare(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = subparsers.add_parser(
        "compare",
        help="what changed between two gradings",
        description="Compares two folders of results, gradebooks or URLs, or two files of `lockstep check --json`.",
        epilog="Exit status: 0 nothing changed, 1 something did, 2 one of them could not be read.",
    )
    command.set_defaults(command=_compare)
    command.add_argument("old", type=arguments.place, metavar="OLD", help="the grading before")
    command.add_argument("new", type=arguments.place, metavar="NEW", help="the grading after")
    command.add_argument("--json", action="store_true", help="print JSON instead of text")


def _add_export(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = subparsers.add_parser(
        "export",
        help="hand grades on to a learning platform, or make what lets a service grade",
        description="Writes RESULTS/exports and the pages anew, fills files of learning platforms in place, or makes "
        "folders for Gradescope and GitHub Classroom, which need no RESULTS.",
        epilog="Exit status: 0 done, 1 a file was filled and somebody who handed in is not in it, 2 nothing was done.",
    )
    command.set_defaults(command=_export)
    command.add_argument(
        "gradebook",
        nargs="?",
        type=arguments.place,
        metavar="RESULTS",
        help="folder of the results, or URL of the gradebook",
    )
    command.add_argument(
        "--out",
        type=arguments.path,
        metavar="DIR",
        help="write all exports into this folder (default: RESULTS/exports)",
    )
    command.add_argument(
        "--canvas",
        type=arguments.path,
        metavar="FILE",
        help="fill this gradebook, exported from Canvas, in place",
    )
    command.add_argument(
        "--assignment",
        default="",
        metavar="NAME",
        help="the column to fill in it: an assignment's title or id",
    )
    command.add_argument(
        "--moodle",
        type=arguments.path,
        metavar="FILE",
        help="fill this offline grading worksheet of Moodle's, in place",
    )
    command.add_argument(
        "--gradescope",
        type=arguments.path,
        metavar="DIR",
        help="make an autograder for Gradescope in this folder",
    )
    command.add_argument(
        "--github",
        type=arguments.path,
        metavar="DIR",
        help="write a workflow for GitHub Classroom into this repository",
    )
    arguments.add_exercise(command, "let a service grade")
    command.add_argument(
        "--graders",
        type=arguments.path,
        metavar="DIR",
        help="folder of the graders (default: those of this checkout)",
    )


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_JOBS:
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
