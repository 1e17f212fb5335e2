"""Reads a table that a spreadsheet or an LMS wrote as CSV, whatever it takes for a comma and for an encoding."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lockstep.text import safe_line

SHEET_BYTES = 64 << 20
"""The largest table read; one of 5,000 students and 100 columns has a tenth of that."""

_DELIMITERS = ",;\t|"
_SPREADSHEETS = {b"PK\3\4": "an Excel or OpenDocument file", b"\xd0\xcf\x11\xe0": "an old Excel file"}


class SheetError(Exception):
    """A table that cannot be read; the message says in which row, what is expected and what to try."""


@dataclass(frozen=True)
class Row:
    """One row under the header. `number` is the line in the file at which it ends, counted from 1."""

    number: int
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Sheet:
    """A table: every row has as many cells as the header; cells are without blanks around them."""

    header: tuple[str, ...]
    rows: tuple[Row, ...]

    def to_json(self) -> Mapping[str, Any]:
        """As the gradebook keeps it."""
        return {"header": self.header, "rows": [[row.number, *row.cells] for row in self.rows]}

    @staticmethod
    def from_json(kept: Mapping[str, Any]) -> Sheet:
        """The table that `to_json` has described."""
        return Sheet(
            tuple(kept["header"]), tuple(Row(number, tuple(cells)) for number, *cells in kept["rows"])
        )


def read_sheet(path: Path) -> Sheet:
    """Read the table at `path`: separated by commas, semicolons or tabs, in UTF-8, UTF-16 or Windows-1252.

    Raises SheetError.
    """
    return parse_sheet(decoded(_content(path), path.name), path.name)


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(SHEET_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or "unknown reason").lower()
        raise SheetError(f"{safe_line(path.name)} cannot be read: {reason}.") from error
    if len(data) > SHEET_BYTES:
        raise SheetError(
            f"{safe_line(path.name)} is larger than {SHEET_BYTES >> 20} MiB, so it is no table of a class."
        )
    return data


def decoded(data: bytes, name: str) -> str:
    """The text of a table's file, as the program that wrote it meant it. Raises SheetError."""
    for signature, kind in _SPREADSHEETS.items():
        if data.startswith(signature):
            raise SheetError(f"{safe_line(name)} is {kind}. Save it as CSV first.")
    # UTF-16 is what Excel calls "Unicode text". Its plain CSV is in the code page of its country; of those one is by
    # far the most common.
    is_utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    for encoding in ("utf-16",) if is_utf16 else ("utf-8-sig", "cp1252"):
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" not in text:
            return text
    raise SheetError(
        f"{safe_line(name)} is no text in UTF-8, UTF-16 or Windows-1252. Save it as CSV in UTF-8."
    )


def parse_sheet(text: str, name: str) -> Sheet:
    """The table that `text` holds; messages call it `name`. Raises SheetError."""
    first, _, rest = text.partition("\n")
    delimiter = None
    if first.strip().lower().startswith("sep=") and len(first.strip()) == len("sep=;"):
        delimiter, text = first.strip()[-1], rest
    skipped = int(delimiter is not None)
    rows: list[Row] = []
    line = 1
    try:
        # Strict, because a quotation mark that is never closed would swallow the students behind it.
        lines = io.StringIO(text, newline="")
        reader = csv.reader(lines, delimiter=delimiter or _delimiter(text), strict=True)
        for cells in reader:
            line = reader.line_num + skipped
            stripped = tuple(cell.strip() for cell in cells)
            if any(stripped):
                rows.append(Row(line, stripped))
    except csv.Error as error:
        raise SheetError(
            f"{safe_line(name)}, after line {line}: {safe_line(str(error))}. Is a quotation mark missing?"
        ) from error
    if not rows:
        raise SheetError(f"{safe_line(name)} is empty. The first row has to name the columns.")
    header = _without_empty_end(rows[0].cells, 0)
    _refuse_twins(header, name)
    return Sheet(header, tuple(_fitted(row, header, name) for row in rows[1:]))


def _delimiter(text: str) -> str:
    """What separates the columns: the one sign of four that makes most of them in the header."""
    header = next((line for line in text.splitlines() if line.strip()), "")
    return max(_DELIMITERS, key=lambda sign: len(next(csv.reader([header], delimiter=sign))))


def _without_empty_end(cells: Sequence[str], fewest: int) -> tuple[str, ...]:
    end = len(cells)
    while end > fewest and not cells[end - 1]:
        end -= 1
    return tuple(cells[:end])


def _refuse_twins(header: Sequence[str], name: str) -> None:
    seen: set[str] = set()
    for title in header:
        if title and title.casefold() in seen:
            raise SheetError(
                f"{safe_line(name)} has two columns called `{safe_line(title, 60)}`. Rename or remove one."
            )
        seen.add(title.casefold())


def _fitted(row: Row, header: Sequence[str], name: str) -> Row:
    cells = _without_empty_end(row.cells, len(header))
    if len(cells) > len(header):
        raise SheetError(
            f"{safe_line(name)}, line {row.number}: {len(cells)} cells under a header of {len(header)}. "
            "A cell that holds a comma or semicolon needs quotation marks around it."
        )
    # Spreadsheets leave out the separators of a row's last empty cells.
    return Row(row.number, (*cells, *[""] * (len(header) - len(cells))))
