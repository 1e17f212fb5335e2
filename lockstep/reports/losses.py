"""Losses that two trainings share: which of them say something."""

from __future__ import annotations

import math

from lockstep.reports.document import Report
from lockstep.reports.hardware import count
from lockstep.reports.rule import Facts

DIGITS = 7
"""As many as a float32 has; with fewer, losses of two trainings are equal by chance."""
FLOAT32_EPS = 2.0**-23
SAME_GUESS = 1e-4


def class_count(report: Report, facts: Facts) -> int | None:
    """Among how many classes the network tells, where anything says it."""
    stated = count(report.workload.get("num_classes"), 0)
    measured = facts.model.classes if facts.model is not None else None
    return stated or measured


def tells(loss: float, classes: int | None) -> bool:
    """Whether two trainings do not come to a loss by chance, nor because neither has learned to tell `classes`."""
    # What a float32 makes of a rounded number is rounded all the same: 2.299999952316284.
    rounded = float(f"{loss:.{DIGITS - 1}g}")
    return abs(loss - rounded) > FLOAT32_EPS / 2 * abs(loss) and not _is_guess(loss, classes)


def _is_guess(loss: float, classes: int | None) -> bool:
    """Whether it is the loss of a network whose outputs are all alike, which it is in any precision."""
    return classes is not None and classes > 1 and abs(loss - math.log(classes)) < SAME_GUESS
