"""The commands that mend things, as they are typed on this machine."""

from __future__ import annotations

import shlex
from pathlib import Path

from lockstep.doctor.machine import Host, Sandbox

CHECKOUT = Path(__file__).resolve().parent.parent.parent

PACKAGES = {
    "apt-get": {"bubblewrap": "bubblewrap", "libseccomp": "libseccomp2", "unshare": "util-linux"},
    "dnf": {"bubblewrap": "bubblewrap", "libseccomp": "libseccomp", "unshare": "util-linux"},
    "zypper": {"bubblewrap": "bubblewrap", "libseccomp": "libseccomp2", "unshare": "util-linux"},
}
"""What distributions call what is needed, by the program that installs it."""

ALLOWING_CONTAINER = (
    "docker run --cap-add SYS_ADMIN --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
    "--security-opt systempaths=unconfined IMAGE"
)
"""A container that may make others within itself; Docker's own defaults forbid each of the four."""


def as_root(host: Host, command: str) -> str:
    """A command that takes root's rights."""
    return command if host.root else f"sudo {command}"


def install(host: Host, what: str) -> str:
    """What installs a program or library of the system; empty where nobody knows how this one does it."""
    packages = PACKAGES.get(host.installer or "")
    return as_root(host, f"{host.installer} install -y {packages[what]}") if packages else ""


def kernel_setting(host: Host, name: str, value: int) -> str:
    """What changes a setting of the kernel until it is started again."""
    return as_root(host, f"sysctl {name}={value}")


def lift_apparmor(host: Host, sandbox: Sandbox) -> dict[str, str]:
    """What takes back all that AppArmor has against boxes: commands that do until the next start, what does for good.

    Both, where there are two: without its profile bubblewrap is under the restriction of all other programs.
    """
    profile, commands = sandbox.apparmor_profile, {}
    if profile is not None and profile.file is not None:
        remove = as_root(host, f"apparmor_parser --remove {shlex.quote(str(profile.file))}")
        commands[remove] = "a link to the profile in /etc/apparmor.d/disable"
    if sandbox.apparmor_restricts:
        allow = kernel_setting(host, "kernel.apparmor_restrict_unprivileged_userns", 0)
        commands[allow] = "a line in /etc/sysctl.d"
    return commands


def set_up_again() -> str:
    """What installs every package as lockstep is tested with it; a stamp says that this was done already."""
    return f"cd {shlex.quote(str(CHECKOUT))} && rm -f .venv/lockstep-setup && make setup"
