"""The whole class as one JSON file, `lockstep/gradebook/1`, and each student's as `lockstep/result/1`: for instructors.

They hold what replays a grading, rubrics and notes on others: nothing for students.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lockstep.classroom.catalogue import ExerciseTitle
from lockstep.classroom.exports.grade import scale, why_no_grade
from lockstep.classroom.handin import Unmatched
from lockstep.classroom.latepolicy import LatePolicy
from lockstep.classroom.record import Record
from lockstep.result import CheckResult, ExerciseResult, Result

SCHEMA = "lockstep/gradebook/1"


def gradebook_json(
    records: Sequence[Record], catalogue: Sequence[ExerciseTitle], unmatched: Sequence[Unmatched]
) -> Mapping[str, object]:
    """The form of `lockstep/schemas/gradebook-1.schema.json`."""
    graded_on = scale(records, catalogue)
    policy = records[0].policy if records else LatePolicy()
    return {
        "schema": SCHEMA,
        "max_points": graded_on.max_points,
        "late_policy": policy.to_json(),
        "exercises": [
            {
                "id": title.id,
                "title": title.title,
                "max_points": graded_on.exercises.get(title.id, title.max_points),
                "checks": [vars(check) for check in title.checks],
            }
            for title in catalogue
        ],
        "students": [{**_student(record), "no_grade": why_no_grade(record, graded_on)} for record in records],
        "unmatched": [{"label": item.label, "reason": item.reason} for item in unmatched],
    }


def result_json(record: Record, slug: str) -> Mapping[str, object]:
    """One student's grading in the form of `lockstep/schemas/result-1.schema.json`, as the graders gave it.

    Answers carry the points people gave; overrides and the late penalty have no place in that form and are in the
    gradebook. Of whom nothing was graded there are no exercises, and where nothing was begun the seed is 0.
    """
    seed = record.attempt.seed if record.attempt is not None else 0
    exercises = tuple(_with_marks(record, exercise) for exercise in record.exercises)
    return Result(slug, seed, exercises).to_json()


def _with_marks(record: Record, exercise: ExerciseResult) -> ExerciseResult:
    marked = {review.question: review for review in record.reviews_of(exercise)}
    return ExerciseResult(
        exercise.id,
        tuple(
            CheckResult(**{**vars(check), "reviews": tuple(marked[own.question] for own in check.reviews)})
            for check in exercise.checks
        ),
    )


def _student(record: Record) -> Mapping[str, object]:
    student, attempt = record.student, record.attempt
    return {
        "id": student.id,
        "name": student.name,
        "email": student.email,
        "team": student.team,
        "extra_days": student.extra_days,
        "enrolled": student.enrolled,
        "columns": dict(student.columns),
        "handed_in": record.handed_in,
        "label": record.label,
        "late_days": record.late_days,
        "problem": record.problem,
        "notes": list(record.notes),
        "raw_points": record.raw_points,
        "penalty": record.penalty,
        "final_points": record.final_points,
        "waiting_reviews": record.waiting_reviews,
        "attempt": None if attempt is None else {**vars(attempt), "versions": dict(attempt.versions)},
        "exercises": [_exercise(record, exercise) for exercise in record.exercises],
        "overrides": [vars(override) for override in record.overrides],
        "flags": [{**vars(flag), "others": list(flag.others)} for flag in record.flags],
    }


def _exercise(record: Record, exercise: ExerciseResult) -> Mapping[str, object]:
    return {
        "id": exercise.id,
        "points": record.points_of(exercise),
        "max_points": record.max_points_of(exercise),
        "checks": [
            {
                "id": check.id,
                "verdict": str(check.verdict),
                "points": record.points_of_check(exercise.id, check),
                "graded_points": check.points,
                "max_points": check.max_points,
                "message": check.message,
                "hint": check.hint,
                "seconds": round(check.seconds, 3),
                "cpu_seconds": None if check.cpu_seconds is None else round(check.cpu_seconds, 3),
            }
            for check in exercise.checks
        ],
        "review": [
            {**vars(review), "numbers": list(review.numbers)} for review in record.reviews_of(exercise)
        ],
    }
