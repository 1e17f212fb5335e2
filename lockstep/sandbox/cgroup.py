"""Control groups as files: where this process's own are, and how files of theirs are read and written.

Sources: the kernel's admin-guide/cgroup-v2.rst and admin-guide/cgroup-v1/, and proc(5) for mountinfo.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from lockstep.sandbox.handle import end, handle

# How long what is left in a group may take to end after it was killed.
END_SECONDS = 5.0


class Unusable(Exception):
    """No run can be held by groups of this kind here; the message says why."""


@dataclass(frozen=True)
class Hierarchy:
    """One mounted tree of groups: its topmost folder that can be seen, and this process's own group in it."""

    top: Path
    own: Path

    def lineage(self) -> tuple[Path, ...]:
        """This process's own group and those around it, nearest first."""
        around = [self.own, *self.own.parents]
        return tuple(around[: around.index(self.top) + 1])


def own_hierarchies() -> dict[str, Hierarchy]:
    """This process's group per controller of v1, and under "" in the unified hierarchy of v2."""
    return hierarchies(Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text())


def hierarchies(groups: str, mounts: str) -> dict[str, Hierarchy]:
    """The same, from the texts of /proc/PID/cgroup and /proc/PID/mountinfo."""
    own: dict[str, str] = {}
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            own[controller] = path
    found: dict[str, Hierarchy] = {}
    for line in mounts.splitlines():
        here, _, there = line.partition(" - ")
        root, place = (_unescaped(word) for word in here.split()[3:5])
        kind, _, options = there.split(" ", 2)
        if kind not in ("cgroup", "cgroup2"):
            continue
        for controller in options.split(",") if kind == "cgroup" else [""]:
            # A container may show a part of the tree only, and that part need not be the one it is in.
            group = Path(own.get(controller, ""))
            if group.is_absolute() and ".." not in group.parts and group.is_relative_to(root):
                found[controller] = Hierarchy(Path(place), Path(place) / group.relative_to(root))
    return found


def around(controller: str) -> tuple[Path, ...]:
    """The groups of either version that this process is in, and that may limit it: a container is one."""
    found = (own_hierarchies().get(name) for name in ("", controller))
    return tuple(group for hierarchy in found if hierarchy for group in hierarchy.lineage())


def room_of(group: Path) -> int | None:
    """Bytes that a group of either version may still take, None where it has no limit.

    Files that were read count as used, and are dropped when there is need.
    """
    for most, used, dropped in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        limit, now = number(group / most), number(group / used)
        if limit is not None and now is not None:
            return max(0, limit - now + (field(group / "memory.stat", dropped) or 0))
    return None


def make(parent: Path, name: str) -> Path:
    """A new group. Raises OSError."""
    folder = parent / name
    os.mkdir(folder)
    return folder


def remove(folder: Path) -> None:
    """Remove a group; one that the kernel still holds, or that is gone, is left as it is."""
    with contextlib.suppress(OSError):
        os.rmdir(folder)


def write(path: Path, text: str) -> None:
    """Write to a file of a group; the kernel's refusal is an OSError, and so is a file it does not have."""
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def words(path: Path) -> list[str]:
    """The words of a file; none where it cannot be read."""
    try:
        return path.read_text().split()
    except OSError:
        return []


def number(path: Path) -> int | None:
    """The number that a file holds; None where it cannot be read or says "max"."""
    found = words(path)
    return int(found[0]) if found and found[0].isdigit() else None


def field(path: Path, name: str) -> int | None:
    """The number after a name, of a file that has one of each in a line."""
    found = words(path)
    return int(found[found.index(name) + 1]) if name in found else None


def new_name() -> str:
    """A name for a group of this process's; the numbers in it tell others when it can be removed."""
    return f"lockstep-{os.getpid()}-{numbering()}-{secrets.token_hex(4)}"


def numbering() -> str:
    """Which pid namespace this process is in: in another one the same number is another process."""
    return str(os.stat("/proc/self/ns/pid").st_ino)


def try_out(parent: Path, needed: tuple[str, ...]) -> None:
    """Make a group below this one, move a process into it, remove it. Raises OSError where that fails."""
    folder = parent / new_name()
    try:
        make(parent, folder.name)
        for name in needed:
            with open(folder / name, "r+"):
                pass
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as moved:
            try:
                write(folder / "cgroup.procs", str(moved.pid))
            finally:
                moved.kill()
    finally:
        remove(folder)


def end_all(folder: Path) -> None:
    """Kill what is left in a group, and wait until it has ended, for END_SECONDS at most."""
    deadline = time.monotonic() + END_SECONDS
    # Processes that cannot be seen from here are listed as 0.
    while (left := set(words(folder / "cgroup.procs")) - {"0"}) and time.monotonic() < deadline:
        for word in left:
            with contextlib.suppress(OSError), handle(int(word)) as process:
                end(process, deadline - time.monotonic())


def remove_forgotten(parent: Path) -> None:
    """Remove the groups of processes that are gone: of a lockstep that was killed before it could do so itself."""
    for folder in parent.glob(f"lockstep-*-{numbering()}-*"):
        owner = folder.name.split("-")[1]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            # The kernel refuses it while a process is left in the group.
            remove(folder)


def _unescaped(word: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), word)
