"""How torch says that a tensor was not where it is needed: what a run on a GPU, emulated or not, ended with."""

from __future__ import annotations

import re

_WORDS = re.compile(r"same device|should be the same|can't convert cuda|either on cpu or on the same")
NO_BACKEND = "No backend type associated with device type cpu"
"""What a collective says whose group is NCCL's, and whose tensor is on the CPU."""


def is_device_fault(message: str) -> bool:
    """Whether what a run ended with is that something was not on the device where it was needed.

    An emulated GPU can fail in other ways as well, which are no fault of the code that runs on it.
    """
    return _WORDS.search(message) is not None
