"""`python -m lockstep.classroom.exports.convert`: what `lockstep check` found, for the service that has run it.

Used by the autograder for Gradescope and the workflow for GitHub Classroom, where there is no gradebook.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lockstep.classroom.catalogue import ExerciseTitle, catalogue
from lockstep.classroom.exports import feedback, gradescope
from lockstep.classroom.exports.autograding import autograding
from lockstep.classroom.exports.junit import junit_xml
from lockstep.classroom.people import Student
from lockstep.classroom.record import Record
from lockstep.exercise import find_exercises
from lockstep.grading import default_graders
from lockstep.jsonfile import write_json
from lockstep.result import CheckResult, ExerciseResult, Review
from lockstep.verdict import Verdict
from lockstep.wholefile import write_whole

NO_VERDICT = (
    "There is no verdict, and no reason was given. This says nothing about your work: tell your instructor."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Convert one result; where there is none, say why in the words of `lockstep check`."""
    parser = argparse.ArgumentParser(description="Converts the JSON of `lockstep check`.")
    parser.add_argument(
        "result", type=Path, metavar="RESULT", help="file that `lockstep check --json` has written"
    )
    parser.add_argument("--said", type=Path, metavar="FILE", help="what it said where it has written none")
    parser.add_argument("--gradescope", type=Path, metavar="FILE", help="write Gradescope's results.json")
    parser.add_argument("--autograding", type=Path, metavar="FILE", help="write GitHub Classroom's result")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML")
    options = parser.parse_args(arguments)
    titles = catalogue(find_exercises(default_graders()))
    record = read_record(options.result, options.said, titles)
    if options.gradescope:
        written = (
            gradescope.results(record, titles) if record.exercises else gradescope.refusal(record.problem)
        )
        write_json(options.gradescope, written)
    if options.autograding:
        write_json(options.autograding, autograding(record, titles))
    if options.junit:
        write_whole(options.junit, junit_xml(record, titles))
    return 0


def read_record(result: Path, said: Path | None = None, catalogue: Sequence[ExerciseTitle] = ()) -> Record:
    """The record of a submission that was just checked. Without a result it is a problem, as `said` tells it."""
    student = Student("submission")
    if not result.exists():
        lines = (
            said.read_text(encoding="utf-8", errors="replace").splitlines() if said and said.exists() else []
        )
        told = [line.removeprefix("lockstep: ") for line in lines if line.startswith("lockstep: ")]
        return Record(student, "submission", problem=feedback.public(told[-1]) if told else NO_VERDICT)
    found = json.loads(result.read_text(encoding="utf-8"))
    by_person = {title.id: title.by_person for title in catalogue}
    exercises = tuple(_exercise(item, by_person.get(item["id"], 0.0)) for item in found["exercises"])
    return Record(student, "submission", exercises=exercises)


def _exercise(item: Mapping[str, Any], by_person: float) -> ExerciseResult:
    checks = [CheckResult(**{**check, "verdict": Verdict(check["verdict"])}) for check in item["checks"]]
    answers = tuple(
        Review(**{**review, "numbers": tuple(review["numbers"])}) for review in item.get("review", ())
    )
    # The format does not say which check found an answer.
    last = CheckResult(**{**vars(checks[-1]), "reviews": answers})
    return ExerciseResult(item["id"], (*checks[:-1], last), by_person)


if __name__ == "__main__":
    sys.exit(main())
