"""Crashes that are usual in this exercise, and what to do about them."""

from __future__ import annotations

from typing import Any

from lockstep.check import Check
from lockstep.sandbox.outcome import Outcome
from lockstep.verdict import Crashed

# Kinds of crashes, by words of their messages.
CRASHES = {
    "process group": "DistributedDataParallel is another exercise: it needs a process for each GPU. Here one process "
    "serves them all: nn.DataParallel.",
    "channels, but got": "The batch is split, and that is the first dimension: nn.DataParallel(..., dim=0), which is "
    "the default.",
    "Caught ": "Each replica runs in a thread of its own, on one GPU, and ends with the call. It shares with the model "
    "what is put on the instance: a function there, such as a replaced `forward`, still means the first GPU's weights.",
    **{
        f"object has no attribute '{name}'": "Only the wrapper has that, nn.DataParallel(model, "
        "device_ids=device_ids): the model in it is its attribute `module`."
        for name in ("device_ids", "module", "output_device")
    },
    "'Net' object has no attribute": "What a replica's forward, or a hook on it, keeps in `self` is lost after the "
    "call: replicas are made anew for each. Work with what forward returns.",
    "is invalid for input of size": "A batch may have any size, and each GPU sees a part of it: take the size from the "
    "tensor, or use -1, where you reshape.",
    "device not ready": "Call torch.cuda.synchronize() before Event.elapsed_time: until the GPU has reached both "
    "events, there is no time between them.",
    "NVIDIA driver": "Ask torch.cuda.is_available() before anything that needs a GPU.",
}


def observe(check: Check, call: str, **inputs: Any) -> Outcome:
    """check.run, with hints for the crashes that are usual in this exercise."""
    try:
        return check.run(call, **inputs)
    except Crashed as crashed:
        told = crashed.feedback
        hints = [hint for words, hint in CRASHES.items() if words in told.message]
        ended = Crashed(told.message, hints[0] if hints else told.hint)
        ended.spoils = crashed.spoils
        raise ended from None
