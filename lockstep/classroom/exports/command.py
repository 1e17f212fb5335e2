"""`lockstep export`: exports and pages anew, files of learning platforms filled in place, folders for services."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.text import Text

from lockstep.classroom.exports.canvas import fill_canvas
from lockstep.classroom.exports.fill import Filled, LeftOut
from lockstep.classroom.exports.moodle import fill_moodle
from lockstep.classroom.exports.services import ServiceError, write_autograder, write_workflow
from lockstep.classroom.gradebook import Gradebook, GradebookError, open_gradebook
from lockstep.classroom.record import in_class
from lockstep.classroom.renewal import keep_up
from lockstep.classroom.sheet import SHEET_BYTES, SheetError
from lockstep.classroom.snapshot import Snapshot
from lockstep.grading import CouldNotGrade, default_graders, known_exercises
from lockstep.terminal import complain, console_for, notes
from lockstep.text import safe_line
from lockstep.wholefile import write_whole

DONE, SOME_LEFT_OUT, REFUSED = 0, 1, 2


class ExportError(Exception):
    """What was asked for cannot be done; the message is a sentence."""


def run_export(
    *,
    gradebook: str | None,
    out: Path | None,
    canvas: Path | None,
    assignment: str,
    moodle: Path | None,
    gradescope: Path | None,
    github: Path | None,
    exercises: tuple[str, ...],
    graders: Path | None,
) -> int:
    """Make what was asked for; where that is nothing, all exports and pages of a folder of results, or with `out` the
    exports alone into that folder. Returns the exit status.

    1 says that a file was filled and somebody's grade is not in it. `gradebook` is a folder of results, a file or a
    database URL; None will do for `gradescope` and `github`.
    """
    console = console_for(sys.stdout)
    try:
        if gradebook is None and (canvas or moodle or out or not (gradescope or github)):
            raise ExportError("say whose grades: name the folder that `lockstep grade --out` has made")
        _services(console, gradescope, github, exercises, graders or default_graders())
        if gradebook is None:
            return DONE
        with open_gradebook(gradebook, create=False) as book:
            filled = _fill(console, book, canvas, assignment, moodle)
            if out:
                _write(console, Snapshot.of(book), out)
            elif not (canvas or moodle or gradescope or github):
                _write_anew(console, book, _results(gradebook))
    except (ExportError, GradebookError, SheetError, ServiceError, CouldNotGrade) as refusal:
        return _refused(str(refusal))
    except OSError as error:
        return _refused(f"cannot write {error.filename}: {error.strerror}")
    return SOME_LEFT_OUT if any(one.left_out for one in filled) else DONE


def _services(
    console: Console, gradescope: Path | None, github: Path | None, exercises: Sequence[str], graders: Path
) -> None:
    if exercises and (gradescope or github):
        known = known_exercises(graders)
        for name in exercises:
            if name not in known:
                raise ExportError(f"there is no exercise {safe_line(name)!r}; there are {', '.join(known)}")
    if gradescope:
        write_autograder(gradescope, graders, exercises)
        console.print(Text(f"{gradescope}: an autograder; upload its contents as a ZIP."))
    if github:
        console.print(
            Text(f"{write_workflow(github, exercises)}: a workflow; commit it to the template repository.")
        )


def _fill(
    console: Console, book: Gradebook, canvas: Path | None, assignment: str, moodle: Path | None
) -> list[Filled]:
    wanted: list[tuple[Path, Callable[..., Filled]]] = []
    if canvas:
        wanted.append((canvas, partial(fill_canvas, assignment=assignment)))
    if moodle:
        wanted.append((moodle, fill_moodle))
    done = []
    for path, fill in wanted:
        filled = fill(_content(path), path.name, in_class(book.records()), book.catalogue())
        write_whole(path, filled.content)
        _tell(console, path, filled)
        done.append(filled)
    return done


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(SHEET_BYTES + 1)
    except OSError as error:
        raise ExportError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > SHEET_BYTES:
        raise ExportError(f"{path} has more than {SHEET_BYTES >> 20} MiB, so it is no table of a class")
    return data


def _write(console: Console, now: Snapshot, out: Path) -> None:
    summary = now.write_exports(out)
    console.print(Text(f"{out}: {summary.files} files."))
    console.print(notes(summary.notes))


def _write_anew(console: Console, book: Gradebook, results: Path) -> None:
    """Write exports and pages of what the gradebook says now; the pages' plots are kept beside them."""
    now = Snapshot.of(book)
    _write(console, now, results / "exports")
    written = now.write_pages(results)
    pages = "1 page" if written == 1 else f"{written} pages"
    console.print(Text(f"{results / 'index.html'}: {pages} written anew."))
    keep_up(book, results, now)


def _results(gradebook: str) -> Path:
    if not Path(gradebook).is_dir():
        raise ExportError("say with --out where the exports go: the gradebook is not in a folder of results")
    return Path(gradebook)


def _tell(console: Console, path: Path, filled: Filled) -> None:
    grades = "1 grade" if filled.grades == 1 else f"{filled.grades} grades"
    console.print(Text(f"{path}: {grades} filled in."))
    console.print(notes(filled.notes))
    for title, people in (
        ("Left out:", filled.left_out),
        ("Rows of nobody, which stay as they are:", filled.unmatched),
    ):
        if people:
            console.print(Text(title))
            console.print(notes([_line(one) for one in people]))


def _line(one: LeftOut) -> str:
    return f"{one.who}: {one.reason}"


def _refused(sentence: str) -> int:
    complain(sentence)
    return REFUSED
