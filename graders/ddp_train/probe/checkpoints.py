"""Checkpoints: who writes them, when, and whether training goes on from them."""

from __future__ import annotations

import copy
import hashlib
import time
from collections.abc import Callable, Iterable
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from lockstep.sandbox.probing import Inputs, Observation, Student, plain, plain_tensor
from lockstep.wire import Array, Json

from .lab import Lab, clean_up, training_loader
from .nets import named_tensors, state_of
from .recorder import wrapped_model
from .training import train_once
from .waiting import hold_up, seen_to_wait
from .writes import Writes, fingerprint

CHECKPOINT = "checkpoint-of-a-check.pt"  # a name that nobody writes out


def save(student: Student, inputs: Inputs) -> Observation:
    """Twice an epoch of training and save_checkpoint; who opened the file to write, and what is in it then."""
    lab = Lab(student)
    lab.setup()
    recorder, wrapped, optimizer = wrapped_model(lab, inputs)
    recorder.watch(optimizer, wrapped)
    loader = training_loader(lab, inputs)
    last = cast(int, inputs.values["epoch"])
    is_second: list[bool] = []
    _slow_down_saving(inputs, is_second)

    def saved(epoch: int) -> str:
        lab.call("save_checkpoint", wrapped, optimizer, epoch, CHECKPOINT, shown=f"..., epoch={epoch}, path")
        return fingerprint(CHECKPOINT)

    train_once(lab, wrapped, loader, optimizer, last - 1)
    first = saved(last - 1)
    train_once(lab, wrapped, loader, optimizer, last)
    writes = Writes(CHECKPOINT)
    is_second.append(True)
    with seen_to_wait(inputs.rank):
        second = saved(last)
    wrote = writes.of_the_checkpoint(wrapped)
    values: dict[str, Json] = {
        **recorder.values(), "first": first, "second": second, "wrote": cast(Json, wrote[:10]),
        "direct": writes.over_the_last,
    }  # fmt: skip
    arrays = {**recorder.arrays(), **state_of(wrapped, "held")}
    if inputs.rank == 0 and second:
        with open(CHECKPOINT, "rb") as file:
            arrays["checkpoint"] = np.frombuffer(file.read(), dtype=np.uint8)
        with student.calling("reading the checkpoint back"):
            tensors = tensors_within(torch.load(CHECKPOINT, weights_only=False))
        values["keys"] = [name for name, _ in tensors[:1000]]
    clean_up(lab, inputs)
    return Observation(values, arrays)


def _slow_down_saving(inputs: Inputs, is_second: list[bool]) -> None:
    """Give ranks that do not wait for rank 0's file time to show it, and those that wait by the clock more of it."""
    if inputs.rank != 0 or inputs.world_size == 1:
        return

    def late(original: Callable[..., Any]) -> Callable[..., Any]:
        def save_late(*args: Any, **kwargs: Any) -> Any:
            time.sleep(0.25)
            if is_second:
                hold_up(inputs.world_size)
            return original(*args, **kwargs)

        return save_late

    for name in ("_open_zipfile_writer", "_legacy_save"):
        setattr(torch.serialization, name, late(getattr(torch.serialization, name)))


def tensors_within(value: object, depth: int = 0) -> list[tuple[str, torch.Tensor]]:
    """Tensors and arrays in a checkpoint by name, but not those of the optimizer's state whose names are numbers."""
    if isinstance(value, list | tuple):
        named = bool(value) and all(
            isinstance(item, list | tuple) and len(item) == 2 and isinstance(item[0], str) for item in value
        )
        value = dict(value if named else enumerate(value))
    if not isinstance(value, dict) or depth > 4:
        return []
    found: list[tuple[str, torch.Tensor]] = []
    for name, item in value.items():
        if isinstance(item, np.ndarray) and item.dtype.kind in "iuf":
            item = torch.from_numpy(item)
        if isinstance(item, torch.Tensor) and isinstance(name, str):
            found.append((name[:200], item))
        found += tensors_within(item, depth + 1)
    return found


def digests(tensors: Iterable[torch.Tensor]) -> frozenset[str]:
    """What tells the matrices and filters among them, which only steps change, from others."""
    arrays = [plain_tensor(value) for value in tensors if value.ndim >= 2 and value.is_floating_point()]
    return frozenset(hashlib.sha256(array.data).hexdigest() for array in arrays if array is not None)


def resume(student: Student, inputs: Inputs) -> Observation:
    """load_checkpoint into a fresh model and optimizer, then train on."""
    lab = Lab(student)
    lab.setup()
    recorder, wrapped, optimizer = wrapped_model(lab, inputs)
    before = copy.deepcopy(optimizer.state_dict())

    def load(model: nn.Module) -> Any:
        return lab.call("load_checkpoint", model, optimizer, CHECKPOINT, shown="model, optimizer, path")

    try:
        epoch = load(wrapped)
    except RuntimeError:
        # Loading before wrapping is as good; a file with plain keys then fits the inner model alone.
        optimizer.load_state_dict(before)
        epoch = load(getattr(wrapped, "module", wrapped))
    # From here on: to load a state, torch.distributed.checkpoint makes one first, by a step that changes nothing.
    recorder.watch(optimizer, wrapped)
    held = state_of(wrapped, "held")
    if inputs.world_size > 1:
        held |= _momentum(optimizer, wrapped)
    loader = training_loader(lab, inputs)
    train_once(lab, wrapped, loader, optimizer, cast(int, inputs.values["epoch"]) + 1)
    arrays = {**recorder.arrays(), **held, **state_of(wrapped, "final")}
    clean_up(lab, inputs)
    return Observation({**recorder.values(), "epoch": plain(epoch)}, arrays)


def _momentum(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Array | torch.Tensor]:
    states = {name: optimizer.state.get(value, {}) for name, value in named_tensors(model)}
    kept = {name: state.get("momentum_buffer") for name, state in states.items()}
    return {f"momentum/{name}": v.detach().clone() for name, v in kept.items() if isinstance(v, torch.Tensor)}


def tensors_in(name: str) -> list[tuple[str, torch.Tensor]]:
    """The tensors in a file by name; none where torch does not read it."""
    try:
        return tensors_within(torch.load(name, weights_only=False, map_location="cpu"))
    except Exception:
        return []


def counts_batches(name: str, value: torch.Tensor) -> bool:
    """Whether it is where a BatchNorm counts the batches that it was trained on."""
    return name.endswith("num_batches_tracked") and value.ndim == 0 and not value.is_floating_point()
