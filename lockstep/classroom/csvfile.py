"""CSV as spreadsheets write it and read it, with cells that a spreadsheet could take for a formula made harmless.

Format: RFC 4180, UTF-8 with a byte order mark, without which Excel takes it for another encoding. Formulas:
owasp.org/www-community/attacks/CSV_Injection.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# Excel takes the wide forms of East Asian keyboards for the same signs.
_STARTS_A_FORMULA = tuple("=+-@\t\r\n＝＋－＠")
CELL = 32_000
"""Characters of a cell; Excel cuts off what goes beyond 32,767."""


class CsvError(Exception):
    """A file is no table of the columns that were asked for; the message is a sentence that names it."""


@dataclass(frozen=True)
class Row:
    """One row: the line of the file it begins on, and its cells by the name of their column, in small letters."""

    line: int
    cells: Mapping[str, str]


def cell(value: object) -> str:
    """A cell that no spreadsheet computes. Text that could be taken for a formula gets an apostrophe in front."""
    if value is None:
        return ""
    text = str(value)
    if isinstance(value, str) and text.startswith((*_STARTS_A_FORMULA, "'")):
        return f"'{text}"
    return text


def text_of(cell: str) -> str:
    """The text that `cell` made harmless."""
    harmless = cell.startswith("'") and cell[1:].startswith((*_STARTS_A_FORMULA, "'"))
    return cell[1:] if harmless else cell


def to_csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """A table as the bytes of a CSV file. Numbers stay numbers, None is empty, text goes through `cell`."""
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow([cell(name) for name in header])
    writer.writerows([cell(value) for value in row] for row in rows)
    # What cannot be written, half of a surrogate pair, becomes a question mark.
    return file.getvalue().encode("utf-8-sig", errors="replace")


def read_csv(path: Path, needed: Sequence[str]) -> tuple[Row, ...]:
    """The rows of a CSV file, empty ones left out, each cell stripped and through `text_of`.

    Commas, semicolons (which Excel writes in half of Europe) and tabs may stand between the cells. The columns
    may stand in any order and there may be more than those `needed`. Raises CsvError.
    """
    text = _read(path)
    try:
        rows = _rows(text, _delimiter(text))
    except csv.Error as error:
        raise CsvError(f"{path} cannot be read as CSV: {error}") from error
    if not rows:
        raise CsvError(f"{path} is empty; its first line names the columns: {', '.join(needed)}")
    (_, first), *rest = rows
    header = [text_of(name.strip()).strip().lower() for name in first]
    for name in needed:
        if header.count(name) != 1:
            what = "has no column" if name not in header else "has more than one column"
            raise CsvError(f"{path} {what} {name!r}; its first line names {', '.join(header)}")
    return tuple(_row(path, line, header, cells) for line, cells in rest)


def _read(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CsvError(f"{path} cannot be read: {error.strerror}") from error
    # Excel's "Unicode text".
    encoding = "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise CsvError(
            f"{path} is not UTF-8 on line {line}: save it as 'CSV UTF-8', or with that character set"
        ) from error


def _delimiter(text: str) -> str:
    first = next((line for line in text.splitlines() if line.strip()), "")
    return max(",;\t", key=first.count)


def _rows(text: str, delimiter: str) -> list[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    rows = []
    before = 0
    for cells in reader:
        if any(cell.strip() for cell in cells):
            rows.append((before + 1, cells))
        before = reader.line_num
    return rows


def _row(path: Path, line: int, header: Sequence[str], cells: Sequence[str]) -> Row:
    if any(cell.strip() for cell in cells[len(header) :]):
        raise CsvError(f"{path}, line {line}: {len(cells)} cells, but {len(header)} columns have a name")
    filled = [*cells, *[""] * (len(header) - len(cells))]
    return Row(line, {name: text_of(cell.strip()) for name, cell in zip(header, filled, strict=False)})
