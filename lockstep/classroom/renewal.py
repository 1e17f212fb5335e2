"""Pages and exports after a person's decision: a student must not read points of before."""

from __future__ import annotations

import shlex
from pathlib import Path

from lockstep.classroom.exports.write import write_all
from lockstep.classroom.gradebook import Gradebook, GradebookError
from lockstep.classroom.pages.write import write_pages
from lockstep.classroom.slug import slugs


def renew(book: Gradebook, gradebook: str) -> str:
    """Write pages and exports of a folder of results anew, where there are some; a sentence on when they say it.

    `gradebook` is as on the command line. A URL is not repeated, for it may hold a password.
    """
    results = Path(gradebook)
    if not results.is_dir():
        return (
            "Pages and exports say so after the next `lockstep grade`, exports after "
            "`lockstep export --out` as well."
        )
    later = f"lockstep export {shlex.quote(gradebook)}"
    if not (results / "index.html").is_file():
        # A grading that was stopped: what is half graded is not for students to read.
        return f"Pages and exports say so after: {later}"
    try:
        with book.grading():
            _write(book, results)
    except GradebookError:
        return f"Another process is at work on {results}; pages and exports say so when it is done, or after: {later}"
    except OSError as error:
        return f"Pages and exports do not say so yet: {error.filename}: {error.strerror}. Then: {later}"
    return f"Pages and exports in {results} say so now."


def _write(book: Gradebook, results: Path) -> None:
    records, catalogue, unmatched = book.records(), book.catalogue(), book.unmatched()
    names = slugs(records)
    write_all(records, catalogue, unmatched, results / "exports", slugs=names)
    write_pages(records, catalogue, unmatched, names, results, results.absolute().name)
