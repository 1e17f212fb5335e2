"""The processes of one run as its first process sees them: who lives, how they stand, how to end them."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator

# Processes that are given time to end before what is left is counted; a fork bomb's thousands are not.
PATIENT_WITH = 64


def reap() -> Iterator[tuple[int, int]]:
    """Children of this process that have ended: pid, and exit code or minus the signal's number."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, os.waitstatus_to_exitcode(status)


def state(pid: int | str) -> str:
    """The kernel's letter for what a process does: R, S, T (stopped), Z; X when it is gone."""
    return next(iter(stat(pid)), "X")


def is_alive(pid: int) -> bool:
    """Whether any thread of a process lives; once its first has ended, the process looks like a zombie."""
    if state(pid) not in "ZX":
        return True
    with contextlib.suppress(OSError):
        return any(state(f"{pid}/task/{thread}") not in "ZX" for thread in os.listdir(f"/proc/{pid}/task"))
    return False


def stat(pid: int | str) -> list[str]:
    """What /proc/PID/stat says behind the name of a process or thread, from its state on; nothing when it is gone."""
    try:
        # A process names itself, and not always in UTF-8.
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def has_yet_to_handle(pid: int, number: int) -> bool:
    """Whether a signal still waits for the first thread of a process, or that thread is in its handler.

    False for a process that is stopped or gone. A thread that blocks the signal itself has yet to handle it.
    """
    if state(pid) in "TZX":
        return False
    with (
        contextlib.suppress(OSError),
        open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file,
    ):
        fields = dict(line.split(":", 1) for line in file if ":" in line)
        # While a handler runs its signal is blocked (sigaction(2)). Masks are hexadecimal, the lowest bit is signal 1.
        masks = (int(fields[name], 16) for name in ("SigPnd", "ShdPnd", "SigBlk"))
        return any(mask >> (number - 1) & 1 for mask in masks)
    return False


def others_left(ranks: set[int], patience: float) -> int:
    """Live processes of this pid namespace other than this one and the ranks themselves.

    Those that are about to end may do so first: on a busy machine that takes a moment, at most `patience` seconds.
    """
    deadline = time.monotonic() + patience
    others = _others_alive(ranks)
    if not others:
        return 0
    for pid in sorted(others)[:PATIENT_WITH]:
        with contextlib.suppress(OSError):
            pidfd = os.pidfd_open(pid)
            try:
                select.select([pidfd], [], [], max(0.0, deadline - time.monotonic()))
            finally:
                os.close(pidfd)
    return len(_others_alive(ranks))


def _others_alive(ranks: set[int]) -> set[int]:
    others = {int(name) for name in os.listdir("/proc") if name.isdigit()} - ranks - {os.getpid()}
    return {pid for pid in others if is_alive(pid)}


def end_descendants() -> None:
    """Without a pid namespace: end every descendant, also those that made themselves daemons."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        _, *left = members(os.getpid())
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for _ in reap():
            pass
        select.select([], [], [], 0.002)


def members(pid: int) -> Iterator[int]:
    """A process and those below it, while they are there."""
    waiting = [pid]
    while waiting:
        member = waiting.pop()
        yield member
        with contextlib.suppress(OSError):
            # A process started by a thread is that thread's child until it ends.
            for thread in os.listdir(f"/proc/{member}/task"):
                with open(f"/proc/{member}/task/{thread}/children") as file:
                    waiting += map(int, file.read().split())
