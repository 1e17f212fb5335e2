"""Which grade is handed on: out of how many points, and of whom there is none yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lockstep.classroom.catalogue import ExerciseTitle
from lockstep.classroom.record import Record, in_class
from lockstep.verdict import Verdict

MISSING = "handed in nothing"
NOT_IN_CLASS = "not on the roster"


@dataclass(frozen=True)
class Scale:
    """What a class was graded on: the most points of each exercise, answers included, in the catalogue's order."""

    exercises: Mapping[str, float]

    @property
    def max_points(self) -> float:
        """Points that a student of this class can earn."""
        return sum(self.exercises.values())


def scale(records: Sequence[Record], catalogue: Sequence[ExerciseTitle]) -> Scale:
    """What these students were graded on; where nobody was graded yet, all that the catalogue knows."""
    seen: dict[str, float] = {}
    for record in in_class(records):
        for exercise in record.exercises:
            seen[exercise.id] = max(seen.get(exercise.id, 0.0), record.max_points_of(exercise))
    if not seen:
        return Scale({title.id: title.max_points for title in catalogue})
    known = [title.id for title in catalogue if title.id in seen]
    return Scale({name: seen[name] for name in [*known, *sorted(seen.keys() - set(known))]})


def why_no_grade(record: Record, graded_on: Scale) -> str:
    """Why a student's points must not be handed on as a grade yet; empty where they can be.

    Zero points are a grade. That nothing could be graded, or that lockstep itself failed at a check, is none, until a
    person gives points: it would be held against the student.
    """
    if not record.in_class:
        return NOT_IN_CLASS
    is_decided = any(override.points is not None for override in record.overrides)
    if not record.handed_in and not is_decided:
        return MISSING
    if record.problem and not is_decided:
        return record.problem
    ungraded = graded_on.exercises.keys() - {exercise.id for exercise in record.exercises}
    if ungraded and record.handed_in and not record.problem:
        return f"not graded yet: {', '.join(sorted(ungraded))}"
    faults = [f"{exercise} / {check}" for exercise, check in open_faults(record)]
    if faults:
        return f"lockstep itself failed at {', '.join(faults)}: grade it again, or override it"
    return ""


def open_faults(record: Record) -> Iterator[tuple[str, str]]:
    """Checks at which lockstep failed and for which no person has given points since."""
    for exercise in record.exercises:
        for check in exercise.checks:
            if check.verdict is Verdict.FAULT:
                decided = (record.override_of(exercise.id), record.override_of(exercise.id, check.id))
                if all(override is None or override.points is None for override in decided):
                    yield exercise.id, check.id
