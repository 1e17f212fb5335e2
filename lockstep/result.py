"""One submission's grading as plain values: checks, exercises, points; and its JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lockstep.verdict import Verdict

SCHEMA = "lockstep/result/1"


@dataclass(frozen=True)
class Review:
    """An answer that waits for a person: `points` of `max_points`, and a `comment`, are theirs to give.

    `answer` is what the student wrote, `words` how much of it, `look_for` what its author of the question hopes
    to read (empty in a self-check), `numbers` what the student measured on the subject, `duplicate` where the
    same text was found. All texts may be the student's: untrusted.
    """

    question: str
    title: str
    max_points: float
    answer: str = ""
    words: int = 0
    look_for: str = ""
    numbers: tuple[str, ...] = ()
    duplicate: str | None = None
    points: float | None = None
    comment: str = ""

    @property
    def waits(self) -> bool:
        """Whether there is something to read and nobody has given points for it."""
        return bool(self.answer) and self.points is None


@dataclass(frozen=True)
class CheckResult:
    """How one check ended. `seconds` is wall time; `points` of `max_points` were earned.

    `reviews` are answers that the check found and a person marks; their points are not among `points`.
    `cpu_seconds` is what the check computed, judge and sandbox together, where the machine counts that.
    `spoils` says that the exercise's other checks would only fail of the same cause and were not made.
    """

    id: str
    verdict: Verdict
    points: float
    max_points: float
    message: str = ""
    hint: str = ""
    seconds: float = 0.0
    reviews: tuple[Review, ...] = ()
    cpu_seconds: float | None = None
    spoils: bool = False


@dataclass(frozen=True)
class ExerciseResult:
    """All checks of one exercise, in the order of its exercise.toml.

    `by_person` are the points of all its questions, where that is known: also of one who has answered none.
    """

    id: str
    checks: tuple[CheckResult, ...]
    by_person: float = 0.0

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

    @property
    def reviews(self) -> tuple[Review, ...]:
        """The answers that a person marks, of all checks."""
        return tuple(review for check in self.checks for review in check.reviews)


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
                    **(
                        {"review": [_review(review) for review in exercise.reviews]}
                        if exercise.reviews
                        else {}
                    ),
                }
                for exercise in self.exercises
            ],
        }


def _review(review: Review) -> Mapping[str, object]:
    return {**vars(review), "numbers": list(review.numbers)}
