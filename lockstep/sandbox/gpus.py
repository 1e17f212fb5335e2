"""The GPUs that a check runs on: real ones where the grading was asked to use them, else emulated ones."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

REAL_GPUS = "LOCKSTEP_REAL_GPUS"
"""How many real GPUs this run may use; not set where there are none."""


@contextlib.contextmanager
def gpus(count: int) -> Iterator[None]:
    """Give this process `count` GPUs until the block ends; before any student code that looks for them.

    CUDA must not have been started in this process.
    """
    if not 0 < count <= int(os.environ.get(REAL_GPUS, "0")):
        from lockstep.sandbox.device import emulated_gpus

        with emulated_gpus(count):
            yield
        return
    # Runs see no GPU unless they ask, so that whatever else a check does happens on the CPU.
    hidden = os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    try:
        yield
    finally:
        if hidden is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = hidden
