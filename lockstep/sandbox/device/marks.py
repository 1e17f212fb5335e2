"""Where a tensor is: a mark on its storage, which its views, `.data` and the tensors autograd saves share."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import torch

CPU = -1
# Made inside torch's own C++ with the options of some input: it belongs to whatever it meets first.
LOOSE = -2
_MARK = "_lockstep_mark"
_BLOCK = 512
# Sparse, lazy and wrapped tensors answer so when they are asked for their storage.
_NO_STORAGE = (NotImplementedError, RuntimeError, ValueError)


class Mark:
    """What hangs on a storage that is not simply on the CPU. `index` is a GPU's or LOOSE."""

    __slots__ = ("index", "memory", "size")

    def __init__(self, index: int, size: int = 0, memory: Memory | None = None) -> None:
        self.index = index
        self.size = size
        self.memory = memory

    def __del__(self) -> None:
        if self.memory is not None:
            self.memory.free(self.index, self.size)


class Memory:
    """The emulated allocator of all GPUs: bytes of the storages that live, and their limit per GPU."""

    def __init__(self, count: int, limit: int) -> None:
        self.limit = limit
        self.live = [0] * count
        self.peak = [0] * count

    def take(self, index: int, size: int) -> None:
        """Count a new storage. Raises torch.OutOfMemoryError where a GPU of this size would."""
        self.check(index, size)
        self.live[index] += size
        self.peak[index] = max(self.peak[index], self.live[index])

    def check(self, index: int, size: int) -> None:
        """Raise torch.OutOfMemoryError when so many bytes more do not fit."""
        if self.live[index] + size > self.limit:
            raise torch.OutOfMemoryError(self._refusal(index, size))

    def explain(self, error: RuntimeError, index: int) -> None:
        """Raise torch.OutOfMemoryError in place of what torch says when this computer's own memory is too small."""
        found = re.search(r"you tried to allocate (\d+) bytes", str(error))
        if found is not None:
            raise torch.OutOfMemoryError(self._refusal(index, int(found[1]))) from None

    def free(self, index: int, size: int) -> None:
        """A storage is gone."""
        self.live[index] -= size

    def _refusal(self, index: int, size: int) -> str:
        live, total = self.live[index], self.limit
        return (
            f"CUDA out of memory. Tried to allocate {_amount(size)}. GPU {index} has a total capacity of "
            f"{_amount(total)} of which {_amount(max(0, total - live))} is free. Including non-PyTorch memory, "
            f"this process has {_amount(live)} memory in use. Of the allocated memory {_amount(live)} is "
            f"allocated by PyTorch, and {_amount(0)} is reserved by PyTorch but unallocated. If reserved but "
            "unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "
            "fragmentation.  See documentation for Memory Management  "
            "(https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
        )


def _amount(size: int) -> str:
    """Bytes in the words that torch's allocator uses."""
    for unit, step in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= step:
            return f"{size / step:.2f} {unit}"
    return f"{size} bytes"


def index_of(tensor: torch.Tensor) -> int:
    """The GPU that holds a tensor, or CPU or LOOSE."""
    try:
        mark = getattr(tensor.untyped_storage(), _MARK, None)
    except _NO_STORAGE:
        mark = _holder(tensor).get(_MARK)
    return CPU if mark is None else mark.index


def _holder(tensor: torch.Tensor) -> dict[str, Any]:
    """What carries the mark of a tensor that has no storage to show: one inside it, or itself when it is sparse."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    try:
        with torch._C.DisableTorchFunctionSubclass():  # by which a buffer of a lazy module refuses
            return tensor.untyped_storage().__dict__
    except _NO_STORAGE:
        return tensor.__dict__


def _in_blocks(size: int) -> int:
    """What torch's allocator takes for so many bytes."""
    return -(-size // _BLOCK) * _BLOCK


def storage_index(storage: torch.UntypedStorage) -> int:
    """The GPU that holds a storage, or CPU."""
    mark = getattr(storage, _MARK, None)
    return CPU if mark is None or mark.index == LOOSE else mark.index


def mark_storage(storage: torch.UntypedStorage, index: int, memory: Memory) -> None:
    """Put a storage on a GPU, or back on the CPU, whatever it was."""
    if index == CPU:
        storage.__dict__.pop(_MARK, None)
        return
    size = _in_blocks(storage.nbytes())
    memory.take(index, size)
    storage.__dict__[_MARK] = Mark(index, size, memory)


def put(tensor: torch.Tensor, index: int, memory: Memory) -> None:
    """Say that a tensor and all that shares its storage is on a GPU, the CPU or LOOSE."""
    try:
        storage = tensor.untyped_storage()
        holder, size = storage.__dict__, _in_blocks(storage.nbytes())
    except _NO_STORAGE:
        holder, size = _holder(tensor), 0
    if index == CPU:
        holder.pop(_MARK, None)
    elif index == LOOSE:
        holder[_MARK] = _LOOSE
    else:
        memory.take(index, size)
        holder[_MARK] = Mark(index, size, memory)


def give(result: object, index: int, memory: Memory) -> None:
    """Mark what an operation made; what it only viewed or changed is marked already."""
    if isinstance(result, torch.Tensor):
        if index_of(result) < 0:
            put(result, index, memory)
    elif isinstance(result, list | tuple):
        for item in result:
            give(item, index, memory)


def tensors_in(values: Any) -> Iterator[torch.Tensor]:
    """The tensors among an operation's arguments, in order."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_in(value)


_LOOSE = Mark(LOOSE)
