"""What everybody else reads is made from the gradebook: flags, tables and pages."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lockstep.classroom.failure import noted
from lockstep.classroom.fingerprint import PACKAGE
from lockstep.classroom.gradebook import Gradebook
from lockstep.classroom.handin import HandIn
from lockstep.classroom.pages.keeping import refresh_plots
from lockstep.classroom.snapshot import PUBLISHED, Snapshot

PLACES = ("index.html", "exports", "students")


@dataclass(frozen=True)
class Published:
    """What was written down: `notes` are sentences about the class, `failures` say what could not be made."""

    snapshot: Snapshot
    notes: tuple[str, ...]
    failures: tuple[str, ...] = ()


def publish(
    book: Gradebook,
    out: Path,
    handins: Sequence[HandIn],
    rest_on: Sequence[Path],
    flag: Callable[[], Sequence[str]],
) -> Published:
    """Let `flag` write flags into the gradebook and say what it failed at, then write exports and pages below `out`.

    Pages draw the reports of `handins`; flags `rest_on` these folders as well. What fails is told and keeps nothing
    else from being made: the grades are safe. What is there already and would not change is left as it is.
    Whoever asks for it holds the gradebook, and lets `renewal.keep_up` follow when it is held no more.
    """
    before, now = book.recall(PUBLISHED), Snapshot.of(book)
    if before is not None and before["state"] == _state(now, out, rest_on):
        return Published(now, tuple(before["notes"]))
    failures: list[str] = []
    notes: Sequence[str] = ()
    with noted(failures, "flags"):
        failures += flag()
    now = Snapshot.of(book)
    with noted(failures, "tables"):
        notes = now.write_exports(out / "exports").notes
    with noted(failures, "plots"):
        refresh_plots(handins, now.records, now.slugs, out)
    with noted(failures, "pages"):
        now.write_pages(out)
    if not failures:
        book.remember(PUBLISHED, {"state": _state(now, out, rest_on), "notes": notes})
    return Published(now, tuple(notes), tuple(failures))


def _state(now: Snapshot, out: Path, rest_on: Sequence[Path]) -> str:
    """Equal as long as the same would be written where it lies already."""
    total = hashlib.sha256(now.revision.encode())
    for root in (PACKAGE, *rest_on, *(out / name for name in PLACES)):
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
