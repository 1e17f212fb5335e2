"""A student's source file: its text, and its syntax tree as far as Python can read it."""

from __future__ import annotations

import ast
import io
import tokenize

from lockstep.magics import plain_python
from lockstep.sandbox import cells
from lockstep.sandbox.exported import inlined

MAX_SOURCE = 256 << 10


class SourceError(Exception):
    """A file that is not Python source; the message is for the student."""


def read_source(path: str) -> str:
    """The text of a source file, by its own coding cookie. Raises SourceError."""
    with open(path, "rb") as file:
        data = file.read(MAX_SOURCE + 1)
    if len(data) > MAX_SOURCE:
        raise SourceError(f"the file is larger than {MAX_SOURCE >> 10} KiB")
    if b"\0" in data:
        raise SourceError("the file holds NUL bytes: it is not a text file (saved as UTF-16?)")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding).replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        line = data[: getattr(error, "start", 0)].count(b"\n") + 1
        raise SourceError(f"line {line} is not UTF-8 text: save the file as UTF-8") from None


def parse(source: str, path: str) -> tuple[ast.Module, list[SyntaxError]]:
    """A file's syntax tree, without those cells of a notebook that Python cannot read, and their errors.

    Jupyter complains of such a cell, prose for example, and runs the others. Raises SyntaxError for any other
    file, unless only IPython's own lines are in the way.
    """
    try:
        return inlined(ast.parse(source, path)), []
    except SyntaxError as first:
        lines, unread = source.split("\n"), []
        for cell in cells.read_cells(source) or ():
            above = cell.first_line - 1
            try:
                ast.parse("\n" * above + "\n".join(cell.of(lines)), path)
            except SyntaxError as error:
                unread.append(error)
                lines[above : above + cell.lines] = [""] * cell.lines
        if not unread:
            return _without_ipython(source, path, first)
        return ast.parse("\n".join(lines), path), unread


def _without_ipython(source: str, path: str, error: SyntaxError) -> tuple[ast.Module, list[SyntaxError]]:
    """A file that Python could read were there no `!pip install` in it, as there is where Colab saved it as Python."""
    lines = source.split("\n")
    plain = plain_python(lines)
    # Lines keep their numbers, and an import from __future__ its place.
    kept = [line if line in plain.future else other for line, other in zip(lines, plain.lines, strict=True)]
    # What would be a cell's text, or the file that it writes, is nothing of this one.
    if plain.left_out or plain.written or kept == lines:
        raise error
    try:
        return inlined(ast.parse("\n".join(kept), path)), [error]
    except SyntaxError:
        raise error from None
