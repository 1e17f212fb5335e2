"""The warm server: imports torch once, then forks a fresh, confined process tree for every run.

It never runs student code itself, holds no secret and keeps nothing of one run for the next. It must
stay single-threaded: a fork of a process with a thread pool hangs at its first parallel operation.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import importlib
import os
import select
import signal
import socket
import weakref
from collections.abc import Callable, Iterable
from typing import cast

from lockstep.sandbox import channel, confine, places, probefiles
from lockstep.sandbox.supervisor import supervise
from lockstep.wire import Json

HUGE_PAGE, MADV_COLLAPSE = 2 << 20, 25
# What every exercise needs; torch, torchvision and matplotlib take half of the time that all of it takes.
EARLY_MODULES = (
    "numpy torch torch.nn.functional torch.utils.data torchvision torchvision.transforms torchvision.datasets "
    "PIL.Image PIL.JpegImagePlugin PIL.PngImagePlugin matplotlib.pyplot matplotlib.backends.backend_agg "
    "multiprocessing.spawn multiprocessing.popen_fork multiprocessing.popen_spawn_posix "
    "multiprocessing.resource_tracker argparse runpy tqdm json csv tempfile glob pathlib"
).split()
# What DDP, optimizers and probes import when they are first used: in every rank anew, if it were not here.
FULL_MODULES = (
    "torch._dynamo torch.distributed torch.nn.parallel torch.utils.data.distributed torch.distributed.run "
    "torch.distributed.elastic.agent.server.local_elastic_agent concurrent.futures.thread "
    "concurrent.futures.process lockstep.sandbox.device"
).split()


def main(*fds: int) -> None:
    """Serve runs until the trusted side closes its end of the control sockets, one for each server.

    This process is the early server; while it serves, a fork of it imports more and serves the next, and so on.
    """
    controls = [socket.socket(fileno=fd) for fd in fds]
    configuration = channel.receive(controls[0])
    if configuration is None:
        return
    isolated = configuration.fields["isolated"] is True
    # A run must be able to read what is laid out for it, however strict the umask of whoever started us.
    os.umask(0o022)
    confine.ended_before_others(confine.SERVER_SCORE)
    workspace = cast(str, configuration.fields["workspace"])
    for probe in cast(list[str], configuration.fields["probes"]):
        probefiles.read(probe)
    gc.disable()  # the imports make few cycles and a million objects
    modules = cast(list[str], configuration.fields["modules"])
    imports: list[Callable[[], None]] = [
        import_early,
        functools.partial(import_the_rest, gpus=configuration.fields["gpus"] is True),
        functools.partial(import_warm, modules),
    ]
    for import_more, control in zip(imports, controls, strict=False):
        import_more()
        if isolated:
            places.keep_folders()
        _make_ready_to_be_forked()
        if control is controls[-1] or os.fork() != 0:
            break
        confine.die_with_parent(signal.SIGKILL)
    for other in controls:
        if other is not control:
            other.close()
    # Without a sandbox it protects nothing, and keeps an ordinary user from counting what these processes share.
    if isolated:
        confine.not_dumpable()
    gc.enable()
    channel.send(control, {"op": "ready", "pid": os.getpid()})
    _serve(control, isolated, workspace)
    os._exit(0)


def import_early() -> None:
    """Import what every run needs."""
    import_modules(EARLY_MODULES)
    import torch
    from PIL import Image

    from lockstep.sandbox import fullsets, lowprecision, shortschedules

    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    lowprecision.install()
    fullsets.install()
    shortschedules.install()
    Image.init()


def import_modules(names: Iterable[str]) -> None:
    """Import them in their order."""
    for name in names:
        importlib.import_module(name)


def import_the_rest(*, gpus: bool) -> None:
    """Import what distributed runs need as well, and take the first, slow, step of everything they do."""
    import_modules(FULL_MODULES)
    from lockstep.sandbox import firststeps

    firststeps.take(gpus=gpus)
    _keep_groups_alive()


def import_warm(modules: Iterable[str]) -> None:
    """Import what some exercises list as theirs."""
    from lockstep.sandbox.device.tensors import find_captured

    import_modules(modules)
    find_captured()


def _make_ready_to_be_forked() -> None:
    """Let forks copy little, those of this server and the next server, which is one of them.

    Measured: the servers of all exercises take 0.91 GB together, and 1.27 GB if each does so when it serves.
    """
    # What a collection in a fork would touch, it would copy: these objects are left out of it.
    gc.freeze()
    _leave_operators_at_exit()
    _use_huge_pages()


def _leave_operators_at_exit() -> None:
    """Let no fork take torch's operators apart at its end, when nobody calls them any more: 40 ms of CPU each."""
    for finalizer in list(getattr(weakref.finalize, "_registry", ())):
        alive = finalizer.peek()
        if alive is not None and getattr(alive[1], "__module__", "") == "torch.library":
            finalizer.atexit = False


def _use_huge_pages() -> None:
    """Gather this process's memory into huge pages, where the kernel can (Linux 6.1): forks copy fewer entries.

    Measured: a fork and its end take 24 ms of CPU before and 7 ms after, for 0.2 s here.
    """
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
    with open("/proc/self/maps") as file:
        mappings = [line.split()[:2] for line in file]
    for span, permissions in mappings:
        start, end = (int(word, 16) for word in span.split("-"))
        start, end = -(-start // HUGE_PAGE) * HUGE_PAGE, end // HUGE_PAGE * HUGE_PAGE
        if permissions.startswith("rw") and permissions.endswith("p") and start < end:
            madvise(start, end - start, MADV_COLLAPSE)  # a refusal leaves the pages as they were


def _keep_groups_alive() -> None:
    """Some releases of torch deadlock when a process group's last reference goes in a forked child."""
    from torch.nn.parallel import DistributedDataParallel

    kept: list[object] = []
    original = DistributedDataParallel.__init__

    def remembering(self: DistributedDataParallel, *args: object, **kwargs: object) -> None:
        original(self, *args, **kwargs)  # type: ignore[arg-type]
        kept.append(self.process_group)

    remembering.__wrapped__ = original  # type: ignore[attr-defined]
    remembering.__doc__ = original.__doc__
    DistributedDataParallel.__init__ = remembering  # type: ignore[method-assign]


def _serve(control: socket.socket, isolated: bool, workspace: str) -> None:
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, Json] = {}
    while True:
        ready, _, _ = select.select([control.fileno(), wake_read], [], [])
        if wake_read in ready:
            os.read(wake_read, 4096)
        for pid in _reap(running):
            channel.send(control, {"op": "ended", "id": running.pop(pid)})
        if control.fileno() in ready:
            message = channel.receive(control)
            if message is None:
                return
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                for fd in (control.fileno(), wake_read, wake_write):
                    os.close(fd)
                _start(message, isolated, workspace)
            running[pid] = message.fields["id"]
            for fd in message.fds:
                os.close(fd)


def _reap(running: dict[int, Json]) -> list[int]:
    ended = []
    for pid in running:
        try:
            if os.waitpid(pid, os.WNOHANG)[0] == pid:
                ended.append(pid)
        except ChildProcessError:
            ended.append(pid)
    return ended


def _start(message: channel.Message, isolated: bool, workspace: str) -> None:
    """In the fork: make the run's namespaces, then become (or wait for) the supervisor of its processes."""
    status = socket.socket(fileno=message.fds[0])
    try:
        if isolated:
            confine.die_with_parent(signal.SIGKILL)
            confine.new_namespaces()
            child = os.fork()
            if child:
                status.close()
                os.waitpid(child, 0)
                os._exit(0)
            confine.die_with_parent(signal.SIGKILL)
        supervise(status, isolated=isolated, workspace=workspace)
    except BaseException as error:
        # The trusted side hears of it as a grader fault; unless it is what has gone, which Ctrl-C can bring about.
        with contextlib.suppress(OSError):
            channel.send_fault(status, error)
    finally:
        os._exit(0)
