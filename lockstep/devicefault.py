"""How torch says that tensors of two devices met: what a run on a GPU, emulated or not, ended with."""

from __future__ import annotations

import re

_WORDS = re.compile(r"same device|should be the same|can't convert cuda|either on cpu or on the same")


def is_device_fault(message: str) -> bool:
    """Whether what a run ended with is that something was not on the device where it was needed.

    An emulated GPU can fail in other ways as well, which are no fault of the code that runs on it.
    """
    return _WORDS.search(message) is not None
