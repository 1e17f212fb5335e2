"""Canvas takes back what it gave, and of a new file only students whom it can know."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pandas as pd
import pytest

from lockstep.classroom.exports.canvas import build_canvas, fill_canvas
from lockstep.classroom.exports.fill import LeftOut
from lockstep.classroom.people import Student
from lockstep.classroom.sheet import SheetError
from tests.graded_class import CATALOGUE, HOSTILE, a_record, missing, named, the_class

EXPORTED = (
    b"Student,ID,SIS User ID,SIS Login ID,Section,Warm-up (11),Lab 1 (4711),Final Score\r\n"
    b"Manual Posting,,,,,,,\r\n"
    b"    Points Possible,,,,,10.00,16.00,(read only)\r\n"
    b'"Lee, Plain",501,u1,plain@example.org,A,9.5,,81.2\r\n'
    b'"Lee, Late",502,u2,late,A,8.0,3.00,\r\n'
    b'"Lee, Decided",503,u3,decided@example.org,"A and ""B""",7.0,EX,\r\n'
    b'"Lee, Faulty",504,u4,faulty@example.org,B,,,\r\n'
    b'"Lee, Absent",505,u5,absent@example.org,B,,2.00,\r\n'
    b'"Doe, Jo",506,u6,jo@example.org,B,,,\r\n'
    b'"Student, Test",999,,abcdef,B,,,\r\n'
)


def test_the_column_of_one_assignment_is_filled_and_nothing_else() -> None:
    filled = fill_canvas(EXPORTED, "grades.csv", the_class(), CATALOGUE, "Lab 1")
    # 2.5 and 4 of 8 points are 5 and 8 of Canvas' 16; excused, ungraded and missing students stay as they are.
    expected = EXPORTED.replace(b",9.5,,81.2", b",9.5,5,81.2").replace(b",8.0,3.00,", b",8.0,8,")
    assert filled.content == expected
    assert filled.grades == 2
    assert filled.notes == (
        "points are scaled from 8 to 16",
        "1 student has answers that wait for a person: grades may still rise",
    )


def test_everybody_who_is_left_out_is_listed() -> None:
    filled = fill_canvas(EXPORTED, "grades.csv", the_class(), CATALOGUE, "4711")
    reasons = {one.who: one.reason for one in filled.left_out}
    assert list(reasons) == ["Decided Lee", "Faulty Lee", "Ends Lee", "Broken Lee"]
    assert reasons["Decided Lee"] == "is excused in Canvas"
    assert reasons["Ends Lee"] == "has no row in the file"
    assert "lockstep itself failed" in reasons["Faulty Lee"]
    assert filled.unmatched == (LeftOut("Doe, Jo", "is nobody's who handed in or is in the roster"),)


@pytest.mark.parametrize("assignment", ["Lab 1", "4711", "Lab 1 (4711)", " 4711 "])
def test_an_assignment_is_named_by_title_or_id(assignment: str) -> None:
    assert fill_canvas(EXPORTED, "grades.csv", the_class(), CATALOGUE, assignment).grades == 2


def test_filling_again_changes_nothing() -> None:
    once = fill_canvas(EXPORTED, "grades.csv", the_class(), CATALOGUE, "4711")
    assert fill_canvas(once.content, "grades.csv", the_class(), CATALOGUE, "4711").content == once.content


def test_the_only_assignment_needs_no_name() -> None:
    only = EXPORTED.replace(b"Warm-up (11)", b"Notes")
    assert fill_canvas(only, "grades.csv", the_class(), CATALOGUE).grades == 2


@pytest.mark.parametrize(
    ("data", "assignment", "sentence"),
    [
        (
            EXPORTED,
            "",
            "several assignments; say with --assignment which one is meant: `Warm-up (11)`, `Lab 1 (4711)`",
        ),
        (EXPORTED, "Lab 2", "no assignment `Lab 2`; its assignments are `Warm-up (11)`, `Lab 1 (4711)`"),
        (b"Student,ID\nAnn,1\n", "", "no column of an assignment; its assignments are none"),
        (b"Student,Lab (1)\nAnn,1\n", "", "none of the columns ID, SIS User ID, SIS Login ID"),
        (b"name,grade\nAnn,1\n", "", "no column `Student`"),
    ],
)
def test_another_file_is_refused_with_a_sentence(data: bytes, assignment: str, sentence: str) -> None:
    with pytest.raises(SheetError) as refusal:
        fill_canvas(data, "grades.csv", the_class(), CATALOGUE, assignment)
    assert sentence in str(refusal.value)
    assert "grades.csv" in str(refusal.value)


def test_semicolons_decimal_commas_and_a_byte_order_mark_stay() -> None:
    german = (
        "\ufeff" + EXPORTED.decode().replace(",,", ";;").replace(",", ";").replace('"Lee;', '"Lee,')
    ).encode()
    german = german.replace(b"16.00", b"10,00").replace(b"3.00", b"3,00").replace(b"2.00", b"2,00")
    filled = fill_canvas(german, "grades.csv", the_class(), CATALOGUE, "4711")
    assert filled.content == german.replace(b";9.5;;81.2", b";9.5;3,125;81.2").replace(
        b";8.0;3,00;", b";8.0;5;"
    )


def test_points_are_not_scaled_where_canvas_names_none() -> None:
    data = EXPORTED.replace(b"16.00", b"")
    filled = fill_canvas(data, "grades.csv", the_class(), CATALOGUE, "4711")
    assert b",9.5,2.5,81.2" in filled.content
    assert not any("scaled" in note for note in filled.notes)


@pytest.mark.parametrize("possible", ["1,000", "1.000", "16.000", "1,000.00", "1 000", "many"])
def test_points_possible_that_may_be_another_number_are_refused(possible: str) -> None:
    data = EXPORTED.replace(b"16.00", f'"{possible}"'.encode())
    with pytest.raises(SheetError, match=r"how many points are they\? Write them without"):
        fill_canvas(data, "grades.csv", the_class(), CATALOGUE, "4711")


@pytest.mark.parametrize(
    ("possible", "grade"), [("16", b"5"), ("16.0", b"5"), ("1600.000", b"500"), ("0.800", b"0.25")]
)
def test_points_possible_that_are_sure_are_scaled_to(possible: str, grade: bytes) -> None:
    data = EXPORTED.replace(b"16.00", possible.encode())
    filled = fill_canvas(data, "grades.csv", the_class(), CATALOGUE, "4711")
    assert b",9.5," + grade + b",81.2" in filled.content


def _known(name: str, **columns: str) -> Student:
    return Student(
        name,
        f"{name.title()} Lee",
        columns=tuple((key.replace("_", " "), text) for key, text in columns.items()),
    )


def test_a_file_is_built_from_the_rosters_columns() -> None:
    records = [
        a_record(_known("plain", ID="501", SIS_User_ID="u1", SIS_Login_ID="p1", Section="A")),
        a_record(_known("login", SIS_Login_ID="l1")),
        a_record(_known("unknown")),
        missing("absent"),
        *(record for record in the_class() if record.student.id == "broken"),
    ]
    built = build_canvas(records, CATALOGUE, "Lab 1 (4711)")
    assert built.content.decode().splitlines() == [
        "Student,ID,SIS User ID,SIS Login ID,Section,Lab 1 (4711)",
        "    Points Possible,,,,,8",
        "Plain Lee,501,u1,p1,A,2.5",
        "Login Lee,,,l1,,2.5",
    ]
    assert built.grades == 2
    assert [one.who for one in built.left_out] == ["Unknown Lee", "Broken Lee"]
    assert "the roster has no ID, SIS User ID, SIS Login ID" in built.left_out[0].reason


def test_a_canvas_id_of_the_roster_is_canvas_own_number() -> None:
    record = a_record(Student("77", "Ann", columns=(("student id", "77"), ("Canvas ID", "501"))))
    assert build_canvas([record], CATALOGUE).content.decode().splitlines()[2] == "Ann,501,,,,2.5"


def test_the_institutions_number_is_not_taken_for_canvas_own() -> None:
    record = a_record(Student("77", "Ann", columns=(("id", "77"), ("name", "Ann"))))
    assert build_canvas([record], CATALOGUE).grades == 0


def test_who_is_in_no_roster_is_known_as_the_download_knows_them() -> None:
    stranger = a_record(Student("501", "leeann", columns=(("ID", "501"),), enrolled=False))
    assert build_canvas([stranger], CATALOGUE).content.decode().splitlines()[2] == "leeann,501,,,,2.5"
    filled = fill_canvas(EXPORTED, "grades.csv", [stranger], CATALOGUE, "Lab 1")
    assert filled.content == EXPORTED.replace(b",9.5,,81.2", b",9.5,5,81.2")


def test_what_was_built_can_be_filled() -> None:
    records = [
        a_record(_known("plain", ID="501", SIS_User_ID="u1")),
        a_record(_known("login", SIS_Login_ID="l1")),
    ]
    built = build_canvas(records, CATALOGUE, "Lab 1 (4711)").content
    again = fill_canvas(
        built, "canvas.csv", [replace(record, late_days=3.0) for record in records], CATALOGUE
    )
    assert (again.content, again.grades) == (built, 2)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_in_its_cell(name: str) -> None:
    content = build_canvas([named(name), named("after", 1)], CATALOGUE).content
    rows = list(csv.reader(io.StringIO(content.decode(), newline=""), strict=True))
    assert [len(row) for row in rows] == [6, 6, 6, 6]
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for row in rows for cell in row)
    table = pd.read_csv(io.BytesIO(content))
    assert table["lockstep"].tolist() == [8.0, 2.5, 2.5]
