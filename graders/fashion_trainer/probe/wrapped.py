"""Tensors as torch.func hands them to a network."""

from __future__ import annotations

import torch
from torch._C import _functorch as functorch


def unwrapped(value: object) -> object:
    """The tensor inside of what torch.func hands to a model."""
    while isinstance(value, torch.Tensor) and functorch.is_functorch_wrapped_tensor(value):
        value = functorch.get_unwrapped(value)
    return value
