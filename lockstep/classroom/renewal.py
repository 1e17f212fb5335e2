"""Pages and exports after a person's decision: a student must not read points of before."""

from __future__ import annotations

import shlex
from pathlib import Path

from lockstep.classroom.gradebook import Gradebook, GradebookError, HeldError
from lockstep.classroom.pages.write import is_page
from lockstep.classroom.snapshot import Snapshot


def renew(book: Gradebook, gradebook: str) -> str:
    """Write pages and exports of a folder of results anew; a sentence on when they say it.

    Where lockstep has written no page, nothing is written. `gradebook` is as on the command line. A URL is not
    repeated, for it may hold a password.
    """
    results = Path(gradebook)
    if not results.is_dir():
        return (
            "Pages and exports say so after the next `lockstep grade`, exports after "
            "`lockstep export --out` as well."
        )
    later = f"lockstep export {shlex.quote(gradebook)}"
    if not is_page(results / "index.html"):
        # A grading that was stopped: what is half graded is not for students to read. Or results lie elsewhere.
        return f"Pages and exports say so after the next `lockstep grade`; in {results} after: {later}"
    try:
        with book.grading():
            written = _write(book, results)
        keep_up(book, results, written)
    except HeldError:
        return f"Another process is at work on {results}; pages and exports say so when it is done, or after: {later}"
    except GradebookError as error:
        return f"Pages and exports do not say so yet: {error}. Then: {later}"
    except OSError as error:
        return f"Pages and exports do not say so yet: {error.filename}: {error.strerror}. Then: {later}"
    return f"Pages and exports in {results} say so now."


def keep_up(book: Gradebook, results: Path, written: Snapshot) -> None:
    """Write pages and exports anew where people have decided something while they were `written`.

    Asked when the gradebook is held no more: whoever decided while it was, left the writing to the one that held it.
    Raises GradebookError and OSError.
    """
    while written.is_outdated(book):
        try:
            with book.grading():
                written = _write(book, results)
        except HeldError:
            return  # who holds it now comes here as well


def _write(book: Gradebook, results: Path) -> Snapshot:
    now = Snapshot.of(book)
    now.write_exports(results / "exports")
    now.write_pages(results)
    return now
