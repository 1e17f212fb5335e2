"""The files beside a report, on disk or as handed in: no path leads out, none is too large, no link is followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

FILE_BYTES = 16 << 20
"""The largest file that is read; an event file of a day's training has about 2 MiB."""
FOLDER_BYTES = 128 << 20
"""What is read for one report in all: a report may name the same log a thousand times."""
FOLDER_ENTRIES = 5_000
"""Entries of a log folder that are looked at."""

# O_NONBLOCK: opening a pipe must not wait for a writer.
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Folder:
    """The folder a report lies in. Whatever is not a regular file below it does not exist.

    Read through descriptors, a folder at a time: a path cannot lead out even if somebody swaps a folder for a
    link meanwhile.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._left = FOLDER_BYTES

    def read(self, path: str) -> bytes | None:
        """The bytes of a file; None where there is none, where it is too large, or where the path leads out."""
        descriptor = self._open(path)
        if descriptor is None:
            return None
        most = min(FILE_BYTES, self._left)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > most:
                return None
            with open(descriptor, "rb", closefd=False) as file:
                content = file.read(most + 1)
        except OSError:
            return None
        finally:
            os.close(descriptor)
        if len(content) > most:  # it grew
            return None
        self._left -= len(content)
        return content

    def below(self, path: str) -> tuple[str, ...]:
        """The files below a folder, sorted; the path itself where it is a file; nothing where there is neither."""
        descriptor = self._open(path)
        if descriptor is None:
            return ()
        try:
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISREG(mode):
                return (path,)
            found: list[str] = []
            if stat.S_ISDIR(mode):
                self._walk(descriptor, path.rstrip("/\\") or ".", found, [FOLDER_ENTRIES])
            return tuple(sorted(found))
        finally:
            os.close(descriptor)

    def _open(self, path: str) -> int | None:
        parts = _parts(path)
        if parts is None:
            return None
        with suppress(OSError, ValueError):
            descriptor = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            for part in parts:
                above = descriptor
                try:
                    descriptor = os.open(part, _FLAGS, dir_fd=above)
                finally:
                    os.close(above)
            return descriptor
        return None

    def _walk(self, descriptor: int, path: str, found: list[str], left: list[int]) -> None:
        with os.scandir(descriptor) as entries:
            for entry in entries:
                left[0] -= 1
                if left[0] < 0:
                    return
                name = f"{path}/{entry.name}"
                if entry.is_file(follow_symlinks=False):
                    found.append(name)
                elif entry.is_dir(follow_symlinks=False) and name.count("/") < _DEPTH:
                    with suppress(OSError):
                        inner = os.open(entry.name, _FLAGS | os.O_DIRECTORY, dir_fd=descriptor)
                        try:
                            self._walk(inner, name, found, left)
                        finally:
                            os.close(inner)


class Handed:
    """The files of a submission, already in memory; the report lies in its folder `where`."""

    def __init__(self, files: Mapping[str, bytes], where: str = "") -> None:
        prefix = f"{where.strip('/')}/" if where.strip("/") else ""
        self._files = {name[len(prefix) :]: data for name, data in files.items() if name.startswith(prefix)}

    def read(self, path: str) -> bytes | None:
        """The bytes of a file; None where there is none, where it is too large, or where the path leads out."""
        parts = _parts(path)
        content = None if parts is None else self._files.get("/".join(parts))
        return None if content is None or len(content) > FILE_BYTES else content

    def below(self, path: str) -> tuple[str, ...]:
        """The files below a folder, sorted; the path itself where it is a file; nothing where there is neither."""
        parts = _parts(path)
        if parts is None:
            return ()
        name = "/".join(parts)
        if name in self._files:
            return (path,)
        return tuple(sorted(other for other in self._files if not name or other.startswith(f"{name}/")))


_DEPTH = 32


def _parts(path: str) -> list[str] | None:
    """The names on the way down; None for a path that is absolute, leads up, or is no name at all."""
    slashed = path.replace("\\", "/")  # Windows writes its paths so
    parts = [part for part in slashed.split("/") if part not in ("", ".")]
    leads_out = slashed.startswith("/") or ".." in parts or (parts and parts[0].endswith(":"))
    return None if leads_out or "\0" in path or len(parts) > _DEPTH else parts
