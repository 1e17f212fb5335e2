"""Folders that only the student's own machine has: who enters or makes one stays where the files are.

`os.chdir('/content/drive/MyDrive/hw2')` at the top of a notebook of Colab is right there, and here the files lie
beside it anyway. Whoever asks whether there is such a folder, by `try` or `with`, is told as Python does: there is not.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from lockstep.sandbox import missing

# Colab, Kaggle, Databricks, Studio Lab, Lightning's and others' studios; folders at home.
_ELSEWHERE = re.compile(
    r"/(?:content|kaggle|databricks|dbfs|Workspace|workspace|notebooks|teamspace|home|Users|root|mnt|gdrive)(?:/|$)"
    r"|[A-Za-z]:[\\/]"
)


def install(work: str, note: Callable[..., None]) -> None:
    """From now on files below `work` may enter and make such folders; each line that does is noted."""
    for name in ("chdir", "mkdir"):
        setattr(os, name, _staying(getattr(os, name), work, note))


def _staying(original: Callable[..., None], work: str, note: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def stay(path: Any, *args: Any, **kwargs: Any) -> None:
        try:
            original(path, *args, **kwargs)
        except FileExistsError:
            raise
        except OSError:
            place = _asked_by(sys._getframe(1), work)
            if not isinstance(path, str | os.PathLike) or place is None:
                raise
            if not _ELSEWHERE.match(str(os.fspath(path))) or missing.is_guarded(*place, work):
                raise
            note("elsewhere", file=place[0], line=place[1])

    return stay


def _asked_by(frame: FrameType | None, work: str) -> tuple[str, int] | None:
    """The file and line of the student's that called this, by itself or through Python's own modules."""
    while frame is not None:
        if (place := missing.place(frame, work)) is not None:
            return place
        frame = frame.f_back
    return None
