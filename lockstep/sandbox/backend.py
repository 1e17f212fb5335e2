"""Which means this machine gives for holding a run to its limits: control groups of either version, or none.

The same limits hold with each, and the same verdicts come of them. Groups are the kernel's: exact and immediate.
Without them lockstep looks several times a second, which a run that is quick enough can outpace.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lockstep.sandbox import cgroup, cgroup1, cgroup2, watched
from lockstep.sandbox.cgroup import Unusable
from lockstep.sandbox.limits import Limits, Usage

Parent = cgroup1.Parent | cgroup2.Parent


class Backend(Protocol):
    """What holds one run to its limits, and counts what it uses."""

    @property
    def name(self) -> str:
        """Which back end it is."""

    def add(self, pid: int) -> None:
        """Take in a process, and whatever it forks from now on. Raises OSError."""

    def limit(self, limits: Limits) -> None:
        """Hold the processes to these limits from now on. Raises OSError."""

    def usage(self) -> Usage:
        """What they have used so far. Raises GraderFault when the machine ran out of memory, not because of them."""

    def close(self) -> None:
        """Leave nothing of the back end's own behind, nor anything that it holds."""


@dataclass(frozen=True)
class Description:
    """The back end that runs get here, in words; `missing` says of each better one why it cannot be had.

    `prefix` is what gives a better one to the command behind it, or empty where nothing does.
    """

    name: str
    text: str
    missing: tuple[str, ...]
    prefix: str


def find() -> tuple[Parent | None, tuple[str, ...]]:
    """Where runs get control groups here, None where they cannot, and why not of a newer version; by trying it."""
    hierarchies = cgroup.own_hierarchies()
    missing: list[str] = []
    try:
        if "" not in hierarchies:
            raise Unusable("no unified tree is mounted")
        return cgroup2.find(hierarchies[""]), ()
    except Unusable as reason:
        missing.append(f"{cgroup2.NAME}: {reason}")
    try:
        return cgroup1.find(hierarchies), tuple(missing)
    except Unusable as reason:
        missing.append(f"{cgroup1.NAME}: {reason}")
    return None, tuple(missing)


class Groups:
    """The groups of one sandbox's runs; what is left of them goes with it, wherever Ctrl-C broke in.

    Each of a run's groups is removed when the run is gone. But Ctrl-C can come between the making of one and the
    line that remembers it, so that in the end their names say what is to be removed.
    """

    def __init__(self, parent: Parent | None) -> None:
        """Those below `parent`; where there is none, runs are held by our eyes."""
        self._parent = parent
        self._name = cgroup.new_name()
        self._numbers = itertools.count()

    def open(self) -> Backend:
        """What is to hold a run that is being prepared."""
        if self._parent is not None:
            # What could be made a moment ago can be refused now; the run is then looked at, rather than lost.
            with contextlib.suppress(OSError):
                return self._parent.open(f"{self._name}-{next(self._numbers)}")
        return watched.Watched()

    def close(self) -> None:
        """Remove those that are left, and end what is left in them."""
        for folder in self._parent.folders() if self._parent is not None else ():
            for group in folder.glob(f"{self._name}-*"):
                cgroup.end_all(group)
                cgroup.remove(group)


def describe() -> Description:
    """Say how runs are held to their limits on this machine, by trying it."""
    parent, missing = find()
    if parent is not None:
        text = f"memory and processes of a run are limited by the kernel, in control groups below {parent}"
        return Description(parent.name, text, missing, "")
    text = "memory and processes of a run are looked at several times a second, and it is ended when it has too many"
    prefix = "" if os.getuid() == 0 else "systemd-run --user --scope -p Delegate=yes"
    return Description(watched.NAME, text, missing, prefix)


def possible_parents() -> set[Path]:
    """Every folder below which runs may have got groups, or may get them."""
    return {group for hierarchy in cgroup.own_hierarchies().values() for group in hierarchy.lineage()}


def remove_forgotten_groups() -> None:
    """Remove the groups of locksteps that were killed before they could do so themselves."""
    for parent in possible_parents():
        cgroup.remove_forgotten(parent)
