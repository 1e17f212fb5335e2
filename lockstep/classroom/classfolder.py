"""The download of a class, item by item: a folder on disk, or an LMS's one big zip without unpacking it."""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import IO
from zipfile import ZipFile, ZipInfo

from lockstep.archive import open_zip, zip_member, zip_name
from lockstep.classroom.arrival import Item
from lockstep.classroom.filenames import label
from lockstep.folder import list_folder, read_file
from lockstep.members import Kind, Member, SubmissionError, relative_path, shown

CLASS_ENTRIES = 100_000
"""Entries of a class's zip: 5,000 students with twenty files each. Listing them takes seconds."""


class IntakeError(Exception):
    """What was given as the class's submissions cannot be read at all; the message is a sentence."""


@contextmanager
def opened(submissions: Path) -> Iterator[tuple[Item, ...]]:
    """What lies in the download at `submissions`, a folder or a zip; it can be read inside the `with`.

    Raises IntakeError.
    """
    name = label(submissions.name)
    if os.path.isdir(submissions):
        try:
            items = _listed(submissions)
        except SubmissionError as error:
            raise IntakeError(str(error)) from error
        yield items
        return
    try:
        # What is no file, such as a pipe, could make opening it wait for ever.
        file = submissions.open("rb") if os.path.isfile(submissions) else None
    except OSError as error:
        raise IntakeError(
            f"{name} cannot be read: {(error.strerror or 'unknown reason').lower()}."
        ) from error
    if file is None:
        raise IntakeError(f"There is no file or folder {label(str(submissions))}.")
    with file, _opened_zip(file, name) as archive:
        yield _in_zip(archive)


def _listed(folder: Path, above: str = "") -> tuple[Item, ...]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise SubmissionError(f"The folder {label(folder.name)} cannot be read: {reason}.") from error
    return tuple(_on_disk(Path(entry.path), above) for entry in entries)


def _on_disk(place: Path, above: str) -> Item:
    try:
        # Class folders are often made of links to where each submission lies.
        status = place.stat()
        is_folder, changed = stat.S_ISDIR(status.st_mode), status.st_mtime
    except OSError:
        is_folder, changed = False, 0.0
    called = f"{above}{label(place.name)}"
    return Item(
        name=place.name,
        label=called,
        is_folder=is_folder,
        members=partial(_folder_members, place) if is_folder else partial(_file_member, place),
        inside=partial(_listed, place, f"{called}/") if is_folder else tuple,
        place=place,
        changed=changed,
    )


def _folder_members(place: Path) -> list[Member]:
    return list_folder(place)[0]


def _file_member(place: Path) -> list[Member]:
    try:
        target = Path(os.path.realpath(place))
        status = target.stat()
    except OSError as error:
        raise SubmissionError(
            f"{label(place.name)} cannot be read; perhaps it is a link to nowhere."
        ) from error
    kind = Kind.FILE if stat.S_ISREG(status.st_mode) else Kind.OTHER
    read = partial(read_file, target, status.st_size, place.name)
    return [Member(place.name, status.st_size, read, kind, bool(status.st_mode & stat.S_IXUSR))]


def _opened_zip(file: IO[bytes], name: str) -> ZipFile:
    try:
        # The end of the file is looked at before `ZipFile` sees it; gigabytes of it are never in memory.
        with mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            if data[:4] in (b"PK\3\4", b"PK\5\6"):
                return open_zip(data, file, name, CLASS_ENTRIES)
    except SubmissionError as error:
        raise IntakeError(str(error)) from error
    except (OSError, ValueError) as error:
        raise IntakeError(f"{name} cannot be read, or is empty.") from error
    raise IntakeError(
        f"{name} is no zip. Give the zip as the LMS made it, or a folder with one folder or archive for each student."
    )


@dataclass(frozen=True)
class _Zipped:
    """An entry below some folder of the zip; `problem` is why what it belongs to cannot be taken."""

    parts: tuple[str, ...]
    info: ZipInfo
    problem: str = ""


def _in_zip(archive: ZipFile) -> tuple[Item, ...]:
    entries: list[_Zipped] = []
    for info in archive.infolist():
        raw = zip_name(info)
        try:
            entries.append(_Zipped(tuple(relative_path(raw).split("/")), info))
        except SubmissionError as error:
            entries.append(_Zipped(_trunk(raw), info, str(error)))
    return _grouped(archive, entries, "")


def _trunk(raw: str) -> tuple[str, ...]:
    """The folders of a name that leads elsewhere, up to where it turns away: they say whose it is."""
    path = raw.replace("\\", "/")
    if path.startswith("/") or path[1:2] == ":":
        return ()
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return tuple(parts[: parts.index("..")] if ".." in parts else parts)


def _grouped(archive: ZipFile, entries: Sequence[_Zipped], above: str) -> tuple[Item, ...]:
    groups: dict[str, list[_Zipped]] = defaultdict(list)
    strays: list[Item] = []
    for entry in entries:
        if entry.parts and entry.parts[0]:
            groups[entry.parts[0]].append(entry)
        elif entry.problem:
            name = zip_name(entry.info)
            strays.append(Item(name, label(name), False, list, tuple, None, 0.0, stray=entry.problem))
    items = (_zip_item(archive, name, groups[name], f"{above}{label(name)}") for name in sorted(groups))
    return (*items, *strays)


def _zip_item(archive: ZipFile, name: str, entries: Sequence[_Zipped], called: str) -> Item:
    is_folder = any(len(entry.parts) > 1 or _is_folder(entry.info) for entry in entries)
    inner = [replace(entry, parts=entry.parts[1:]) for entry in entries]
    return Item(
        name=name,
        label=called,
        is_folder=is_folder,
        members=partial(_zip_members, archive, inner if is_folder else entries, called),
        inside=partial(_grouped, archive, inner, f"{called}/") if is_folder else tuple,
        place=None,
        changed=max(_changed(entry.info) for entry in entries),
    )


def _zip_members(archive: ZipFile, entries: Sequence[_Zipped], called: str) -> list[Member]:
    members = []
    for entry in entries:
        if entry.problem:
            raise SubmissionError(entry.problem)
        if entry.parts:
            members.append(zip_member(archive, entry.info, "/".join(entry.parts)))
        elif not _is_folder(entry.info):
            raise SubmissionError(f"{shown(called)} is a file and a folder at once.")
    return members


def _is_folder(info: ZipInfo) -> bool:
    # Not `is_dir`: it looks at a name that is cut off at a NUL, and may be empty.
    return info.orig_filename.endswith(("/", "\\"))


def _changed(info: ZipInfo) -> float:
    try:
        return datetime(*info.date_time, tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0
