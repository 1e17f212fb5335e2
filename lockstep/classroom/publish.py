"""What everybody else reads is made from the gradebook: flags, tables and pages."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lockstep.classroom.exports.write import write_all
from lockstep.classroom.failure import noted
from lockstep.classroom.fingerprint import PACKAGE
from lockstep.classroom.gradebook import Gradebook
from lockstep.classroom.handin import HandIn
from lockstep.classroom.pages.keeping import refresh_plots
from lockstep.classroom.pages.write import write_pages
from lockstep.classroom.record import Record
from lockstep.classroom.slug import slugs

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
    book: Gradebook,
    out: Path,
    handins: Sequence[HandIn],
    handed: Sequence[Path],
    flag: Callable[[], Sequence[str]],
) -> Published:
    """Let `flag` write flags into the gradebook and say what it failed at, then write exports and pages below `out`.

    Pages draw the reports of `handins`; flags rest on what was `handed` out as well. What fails is told and keeps
    nothing else from being made: the grades are safe. What is there already and would not change is left as it is.
    """
    before = book.recall(KEY)
    if before is not None and before["state"] == _state(book, out, handed):
        return Published(book.records(), tuple(before["notes"]))
    failures: list[str] = []
    notes: Sequence[str] = ()
    with noted(failures, "flags"):
        failures += flag()
    records = book.records()
    names = slugs(records)
    known, unmatched = book.catalogue(), book.unmatched()
    with noted(failures, "tables"):
        notes = write_all(records, known, unmatched, out / "exports", slugs=names).notes
    with noted(failures, "plots"):
        refresh_plots(handins, records, names, out)
    with noted(failures, "pages"):
        write_pages(records, known, unmatched, names, out, out.absolute().name)
    if not failures:
        book.remember(KEY, {"state": _state(book, out, handed), "notes": notes})
    return Published(records, tuple(notes), tuple(failures))


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
