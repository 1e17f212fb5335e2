"""Writes a file whole or not at all: whoever reads it never sees half of it, whatever is killed meanwhile."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

NAME_LENGTH = 40
"""How much of a file's name an unfinished one has: a long name leaves no room for more."""


def write_whole(path: Path, content: bytes) -> None:
    """Write `content` to `path`, replacing what was there. Raises OSError, with its name, where that cannot be done."""
    try:
        _write(path, content)
    except OSError as error:
        error.filename = str(path)  # of a full disk the system does not say whose content it could not take
        raise


def _write(path: Path, content: bytes) -> None:
    if path.exists() and not path.is_file():
        path.write_bytes(content)  # /dev/stdout, a named pipe: written into, never replaced
        return
    target = path.resolve()  # a link stays a link
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    unfinished = target.with_name(f".{target.name[:NAME_LENGTH]}.{secrets.token_hex(8)}")
    # The system takes off what the umask forbids; to ask for the umask is to set it, for every thread.
    handle = os.open(
        unfinished,
        os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC,
        0o666 if mode is None else mode & 0o600,
    )
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        if mode is not None:
            os.chmod(unfinished, mode)  # whom the file was closed to must not read what replaces it
        os.replace(unfinished, target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def write_changed(path: Path, content: bytes) -> bool:
    """`write_whole`, unless just that is there already; returns whether it was written.

    Replacing a file takes a disk a hundred times as long as reading it.
    """
    try:
        if path.is_file() and path.read_bytes() == content:
            return False
    except OSError:
        pass
    write_whole(path, content)
    return True
