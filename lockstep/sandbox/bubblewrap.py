"""The command line of the box: bubblewrap around one warm server, with nothing of the host but libraries."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lockstep.sandbox import seccomp
from lockstep.sandbox.ask import ask
from lockstep.sandbox.machines import hosts_file

# One real user per live box: boxes with one user share its process count, and a dying fork bomb in one
# makes the next of the same user fail. The abstract socket name is a lock the kernel lets go by itself.
FIRST_UID, UIDS = 60001, 256
# No box has this one, so that no box's process bomb makes a machine look as if it had no sandbox.
TRIAL_UID = 60000
INSIDE_UID = "65534"
PACKAGES = "/opt/packages"
# Importing it starts MPI, which ends a process that no cluster started; Lightning imports it wherever it is.
CLUSTER_PACKAGES = ("mpi4py",)
# Where root starts a box: mounts of its own, in which Python is put where an ordinary user can read it.
ENTER = ("unshare", "-m", "--propagation", "private")

ETC_FILES: Mapping[str, str] = {
    # Without these, MASTER_ADDR=localhost waits 30 s for a name server that is not there.
    "hosts": f"127.0.0.1 localhost box\n::1 localhost\n{hosts_file()}",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "passwd": "student:x:65534:65534:student:/work:/bin/sh\n",
    "group": "student:x:65534:\n",
}


class SandboxUnavailable(Exception):
    """This machine cannot run the sandbox; the message says why and what mends it."""


@dataclass(frozen=True)
class Lease:
    """A real user id that no other live box has; `close` gives it back."""

    uid: int
    lock: socket.socket

    def close(self) -> None:
        """Give the user id back."""
        self.lock.close()


def find() -> str:
    """Path of the bwrap program. Raises SandboxUnavailable when there is none."""
    beside = Path(sys.executable).parent / "bwrap"
    found = shutil.which("bwrap") or (str(beside) if beside.exists() else None)
    if found is None:
        raise SandboxUnavailable(
            "bubblewrap (bwrap) is not installed: install Debian's package `bubblewrap`, or run `make setup`"
        )
    return found


def lease_uid() -> Lease | None:
    """Take a free real user id; None when we are an ordinary user and have only our own."""
    if os.getuid() != 0:
        return None
    for uid in range(FIRST_UID, FIRST_UID + UIDS):
        lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            lock.bind(f"\0lockstep-uid-{uid}")
        except OSError:
            lock.close()
            continue
        return Lease(uid, lock)
    raise SandboxUnavailable(f"{UIDS} boxes are running already")


def command(
    server: Iterable[str],
    visible: Mapping[str, Path],
    etc: Mapping[str, int],
    environment: Mapping[str, str],
    lease: Lease | None,
    devices: Iterable[Path] = (),
) -> list[str]:
    """The full command that starts `server` in a box.

    `visible` maps paths inside to files outside (read-only); `etc` maps names below /etc to descriptors
    that hold their text; `devices` are files of /dev to be used inside.
    """
    binds = {**python_folders(), **visible}
    # An unprivileged bwrap resolves real paths, and a Python below /root is closed to it: bind it first.
    staged = [(outside, f"/mnt/{number}") for number, outside in enumerate(binds.values())] if lease else []
    sources = dict(staged)
    bwrap = [find(), "--die-with-parent", "--new-session", "--unshare-all", "--unshare-user"]
    bwrap += ["--uid", INSIDE_UID, "--gid", INSIDE_UID, "--hostname", "box", "--clearenv"]
    bwrap += ["--ro-bind", "/usr", "/usr"]
    for name in ("lib", "lib64", "bin", "sbin"):
        if Path("/", name).is_symlink():
            bwrap += ["--symlink", f"usr/{name}", f"/{name}"]
        elif Path("/", name).exists():
            bwrap += ["--ro-bind", f"/{name}", f"/{name}"]
    bwrap += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    bwrap += ["--ro-bind-try", "/etc/alternatives", "/etc/alternatives"]
    for inside, outside in binds.items():
        bwrap += ["--ro-bind", sources.get(outside, str(outside)), inside]
    for package in CLUSTER_PACKAGES:
        if Path(binds[PACKAGES], package).is_dir():
            bwrap += ["--tmpfs", f"{PACKAGES}/{package}", "--remount-ro", f"{PACKAGES}/{package}"]
    for name, fd in etc.items():
        bwrap += ["--ro-bind-data", str(fd), f"/etc/{name}"]
    bwrap += ["--dev", "/dev", "--proc", "/proc"]
    for device in devices:
        bwrap += ["--dev-bind", str(device), str(device)]
    for folder in ("/work", "/data", "/run", "/dev/shm"):
        bwrap += ["--dir", folder]
    # The server's own; every run gets its own over it.
    bwrap += ["--size", str(64 << 20), "--tmpfs", "/tmp"]
    for name, value in environment.items():
        bwrap += ["--setenv", name, value]
    # bwrap's own root is a memory file system without a limit, so it is closed last.
    bwrap += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/", "--", *server]
    if lease is None:
        return ["nice", "-n", "5", *bwrap]
    script = "mount -t tmpfs -o mode=0755 none /mnt\n"
    for source, place in staged:
        make = f"mkdir {place}" if source.is_dir() else f": >{place}"
        script += f"{make}; mount --bind {shlex.quote(str(source))} {place}\n"
    script += 'exec "$@"'
    return ["nice", "-n", "5", *ENTER, "sh", "-ec", script, "sh", *as_user(lease.uid), *bwrap]


def as_user(uid: int) -> list[str]:
    """What in front of a command of root's makes it one of a user without any privilege."""
    return [
        "setpriv",
        f"--reuid={uid}",
        f"--regid={uid}",
        "--clear-groups",
        "--inh-caps=-all",
        "--no-new-privs",
    ]


def gpu_devices() -> tuple[Path, ...]:
    """NVIDIA's GPUs that a box of this process may open, one file for each."""
    return tuple(path for path in gpu_files() if _opens(path))


def _opens(device: Path) -> bool:
    # Root's boxes are those of a user who owns nothing (see `as_user`).
    return (
        device.stat().st_mode & 0o006 == 0o006 if os.getuid() == 0 else os.access(device, os.R_OK | os.W_OK)
    )


def gpu_files() -> tuple[Path, ...]:
    """The file of each of NVIDIA's GPUs in this machine, whoever may open it."""
    return tuple(
        sorted(path for path in Path("/dev").glob("nvidia*") if path.name[len("nvidia") :].isdigit())
    )


def gpu_driver() -> tuple[Path, ...]:
    """The files by which the driver of NVIDIA's GPUs is spoken to, beside the GPUs' own."""
    names = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
    return tuple(path for path in (Path("/dev", name) for name in names) if path.exists())


def python_folders() -> dict[str, Path]:
    """Where the interpreter and its packages appear inside: never at their host paths, which say who we are."""
    packages = Path(sysconfig.get_path("purelib"))
    folders = {} if _system_python() else {"/opt/python": Path(sys.base_prefix).resolve()}
    return {**folders, PACKAGES: packages.resolve()}


def interpreter() -> str:
    """Path of the Python interpreter inside the box."""
    program = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    return str(program) if _system_python() else f"/opt/python/bin/{program.name}"


def driver_library() -> str | None:
    """The folder of the NVIDIA driver's library where this process was told of it and the system was not.

    So it is in containers to which a cluster lends the driver of the machine below.
    """
    folders = [Path(folder) for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    found = (folder for folder in folders if (folder / "libcuda.so.1").exists())
    return next((str(folder) for folder in found if folder.resolve().is_relative_to("/usr")), None)


def library_path() -> str | None:
    """The folder inside that holds the interpreter's own shared library, where it has one.

    A Python that was built with `--enable-shared` looks for libpython at its path outside, and then takes
    the system's, which is of another release, or none.
    """
    folder = sysconfig.get_config_var("LIBDIR")
    if _system_python() or not sysconfig.get_config_var("Py_ENABLE_SHARED") or not folder:
        return None
    library, base = Path(folder).resolve(), Path(sys.base_prefix).resolve()
    return f"/opt/python/{library.relative_to(base)}" if library.is_relative_to(base) else None


def _system_python() -> bool:
    return Path(sys.base_prefix).resolve().is_relative_to("/usr")


def refusal() -> str | None:
    """Why nothing is graded on this machine, as a sentence; None when it can be."""
    why = problem()
    return (
        None
        if why is None
        else f"no sandbox, so nothing is graded: {why}. `lockstep doctor` says what mends it"
    )


def problem() -> str | None:
    """Why this machine cannot make a sandbox, as a sentence; None when it can."""
    try:
        program = find()
        seccomp.filter_program()
    except SandboxUnavailable as error:
        return str(error)
    except (ImportError, OSError, RuntimeError) as error:
        return f"there is no filter of system calls without libseccomp ({error})"
    tried = [
        program,
        "--unshare-all",
        "--unshare-user",
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "--chdir",
        "/",
    ]
    # A run has namespaces and a /proc of its own, within those of its box: some machines allow the one alone.
    tried += [
        "--",
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "--pid",
        "--fork",
        "--mount-proc",
        "true",
    ]
    if os.getuid() != 0:
        said = _complaint(tried)
    # Root in a container may be allowed the one and not the other.
    elif said := _complaint([*ENTER, "true"]):
        return (
            f"root may not make mounts of its own here ({said}), as in a container without CAP_SYS_ADMIN; "
            "start lockstep as an ordinary user, or give the container that capability"
        )
    else:
        said = _complaint([*ENTER, *as_user(TRIAL_UID), *tried])
    return f"bubblewrap cannot make a sandbox here ({said})" if said else None


def _complaint(command: list[str]) -> str:
    """The last line of what a command said that failed; empty when it did not."""
    status, said = ask(command)
    return said if status != 0 else ""
