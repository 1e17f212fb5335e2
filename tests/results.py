"""Made-up results for the tests of what shows, writes and reads them."""

from __future__ import annotations

from lockstep.result import CheckResult, ExerciseResult, Result, Review
from lockstep.verdict import Verdict

PASSED = CheckResult("length", Verdict.PASSED, 2.0, 2.0, seconds=0.25)
FAILED = CheckResult(
    "items_are_images", Verdict.FAILED, 0.5, 3.0, "saw 12 of 40 images", "walk into every folder", 1.5
)
NOT_CHECKED = CheckResult("workers", Verdict.NOT_CHECKED, 0.0, 1.0, "needs `items_are_images`")
# Worth no points of its own: what it found is for a person to mark.
ANSWERED = CheckResult(
    "present",
    Verdict.PASSED,
    0.0,
    0.0,
    reviews=(
        Review("Q1", "Why?", 2.0, "Because.", 1, "reasons", ("speedup 1.43",)),
        Review("Q2", "Why not?", 1.5, "No idea.", 2),
        Review("Q3", "And then?", 1.0),
    ),
)
FAULT = CheckResult("lazy", Verdict.FAULT, 0.0, 2.0, "the grader itself failed")


def a_result(*checks: CheckResult, exercise: str = "lfw_dataset") -> Result:
    """One exercise with these checks."""
    return Result("somebody", 7, (ExerciseResult(exercise, checks),))
