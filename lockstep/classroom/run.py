"""`lockstep grade` as a person meets it: what it says, and its exit status."""

from __future__ import annotations

import sys
from functools import partial

from rich.console import Console
from rich.progress import track

from lockstep import terminal
from lockstep.classroom import flags
from lockstep.classroom.classfolder import IntakeError
from lockstep.classroom.grade import Graded, Order, check_arguments, grade_class
from lockstep.classroom.gradebook import Gradebook, GradebookError, open_gradebook
from lockstep.classroom.handin import Unmatched
from lockstep.classroom.latepolicy import PolicyError
from lockstep.classroom.progress import ClassProgress
from lockstep.classroom.publish import Published, publish
from lockstep.classroom.renewal import keep_up
from lockstep.classroom.roster import RosterError
from lockstep.classroom.sheet import SheetError
from lockstep.classroom.summary import summary, ungraded
from lockstep.classroom.turned import Changes, turned
from lockstep.grading import CouldNotGrade

ALL_GRADED, SOME_NOT, REFUSED = 0, 1, 2
STOPPED = 130
"""What a shell reports for a program that Ctrl-C ended."""

LEFT_OUT, IT_WAS_READ = "Left out: ", "; it was read."
"""How the intake's sentences begin on what nobody can have meant to hand in, and end on what told it whose all is."""

LONGEST = 2000
"""Characters of a refusal; the names of all checks there are take half of that."""


def run_grade(order: Order, *, gradebook: str | None, trusted: bool) -> int:
    """Grade a class and write tables and pages; returns the exit status.

    `gradebook` is a path or URL, None for the one in the folder of results; `trusted` allows no sandbox.
    """
    err = terminal.console_for(sys.stderr)
    try:
        if order.setup.sandbox == "none" and not trusted:
            raise CouldNotGrade(
                "--sandbox none runs everybody's code unprotected, with your rights, on this machine; "
                "say --i-trust-this-code as well if that is what you want"
            )
        if order.cluster_config is not None and not order.cluster:
            raise CouldNotGrade("--cluster-config tells how to use a cluster; say which by --cluster as well")
        if order.out.exists() and not order.out.is_dir():
            raise CouldNotGrade(f"--out names a folder, and {order.out} is a file")
        check_arguments(order)
        order.out.mkdir(parents=True, exist_ok=True)
        with open_gradebook(gradebook or order.out / "gradebook.db") as book:
            err.print(terminal.notes(book.notes))
            with book.grading():
                with ClassProgress(err) as progress:
                    graded = grade_class(order, book, progress)
                if graded.stopped:
                    so_far = f"{progress.through} of {len(graded.plan.work)} hand-ins are through; "
                    return _stopped(so_far)
                # Before anything is published: what is remembered of it belongs to the state that is.
                changed = turned(book)
                published = _published(order, book, graded, err)
            status = _told(order, book, graded, changed, published, book.shown if gradebook else "")
            keep_up(book, order.out, published.snapshot)
            return status
    except (CouldNotGrade, GradebookError, IntakeError, PolicyError, RosterError, SheetError) as refusal:
        return _refused(str(refusal))
    except OSError as error:
        return _refused(f"{error.filename}: {error.strerror}")
    except KeyboardInterrupt:
        return _stopped()


def _published(order: Order, book: Gradebook, graded: Graded, err: Console) -> Published:
    """What others read, written down."""
    watched = track(graded.intake.handins, "comparing", console=err, transient=True)
    handed, solved = flags.handed_out(order.graders), flags.solution(order.graders)
    flag = partial(flags.refresh, book, watched, handed, solved)
    rest_on = (*handed, solved) if solved is not None else handed
    return publish(book, order.out, graded.intake.handins, rest_on, flag)


def _told(
    order: Order, book: Gradebook, graded: Graded, changed: Changes, published: Published, gradebook: str
) -> int:
    """Say what it came to; the exit status."""
    records = published.snapshot.records
    out = terminal.console_for(sys.stdout)
    last_words = summary(graded, records, book.catalogue(), order.out, gradebook, changed)
    out.print(last_words, crop=False)
    out.print(terminal.notes(published.notes))
    for failure in published.failures:
        _refused(failure)
    if published.failures:
        return REFUSED
    left = ungraded(records, book.catalogue())
    return SOME_NOT if left or any(map(_needs_a_look, graded.intake.unmatched)) else ALL_GRADED


def _needs_a_look(item: Unmatched) -> bool:
    """Whether it may be somebody's work: what tools have left is not, nor what said whose the hand-ins are."""
    return not item.set_aside or not (item.reason.startswith(LEFT_OUT) or item.reason.endswith(IT_WAS_READ))


def _stopped(so_far: str = "") -> int:
    terminal.complain(f"stopped. {so_far}what was graded is kept, and the same command goes on from there")
    return STOPPED


def _refused(sentence: str) -> int:
    terminal.complain(sentence, LONGEST)
    return REFUSED
