"""Control groups of version 1: a run has one in each of the trees for memory, processes and CPU time."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from lockstep.sandbox import cgroup
from lockstep.sandbox.cgroup import Hierarchy, Unusable
from lockstep.sandbox.limits import Limits, Usage
from lockstep.verdict import GraderFault

NAME = "cgroup v1"
NEEDED = {"memory": "memory.limit_in_bytes", "pids": "pids.max"}


@dataclass(frozen=True)
class Parent:
    """The groups below which runs get theirs; `cpu` is None where CPU time is not counted by groups."""

    memory: Path
    pids: Path
    cpu: Path | None
    name: ClassVar[str] = NAME

    def open(self, name: str) -> Group:
        """A new group without limits. Raises OSError."""
        with contextlib.ExitStack() as undo:
            made: dict[str, Path] = {}
            for key, parent in (("memory", self.memory), ("pids", self.pids), ("cpu", self.cpu)):
                if parent is not None:
                    made[key] = cgroup.make(parent, name)
                    undo.callback(cgroup.remove, made[key])
            undo.pop_all()
        return Group(made["memory"], made["pids"], made.get("cpu"))

    def folders(self) -> set[Path]:
        """Where the groups of runs are."""
        return {folder for folder in (self.memory, self.pids, self.cpu) if folder is not None}

    def __str__(self) -> str:
        return f"{self.memory} and {self.pids}"


def find(hierarchies: Mapping[str, Hierarchy]) -> Parent:
    """Where runs can get their groups. Raises Unusable."""
    for controller, file in NEEDED.items():
        if controller not in hierarchies:
            raise Unusable(f"no tree of the controller `{controller}` is mounted")
        own = hierarchies[controller].own
        try:
            cgroup.try_out(own, (file,))
        except OSError as error:
            raise Unusable(f"no group can be made and used below {own}: {error.strerror}") from None
    cpu: Path | None = None
    if "cpuacct" in hierarchies:
        with contextlib.suppress(OSError):
            cgroup.try_out(hierarchies["cpuacct"].own, ("cpuacct.usage",))
            cpu = hierarchies["cpuacct"].own
    return Parent(hierarchies["memory"].own, hierarchies["pids"].own, cpu)


class Group:
    """The groups of one run."""

    name = NAME

    def __init__(self, memory: Path, pids: Path, cpu: Path | None) -> None:
        self._memory, self._pids, self._cpu = memory, pids, cpu
        # Controllers that are mounted together have one folder.
        self._folders = {folder for folder in (memory, pids, cpu) if folder is not None}

    def add(self, pid: int) -> None:
        """Move a process, and whatever it forks from now on, into the group. Raises OSError."""
        for folder in self._folders:
            cgroup.write(folder / "cgroup.procs", str(pid))

    def limit(self, limits: Limits) -> None:
        """Hold the processes of the group to these limits from now on. Raises OSError."""
        cgroup.write(self._memory / "memory.limit_in_bytes", str(limits.memory))
        # Memory and swap together; there is no such file where swap is not counted.
        with contextlib.suppress(OSError):
            cgroup.write(self._memory / "memory.memsw.limit_in_bytes", str(limits.memory))
        cgroup.write(self._pids / "pids.max", str(limits.processes))

    def usage(self) -> Usage:
        """What the processes of the group have used so far. Raises GraderFault when the machine ran out of memory."""
        peak = cgroup.number(self._memory / "memory.max_usage_in_bytes")
        nanos = None if self._cpu is None else cgroup.number(self._cpu / "cpuacct.usage")
        exceeded = "processes" if cgroup.field(self._pids / "pids.events", "max") else None
        if cgroup.field(self._memory / "memory.oom_control", "oom_kill"):
            # The kernel counts whom it kills, whether this group was full or the whole machine.
            if not self._was_full(peak):
                raise GraderFault("the machine ran out of memory during a run that kept to its limit")
            exceeded = "memory"
        return Usage(peak, None if nanos is None else nanos / 1e9, exceeded)

    def _was_full(self, peak: int | None) -> bool:
        """Whether the group ever had nearly all that it may; how often it was refused more, not every kernel counts."""
        limit = cgroup.number(self._memory / "memory.limit_in_bytes") or 0
        with_swap = cgroup.number(self._memory / "memory.memsw.max_usage_in_bytes")
        return max(peak or 0, with_swap or 0) >= limit * 15 // 16

    def close(self) -> None:
        """Remove the group, and end what is left in it."""
        cgroup.end_all(self._pids)
        for folder in self._folders:
            cgroup.remove(folder)
