"""What machines can do: the rules P. Those that no GPU or link can break cost points, ratios and habits do not."""

from __future__ import annotations

from lockstep.reports import factors, learning, memory, speed
from lockstep.reports.rule import Rule
from lockstep.reports.speed import ceiling

__all__ = ["RULES", "ceiling"]

RULES: tuple[Rule, ...] = tuple(
    sorted((*speed.RULES, *memory.RULES, *factors.RULES, *learning.RULES), key=lambda rule: rule.id)
)
