"""Rules on physics; see the helper's task."""

from __future__ import annotations

from lockstep.reports.rule import Rule

RULES: tuple[Rule, ...] = ()
