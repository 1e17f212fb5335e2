"""All rules on what made-up readings look like: too equal, too even, too round, too much like others.

None of these is proof by itself. F08, the first digits after Benford, is not used: 86 % of honest reports fail it.
F13 was never given.
"""

from __future__ import annotations

from lockstep.reports import elsewhere, patterns, repeated
from lockstep.reports.between import F11
from lockstep.reports.rule import Rule

RULES: tuple[Rule, ...] = tuple(
    sorted((*repeated.RULES, *patterns.RULES, *elsewhere.RULES, F11), key=lambda rule: rule.id)
)
