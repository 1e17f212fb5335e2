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
"""Of convolutions in one dimension as well; who has oneDNN calls neither."""
LOW = (torch.float16, torch.bfloat16)

_registered: list[torch.library.Library] = []  # as long as this lives, torch calls them


def install() -> None:
    """Replace both for this process and its forks; once."""
    if _registered:
        return
    library = torch.library.Library("aten", "IMPL")
    for name in KERNELS:
        kernel = torch.library.get_kernel(f"aten::{name}", "CPU")
        library.impl(name, _in_float32(kernel.call_boxed), "CPU", with_keyset=True, allow_override=True)
    _registered.append(library)


def _in_float32(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel for tensors of any type from one that is slow for those of 16 bits, which come first."""

    def run(keys: object, *arguments: Any) -> Any:
        kind = arguments[0].dtype
        if kind not in LOW:
            return kernel(keys, *arguments)
        answer = kernel(keys, *(_cast(value, torch.float32) for value in arguments))
        return (
            tuple(_cast(value, kind) for value in answer)
            if isinstance(answer, tuple)
            else _cast(answer, kind)
        )

    return run


def _cast(value: Any, kind: torch.dtype) -> Any:
    return value.to(kind) if isinstance(value, torch.Tensor) else value
