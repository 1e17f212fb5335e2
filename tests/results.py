"""Made-up results for the tests of what shows, writes and reads them."""

from __future__ import annotations

from lockstep.result import CheckResult, ExerciseResult, Result
from lockstep.verdict import Verdict

PASSED = CheckResult("length", Verdict.PASSED, 2.0, 2.0, seconds=0.25)
FAILED = CheckResult(
    "items_are_images", Verdict.FAILED, 0.5, 3.0, "saw 12 of 40 images", "walk into every folder", 1.5
)
NOT_CHECKED = CheckResult("workers", Verdict.NOT_CHECKED, 0.0, 1.0, "needs `items_are_images`")
FAULT = CheckResult("lazy", Verdict.FAULT, 0.0, 2.0, "the grader itself failed")


def a_result(*checks: CheckResult, exercise: str = "lfw_dataset") -> Result:
    """One exercise with these checks."""
    return Result("somebody", 7, (ExerciseResult(exercise, checks),))
