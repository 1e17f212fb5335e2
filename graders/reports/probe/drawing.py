"""Whether error bars that a script drew may have come before anybody's eyes: in a window, a file, another program."""

from __future__ import annotations

import atexit
import functools
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.figure import Figure

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
# What a run writes whether it draws or not; beside it, whatever is written may be the picture.
NO_PICTURES = (".json", ".pyc", "__pycache__", "/dev/", "/proc/")
PROGRAMS = frozenset({"subprocess.Popen", "os.system", "os.posix_spawn", "os.exec"})
# Their own work at exit is no script's.
LIBRARIES = ("torch", "multiprocessing", "concurrent")


class Bars:
    """Notes from now on whether error bars are drawn, and whether anything is done that may show a figure."""

    def __init__(self) -> None:
        self._drawn = self._seen = False
        for owner, name in ((Figure, "draw"), (Figure, "show"), (FigureManagerBase, "show"), (plt, "show")):
            setattr(owner, name, self._seeing(getattr(owner, name)))
        at_exit_module: Any = atexit
        draw, at_exit = Axes.errorbar, at_exit_module.register

        @functools.wraps(draw)
        def drawing(*args: Any, **kwargs: Any) -> Any:
            self._drawn = True
            return draw(*args, **kwargs)

        @functools.wraps(at_exit)
        def registering(function: Any, *args: Any, **kwargs: Any) -> Any:
            self._seen |= not str(getattr(function, "__module__", "")).startswith(LIBRARIES)
            return at_exit(function, *args, **kwargs)

        Axes.errorbar = drawing  # type: ignore[method-assign]
        at_exit_module.register = registering
        sys.addaudithook(self._hear)

    def are_unseen(self) -> bool:
        """Whether there were any, and nobody can have seen them. In interactive mode figures show themselves."""
        return self._drawn and not (self._seen or plt.isinteractive() or "IPython" in sys.modules)

    def _seeing(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def seen(*args: Any, **kwargs: Any) -> Any:
            self._seen = True
            return function(*args, **kwargs)

        return seen

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in PROGRAMS:
            self._seen = True
        elif event == "socket.connect":
            # A loader's workers hand on what they have read in this way.
            self._seen |= arguments[0].family != socket.AF_UNIX
        elif event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES:
            # A number is a file that was heard of by its path before.
            path = "" if isinstance(arguments[0], int) else os.fsdecode(arguments[0])
            self._seen |= path != "" and not any(part in path for part in NO_PICTURES)
