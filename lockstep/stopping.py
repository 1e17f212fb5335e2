"""What `kill`, and a terminal that is closed, mean: the same as Ctrl-C, so that all that was started ends first."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

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


def _interrupt(number: int, frame: FrameType | None) -> None:
    for each in ENDING:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt
