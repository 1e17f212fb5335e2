"""What the script hands to its cross-entropy."""

from __future__ import annotations

from typing import Any

import torch

from lockstep.sandbox.probing import Inputs, Observation, Student
from lockstep.wire import Array

from .script import run_script

STEPS = 4


def into_the_loss(student: Student, inputs: Inputs) -> Observation:
    """Run the script for some batches: the outputs of which it computes a cross-entropy to learn from."""
    arrays: dict[str, Array | torch.Tensor] = {}
    # What nn.CrossEntropyLoss and every name of F.cross_entropy come to.
    original = torch._C._nn.cross_entropy_loss

    def noted(outputs: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if torch.is_grad_enabled() and outputs.requires_grad and outputs.ndim == 2:
            if len(arrays) == STEPS:
                student.answer(Observation({}, arrays))
            arrays[f"outputs{len(arrays)}"] = outputs.detach().float().clone()
        return original(outputs, *args, **kwargs)

    torch._C._nn.cross_entropy_loss = noted  # type: ignore[assignment]
    run_script(student, inputs)
    return Observation({}, arrays)
