"""The emulated GPUs' state: how many, which one is current, their memory, their clocks, what was changed in torch."""

from __future__ import annotations

import os
import re
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.parameter import UninitializedBuffer
from torch.utils._python_dispatch import TorchDispatchMode

from lockstep.sandbox.device.marks import CPU, LOOSE, Memory, give, index_of, put, tensors_in
from lockstep.sandbox.device.mixing import (
    common_device,
    refuse_generator,
    refuse_lengths,
    refuse_whole_numbers,
)
from lockstep.sandbox.lowprecision import LOW, cast

DEFAULT_MEMORY = 16 << 30
MAX_RECORDS = 100_000
MOST_QUEUED = 64  # calls of a model; a driver has room for about a thousand kernels, of which each takes some
_UNSET = object()


class Patches:
    """Attributes that were replaced, to be put back in the end."""

    def __init__(self) -> None:
        self._old: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Replace an attribute of a module or class, or add one."""
        self._old.append((owner, name, vars(owner).get(name, _UNSET)))
        setattr(owner, name, value)

    def undo(self) -> None:
        """Put everything back, the latest first."""
        while self._old:
            owner, name, value = self._old.pop()
            if value is _UNSET:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


@dataclass(frozen=True)
class Wait:
    """The program waited for a GPU: what it called, since when, how long, by `time.perf_counter()`.

    `explicit` tells a call that only waits, such as `torch.cuda.synchronize()`, from one that fetches a value.
    """

    call: str
    device: int
    start: float
    seconds: float
    explicit: bool


class Clock:
    """Until when each GPU is busy with the work that was queued."""

    def __init__(self, count: int) -> None:
        self.busy_until = [0.0] * count
        # When each piece of work that is not done yet will be.
        self.queued: list[deque[float]] = [deque() for _ in range(count)]
        self.waits: list[Wait] = []
        self.queries = 0

    def queue(self, index: int, seconds: float) -> float:
        """Work follows what is queued; returns when it will be done.

        As a driver does, it lets nobody queue without end: who warms up for a second, waiting for nothing, would else
        wait for minutes afterwards.
        """
        queued = self.queued[index]
        while queued and queued[0] <= time.perf_counter():
            queued.popleft()
        if len(queued) >= MOST_QUEUED:
            time.sleep(max(0.0, queued.popleft() - time.perf_counter()))
        self.busy_until[index] = self.done_at(index) + seconds
        queued.append(self.busy_until[index])
        return self.busy_until[index]

    def done_at(self, index: int) -> float:
        """When all that is queued by now will be done."""
        return max(self.busy_until[index], time.perf_counter())

    def wait(self, index: int, call: str, explicit: bool, until: float | None = None) -> None:
        """Sleep until a GPU has done its work and note the call."""
        start = time.perf_counter()
        left = (self.busy_until[index] if until is None else until) - start
        if left > 0:
            time.sleep(left)
        if len(self.waits) < MAX_RECORDS:
            self.waits.append(Wait(call, index, start, time.perf_counter() - start, explicit))


class Machine:
    """A computer with `count` emulated GPUs."""

    def __init__(self, count: int, memory: int | None) -> None:
        self.count = count
        self.clock = Clock(count)
        self.memory = Memory(count, memory or DEFAULT_MEMORY)
        self.patches = Patches()
        self.devices = [torch.device("cuda", index) for index in range(count)]
        self.cpu = torch.device("cpu")
        self.pid = os.getpid()
        # Of what drawn numbers come from, by its address: torch hands it on as another object, which says `cpu`.
        self.generators: dict[int, int] = {}
        self.used = False
        self.nccl_asked_for = False
        self.only_nccl = False  # the groups take no tensor of the CPU
        self._local = threading.local()

    @property
    def waits(self) -> list[Wait]:
        """Every call that waited for a GPU, in order."""
        return self.clock.waits

    @property
    def synchronised(self) -> list[Wait]:
        """The calls made to wait: `synchronize` of torch.cuda, torch.accelerator, events and streams."""
        return [wait for wait in self.clock.waits if wait.explicit]

    @property
    def current(self) -> int:
        """The GPU that plain "cuda" means; every thread has its own."""
        return getattr(self._local, "current", 0)

    @current.setter
    def current(self, index: int) -> None:
        self._local.current = index

    @property
    def asked(self) -> int:
        """How often the program waited for a GPU, or asked a stream or an event whether it is done."""
        return len(self.clock.waits) + self.clock.queries

    def enqueue(self, seconds: float, device: object = None) -> float:
        """Keep a GPU busy for so long behind what it has to do already, without waiting for it.

        Returns when it will be done, by `time.perf_counter()`.
        """
        return self.clock.queue(self.index(device), seconds)

    def device(self, index: int) -> torch.device:
        """The device of an index as marks write it."""
        return self.cpu if index < 0 else self.devices[index]

    def index(self, device: Any) -> int:
        """The index of a device given in any of the ways that torch takes; CPU for the CPU.

        Raises torch.AcceleratorError when there is no such GPU.
        """
        if device is None:
            device = self.current
        if isinstance(device, str):
            device = torch.device(device)
        if isinstance(device, torch.device):
            if device.type == "cpu":
                return CPU
            if device.type != "cuda":
                raise RuntimeError(f"lockstep's emulated computer has no {device.type} device")
            number = self.current if device.index is None else device.index
        else:
            number = int(device)
            if number < 0:
                return self.current
        if not self.count:
            raise RuntimeError("No CUDA GPUs are available")
        if not 0 <= number < self.count:
            raise torch.AcceleratorError(
                "CUDA error: invalid device ordinal\n"
                "GPU device may be out of range, do you have enough GPUs?\n"
                "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace "
                "below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
                "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
            )
        return number

    def gpu(self, device: Any) -> int:
        """The index of a GPU, where no other device will do. Raises ValueError for the CPU."""
        if (index := self.index(device)) == CPU:
            raise ValueError(f"Expected a cuda device, but got: {device}")
        return index

    def touch(self) -> None:
        """Something is put on a GPU. Raises RuntimeError in a forked child, as CUDA does."""
        if os.getpid() != self.pid and self.used:
            raise RuntimeError(
                "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use "
                "the 'spawn' start method"
            )
        self.used = True

    def draw(self, generator: torch.Generator | None, index: int) -> None:
        """Random numbers are drawn on a device. Raises RuntimeError where the generator is another device's."""
        # The default generator, which is not among them, stands for that of every device.
        place = None if generator is None else self.generators.get(generator._cdata)  # type: ignore[attr-defined]
        if place is not None:
            refuse_generator(place, index)

    def put(self, tensor: torch.Tensor, index: int) -> torch.Tensor:
        """Say where a tensor that was just made is."""
        if index >= 0:
            self.touch()
        put(tensor, index, self.memory)
        return tensor

    def move(self, tensor: torch.Tensor, index: int, *, blocking: bool = True) -> torch.Tensor:
        """A tensor on another device; gradients find their way back. The tensor itself when it is there already."""
        source = max(index_of(tensor), CPU)
        if source == index:
            return tensor
        if source >= 0 and index == CPU and blocking:
            self.clock.wait(source, "cpu", explicit=False)
        if tensor.requires_grad and torch.is_grad_enabled():
            moved: torch.Tensor = _ToCopy.apply(tensor, self, source, index)
            return moved
        return self.copy(tensor, index)

    def copy(self, tensor: torch.Tensor, index: int) -> torch.Tensor:
        """A copy on another device, outside of autograd."""
        with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunctionSubclass():
            copied = tensor.detach().clone()
            if isinstance(tensor, UninitializedBuffer):  # which a lazy module goes on with
                copied = copied.as_subclass(UninitializedBuffer)
        return self.put(copied, index)


class _ToCopy(torch.autograd.Function):
    """A copy between devices whose gradient is copied the other way."""

    generate_vmap_rule = True

    @staticmethod
    def forward(tensor: torch.Tensor, machine: Machine, source: int, index: int) -> torch.Tensor:
        return machine.copy(tensor, index)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        _, ctx.machine, ctx.source, _ = inputs

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return ctx.machine.move(grads[0], ctx.source, blocking=False), None, None, None


class DeviceMode(TorchDispatchMode):
    """Sees every operation below autograd: refuses mixed devices, says where results are."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._machine = machine

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here, so the handler needs no guard against it, which would cost time per call."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = list(tensors_in(args))
        if kwargs:
            tensors += tensors_in(kwargs.values())
        common, loose, mixed = LOOSE, False, False
        for tensor in tensors:
            index = index_of(tensor)
            if index == LOOSE:
                loose = True
            elif common == LOOSE:
                common = index
            elif index != common:
                mixed = True
        if mixed:
            common = common_device(func, args, kwargs)
        machine = self._machine
        if common != LOOSE and "generator" in kwargs:
            machine.draw(kwargs["generator"], common)
        if common >= 0:
            if func in _FETCHING:
                machine.clock.wait(common, func.overloadpacket.__name__, explicit=False)
            refuse_whole_numbers(func.overloadpacket.__name__, args)
        try:
            result = _run(func, args, kwargs)
        except RuntimeError as error:
            if common >= 0:
                machine.memory.explain(error, common)
            raise
        if loose and common != LOOSE:
            for tensor in tensors:
                if index_of(tensor) == LOOSE:
                    put(tensor, common, machine.memory)
        if common == LOOSE:
            for tensor in tensors_in((result,)):
                put(tensor, LOOSE, machine.memory)
        elif mixed and common == CPU:
            pass
        elif common >= 0:
            if func in _PARTLY_CPU:
                refuse_lengths(args[1])
                give(result[0], common, machine.memory)
            elif isinstance(result, list | tuple) and func.overloadpacket.__name__.startswith("_foreach_"):
                for made, given in zip(result, tensors_in([args[0]]), strict=False):
                    give(made, index_of(given), machine.memory)
            else:
                give(result, common, machine.memory)
        return result


def _run(func: Any, args: Any, kwargs: Any) -> Any:
    """Run on the CPU; what the CPU cannot do in half precision is done in single and rounded."""
    try:
        return func(*args, **kwargs)
    except (NotImplementedError, RuntimeError) as error:
        if not re.search(r"not implemented for '(Half|BFloat16)'", str(error)) or func._schema.is_mutable:
            raise
        half = next(t.dtype for t in tensors_in(args) if t.dtype in LOW)
        widened = cast(args, half, torch.float32)
        return cast(func(*widened, **kwargs), torch.float32, half)


_aten = torch.ops.aten
# What has to know a value, so that the CPU waits for the GPU.
_FETCHING = frozenset(
    [
        _aten._local_scalar_dense.default,
        _aten.nonzero.default,
        _aten.equal.default,
        _aten.masked_select.default,
        _aten._unique2.default,
        _aten.unique_dim.default,
    ]
)
# Their second result stays on the CPU.
_PARTLY_CPU = frozenset([_aten._pack_padded_sequence.default])
