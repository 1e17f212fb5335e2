"""What GradScaler itself says when its calls are in the wrong order, and what is then missing."""

from __future__ import annotations

from lockstep.check import Check
from lockstep.verdict import CheckEnded

COMPLAINTS = {
    "since the last update()": "scaler.update() has to follow scaler.step(optimizer) in every training step.",
    "No inf checks were recorded": "scaler.update() goes by what scaler.step(optimizer) found: call step first, then "
    "update; and the optimizer must hold the parameters of the very model that is trained.",
    "_scale is None": "The loss has to be scaled before backward: scaler.scale(loss).backward().",
    "unscale FP16 gradients": "The parameters are fp16 themselves. Leave the model in fp32: autocast casts what it "
    "needs.",
}


def explain(check: Check, ended: CheckEnded) -> None:
    """End the check with a better hint, where it ended with one of GradScaler's complaints."""
    for words, hint in COMPLAINTS.items():
        if words in ended.feedback.message:
            check.fail(ended.feedback.message, hint)
