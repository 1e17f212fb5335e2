"""Gradescope's results.json: Gradescope, "Autograder Specifications", section "Output format".

`score` on top is what counts, in place of the sum of the tests': the late penalty and what people decided about an
exercise are in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lockstep.classroom.catalogue import ExerciseTitle
from lockstep.classroom.exports import feedback
from lockstep.classroom.exports.grade import open_faults
from lockstep.classroom.record import Record
from lockstep.verdict import Verdict


def results(record: Record, catalogue: Sequence[ExerciseTitle]) -> Mapping[str, object]:
    """One student's results.json. All texts are plain text, which Gradescope escapes."""
    items = feedback.items(record, catalogue)
    faults = ", ".join(f"{exercise} / {check}" for exercise, check in open_faults(record))
    lines = list(feedback.summary(record))
    if faults:
        lines.insert(
            0, f"lockstep itself failed at {faults}. Points that it took are not lost: tell your instructor."
        )
    return {
        "score": round(record.final_points, 4),
        "execution_time": round(sum(item.seconds for item in items), 3),
        "output": "\n".join(lines),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "extra_data": {"max_score": record.max_points},
        "tests": [_test(item) for item in items],
    }


def refusal(sentence: str) -> Mapping[str, object]:
    """A results.json that gives no points and says why."""
    return {
        "score": 0,
        "output": sentence,
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [],
    }


def _test(item: feedback.Item) -> Mapping[str, object]:
    verdict = str(item.verdict) if item.verdict is not None else "answer"
    status = {} if item.verdict is None else {"status": "passed" if item.passed else "failed"}
    said = [] if item.verdict in (None, Verdict.PASSED) else [f"{item.verdict}."]
    return {
        "name": f"{item.exercise} / {item.name}" + (f": {item.title}" if item.title else ""),
        "number": item.number,
        "score": round(item.points or 0.0, 4),
        "max_score": item.max_points,
        **status,
        "output": "\n".join([*said, *([item.said] if item.said else [])]),
        "visibility": "visible",
        "tags": [item.exercise, verdict],
    }
