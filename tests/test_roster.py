"""Rosters are read as registrars, spreadsheets and LMSs write them, or refused with a row and what to try."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pytest

from lockstep.classroom.roster import Entry, Roster, RosterError, read_roster

CANVAS_GRADEBOOK = """\
Student,ID,SIS User ID,SIS Login ID,Section,Lab 1 (4711)
,,,,,Manual Posting
    Points Possible,,,,,(read only)
"Doe, Jane",301,m100,jdoe,Mon,10
"Student, Test",999,,abcdef0123456789,Mon,
"""
MOODLE_WORKSHEET = """\
Identifier,Full name,Email address,Status,Grade,Maximum Grade,Last modified (submission)
Participant 5511,Jane Doe,jane@uni.edu,Submitted for grading,,100.00,"Friday, 3 May 2024, 11:55 PM"
Participant 5512,John Roe,john@uni.edu,No submission,,100.00,-
"""
GITHUB_ROSTER = """\
"identifier","github_username","github_id","name"
"m100","jane-codes","555","Jane Doe"
"""


def roster(tmp_path: Path, content: str | bytes) -> Roster:
    path = tmp_path / "roster.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_roster(path)


def only(tmp_path: Path, content: str | bytes) -> Entry:
    (entry,) = roster(tmp_path, content).entries
    return entry


@pytest.mark.parametrize(
    "header",
    [
        ("id", "name", "email", "team"),
        ("Student ID", "Full Name", "E-Mail", "Group"),
        ("MATRIKELNUMMER", "Name", "Email address", "Team name"),
        ("SIS User ID", "Student", "mail", "group"),
        ("sid", "name", "Email Address", "Gruppe"),
        ("ID number", "Display name", "e-mail address", "Group Name"),
    ],
)
def test_columns_go_by_the_names_that_they_have_elsewhere(tmp_path: Path, header: Sequence[str]) -> None:
    student = only(tmp_path, f"{','.join(header)}\nm1,Jane Doe,jane@uni.edu,red\n").student
    assert (student.id, student.name, student.email, student.team) == (
        "m1",
        "Jane Doe",
        "jane@uni.edu",
        "red",
    )
    assert student.enrolled


def test_a_name_may_stand_in_two_columns(tmp_path: Path) -> None:
    assert only(tmp_path, "Nachname;Vorname;Matrikelnummer\nMüller;Jörg;17\n").student.name == "Jörg Müller"


@pytest.mark.parametrize(
    "content",
    [
        "id,name\n17,Jörg Müller\n".encode(),
        "\ufeffid,name\r\n17,Jörg Müller\r\n".encode(),
        "id;name\r\n17;Jörg Müller\r\n".encode("cp1252"),
        "id\tname\r\n17\tJörg Müller\r\n".encode("utf-16"),
        "sep=;\r\nid;name\r\n17;Jörg Müller\r\n".encode("utf-8-sig"),
        '"id","name"\n\n"17","Jörg Müller"\n,\n'.encode(),
        "id,name,\n17, Jörg Müller ,\n".encode(),
        "id,name\r17,Jörg Müller\r".encode(),
        "id,name,email,team\n17,Jörg Müller\n".encode(),
    ],
    ids=[
        "utf-8",
        "mark",
        "excel",
        "unicode text",
        "sep",
        "blank lines",
        "empty column",
        "old mac",
        "no empty ends",
    ],
)
def test_every_spreadsheet_s_csv_is_read(tmp_path: Path, content: bytes) -> None:
    student = only(tmp_path, content).student
    assert (student.id, student.name) == ("17", "Jörg Müller")


def test_all_columns_are_kept_for_the_lms(tmp_path: Path) -> None:
    (entry,) = roster(tmp_path, CANVAS_GRADEBOOK).entries
    assert entry.student.id == "m100"
    assert dict(entry.numbers) == {"canvas": "301", "login": "jdoe"}
    assert dict(entry.student.columns) == {
        "Student": "Doe, Jane",
        "ID": "301",
        "SIS User ID": "m100",
        "SIS Login ID": "jdoe",
        "Section": "Mon",
        "Lab 1 (4711)": "10",
    }


def test_canvas_without_the_institution_s_numbers_has_logins(tmp_path: Path) -> None:
    without = CANVAS_GRADEBOOK.replace("m100", "")
    assert only(tmp_path, without).student.id == "jdoe"
    assert only(tmp_path, without.replace("jdoe", "").replace("abcdef0123456789", "")).student.id == "301"


def test_canvas_for_those_who_may_not_see_the_institution_s_numbers(tmp_path: Path) -> None:
    gradebook = CANVAS_GRADEBOOK.replace(",SIS User ID", "").replace(",m100", "").replace("999,,", "999,")
    gradebook = gradebook.replace(",,,,,Manual", ",,,,Manual").replace("Possible,,,,,", "Possible,,,,")
    student = only(tmp_path, gradebook)
    assert (student.student.id, student.numbers["canvas"]) == ("jdoe", "301")
    without = gradebook.replace(",SIS Login ID", "").replace(",jdoe", "").replace(",abcdef0123456789", "")
    assert only(tmp_path, without.replace(",,,,", ",,,")).student.id == "301"


def test_a_registrar_s_ids_are_not_canvas_s(tmp_path: Path) -> None:
    entry = only(tmp_path, "Student,ID,Section\nJane Doe,301,Mon\n")
    assert (entry.student.id, dict(entry.numbers)) == ("301", {})


def test_a_moodle_worksheet_is_a_roster(tmp_path: Path) -> None:
    first, second = roster(tmp_path, MOODLE_WORKSHEET).entries
    assert first.student.id == "Participant 5511"
    assert first.student.email == "jane@uni.edu"
    assert first.numbers["moodle"] == "5511"
    assert first.submitted_at == datetime(2024, 5, 3, 23, 55)
    assert second.submitted_at is None


def test_a_github_classroom_roster_is_a_roster(tmp_path: Path) -> None:
    entry = only(tmp_path, GITHUB_ROSTER)
    assert entry.student.id == "m100"
    assert entry.numbers["github"] == "jane-codes"


def test_times_and_days(tmp_path: Path) -> None:
    entry = only(tmp_path, 'id,late days,extra time,submitted at\n1,"1,5",2,2026-05-03 14:00+02:00\n')
    assert (entry.late_days, entry.student.extra_days) == (1.5, 2.0)
    assert entry.submitted_at == datetime.fromisoformat("2026-05-03T14:00+02:00")
    entry = only(tmp_path, "id;late_days;extra_days;submitted_at\n1;;;3.5.2026 14:00\n")
    assert (entry.late_days, entry.student.extra_days) == (None, 0.0)
    assert entry.submitted_at == datetime(2026, 5, 3, 14)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        ("id,name\n", "no students"),
        ("name,email\nJane,j@x\n", "no column with the students' ids. Call one `id`"),
        ("id,name\n1,Jane\n\n1,John\n", "the id `1` twice, in lines 2 and 4"),
        ("id,name\nab,Jane\nAB,John\n", "the id `AB` twice, in lines 2 and 3"),
        ("id,name\n1,Jane\n,John\n", "no `id` in line 3"),
        ("id,name\n1,Doe, Jane\n", "line 2: 3 cells under a header of 2. A cell that holds a comma"),
        ("id,name,Name\n1,Jane,Jane\n", "two columns called `Name`"),
        ('id,name\n1,"Jane\n2,John\n', "after line 1: unexpected end of data. Is a quotation mark missing?"),
        ('id\tname\n1\t"Jane"x\n', "after line 1: ' ' expected after '\"'"),
        ("x" * 200_000 + "\n", "after line 1: field larger than field limit"),
        ("id,name\n,Jane\n", "no `id` in line 2"),
        ("id,late days\n1,soon\n", "the late days `soon` in line 2"),
        ("id,late days\n1,-1\n", "the late days `-1` in line 2"),
        ("id,late days\n1,1e306\n", "the late days `1e306` in line 2"),
        ("id,extra days\n1,nan\n", "the extra days `nan` in line 2"),
        ("id,extra time\n1,25%\n", "the extra days `25%` in line 2. Give a number of days"),
        ("id,submitted at\n1,5/3/2026 14:00\n", "Write it as 2026-05-03 14:00"),
        ("id,name\n1.23457E+11,Jane\n", "a spreadsheet has rounded it"),
        (b"PK\3\4xl/workbook.xml", "an Excel or OpenDocument file. Save it as CSV first"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Excel file"),
        (b"id,name\n1,\0\0\n", "Save it as CSV in UTF-8"),
        ("id,name\n1," + "x" * 200_000 + "\n", "after line 1: field larger than field limit"),
    ],
)
def test_what_is_wrong_is_said_with_its_row(tmp_path: Path, content: str | bytes, said: str) -> None:
    with pytest.raises(RosterError) as refusal:
        roster(tmp_path, content)
    assert said in str(refusal.value)
    assert str(tmp_path) not in str(refusal.value)


def test_a_roster_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(RosterError, match=r"roster\.csv cannot be read: no such file"):
        read_roster(tmp_path / "roster.csv")
    with pytest.raises(RosterError, match=r"cannot be read: is a directory"):
        read_roster(tmp_path)
