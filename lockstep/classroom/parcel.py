"""A hand-in on its way to another machine: the files that the intake reads, as they are.

Nothing is interpreted on the way: an archive travels as the bytes it is, a folder as its files. What the intake
leaves out for its size travels as a name and a size, because it has a say in which folder the work begins.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from lockstep.archive import UPLOAD_BYTES
from lockstep.folder import list_folder, read_file
from lockstep.leftovers import trim
from lockstep.members import Member, SubmissionError, relative_path, shown
from lockstep.submission import orderly_files

_STILL_TOO_BIG = UPLOAD_BYTES + 1
"""Bytes of a file that is left out there as well, whatever it is."""


@dataclass(frozen=True)
class Carried:
    """One file. `content` is None for one that the intake leaves out; `size` is in bytes."""

    path: str
    size: int
    executable: bool
    content: bytes | None


@dataclass(frozen=True)
class Parcel:
    """A hand-in by the name it was handed in under. One that is no folder is a single file without a path."""

    name: str
    is_folder: bool
    files: tuple[Carried, ...]


def pack(path: Path) -> Parcel:
    """Read what lies at `path`, at most what the intake reads. Raises SubmissionError."""
    name = os.path.basename(os.path.abspath(path))
    target = Path(os.path.realpath(path))
    try:
        status = target.stat()
    except OSError as error:
        raise SubmissionError(f"There is no file or folder {shown(name)} any more.") from error
    if not stat.S_ISDIR(status.st_mode):
        content = read_file(target, status.st_size, name) if status.st_size <= UPLOAD_BYTES else None
        return Parcel(name, False, (Carried("", status.st_size, False, content),))
    files = orderly_files(list_folder(target)[0])
    kept = {file.path for file in trim(files)[0]}
    return Parcel(name, True, tuple(_carried(file, file.path in kept) for file in files))


def _carried(file: Member, kept: bool) -> Carried:
    return Carried(file.path, file.size, file.executable, file.read() if kept else None)


def unpack(parcel: Parcel, into: Path) -> Path:
    """Write a parcel below the folder `into` and return where it lies. Raises OSError and SubmissionError."""
    place = into / parcel.name
    if parcel.is_folder:
        place.mkdir()
    for file in parcel.files:
        path = place / relative_path(file.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as written:
            if file.content is not None:
                written.write(file.content)
            else:
                # A hole takes no room on the disk, however big the file was.
                written.truncate(min(file.size, _STILL_TOO_BIG))
        if file.executable:
            path.chmod(0o700)
    return place
