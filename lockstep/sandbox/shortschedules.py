"""Schedules whose length is a part of all steps, where a check trains for a few.

`StepLR(optimizer, step_size=n_steps // 10)` divides by nothing then, and a warm-up of 500 steps is more than all of
them: `OneCycleLR(pct_start=500 / n_steps)` refuses it. A length of 0 is 1 here, and a share less than all.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from torch.optim import lr_scheduler

_LENGTHS: dict[type, tuple[str, ...]] = {
    lr_scheduler.StepLR: ("step_size",),
    lr_scheduler.CosineAnnealingLR: ("T_max",),
    lr_scheduler.CosineAnnealingWarmRestarts: ("T_0",),
    lr_scheduler.LinearLR: ("total_iters",),
    lr_scheduler.CyclicLR: ("step_size_up", "step_size_down"),
    lr_scheduler.OneCycleLR: (),
}
_SHARE = "pct_start"  # of OneCycleLR: how much of all steps the rate goes up
_NEARLY_ALL = 0.9  # with all, torch divides by nothing in the last one


def install() -> None:
    """Replace what makes them, for this process and its forks."""
    for schedule, lengths in _LENGTHS.items():
        schedule.__init__ = _one_at_least(schedule.__init__, lengths)  # type: ignore[misc]


def _one_at_least(construct: Callable[..., None], lengths: tuple[str, ...]) -> Callable[..., None]:
    signature = inspect.signature(construct)

    @functools.wraps(construct)
    def init(*args: Any, **kwargs: Any) -> None:
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError:  # as the call does
            return construct(*args, **kwargs)
        values = given.arguments
        changed: dict[str, float] = {
            name: 1 for name in lengths if type(values.get(name)) is int and values[name] == 0
        }
        share = values.get(_SHARE)
        if isinstance(share, int | float) and share > 1:
            changed[_SHARE] = _NEARLY_ALL
        if changed:
            values.update(changed)
            args, kwargs = given.args, given.kwargs
        return construct(*args, **kwargs)

    return init
