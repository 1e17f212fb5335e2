"""Which means this machine gives for holding a run to its limits: control groups of either version, or none.

The same limits hold with each, and the same verdicts come of them. Groups are the kernel's: exact and immediate.
Without them lockstep looks several times a second, which a run that is quick enough can outpace.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from lockstep.sandbox import cgroup, cgroup1, cgroup2
from lockstep.sandbox.cgroup import Unusable


@dataclass(frozen=True)
class Description:
    """The back end that runs get here, in words; `missing` says of each better one why it cannot be had.

    `mend` is the command that gives a better one, or empty where there is none to give.
    """

    name: str
    text: str
    missing: tuple[str, ...]
    mend: str


def find_parent() -> tuple[cgroup1.Parent | cgroup2.Parent | None, tuple[str, ...]]:
    """Where runs can get control groups, None where they cannot, and why not of a newer version."""
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


def describe() -> Description:
    """Say how runs are held to their limits on this machine, by trying it."""
    parent, missing = find_parent()
    if parent is not None:
        text = f"memory and processes of a run are limited by the kernel, in control groups below {parent}"
        return Description(parent.name, text, missing, "")
    text = "memory and processes of a run are looked at several times a second, and it is ended when it has too many"
    mend = "" if os.getuid() == 0 else "systemd-run --user --scope -p Delegate=yes lockstep ..."
    return Description("watched", text, missing, mend)


def remove_forgotten_groups() -> None:
    """Remove the groups of locksteps that were killed before they could do so themselves."""
    for hierarchy in cgroup.own_hierarchies().values():
        for parent in hierarchy.lineage():
            cgroup.remove_forgotten(parent)
