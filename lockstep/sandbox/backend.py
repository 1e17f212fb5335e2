"""Which means this machine gives for holding a run to its limits: control groups of either version, or none.

The same limits hold with each, and the same verdicts come of them. Groups are the kernel's: exact and immediate.
Without them lockstep looks several times a second, which a run that is quick enough can outpace.
"""

from __future__ import annotations

import contextlib
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


def open_backend(parent: Parent | None) -> Backend:
    """What is to hold a run that is being prepared: a group below this one, or where there is none our eyes."""
    if parent is not None:
        # What could be made a moment ago can be refused now; the run is then looked at, rather than lost.
        with contextlib.suppress(OSError):
            return parent.open(cgroup.new_name())
    return watched.Watched()


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
