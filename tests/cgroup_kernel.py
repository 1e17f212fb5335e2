"""Control groups of version 2 as the kernel shows them, simulated in a folder: who may do what, and what it says then.

Rules from the kernel's admin-guide/cgroup-v2.rst: controllers are given from the top down; a group that gives them
on holds no processes, the real root excepted; who moves a process must be allowed to write where both groups meet.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from lockstep.sandbox import cgroup

FILES = {
    "memory": {
        "memory.max": "max",
        "memory.swap.max": "max",
        "memory.oom.group": "0",
        "memory.current": "0",
        "memory.peak": "0",
        "memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n",
    },
    "pids": {"pids.max": "max", "pids.current": "0", "pids.events": "max 0\n"},
}


class Kernel:
    """The groups below a folder. `closed` are those that this user may not write to; `real_root` is the host's own."""

    def __init__(self, top: Path, *, real_root: bool, missing: Iterable[str] = ()) -> None:
        self.top = top
        self.real_root = real_root
        self.closed: set[Path] = set()
        self._missing = set(missing)
        self._own = top
        self._populate(top, "memory pids cpu io")

    def group(self, name: str, *, given: str = "", closed: bool = False) -> Path:
        """A group that is there already, below the topmost; it gives on the controllers `given`."""
        folder = self.top / name
        folder.mkdir()
        self._populate(folder, self._said(folder.parent / "cgroup.subtree_control"))
        (folder / "cgroup.subtree_control").write_text(given)
        if closed:
            self.closed.add(folder)
        return folder

    def live_in(self, folder: Path, *others: int) -> None:
        """Put this process there, and others."""
        self._own = folder
        (folder / "cgroup.procs").write_text("\n".join(map(str, (os.getpid(), *others))))

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have lockstep speak to this kernel."""
        for name in ("make", "remove", "write"):
            monkeypatch.setattr(cgroup, name, getattr(self, name))

    def hierarchy(self) -> cgroup.Hierarchy:
        """What lockstep would find in /proc/self."""
        return cgroup.Hierarchy(self.top, self._own)

    def make(self, parent: Path, name: str) -> Path:
        """mkdir(2)."""
        self._check_open(parent)
        folder = parent / name
        os.mkdir(folder)
        self._populate(folder, self._said(parent / "cgroup.subtree_control"))
        return folder

    def remove(self, folder: Path) -> None:
        """rmdir(2), whose refusal lockstep does not mind."""
        members = self._said(folder / "cgroup.procs").split()
        if not any(Path("/proc", pid).exists() for pid in members):
            shutil.rmtree(folder)

    def write(self, path: Path, text: str) -> None:
        """write(2) to a group's file."""
        folder = path.parent
        if not path.exists():
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        self._check_open(folder)
        if path.name == "cgroup.subtree_control":
            self._give(folder, text.replace("+", "").split())
        elif path.name == "cgroup.procs":
            self._move(int(text), folder)
        elif path.name == "cgroup.kill":
            for pid in self._said(folder / "cgroup.procs").split():
                os.kill(int(pid), 9)
            (folder / "cgroup.procs").write_text("")
        else:
            path.write_text(text)

    def _give(self, folder: Path, controllers: list[str]) -> None:
        if not set(controllers) <= set(self._said(folder / "cgroup.controllers").split()):
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        exempt = self.real_root and folder == self.top
        if self._said(folder / "cgroup.procs") and not exempt:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        given = set(self._said(folder / "cgroup.subtree_control").split()) | set(controllers)
        (folder / "cgroup.subtree_control").write_text(" ".join(sorted(given)))
        for child in folder.iterdir():
            if child.is_dir():
                self._populate(child, " ".join(given))

    def _move(self, pid: int, there: Path) -> None:
        here = next(
            (file.parent for file in self._members() if str(pid) in file.read_text().split()), self._own
        )
        meeting = next(group for group in (there, *there.parents) if here.is_relative_to(group))
        self._check_open(meeting)
        if self._said(there / "cgroup.subtree_control") and not (self.real_root and there == self.top):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        for file in self._members():
            file.write_text("\n".join(word for word in file.read_text().split() if word != str(pid)))
        with open(there / "cgroup.procs", "a") as file:
            file.write(f"\n{pid}")

    def _members(self) -> list[Path]:
        return list(self.top.rglob("cgroup.procs"))

    def _populate(self, folder: Path, controllers: str) -> None:
        files = {"cgroup.controllers": controllers, "cgroup.subtree_control": "", "cgroup.procs": ""}
        files |= {"cgroup.kill": "", "cpu.stat": "usage_usec 0\nuser_usec 0\nsystem_usec 0\n"}
        for controller in controllers.split():
            files |= FILES.get(controller, {})
        for name, text in files.items():
            if name not in self._missing and (not (folder / name).exists() or name == "cgroup.controllers"):
                (folder / name).write_text(text)

    def _check_open(self, folder: Path) -> None:
        if folder in self.closed:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def _said(self, path: Path) -> str:
        return path.read_text().strip() if path.exists() else ""
