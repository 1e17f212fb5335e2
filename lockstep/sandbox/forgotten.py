"""What a lockstep that was killed could not put away itself: processes of its boxes, then their control groups.

Nearly always the kernel ends a box with its lockstep. But bubblewrap's second process asks for that only when its first
has told it to go on, and one that is never told waits for ever. So what starts a box carries a mark that says whose it
is; nothing in the box does, as bubblewrap clears the environment of what it starts.
"""

from __future__ import annotations

import contextlib
import os

from lockstep.sandbox import backend, processes
from lockstep.sandbox.cgroup import END_SECONDS
from lockstep.sandbox.handle import end, handle

MARK = "LOCKSTEP_OWNER"


def mark() -> dict[str, str]:
    """For the environment of a command that starts a box: this process is its owner."""
    pid = int(os.readlink("/proc/self"))  # as those who will look there number it
    return {MARK: f"{_numbering()} {pid} {_begun(pid)}"}


def remove() -> None:
    """End the processes whose owner is gone, and remove the control groups of those that are."""
    numbering = _numbering()
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with contextlib.suppress(OSError), handle(pid) as process:
            if _is_forgotten(_mark_of(pid), numbering):
                end(process, END_SECONDS)
    backend.remove_forgotten_groups()


def _mark_of(pid: int) -> str:
    """The mark of a process; empty where it has none. Raises OSError when it is gone, or somebody else's."""
    with open(f"/proc/{pid}/environ", "rb") as file:
        for entry in file.read().split(b"\0"):
            name, _, value = entry.partition(b"=")
            if name == MARK.encode():
                return value.decode("ascii", "replace")
    return ""


def _is_forgotten(owner: str, numbering: str) -> bool:
    theirs, _, process = owner.partition(" ")
    pid, _, begun = process.partition(" ")
    # In another pid namespace, as in a container of this machine, the same number is another process.
    return theirs == numbering and pid.isdigit() and begun != _begun(int(pid))


def _numbering() -> str:
    """Which pid namespace this process is in."""
    return os.readlink("/proc/self/ns/pid")


def _begun(pid: int) -> str:
    """When a process began, in ticks since the machine did; empty when it has ended.

    Two processes that have one number, one after the other, differ in it.
    """
    fields = processes.stat(pid)
    # An ended process is listed until its parent asks for it, which the first process of a container may never do.
    return "" if not fields or fields[0] in "ZX" else fields[19]
