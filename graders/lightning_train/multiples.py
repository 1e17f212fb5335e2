"""Accuracies that are a multiple of the share of right answers, as where all batches are divided by one size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lockstep.compare import close

EXACT = 1e-4  # what a figure in float32 is off by, and more


@dataclass(frozen=True)
class Multiple:
    """How often a figure holds the share of right answers, and that share."""

    factor: float
    share: float


class Multiples:
    """Which figures were the same multiple of the share of right answers, other than 0, in every validation so far.

    No other reading of accuracy is one: of the best few, by class, corrected for chance. Where all shares were alike,
    nothing is known. A figure is told by its name and by the tensor whose largest values are the answers.
    """

    def __init__(self) -> None:
        self._noted: list[Mapping[tuple[str, int], Multiple]] = []

    def note(self, multiples: Mapping[tuple[str, int], Multiple]) -> None:
        """One more validation."""
        self._noted.append(multiples)

    def found(self) -> dict[str, float]:
        """The factors, by the names of the figures."""
        found = {}
        for key, first in self._noted[0].items() if self._noted else ():
            others = [each[key] for each in self._noted[1:] if key in each]
            everywhere = len(others) == len(self._noted) - 1
            if (
                first.factor > 0
                and everywhere
                and all(close(other.factor, first.factor, rtol=EXACT) for other in others)
                and any(abs(other.share - first.share) > EXACT for other in others)
            ):
                found[key[0]] = first.factor
        return found
