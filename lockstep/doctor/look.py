"""Looks at this machine: reads what the kernel says, and tries what takes no time.

It starts no box. Whatever is missing is a value as well, never an exception.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from lockstep.doctor import apparmor
from lockstep.doctor.machine import (
    Attempt,
    Gpus,
    Host,
    Machine,
    Package,
    Resources,
    Sandbox,
    Software,
)
from lockstep.sandbox import backend, bubblewrap, cgroup, confine, seccomp, watched
from lockstep.sandbox.ask import ask


def gather() -> Machine:
    """Look at this machine."""
    return Machine(
        host=_host(),
        sandbox=_sandbox(),
        limits=backend.describe(),
        gpus=_gpus(),
        resources=_resources(),
        software=_software(),
    )


def _host() -> Host:
    try:
        system = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        system = platform.system()
    return Host(
        system=system,
        kernel=platform.release(),
        root=os.getuid() == 0,
        container=in_container(Path("/")),
        systemd=Path("/run/systemd/system").is_dir(),
        program=str(Path(sys.prefix) / "bin" / "lockstep"),
        installer=next((name for name in ("apt-get", "dnf", "zypper") if shutil.which(name)), None),
    )


def in_container(root: Path) -> bool:
    """Whether the system below `root` is one of Docker's, Podman's or another's that says so."""
    marks = (root / ".dockerenv", root / "run/.containerenv", root / "run/systemd/container")
    return any(mark.exists() for mark in marks)


def _sandbox() -> Sandbox:
    try:
        program: str | None = bubblewrap.find()
    except bubblewrap.SandboxUnavailable:
        program = None
    said = ask([program, "--version"]) if program else None
    other_user = bubblewrap.as_user(bubblewrap.TRIAL_UID) if os.getuid() == 0 else []
    entering = _attempt([*bubblewrap.ENTER, *other_user, "true"]) if other_user else None
    if entering is not None and not entering.worked:
        other_user = []
    settings = Path("/proc/sys")
    return Sandbox(
        bubblewrap=program,
        bubblewrap_version=said[1].removeprefix("bubblewrap ") if said and said[0] == 0 else "",
        problem=bubblewrap.problem(),
        namespaces=_attempt([*other_user, "unshare", "--user", "--map-root-user", "true"]),
        entering=entering,
        most_namespaces=setting(settings / "user/max_user_namespaces"),
        unprivileged_namespaces=_switch(settings / "kernel/unprivileged_userns_clone"),
        apparmor_restricts=_switch(settings / "kernel/apparmor_restrict_unprivileged_userns"),
        apparmor_profile=apparmor.profile_of(program) if program else None,
        seccomp=try_filter(),
        landlock=confine.landlock_version(),
    )


def setting(file: Path) -> int | None:
    """A number that the kernel keeps in a file; None where it has no such file."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def _switch(file: Path) -> bool | None:
    number = setting(file)
    return None if number is None else number != 0


def _attempt(command: Sequence[str]) -> Attempt:
    status, said = ask(command)
    return Attempt(True) if status == 0 else Attempt(False, said)


def try_filter() -> Attempt:
    """Load the filter of system calls into a child of this process, which then tries a call that it denies."""
    try:
        program = seccomp.filter_program()
    except (ImportError, OSError, RuntimeError) as error:
        return Attempt(False, str(error))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, _denied(program).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as end:
        said = end.read().decode()
    os.waitpid(child, 0)
    return Attempt(not said, said)


def _denied(program: bytes) -> str:
    """What is wrong with the filter, in a process that then has it for good; empty where it denies."""
    try:
        confine.seal(program)
    except OSError as error:
        return str(error)
    try:
        os.close(os.memfd_create("denied"))
    except PermissionError:
        return ""
    except OSError as error:
        return str(error)
    return "it is loaded and denies nothing"


def _gpus() -> Gpus:
    folder = Path("/proc/driver/nvidia")
    models = [
        found[1].strip()
        for file in sorted(folder.glob("gpus/*/information"))
        if (found := re.search(r"^Model:(.*)$", _text(file), re.MULTILINE))
    ]
    driver = re.search(r"Kernel Module(?: for \S+)?\s+(\d+[\d.]+)", _text(folder / "version"))
    return Gpus(
        usable=len(bubblewrap.gpu_devices()),
        there=len(bubblewrap.gpu_files()),
        driver=driver[1] if driver else "",
        models=tuple(models),
        memory_file=Path("/dev/nvidia-uvm") in bubblewrap.gpu_driver(),
    )


def _resources() -> Resources:
    available, memory = watched.available_memory(cgroup.around("memory"))
    try:
        shared = os.statvfs("/dev/shm")
    except OSError:
        shared = None
    return Resources(
        memory=memory,
        available=available,
        shared_memory=shared.f_frsize * shared.f_bavail if shared else None,
        cores=len(os.sched_getaffinity(0)),
        quota=min((share for group in cgroup.around("cpu") if (share := share_of(group))), default=None),
    )


def share_of(group: Path) -> float | None:
    """Cores that a control group of either version gives the time of, None where it gives all."""
    quota, period = (
        cgroup.words(group / "cpu.max")
        or [*cgroup.words(group / "cpu.cfs_quota_us"), *cgroup.words(group / "cpu.cfs_period_us")]
        or ["max", "0"]
    )
    return int(quota) / int(period) if quota.isdigit() else None


def _software() -> Software:
    try:
        needed = requires("lockstep") or []
    except PackageNotFoundError:
        needed = []
    pinned = [line.partition("==") for line in needed if "extra ==" not in line]
    return Software(
        lockstep=_version("lockstep") or "",
        python=platform.python_version(),
        packages=tuple(Package(name, tested, _version(name)) for name, _, tested in pinned),
        torch_cuda=cuda_of_torch(),
    )


def cuda_of_torch() -> str | None:
    """The CUDA that torch was built for, read from its file of versions: importing torch takes seconds."""
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        return None
    built = re.search(
        r"^cuda\b.*=\s*'([^']+)'", _text(Path(found.origin).with_name("version.py")), re.MULTILINE
    )
    return built[1] if built else None


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
