"""One submission's grading as plain values: checks, exercises, points; and its JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lockstep.verdict import Verdict

SCHEMA = "lockstep/result/1"


@dataclass(frozen=True)
class CheckResult:
    """How one check ended. `seconds` is wall time; `points` of `max_points` were earned."""

    id: str
    verdict: Verdict
    points: float
    max_points: float
    message: str = ""
    hint: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class ExerciseResult:
    """All checks of one exercise, in the order of its exercise.toml."""

    id: str
    checks: tuple[CheckResult, ...]

    @property
    def points(self) -> float:
        """Points earned."""
        return sum(check.points for check in self.checks)

    @property
    def max_points(self) -> float:
        """Points that can be earned."""
        return sum(check.max_points for check in self.checks)

    @property
    def seconds(self) -> float:
        """Wall time of the checks, in seconds."""
        return sum(check.seconds for check in self.checks)


@dataclass(frozen=True)
class Result:
    """One graded submission. `seed` replays the grading; `submission` is its name, never a host path."""

    submission: str
    seed: int
    exercises: tuple[ExerciseResult, ...]

    @property
    def points(self) -> float:
        """Points earned over all exercises."""
        return sum(exercise.points for exercise in self.exercises)

    @property
    def max_points(self) -> float:
        """Points that can be earned over all exercises."""
        return sum(exercise.max_points for exercise in self.exercises)

    def to_json(self) -> Mapping[str, object]:
        """The form of `lockstep/schemas/result-1.schema.json`."""
        return {
            "schema": SCHEMA,
            "submission": self.submission,
            "seed": self.seed,
            "points": self.points,
            "max_points": self.max_points,
            "exercises": [
                {
                    "id": exercise.id,
                    "points": exercise.points,
                    "max_points": exercise.max_points,
                    "seconds": round(exercise.seconds, 3),
                    "checks": [
                        {
                            "id": check.id,
                            "verdict": str(check.verdict),
                            "points": check.points,
                            "max_points": check.max_points,
                            "message": check.message,
                            "hint": check.hint,
                            "seconds": round(check.seconds, 3),
                        }
                        for check in exercise.checks
                    ],
                }
                for exercise in self.exercises
            ],
        }
