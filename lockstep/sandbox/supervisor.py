"""The first process of a run: lays out its files, forks its ranks, starts warm pythons, reports the end.

In the sandbox it is pid 1 of the run's own pid namespace: student code cannot signal it, and when it
ends the kernel ends everything that the run started.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
from collections.abc import Iterable
from typing import cast

from lockstep.sandbox import apart, channel, confine, places, processes, ranks, warm
from lockstep.sandbox.job import Job
from lockstep.sandbox.places import Place
from lockstep.sandbox.starvation import Limit
from lockstep.wire import Json


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
    if not isolated:
        with places.temporary(job) as place:
            _run(job, place)
        return
    places.put_data(job)
    if job.spec["apart"] is True:
        apart.run(job, _run_sandboxed)
    else:
        _run_sandboxed(job)


def _run_sandboxed(job: Job) -> None:
    _run(job, places.sandboxed(job))


def _run(job: Job, place: Place) -> None:
    channel.send(job.status, {"op": "laid out", "work": place.work})
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    # A process that cannot say yet where it stands would be ended by the question; now it waits until it can.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    listener = warm.listen(place.run)
    pids = {}
    for number, pipes in job.ranks.items():
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            confine.only_keep({0, 1, 2, *pipes.all()})
            ranks.run_rank(_rank_job(job, place, number), pipes)
        pids[pid] = number
    # What commands start belongs to the rank that ran them; where several did, to the first.
    stacks = os.dup(next(iter(job.ranks.values())).stacks)
    for pipes in job.ranks.values():
        for fd in pipes.all():
            os.close(fd)
    workers = warm.Workers(listener, _confinement(job), place.work, stacks)
    while True:
        waiting: list[socket.socket | int] = [job.status, wake_read, *workers.sockets()]
        readable, _, _ = select.select(waiting, [], [])
        if wake_read in readable:
            os.read(wake_read, 4096)
        for pid, status in processes.reap():
            if pid in pids:
                channel.send(job.status, {"op": "exited", "rank": pids.pop(pid), "status": status})
            else:
                workers.ended(pid, status)
        workers.serve(readable)
        if job.status in readable:
            message = channel.receive(job.status)
            if message is None:
                return
            if message.fields["op"] == "stacks":
                _ask_for_stacks(
                    job, pids, workers.started_ranks(), stacks, cast(float, message.fields["patience"])
                )
            elif message.fields["op"] == "report":
                patience = cast(float, message.fields["patience"])
                left = processes.others_left(set(pids), patience) if job.isolated else None
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
        **dict.fromkeys(
            ("WANDB_SILENT", "WANDB__DISABLE_STATS", "WANDB_DISABLE_GIT", "WANDB_DISABLE_CODE"), "true"
        ),
        # Nobody has logged in here, and without a network it would wait for one.
        "WANDB_MODE": "offline",
        "WANDB_CONSOLE": "off",
        "WANDB_ERROR_REPORTING": "false",
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


def _ask_for_stacks(
    job: Job, pids: dict[int, int], workers: dict[int, str], stacks: int, patience: float
) -> None:
    """Have every live process write where it stands; once all have, say which ones were stopped rather than busy.

    A process that shares its processor with many others may take a while between two frames of its stack. One that
    blocks the signal writes none: `patience` is how many seconds all of them get.
    """
    states: dict[str, Json] = {str(rank): processes.state(pid) for pid, rank in pids.items()}
    limit = Limit(patience, os.getpid())
    _ask(pids, limit)
    for pid, rank in sorted(workers.items(), key=lambda worker: int(worker[1]))[: channel.MAX_STARTED]:
        # One after the other: they all write into one pipe.
        with contextlib.suppress(OSError):
            os.write(stacks, f"\n{channel.STARTED}{rank}\n".encode())
        _ask([pid], limit)
    channel.send(job.status, {"op": "states", "states": states})


def _ask(pids: Iterable[int], limit: Limit) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGUSR1)
    while any(processes.has_yet_to_handle(pid, signal.SIGUSR1) for pid in pids) and not limit.is_reached():
        select.select([], [], [], 0.002)
