"""Small substitutions that let right but old-fashioned or GPU-bound student code run on this machine.

Each one is noted as an event, so that the student can be told what to modernise.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

Note = Callable[..., None]


def install(note: Note) -> None:
    """Put every substitution in place, in a rank and before student code is loaded."""
    _gloo_for_nccl(note)
    _generated_data_sets()


def _gloo_for_nccl(note: Note) -> None:
    """Without a GPU `nccl` cannot work; the same program with gloo is what the student meant."""
    import torch
    import torch.distributed as dist
    from torch.distributed import distributed_c10d

    if torch.cuda.is_available():
        return
    original = distributed_c10d.init_process_group

    @functools.wraps(original)
    def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> Any:
        if isinstance(backend, str) and "nccl" in backend:
            note("shim", name="nccl")
            backend = "gloo"
            kwargs.pop("device_id", None)
        return original(backend, *args, **kwargs)

    distributed_c10d.init_process_group = init_process_group
    dist.init_process_group = init_process_group


def _generated_data_sets() -> None:
    """Torchvision knows data sets by their checksums; generated ones of the same format have others."""
    import os

    from torchvision.datasets import cifar, mnist

    def exists(fpath: Any, md5: str | None = None) -> bool:
        return os.path.isfile(fpath)

    for module in (cifar, mnist):
        if hasattr(module, "check_integrity"):
            module.check_integrity = exists
