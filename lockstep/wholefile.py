"""Writes a file whole or not at all: whoever reads it never sees half of it, whatever is killed meanwhile."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


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
    handle, unfinished = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(unfinished, 0o644)
        os.replace(unfinished, target)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
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
