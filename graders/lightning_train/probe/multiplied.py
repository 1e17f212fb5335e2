"""What training_step logs that is its loss times the number of pictures in the batch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lockstep.wire import Json

from .logged import FEW, MAX_NAMES, number_of


@dataclass
class _Logged:
    value: float
    loss: float
    size: int
    times: int = 0
    is_multiple: bool = True


class Multiplied:
    """Which names were given that in every step that logged them."""

    def __init__(self) -> None:
        self._in_this_step: dict[str, float] = {}
        self._logged: dict[str, _Logged] = {}

    def note(self, name: str, value: object, reduced_by: object) -> None:
        """A step logs `value`; what is not to be averaged over the steps is another figure."""
        if len(self._in_this_step) < MAX_NAMES:
            self._in_this_step[name] = number_of(value) if reduced_by == "mean" else math.nan

    def step(self, loss: object, size: int) -> None:
        """The step has returned `loss`, of a batch of `size` pictures."""
        returned = number_of(loss)
        for name, value in self._in_this_step.items():
            if name not in self._logged and len(self._logged) < MAX_NAMES:
                self._logged[name] = _Logged(value, returned, size)
            if (logged := self._logged.get(name)) is not None:
                # Comparisons with NaN are false.
                is_multiple = size > 1 and abs(value - returned * size) <= 1e-3 * abs(value) and value != 0
                logged.is_multiple = logged.is_multiple and is_multiple
                logged.value, logged.loss, logged.size = value, returned, size
                logged.times += 1
        self._in_this_step = {}

    def found(self) -> dict[str, Json]:
        """By name what the last step logged, its loss and its size."""
        return {
            name[:100]: [logged.value, logged.loss, logged.size]
            for name, logged in self._logged.items()
            if logged.is_multiple and logged.times > FEW
        }
