"""The process group that `setup` makes."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import cast

import torch
import torch.distributed as dist

from lockstep.sandbox.device import Machine, home
from lockstep.sandbox.gpus import gpus
from lockstep.sandbox.probing import Inputs, Observation, Student, kind
from lockstep.wire import Json

from .lab import Lab


def join(student: Student, inputs: Inputs) -> Observation:
    """setup(), then one collective of each rank's own number: only a group that works can add them up."""
    with emulated_machine(inputs) as machine:
        return _join(student, inputs, machine)


def emulated_machine(inputs: Inputs) -> contextlib.AbstractContextManager[Machine | None]:
    """The GPUs that the judge wants this process to have, if any."""
    count = inputs.values.get("gpus")
    return gpus(cast(int, count)) if count else contextlib.nullcontext()


def _join(student: Student, inputs: Inputs, machine: Machine | None) -> Observation:
    lab = Lab(student)
    chosen: dict[str, str] = {}
    if "meeting" in inputs.values:
        # A file of this run alone: what an earlier one left in it would be taken for its ranks.
        meeting = os.path.join(tempfile.gettempdir(), str(inputs.values["meeting"]))
        chosen["init_method"] = f"file://{meeting}"
    if "backend" in inputs.values:
        chosen["backend"] = str(inputs.values["backend"])
    shown = ", ".join(f"{name}={value!r}" for name, value in chosen.items())
    device = lab.call("setup", shown=shown, **chosen)
    values: dict[str, Json] = {"device": _device(device), "initialized": dist.is_initialized()}
    if dist.is_initialized():
        # gloo stands in for nccl on emulated GPUs.
        backend = "nccl" if machine is not None and machine.nccl_asked_for else _backend()
        total = inputs.tensor("number")
        if backend == "nccl":
            total = total.cuda()
        with student.calling("adding up one number of each rank after setup()"):
            dist.all_reduce(total)
        values |= {
            "rank": dist.get_rank(),
            "world_size": dist.get_world_size(),
            "backend": backend,
        }
        return Observation(values, {"total": home(total)})
    return Observation(values)


def _backend() -> str:
    """The backend of the group; where it was left to torch, the one that torch took for this machine."""
    name = str(dist.get_backend())
    # torch before 2.15 names the backends of all devices at once.
    config = str(dist.get_backend_config()) if name == dist.Backend.UNDEFINED else name
    if ":" not in config:
        return name
    chosen = dict(pair.split(":") for pair in config.split(","))
    return chosen.get("cuda" if torch.cuda.is_available() else "cpu", name)


def _device(device: object) -> Json:
    """`cuda:1` for a device or its name; a plain `cuda` means the one that was made the current one."""
    if type(device) is torch.device:
        device = str(device)
    if type(device) is not str:
        return {"type": kind(device)}
    if device == "cuda":
        return f"cuda:{torch.cuda.current_device()}"
    return device
