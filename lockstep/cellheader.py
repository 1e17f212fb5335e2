"""The line above each cell in the Python file that a notebook becomes: written by the intake, read in the sandbox."""

from __future__ import annotations

import re

HEADER = re.compile(r"# %% cell (\d+) \((\d+) lines?\)( \[parameters\])?( \[unfinished\])?$")
"""The cell's number, its lines, and what is special about it."""


def header(number: int, lines: int, *, is_parameters: bool, is_unfinished: bool = False) -> str:
    """The line above a cell of so many lines."""
    tags = [" [parameters]"] * is_parameters + [" [unfinished]"] * is_unfinished
    return f"# %% cell {number} ({lines} line{'s' * (lines != 1)}){''.join(tags)}"
