"""Convolutions in 16 bits on processors that cannot compute them: what torch does there takes too long to grade.

Where a CPU lacks AVX-512, oneDNN refuses them and torch goes through loops of its own. Layers as a small ResNet
has them took 3 to 80 times as long in bfloat16 as in float32 there (AMD EPYC of 2021, torch 2.15), and right work ran
into the limits of its checks. So these two kernels compute in float32 and round once, as such instructions do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

KERNELS = ("_slow_conv2d_forward", "_slow_conv2d_backward.output_mask")
"""Of convolutions in one dimension as well; what oneDNN takes, nearly all there is in float32, goes to neither."""
LOW = (torch.float16, torch.bfloat16)

_registered: list[torch.library.Library] = []  # as long as these live, torch calls them


def install() -> None:
    """Replace both for this process and its forks."""
    # A machine with GPUs may have its own, older, build of torch, which does not hand out its kernels.
    if not hasattr(torch.library, "get_kernel"):
        return
    library = torch.library.Library("aten", "IMPL")
    for name in KERNELS:
        kernel = torch.library.get_kernel(f"aten::{name}", "CPU")
        library.impl(name, _in_float32(kernel.call_boxed), "CPU", with_keyset=True, allow_override=True)
    _registered.append(library)


def _in_float32(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel for tensors of any type from one that is slow for those of 16 bits; types that are mixed it refuses."""

    def run(keys: object, *arguments: Any) -> Any:
        first, *others = {argument.dtype for argument in arguments if isinstance(argument, torch.Tensor)}
        if others or first not in LOW:
            return kernel(keys, *arguments)
        return cast(kernel(keys, *cast(arguments, first, torch.float32)), torch.float32, first)

    return run


def cast(value: Any, old: torch.dtype, new: torch.dtype) -> Any:
    """A value with the tensors of one type in it, lists and tuples included, in another."""
    if isinstance(value, torch.Tensor):
        return torch.ops.aten._to_copy(value, dtype=new) if value.dtype == old else value
    if isinstance(value, list | tuple):
        return type(value)([cast(item, old, new) for item in value])
    return value
