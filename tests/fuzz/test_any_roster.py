"""Rosters and tables that no spreadsheet wrote: read or refused, and every row is as long as its header."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest
from hypothesis import given

from lockstep.classroom.exports.worksheet import read_worksheet
from lockstep.classroom.roster import FIELDS, RosterError, read_roster
from lockstep.classroom.sheet import SheetError, read_sheet
from tests.fuzz.bent import Dice, thrown
from tests.fuzz.promise import held, presentable

ODD_TITLES = ("ID", "Identifier", "Grade", "", " ", "sep=;", "##[x]", "\u202e")
TITLES = tuple(name for names in (*FIELDS.values(), ODD_TITLES) for name in names)
CELLS = (
    "m100", "m200", "M100", "", " ", "-", "Jane Doe", '"Doe, Jane"', '"a\nb"', '"never closed', 'a"b', '""""', "Participant 7", "1,23E+08", "1.5E+10",
    "1", "0.5", "0,5", "-1", "nan", "inf", "1e999", "1_0", "2026-05-03", "2026-05-03 14:00", "2026-05-03T14:00+25:00", "0001-01-01", "9999-12-31T23:59:59-14:00",
    "03.05.2026 14:00", "Sunday, 3 May 2026, 2:00 PM", "https://github.com/jane/", "@jane", "=cmd()", "Points Possible", "Student, Test",
    "x" * 200_000, "\0", "\x1b[2J", "::error::", "##[error]", "\u202e", "字", "\x85", "\u2028", "e\u0301" * 5, "\ufeff",
)  # fmt: skip
ENCODINGS = ("utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32", "cp1252", "latin-1")


def table_of(dice: Dice) -> bytes:
    separator = dice.choice(",,,;\t|")
    width = dice.randrange(1, 6)
    header = [
        dice.choice(["id", "student id", dice.choice(TITLES)]),
        *(cell_of(dice, TITLES) for _ in range(width - 1)),
    ]
    rows = [header]
    for number in range(dice.randint(0, 2 * dice.size)):
        cells = [f"m{number}", *(cell_of(dice, CELLS) for _ in range(width - 1))]
        if dice.rarely(10):
            cells[0] = cell_of(dice, CELLS)
        rows.append(cells[: dice.randrange(width + 1)] if dice.rarely(20) else cells)
    first = dice.choice(["sep=;\n", 'sep="\n', "sep=,\r\n", "\n", "sep=\0\n"]) if dice.rarely(10) else ""
    end = dice.choice(["\n", "\n", "\r\n", "\r"])
    text = first + end.join(separator.join(row) for row in rows) + dice.choice(["", end])
    data = text.encode(dice.choice(ENCODINGS), "replace")
    if dice.rarely(10):
        data = dice.choice([codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, b"PK\3\4", b"\xd0\xcf\x11\xe0"]) + data
    return dice.bent(data, 3) if dice.rarely(3) else data


def cell_of(dice: Dice, usual: tuple[str, ...]) -> str:
    return dice.text() if dice.rarely(8) else dice.choice(usual)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rosters") / "roster.csv"


@given(thrown(table_of))
def test_any_table_is_a_roster_or_refused(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    sheet = held(lambda: read_sheet(path), SheetError)
    if sheet is not None:
        assert all(len(row.cells) == len(sheet.header) for row in sheet.rows)
        assert [row.number for row in sheet.rows] == sorted({row.number for row in sheet.rows})
    roster = held(lambda: read_roster(path), RosterError)
    if roster is not None:
        ids = [student.id.casefold() for student in roster.students]
        assert len(set(ids)) == len(ids) > 0
        assert all(entry.late_days is None or 0 <= entry.late_days < float("inf") for entry in roster.entries)
    worksheet = held(lambda: read_worksheet(data, "w.csv", ("id",)), SheetError)
    if worksheet is not None:
        assert worksheet.with_cells({}) == data
        presentable(worksheet.decimal_mark("grade"))
