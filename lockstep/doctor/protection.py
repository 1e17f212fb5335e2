"""What this machine can promise about student code, from what it has: a sandbox, its parts, and its limits.

Whether grading is refused is decided by grading's own question (`Sandbox.problem`); all else here says why.
"""

from __future__ import annotations

from collections.abc import Iterator

from lockstep.doctor import mending
from lockstep.doctor.finding import Finding, Level
from lockstep.doctor.machine import Host, Machine, Sandbox
from lockstep.sandbox import cgroup1, cgroup2
from lockstep.sandbox.backend import Description
from lockstep.sandbox.confine import LANDLOCK_SCOPES
from lockstep.text import listed

NOTHING_GRADED = "Nothing is graded."


def findings(machine: Machine) -> Iterator[Finding]:
    """One for each part."""
    host, sandbox = machine.host, machine.sandbox
    parts = [
        _bubblewrap(host, sandbox),
        _namespaces(host, sandbox),
        _apparmor(host, sandbox),
        _user(host, sandbox),
        _filter(host, sandbox),
    ]
    yield from parts
    if sandbox.problem is not None and all(part.level is not Level.REFUSED for part in parts):
        yield Finding(
            "sandbox",
            "sandbox",
            Level.REFUSED,
            sandbox.problem,
            f"{NOTHING_GRADED} All that a sandbox is made of is there, and yet none can be made.",
            mending.ALLOWING_CONTAINER if host.container else "",
        )
    yield _landlock(sandbox)
    yield _groups(host, machine.limits)


def _bubblewrap(host: Host, sandbox: Sandbox) -> Finding:
    name = "bubblewrap"
    if sandbox.bubblewrap is None:
        follows = f"{NOTHING_GRADED} Student code would have nothing to be kept in."
        return Finding(name, name, Level.REFUSED, "not installed", follows, mending.install(host, name))
    seen = f"{sandbox.bubblewrap_version or 'of an unknown release'}, {sandbox.bubblewrap}"
    follows = "Student code sees a machine of its own."
    return Finding(name, name, Level.OK, seen, follows, values={"version": sandbox.bubblewrap_version})


def _namespaces(host: Host, sandbox: Sandbox) -> Finding:
    name, title = "user_namespaces", "user namespaces"
    if sandbox.problem is None or sandbox.namespaces.worked:
        follows = "A run has no privileges on this machine."
        return Finding(name, title, Level.OK, "can be made without privileges", follows)
    said = sandbox.namespaces.said
    if sandbox.most_namespaces == 0:
        seen = "switched off (user.max_user_namespaces is 0)"
        mend = mending.kernel_setting(host, "user.max_user_namespaces", 15000)
    elif sandbox.unprivileged_namespaces is False:
        seen = "kept for root (kernel.unprivileged_userns_clone is 0)"
        mend = mending.kernel_setting(host, "kernel.unprivileged_userns_clone", 1)
    elif sandbox.apparmor_restricts:
        seen, mend = f"refused by AppArmor ({said})", ""
    elif said.endswith("is not installed"):
        seen, mend = f"not tried: {said}", mending.install(host, "unshare")
    else:
        seen, mend = f"refused ({said})", mending.ALLOWING_CONTAINER if host.container else ""
    return Finding(
        name, title, Level.REFUSED, seen, f"{NOTHING_GRADED} bubblewrap makes boxes out of them.", mend
    )


def _apparmor(host: Host, sandbox: Sandbox) -> Finding:
    name, title = "apparmor", "AppArmor"
    refuses = _what_apparmor_refuses(host, sandbox)
    if refuses:
        lifts = mending.lift_apparmor(host, sandbox)
        follows = NOTHING_GRADED
        if lifts:
            follows += f" The command lifts this until the next start; {listed([*lifts.values()])}, for good."
        return Finding(name, title, Level.REFUSED, refuses, follows, " && ".join(lifts))
    seen = (
        "restricts user namespaces, but not these"
        if sandbox.apparmor_restricts
        else "does not restrict user namespaces"
    )
    return Finding(name, title, Level.OK, seen, "It does not stand in the way of a sandbox.")


def _what_apparmor_refuses(host: Host, sandbox: Sandbox) -> str:
    if sandbox.problem is not None and sandbox.apparmor_restricts and not sandbox.namespaces.worked:
        return "restricts user namespaces, as Ubuntu has it since 23.10"
    if sandbox.apparmor_profile is not None and not host.container and _bubblewrap_alone_fails(sandbox):
        held = f"holds bubblewrap to its profile `{sandbox.apparmor_profile.name}`, as newer Ubuntu has it"
        return f"{held}: {sandbox.problem}"
    return ""


def _bubblewrap_alone_fails(sandbox: Sandbox) -> bool:
    """Whether no sandbox can be made although all that it is made of works outside of bubblewrap."""
    parts = [sandbox.namespaces, sandbox.seccomp, sandbox.entering or sandbox.namespaces]
    return sandbox.problem is not None and all(part.worked for part in parts)


def _user(host: Host, sandbox: Sandbox) -> Finding:
    name, title = "user", "user"
    if not host.root:
        return Finding(
            name,
            title,
            Level.WEAKER,
            "not root",
            "All boxes are one user on this machine, yours, and share what that user may use: enough for your own "
            "work. For a class, start lockstep as root, which gives every box a user of its own.",
            f"sudo {host.program} doctor",
        )
    if sandbox.entering is None or sandbox.entering.worked:
        follows = "Every box is another user, without any rights."
        return Finding(name, title, Level.OK, "root, who may make mounts of its own", follows)
    lacks = "be another user" if sandbox.entering.said.startswith("setpriv") else "make mounts of its own"
    return Finding(
        name,
        title,
        Level.REFUSED,
        f"root, who may not {lacks} ({sandbox.entering.said})",
        f"{NOTHING_GRADED} Root gives every box another user, and mounts for that; an ordinary user needs neither.",
        mending.ALLOWING_CONTAINER if host.container else "su --login NAME",
    )


def _filter(host: Host, sandbox: Sandbox) -> Finding:
    name = "seccomp"
    if sandbox.seccomp.worked:
        follows = "System calls that reach out of a run are refused."
        return Finding(name, name, Level.OK, "the filter loads, and denies", follows)
    said = sandbox.seccomp.said
    mend = mending.set_up_again() if "No module named" in said else ""
    return Finding(
        name,
        name,
        Level.REFUSED,
        f"no filter: {said}",
        f"{NOTHING_GRADED} Without it a run could ask the kernel for whatever it likes.",
        mending.install(host, "libseccomp") if "libseccomp" in said else mend,
    )


def _landlock(sandbox: Sandbox) -> Finding:
    name, title, values = "landlock", "Landlock", {"version": sandbox.landlock}
    if sandbox.landlock >= LANDLOCK_SCOPES:
        follows = "Ranks of a run have nothing in common but a network."
        return Finding(name, title, Level.OK, f"version {sandbox.landlock}", follows, values=dict(values))
    return Finding(
        name,
        title,
        Level.WEAKER,
        f"{f'version {sandbox.landlock}' if sandbox.landlock else 'none'}; lockstep wants version {LANDLOCK_SCOPES}",
        "Ranks of a run that mean to can pass data past the count of their bytes, over Unix sockets without a folder. "
        "Linux keeps them apart since 6.12.",
        values=dict(values),
    )


def _groups(host: Host, limits: Description) -> Finding:
    name, title = "control_groups", "control groups"
    if limits.name in (cgroup1.NAME, cgroup2.NAME):
        follows = "The kernel holds every run to its limits."
        seen = f"{limits.name}, for memory and processes"
        return Finding(name, title, Level.OK, seen, follows, values={"back_end": limits.name})
    return Finding(
        name,
        title,
        Level.WEAKER,
        f"none for lockstep ({'; '.join(limits.missing)})",
        f"{limits.text[0].upper()}{limits.text[1:]}: one that is quick enough may harm others first.",
        _lend_groups(host, limits),
        values={"back_end": limits.name},
    )


def _lend_groups(host: Host, limits: Description) -> str:
    if host.container:
        # They are root's in there; whoever is not is told to be.
        return "docker run --privileged IMAGE" if host.root else ""
    return f"{limits.prefix} {host.program} doctor" if limits.prefix and host.systemd else ""
