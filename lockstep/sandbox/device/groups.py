"""Process groups on emulated GPUs: gloo does the work of NCCL, and refuses what NCCL would."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import torch
from torch import distributed, nn
from torch.distributed import device_mesh, distributed_c10d

from lockstep.sandbox.device.machine import Machine
from lockstep.sandbox.device.marks import CPU, index_of, tensors_in
from lockstep.sandbox.shims import names_nccl

_COLLECTIVES = (
    "all_reduce reduce broadcast all_gather all_gather_into_tensor gather scatter reduce_scatter "
    "reduce_scatter_tensor all_to_all all_to_all_single send recv isend irecv"
).split()


def patch_groups(machine: Machine) -> None:
    """Let gloo stand in wherever NCCL, which needs real GPUs, is asked for."""
    _patch_makers(machine)
    _patch_wrapper(machine)
    for name in _COLLECTIVES:
        # Where torch calls them itself, for objects and for DistributedDataParallel, it knows them by another name.
        machine.patches.set(distributed, name, _only_of_gpus(machine, getattr(distributed, name)))
    machine.patches.set(distributed, "get_backend", _named(machine, distributed.get_backend))


def _patch_makers(machine: Machine) -> None:
    for name in ("init_process_group", "new_group"):
        real: Any = getattr(distributed, name)

        def through(*args: Any, real: Any = real, joins: bool = name != "new_group", **kwargs: Any) -> Any:
            backend = (args[0] if args else kwargs.get("backend")) if joins else kwargs.get("backend")
            if joins and backend is None:
                # That is what torch takes by itself where there are GPUs.
                args = ("nccl", *args[1:])
                kwargs.pop("backend", None)
            words = [*args, *kwargs.values()]
            machine.nccl_asked_for = machine.nccl_asked_for or any(map(names_nccl, words))
            if joins or backend is not None:
                # Left to torch, or given a backend for each kind of device, a group takes tensors of the CPU, too;
                # which of several groups a collective is for is not looked at.
                is_alone = isinstance(backend, str) and backend.lower() == "nccl"
                machine.only_nccl = is_alone and (joins or machine.only_nccl)
            changed = [_without_nccl(arg) for arg in args]
            if isinstance(kwargs.get("device_id"), torch.device):
                del kwargs["device_id"]
            return real(*changed, **{key: _without_nccl(value) for key, value in kwargs.items()})

        # A group may be made by each of its names, and `init_device_mesh` makes one where there is none.
        for module in (distributed, distributed_c10d, device_mesh):
            machine.patches.set(module, name, functools.wraps(real)(through))


def _without_nccl(word: Any) -> Any:
    return "gloo" if names_nccl(word) else word


def _only_of_gpus(machine: Machine, real: Any) -> Any:
    @functools.wraps(real)
    def through(*args: Any, **kwargs: Any) -> Any:
        if machine.only_nccl:
            tensors = list(tensors_in([*args, *kwargs.values()]))
            _refuse_cpu(tensors)
            if not all(tensor.is_contiguous() for tensor in tensors):
                raise ValueError("Tensors must be contiguous")
        return real(*args, **kwargs)

    return through


def _refuse_cpu(tensors: Iterable[torch.Tensor]) -> None:
    if any(index_of(tensor) == CPU for tensor in tensors):
        raise RuntimeError("No backend type associated with device type cpu")


def _patch_wrapper(machine: Machine) -> None:
    """Before it says anything to the other ranks, a wrapper hands them the shapes of its parameters."""
    kind = nn.parallel.DistributedDataParallel
    real: Any = kind._build_params_for_reducer

    def build(self: nn.parallel.DistributedDataParallel) -> Any:
        parameters, expect_sparse = real(self)
        if machine.only_nccl:
            _refuse_cpu(parameters)
        return parameters, expect_sparse

    machine.patches.set(kind, "_build_params_for_reducer", build)


def _named(machine: Machine, real: Any) -> Any:
    """Some move to the GPU what is to be added up only where the backend is called nccl."""

    @functools.wraps(real)
    def get_backend(*args: Any, **kwargs: Any) -> Any:
        name = real(*args, **kwargs)
        return "nccl" if machine.only_nccl else name

    return get_backend
