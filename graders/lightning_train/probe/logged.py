"""What training_step logs, as far as it is always the same."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from lockstep.wire import Json

FEW = 10  # steps, which say nothing yet
MAX_NAMES = 100


@dataclass
class _Logged:
    value: float
    times: int = 0
    is_constant: bool = True


class Constants:
    """Which names were given one and the same number in every step that logged them."""

    def __init__(self) -> None:
        self._logged: dict[str, _Logged] = {}

    def note(self, name: str, value: object) -> None:
        """A step logs `value`; what is no number, such as a metric that is computed later, is none of them."""
        number = number_of(value)
        if name not in self._logged and len(self._logged) < MAX_NAMES:
            self._logged[name] = _Logged(number)
        if (logged := self._logged.get(name)) is not None:
            logged.times += 1
            # NaN, which stands for what is no number, is unlike itself.
            logged.is_constant = logged.is_constant and logged.value == number

    def found(self) -> dict[str, Json]:
        """Their values by name."""
        return {
            name[:100]: logged.value
            for name, logged in self._logged.items()
            if logged.is_constant and logged.times > FEW
        }


def number_of(value: object) -> float:
    """A number that is logged, or NaN for what is none."""
    if type(value) is torch.Tensor and value.numel() == 1:
        return float(value.detach())
    return float(value) if type(value) is int or type(value) is float else math.nan
