"""What GradScaler itself says when its calls are in the wrong order, and what is then missing."""

from __future__ import annotations

from lockstep.check import Check
from lockstep.verdict import CheckEnded

COMPLAINTS = {
    "unscale_() has already been called": "unscale_ divides the gradients by the scale, and would do so twice: call "
    "scaler.unscale_(optimizer) once in a step, right before the clipping.",
    "unscale_() is being called after step()": "scaler.step(optimizer) has used the gradients by then: "
    "scaler.unscale_(optimizer) and the clipping stand between backward and it.",
    "since the last update()": "scaler.update() has to follow scaler.step(optimizer) in every training step, with "
    "its brackets.",
    "No inf checks were recorded for": "scaler.step(optimizer) found no gradients: backward() comes before it, with "
    "its brackets and no zero_grad in between, and the optimizer must hold the parameters of the very model that is "
    "trained.",
    "No inf checks were recorded prior": "scaler.update() goes by what scaler.step(optimizer) found: call step first, "
    "then update, in every training step.",
    "_scale is None": "First comes scaler.scale(loss).backward(), and only then scaler.unscale_(optimizer) and "
    "scaler.step(optimizer).",
    "unscale FP16 gradients": "The parameters are fp16 themselves. Leave the model in fp32: autocast casts what it "
    "needs.",
}


def explain(check: Check, ended: CheckEnded) -> None:
    """End the check with a better hint, where it ended with one of GradScaler's complaints."""
    for words, hint in COMPLAINTS.items():
        if words in ended.feedback.message:
            check.fail(ended.feedback.message, hint)
