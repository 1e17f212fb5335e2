"""Control groups of version 2: where root or a delegation lets runs have one, and what its files say."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from lockstep.sandbox import cgroup, processes
from lockstep.sandbox.cgroup import Hierarchy, Unusable
from lockstep.sandbox.limits import Limits, Usage
from lockstep.verdict import GraderFault

NAME = "cgroup v2"
CONTROLLERS = frozenset({"memory", "pids"})
# Where a group's own processes go so that others can be limited below it; not named like the groups of runs.
LEAF = "lockstep.leaf"


@dataclass(frozen=True)
class Parent:
    """The group below which runs get theirs."""

    folder: Path
    name: ClassVar[str] = NAME

    def open(self, name: str) -> Group:
        """A new group without limits. Raises OSError."""
        return Group(cgroup.make(self.folder, name))

    def folders(self) -> set[Path]:
        """Where the groups of runs are."""
        return {self.folder}

    def __str__(self) -> str:
        return str(self.folder)


def find(hierarchy: Hierarchy) -> Parent:
    """Where runs can get their groups. Raises Unusable.

    A group that gives out memory or processes may not hold processes itself, the topmost one excepted. So the
    group that this process is in seldom serves, and one around it does: in a systemd user's session, its slice.
    Only where none does, and this process is alone in its group with its relatives, as in a container or under
    `systemd-run --user --scope -p Delegate=yes`, do they move to a leaf of it.
    """
    refused: list[str] = []
    attempts: tuple[tuple[Callable[[Path], None], tuple[Path, ...]], ...] = (
        (_check, hierarchy.lineage()),
        (_enable, hierarchy.lineage()),
        (_vacate, (hierarchy.own,)),
    )
    for make_ready, groups in attempts:
        for group in groups:
            try:
                make_ready(group)
                cgroup.try_out(group, ("memory.max", "pids.max"))
            except OSError as error:
                refused.append(f"{group}: {error.strerror}")
            except Unusable as reason:
                refused.append(f"{group}: {reason}")
            else:
                return Parent(group)
    raise Unusable(_most_telling(refused, hierarchy.own))


def _most_telling(refused: list[str], own: Path) -> str:
    """What was refused last to the group nearest to this process: what would have to be otherwise."""
    return [reason for reason in refused if reason.startswith(f"{own}: ")][-1]


def _check(group: Path) -> None:
    missing = CONTROLLERS - set(cgroup.words(group / "cgroup.subtree_control"))
    if missing:
        raise Unusable(f"it does not give out the control of {' and '.join(sorted(missing))}")


def _enable(group: Path) -> None:
    _check_given(group)
    cgroup.write(group / "cgroup.subtree_control", " ".join(f"+{name}" for name in sorted(CONTROLLERS)))


def _check_given(group: Path) -> None:
    missing = CONTROLLERS - set(cgroup.words(group / "cgroup.controllers"))
    if missing:
        raise Unusable(f"it was not given the control of {' and '.join(sorted(missing))}")


def _vacate(group: Path) -> None:
    """Move this process and its relatives, who must be all that is in the group, to a leaf of it."""
    _check_given(group)
    members = {int(word) for word in cgroup.words(group / "cgroup.procs")}
    strangers = members - _relatives(os.getpid(), members)
    if strangers:
        raise Unusable(f"it holds {len(strangers)} processes that are not lockstep's to move")
    leaf = group / LEAF
    with contextlib.suppress(FileExistsError):
        cgroup.make(group, LEAF)
    for pid in members:
        with contextlib.suppress(ProcessLookupError):
            cgroup.write(leaf / "cgroup.procs", str(pid))
    _enable(group)


def _relatives(pid: int, group: set[int]) -> set[int]:
    """The eldest of those in the group that a process descends from, and all who descend from that one."""
    eldest = pid
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
        eldest = pid if pid in group else eldest
    return set(processes.members(eldest))


class Group:
    """The group of one run."""

    name = NAME

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._peak: int | None = None

    def add(self, pid: int) -> None:
        """Move a process, and whatever it forks from now on, into the group. Raises OSError."""
        cgroup.write(self._folder / "cgroup.procs", str(pid))

    def limit(self, limits: Limits) -> None:
        """Hold the processes of the group to these limits from now on. Raises OSError."""
        cgroup.write(self._folder / "memory.max", str(limits.memory))
        cgroup.write(self._folder / "pids.max", str(limits.processes))
        # A run out of memory is over: no half of it shall go on, or be found hanging. The kernel has not always
        # had this file, nor the other where swap is not counted.
        for name, value in (("memory.oom.group", 1), ("memory.swap.max", 0)):
            with contextlib.suppress(OSError):
                cgroup.write(self._folder / name, str(value))

    def usage(self) -> Usage:
        """What the processes of the group have used so far. Raises GraderFault when the machine ran out of memory."""
        peak = cgroup.number(self._folder / "memory.peak")
        if peak is None:  # Linux before 5.19
            now = cgroup.number(self._folder / "memory.current")
            self._peak = peak = now if self._peak is None else max(self._peak, now or 0)
        micros = cgroup.field(self._folder / "cpu.stat", "usage_usec")
        exceeded = "processes" if cgroup.field(self._folder / "pids.events", "max") else None
        events = self._folder / "memory.events"
        if cgroup.field(events, "oom_kill"):
            # The kernel counts whom it kills, whether this group was full or one around it or the whole machine.
            if not cgroup.field(events, "oom"):
                raise GraderFault("the machine ran out of memory during a run that kept to its limit")
            exceeded = "memory"
        return Usage(peak, None if micros is None else micros / 1e6, exceeded)

    def close(self) -> None:
        """Remove the group, and end what is left in it."""
        if cgroup.words(self._folder / "cgroup.procs"):
            # All at once, so that nothing forks away; Linux before 5.14 cannot.
            with contextlib.suppress(OSError):
                cgroup.write(self._folder / "cgroup.kill", "1")
            cgroup.end_all(self._folder)
        cgroup.remove(self._folder)
