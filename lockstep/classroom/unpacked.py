"""Folders that lockstep has unpacked hand-ins into: a list beside them names them.

What else lies there is somebody's own, such as hand-ins in a folder of the same name: it is neither removed nor
written over. The list goes along wherever its folder is moved or copied to.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from lockstep.classroom.classfolder import IntakeError
from lockstep.wholefile import write_whole

LIST = ".unpacked"
"""Each line is the name of a folder beside it."""


def make_room(place: Path) -> None:
    """Empty a place to unpack something to, in a folder that is there then.

    Raises IntakeError where something lies there that lockstep has not unpacked, and OSError.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    listed = _listed(place.parent)
    if place.name not in listed:
        if os.path.lexists(place):
            raise IntakeError(
                f"{place} lies where a hand-in would be unpacked, and nothing says that lockstep has put it there: "
                "move it, or name another folder with --out; where an older lockstep has unpacked it, remove it"
            )
        # First the name: whatever is killed in between, the next grading knows the folder for its own.
        _list(place.parent, [*listed, place.name])
    if place.is_symlink() or place.is_file():
        place.unlink()
    elif place.exists():
        shutil.rmtree(place)


def remove(place: Path) -> bool:
    """Remove what was unpacked to a place; False where something lies there that lockstep has not unpacked."""
    listed = _listed(place.parent)
    if place.name in listed:
        shutil.rmtree(place, ignore_errors=True)
        _list(place.parent, [name for name in listed if name != place.name])
    return not os.path.lexists(place)


def _listed(folder: Path) -> list[str]:
    try:
        return (folder / LIST).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def _list(folder: Path, names: list[str]) -> None:
    write_whole(folder / LIST, "".join(f"{name}\n" for name in names).encode())
