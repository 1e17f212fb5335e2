"""What being late costs: raw points, penalty and final points are kept apart everywhere."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class LatePolicy:
    """A penalty in percent of the points earned for each day begun, at most `max_percent`.

    `grace_days` are forgiven: an upload that takes ten minutes is not a day late.
    """

    percent_per_day: float = 0.0
    max_percent: float = 100.0
    grace_days: float = 0.0

    def penalty(self, points: float, late_days: float | None, extra_days: float = 0.0) -> float:
        """Points that are taken off `points`, never more than those."""
        late = (late_days or 0.0) - extra_days - self.grace_days
        days_begun = math.ceil(late) if late > 0 else 0
        return points * min(self.percent_per_day * days_begun, self.max_percent, 100.0) / 100.0
