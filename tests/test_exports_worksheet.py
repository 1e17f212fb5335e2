"""A learning platform's file changes in the cells that were asked for and in no other byte."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.classroom.exports.worksheet import parse_number, read_worksheet
from lockstep.classroom.sheet import SheetError

cell_text = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00\ufeff"), max_size=8)
tables = st.integers(2, 4).flatmap(
    lambda width: st.lists(
        st.lists(cell_text, min_size=width, max_size=width).filter(
            lambda row: any(cell.strip() for cell in row)
        ),
        min_size=1,
        max_size=4,
    )
)


def _file(
    rows: Sequence[Sequence[str]], separator: str = ",", quoting: int = csv.QUOTE_MINIMAL, end: str = "\r\n"
) -> str:
    header = ["Name", "Grade", *(f"c{number}" for number in range(len(rows[0]) - 2))]
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=separator, quoting=quoting, lineterminator=end).writerows([header, *rows])  # type: ignore[arg-type]
    return file.getvalue()


@given(
    tables,
    st.sampled_from(",;\t"),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from(["\r\n", "\n"]),
)
def test_cells_are_those_that_the_csv_module_reads(
    rows: list[list[str]], separator: str, quoting: int, end: str
) -> None:
    text = _file(rows, separator, quoting, end)
    sheet = read_worksheet(text.encode(), "x.csv", ("Name", "Grade"))
    # Not `rows`: the writer leaves a CR without quotes where lines end with LF, and then it ends one, too.
    _, *read = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    expected = [row for row in read if any(cell.strip() for cell in row)]
    assert [[cell.text for cell in row] for row in sheet.rows] == expected


@given(tables, st.sampled_from(",;\t"), st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]), cell_text)
def test_only_the_cell_that_is_changed_changes(
    rows: list[list[str]], separator: str, encoding: str, new: str
) -> None:
    data = _file(rows, separator).encode(encoding)
    sheet = read_worksheet(data, "x.csv", ("Name", "Grade"))
    assert sheet.with_cells({}) == data
    changed = sheet.with_cells({(0, "grade"): new})
    again = read_worksheet(changed, "x.csv", ("Name", "Grade"))
    expected = [list(row) for row in rows]
    expected[0][1] = new
    assert [[cell.text for cell in row] for row in again.rows] == [
        row for row in expected if any(cell.strip() for cell in row)
    ]
    before = sheet.whole[: sheet.rows[0][1].start].encode(sheet.encoding)
    after = sheet.whole[sheet.rows[0][1].end :].encode(sheet.encoding)
    assert changed.startswith(before)
    assert changed.endswith(after)


@pytest.mark.parametrize(
    "data",
    [
        b'Name,Grade\nAnn,\n"Ben" ,"1"\nCid,2',
        b'Name,Grade\r\rAnn,1\r"B\rn",2\r',
        b'\xef\xbb\xbf"Name";Grade;\r\n\r\nAnn;;\r\n;;\r\n',
        b'Name\tGrade\nA "quoted" n\t"say ""hi"""x\n',
        "Name;Grade\nJürgen;1,5\n".encode("cp1252"),
        "Name,Grade\nJürgen,1\n".encode("utf-16"),
        b"\xfe\xff" + "Name,Grade\nJürgen,1\n".encode("utf-16-be"),
        b"Grade,Name\n,Ann",
        b"\xef\xbb\xbfx,Grade,Name\n,,J\xfcrgen",
    ],
)
def test_odd_files_come_back_byte_for_byte(data: bytes) -> None:
    sheet = read_worksheet(data, "x.csv", ("Grade", "Name"))
    assert sheet.with_cells({}) == data
    row = next(row for row in range(len(sheet.rows)) if sheet.text(row, "Name"))
    whole = sheet.with_cells({(row, "Grade"): "7"})
    assert read_worksheet(whole, "x.csv", ("Name",)).text(row, "Grade") == "7"
    same = sheet.rows[row][sheet.header.index("Grade")]
    undone = read_worksheet(whole, "x.csv", ("Name",)).with_cells({(row, "Grade"): same.text})
    assert undone == data or same.quoted


def test_quotes_stay_where_they_were_and_come_where_they_must() -> None:
    sheet = read_worksheet(b'Name,Grade\n"Ann","1"\nBen,1\nCid,1\n', "x.csv", ("Name",))
    changed = sheet.with_cells({(0, "Grade"): "2", (1, "Grade"): "2,5", (2, "Grade"): 'a "b"\nc'})
    assert changed == b'Name,Grade\n"Ann","2"\nBen,"2,5"\nCid,"a ""b""\nc"\n'


def test_a_character_that_the_files_encoding_lacks_costs_itself_only() -> None:
    sheet = read_worksheet("Name,Grade\nJürgen,1\n".encode("cp1252"), "x.csv", ("Name",))
    assert sheet.with_cells({(0, "Grade"): "passed ✓ ü"}) == "Name,Grade\nJürgen,passed ? ü\n".encode(
        "cp1252"
    )


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "x.csv has no column `Name`"),
        (b"a,b\n1,2\n", "no column `Name`, `Grade`; its columns are `a`, `b`"),
        (b'Name,Grade\nAnn,"open\n', "opened in line 2 is never closed"),
        (b"PK\x03\x04", "is an Excel or OpenDocument file"),
        (b"Name,Grade\n\x81\x8d\n", "is no text in UTF-8"),
    ],
)
def test_what_is_no_such_table_is_refused_with_a_sentence(data: bytes, sentence: str) -> None:
    with pytest.raises(SheetError, match=sentence.replace("`", ".")):
        read_worksheet(data, "x.csv", ("Name", "Grade"))


def test_a_row_that_is_too_short_is_named() -> None:
    sheet = read_worksheet(b'Name,Grade\n"A\nnn"\n', "x.csv", ("Name",))
    with pytest.raises(SheetError, match=r"row in line 2 ends before the column .Grade."):
        sheet.with_cells({(0, "Grade"): "1"})


@pytest.mark.parametrize(
    ("grades", "mark"),
    [("10.00", "."), ("10,00", ","), ("10", "."), ("", "."), ("10,00;9.50", "."), ("abc", ".")],
)
def test_the_decimal_mark_is_that_of_the_numbers_there(grades: str, mark: str) -> None:
    rows = "".join(f"Ann;{grade}\n" for grade in grades.split(";"))
    sheet = read_worksheet(f"Name;Grade\n{rows}".encode(), "x.csv", ("Name",))
    assert sheet.decimal_mark("Grade") == mark


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10", 10.0),
        ("10.50", 10.5),
        (" 10,5 ", 10.5),
        ("1,000.0", None),
        ("", None),
        ("-1", None),
        ("nan", None),
        ("9" * 400, None),
    ],
)
def test_a_number_is_read_with_either_mark(text: str, value: float | None) -> None:
    assert parse_number(text) == value
