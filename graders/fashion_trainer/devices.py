"""Code that cannot do without a GPU: how it is known, and what to write instead."""

from __future__ import annotations

import re

from lockstep.verdict import CheckEnded, Crashed

# A GPU is told to be missing in many words; all of them name CUDA.
NEEDS_GPU = re.compile(r"cuda|nvidia", re.IGNORECASE)

DEVICE_LINE = "return torch.device('cuda' if torch.cuda.is_available() else 'cpu')"
GUARD_HINT = (
    "Ask first: torch.cuda.is_available() says whether there is a GPU. Send things to `device` with .to(device) "
    "instead of .cuda(), and call torch.cuda functions only where device.type is 'cuda'."
)


def wants_gpu(ended: CheckEnded) -> bool:
    """Whether a run without a GPU ended for want of one."""
    message = ended.feedback.message
    # Of a device that is misspelt torch lists all that there are.
    return (
        isinstance(ended, Crashed)
        and "device string" not in message
        and NEEDS_GPU.search(message) is not None
    )
