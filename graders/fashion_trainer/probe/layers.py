"""Whether a network is dense layers and nothing else, as seen by what backward would go through."""

from __future__ import annotations

import torch
from torch import nn

# No view is among them: a convolution that is made by hand out of patches needs one.
DENSE = frozenset(
    f"{name}Backward0"
    for name in (
        "Addmm", "Mm", "T", "Add", "Mul", "Relu", "LeakyRelu", "Elu", "Gelu", "Silu", "Tanh", "Sigmoid",
        "NativeBatchNorm", "NativeDropout", "Softmax", "LogSoftmax",
    )
) | {"torch::autograd::AccumulateGrad"}  # fmt: skip
MOST_STEPS = 200


def is_dense(module: nn.Module, output: torch.Tensor) -> bool:
    """Whether an answer came of whole pictures by matrices and by what is done to each number by itself."""
    if any(held.ndim > 2 for held in (*module.parameters(), *module.buffers())):
        return False
    left, names, seen = [output.grad_fn], set[str](), set[object]()
    while left and len(seen) < MOST_STEPS:
        step = left.pop()
        if step is None or step in seen:
            continue
        seen.add(step)
        names.add(step.name())
        left += [before for before, _ in step.next_functions]
    return not left and "AddmmBackward0" in names and names <= DENSE
