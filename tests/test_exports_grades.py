"""grades.csv says of every student what it came to, and no cell of it does anything."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.classroom.exports.cells import Number, line, number
from lockstep.classroom.exports.grades import grades_csv
from lockstep.classroom.people import Student
from lockstep.classroom.record import Override
from tests.graded_class import (
    CATALOGUE,
    HOSTILE,
    MOST,
    PASSED,
    a_problem,
    a_record,
    missing,
    named,
    the_class,
)

FORMULA = tuple("=+-@\t\r\n＝＋－＠")


def _rows(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True))


def _row(content: bytes, student: str) -> dict[str, str]:
    (row,) = (row for row in _rows(content) if row["id"] == student)
    return row


def test_the_columns_are_the_documented_ones() -> None:
    content = grades_csv(the_class(), CATALOGUE)
    assert content.startswith(b"\xef\xbb\xbfid,name,email,team,ddp_train,essay,raw,late_days,")
    assert content.splitlines()[0].endswith(b",penalty,final,max,problem,flags,waiting_reviews")
    assert content.endswith(b"\r\n")


def test_every_student_has_a_row() -> None:
    records = the_class()
    assert [row["id"] for row in _rows(grades_csv(records, CATALOGUE))] == [
        record.student.id for record in records
    ]


def test_points_penalty_and_what_waits_stand_in_their_columns() -> None:
    content = grades_csv(the_class(), CATALOGUE)
    plain = _row(content, "plain")
    assert (plain["ddp_train"], plain["essay"], plain["raw"], plain["final"]) == ("2.5", "0", "2.5", "2.5")
    assert (plain["max"], plain["waiting_reviews"], plain["flags"], plain["problem"]) == (
        "8",
        "1",
        "copy",
        "",
    )
    late = _row(content, "late")
    assert (late["late_days"], late["raw"], late["penalty"], late["final"]) == ("2", "5", "1", "4")
    decided = _row(content, "decided")
    assert (decided["ddp_train"], decided["essay"], decided["waiting_reviews"]) == ("5", "2.5", "0")


@pytest.mark.parametrize(
    ("student", "problem"),
    [
        ("absent", "handed in nothing"),
        ("broken", "is no archive"),
        ("faulty", "lockstep itself failed at ddp_train / sampler"),
    ],
)
def test_why_there_is_no_grade_is_said(student: str, problem: str) -> None:
    assert problem in _row(grades_csv(the_class(), CATALOGUE), student)["problem"]


def test_nothing_graded_is_empty_and_zero_points_are_zero() -> None:
    nothing = a_record("zero", replace(PASSED, points=0.0))
    content = grades_csv((nothing, a_problem("broken"), missing("absent")), CATALOGUE)
    assert _row(content, "zero")["final"] == "0"
    for student in ("broken", "absent"):
        row = _row(content, student)
        assert (row["ddp_train"], row["raw"], row["penalty"], row["final"]) == ("", "", "", "")
        assert row["max"] == "5"


def test_a_class_that_was_not_graded_has_the_catalogues_columns() -> None:
    row = _row(grades_csv((missing("absent"),), CATALOGUE), "absent")
    assert (row["ddp_train"], row["max"]) == ("", "5")


def test_an_exercise_that_somebody_was_not_graded_on_is_told() -> None:
    part = a_record("part")
    content = grades_csv((a_record("plain"), replace(part, exercises=part.exercises[:1])), CATALOGUE)
    assert _row(content, "part")["problem"] == "not graded yet: essay"


def test_points_that_a_person_gave_are_a_grade() -> None:
    given_points = Override("ddp_train", "sampler", 1.0, "", "me", "")
    faulty = next(record for record in the_class() if record.student.id == "faulty")
    row = _row(grades_csv((replace(faulty, overrides=(given_points,)),), CATALOGUE), "faulty")
    assert (row["problem"], row["final"]) == ("", "3")
    comment = replace(given_points, points=None)
    row = _row(grades_csv((replace(faulty, overrides=(comment,)),), CATALOGUE), "faulty")
    assert row["problem"]


def test_pandas_reads_the_same() -> None:
    records = the_class()
    table = pd.read_csv(io.BytesIO(grades_csv(records, CATALOGUE)), index_col="id")
    assert list(table.columns) == list(_rows(grades_csv(records, CATALOGUE))[0])[1:]
    assert table["max"].tolist() == [MOST] * len(records)
    assert table.loc["late", "final"] == 4.0
    assert pd.isna(table.loc["absent", "final"])
    assert table["raw"].dtype == table["final"].dtype == "float64"


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_in_their_cell(name: str) -> None:
    records = (a_record("before"), named(name), a_record("zlast"))
    content = grades_csv(records, CATALOGUE)
    rows = _rows(content)
    assert [row["waiting_reviews"] for row in rows] == ["1", "1", "1"]
    frame = pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False)
    assert frame.to_dict("records") == rows
    assert content.count(b"\n") == content.count(b"\r\n") == 4
    for cell in rows[1].values():
        assert not cell.startswith(FORMULA)
        assert not any(part.lstrip(' "').startswith(FORMULA) for part in cell.split(";")[1:])
        assert "\x00" not in cell
        assert "\u202e" not in cell


def test_long_names_and_odd_scripts_are_kept() -> None:
    names = ["x" * 10_000, "עברית", "👩‍👩‍👧 Zoë", 'Ann, the "second"']
    rows = _rows(grades_csv([named(name, number) for number, name in enumerate(names)], CATALOGUE))
    assert [row["name"] for row in rows] == names


@given(st.text(max_size=30))
def test_no_text_begins_a_formula_wherever_it_is_split(text: str) -> None:
    record = a_record(Student("id", text, text, text))
    content = grades_csv((record,), CATALOGUE)
    (row,) = _rows(content)
    assert not row["name"].startswith(FORMULA)
    # Excel set to a country with a decimal comma reads the very same bytes so.
    for cells in csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), delimiter=";"):
        assert not any(cell.lstrip(' "').startswith(FORMULA) for cell in cells[1:])


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.0, "0"),
        (2.0, "2"),
        (-1.25, "-1.25"),
        (1 / 3, "0.3333"),
        (1e-9, "0"),
        (-1e-9, "0"),
        (12345.5, "12345.5"),
    ],
)
def test_numbers_have_a_point_and_nothing_else(value: float, written: str) -> None:
    assert number(value) == str(Number(value)) == written


def test_a_negative_number_stays_one() -> None:
    early = replace(a_record("early"), late_days=-1.5)
    assert _row(grades_csv((early,), CATALOGUE), "early")["late_days"] == "-1.5"


def test_a_line_is_one() -> None:
    assert line("two\nlines\tand\r\na tab") == "two lines and a tab"
