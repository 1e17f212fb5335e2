"""Lists and reads a folder that was handed in, without following a link or opening anything but files."""

from __future__ import annotations

import os
import stat
from functools import partial
from pathlib import Path

from lockstep.leftovers import Skipped, file_reason, folder_reason
from lockstep.members import MODE_KINDS, Kind, Member, SubmissionError, composed, shown

WALKED_ENTRIES = 20_000
"""Entries looked at, data sets and tools' folders not counted; walking them takes about a second."""


def list_folder(root: Path) -> tuple[list[Member], list[Skipped]]:
    """Everything in `root` but folders, and what was left out unread. `root` itself may be a link.

    Raises `SubmissionError` for a folder that cannot be listed or that holds too much.
    """
    members: list[Member] = []
    skipped: list[Skipped] = []
    walked = 0
    pending = [(root, "")]
    while pending:
        place, folder = pending.pop()
        entries = _entries(place, folder or root.name)
        if folder and (reason := folder_reason(folder.rpartition("/")[2], {entry.name for entry in entries})):
            skipped.append(Skipped(folder, reason))
            continue
        walked += len(entries)
        if walked > WALKED_ENTRIES:
            raise SubmissionError(
                f"The folder holds more than {WALKED_ENTRIES} files. "
                "Leave data sets and virtual environments out."
            )
        for entry in entries:
            path = composed(f"{folder}/{entry.name}" if folder else entry.name)
            status = _status(entry, path)
            kind = MODE_KINDS.get(stat.S_IFMT(status.st_mode), Kind.OTHER)
            if kind is Kind.FOLDER:
                pending.append((Path(entry.path), path))
            elif reason := file_reason(entry.name):
                skipped.append(Skipped(path, reason))
            else:
                read = partial(read_file, Path(entry.path), status.st_size, path)
                members.append(Member(path, status.st_size, read, kind, bool(status.st_mode & stat.S_IXUSR)))
    return members, skipped


def read_file(path: Path, size: int, name: str) -> bytes:
    """The content of the regular file `path` of `size` bytes, which messages call `name`.

    Raises `SubmissionError` when it cannot be read, is something else, or grew in the meantime.
    """
    try:
        # O_NONBLOCK: opening a pipe that took the file's place must not wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
            content = file.read(size + 1) if regular else b""
    except OSError as error:
        raise SubmissionError(f"{shown(name)} cannot be read: {_reason(error)}.") from error
    if not regular or len(content) != size:
        raise SubmissionError(f"{shown(name)} changed while it was read. Try again.")
    return content


def _entries(place: Path, name: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(place) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise SubmissionError(f"The folder {shown(name)} cannot be read: {_reason(error)}.") from error


def _status(entry: os.DirEntry[str], name: str) -> os.stat_result:
    try:
        return entry.stat(follow_symlinks=False)
    except OSError as error:
        raise SubmissionError(f"{shown(name)} cannot be read: {_reason(error)}.") from error


def _reason(error: OSError) -> str:
    return (error.strerror or "unknown reason").lower()
