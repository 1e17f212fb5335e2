"""Emulated GPUs: tensors that say `cuda:0`, hold their data on the CPU and refuse to mix with other devices.

Inside `with emulated_gpus(2):` this process has two GPUs as far as torch's Python side can tell. Tensors stay
plain `torch.Tensor` and `nn.Parameter`; a mark on their storage says where they are (marks), a dispatch
mode watches every operation, in backward too (machine, mixing), and what would start CUDA inside
C++ is replaced for the time being (tensors, cuda, parallel, groups, amp). Results are those
of the CPU, bit by bit. Random numbers come from the CPU's generator, whatever the device.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from lockstep.sandbox.device.amp import Autocast
from lockstep.sandbox.device.cuda import patch_cuda
from lockstep.sandbox.device.groups import patch_groups
from lockstep.sandbox.device.machine import DeviceMode, Machine
from lockstep.sandbox.device.others import patch_torch
from lockstep.sandbox.device.parallel import patch_parallel, slow_forwards
from lockstep.sandbox.device.tensors import patch_tensors

__all__ = ["Machine", "emulated_gpus", "home"]


@contextlib.contextmanager
def emulated_gpus(
    count: int = 1, *, lag: float | None = None, memory: int | None = None
) -> Iterator[Machine]:
    """Give this process `count` GPUs until the block ends; 0 takes away even those that it has.

    `lag`: every call of an outermost module keeps its GPU busy for that many seconds more, which only a
    synchronise or a value fetched to the CPU waits for. `memory`: bytes that fit on each GPU; more raises
    torch.OutOfMemoryError. What is yielded tells `synchronised` and `waits`, the calls that waited.

    Not to be nested. Tensors that outlive the block are CPU tensors then.
    """
    if torch.cuda.is_available.__module__ != "torch.cuda":
        raise RuntimeError("the emulated GPUs are there already")
    machine = Machine(count, memory)
    with contextlib.ExitStack() as stack:
        stack.callback(machine.patches.undo)
        patch_tensors(machine)
        patch_cuda(machine)
        patch_parallel(machine)
        patch_groups(machine)
        patch_torch(machine)
        autocast = Autocast(machine)
        stack.callback(autocast.remove)
        if lag is not None:
            stack.callback(slow_forwards(machine, lag))
        stack.enter_context(DeviceMode(machine))
        yield machine


def home(value: Any) -> Any:
    """The same value with plain CPU tensors, detached copies, in place of emulated ones.

    Goes through lists, tuples and dicts; a module becomes its state dict. Works after the block, too.
    """
    if isinstance(value, torch.Tensor):
        base: Any = torch._C.TensorBase
        with torch._C._DisableTorchDispatch():
            plain = value.detach()
            # What is really on a GPU comes home as well: the same probe serves both.
            return plain.clone() if base.device.__get__(value).type == "cpu" else base.cpu(plain)
    if isinstance(value, torch.nn.Module):
        return home(dict(value.state_dict()))
    if isinstance(value, dict):
        return {key: home(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [home(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value
