"""What is left of a box that ended while it was starting, and the control groups of a lockstep that was killed.

Nearly always the kernel ends a box with its lockstep. But bubblewrap's second process asks for that only when its first
has told it to go on, and one that is never told waits for ever, with the box's sockets open. So what starts a box
carries a mark that says whose it is and which; nothing in the box does, as bubblewrap clears the environment of what it
starts. A box that is closed early looks for its own, and a lockstep that begins for those of the dead.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping

from lockstep.sandbox import backend, processes
from lockstep.sandbox.cgroup import END_SECONDS
from lockstep.sandbox.handle import end, handle

OWNER, BOX = "LOCKSTEP_OWNER", "LOCKSTEP_BOX"
MOST_BYTES = 256 << 10
"""Read of an environment. A process may say that gigabytes of nothing are its own, and any of a student's may be it."""


def mark(box: str) -> dict[str, str]:
    """For the environment of a command that starts the box of this name: this process is its owner."""
    pid = int(os.readlink("/proc/self"))  # as those who will look there number it
    return {OWNER: f"{_numbering()} {pid} {_begun(pid)}", BOX: box}


def remove() -> None:
    """End the processes whose owner is gone, and remove the control groups of those that are."""
    numbering = _numbering()
    _end(lambda marks: _is_forgotten(marks.get(OWNER, ""), numbering))
    backend.remove_forgotten_groups()


def remove_box(box: str) -> None:
    """End what still starts the box of this name, whose first process has ended."""
    _end(lambda marks: marks.get(BOX) == box)


def _end(is_meant: Callable[[Mapping[str, str]], bool]) -> None:
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with contextlib.suppress(OSError), handle(pid) as process:
            if is_meant(_marks_of(pid)):
                end(process, END_SECONDS)


def _marks_of(pid: int) -> dict[str, str]:
    """The marks of a process, as a rule none. Raises OSError when it is gone, or somebody else's."""
    found: dict[str, str] = {}
    with open(f"/proc/{pid}/environ", "rb") as file:
        for entry in file.read(MOST_BYTES).split(b"\0"):
            name, _, value = entry.partition(b"=")
            if name in (OWNER.encode(), BOX.encode()):
                found[name.decode()] = value.decode("ascii", "replace")
    return found


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
