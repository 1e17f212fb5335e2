"""Work that is spread over emulated GPUs: copies between them for `nn.DataParallel`, and threads."""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.cuda import comm as cuda_comm
from torch.nn.parallel import comm

from lockstep.sandbox.device.machine import DeviceMode, Machine
from lockstep.sandbox.device.marks import index_of


def patch_parallel(machine: Machine) -> None:
    """Replace the copies that `nn.DataParallel` makes, and let threads see the emulated GPUs."""
    _patch_copies(machine)
    _patch_threads(machine)


def _patch_copies(machine: Machine) -> None:
    def broadcast(tensor: torch.Tensor, devices: Any = None, *, out: Any = None) -> tuple[torch.Tensor, ...]:
        if out is not None:
            for target in out:
                target.copy_(tensor)
            return tuple(out)
        return tuple(machine.move(tensor.detach(), machine.index(device)) for device in devices)

    def broadcast_coalesced(
        tensors: Sequence[torch.Tensor], devices: Sequence[Any], buffer_size: int = 0
    ) -> list[list[torch.Tensor]]:
        indices = [machine.index(device) for device in devices]
        for tensor in tensors:
            if index_of(tensor) != indices[0]:
                raise RuntimeError("all tensors must be on devices[0]: " + str(indices[0]))
        return [[machine.move(tensor.detach(), index) for tensor in tensors] for index in indices]

    def scatter(
        tensor: torch.Tensor,
        devices: Any = None,
        chunk_sizes: Sequence[int] | None = None,
        dim: int = 0,
        streams: Any = None,
        *,
        out: Any = None,
    ) -> tuple[torch.Tensor, ...]:
        targets = out if out is not None else devices
        split: Any = tensor.split
        parts = tensor.chunk(len(targets), dim) if chunk_sizes is None else split(list(chunk_sizes), dim)
        if out is not None:
            for target, part in zip(out, parts, strict=True):
                target.copy_(part)
            return tuple(out)
        return tuple(
            machine.move(part, machine.index(device), blocking=False)
            for part, device in zip(parts, devices, strict=False)
        )

    def gather(
        tensors: Sequence[torch.Tensor], dim: int = 0, destination: Any = None, *, out: Any = None
    ) -> torch.Tensor:
        first = tensors[0]
        dim = dim % first.dim() if first.dim() else dim
        for position, tensor in enumerate(tensors):
            expected = [
                *first.shape[:dim],
                tensor.shape[dim] if dim < tensor.dim() else 0,
                *first.shape[dim + 1 :],
            ]
            if list(tensor.shape) != expected:
                raise RuntimeError(
                    f"Input tensor at index {position} has invalid shape {list(tensor.shape)}, but expected {expected}"
                )
        index = machine.index(destination)
        joined = torch.cat([machine.move(tensor, index) for tensor in tensors], dim)
        if out is None:
            return joined
        out.copy_(joined)
        return out  # type: ignore[no-any-return]

    for copy in (broadcast, broadcast_coalesced, scatter, gather):
        machine.patches.set(comm, copy.__name__, copy)
        if hasattr(cuda_comm, copy.__name__):
            machine.patches.set(cuda_comm, copy.__name__, copy)
    # Remembered from one call to the next, with streams of a machine that is gone by then.
    machine.patches.set(nn.parallel._functions, "_streams", None)


class _InTurn(threading.Thread):
    """A thread that is done when it has started."""

    def start(self) -> None:
        super().start()
        self.join()


def _patch_threads(machine: Machine) -> None:
    """A dispatch mode belongs to one thread: others that start meanwhile get their own.

    The replicas of `nn.DataParallel` run in threads of their own as ever, but one after the other, so that
    random numbers and whatever else they share come out the same every time.
    """
    start = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def bootstrap(self: threading.Thread) -> None:
        with DeviceMode(machine):
            start(self)

    machine.patches.set(threading.Thread, "_bootstrap_inner", bootstrap)
    replicas = types.SimpleNamespace(Thread=_InTurn, Lock=threading.Lock)
    machine.patches.set(sys.modules["torch.nn.parallel.parallel_apply"], "threading", replicas)


def slow_forwards(machine: Machine, lag: float) -> Callable[[], None]:
    """Let every outermost module call queue work on the GPU of its result; returns what ends it."""
    depth = threading.local()

    def before(module: nn.Module, args: Any) -> None:
        if not isinstance(module, nn.DataParallel):
            depth.value = getattr(depth, "value", 0) + 1

    def after(module: nn.Module, args: Any, result: Any) -> None:
        if isinstance(module, nn.DataParallel):
            return
        depth.value -= 1
        if depth.value == 0:
            found = _first_tensor(result)
            if found is not None and (index := index_of(found)) >= 0:
                machine.clock.queue(index, lag)

    hooks = (
        nn.modules.module.register_module_forward_pre_hook(before),
        nn.modules.module.register_module_forward_hook(after, always_call=True),
    )

    def end() -> None:
        for hook in hooks:
            hook.remove()

    return end


def _first_tensor(value: Any) -> torch.Tensor | None:
    if isinstance(value, torch.Tensor):
        return value
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return next((found for item in items if (found := _first_tensor(item)) is not None), None)
