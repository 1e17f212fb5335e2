"""What a machine has that grading depends on, as plain values; nothing in here says what follows from it."""

from __future__ import annotations

from dataclasses import dataclass

from lockstep.doctor.apparmor import Profile
from lockstep.sandbox.backend import Description


@dataclass(frozen=True)
class Attempt:
    """Something that was tried. `said` is what it complained of where it did not work."""

    worked: bool
    said: str = ""


@dataclass(frozen=True)
class Host:
    """The machine itself. `installer` installs packages of the system, None where it is an unknown one.

    `program` is how lockstep is started.
    """

    system: str
    kernel: str
    root: bool
    container: bool
    systemd: bool
    installer: str | None
    program: str


@dataclass(frozen=True)
class Sandbox:
    """What a box is made of. `problem` is why grading would not make one, by grading's own words.

    `entering` is what root does first, to have mounts of its own and then be another user; `namespaces` are what that
    user makes next, and what an ordinary user begins with. The three settings are the kernel's own, None where it does
    not have them. `apparmor_profile` is what AppArmor holds bubblewrap to, None where it does not. `landlock` is the
    kernel's version of that, 0 for none.
    """

    bubblewrap: str | None
    bubblewrap_version: str
    problem: str | None
    entering: Attempt | None
    namespaces: Attempt
    most_namespaces: int | None
    unprivileged_namespaces: bool | None
    apparmor_restricts: bool | None
    apparmor_profile: Profile | None
    seccomp: Attempt
    landlock: int


@dataclass(frozen=True)
class Gpus:
    """GPUs with files in /dev: those that can be opened, and all. `models` and `driver` as the driver calls them."""

    usable: int
    there: int
    driver: str
    models: tuple[str, ...]
    memory_file: bool


@dataclass(frozen=True)
class Resources:
    """Bytes of memory, in all and to be had by this process, and of /dev/shm; cores that it may use.

    `quota` is how many of them a control group gives it the time of, None where it gives all.
    """

    memory: int
    available: int
    shared_memory: int | None
    cores: int
    quota: float | None


@dataclass(frozen=True)
class Package:
    """A package that lockstep needs: the release it is tested with, and the one found. None: it is not installed."""

    name: str
    tested: str
    found: str | None


@dataclass(frozen=True)
class Software:
    """Versions. `torch_cuda` is the CUDA that torch was built for, None where it was built for none."""

    lockstep: str
    python: str
    packages: tuple[Package, ...]
    torch_cuda: str | None


@dataclass(frozen=True)
class Machine:
    """All of it. `limits` is how runs are held to theirs."""

    host: Host
    sandbox: Sandbox
    limits: Description
    gpus: Gpus
    resources: Resources
    software: Software
