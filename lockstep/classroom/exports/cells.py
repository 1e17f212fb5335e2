"""What stands in the cells of tables for spreadsheets and learning platforms: plain numbers, one line of harmless text.

What begins like a formula gets its apostrophe where the file is put together, in `lockstep.classroom.csvfile`.
"""

from __future__ import annotations

import re

from lockstep.classroom.csvfile import CELL
from lockstep.text import safe_line

# A spreadsheet set to a country with a decimal comma splits at semicolons, whatever stands around them: what comes
# behind one begins a cell.
_BEHIND_SEMICOLON = re.compile(r"(;[\s\"']*)(?=[=+\-@＝＋－＠])")


def number(value: float) -> str:
    """A number with at most four decimals and always a point: `2`, `0.5`, `-1.25`."""
    text = f"{value:.4f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def line(text: str) -> str:
    """Text of unknown origin as one harmless line that fits a cell and holds no second formula."""
    return _BEHIND_SEMICOLON.sub(r"\1'", safe_line(text, CELL))


class Number(float):
    """A number of a table: written as `number` does, and never taken for text."""

    def __str__(self) -> str:
        return number(self)
