"""Moodle's worksheet is filled in place: two cells of a row change, every other byte stays."""

from __future__ import annotations

import csv
import html
import io
import re
from dataclasses import replace

import pandas as pd
import pytest

from lockstep.classroom.exports.fill import LeftOut
from lockstep.classroom.exports.moodle import COMMENT, comment, fill_moodle
from lockstep.classroom.people import Student
from lockstep.classroom.record import Override
from lockstep.classroom.sheet import SheetError
from tests.graded_class import CATALOGUE, FAILED, HOSTILE, PASSED, a_record, named, the_class

HEADER = (
    'Identifier,"Full name","Email address",Status,Grade,"Maximum Grade","Grade can be changed",'
    '"Last modified (submission)","Last modified (grade)","Feedback comments"'
)
SHEET = (
    f"{HEADER}\n"
    'Participant 9001,"Plain Lee",plain@example.org,"Submitted for grading",,100.00,Yes,"Friday, 1 May 2026, 9:00 AM",-,\n'
    'Participant 9002,"Late Lee",late@example.org,"Submitted for grading",1.00,100.00,Yes,-,-,"<p>old</p>"\n'
    'Participant 9003,"Decided Lee",decided@example.org,Submitted,,100.00,No,-,-,\n'
    'Participant 9004,"Broken ""B"" Lee",broken@example.org,Submitted,,100.00,Yes,-,-,\n'
    "Participant 9005,Absent Lee,absent@example.org,No submission,,100.00,Yes,-,-,\n"
    "Participant 9006,Jo Doe,jo@example.org,No submission,,100.00,Yes,-,-,\n"
    'Participant 9007,"Faulty Lee",faulty@example.org,Submitted,5.00,100.00,Yes,-,-,stays\n'
)


def _fill(text: str = SHEET, encoding: str = "utf-8") -> bytes:
    return fill_moodle(text.encode(encoding), "sheet.csv", the_class(), CATALOGUE).content


def _cells(content: bytes, separator: str = ",") -> dict[str, dict[str, str]]:
    rows = csv.DictReader(
        io.StringIO(content.decode("utf-8-sig"), newline=""), delimiter=separator, strict=True
    )
    return {row["Identifier"]: row for row in rows}


def test_grades_are_scaled_to_the_rows_maximum() -> None:
    cells = _cells(_fill())
    assert [cells[f"Participant {number}"]["Grade"] for number in range(9001, 9008)] == [
        "31.25",  # 2.5 of 8
        "50",  # 4 of 8
        "",
        "",
        "",
        "",
        "5.00",
    ]


def test_every_byte_but_grade_and_comment_stays() -> None:
    before, after = SHEET.encode().splitlines(keepends=True), _fill().splitlines(keepends=True)
    # Absent, nobody's, not to be changed, lockstep's own failure: not a byte.
    for line in (0, 3, 5, 6, 7):
        assert after[line] == before[line]
    start, end = before[1][: before[1].index(b",100.00")], b',100.00,Yes,"Friday, 1 May 2026, 9:00 AM",-,'
    assert after[1].startswith(start + b"31.25" + end + b'"<p>2.5 of 8 points.')
    assert after[1].endswith(b'</p>"\n')
    assert after[2].startswith(
        b'Participant 9002,"Late Lee",late@example.org,"Submitted for grading",50,100.00,Yes,-,-,"<p>4'
    )
    assert after[4].startswith(
        b'Participant 9004,"Broken ""B"" Lee",broken@example.org,Submitted,,100.00,Yes,-,-,<p>Noth'
    )


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_separator_quotes_line_ends_and_encoding_stay(encoding: str, end: str, separator: str) -> None:
    text = SHEET.replace('"Friday, 1 May 2026, 9:00 AM"', '"Frei tag"').replace("Jo Doe", "Jörg Doe")
    text = text.replace(",", separator).replace("\n", end)
    data = text.encode(encoding)
    content = fill_moodle(data, "sheet.csv", the_class(), CATALOGUE).content
    whole = content.decode(encoding)
    assert whole.encode(encoding) == content
    assert whole.count(end) == text.count(end)
    lines, given = whole.split(end), text.split(end)
    assert [lines[number] for number in (0, 3, 5, 6, 7)] == [given[number] for number in (0, 3, 5, 6, 7)]
    assert lines[1].startswith(
        given[1].replace(f"{separator}{separator}100", f"{separator}31.25{separator}100")
    )


def test_a_worksheet_with_decimal_commas_gets_decimal_commas() -> None:
    german = SHEET.replace('"Friday, 1 May 2026, 9:00 AM"', "-").replace(",", ";").replace("100.00", "100,00")
    cells = _cells(_fill(german.replace("1.00;", "1,00;").replace("5.00", "5,00")), ";")
    assert cells["Participant 9001"]["Grade"] == "31,25"
    assert cells["Participant 9001"]["Maximum Grade"] == "100,00"


def test_everybody_who_is_left_out_is_listed() -> None:
    filled = fill_moodle(SHEET.encode(), "sheet.csv", the_class(), CATALOGUE)
    reasons = {one.who: one.reason for one in filled.left_out}
    assert list(reasons) == ["Decided Lee", "Broken Lee", "Faulty Lee", "Ends Lee"]
    assert reasons["Decided Lee"] == "has a grade that Moodle does not let anybody change"
    assert reasons["Ends Lee"] == "has no row in the file"
    assert filled.unmatched == (LeftOut("Jo Doe", "is nobody's who handed in or is in the roster"),)
    assert filled.grades == 2
    assert "points are scaled from 8 to 100" in filled.notes


def test_filling_again_changes_nothing() -> None:
    once = _fill()
    assert fill_moodle(once, "sheet.csv", the_class(), CATALOGUE).content == once


def test_pandas_reads_what_was_filled() -> None:
    table = pd.read_csv(io.BytesIO(_fill()), index_col="Identifier")
    assert table["Grade"].dropna().to_dict() == {
        "Participant 9001": 31.25,
        "Participant 9002": 50.0,
        "Participant 9007": 5.0,
    }
    assert table.loc["Participant 9007", "Feedback comments"] == "stays"


def test_a_worksheet_without_comments_gets_grades_alone() -> None:
    lines = [line.rsplit(",", 1)[0] for line in SHEET.splitlines()]
    content = _fill("\n".join(lines))
    assert content.decode().splitlines()[1] == lines[1].replace(",,100.00", ",31.25,100.00")


def test_blind_marking_knows_students_by_their_number() -> None:
    sheet = "Identifier,Status,Grade,Maximum Grade,Grade can be changed\nParticipant 9001,x,,8.00,Yes\n"
    filled = fill_moodle(sheet.encode(), "sheet.csv", [a_record(Student("9001"))], CATALOGUE)
    assert filled.content.endswith(b"Participant 9001,x,2.5,8.00,Yes\n")
    assert not any("scaled" in note for note in filled.notes)


def test_who_is_in_no_roster_is_known_as_the_download_knows_them() -> None:
    stranger = a_record(
        Student("9004", "Somebody", columns=(("Identifier", "Participant 9004"),), enrolled=False)
    )
    filled = fill_moodle(SHEET.encode(), "sheet.csv", [stranger], CATALOGUE)
    assert (filled.grades, _cells(filled.content)["Participant 9004"]["Grade"]) == (1, "31.25")


def test_a_scale_of_words_is_left_to_people() -> None:
    filled = fill_moodle(SHEET.replace("100.00", "Good").encode(), "sheet.csv", the_class(), CATALOGUE)
    assert filled.content == SHEET.replace("100.00", "Good").encode()
    assert filled.left_out[0] == LeftOut("Plain Lee", "has no points for a maximum, but Good")


def test_a_grade_above_the_maximum_is_cut_to_it() -> None:
    generous = a_record("plain", overrides=(Override("ddp_train", "", 99.0, "", "me", ""),))
    filled = fill_moodle(SHEET.encode(), "sheet.csv", [generous], CATALOGUE)
    assert _cells(filled.content)["Participant 9001"]["Grade"] == "100"
    assert "grades above the maximum are cut to it: 1" in filled.notes


def test_another_language_is_refused_with_what_to_do() -> None:
    with pytest.raises(SheetError, match=r"no column .Identifier.*switch Moodle to English"):
        fill_moodle('ID,"Vollständiger Name",Bewertung\n'.encode(), "sheet.csv", the_class(), CATALOGUE)


def test_a_comment_says_what_was_seen_and_what_to_try() -> None:
    late = next(record for record in the_class() if record.student.id == "late")
    paragraphs = comment(late, CATALOGUE).removeprefix("<p>").removesuffix("</p>").split("</p><p>")
    assert paragraphs == [
        "4 of 8 points.<br>2 days late: 1 of 5 points are taken off.<br>Note: class.zip held a folder",
        "ddp_train / sampler: failed, 0.5 of 3 points<br>Every rank sees its own share.<br>"
        "Rank 1 saw &lt;b&gt;12&lt;/b&gt; of 40 images.<br>Try: Use a `DistributedSampler`.",
        "essay / Q1: answer, 2.5 of 3 points<br>Why?<br>Comment: Well said.",
    ]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_no_markup_and_no_formula(name: str) -> None:
    content = comment(named(name), CATALOGUE)
    assert set(re.findall(r"<[^>]*>", content)) <= {"<p>", "</p>", "<br>"}
    assert not re.search(r";[\s\"]*[=+\-@＝＋－＠]", content)
    bare = re.sub(r"<[^>]*>", "", content)
    assert "<" not in bare
    for part in re.split("[\x00-\x1f\u200b\u202e\ud800\ufffe\uffff]+", name):
        if len(part) < 100:
            assert " ".join(part.split()) in " ".join(html.unescape(bare).split())
    filled = fill_moodle(
        SHEET.encode(),
        "sheet.csv",
        [replace(named(name), student=Student("plain", email="plain@example.org"))],
        CATALOGUE,
    )
    assert len(_cells(filled.content)) == 7


def test_a_comment_fits_a_spreadsheets_cell() -> None:
    long = [replace(FAILED, id=f"check_{number}", message="& " * 900) for number in range(40)]
    content = comment(a_record("ann", PASSED, *long), CATALOGUE)
    assert len(content) <= COMMENT
    assert re.search(r"<p>and \d+ more remarks</p>$", content)
