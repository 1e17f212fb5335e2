"""Names of files as they come out of a download: what to call them, and what they are without their suffix."""

from __future__ import annotations

import os

from lockstep.submission import ARCHIVES, FOREIGN_ARCHIVES
from lockstep.text import safe_line

LABEL_LENGTH = 300
"""Characters of a name as it is stored and shown; file systems keep 255 bytes of each part."""

_OTHER_ARCHIVES = (*FOREIGN_ARCHIVES, ".gz", ".bz2", ".xz")


def label(name: str) -> str:
    """`name` as something that can be stored and shown."""
    return safe_line(name, LABEL_LENGTH) or "a name without visible characters"


def is_archive(name: str) -> bool:
    """Whether a file called `name` is somebody's packed folder, of a kind that is taken or not."""
    return name.lower().endswith((*ARCHIVES, *_OTHER_ARCHIVES))


def stem_of(name: str) -> str:
    """`name` without its suffix, which of an archive may have two parts, or be there twice."""
    if not is_archive(name):
        return os.path.splitext(name)[0]
    stem = name
    while is_archive(stem):
        suffix = next(end for end in (*ARCHIVES, *_OTHER_ARCHIVES) if stem.lower().endswith(end))
        if len(stem) == len(suffix):
            break
        stem = stem[: -len(suffix)]
    return stem
