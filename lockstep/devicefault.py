"""How torch says that a tensor was not where it is needed: what a run on a GPU, emulated or not, ended with."""

from __future__ import annotations

import re

_WORDS = re.compile(
    r"same device|should be the same|can't convert cuda|either on cpu or on the same|device type for generator"
)
_NO_SUCH_GPU = re.compile(r"invalid device ordinal|Invalid device id")
NO_BACKEND = "No backend type associated with device type cpu"
"""What a collective says whose group is NCCL's, and whose tensor is on the CPU."""


def is_device_fault(message: str) -> bool:
    """Whether what a run ended with is that something was not on the device where it was needed.

    An emulated GPU can fail in other ways as well, which are no fault of the code that runs on it.
    """
    return _WORDS.search(message) is not None


def names_no_gpu(message: str) -> bool:
    """Whether what a run ended with is that it asked for a GPU of a number that is not there."""
    return _NO_SUCH_GPU.search(message) is not None
