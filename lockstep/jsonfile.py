"""Writes a JSON file whole or not at all: a gradebook must never read half a result."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path


def write_json(path: Path, value: object) -> None:
    """Write `value` to `path`, replacing what was there. Raises OSError where that cannot be done.

    ASCII only, so that no text of a student's can upset whatever reads the file next; NaN and infinity,
    which are not JSON, raise ValueError.
    """
    text = json.dumps(value, indent=2, allow_nan=False) + "\n"
    if path.exists() and not path.is_file():
        path.write_text(text)  # /dev/stdout, a named pipe: written into, never replaced
        return
    target = path.resolve()  # a link stays a link
    handle, unfinished = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.chmod(unfinished, 0o644)
        os.replace(unfinished, target)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise
