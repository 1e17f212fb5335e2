"""What everybody else reads is made from the gradebook: flags, tables and pages."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lockstep.classroom.exports.write import write_all
from lockstep.classroom.fingerprint import PACKAGE
from lockstep.classroom.gradebook import Gradebook
from lockstep.classroom.handin import HandIn
from lockstep.classroom.pages.keeping import refresh_plots
from lockstep.classroom.pages.write import write_pages
from lockstep.classroom.record import Record
from lockstep.classroom.slug import slugs
from lockstep.text import safe_line

KEY = "published"
"""Under this the gradebook keeps what was published last: a class of which nothing changed takes no time."""

PLACES = ("index.html", "exports", "students")


@dataclass(frozen=True)
class Published:
    """The class as it was written down. `notes` are sentences about it, `failures` say what could not be made."""

    records: tuple[Record, ...]
    notes: tuple[str, ...]
    failures: tuple[str, ...] = ()


def publish(
    book: Gradebook, out: Path, handins: Sequence[HandIn], handed: Sequence[Path], flag: Callable[[], None]
) -> Published:
    """Let `flag` write flags into the gradebook, then write exports and pages below `out`.

    Pages draw the reports of `handins`; flags rest on what was `handed` out as well. What fails is told and keeps
    nothing else from being made: the grades are safe. What is there already and would not change is left as it is.
    """
    before = book.recall(KEY)
    if before is not None and before["state"] == _state(book, out, handed):
        return Published(book.records(), tuple(before["notes"]))
    failures = [_failure("flags", flag)]
    records = book.records()
    names = slugs(records)
    known, unmatched = book.catalogue(), book.unmatched()
    notes: list[str] = []

    def tables() -> None:
        notes.extend(write_all(records, known, unmatched, out / "exports", slugs=names).notes)

    def plots() -> None:
        refresh_plots(handins, records, names, out)

    def pages() -> None:
        write_pages(records, known, unmatched, names, out, out.absolute().name)

    failures += [_failure("tables", tables), _failure("plots", plots), _failure("pages", pages)]
    if not any(failures):
        book.remember(KEY, {"state": _state(book, out, handed), "notes": notes})
    return Published(records, tuple(notes), tuple(failure for failure in failures if failure))


def _failure(what: str, make: Callable[[], None]) -> str:
    """Make something; a sentence where it could not be made."""
    try:
        make()
    except OSError as error:
        return f"the {what} could not be written: {error.filename}: {error.strerror}"
    except Exception as error:
        return f"lockstep itself failed to make the {what}: {type(error).__name__}: {safe_line(str(error))}"
    return ""


def _state(book: Gradebook, out: Path, handed: Sequence[Path]) -> str:
    """Equal as long as the same would be written where it lies already."""
    total = hashlib.sha256(book.revision(KEY).encode())
    for root in (PACKAGE, *handed, *(out / name for name in PLACES)):
        for path in sorted(_files(root)):
            about = path.stat()
            total.update(f"{path}\n{about.st_size} {about.st_mtime_ns}\n".encode("utf-8", "surrogatepass"))
    return total.hexdigest()


def _files(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
    for path in place.rglob("*"):
        if path.is_file() and path.parent.name != "__pycache__":
            yield path
