"""Small substitutions that let right but old-fashioned or GPU-bound student code run on this machine.

Each one is noted as an event, so that the student can be told what to modernise.
"""

from __future__ import annotations

import contextlib
import functools
import getpass
import importlib
import operator
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

from lockstep.sandbox import gpus, library_spellings, lightning_spellings, unscripted, wandb_spellings

Note = Callable[..., None]
MEETING_SECONDS = 5.0
CORES = 2  # that every machine on which work is graded has
AGAIN_SECONDS = 0.1  # for when two changes leave the number of sockets as it was
LISTENING = "0A"  # TCP_LISTEN in /proc/net/tcp


def install(note: Note) -> None:
    """Put every substitution in place, in a rank and before student code is loaded."""
    _gloo_for_nccl(note)
    _meet_at_once()
    _rendezvous_without_a_diary()
    _generated_data_sets()
    _lazy_modules_move()
    _nothing_is_compiled(note)
    unscripted.install(_once(note, "compile"))
    _as_many_cores_everywhere()
    _one_thread_each()
    _no_more_open_files()
    _as_at_a_terminal()
    lightning_spellings.install(note)
    wandb_spellings.install(note)
    library_spellings.install(note)


def _gloo_for_nccl(note: Note) -> None:
    """Without a GPU `nccl` cannot work; the same program with gloo is what the student meant."""
    import torch
    import torch.distributed as dist
    from torch.distributed import distributed_c10d

    original = distributed_c10d.init_process_group

    @functools.wraps(original)
    def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> Any:
        # Whether there are GPUs is not asked before: CUDA would know for good that there are none yet.
        if names_nccl(backend) and not gpus.are_real():
            note("shim", name="nccl", gpu=torch.cuda.is_available())
            backend = "gloo"
            kwargs.pop("device_id", None)
        return original(backend, *args, **kwargs)

    distributed_c10d.init_process_group = init_process_group
    dist.init_process_group = init_process_group


def cuda_calls_stay(note: Note) -> None:
    """Let `.cuda()` leave tensors and modules where they are while there is no GPU.

    For probes of exercises that do not ask whether code runs on any device.
    """
    import torch

    tell = _once(note, "cuda")

    def staying(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def cuda(self: Any, *args: Any, **kwargs: Any) -> Any:
            # Asked anew, because a probe may emulate GPUs for a while.
            if torch.cuda.is_available():
                return original(self, *args, **kwargs)
            tell()
            return self

        return cuda

    for owner in (torch.Tensor, torch.nn.Module):
        owner.cuda = staying(owner.cuda)  # type: ignore[method-assign]


def _once(note: Note, name: str) -> Callable[[], None]:
    """Note a substitution when it is first used; it may be for every batch."""

    @functools.cache
    def tell() -> None:
        note("shim", name=name)

    return tell


def _lazy_modules_move() -> None:
    """Let what stands in for a method of torch.Tensor, here or in a probe, take the parameters of lazy modules as well.

    They refuse all but a few methods of theirs, which torch knows by identity: `.to` would be one no more.
    """
    from torch.nn import parameter

    lazy: Any = vars(parameter)["UninitializedTensorMixin"]

    class ByName(list[Callable[..., Any]]):
        def __contains__(self, function: object) -> bool:
            return getattr(function, "__name__", None) in names

    names = {function.__name__ for function in lazy._allowed_methods}
    lazy._allowed_methods = ByName(lazy._allowed_methods)


def _nothing_is_compiled(note: Note) -> None:
    """What `torch.compile` makes is what it would be, and runs as it was written: no result is another for that.

    To compile a ResNet-18 on two cores takes longer than most runs may.
    """
    import torch

    original = torch.compile
    tell = _once(note, "compile")

    @functools.wraps(original)
    def compile(model: Any = None, **options: Any) -> Any:
        if model is None:
            return lambda function: compile(function, **options)
        tell()
        torch.compiler.set_stance("force_eager")
        # The backends take half a second of CPU to be imported, in every process, and none will be asked.
        frames: Any = importlib.import_module("torch._dynamo.eval_frame")
        look_up, frames.get_compiler_fn = frames.get_compiler_fn, lambda backend: backend
        try:
            return original(model, backend=_as_written, disable=options.get("disable", False))
        finally:
            frames.get_compiler_fn = look_up

    torch.compile = compile


def _as_written(graph: Any, inputs: Any) -> Any:
    """A backend of torch.compile, which wants one where nothing is compiled as well."""
    return graph


def _as_many_cores_everywhere() -> None:
    """Whoever starts a process for each core starts as many on every machine, not more than a run may hold on some.

    Nor is anybody warned, and ended where warnings are errors, for more workers than there are cores here.
    """
    from torch.utils.data import DataLoader

    os.cpu_count = lambda: CORES
    DataLoader.check_worker_number_rationality = lambda self: None  # type: ignore[method-assign]


def _one_thread_each() -> None:
    """Whoever sets numbers of threads is told them again, and goes on computing with one.

    Four threads where other runs have the cores as well wait for one another ten times as long as one computes. And
    torch lets nobody set the number between operators, as a script may, in a fork of what has computed before.
    """
    import torch

    # Where torch has to do it itself for each thread of a fork, several at a time, it can fail: "Invalid thread pool!"
    compute_with_one = functools.partial(torch.set_num_threads, 1)
    compute_with_one()
    _only_remember("num_threads", compute_with_one)
    _only_remember("num_interop_threads", lambda: None)


def _only_remember(number: str, after: Callable[[], object]) -> None:
    import torch

    remembered, refuse = 1, getattr(torch, f"set_{number}")

    def set_number(count: int) -> None:
        nonlocal remembered
        if operator.index(count) < 1:
            refuse(count)
        remembered = operator.index(count)
        after()

    def get_number() -> int:
        return remembered

    setattr(torch, f"set_{number}", set_number)
    setattr(torch, f"get_{number}", get_number)


def _no_more_open_files() -> None:
    """Whoever asks for room for more open files, as advised where workers run out of it, keeps what a run has."""
    original = resource.setrlimit

    @functools.wraps(original)
    def setrlimit(which: int, limits: Any, /) -> None:
        try:
            original(which, limits)
        except ValueError:
            most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            if which != resource.RLIMIT_NOFILE:
                raise
            original(which, tuple(min(wanted, most) for wanted in limits))

    resource.setrlimit = setrlimit


def _as_at_a_terminal() -> None:
    """How wide the terminal is, and who sits there: without one Python has no answer, and a script would end."""
    measure = os.get_terminal_size

    @functools.wraps(measure)
    def get_terminal_size(*fd: int) -> os.terminal_size:
        with contextlib.suppress(OSError):
            return measure(*fd)
        return os.terminal_size((80, 24))

    os.get_terminal_size = get_terminal_size
    os.getlogin = getpass.getuser


def names_nccl(word: object) -> bool:
    """Whether it asks for NCCL, alone or as in `cpu:gloo,cuda:nccl`; a name that is misspelt torch refuses itself."""
    names = word.lower().split(",") if isinstance(word, str) else []
    return any(name.rpartition(":")[2].strip() == "nccl" for name in names)


def _meet_at_once() -> None:
    """Let a rank that comes before rank 0's store listens look again at once; torch itself waits 0.5 s and more."""
    # torch.distributed exports a function of the module's name.
    rendezvous: Any = sys.modules["torch.distributed.rendezvous"]
    original = rendezvous._create_c10d_store

    @functools.wraps(original)
    def create(hostname: str, port: int, rank: int, *args: Any, **kwargs: Any) -> Any:
        if rank != 0:
            _await_listener(port)
        return original(hostname, port, rank, *args, **kwargs)

    rendezvous._create_c10d_store = create


def _rendezvous_without_a_diary() -> None:
    """torchrun asks who called each step of its rendezvous, for events that nobody receives here.

    It does so by the source of every frame on the stack, which takes a second of CPU with as many modules as a
    warm process has; the frame itself knows the name.
    """
    rendezvous: Any = sys.modules.get("torch.distributed.elastic.rendezvous.dynamic_rendezvous")
    if hasattr(rendezvous, "get_method_name"):
        rendezvous.get_method_name = lambda depth=2: sys._getframe(depth).f_code.co_name


def _await_listener(port: int) -> None:
    """Return when some process listens on a port, or after MEETING_SECONDS."""
    until = time.monotonic() + MEETING_SECONDS
    before, again = "", 0.0
    while (now := time.monotonic()) < until:
        # To look through the tables of sockets takes the kernel 14 ms of CPU, to count them a hundredth of one.
        sockets = _sockets()
        if sockets != before or now > again:
            if _listens(port):
                return
            before, again = sockets, now + AGAIN_SECONDS
        time.sleep(0.001)


def _sockets() -> str:
    """How many sockets of TCP this network has, in the kernel's words: one that begins to listen changes it."""
    counted = ""
    for counts in ("/proc/net/sockstat", "/proc/net/sockstat6"):
        with contextlib.suppress(OSError), open(counts) as file:
            counted += "".join(line for line in file if line.startswith("TCP"))
    return counted


def _listens(port: int) -> bool:
    """Whether some process of this network waits for connections on a port; asking does not connect."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), open(table) as file:
            for line in list(file)[1:]:
                words = line.split()
                if words[3] == LISTENING and int(words[1].rpartition(":")[2], 16) == port:
                    return True
    return False


def _generated_data_sets() -> None:
    """Torchvision knows data sets by their checksums; generated ones of the same format have others."""
    import os

    from torchvision.datasets import cifar, mnist

    def exists(fpath: Any, md5: str | None = None) -> bool:
        return os.path.isfile(fpath)

    for module in (cifar, mnist):
        if hasattr(module, "check_integrity"):
            module.check_integrity = exists
