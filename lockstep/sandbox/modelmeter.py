"""Measures what a model costs, on the CPU and without computing anything: multiplications, parameters, activations.

The numbers bound what a GPU can do with the model (lockstep.reports.physics). They run on tensors without values
(`FakeTensorMode`), so that a large network takes seconds and no memory; a model that looks at values is measured
on real ones.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from lockstep.wire import Json

BATCHES = 2, 4
"""Two batch sizes tell what grows with the batch from what does not; batch norm refuses a batch of one."""
PER_OUTPUT = 4
"""Multiplications that remain of a k x k convolution of stride 1 for each output and pair of channels.

Winograd's F(2x2, 3x3) needs 16 for four outputs (Lavin and Gray, arXiv 1509.09308); larger kernels are counted as
if an FFT came as low.
"""


def measure(model: nn.Module, input_shape: Sequence[int]) -> dict[str, Json]:
    """What one item of `input_shape` costs: see `lockstep.reports.model.ModelFacts`, whose JSON this is.

    Multiply-accumulates of convolutions, matrix products and attention as PyTorch's own table counts them (2
    operations each); of anything else none. Saved bytes are those of the distinct storages that autograd keeps
    until backward, parameters and buffers left out; under AMP with bfloat16 on the CPU, which has the size of
    float16. Raises whatever the model raises.
    """
    training = model.training
    model.train()
    try:
        return _measured(model, tuple(input_shape))
    finally:
        model.train(training)


def _measured(model: nn.Module, shape: tuple[int, ...]) -> dict[str, Json]:
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), _without_values(model):
            return _figures(model, shape)
    except Exception:
        # Whatever it is that does not work without values: with values it works, or raises the model's own error.
        return _figures(model, shape)


def _figures(model: nn.Module, shape: tuple[int, ...]) -> dict[str, Json]:
    few, many = BATCHES
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    saved: dict[str, Json] = {}
    fixed: dict[str, Json] = {}
    for precision in ("fp32", "amp"):
        with MacCounter() as counted:
            small, seen = _saved(model, torch.rand(few, *shape), precision == "amp")
        if precision == "fp32":
            forward, outputs = counted, seen
        large, _ = _saved(model, torch.rand(many, *shape), precision == "amp")
        each = max(0, (large - small) // (many - few))
        saved[precision], fixed[precision] = each, max(0, small - few * each)
    with MacCounter() as backward:
        differentiable = [output.float().sum() for output in outputs if output.requires_grad]
        if differentiable:
            torch.autograd.grad(differentiable, trained, allow_unused=True)
    classes = outputs[0].shape[1] if len(outputs) == 1 and outputs[0].dim() == 2 else None
    return {
        "macs": forward.macs // few,
        "macs_3x3": forward.macs_3x3 // few,
        "least_macs": math.floor(forward.least / few),
        "least_training_macs": math.floor((forward.least + backward.least) / few),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "saved_bytes": saved,
        "fixed_bytes": fixed,
        "classes": classes,
    }


class MacCounter(TorchDispatchMode):
    """Adds up the multiply-accumulates of whatever is computed while it is on."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.macs = 0
        self.macs_3x3 = 0
        self.least = 0.0
        """What remains with the fastest algorithm for each convolution."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        count = flop_registry.get(func.overloadpacket)
        if count is not None:
            if func.overloadpacket is torch.ops.aten.convolution_backward:
                macs = _of_backward(args)
            else:
                macs = count(*args, **(kwargs or {}), out_val=result) // 2
            kernel = _fast_kernel(func.overloadpacket, args)
            self.macs += macs
            self.macs_3x3 += macs if kernel == 9 else 0
            self.least += macs * min(1.0, PER_OUTPUT / kernel) if kernel else macs
        return result


def _of_backward(args: Sequence[Any]) -> int:
    """Each gradient of a convolution, by its input and by its weight, costs what its forward pass did.

    PyTorch's own table forgets here that there are groups, and counts MobileNet's backward pass twenty times over.
    """
    grad, images, weight, transposed, wanted = args[0], args[1], args[2], args[7], args[10]
    forward = (images if transposed else grad).numel() * weight[0].numel()
    return int(forward * (bool(wanted[0]) + bool(wanted[1])))


def _fast_kernel(operator: Any, args: Sequence[Any]) -> int:
    """Size of the kernel (9 for 3x3) where a convolution may be had for less: two dimensions, stride 1, one group."""
    if operator is torch.ops.aten.convolution:
        weight, (stride, _, dilation, transposed, _, groups) = args[1], args[3:9]
    elif operator is torch.ops.aten.convolution_backward:
        weight, (stride, _, dilation, transposed, _, groups) = args[2], args[4:10]
    else:
        return 0
    plain = not transposed and groups == 1 and all(step == 1 for step in (*stride, *dilation))
    sizes = tuple(weight.shape[2:])
    return math.prod(sizes) if plain and len(sizes) == 2 and min(sizes) >= 3 else 0


def _saved(model: nn.Module, images: Tensor, amp: bool) -> tuple[int, list[Tensor]]:
    """Bytes of the distinct storages that autograd keeps after a forward pass, not the model's own; its outputs."""
    own = {tensor.untyped_storage()._cdata for tensor in (*model.parameters(), *model.buffers())}
    # Kept, so that no storage can take the place of one that was freed.
    kept: dict[int, Any] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            kept[storage._cdata] = storage
        return tensor

    with (
        _without_dropout(model),
        torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor),
        torch.autocast("cpu", dtype=torch.bfloat16, enabled=amp),
    ):
        outputs = _tensors(model(images))
        return sum(int(storage.nbytes()) for storage in kept.values()), outputs


@contextlib.contextmanager
def _without_dropout(model: nn.Module) -> Iterator[None]:
    """No dropout: on a CPU it keeps a mask of float32, on a GPU one of a byte per element."""
    layers = [m for m in model.modules() if isinstance(m, nn.modules.dropout._DropoutNd)]
    rates = [layer.p for layer in layers]
    original = functional.dropout
    for layer in layers:
        layer.p = 0.0
    functional.dropout = lambda tensor, *args, **kwargs: tensor
    try:
        yield
    finally:
        functional.dropout = original
        for layer, rate in zip(layers, rates, strict=True):
            layer.p = rate


@contextlib.contextmanager
def _without_values(model: nn.Module) -> Iterator[None]:
    """Put tensors without values in the place of the model's own, until the block ends; inside a FakeTensorMode."""
    replaced: list[tuple[dict[str, Tensor | None], str, Tensor]] = []
    fakes: dict[int, Tensor] = {}
    try:
        for module in model.modules():
            for table in (module._parameters, module._buffers):
                slots = cast(dict[str, Tensor | None], table)
                for name, tensor in slots.items():
                    if tensor is not None:
                        replaced.append((slots, name, tensor))
                        # Tied weights stay tied.
                        slots[name] = fakes.setdefault(id(tensor), _fake(tensor))
        yield
    finally:
        for slots, name, tensor in replaced:
            slots[name] = tensor


def _fake(tensor: Tensor) -> Tensor:
    fake = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="cpu")
    return nn.Parameter(fake, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else fake


def _tensors(outputs: object) -> list[Tensor]:
    """The tensors in what a model returned: one, or several in a tuple, list or dict."""
    if isinstance(outputs, Tensor):
        return [outputs]
    if isinstance(outputs, Mapping):
        outputs = tuple(outputs.values())
    if isinstance(outputs, tuple | list):
        return [tensor for output in outputs for tensor in _tensors(output)]
    return []
