"""What everybody else reads is made from the gradebook: tables and pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lockstep.classroom.exports.write import write_all
from lockstep.classroom.gradebook import Gradebook
from lockstep.classroom.pages.write import write_pages
from lockstep.classroom.record import Record
from lockstep.classroom.slug import slugs
from lockstep.text import safe_line


@dataclass(frozen=True)
class Published:
    """The class as it was written down. `notes` are sentences about it, `failures` say what could not be made."""

    records: tuple[Record, ...]
    notes: tuple[str, ...]
    failures: tuple[str, ...]


def publish(book: Gradebook, out: Path, flag: Callable[[], None] | None = None) -> Published:
    """Write exports and pages; `flag` writes the flags into the gradebook before.

    What fails is told and keeps nothing else from being made: the grades are safe.
    """
    failures: list[str] = []
    if flag is not None and (failure := _failure("flags", flag)):
        failures.append(failure)
    records = book.records()
    names = slugs(records)
    known, unmatched = book.catalogue(), book.unmatched()
    notes: list[str] = []

    def tables() -> None:
        notes.extend(write_all(records, known, unmatched, out / "exports", slugs=names).notes)

    def pages() -> None:
        write_pages(records, known, unmatched, names, out, out.absolute().name)

    for what, make in (("tables", tables), ("pages", pages)):
        if failure := _failure(what, make):
            failures.append(failure)
    return Published(records, tuple(notes), tuple(failures))


def _failure(what: str, make: Callable[[], None]) -> str:
    """Make something; a sentence where it could not be made."""
    try:
        make()
    except OSError as error:
        return f"the {what} could not be written: {error.filename}: {error.strerror}"
    except Exception as error:
        return f"lockstep itself failed to make the {what}: {type(error).__name__}: {safe_line(str(error))}"
    return ""
