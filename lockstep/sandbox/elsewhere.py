"""Folders that only the student's own machine has: who enters or makes one stays where the files are.

`os.chdir('/content/drive/MyDrive/hw2')` at the top of a notebook of Colab is right there, and here the files lie
beside it anyway. Whoever asks whether there is such a folder, by `try` or `with`, is told as Python does: there is not.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
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
            if not isinstance(path, str | os.PathLike) or not _ELSEWHERE.match(str(os.fspath(path))):
                raise
            places = list(_places(sys._getframe(1), work))
            if not places or _is_asked(places, work):
                raise
            file, line = places[0]
            note("elsewhere", file=file, line=line)

    return stay


def _places(frame: FrameType | None, work: str) -> Iterator[tuple[str, int]]:
    """Files and lines of the student's that called this, by themselves or through Python's own modules."""
    while frame is not None:
        if (place := missing.place(frame, work)) is not None:
            yield place
        frame = frame.f_back


def _is_asked(places: Sequence[tuple[str, int]], work: str) -> bool:
    """Whether it is asked for a folder in the first of these places, which the others have called."""
    nearest, *callers = places
    # Around a whole program stands `except Exception` as well, which prints what was raised, and a `with` of some kind.
    return missing.is_guarded(*nearest, work) or any(
        missing.is_guarded(*caller, work, by_name=OSError) for caller in dict.fromkeys(callers)
    )
