"""A row of somebody's file is matched to a student by what is sure, and otherwise to nobody."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from lockstep.classroom.exports.owners import EMAIL, NAME, match
from lockstep.classroom.people import Student

ANN = Student("100", "Ann Lee", "ann@example.org")
BEN = Student("200", "Ben Roe", "ben@example.org")
TWIN = Student("300", "Ann Lee", "lee@example.org")


def _owner(row: Mapping[str, str], *students: Student) -> str | None:
    found = match({0: row}, students).students.get(0)
    return None if found is None else found.id


@pytest.mark.parametrize(
    "row",
    [
        {EMAIL: "ANN@example.org"},
        {EMAIL: " ann@example.org "},
        {NAME: "Ann Lee"},
        {NAME: "Lee, Ann"},
        {NAME: "LEE,  Ánn"},
        {"sis user id": "", EMAIL: "", NAME: "ann lee"},
        {"unknown column": "17", NAME: "Ann Lee"},
    ],
)
def test_one_student_is_found_by_what_both_sides_know(row: Mapping[str, str]) -> None:
    assert _owner(row, ANN, BEN) == "100"


@pytest.mark.parametrize(
    "row",
    [
        {NAME: "Ann"},
        {NAME: ""},
        {},
        {EMAIL: "somebody@example.org"},
        {EMAIL: "other@example.org", NAME: "Ann Lee"},
        {EMAIL: "ben@example.org.evil", NAME: "Nobody"},
    ],
)
def test_what_is_not_sure_is_nobodys(row: Mapping[str, str]) -> None:
    assert _owner(row, ANN, BEN) is None
    assert match({0: row}, [ANN, BEN]).unmatched[0].startswith("is nobody's")


def test_namesakes_are_told_apart_or_left_alone() -> None:
    assert _owner({EMAIL: "lee@example.org", NAME: "Ann Lee"}, ANN, TWIN) == "300"
    assert _owner({NAME: "Ann Lee"}, ANN, TWIN) is None
    assert match({0: {NAME: "Ann Lee"}}, [ANN, TWIN]).unmatched == {0: "could be any of 2 students"}


def test_a_column_of_the_roster_counts_more_than_a_name() -> None:
    known = Student("100", "Ann Lee", columns=(("SIS Login ID", "alee"),))
    assert _owner({"sis login id": "ALEE", NAME: "Somebody Else"}, known, BEN) == "100"
    assert _owner({"sis login id": "other", NAME: "Ann Lee"}, known, BEN) is None


def test_two_rows_of_one_student_are_both_left() -> None:
    found = match({4: {NAME: "Ann Lee"}, 7: {EMAIL: "ann@example.org"}, 9: {NAME: "Ben Roe"}}, [ANN, BEN])
    assert {number: student.id for number, student in found.students.items()} == {9: "200"}
    assert found.unmatched == dict.fromkeys((4, 7), "is one of 2 rows of Ann Lee")


def test_the_own_id_is_of_the_kind_by_which_most_are_found() -> None:
    rows = {0: {"id": "7", "sis user id": "100"}, 1: {"id": "100", "sis user id": "200"}}
    found = match(rows, [ANN, BEN]).students
    assert {number: student.id for number, student in found.items()} == {0: "100", 1: "200"}


def test_a_chance_hit_of_an_id_decides_nothing() -> None:
    class_ = [Student(str(number), f"Name{number} N") for number in range(1, 9)]
    rows = {number: {"id": str(number + 7), NAME: student.name} for number, student in enumerate(class_, 1)}
    found = match(rows, class_).students
    assert {number: student.id for number, student in found.items()} == {
        number: str(number) for number in range(1, 9)
    }


def test_the_rosters_own_id_column_does_not_contradict_the_platforms() -> None:
    student = Student("100", "Ann Lee", columns=(("id", "100"), ("name", "Ann Lee")))
    assert _owner({"id": "98765", NAME: "Ann Lee"}, student, BEN) == "100"


@pytest.mark.parametrize(
    "identifier", ["Participant 12345", "Teilnehmer/in 12345", "Participant12345", "12345"]
)
def test_moodles_participants_are_known_by_their_number(identifier: str) -> None:
    assert _owner({"identifier": identifier}, Student("12345"), Student("12346")) == "12345"
    by_roster = Student("a1", columns=(("Identifier", "Participant 12345"),))
    assert _owner({"identifier": identifier, NAME: "x"}, by_roster, BEN) == "a1"


def test_a_class_of_thousands_is_matched() -> None:
    class_ = [Student(f"s{number}", f"Name{number} Of{number}", f"n{number}@x.org") for number in range(5000)]
    rows = {number: {EMAIL: student.email, NAME: student.name} for number, student in enumerate(class_)}
    assert len(match(rows, class_).students) == 5000
