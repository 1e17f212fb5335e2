"""What GitHub Classroom's reporter reads: classroom-resources/autograding-grading-reporter, "Inputs", on GitHub.

Each runner's result is JSON, base64 in an environment variable: `version`, `status`, `max_score`, and `tests` with
`name`, `status`, `message`, `score` and further fields on source lines, which lockstep does not have.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from lockstep.classroom.catalogue import ExerciseTitle
from lockstep.classroom.exports import feedback
from lockstep.classroom.record import Record
from lockstep.text import safe_line
from lockstep.verdict import Verdict

MESSAGE = 300
"""Characters of a message; JUnit has the rest."""
MESSAGES = 60_000
"""Bytes of all messages together: in base64 the whole has to fit an environment variable, 128 KiB on Linux."""


def autograding(record: Record, catalogue: Sequence[ExerciseTitle]) -> Mapping[str, object]:
    """One student's checks; answers that a person marks are no tests."""
    items = [item for item in feedback.items(record, catalogue) if item.verdict is not None]
    if any(item.verdict is Verdict.FAULT for item in items) or not items:
        status = "error"
    else:
        status = "pass" if all(item.passed for item in items) else "fail"
    return {
        "version": 1,
        "status": status,
        "max_score": sum(item.max_points for item in items),
        "tests": [_test(item, MESSAGES // len(items)) for item in items],
    }


def _test(item: feedback.Item, room: int) -> Mapping[str, object]:
    status = "error" if item.verdict is Verdict.FAULT else "pass" if item.passed else "fail"
    # The verdict in front: no text of a student's begins a line of the log, where it could be a command.
    message = safe_line(f"{item.verdict}. {item.said}", MESSAGE)
    while len(json.dumps(message)) > room:
        message = message[: len(message) // 2]
    return {
        "name": f"{item.exercise} / {item.name}",
        "status": status,
        "score": item.points or 0.0,
        "message": message,
        "test_code": item.title,
        "filename": "",
        "line_no": 0,
        "duration": round(item.seconds, 3),
    }
