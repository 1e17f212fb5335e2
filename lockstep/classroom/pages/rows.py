"""The class as compact data: what the table, the heat map and the lists of index.html are made of in the browser.

Positions in lists stand for names wherever something repeats: a class of 5,000 is about two megabytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from lockstep.classroom.catalogue import ExerciseTitle
from lockstep.classroom.handin import Unmatched
from lockstep.classroom.pages.overview import Status, flag_kinds, status
from lockstep.classroom.pages.symbols import ABSENT, SYMBOLS, shade
from lockstep.classroom.record import Record
from lockstep.text import safe_line

PROBLEM_CHARACTERS = 500


def class_data(
    records: Sequence[Record],
    exercises: Sequence[ExerciseTitle],
    unmatched: Sequence[Unmatched],
    slugs: Mapping[str, str],
) -> str:
    """JSON for a script element: ASCII, and without a character that could end the element."""
    places = {record.student.id: place for place, record in enumerate(records)}
    kinds = [each.kind for each in flag_kinds(records)]
    value = {
        "symbols": [[symbol.code, symbol.name, symbol.sign, symbol.word] for symbol in SYMBOLS],
        "exercises": [
            [
                safe_line(exercise.id),
                safe_line(exercise.title),
                [safe_line(check.id) for check in exercise.checks],
            ]
            for exercise in exercises
        ],
        "statuses": [str(each) for each in Status],
        "kinds": kinds,
        "students": [_student(record, exercises, slugs) for record in records],
        "problems": {
            str(place): safe_line(record.problem, PROBLEM_CHARACTERS)
            for place, record in enumerate(records)
            if record.problem
        },
        "flags": [
            [
                place,
                kinds.index(safe_line(flag.kind)),
                safe_line(flag.subject),
                safe_line(flag.detail, PROBLEM_CHARACTERS),
                [places[other] for other in flag.others if other in places],
            ]
            for place, record in enumerate(records)
            for flag in record.flags
        ],
        "unmatched": [
            [safe_line(item.label), safe_line(item.reason, PROBLEM_CHARACTERS)] for item in unmatched
        ],
    }
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _student(record: Record, exercises: Sequence[ExerciseTitle], slugs: Mapping[str, str]) -> list[object]:
    student = record.student
    graded = {exercise.id: exercise for exercise in record.exercises}
    codes = {
        (exercise.id, check.id): shade(check).code
        for exercise in record.exercises
        for check in exercise.checks
    }
    return [
        safe_line(student.shown),
        safe_line(student.id),
        safe_line(student.email),
        safe_line(student.team),
        slugs[student.id],
        list(Status).index(status(record)),
        _rounded(record.final_points) if graded else None,
        _rounded(record.penalty),
        None if record.late_days is None else _rounded(max(record.late_days, 0.0)),
        [
            _rounded(record.points_of(graded[exercise.id])) if exercise.id in graded else None
            for exercise in exercises
        ],
        "".join(
            codes.get((exercise.id, check.id), ABSENT) for exercise in exercises for check in exercise.checks
        ),
    ]


def _rounded(value: float) -> float:
    """Two decimals, and no decimal point where there are none."""
    rounded = round(value, 2)
    return int(rounded) if rounded == int(rounded) else rounded
