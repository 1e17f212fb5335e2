"""Whether anybody could have seen what a script drew: a window, a file, another program."""

from __future__ import annotations

import atexit
import os
import sys
from typing import Any

from matplotlib import pyplot as plt

from lockstep.sandbox.probing import OTHER_PROCESS

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
# Python's own, and the notebooks that are laid beside what was made from them.
NOT_SHOWN = ("__pycache__", ".ipynb")


class Outlets:
    """Notes that a script shows or saves something, or does what may come to that."""

    def __init__(self) -> None:
        self._used = False
        self._files, self._at_exit = _shown(files_here()), atexit._ncallbacks()
        sys.addaudithook(self._hear)

    def use(self) -> None:
        """Something was shown, or saved."""
        self._used = True

    def were_used(self) -> bool:
        """Whether anything was. In interactive mode figures show themselves; what happens at exit is not seen here."""
        return (
            self._used
            or plt.isinteractive()
            or "IPython" in sys.modules
            or atexit._ncallbacks() != self._at_exit
            or _shown(files_here()) != self._files
        )

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in OTHER_PROCESS or event == "socket.connect":
            self._used = True
        elif event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES:
            self._used |= not any(part in str(arguments[0]) for part in NOT_SHOWN)


def files_here() -> set[tuple[str, int]]:
    """The files in the student's folder, each with when it was written: libraries in C write them unheard."""
    return files_below(".")


def files_below(root: str) -> set[tuple[str, int]]:
    """The same of any folder."""
    paths = (os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names)
    return {(path, os.lstat(path).st_mtime_ns) for path in paths}


def _shown(files: set[tuple[str, int]]) -> set[tuple[str, int]]:
    return {file for file in files if not any(part in file[0] for part in NOT_SHOWN)}
