"""Who sets the learning rate within an epoch trains rightly, and comes to other weights than judges compare with."""

from __future__ import annotations

from typing import Any

import torch

from lockstep.sandbox.probing import StudentMistake

# A schedule that comes back to the rate it began at may be off by its rounding.
ROUNDING = 1e-6


def keep_rate(optimizer: torch.optim.Optimizer) -> list[float]:
    """From now on a step is made at the rate that the optimizer has now, where the one set for it is no larger.

    The judge needs to be told nothing of the rates for that: weights that it expects are the same as ever. A larger
    rate, such as one that is multiplied by the world size, is used as it is, and what is no number as well. The list
    returned holds the rate that was set for each step made so far.
    """
    given = optimizer.param_groups[0]["lr"]
    rates: list[float] = []
    own: list[Any] = []

    def before_step(*_: object) -> None:
        own[:] = [group["lr"] for group in optimizer.param_groups]
        rates.append(float(own[0]))
        for group in optimizer.param_groups:
            if 0 <= group["lr"] <= given * (1 + ROUNDING):
                group["lr"] = given

    # Schedules go on from the rate that they find.
    def after_step(*_: object) -> None:
        for group, rate in zip(optimizer.param_groups, own, strict=True):
            group["lr"] = rate

    optimizer.register_step_pre_hook(before_step)
    optimizer.register_step_post_hook(after_step)
    return rates


def insist_on_a_rate(rates: list[float]) -> None:
    """A warm-up may begin at 0; who never comes further trains nothing, though here the steps were made."""
    if rates and not any(rates):
        raise StudentMistake(
            "train_one_epoch sets the optimizer's learning rate to 0 for every one of its steps: nothing is trained"
        )
