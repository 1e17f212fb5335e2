"""The GPUs that a check runs on: real ones where the grading was asked to use them, else emulated ones."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockstep.sandbox.device import Machine

REAL_GPUS = "LOCKSTEP_REAL_GPUS"
"""How many real GPUs this run may use; not set where there are none."""
_real = False


def environment(real: int) -> dict[str, str]:
    """What a run is told of GPUs: it sees none before it asks for some, and so many of those may be `real`."""
    hidden = {"CUDA_VISIBLE_DEVICES": ""}
    return {**hidden, REAL_GPUS: str(real)} if real else hidden


def are_real() -> bool:
    """Whether this process was given real GPUs."""
    return _real


@contextlib.contextmanager
def gpus(count: int) -> Iterator[Machine | None]:
    """Give this process `count` GPUs until the block ends; before any student code that looks for them.

    What is yielded knows what was done with emulated ones; None stands for real ones.
    CUDA must not have been started in this process.
    """
    if not 0 < count <= int(os.environ.get(REAL_GPUS, "0")):
        from lockstep.sandbox.device import emulated_gpus

        with emulated_gpus(count) as machine:
            yield machine
        return
    # Runs see no GPU unless they ask, so that whatever else a check does happens on the CPU.
    global _real
    hidden = os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    _real = True
    try:
        yield None
    finally:
        _real = False
        if hidden is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = hidden
