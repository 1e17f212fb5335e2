"""Puts a hand-in where it can be graded: it stays where it lies, or what an LMS took apart is put together again."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath

from lockstep.archive import UPLOAD_BYTES, list_archive, refuse_bombs
from lockstep.classroom.arrival import Arrival, Item, Piece
from lockstep.classroom.filenames import stem_of
from lockstep.classroom.names import folded
from lockstep.classroom.parcel import Carried, Parcel, unpack
from lockstep.classroom.unpacked import make_room
from lockstep.leftovers import prune, trim
from lockstep.members import Member, Names, SubmissionError, composed, shown, size_text
from lockstep.submission import (
    ARCHIVES,
    FOREIGN_ARCHIVES,
    GRADABLE,
    SOURCES,
    display_name,
    orderly_files,
    unread_archive,
    unwrapped,
)

_UPLOADED_ONE_BY_ONE = ("canvas", "moodle")
_NUMBERED = re.compile(r"([^0-9]*)([0-9]{0,9})")


@dataclass(frozen=True)
class Settled:
    """Where a hand-in lies now, for `open_submission`; None where there is none, and `problem` says why."""

    path: Path | None
    notes: tuple[str, ...] = ()
    problem: str = ""


def settle(arrival: Arrival, place: Path) -> Settled:
    """Make one hand-in of what arrived; what has to be written is written to the folder `place`, anew.

    Raises OSError when it cannot be written, and IntakeError where somebody else's files lie there.
    """
    if arrival.problem:
        return Settled(None, problem=arrival.problem)
    only = arrival.pieces[0] if len(arrival.pieces) == 1 else None
    stays = only is not None and only.item.place is not None
    try:
        if only is not None and stays and not only.item.is_folder and _keeps_its_name(only):
            orderly_files([replace(member, path="file") for member in only.item.members()])
            return Settled(only.item.place)
        if only is not None and stays and only.item.is_folder and not _has_archives(only.item):
            return Settled(only.item.place)
        # Folders beside other pieces are unpacked archives, and as those they may hold files of equal names.
        folders = [piece for piece in arrival.pieces if piece.item.is_folder and only is None]
        others = [piece for piece in arrival.pieces if piece not in folders]
        files = orderly_files(prune([member for piece in others for member in _members(piece)])[0])
        if not files and not folders:
            return Settled(None, problem=f"{shown(arrival.label)} is empty: there is no file in it.")
        archives, loose = _told_apart(files)
        if folders:
            merged = _merged(archives, loose, folders)
            return Settled(_write(merged.files, place), tuple(merged.notes))
        if len(archives) == 1 and not any(_suffix(file) in GRADABLE for file in loose):
            return Settled(_write_archive(archives[0], place), tuple(_beside(archives[0], loose)))
        one_by_one = any(person.system in _UPLOADED_ONE_BY_ONE for person in arrival.people)
        if archives and (one_by_one or not any(_suffix(file) in SOURCES for file in loose)):
            merged = _merged(archives, loose)
            return Settled(_write(merged.files, place), tuple(merged.notes))
        if only is not None and stays and only.item.is_folder:
            return Settled(only.item.place)
        return Settled(_write(files, place))
    except SubmissionError as error:
        return Settled(None, problem=str(error))


def _keeps_its_name(piece: Piece) -> bool:
    return piece.name == piece.item.name or piece.name.lower().endswith(ARCHIVES)


def _has_archives(folder: Item) -> bool:
    """Whether archives lie on top of it, or on top of the only folder in it; the rest need not be walked for that."""
    inside = folder.inside()
    while len(inside) == 1 and inside[0].is_folder:
        inside = inside[0].inside()
    return any(not item.is_folder and item.name.lower().endswith(ARCHIVES) for item in inside)


def _members(piece: Piece) -> Iterable[Member]:
    members = piece.item.members()
    if piece.item.is_folder:
        return members
    # What an archive is called makes no difference to what is in it.
    suffix = next((suffix for suffix in ARCHIVES if piece.name.lower().endswith(suffix)), "")
    name = f"{display_name(piece.name)}{suffix}" if suffix else composed(piece.name)
    return [replace(member, path=name) for member in members]


def _suffix(file: Member) -> str:
    return PurePosixPath(file.path).suffix.lower()


def _told_apart(files: Sequence[Member]) -> tuple[list[Member], list[Member]]:
    """The archives that lie on top, and everything else. A copy that was made later comes first."""
    top = os.path.commonpath([os.path.dirname(file.path) for file in files]) if files else ""
    is_archive = [
        file.path.lower().endswith(ARCHIVES) and os.path.dirname(file.path) == top for file in files
    ]
    archives = [file for file, is_one in zip(files, is_archive, strict=True) if is_one]
    loose = [file for file, is_one in zip(files, is_archive, strict=True) if not is_one]
    return sorted(archives, key=lambda file: _made_when(file.path), reverse=True), loose


def _made_when(name: str) -> tuple[list[tuple[str, int]], str]:
    """Greater for what is named as a later copy: `lab.zip`, `lab-2.zip`, `lab-10.zip`."""
    numbered = _NUMBERED.findall(folded(stem_of(name)))
    return [(words, int(number or 0)) for words, number in numbered], name


def _beside(archive: Member, loose: Sequence[Member]) -> list[str]:
    packed = [file for file in loose if file.path.lower().endswith((*ARCHIVES, *FOREIGN_ARCHIVES))]
    others = [file for file in loose if file not in packed]
    notes = [unread_archive(file.path) for file in packed]
    if others:
        names = ", ".join(shown(file.path) for file in others[:4])
        more = f" and {len(others) - 4} more" if len(others) > 4 else ""
        notes.append(f"{names}{more} beside {shown(archive.path)} was not read: it cannot be graded")
    return notes


@dataclass
class _Merged:
    """One tree of files from several places, the first that comes for a name counts."""

    files: list[Member] = field(default_factory=list)
    names: Names = field(default_factory=Names)
    notes: list[str] = field(default_factory=list)

    def add(self, file: Member, source: str = "") -> None:
        twin = self.names.twin(file.path)
        if twin is not None:
            self.notes.append(f"{shown(file.path)} in {shown(source)} was not read: there is another one")
            return
        try:
            self.names.add(file.path)
        except SubmissionError as error:
            self.notes.append(f"{shown(file.path)} in {shown(source)} was not read: {error}")
            return
        self.files.append(file)


def _merged(archives: Sequence[Member], loose: Sequence[Member], folders: Sequence[Piece] = ()) -> _Merged:
    """The files that lie there, those of archives beside them, and those of archives that somebody has unpacked.

    Raises SubmissionError if that comes to nothing.
    """
    merged = _Merged()
    problems: list[SubmissionError] = []
    for file in loose:
        merged.add(file)
    inners = [(file.path, partial(_inner, file)) for file in archives]
    names = sorted(folders, key=lambda piece: _made_when(piece.item.name), reverse=True)
    inners += [(piece.item.name, partial(_unpacked, piece.item)) for piece in names]
    for name, inner in inners:
        try:
            files = inner()
        except SubmissionError as error:
            problems.append(error)
            merged.notes.append(unread_archive(name, str(error)))
            continue
        for file in files:
            merged.add(file, name)
    if problems and not any(_suffix(file) in GRADABLE for file in merged.files):
        raise problems[0]
    return merged


def _unpacked(folder: Item) -> list[Member]:
    return unwrapped(orderly_files(prune(folder.members())[0]))[0]


def _inner(archive: Member) -> list[Member]:
    listed, _ = prune(list_archive(_read_archive(archive), archive.path))
    refuse_bombs(listed, archive.size, archive.path)
    return unwrapped(orderly_files(listed))[0]


def _read_archive(archive: Member) -> bytes:
    if archive.size > UPLOAD_BYTES:
        raise SubmissionError(
            f"{shown(archive.path)} has {size_text(archive.size)}, more than {size_text(UPLOAD_BYTES)}. "
            "Leave data sets, model weights and virtual environments out."
        )
    return archive.read()


def _write_archive(archive: Member, place: Path) -> Path:
    content = _read_archive(archive)
    make_room(place)
    place.mkdir()
    name = os.path.basename(archive.path)
    return unpack(Parcel(name, False, (Carried("", archive.size, False, content),)), place)


def _write(files: Sequence[Member], place: Path) -> Path:
    # What is left out for its size is written as a hole: whoever grades says so, and why.
    kept = {file.path for file in trim(files)[0]}
    carried = tuple(
        Carried(file.path, file.size, file.executable, file.read() if file.path in kept else None)
        for file in files
    )
    make_room(place)
    return unpack(Parcel(place.name, True, carried), place.parent)
