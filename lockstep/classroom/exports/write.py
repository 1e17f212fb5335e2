"""RESULTS/exports: every file that can be made without a file of a learning platform's."""

from __future__ import annotations

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
from lockstep.classroom.record import Record, in_class
from lockstep.jsonfile import json_bytes
from lockstep.wholefile import write_changed

_MAY_GO = ("canvas.csv", "json/*.json", "junit/*.xml", "gradescope/*/results.json")


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
    gradebook.json tells, and files of theirs are removed: nobody shall take them for grades.
    """
    for name in ("json", "junit", "gradescope"):
        (out / name).mkdir(parents=True, exist_ok=True)
    _write_json(out / "gradebook.json", gradebook_json(records, catalogue, unmatched))
    records = in_class(records)
    write_changed(out / "grades.csv", grades_csv(records, catalogue))
    written = {out / "grades.csv", out / "gradebook.json"}
    if any(canvas_ids(record.student) for record in records):
        write_changed(out / "canvas.csv", build_canvas(records, catalogue, assignment).content)
        written.add(out / "canvas.csv")
    for record in records:
        if record.handed_in or record.exercises:
            written |= _write_student(record, slugs[record.student.id], catalogue, out)
    for pattern in _MAY_GO:
        for path in set(out.glob(pattern)) - written:
            path.unlink()
            if path.name == "results.json" and not any(path.parent.iterdir()):
                path.parent.rmdir()
    return ExportSummary(len(written), tuple(_notes(records, catalogue)))


def _write_student(record: Record, slug: str, catalogue: Sequence[ExerciseTitle], out: Path) -> set[Path]:
    result, junit = out / "json" / f"{slug}.json", out / "junit" / f"{slug}.xml"
    gradescope = out / "gradescope" / slug / "results.json"
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
