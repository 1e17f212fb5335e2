"""Gradients that pile up: those that an optimizer has used are still there when the next ones are added to them."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass
class _Used:
    """The gradients of one step; `stays`: no backward found one of them cleared or changed, and there was one."""

    gradients: list[tuple[torch.Tensor, torch.Tensor]]
    stays: bool = True
    backwards: int = 0


class Piling:
    """Watches the loop of a training_step that does it all by itself, or Lightning's, in which hooks have a say.

    Who clears them, by whatever means, does so before the backward that makes new ones. What others go on with, a tenth
    of the old ones for example, is no longer what was used.
    """

    def __init__(self) -> None:
        # Of each optimizer, for each of its steps but the last of an epoch: whether what it used was added to.
        self.stayed: list[bool] = []
        self._used: dict[int, _Used] = {}

    def forget(self) -> None:
        """An epoch has begun: Lightning has cleared the gradients for validation."""
        self._used.clear()

    def backward(self) -> None:
        """Gradients are about to be computed."""
        for used in self._used.values():
            used.backwards += 1
            # What several backwards add up for one step is not told apart from what was changed by hand.
            used.stays = used.stays and all(map(_is_untouched, used.gradients))

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer uses the gradients of its parameters: it is about to, or just has."""
        last = self._used.get(id(optimizer))
        if last is not None and last.backwards:
            self.stayed.append(last.stays)
        gradients = [
            (value, value.grad.detach().clone())
            for group in optimizer.param_groups
            for value in group["params"]
            if value.grad is not None and value.grad.layout == torch.strided
        ]
        is_something = any(bool(gradient.any()) for _, gradient in gradients)
        self._used[id(optimizer)] = _Used(gradients, stays=is_something)


def _is_untouched(pair: tuple[torch.Tensor, torch.Tensor]) -> bool:
    value, gradient = pair
    return value.grad is not None and torch.equal(value.grad, gradient)
