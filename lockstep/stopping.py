"""What `kill`, and a terminal that is closed, mean: the same as Ctrl-C, so that all that was started ends first."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

ENDING = (signal.SIGTERM, signal.SIGHUP)
"""Signals that would end Python there and then: no `finally` is reached, and control groups are left behind."""


@contextlib.contextmanager
def like_ctrl_c() -> Iterator[None]:
    """The first of these signals raises KeyboardInterrupt, others that follow it do nothing.

    A signal that somebody else deals with, or that `nohup` has ignored, stays theirs.
    """
    if threading.current_thread() is not threading.main_thread():  # only that one may say what signals do
        yield
        return
    ours = [number for number in ENDING if signal.getsignal(number) is signal.SIG_DFL]
    try:
        for number in ours:
            signal.signal(number, _interrupt)
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def end_with(main: Callable[[], int], stopped: str) -> NoReturn:
    """Run a command and end this process with its status: 130, and the words `stopped`, where somebody stopped it."""
    try:
        with like_ctrl_c():
            sys.exit(main())
    except KeyboardInterrupt:
        print(stopped, file=sys.stderr)
        sys.exit(130)


def _interrupt(number: int, frame: FrameType | None) -> None:
    for each in ENDING:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt
