"""Writes RESULTS/index.html and one page for each student: files that need no network, no server and no other file."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lockstep.classroom.catalogue import ExerciseTitle
from lockstep.classroom.handin import Unmatched
from lockstep.classroom.pages import plots
from lockstep.classroom.pages.render import Pages, sources
from lockstep.classroom.record import Record
from lockstep.wholefile import write_whole

STAMPED_BYTES = 512
"""A student's page begins with the hash of what it was made of."""

MARK = b"""<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-"""
"""What every page of lockstep's begins with, and hardly another: it lets a browser load nothing but its own style."""


def is_page(path: Path) -> bool:
    """Whether a page of lockstep's lies there."""
    return MARK in _beginning(path)


def is_foreign(path: Path) -> bool:
    """Whether something lies there that is no page of lockstep's, so that nothing may write over it; no empty file."""
    return path.exists() and path.stat().st_size > 0 and not is_page(path)


def write_pages(
    records: Sequence[Record],
    catalogue: Sequence[ExerciseTitle],
    unmatched: Sequence[Unmatched],
    slugs: Mapping[str, str],
    out: Path,
    title: str = "",
) -> int:
    """Write the class page and a page for every record below `out`; returns how many were new or other than before.

    `slugs` are the folders of students by id. Pages that would not change are not touched, and those of students whom
    the gradebook does not know any more are removed. Raises OSError, also where a file of somebody's own is in the way.
    """
    _refuse_foreign(out / "index.html")
    pages = Pages(catalogue, title)
    common = _digest(*sources(), repr(catalogue).encode("utf-8", "surrogatepass"))
    written = 0
    for record in records:
        folder = out / "students" / slugs[record.student.id]
        stamp = _stamp(common, record, folder)
        if not _bears(folder / "index.html", stamp):
            _refuse_foreign(folder / "index.html")
            folder.mkdir(parents=True, exist_ok=True)
            page = pages.of_student(record, plots.kept_plots(folder), stamp)
            write_whole(folder / "index.html", page.encode("utf-8"))
            written += 1
    _remove_all_but(out / "students", set(slugs.values()))
    # Last, so that every link of it leads somewhere.
    page = pages.of_class(records, unmatched, slugs)
    return written + _write(out / "index.html", page.encode("utf-8"))


def _remove_all_but(students: Path, names: Collection[str]) -> None:
    """A roster may have renamed somebody: of two pages a person would not know which counts."""
    for folder in students.glob("*/"):
        if folder.name not in names and is_page(folder / "index.html"):
            # The page last: it tells that both are lockstep's.
            for file in (plots.FILE, "index.html"):
                (folder / file).unlink(missing_ok=True)
            if not any(folder.iterdir()):
                folder.rmdir()


def _stamp(common: bytes, record: Record, folder: Path) -> str:
    """What a student's page is made of, as a hash: rendering thousands only to compare them takes a minute.

    The seed and the flags are no part of it, as they are no part of the page.
    """
    graded = record.attempt.ended_at if record.attempt else ""
    shown = repr((graded, replace(record, attempt=None, flags=())))
    try:
        kept = (folder / plots.FILE).read_bytes()
    except OSError:
        kept = b""
    return _digest(common, shown.encode("utf-8", "surrogatepass"), kept).hex()


def _bears(path: Path, stamp: str) -> bool:
    """Whether a page is there and was made of the same."""
    return stamp.encode() in _beginning(path)


def _beginning(path: Path) -> bytes:
    try:
        with path.open("rb") as page:
            return page.read(STAMPED_BYTES)
    except OSError:
        return b""


def _refuse_foreign(path: Path) -> None:
    if is_foreign(path):
        raise FileExistsError(errno.EEXIST, "no page of lockstep's, so it is not written over", str(path))


def _write(path: Path, content: bytes) -> bool:
    try:
        if path.read_bytes() == content:
            return False
    except OSError:
        path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content)
    return True


def _digest(*parts: bytes) -> bytes:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(hashlib.sha256(part).digest())
    return whole.digest()
