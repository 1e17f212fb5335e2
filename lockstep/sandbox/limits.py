"""What one run may use, and the control group that holds it to that where this machine lends one."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

GIB = 1 << 30
MIB = 1 << 20
_numbers = itertools.count()


@dataclass(frozen=True)
class Limits:
    """Limits of one run: seconds of wall time; bytes; counts. Each trips with a verdict of its own."""

    seconds: float = 10.0
    memory: int = 4 * GIB
    # Per process. Torch's wheel alone maps 3.4 GiB, so this cannot be tight.
    address_space: int = 12 * GIB
    processes: int = 256
    open_files: int = 1024
    disk: int = 64 * MIB
    shared_memory: int = 256 * MIB
    output: int = 8 * MIB

    def for_inside(self) -> dict[str, int]:
        """The limits that are set from within the sandbox."""
        return {
            "address_space": self.address_space,
            "processes": self.processes,
            "open_files": self.open_files,
            "disk": self.disk,
            "shared_memory": self.shared_memory,
        }


@dataclass(frozen=True)
class Usage:
    """What a run used: peak bytes of memory, CPU seconds, and the limit that it hit, if any."""

    peak_memory: int | None
    cpu_seconds: float | None
    exceeded: str | None


class Cgroup:
    """A control group of one run: v2 where it is delegated, otherwise v1's memory, pids and cpuacct."""

    def __init__(self, folders: Mapping[str, Path], unified: bool) -> None:
        self._folders = folders
        self._unified = unified

    def add(self, pid: int) -> None:
        """Move a process, and whatever it forks from now on, into the group."""
        for folder in set(self._folders.values()):
            (folder / "cgroup.procs").write_text(str(pid))

    def limit(self, limits: Limits) -> None:
        """Hold the processes of the group to these limits from now on."""
        memory, pids = self._folders["memory"], self._folders["pids"]
        _write(memory / ("memory.max" if self._unified else "memory.limit_in_bytes"), limits.memory)
        if self._unified:
            _write(memory / "memory.swap.max", 0)
        _write(pids / "pids.max", limits.processes)

    def usage(self) -> Usage:
        """What the processes of the group have used so far."""
        memory, pids, cpu = (self._folders[name] for name in ("memory", "pids", "cpu"))
        if self._unified:
            peak = _number(memory / "memory.peak")
            killed = _field(memory / "memory.events", "oom_kill")
            micros = _field(cpu / "cpu.stat", "usage_usec")
            seconds = None if micros is None else micros / 1e6
        else:
            peak = _number(memory / "memory.max_usage_in_bytes")
            killed = _field(memory / "memory.oom_control", "oom_kill")
            nanos = _number(cpu / "cpuacct.usage")
            seconds = None if nanos is None else nanos / 1e9
        refused = _field(pids / "pids.events", "max")
        exceeded = "memory" if killed else "processes" if refused else None
        return Usage(peak, seconds, exceeded)

    def close(self) -> None:
        """Remove the group; its processes have ended."""
        for folder in set(self._folders.values()):
            with contextlib.suppress(OSError):
                folder.rmdir()


def open_cgroup() -> Cgroup | None:
    """A new group without limits, or None where this machine lends none to this user."""
    name = f"lockstep-{os.getpid()}-{next(_numbers)}"
    parents = _own_groups()
    unified = parents.get("")
    if unified is not None and {"memory", "pids"} <= set(_words(unified / "cgroup.subtree_control")):
        folder = _make(unified, name)
        if folder is not None:
            return Cgroup({"memory": folder, "pids": folder, "cpu": folder}, unified=True)
    made: dict[str, Path] = {}
    for key, controller in (("memory", "memory"), ("pids", "pids"), ("cpu", "cpuacct")):
        parent = parents.get(controller)
        made_here = None if parent is None else _make(parent, name)
        if made_here is None:
            for folder in made.values():
                folder.rmdir()
            return None
        made[key] = made_here
    return Cgroup(made, unified=False)


def remove_forgotten_groups() -> None:
    """Remove the groups of processes that are gone: of a lockstep that was killed before it could do so itself."""
    for parent in set(_own_groups().values()):
        for folder in parent.glob("lockstep-*-*"):
            owner = folder.name.split("-")[1]
            if owner.isdigit() and not Path(f"/proc/{owner}").exists():
                # The kernel refuses it while a process is left in the group.
                with contextlib.suppress(OSError):
                    folder.rmdir()


def _own_groups() -> dict[str, Path]:
    """This process's group folder per v1 controller, and under "" for the unified hierarchy."""
    own: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            own[controller] = path.lstrip("/")
    groups: dict[str, Path] = {}
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, kind, options = line.split()[:4]
        if kind == "cgroup2" and "" in own:
            groups[""] = Path(place) / own[""]
        elif kind == "cgroup":
            for controller in options.split(","):
                if controller in own:
                    groups[controller] = Path(place) / own[controller]
    return groups


def _make(parent: Path, name: str) -> Path | None:
    folder = parent / name
    try:
        folder.mkdir()
        with open(folder / "cgroup.procs", "a"):
            return folder
    except OSError:
        with contextlib.suppress(OSError):
            folder.rmdir()
        return None


def _write(path: Path, value: int) -> None:
    with contextlib.suppress(OSError):
        path.write_text(str(value))


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _number(path: Path) -> int | None:
    words = _words(path)
    return int(words[0]) if words and words[0].isdigit() else None


def _field(path: Path, name: str) -> int | None:
    words = _words(path)
    return int(words[words.index(name) + 1]) if name in words else None


def own_memory(pid: int) -> int:
    """Bytes of a process's memory that no file is behind, those of them included that it shares since a fork.

    Not all that is resident: a fork starts without the pages of files, hundreds of megabytes for torch, and
    could then use as much again unnoticed.
    """
    total = 0
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/status").read_text("utf-8", "replace").splitlines():
            if line.startswith(("RssAnon:", "RssShmem:")):
                total += int(line.split()[1]) << 10
    return total


def tree_memory(pid: int, baseline: int) -> int:
    """Memory of a process tree beyond what each member took over from the warm server; for no-cgroup hosts."""
    total = max(0, own_memory(pid) - baseline)
    with contextlib.suppress(OSError, ValueError):
        # A process started by a thread is that thread's child until it ends.
        for thread in os.listdir(f"/proc/{pid}/task"):
            for child in Path(f"/proc/{pid}/task/{thread}/children").read_text().split():
                total += tree_memory(int(child), baseline)
    return total
