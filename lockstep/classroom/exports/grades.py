"""grades.csv: one row for every student, for people and for whatever reads tables."""

from __future__ import annotations

from collections.abc import Sequence

from lockstep.classroom.catalogue import ExerciseTitle
from lockstep.classroom.csvfile import to_csv
from lockstep.classroom.exports.cells import Number, line
from lockstep.classroom.exports.grade import Scale, scale, why_no_grade
from lockstep.classroom.record import Record

BEFORE = ("id", "name", "email", "team")
AFTER = ("raw", "late_days", "penalty", "final", "max", "problem", "flags", "waiting_reviews")
"""The columns around those of the exercises, which are called by their ids."""


def grades_csv(records: Sequence[Record], catalogue: Sequence[ExerciseTitle]) -> bytes:
    """The table, with a byte order mark; empty cells where nothing was graded."""
    graded_on = scale(records, catalogue)
    header = (*BEFORE, *graded_on.exercises, *AFTER)
    return to_csv(header, (_row(record, graded_on) for record in records))


def _row(record: Record, graded_on: Scale) -> list[object]:
    student = record.student
    points = {exercise.id: record.points_of(exercise) for exercise in record.exercises}
    raw, penalty, final = (
        (record.raw_points, record.penalty, record.final_points) if points else (None, None, None)
    )
    return [
        *(line(text) for text in (student.id, student.name, student.email, student.team)),
        *(_number(points.get(name)) for name in graded_on.exercises),
        _number(raw),
        _number(record.late_days),
        _number(penalty),
        _number(final),
        _number(graded_on.max_points),
        line(why_no_grade(record, graded_on)),
        line(", ".join(dict.fromkeys(flag.kind for flag in record.flags))),
        record.waiting_reviews,
    ]


def _number(value: float | None) -> Number | None:
    return None if value is None else Number(value)
