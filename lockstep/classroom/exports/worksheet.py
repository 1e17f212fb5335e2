"""A learning platform's CSV file in which some cells are changed and every other byte stays.

A platform takes back what it gave out. So nothing is written anew: encoding, byte order mark, separator, quotes, line
ends and the order of rows are those of the file.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from lockstep.classroom.sheet import SheetError, decoded
from lockstep.text import safe_line

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_SEPARATORS = (",", ";", "\t")
_DECIMAL = re.compile(r"\s*([0-9]{1,9})(?:([.,])([0-9]{1,9}))?\s*")
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class Cell:
    """One cell: its text, and where it stands in the file's text, its quotes included."""

    text: str
    start: int
    end: int
    quoted: bool


@dataclass(frozen=True)
class Worksheet:
    """A table: `header`, and `rows` below it, which may be shorter. Columns are found whatever their case."""

    whole: str
    encoding: str
    separator: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def has(self, column: str) -> bool:
        """Whether there is a column of this name."""
        return self._position(column) is not None

    def text(self, row: int, column: str) -> str:
        """The text of a cell without blanks around it; empty where the row or the table has none."""
        position = self._position(column)
        cells = self.rows[row]
        return "" if position is None or position >= len(cells) else cells[position].text.strip()

    def decimal_mark(self, *columns: str) -> str:
        """The decimal mark of the numbers in these columns: a comma where they have one, else a point."""
        found = (
            _DECIMAL.fullmatch(self.text(row, name)) for name in columns for row in range(len(self.rows))
        )
        marks = {match[2] for match in found if match is not None and match[2]}
        return "," if marks == {","} else "."

    def with_cells(self, changes: Mapping[tuple[int, str], str]) -> bytes:
        """The file with these cells, by row and column, changed. Raises SheetError for one that is not there."""
        cells = sorted(
            ((self._cell(row, column), text) for (row, column), text in changes.items()),
            key=lambda change: change[0].start,
        )
        pieces, done = [], 0
        for cell, text in cells:
            pieces += [self.whole[done : cell.start], self._written(text, cell)]
            done = cell.end
        # An old code page may lack a character of a comment; what was in the file is never among those.
        return "".join([*pieces, self.whole[done:]]).encode(self.encoding, errors="replace")

    @cached_property
    def _positions(self) -> Mapping[str, int]:
        """Where each column stands; of two with one name the first."""
        return {name.casefold(): position for position, name in reversed(list(enumerate(self.header)))}

    def _position(self, column: str) -> int | None:
        return self._positions.get(column.casefold())

    def _cell(self, row: int, column: str) -> Cell:
        position = self._position(column)
        if position is None or position >= len(self.rows[row]):
            line = len(_LINE_END.findall(self.whole, 0, self.rows[row][0].start)) + 1
            raise SheetError(f"The row in line {line} ends before the column `{safe_line(column, 60)}`.")
        return self.rows[row][position]

    def _written(self, text: str, cell: Cell) -> str:
        if cell.quoted or self.separator in text or set(text) & set('"\r\n'):
            return '"{}"'.format(text.replace('"', '""'))
        return text


def read_worksheet(data: bytes, name: str, needed: Sequence[str]) -> Worksheet:
    """Read a table whose header has the columns `needed`, whatever separates its fields. Raises SheetError."""
    decoded(data, name)  # refuses, with a sentence, what is no table at all
    whole, encoding = _decoded(data)
    headers = {separator: _names(_row_at(whole, _begin(whole), separator)[0]) for separator in _SEPARATORS}
    folded = {name.casefold() for name in needed}
    separator = max(
        _SEPARATORS,
        key=lambda sign: (len(folded & {title.casefold() for title in headers[sign]}), len(headers[sign])),
    )
    header = headers[separator]
    missing = [f"`{title}`" for title in needed if title.casefold() not in {own.casefold() for own in header}]
    if missing:
        there = ", ".join(f"`{safe_line(title, 40)}`" for title in header[:20])
        raise SheetError(f"{safe_line(name)} has no column {', '.join(missing)}; its columns are {there}.")
    return Worksheet(whole, encoding, separator, header, tuple(_rows(whole, separator)[1:]))


def parse_number(text: str) -> float | None:
    """A number with a decimal point or comma; None for any other text."""
    match = _DECIMAL.fullmatch(text)
    return None if match is None else float(f"{match[1]}.{match[3] or '0'}")


def _decoded(data: bytes) -> tuple[str, str]:
    """The text, its byte order mark included, and the encoding by which it becomes the same bytes again."""
    marked = [encoding for mark, encoding in _MARKS if data.startswith(mark)]
    for encoding in (*marked, "utf-8"):
        try:
            return data.decode(encoding), encoding
        except UnicodeDecodeError:
            # Behind a mark, too, may stand what somebody has pasted in from an old file.
            continue
    return data.decode("cp1252"), "cp1252"


def _begin(whole: str) -> int:
    return 1 if whole.startswith("\ufeff") else 0


def _names(cells: Sequence[Cell]) -> tuple[str, ...]:
    return tuple(cell.text.strip() for cell in cells)


def _rows(whole: str, separator: str) -> list[tuple[Cell, ...]]:
    """All rows in which something stands."""
    rows, position = [], _begin(whole)
    while position < len(whole):
        cells, position = _row_at(whole, position, separator)
        if any(cell.text.strip() for cell in cells):
            rows.append(cells)
    return rows


def _row_at(whole: str, position: int, separator: str) -> tuple[tuple[Cell, ...], int]:
    """The row that begins at `position`, and where the next one does (RFC 4180; a lone CR ends a line as well)."""
    plain = re.compile(rf"[^{re.escape(separator)}\r\n]*")
    cells: list[Cell] = []
    while True:
        start = position
        quoted = whole.startswith('"', position)
        text, position = _quoted(whole, position) if quoted else ("", position)
        # Behind a closing quote nothing should stand; where something does, it belongs to the cell.
        rest = plain.match(whole, position)
        assert rest is not None
        position = rest.end()
        cells.append(Cell(text + rest[0], start, position, quoted))
        if not whole.startswith(separator, position):
            line_end = _LINE_END.match(whole, position)
            return tuple(cells), line_end.end() if line_end else len(whole)
        position += len(separator)


def _quoted(whole: str, start: int) -> tuple[str, int]:
    """The text between quotes, and where it is over."""
    pieces = []
    position = start + 1
    while True:
        quote = whole.find('"', position)
        if quote < 0:
            line = len(_LINE_END.findall(whole, 0, start)) + 1
            raise SheetError(f"A quotation mark that is opened in line {line} is never closed.")
        pieces.append(whole[position:quote])
        if not whole.startswith('"', quote + 1):
            return "".join(pieces), quote + 1
        pieces.append('"')
        position = quote + 2
