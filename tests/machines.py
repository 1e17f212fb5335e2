"""Machines that lockstep might be started on, as the doctor sees them: a good one, and what others lack of it."""

from __future__ import annotations

from dataclasses import replace

from lockstep.doctor.machine import Attempt, Gpus, Host, Machine, Package, Resources, Sandbox, Software
from lockstep.sandbox.backend import Description

GIB = 1 << 30
NOT_PERMITTED = "unshare: unshare failed: Operation not permitted"

GOOD = Machine(
    host=Host(
        system="Debian GNU/Linux 12 (bookworm)",
        kernel="6.1.0-40-amd64",
        root=True,
        container=False,
        systemd=True,
        installer="apt-get",
        program="/srv/lockstep/.venv/bin/lockstep",
    ),
    sandbox=Sandbox(
        bubblewrap="/usr/bin/bwrap",
        bubblewrap_version="0.8.0",
        problem=None,
        entering=Attempt(True),
        namespaces=Attempt(True),
        most_namespaces=96365,
        unprivileged_namespaces=None,
        apparmor_restricts=None,
        apparmor_profile=None,
        seccomp=Attempt(True),
        landlock=6,
    ),
    limits=Description("cgroup v2", "limited by the kernel", (), ""),
    gpus=Gpus(usable=0, there=0, driver="", models=(), memory_file=False),
    resources=Resources(memory=32 * GIB, available=28 * GIB, shared_memory=16 * GIB, cores=4, quota=None),
    software=Software(
        lockstep="0.1.0",
        python="3.11.7",
        packages=(
            Package("torch", "2.15.0", "2.15.0+cpu"),
            Package("torchvision", "0.29.2", "0.29.2"),
            Package("pytest", "9.2.0", "9.2.0"),
            Package("pytorch-lightning", "2.6.6", "2.6.6"),
            Package("pandas", "3.1.1", "3.1.1"),
        ),
        torch_cuda=None,
    ),
)

WATCHED = Description(
    "watched",
    "memory and processes of a run are looked at several times a second",
    ("cgroup v2: no unified tree is mounted", "cgroup v1: no tree of the controller `memory` is mounted"),
    "systemd-run --user --scope -p Delegate=yes",
)

ONE_GPU = Gpus(usable=1, there=1, driver="580.65.06", models=("NVIDIA H200",), memory_file=True)


def with_host(machine: Machine = GOOD, **changes: object) -> Machine:
    """The machine with another host; without root there is nothing that root would have to be allowed."""
    host = replace(machine.host, **changes)  # type: ignore[arg-type]
    sandbox = machine.sandbox if host.root else replace(machine.sandbox, entering=None)
    return replace(machine, host=host, sandbox=sandbox)


def with_sandbox(machine: Machine = GOOD, **changes: object) -> Machine:
    """The machine with other parts of a sandbox."""
    return replace(machine, sandbox=replace(machine.sandbox, **changes))  # type: ignore[arg-type]


def with_packages(**found: str | None) -> Machine:
    """The good machine with other releases of packages; None for one that is missing."""
    packages = tuple(
        replace(package, found=found.get(package.name, package.found)) for package in GOOD.software.packages
    )
    return replace(GOOD, software=replace(GOOD.software, packages=packages))


def with_room(**changes: float | None) -> Machine:
    """The good machine with other resources."""
    return replace(GOOD, resources=replace(GOOD.resources, **changes))  # type: ignore[arg-type]
