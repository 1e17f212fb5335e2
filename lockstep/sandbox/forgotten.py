"""What a lockstep that was killed could not put away itself: processes of its boxes, then their control groups.

Nearly always the kernel ends a box with its lockstep. But bubblewrap's second process asks for that only when its first
has told it to go on, and one that is never told waits for ever. So what starts a box carries a mark that says whose it
is; nothing in the box does, as bubblewrap clears the environment of what it starts.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Iterator

from lockstep.sandbox import backend

MARK = "LOCKSTEP_OWNER"
# How long a process may take to be gone after it was killed.
END_SECONDS = 5.0


def mark() -> dict[str, str]:
    """For the environment of a command that starts a box: this process is its owner."""
    pid = os.readlink("/proc/self")  # as those who will look there number it
    return {MARK: f"{_numbering()} {pid} {_begun(pid)}"}


def remove() -> None:
    """End the processes whose owner is gone, and remove the control groups of those that are."""
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            with contextlib.suppress(OSError), _handle(int(pid)) as handle:
                if _is_forgotten(_mark_of(pid)):
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                    select.select([handle], [], [], END_SECONDS)
    backend.remove_forgotten_groups()


def _mark_of(pid: str) -> str:
    """The mark of a process; empty where it has none. Raises OSError when it is gone, or somebody else's."""
    with open(f"/proc/{pid}/environ", "rb") as file:
        for entry in file.read().split(b"\0"):
            name, _, value = entry.partition(b"=")
            if name == MARK.encode():
                return value.decode("ascii", "replace")
    return ""


def _is_forgotten(owner: str) -> bool:
    numbering, _, process = owner.partition(" ")
    pid, _, begun = process.partition(" ")
    # In another pid namespace, as in a container of this machine, the same number is another process.
    return numbering == _numbering() and pid.isdigit() and begun != _begun(pid)


def _numbering() -> str:
    """Which pid namespace this process is in."""
    return os.readlink("/proc/self/ns/pid")


def _begun(pid: str) -> str:
    """When a process began, in ticks since the machine did; empty when it has ended.

    Two processes that have one number, one after the other, differ in it.
    """
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            state, *fields = file.read().rpartition(")")[2].split()
    except OSError:
        return ""
    # An ended process is listed until its parent asks for it, which the first process of a container may never do.
    return "" if state in "ZX" else fields[18]


@contextlib.contextmanager
def _handle(pid: int) -> Iterator[int]:
    """A handle that goes on meaning this process. Raises OSError when it is gone."""
    handle = os.pidfd_open(pid)
    try:
        yield handle
    finally:
        os.close(handle)
