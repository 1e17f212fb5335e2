"""Namespaces, mounts, capabilities and seccomp for one run, by direct system calls from a forked child.

Runs inside the sandbox, before any student code. The order matters: namespaces and mounts need the
capabilities that `seal` then gives up for good.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import socket
import struct
from dataclasses import dataclass

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_SLAVE = 4096, 16384, 1 << 19
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP = 1, 4, 22, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38
SECCOMP_MODE_FILTER = 2
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
# The same numbers on all processors.
SYS_LANDLOCK_CREATE_RULESET, SYS_LANDLOCK_RESTRICT_SELF = 444, 446
LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET, LANDLOCK_CREATE_RULESET_VERSION = 1, 1
LANDLOCK_SCOPES = 6
LAST_CAPABILITY = 40
# What the kernel adds, in thousandths of all memory, before it ends the process with the highest score.
SERVER_SCORE, RUN_SCORE = 500, 1000
CAPABILITY_VERSION_3 = 0x20080522

# Found here because dlopen in a forked child that has dropped everything would be one more thing to go wrong.
_libc = ctypes.CDLL(None, use_errno=True)


class _BpfProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


@dataclass(frozen=True)
class ProcessLimits:
    """Per-process limits of a rank: address space and file size in bytes, open files, processes."""

    address_space: int
    file_size: int
    open_files: int
    processes: int | None


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _prctl(option: int, argument: int, what: str) -> None:
    _check(_libc.prctl(option, ctypes.c_ulong(argument), 0, 0, 0), what)


def mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    """mount(2). Raises OSError naming the target."""
    result = _libc.mount(
        source.encode(),
        target.encode(),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        data.encode(),
    )
    _check(result, f"mount {target}")


def new_namespaces() -> None:
    """Leave the server's user, pid, network, IPC, mount and UTS namespaces; pids change at the next fork."""
    uid, gid = os.getuid(), os.getgid()
    flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS
    # The kernel gives a non-dumpable process's own /proc entries to root, so the maps need it to be dumpable.
    _prctl(PR_SET_DUMPABLE, 1, "dumpable")
    ended_before_others(RUN_SCORE)
    _check(_libc.unshare(flags), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    not_dumpable()


def ended_before_others(score: int) -> None:
    """Have the kernel choose this process, and what it forks, when the machine is out of memory: never what grades."""
    with open("/proc/self/oom_score_adj", "r+") as file:
        if int(file.read()) < score:  # in a container it may be higher, and lower it only who is privileged
            file.write(str(score))


def pid_namespace() -> int:
    """A descriptor of the pid namespace that this process is in."""
    return os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)


def new_pids_for_children() -> None:
    """Let the next fork be the first process of a pid namespace below this one."""
    _check(_libc.unshare(CLONE_NEWPID), "unshare")


def until_gone(thread: int) -> None:
    """Wait until the kernel has let go of a thread that is about to end; it counts as a process until then."""
    while _libc.tgkill(os.getpid(), thread, 0) == 0:
        os.sched_yield()


def children_join(namespace: int) -> None:
    """Let further forks be in this pid namespace, which must be this process's own."""
    _check(_libc.setns(namespace, CLONE_NEWPID), "setns")


def own_mounts() -> None:
    """Leave the mount namespace; what is mounted from now on is seen by this process and those it forks."""
    _check(_libc.unshare(CLONE_NEWNS), "unshare")
    private_mounts()


def own_abstract_sockets() -> None:
    """Reach only the abstract Unix sockets of this process and of those it forks.

    Their names belong to a network, not to a folder. A kernel before 6.12 cannot do that and leaves it as it was.
    """
    attributes = struct.pack("QQQ", 0, 0, LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET)
    rules = _libc.syscall(SYS_LANDLOCK_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if rules >= 0:
        _check(_libc.syscall(SYS_LANDLOCK_RESTRICT_SELF, rules, 0), "landlock")
        os.close(rules)


def landlock_version() -> int:
    """The version of Landlock that this kernel has, 0 for none; sockets are kept apart from LANDLOCK_SCOPES on."""
    return max(0, int(_libc.syscall(SYS_LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_CREATE_RULESET_VERSION)))


def loopback_up() -> None:
    """Bring up the private network's only interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh", b"lo", IFF_UP))


def tmpfs(target: str, size: int, inodes: int = 8192) -> None:
    """An empty in-memory folder of at most `size` bytes and `inodes` entries (inodes cost kernel memory)."""
    mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, f"size={size},nr_inodes={inodes},mode=0755")


def own_terminals() -> None:
    """Pseudo-terminals of one's own: those of the box are files that all its runs and their ranks see."""
    mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")


def read_only(target: str) -> None:
    """Make a mount this run made read-only."""
    mount("none", target, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)


def private_mounts() -> None:
    """Cut this mount namespace off from the server's and show only this namespace's processes in /proc."""
    mount("none", "/", None, MS_REC | MS_SLAVE)
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV)


def no_more_namespaces() -> None:
    """Let nobody in here make user namespaces: seccomp forbids it as well, but this holds without it."""
    with open("/proc/sys/user/max_user_namespaces", "w") as file:
        file.write("0")


def only_keep(keep: set[int]) -> None:
    """Close every descriptor of this process but these: student code must inherit none of ours."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in keep:
            with contextlib.suppress(OSError):
                os.close(int(name))


def die_with_parent(signal: int) -> None:
    """Ask for `signal` when the parent ends."""
    _prctl(PR_SET_PDEATHSIG, signal, "parent death signal")


def adopt_orphans() -> None:
    """Become the parent of descendants whose parent dies, so that they can be ended."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1, "child subreaper")


def not_dumpable() -> None:
    """Keep other processes of the same user out of this one's /proc entries and memory."""
    _prctl(PR_SET_DUMPABLE, 0, "non-dumpable")


def seal(filter_program: bytes | None) -> None:
    """Give up every capability and load the seccomp filter; nothing after this can undo it."""
    if filter_program is None:
        return
    not_dumpable()
    for capability in range(LAST_CAPABILITY + 1):
        _libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(header, (ctypes.c_uint32 * 6)()), "drop capabilities")
    _prctl(PR_SET_NO_NEW_PRIVS, 1, "no new privileges")
    code = ctypes.create_string_buffer(filter_program, len(filter_program))
    program = _BpfProgram(len(filter_program) // 8, ctypes.addressof(code))
    _check(_libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0), "seccomp")


def limit_process(limits: ProcessLimits) -> None:
    """Set the resource limits of this process and its children."""
    for kind, value in (
        (resource.RLIMIT_AS, limits.address_space),
        (resource.RLIMIT_FSIZE, limits.file_size),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, limits.processes),
    ):
        if value is not None:
            ceiling = resource.getrlimit(kind)[1]
            value = value if ceiling == resource.RLIM_INFINITY else min(value, ceiling)
            resource.setrlimit(kind, (value, value))
