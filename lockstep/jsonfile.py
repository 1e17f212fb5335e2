"""Writes a JSON file whole or not at all: a gradebook must never read half a result."""

from __future__ import annotations

import json
from pathlib import Path

from lockstep.wholefile import write_whole


def write_json(path: Path, value: object) -> None:
    """Write `value` to `path`, replacing what was there. Raises OSError where that cannot be done, and ValueError."""
    write_whole(path, json_bytes(value))


def json_bytes(value: object, *, indented: bool = True) -> bytes:
    """`value` as the content of a JSON file. Without indentation it takes a tenth of the time.

    ASCII only, so that no text of a student's can upset whatever reads the file next; NaN and infinity,
    which are not JSON, raise ValueError.
    """
    return f"{json.dumps(value, indent=2 if indented else None, allow_nan=False)}\n".encode("ascii")
