"""Where no control group can be had: the processes of a run are looked at, and counted up, from outside.

What no look would see is denied to a run beforehand: memory files and System V shared memory by seccomp, large
files by the size of its file systems. A look costs about 0.1 ms for each process (proc(5) has every file read here).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lockstep.sandbox import cgroup
from lockstep.sandbox.limits import MIB, Limits, Usage
from lockstep.sandbox.processes import members
from lockstep.verdict import GraderFault

NAME = "watched"
# Below this, or a sixteenth of all memory where that is less, the kernel is about to kill somebody.
FLOOR = 512 * MIB
# So often in a row there is too little memory before somebody is ended who does not seem to have it.
PATIENT_LOOKS = 5
# The exact count of shared memory takes tens of milliseconds a process: at most this share of the time goes there.
EXACT_SHARE = 0.05
# What is mapped where memory is shared and no file was named (proc(5)).
_SHARED = b" /dev/zero (deleted)"
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Tree:
    """The processes below one and itself: their number with all threads, bytes of memory, CPU seconds."""

    tasks: int
    memory: int
    cpu_seconds: float


class Watched:
    """One run, held to its limits by looking at it."""

    name = NAME

    def __init__(self) -> None:
        self._root: int | None = None
        self._limits = Limits()
        # What the run had when it was taken in, and so did not come by itself: one fork of the warm server.
        self._memory_before = 0
        self._cpu_before = 0.0
        self._available = 0
        self._around: tuple[Path, ...] = ()
        self._looks_without = 0
        self._peak = 0
        self._cpu_seconds = 0.0
        # The last exact count, beside what it was for the sum then, and when the next may be made.
        self._exact = self._sum = 0
        self._next_exact = 0.0

    def add(self, pid: int) -> None:
        """Look at this process, and whatever it forks from now on."""
        self._root = pid
        self._memory_before = own_memory(pid)
        self._cpu_before = look(pid, 0, 1).cpu_seconds

    def limit(self, limits: Limits) -> None:
        """Hold the processes to these limits from now on."""
        self._limits = limits
        _, total = available_memory([])
        # Version 1 gives a group without a limit more than any machine has.
        rooms = {group: cgroup.room_of(group) for group in cgroup.around("memory")}
        self._around = tuple(group for group, room in rooms.items() if room is not None and room < total)
        self._available, _ = available_memory(self._around)

    def usage(self) -> Usage:
        """What the run has used so far. Raises GraderFault when the machine runs out of memory, for another reason."""
        if self._root is None:
            return Usage(None, None, None)
        # Beyond the limit it does not matter how many there are, and to count a bomb takes long.
        tree = look(self._root, self._memory_before, 2 * self._limits.processes)
        memory = self._counted_once(tree.memory)
        self._peak = max(self._peak, memory)
        self._cpu_seconds = max(self._cpu_seconds, tree.cpu_seconds - self._cpu_before)
        exceeded = None
        if memory > self._limits.memory:
            exceeded = "memory"
        elif tree.tasks > self._limits.processes:
            exceeded = "processes"
        elif self._machine_is_full(memory):
            exceeded = "machine"
        return Usage(self._peak or None, self._cpu_seconds, exceeded)

    def close(self) -> None:
        """Nothing is left to be removed."""

    def _counted_once(self, memory: int) -> int:
        """The memory of the run; `memory` has it once for each process that shares it since a fork.

        That is enough until it is over the limit. An exact count then holds until the sum has moved by what was
        still free, or for a time.
        """
        limit = self._limits.memory
        if memory <= limit or self._root is None:
            return memory
        if abs(memory - self._sum) > limit - self._exact or time.monotonic() >= self._next_exact:
            started = time.monotonic()
            exact = exact_memory(self._root, limit + 1)
            if exact is None:
                return memory
            self._exact, self._sum = exact, memory
            ended = time.monotonic()
            self._next_exact = ended + (ended - started) / EXACT_SHARE
        return self._exact

    def _machine_is_full(self, memory: int) -> bool:
        """Whether this run is why there is no memory left."""
        available, total = available_memory(self._around)
        if available >= min(FLOOR, total // 16):
            self._looks_without = 0
            return False
        lost = self._available - available
        if memory >= max(lost // 2, self._limits.memory // 4):
            return True
        # It may be another run, which ends then, or the kernel's own memory for this one, which is in no process.
        self._looks_without += 1
        if lost > self._limits.memory and self._looks_without >= PATIENT_LOOKS:
            if self._root is not None and shared_mappings(self._root) >= lost // 2:
                return True
            raise GraderFault("the machine ran out of memory during a run that kept to its limit")
        return False


def look(pid: int, before: int, most: int) -> Tree:
    """Count up a process and those below it, until there are `most`; of each one's memory what it has over `before`."""
    tasks, memory, ticks = 0, 0, 0
    for member in members(pid):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{member}/stat").read_bytes().rpartition(b")")[2].split()
            # User and system time of its own, and of the children that it has waited for.
            ticks += sum(map(int, fields[11:15]))
            tasks += int(fields[17])
            memory += max(0, own_memory(member) - before)
        if tasks >= most:
            break
    return Tree(tasks, memory, ticks / _TICKS)


def own_memory(pid: int) -> int:
    """Bytes of a process's memory that no file is behind, those of them included that it shares since a fork.

    Not all that is resident: a fork starts without the pages of files, hundreds of megabytes for torch, and
    could then use as much again unnoticed.
    """
    return _sum_of_process(pid, "status", (b"RssAnon:", b"RssShmem:"))


def exact_memory(pid: int, enough: int) -> int | None:
    """Bytes of memory of a process and those below it, each byte once, until there are `enough`.

    What a process shares with the warm server is taken to be as much as the first one, the supervisor, has.
    None where the kernel does not tell us.
    """
    try:
        shared = _proportional(pid)
    except OSError:
        return None
    total = 0
    for member in members(pid):
        with contextlib.suppress(OSError):
            total += max(0, _proportional(member) - shared)
        if total >= enough:
            break
    return total


def shared_mappings(pid: int) -> int:
    """Bytes of the memory that a process and those below it have mapped as shared, each byte once.

    A page of it that was written stays when nobody has it in his page table any more, and then no process has it.
    """
    sizes: dict[bytes, int] = {}
    for member in members(pid):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{member}/maps").read_bytes().split(b"\n"):
                if line.endswith(_SHARED):
                    span, _, _, _, inode, *_ = line.split()
                    start, end = (int(word, 16) for word in span.split(b"-"))
                    sizes[inode] = max(sizes.get(inode, 0), end - start)
    return sum(sizes.values())


def available_memory(groups: Iterable[Path]) -> tuple[int, int]:
    """Bytes of memory that this machine can still give to who is in these groups, and that it has."""
    path = "/proc/meminfo"
    rooms = [room for group in groups if (room := cgroup.room_of(group)) is not None]
    return min([_sum_of(path, (b"MemAvailable:",)), *rooms]), _sum_of(path, (b"MemTotal:",))


def _proportional(pid: int) -> int:
    return _sum_of_process(pid, "smaps_rollup", (b"Pss_Anon:", b"Pss_Shmem:"))


def _sum_of_process(pid: int, file: str, names: tuple[bytes, ...]) -> int:
    """The same of a file in /proc/PID, of any thread that has memory: the first may have ended. Raises OSError."""
    with contextlib.suppress(ProcessLookupError):
        if total := _sum_of(f"/proc/{pid}/{file}", names):
            return total
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError):
            if total := _sum_of(f"/proc/{pid}/task/{thread}/{file}", names):
                return total
    return 0


def _sum_of(path: str, names: tuple[bytes, ...]) -> int:
    """The sum in bytes of lines of a file that gives kilobytes by name. Raises OSError."""
    total = 0
    # As bytes: a process names itself, not always in UTF-8.
    for line in Path(path).read_bytes().split(b"\n"):
        if line.startswith(names):
            total += int(line.split()[1]) << 10
    return total
