"""The files in the student's folder, and which of them a run writes."""

from __future__ import annotations

import contextlib
import os

CHECKPOINTS = (".pt", ".pth", ".ckpt", ".tar")
# How torch.save begins a file, now and as it was before 2020.
_BEGINS = (b"PK\x03\x04", b"\x80\x02\x8a")


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


def may_be_checkpoint(name: str) -> bool:
    """Whether a file has the name of a checkpoint, or another and begins like one."""
    if name.endswith(CHECKPOINTS):
        return True
    try:
        with open(name, "rb") as file:
            return file.read(4).startswith(_BEGINS)
    except OSError:
        return False
