"""RESULTS/exports holds every student, whole files only, and nobody who is gone."""

from __future__ import annotations

import csv
import io
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from lockstep.classroom.exports.write import ExportSummary, write_all
from lockstep.classroom.handin import Unmatched
from lockstep.classroom.people import Student
from lockstep.classroom.record import Record
from lockstep.classroom.slug import slugs
from tests.graded_class import CATALOGUE, HOSTILE, a_record, missing, named, the_class


def _write(out: Path, records: tuple[Record, ...]) -> ExportSummary:
    return write_all(records, CATALOGUE, (Unmatched("x.zip", "nobody's"),), out, slugs=slugs(records))


def _names(out: Path) -> set[str]:
    return {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}


def test_everybody_who_handed_in_is_in_every_export(tmp_path: Path) -> None:
    summary = _write(tmp_path / "deep" / "exports", the_class())
    names = _names(tmp_path / "deep" / "exports")
    handed_in = {"plain", "late", "decided", "faulty", "ends", "broken"}
    expected = {"grades.csv", "gradebook.json"}
    for slug in handed_in:
        expected |= {f"json/{slug}.json", f"junit/{slug}.xml", f"gradescope/{slug}/results.json"}
    assert names == expected
    assert summary.files == len(expected)
    assert summary.notes == (
        "hand-ins without a grade: 2; the column `problem` of grades.csv says why",
        "2 students have answers that wait for a person: grades may still rise",
    )
    whole = json.loads((tmp_path / "deep" / "exports" / "gradebook.json").read_text())
    assert {student["id"] for student in whole["students"]} == handed_in | {"absent"}


def test_canvas_is_written_where_the_roster_knows_it(tmp_path: Path) -> None:
    ann = a_record(Student("ann", "Ann", columns=(("SIS Login ID", "ann"),)))
    summary = _write(tmp_path, (ann, a_record("ben")))
    assert (tmp_path / "canvas.csv").read_text().splitlines()[2:] == ["Ann,,,ann,,2.5"]
    assert any("not in canvas.csv: 1" in note for note in summary.notes)
    _write(tmp_path, (a_record("ben"),))
    assert "canvas.csv" not in _names(tmp_path)


def test_writing_again_gives_the_same_bytes(tmp_path: Path) -> None:
    _write(tmp_path, the_class())
    before = {name: (tmp_path / name).read_bytes() for name in _names(tmp_path)}
    _write(tmp_path, the_class())
    assert {name: (tmp_path / name).read_bytes() for name in _names(tmp_path)} == before


def test_files_of_those_who_are_gone_go_and_other_peoples_stay(tmp_path: Path) -> None:
    _write(tmp_path, (a_record("ann"), a_record("ben")))
    (tmp_path / "notes.txt").touch()
    (tmp_path / "gradescope" / "ben" / "mine.txt").touch()
    _write(tmp_path, (a_record("ann"),))
    names = _names(tmp_path)
    assert {"notes.txt", "gradescope/ben/mine.txt", "json/ann.json"} <= names
    assert not {"json/ben.json", "junit/ben.xml", "gradescope/ben/results.json"} & names


def test_files_that_no_export_has_written_stay(tmp_path: Path) -> None:
    own = ("canvas.csv", "json/settings.json", "junit/tests.xml", "gradescope/hw1/results.json")
    for name in own:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("mine")
    for records in ((a_record("ann"), a_record("ben")), (a_record("ann"),), ()):
        _write(tmp_path, records)
    assert [(tmp_path / name).read_text() for name in own] == ["mine"] * 4
    assert _names(tmp_path) == {*own, "grades.csv", "gradebook.json"}
    for odd in (
        "mine",
        "[]",
        "{}",
        '{"students": 1}',
        '{"students": [{"id": 1}]}',
        '{"students": [{"id": 1, "enrolled": 1, "columns": {}}]}',
    ):
        (tmp_path / "gradebook.json").write_text(odd)
        _write(tmp_path, ())
        assert set(own) < _names(tmp_path)


def test_hostile_ids_become_files_inside_the_folder(tmp_path: Path) -> None:
    names = [*HOSTILE, "../../up", "/etc/passwd", "CON", "a/b", "..", "."]
    records = tuple(
        replace(named(name, number), student=Student(name or "empty")) for number, name in enumerate(names)
    )
    _write(tmp_path / "exports", records)
    assert [path.name for path in tmp_path.iterdir()] == ["exports"]
    assert len(list((tmp_path / "exports" / "json").iterdir())) == len(records)
    rows = csv.DictReader(
        io.StringIO((tmp_path / "exports" / "grades.csv").read_text("utf-8-sig"), newline="")
    )
    assert len(list(rows)) == len(records)


def test_a_full_disk_leaves_the_old_files_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path, (a_record("ann"),))
    before = {name: (tmp_path / name).read_bytes() for name in _names(tmp_path)}

    def full(*paths: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        _write(tmp_path, (a_record("ann"), a_record("ben")))
    assert {name: (tmp_path / name).read_bytes() for name in _names(tmp_path)} == before


def test_a_class_of_nobody_has_its_tables(tmp_path: Path) -> None:
    assert _write(tmp_path, ()) == ExportSummary(2, ())
    assert _write(tmp_path, (missing("absent"),)).files == 2
