"""Whose points the last grading has changed although the work is the same: graders or lockstep are other ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lockstep.classroom.gradebook import POINTS, Gradebook
from lockstep.classroom.record import Record, in_class
from lockstep.verdict import Verdict

Changes = tuple[tuple[str, str], ...]
"""Students by id, each with what has changed in an exercise."""


def turned(book: Gradebook) -> Changes:
    """By student and exercise, what graders gave for the same work when this was last asked, and what they give now.

    Asked when a grading is through, it speaks of those as well whom an earlier one, that was stopped, has graded.
    What people decided makes no difference.
    """
    records = book.records()
    known = {record.student.id for record in records}
    kept: Mapping[str, Any] = book.recall(POINTS) or {}
    before = {student: given for student, given in kept.items() if student in known}
    now = {record.student.id: _given(record) for record in in_class(records) if record.attempt is not None}
    book.remember(POINTS, {**before, **now})
    return tuple(
        (student, f"{exercise} was {before[student]['points'][exercise]:g}, now {points:g}")
        for student, given in now.items()
        if student in before and before[student]["work"] == given["work"]
        for exercise, points in given["points"].items()
        if points != before[student]["points"].get(exercise, points)
    )


def told(found: Sequence[tuple[str, str]], shown: Mapping[str, str]) -> list[str]:
    """A line for each student, by the names in `shown`."""
    changes: dict[str, list[str]] = {}
    for student, change in found:
        changes.setdefault(student, []).append(change)
    return [f"{shown[student]}: {'; '.join(own)}" for student, own in changes.items()]


def _given(record: Record) -> Mapping[str, Any]:
    points = {
        exercise.id: round(exercise.points, 4)
        for exercise in record.exercises
        # What nobody has graded is among them where a person decided about it.
        if any(check.verdict is not Verdict.NOT_CHECKED for check in exercise.checks)
    }
    return {"work": record.attempt.digest if record.attempt else "", "points": points}
