"""What tensors, storages and factories do with devices: the part of torch that would call CUDA from C++."""

from __future__ import annotations

import functools
import re
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils import _device

from lockstep.sandbox.device.machine import Machine
from lockstep.sandbox.device.marks import CPU, LOOSE, index_of, mark_storage, storage_index, tensors_in
from lockstep.sandbox.device.mixing import type_name
from lockstep.sandbox.lately import imported_since

_LIKE = "empty_like zeros_like ones_like full_like rand_like randn_like randint_like".split()
_NEW = "new_tensor new_zeros new_ones new_full new_empty new_empty_strided new".split()
_FREE = "normal from_file".split()
_OF_TENSORS = re.compile(r"tensor$|as_tensor|asarray|normal|sparse_")
_TAKING_DATA = (torch.as_tensor, torch.asarray)
_CAPTURING = ("torchmetrics", "torchvision", "lightning", "pytorch_lightning", "torch.utils.data")
_CAPTURED = frozenset(
    "tensor as_tensor zeros ones full empty arange linspace eye rand randn randint randperm".split()
)
_captured: list[tuple[types.ModuleType, str]] = []
_looked_at = ""
_PINNED = "_lockstep_pinned"


def patch_tensors(machine: Machine) -> None:
    """Replace what torch.Tensor, the storages and the factory functions do with devices."""
    _patch_properties(machine)
    _patch_moves(machine)
    _patch_values(machine)
    _patch_storages(machine)
    _patch_factories(machine)


def _patch_properties(machine: Machine) -> None:
    base = torch._C.TensorBase
    real_device: Any = base.device

    def device(self: torch.Tensor) -> torch.device:
        index = index_of(self)
        return machine.devices[index] if index >= 0 else real_device.__get__(self)

    def get_device(self: torch.Tensor) -> int:
        return max(index_of(self), CPU)

    def is_pinned(self: torch.Tensor, device: object = None) -> bool:
        return index_of(self) < 0 and getattr(self.untyped_storage(), _PINNED, False)

    def pin_memory(self: torch.Tensor, device: object = None) -> torch.Tensor:
        if index_of(self) >= 0:
            raise RuntimeError(f"cannot pin '{type_name(self)}' only dense CPU tensors can be pinned")
        if is_pinned(self):
            return self
        machine.touch()
        pinned = self.clone()
        setattr(pinned.untyped_storage(), _PINNED, True)
        return pinned

    tensor = functools.partial(machine.patches.set, torch.Tensor)
    tensor("device", property(device))
    tensor("is_cuda", property(lambda self: index_of(self) >= 0))
    tensor("is_cpu", property(lambda self: index_of(self) < 0 and real_device.__get__(self).type == "cpu"))
    tensor("get_device", get_device)
    tensor("is_pinned", is_pinned)
    tensor("pin_memory", pin_memory)
    tensor("record_stream", lambda self, stream: None)
    machine.patches.set(torch, "get_device", get_device)


def _patch_moves(machine: Machine) -> None:
    base = torch._C.TensorBase
    real_to, real_type = base.to, base.type

    def to(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        rest = dict(kwargs)
        copy = bool(rest.pop("copy", False))
        first = args[0] if args else rest.get("other")
        if isinstance(first, torch.Tensor):
            words = {key: value for key, value in rest.items() if key != "other"}
            index = max(index_of(first), CPU)
            parts: Any = (
                machine.device(index),
                first.dtype,
                bool(words.get("non_blocking", args[1:2] == (True,))),
            )
            layout = words.get("memory_format")
        else:
            width = 2 if isinstance(first, torch.dtype) else 3
            copy = copy or (len(args) > width and bool(args[width]))
            *parsed, layout = torch._C._nn._parse_to(*args[:width], **rest)
            parts = tuple(parsed)
        device, dtype, non_blocking = parts
        if device is not None and device.type not in ("cpu", "cuda"):
            return real_to(self, *args, **kwargs)
        moved = self
        if device is not None:
            moved = machine.move(self, machine.index(device), blocking=not non_blocking)
        words = {} if layout is None else {"memory_format": layout}
        if copy and moved is self:
            words["copy"] = True
        if dtype is None and not words:
            return moved
        return real_to(moved, dtype=dtype or self.dtype, **words)

    def cuda(
        self: torch.Tensor, device: object = None, non_blocking: bool = False, memory_format: Any = None
    ) -> torch.Tensor:
        index = machine.index(device)
        if index == CPU:
            raise RuntimeError("Invalid device, must be cuda device")
        moved = machine.move(self, index)
        return moved if memory_format is None else moved.contiguous(memory_format=memory_format)

    def cpu(self: torch.Tensor, memory_format: Any = None) -> torch.Tensor:
        moved = machine.move(self, CPU)
        return moved if memory_format is None else moved.contiguous(memory_format=memory_format)

    def type_(self: torch.Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        if dtype is None:
            return type_name(self) if index_of(self) >= 0 else real_type(self)
        if isinstance(dtype, torch.dtype):
            return real_to(self, dtype=dtype)
        name = dtype if isinstance(dtype, str) else f"{dtype.__module__}.{dtype.__name__}"
        wanted = getattr(torch, name.rsplit(".", 1)[-1]).dtype
        index = machine.current if name.startswith("torch.cuda.") else CPU
        moved = machine.move(self, index)
        return real_to(moved, dtype=wanted)

    def type_as(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return to(self, other)

    tensor = functools.partial(machine.patches.set, torch.Tensor)
    tensor("to", to)
    tensor("cuda", cuda)
    tensor("cpu", cpu)
    tensor("type", type_)
    tensor("type_as", type_as)


def _patch_values(machine: Machine) -> None:
    base: Any = torch._C.TensorBase
    real_numpy, real_tolist = base.numpy, base.tolist

    def numpy(self: torch.Tensor, *, force: bool = False) -> Any:
        index = index_of(self)
        if index < 0:
            return real_numpy(self, force=force)
        if force:
            return real_numpy(machine.move(self.detach(), CPU), force=True)
        raise TypeError(
            f"can't convert cuda:{index} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to "
            "host memory first."
        )

    def tolist(self: torch.Tensor) -> Any:
        if (index := index_of(self)) >= 0:
            machine.clock.wait(index, "tolist", explicit=False)
        return real_tolist(self)

    real_set, real_grad = base.__setitem__, base.grad

    def set_item(self: torch.Tensor, key: Any, value: Any) -> None:
        real_set(self, _on_device_of(machine, self, key), value)

    def set_grad(self: torch.Tensor, grad: Any) -> None:
        if isinstance(grad, torch.Tensor) and max(index_of(grad), CPU) != max(index_of(self), CPU):
            ours, others = ("cpu" if index_of(tensor) < 0 else "cuda" for tensor in (self, grad))
            raise RuntimeError(
                f"attempting to assign a gradient with device type '{others}' to a tensor with device type '{ours}'. "
                "Please ensure that the gradient and the tensor are on the same device"
                if ours != others
                else "assigned grad has data located on a different device"
            )
        real_grad.__set__(self, grad)

    def get_grad(self: torch.Tensor) -> torch.Tensor | None:
        found: torch.Tensor | None = real_grad.__get__(self)
        # Autograd makes zeros of its own for what was not used.
        if found is not None and index_of(found) == LOOSE:
            machine.put(found, max(index_of(self), CPU))
        # Autograd brings the gradient of a number home, which may be on the CPU beside tensors of a GPU.
        if found is not None and not found.dim() and index_of(found) >= 0 and index_of(self) == CPU:
            found = machine.copy(found, CPU)
            real_grad.__set__(self, found)
        return found

    grad = property(get_grad, set_grad, real_grad.__delete__)
    machine.patches.set(torch.Tensor, "__setitem__", set_item)
    machine.patches.set(torch.Tensor, "grad", grad)
    machine.patches.set(torch.Tensor, "numpy", numpy)
    machine.patches.set(torch.Tensor, "tolist", tolist)


def _on_device_of(machine: Machine, tensor: torch.Tensor, key: Any) -> Any:
    """An index with its masks where the tensor is, to write by: torch takes those of any device."""
    if isinstance(key, tuple):
        return tuple(_on_device_of(machine, tensor, part) for part in key)
    here = max(index_of(tensor), CPU)
    if here >= 0 and _is_list_of_places(key):
        key = torch.as_tensor(key)
    if not isinstance(key, torch.Tensor):
        return key
    index = max(index_of(key), CPU)
    return machine.move(key, here) if index != here and key.dim() else key


def _is_list_of_places(key: Any) -> bool:
    if isinstance(key, np.ndarray):
        return key.dtype.kind in "iub"
    return (
        isinstance(key, list) and len(key) > 0 and all(isinstance(place, int | np.integer) for place in key)
    )


def _patch_storages(machine: Machine) -> None:
    kind: Any = torch.UntypedStorage
    base: Any = torch._C.StorageBase
    real_device = base.device

    def device(self: torch.UntypedStorage) -> torch.device:
        index = storage_index(self)
        return machine.devices[index] if index >= 0 else real_device.__get__(self)

    def copied(self: torch.UntypedStorage, index: int) -> torch.UntypedStorage:
        with torch._C._DisableTorchDispatch():
            made: torch.UntypedStorage = kind(self.nbytes())
            made.copy_(self)
        if index >= 0:
            machine.touch()
        mark_storage(made, index, machine.memory)
        return made

    def to(
        self: torch.UntypedStorage, *, device: Any = None, non_blocking: bool = False
    ) -> torch.UntypedStorage:
        index = machine.index(device)
        return self if storage_index(self) == index else copied(self, index)

    storage = functools.partial(machine.patches.set, kind)
    storage("device", property(device))
    storage("is_cuda", property(lambda self: storage_index(self) >= 0))
    storage("get_device", lambda self: storage_index(self))
    storage("to", to)
    storage("cpu", lambda self: to(self, device="cpu"))
    storage("cuda", lambda self, device=None, non_blocking=False: to(self, device=device))
    storage("clone", lambda self: copied(self, storage_index(self)))


def _patch_factories(machine: Machine) -> None:
    constructors: set[Any] = _device._device_constructors()
    names = [function.__name__ for function in constructors]
    for name in [*_FREE, *(name for name in names if getattr(torch, name, None) in constructors)]:
        machine.patches.set(torch, name, _factory(machine, getattr(torch, name)))
    _patch_captured(machine)
    for name in ("fftfreq", "rfftfreq"):
        machine.patches.set(torch.fft, name, _factory(machine, getattr(torch.fft, name)))
    for name in _LIKE:
        machine.patches.set(torch, name, _maker_like(machine, getattr(torch, name)))
    for name in _NEW:
        machine.patches.set(torch.Tensor, name, _maker_like(machine, getattr(torch._C.TensorBase, name)))

    def through(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What `with torch.device(...)` and `torch.set_default_device` do to a call."""
        kwargs = dict(kwargs or {})
        if func in constructors and kwargs.get("device") is None:
            return make(machine, func, self.device, args, kwargs)
        return func(*args, **kwargs)

    machine.patches.set(_device.DeviceContext, "__torch_function__", through)


def _patch_captured(machine: Machine) -> None:
    find_captured()
    for module, name in _captured:
        machine.patches.set(module, name, getattr(torch, name))


def find_captured() -> None:
    """Find libraries that did `from torch import tensor` before now: they hold torch's own function.

    What was looked at once is not looked at again, so that forks have little to do where the server has looked.
    """
    global _looked_at
    names = imported_since(_looked_at)
    for module in [sys.modules.get(name) for name in names if name.startswith(_CAPTURING)]:
        if isinstance(module, types.ModuleType):
            held = {name: vars(module).get(name) for name in _CAPTURED}
            _captured.extend(
                (module, name) for name in held if isinstance(held[name], types.BuiltinFunctionType)
            )
    _looked_at = names[0] if names else _looked_at


def make(machine: Machine, func: Callable[..., Any], device: Any, args: Any, kwargs: Any) -> Any:
    """Call a factory function for a device that the student named."""
    kind = torch.device(device) if isinstance(device, str | int) else device
    if isinstance(kind, torch.device) and kind.type not in ("cpu", "cuda"):
        return func(*args, **{**kwargs, "device": kind})
    index = machine.index(kind)
    machine.draw(kwargs.get("generator"), index)
    if index >= 0:
        machine.touch()
    # The device stays named, so that one that is the default does not take its place.
    kwargs = {key: "cpu" if key == "device" else value for key, value in kwargs.items()}
    pinned = kwargs.pop("pin_memory", False)
    try:
        made = func(*args, **kwargs)
    except RuntimeError as error:
        if index >= 0:
            machine.memory.explain(error, index)
        raise
    if func in _TAKING_DATA:
        return machine.move(made, index)
    if max(index_of(made), CPU) != index or index_of(made) == LOOSE:
        machine.put(made, index)
    if pinned:
        setattr(made.untyped_storage(), _PINNED, True)
    return made


def _factory(machine: Machine, real: Callable[..., Any]) -> Callable[..., Any]:
    """A factory function that knows the emulated devices."""

    @functools.wraps(real)
    def factory(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("device") is not None or kwargs.get("pin_memory"):
            device = kwargs.get("device")
            return make(machine, real, device if device is not None else "cpu", args, kwargs)
        if "generator" in kwargs and not any(True for _ in tensors_in([*args, *kwargs.values()])):
            # A default device is not asked for by all of them.
            default = torch.get_default_device() if real in _device._device_constructors() else "cpu"
            machine.draw(kwargs["generator"], machine.index(default))
        made = real(*args, **kwargs)
        if isinstance(made, torch.Tensor) and index_of(made) == LOOSE:
            # Sizes and bounds are read, wherever they are.
            source = args[0] if args and _OF_TENSORS.match(real.__name__) else None
            machine.put(made, index_of(source) if isinstance(source, torch.Tensor) else CPU)
        return made

    return factory


def _maker_like(machine: Machine, real: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes a tensor like its first argument, on the same device unless told otherwise."""

    @functools.wraps(real)
    def maker(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.pop("device", None)
        source: Any = args[0] if args else kwargs.get("input", kwargs.get("self"))
        if device is not None and torch.device(device).type not in ("cpu", "cuda"):
            return real(*args, **kwargs, device=device)
        pinned = kwargs.pop("pin_memory", False)
        made = real(*args, **kwargs)
        index = max(index_of(source), CPU) if device is None else machine.index(device)
        if index_of(made) != index:
            machine.put(made, index)
        if pinned and index == CPU:
            setattr(made.untyped_storage(), _PINNED, True)
        return made

    return maker
