"""Folders for processes that grade, which the next grading of the class removes if they could not do so themselves.

They lie in the system's folder for temporary files: sockets are made in them, and a socket's path may have no more
than 107 bytes (unix(7)). What is left of a killed grading is known by links in `RESULTS/.work`.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
from pathlib import Path

PREFIX = "lockstep-class-"


class Scratch:
    """The scratch folders of one grading. Use as a context manager: entering removes what was left behind."""

    def __init__(self, register: Path) -> None:
        """`register` is where links to the folders are kept; its parent is there."""
        self._register = register

    def __enter__(self) -> Scratch:
        self._clear()
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()

    def new(self) -> Path:
        """Make another folder, which nobody else can read."""
        name = PREFIX + secrets.token_hex(6)
        folder = Path(tempfile.gettempdir(), name).absolute()
        self._register.mkdir(exist_ok=True)
        # First the link: whatever is killed in between, no folder is forgotten.
        (self._register / name).symlink_to(folder)
        folder.mkdir(mode=0o700)
        return folder

    def _clear(self) -> None:
        if not self._register.is_dir():
            return
        for link in self._register.iterdir():
            if link.is_symlink():
                folder = Path(os.readlink(link))
                if folder.name.startswith(PREFIX):
                    shutil.rmtree(folder, ignore_errors=True)
                link.unlink()
        with contextlib.suppress(OSError):  # somebody keeps files of their own in there
            self._register.rmdir()
