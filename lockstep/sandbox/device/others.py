"""The rest of torch that looks at devices: choosing optimizer kernels, default tensor types."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim import optimizer

from lockstep.sandbox.device.machine import Machine
from lockstep.sandbox.device.marks import CPU, index_of

_NAMES = "Float Double Half BFloat16 Byte Char Short Int Long Bool".split()


def patch_torch(machine: Machine) -> None:
    """Replace the remaining functions that would look for a real GPU."""
    # On a GPU the multi-tensor kernels are the default: their rounding differs from the CPU's default ones.
    machine.patches.set(optimizer, "_get_foreach_kernels_supported_devices", list)
    machine.patches.set(torch.backends.cudnn, "is_acceptable", lambda tensor: False)
    for name in _NAMES:
        machine.patches.set(torch.cuda, f"{name}Tensor", _legacy_type(machine, f"{name}Tensor"))
    for kind in (nn.RNNBase, nn.LSTM):
        machine.patches.set(kind, "check_forward_args", _same_device(kind.check_forward_args))
    machine.patches.set(torch, "ctc_loss", _with_lengths_of_cpu(machine, torch.ctc_loss))
    machine.patches.set(torch.jit, "trace", _unwatched(torch.jit.trace))
    real = torch.set_default_tensor_type

    def set_default_tensor_type(kind: Any) -> None:
        name = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__name__}"
        if name.startswith("torch.cuda."):
            torch.set_default_dtype(getattr(torch, name.rsplit(".", 1)[-1]).dtype)
            torch.set_default_device("cuda")
        else:
            torch.set_default_device(None)
            real(kind)

    machine.patches.set(torch, "set_default_tensor_type", set_default_tensor_type)


def _same_device(real: Callable[..., None]) -> Callable[..., None]:
    """What CUDA checks before a recurrent network, whose single steps are all that is seen of it here."""

    def check_forward_args(self: nn.RNNBase, data: torch.Tensor, hidden: Any, batch_sizes: Any) -> None:
        states = hidden if isinstance(hidden, tuple) else (hidden,)
        weights = [weight for weight in self._flat_weights if weight is not None]
        for what, others in (("hidden", states), ("parameter", weights)):
            for other in others:
                if index_of(other) != index_of(data):
                    raise RuntimeError(
                        f"Input and {what} tensors are not at the same device, found input tensor at "
                        f"{data.device} and {what} tensor at {other.device}"
                    )
        real(self, data, hidden, batch_sizes)

    return check_forward_args


def _with_lengths_of_cpu(machine: Machine, real: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """`torch.ctc_loss`, which takes targets and lengths from anywhere."""

    def ctc_loss(log_probs: torch.Tensor, targets: torch.Tensor, *rest: Any, **named: Any) -> torch.Tensor:
        here = max(index_of(log_probs), CPU)
        lengths = [machine.move(part, here) if isinstance(part, torch.Tensor) else part for part in rest[:2]]
        return real(log_probs, machine.move(targets, here), *lengths, *rest[2:], **named)

    return ctc_loss


def _unwatched(real: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.jit.trace`, as of `SummaryWriter.add_graph`: it takes what a mode sees of a convolution for constants."""

    @functools.wraps(real)
    def trace(*args: Any, **kwargs: Any) -> Any:
        with torch._C._DisableTorchDispatch():
            return real(*args, **kwargs)

    return trace


def _legacy_type(machine: Machine, name: str) -> type:
    """`torch.cuda.FloatTensor` and its like: makes tensors, and `isinstance` knows them."""
    plain = getattr(torch, name)

    class Meta(type):
        def __call__(cls, *args: Any, **kwargs: Any) -> torch.Tensor:
            made: torch.Tensor = plain(*args, **kwargs)
            return machine.put(made, machine.current)

        def __instancecheck__(cls, instance: object) -> bool:
            return (
                isinstance(instance, torch.Tensor)
                and index_of(instance) >= 0
                and instance.dtype == plain.dtype
            )

    return Meta(name, (), {"__module__": "torch.cuda", "dtype": plain.dtype, "is_cuda": True})
