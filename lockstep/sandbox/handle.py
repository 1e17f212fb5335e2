"""Handles of processes: they go on meaning the process that they were made for, when its number is another's."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def handle(pid: int) -> Iterator[int]:
    """A handle of a process. Raises OSError when it is gone."""
    found = os.pidfd_open(pid)
    try:
        yield found
    finally:
        os.close(found)


def end(process: int, seconds: float) -> None:
    """Kill the process of a handle, and wait until it has ended, for so long at most. Raises OSError."""
    signal.pidfd_send_signal(process, signal.SIGKILL)
    select.select([process], [], [], max(0.0, seconds))
