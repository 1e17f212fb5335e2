"""The files in the student's folder, and which of them a run writes."""

from __future__ import annotations

import contextlib
import os

CHECKPOINTS = (".pt", ".pth", ".ckpt", ".tar")


def files() -> list[str]:
    """The names of all files, relative to the folder."""
    return [
        os.path.relpath(os.path.join(folder, name)) for folder, _, names in os.walk(".") for name in names
    ]


def versions() -> dict[str, tuple[int, int]]:
    """When each file was written, and how large it is; what Python compiles is left out."""
    found = {}
    for name in files():
        with contextlib.suppress(OSError):
            if not name.endswith(".pyc"):
                found[name] = (os.stat(name).st_mtime_ns, os.path.getsize(name))
    return found


def written_since(before: dict[str, tuple[int, int]]) -> list[str]:
    """The files that are new, or have been written anew."""
    return sorted(name for name, version in versions().items() if before.get(name) != version)
