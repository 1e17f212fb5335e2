"""CSV as spreadsheets read it, with cells that they could take for a formula made harmless.

Format: RFC 4180, UTF-8 with a byte order mark, without which Excel takes it for another encoding. Formulas:
owasp.org/www-community/attacks/CSV_Injection.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

# Excel takes the wide forms of East Asian keyboards for the same signs.
_STARTS_A_FORMULA = tuple("=+-@\t\r\n＝＋－＠")
CELL = 32_000
"""Characters of a cell; Excel cuts off what goes beyond 32,767."""

ROUNDED = re.compile(r"\d(?:[.,]\d+)?E\+\d+")
"""What a spreadsheet makes of an id of many digits."""


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
