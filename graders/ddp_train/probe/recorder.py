"""What happens while an epoch is trained."""

from __future__ import annotations

from collections.abc import Container

import numpy as np
import torch
from torch import nn

from lockstep.sandbox.device import home
from lockstep.sandbox.probing import Inputs, plain_tensor
from lockstep.wire import Array, Json

from .lab import Lab, new_optimizer
from .nets import MAX_ROWS, named_tensors, new_model

FIRST_STEPS = range(4)


class Recorder:
    """What reached the model and the optimizer on this rank, in order."""

    def __init__(self, model: nn.Module) -> None:
        self.rows: list[Array] = []
        self.sizes: list[int] = []
        self.steps: list[int] = []
        self.gradients: dict[str, torch.Tensor] = {}
        # A function, not a method: with a copy of the model a method's recorder would be copied, too.
        model.register_forward_pre_hook(lambda _, args: self._fed(args))

    def _fed(self, args: tuple[object, ...]) -> None:
        batch = plain_tensor(home(args[0])) if args else None
        if batch is not None and batch.ndim >= 2 and sum(self.sizes) < MAX_ROWS:
            self.rows.append(batch.reshape(len(batch), -1))
            self.sizes.append(len(batch))

    def watch(
        self, optimizer: torch.optim.Optimizer, model: nn.Module, gradients_of: Container[int] = FIRST_STEPS
    ) -> None:
        """Note, at each step of the optimizer, how many batches came before it, and at some the gradients it used."""
        named = [(name, value) for name, value in named_tensors(model) if value.requires_grad]

        # After the step, because `optimizer.step(closure)` computes the gradients within.
        def after_step(*_: object) -> None:
            if len(self.steps) in gradients_of:
                for name, value in named:
                    if value.grad is not None:
                        self.gradients[f"grad{len(self.steps)}/{name}"] = home(value.grad.detach().clone())
            self.steps.append(len(self.sizes))

        optimizer.register_step_post_hook(after_step)

    def arrays(self) -> dict[str, Array | torch.Tensor]:
        """The rows, one after the other, and the gradients."""
        rows = np.concatenate(self.rows) if self.rows else np.zeros((0, 1), np.float32)
        return {"rows": rows, **self.gradients}

    def values(self) -> dict[str, Json]:
        """The sizes of the batches, and how many batches came before each step."""
        return {"sizes": list(self.sizes), "steps": list(self.steps)}


def wrapped_model(lab: Lab, inputs: Inputs) -> tuple[Recorder, nn.Module, torch.optim.SGD]:
    """The judge's network as the student wraps it, with what records it from before that, and its optimizer."""
    model = new_model(inputs)
    recorder = Recorder(model)
    wrapped = lab.wrap(model)
    return recorder, wrapped, new_optimizer(inputs, wrapped)
