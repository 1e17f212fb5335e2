"""What a script does without an option that it is not given: the folder of the images."""

from __future__ import annotations

import functools
import os
import re
from typing import Any

from lockstep.sandbox.probing import Student

# As on Linux, macOS and Windows.
_HOME = re.compile(r"/(?:home|Users)/[^/]+|[A-Za-z]:[\\/]Users[\\/][^\\/]+")


def note_data_at_home(student: Student) -> None:
    """From now on, note it where CIFAR-10 is not found in somebody's home folder, of which there is none here."""
    from torchvision import datasets

    make: Any = datasets.CIFAR10.__init__

    @functools.wraps(make)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            make(self, *args, **kwargs)
        except (RuntimeError, FileNotFoundError):
            root = args[0] if args else kwargs.get("root")
            folder = os.fspath(root) if isinstance(root, str | os.PathLike) else ""
            if folder := absent_home(str(folder)):
                student.watch.note("data_at_home", folder=folder)
            raise

    datasets.CIFAR10.__init__ = init


def absent_home(folder: str) -> str:
    """The folder, if it is within a home folder that is not there; otherwise nothing."""
    home = _HOME.match(folder)
    return folder[:200] if home and not os.path.exists(home[0]) else ""
