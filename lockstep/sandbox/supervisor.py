"""The first process of a run: lays out its files, forks its ranks, starts warm pythons, reports the end.

In the sandbox it is pid 1 of the run's own pid namespace: student code cannot signal it, and when it
ends the kernel ends everything that the run started.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from lockstep import wire
from lockstep.sandbox import channel, confine, ranks, warm
from lockstep.wire import Json

FDS_PER_RANK = 5
MIB = 1 << 20
# Processes that are given time to end before what is left is counted; a fork bomb's thousands are not.
PATIENT_WITH = 64


@dataclass(frozen=True)
class Job:
    """What one run needs: where it works, its files, its limits and each rank's descriptors."""

    isolated: bool
    workspace: str
    status: socket.socket
    spec: dict[str, Json]
    seccomp: bytes | None
    files_fd: int
    data_fds: tuple[int, ...]
    ranks: tuple[ranks.RankPipes, ...]

    @staticmethod
    def read(status: socket.socket, fds: tuple[int, ...], *, isolated: bool, workspace: str) -> Job:
        """Take a job message's descriptors: spec, files, one per data set, five per rank."""
        spec_fd, files_fd, *others = fds
        frame = wire.unpack(read_all(spec_fd))
        spec = dict(frame.values)
        names = cast(list[str], spec["data"])
        pipes = others[len(names) :]
        groups = (pipes[i : i + FDS_PER_RANK] for i in range(0, len(pipes), FDS_PER_RANK))
        return Job(
            isolated=isolated,
            workspace=workspace,
            status=status,
            spec=spec,
            seccomp=frame.arrays["seccomp"].tobytes() if "seccomp" in frame.arrays else None,
            files_fd=files_fd,
            data_fds=tuple(others[: len(names)]),
            ranks=tuple(ranks.RankPipes(*group) for group in groups),
        )


def read_all(fd: int) -> bytes:
    """The whole content of a file descriptor that stands for a file."""
    size = os.fstat(fd).st_size
    return b"".join(iter_read(fd, size))


def iter_read(fd: int, size: int) -> Iterator[bytes]:
    """Read `size` bytes from the start of a file without moving its position."""
    offset = 0
    while offset < size:
        chunk = os.pread(fd, min(size - offset, 8 * MIB), offset)
        if not chunk:
            return
        offset += len(chunk)
        yield chunk


def supervise(status: socket.socket, *, isolated: bool, workspace: str) -> None:
    """Make ready, wait for a job, run it to its end and report it; the caller exits afterwards."""
    os.setsid()
    # The first process of a pid namespace is deaf to signals without a handler, and Python handles this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if isolated:
        confine.private_mounts()
        confine.no_more_namespaces()
        confine.loopback_up()
    channel.send(status, {"op": "hello"})
    # Before it sends the job, the trusted side puts this process under its limits.
    message = channel.receive(status)
    if message is None:
        return
    job = Job.read(status, message.fds, isolated=isolated, workspace=workspace)
    with _sandboxed_places(job) if isolated else _temporary_places(job) as place:
        channel.send(status, {"op": "laid out", "work": place.work})
        _run(job, place)


@dataclass(frozen=True)
class Place:
    """Folders of one run: work (the student's, writable), data (read-only), run (python stand-ins), tmp."""

    work: str
    data: str
    run: str
    tmp: str


@contextlib.contextmanager
def _sandboxed_places(job: Job) -> Iterator[Place]:
    limits = cast(dict[str, int], job.spec["limits"])
    confine.tmpfs("/work", limits["disk"])
    confine.tmpfs("/tmp", limits["disk"])
    confine.tmpfs("/run", 1 * MIB, inodes=64)
    confine.tmpfs("/dev/shm", limits["shared_memory"])
    confine.tmpfs("/data", 256 * MIB, inodes=65536)
    place = Place("/work", "/data", "/run", "/tmp")
    _lay_out(job, place)
    confine.read_only("/data")
    yield place


@contextlib.contextmanager
def _temporary_places(job: Job) -> Iterator[Place]:
    confine.adopt_orphans()
    root = tempfile.mkdtemp(prefix="run-", dir=job.workspace)
    place = Place(*(os.path.join(root, name) for name in ("work", "data", "run", "tmp")))
    for folder in (place.work, place.data, place.run, place.tmp):
        os.mkdir(folder)
    try:
        _lay_out(job, place)
        yield place
    finally:
        _end_descendants()
        shutil.rmtree(root, ignore_errors=True)


def _lay_out(job: Job, place: Place) -> None:
    _write_files(wire.unpack(read_all(job.files_fd)), place.work)
    for name, fd in zip(cast(list[str], job.spec["data"]), job.data_fds, strict=True):
        _write_files(wire.unpack(read_all(fd)), os.path.join(place.data, name))
    warm.write_stand_ins(place.run)


def _write_files(frame: wire.Frame, folder: str) -> None:
    """Write a pack: `files` lists [path, size, executable], the array `content` holds them end to end."""
    content = frame.arrays["content"].tobytes()
    offset = 0
    os.makedirs(folder, exist_ok=True)
    made = {folder}
    for entry in cast(list[list[Json]], frame.values["files"]):
        path, size, executable = cast(str, entry[0]), cast(int, entry[1]), entry[2] is True
        target = Path(folder, path)
        if str(target.parent) not in made:
            target.parent.mkdir(parents=True, exist_ok=True)
            made.add(str(target.parent))
        target.write_bytes(content[offset : offset + size])
        if executable:
            target.chmod(0o755)
        offset += size


def _run(job: Job, place: Place) -> None:
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    listener = warm.listen(place.run)
    pids = {}
    for number, pipes in enumerate(job.ranks):
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            confine.only_keep({0, 1, 2, *pipes.all()})
            ranks.run_rank(_rank_job(job, place, number), pipes)
        pids[pid] = number
    for pipes in job.ranks:
        for fd in pipes.all():
            os.close(fd)
    workers = warm.Workers(listener, _confinement(job), place.work)
    while True:
        waiting: list[socket.socket | int] = [job.status, wake_read, *workers.sockets()]
        readable, _, _ = select.select(waiting, [], [])
        if wake_read in readable:
            os.read(wake_read, 4096)
        for pid, status in _reap():
            if pid in pids:
                channel.send(job.status, {"op": "exited", "rank": pids.pop(pid), "status": status})
            else:
                workers.ended(pid, status)
        workers.serve(readable)
        if job.status in readable:
            message = channel.receive(job.status)
            if message is None or message.fields["op"] == "end":
                return
            if message.fields["op"] == "stacks":
                _ask_for_stacks(job, pids, workers)
            elif message.fields["op"] == "report":
                patience = cast(float, message.fields["patience"])
                left = _others_left(set(pids), patience) if job.isolated else None
                channel.send(job.status, {"op": "report", "left": left})


def _rank_job(job: Job, place: Place, number: int) -> ranks.RankJob:
    environments = cast(list[dict[str, str]], job.spec["env"])
    return ranks.RankJob(
        number=number,
        probe=cast(str, job.spec["probe"]),
        call=cast(str, job.spec["call"]),
        environment={**base_environment(place), **environments[number]},
        work=place.work,
        python=os.path.join(place.run, "bin", "python"),
        confinement=_confinement(job),
    )


def base_environment(place: Place) -> dict[str, str]:
    """The whole environment of student code, apart from torchrun's variables: a few neutral names."""
    import sys

    tools = os.path.dirname(sys.executable)
    # Where this interpreter itself was told to find its library, one that student code starts must, too.
    library = os.environ.get("LD_LIBRARY_PATH")
    return {
        **({"LD_LIBRARY_PATH": library} if library else {}),
        "PATH": f"{place.run}/bin:{tools}:/usr/local/bin:/usr/bin:/bin",
        "HOME": place.tmp,
        "TMPDIR": place.tmp,
        "LANG": "C.UTF-8",
        "MPLBACKEND": "Agg",
        "MPLCONFIGDIR": place.tmp,
        "OMP_NUM_THREADS": "1",
    }


def _confinement(job: Job) -> ranks.Confinement:
    limits = cast(dict[str, int], job.spec["limits"])
    return ranks.Confinement(
        limits=confine.ProcessLimits(
            address_space=limits["address_space"],
            file_size=limits["disk"],
            open_files=limits["open_files"],
            # Without a user namespace of its own a run would be charged the user's other processes. Twice the
            # limit, because the control group tells when its own is hit, and this one does not.
            processes=2 * limits["processes"] if job.isolated else None,
        ),
        seccomp=job.seccomp if job.isolated else None,
    )


def _reap() -> Iterator[tuple[int, int]]:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, os.waitstatus_to_exitcode(status)


def _ask_for_stacks(job: Job, pids: dict[int, int], workers: warm.Workers) -> None:
    """Have every live process write where it stands, and say which ones are stopped rather than busy."""
    states: dict[str, Json] = {str(rank): _state(pid) for pid, rank in pids.items()}
    for pid in [*pids, *workers.pids()]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGUSR1)
    channel.send(job.status, {"op": "states", "states": states})


def _state(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def _others_left(ranks: set[int], patience: float) -> int:
    """Live processes of this pid namespace other than this one and the ranks themselves.

    Those that are about to end may do so first: on a busy machine that takes a moment, at most `patience` seconds.
    """
    deadline = time.monotonic() + patience
    others = _others_alive(ranks)
    if not others:
        return 0
    for pid in sorted(others)[:PATIENT_WITH]:
        with contextlib.suppress(OSError):
            pidfd = os.pidfd_open(pid)
            try:
                select.select([pidfd], [], [], max(0.0, deadline - time.monotonic()))
            finally:
                os.close(pidfd)
    return len(_others_alive(ranks))


def _others_alive(ranks: set[int]) -> set[int]:
    others = {int(name) for name in os.listdir("/proc") if name.isdigit()} - ranks - {os.getpid()}
    return {pid for pid in others if _state(pid) not in "ZX"}


def _end_descendants() -> None:
    """Without a pid namespace: end every descendant, also those that made themselves daemons."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        children = _children(os.getpid())
        if not children:
            return
        for pid in children:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for _ in _reap():
            pass
        select.select([], [], [], 0.002)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{pid}/children") as file:
        for child in map(int, file.read().split()):
            found += [child, *_children(child)]
    return found
