"""RESULTS/exports: every file that can be made without a file of a learning platform's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lockstep.classroom.catalogue import ExerciseTitle
from lockstep.classroom.exports.canvas import build_canvas, canvas_ids
from lockstep.classroom.exports.fill import waiting
from lockstep.classroom.exports.grade import MISSING, scale, why_no_grade
from lockstep.classroom.exports.gradebook import gradebook_json, result_json
from lockstep.classroom.exports.grades import grades_csv
from lockstep.classroom.exports.gradescope import results
from lockstep.classroom.exports.junit import junit_xml
from lockstep.classroom.handin import Unmatched
from lockstep.classroom.people import Student
from lockstep.classroom.record import Record, in_class
from lockstep.classroom.slug import slugs as slug_of
from lockstep.jsonfile import json_bytes
from lockstep.wholefile import write_changed

INDEX = "gradebook.json"
"""Names everybody, and with them the files that were written along with it."""


@dataclass(frozen=True)
class ExportSummary:
    """How many files were written, and sentences for whoever started it."""

    files: int
    notes: tuple[str, ...]


def write_all(
    records: Sequence[Record],
    catalogue: Sequence[ExerciseTitle],
    unmatched: Sequence[Unmatched],
    out: Path,
    *,
    slugs: Mapping[str, str],
    assignment: str = "",
) -> ExportSummary:
    """Write all exports into `out`, each file whole or not at all. Raises OSError.

    `assignment` is what the column of canvas.csv is called. Of students who are in the class no more only
    gradebook.json tells, and files of theirs are removed: nobody shall take them for grades. What no export has
    written stays.
    """
    before = _written_before(out)
    for name in ("json", "junit", "gradescope"):
        (out / name).mkdir(parents=True, exist_ok=True)
    everybody, records = records, in_class(records)
    write_changed(out / "grades.csv", grades_csv(records, catalogue))
    written = {out / "grades.csv", out / INDEX}
    if any(canvas_ids(record.student) for record in records):
        write_changed(out / "canvas.csv", build_canvas(records, catalogue, assignment).content)
        written.add(out / "canvas.csv")
    for record in records:
        if record.handed_in or record.exercises:
            written |= _write_student(record, slugs[record.student.id], catalogue, out)
    for path in before - written:
        path.unlink(missing_ok=True)
        if path.name == "results.json" and path.parent.is_dir() and not any(path.parent.iterdir()):
            path.parent.rmdir()
    # Last: whatever is killed before that, the next export knows which files there may be of whom.
    _write_json(out / INDEX, gradebook_json(everybody, catalogue, unmatched))
    return ExportSummary(len(written), tuple(_notes(records, catalogue)))


def _written_before(out: Path) -> set[Path]:
    """What an export has written of students before, whether it is there still or not."""
    try:
        students = json.loads((out / INDEX).read_bytes())["students"]
        known = [
            Student(each["id"], enrolled=each["enrolled"], columns=tuple(each["columns"].items()))
            for each in students
        ]
        names = slug_of(known)
        had = [names[each["id"]] for each in students if each["handed_in"] or each["exercises"]]
        canvas = {out / "canvas.csv"} if any(map(canvas_ids, known)) else set()
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return set()  # a file of somebody's own
    return canvas.union(*(_files_of(name, out) for name in had))


def _files_of(slug: str, out: Path) -> tuple[Path, Path, Path]:
    return (
        out / "json" / f"{slug}.json",
        out / "junit" / f"{slug}.xml",
        out / "gradescope" / slug / "results.json",
    )


def _write_student(record: Record, slug: str, catalogue: Sequence[ExerciseTitle], out: Path) -> set[Path]:
    result, junit, gradescope = _files_of(slug, out)
    gradescope.parent.mkdir(exist_ok=True)
    _write_json(result, result_json(record, slug))
    write_changed(junit, junit_xml(record, catalogue))
    _write_json(gradescope, results(record, catalogue))
    return {result, junit, gradescope}


def _write_json(path: Path, value: object) -> None:
    write_changed(path, json_bytes(value, indented=False))


def _notes(records: Sequence[Record], catalogue: Sequence[ExerciseTitle]) -> Iterator[str]:
    graded_on = scale(records, catalogue)
    reasons = [(record, why_no_grade(record, graded_on)) for record in records]
    open_ones = sum(reason not in ("", MISSING) for _, reason in reasons)
    graded = [record for record, reason in reasons if not reason]
    if open_ones:
        yield f"hand-ins without a grade: {open_ones}; the column `problem` of grades.csv says why"
    unknown = sum(not canvas_ids(record.student) for record in graded)
    if unknown < len(graded) and unknown:
        yield f"graded students whom the roster does not name as Canvas does, so not in canvas.csv: {unknown}"
    yield from waiting(graded)
