"""Whether a Python source can be read at all, told without parsing it.

`ast.parse` of a million lines takes seconds and gigabytes, and 100,000 plus signs end it in a
RecursionError; whatever needs a syntax tree happens in the sandbox.
"""

from __future__ import annotations

import codecs
import re
import tokenize
from io import BytesIO

from lockstep.members import shown, size_text

SOURCE_BYTES = 256 << 10
"""The largest source that is graded; the longest worked solution has 12 KiB."""

# What a coding cookie may name: character sets that text editors save in. Python's other codecs decode
# by executing escapes or in quadratic time (punycode, unicode_escape, idna, utf_7).
_CHARSETS = ("utf-8", "ascii", "iso8859", "cp", "mac-", "koi8", "gb", "big5", "euc", "shift_jis")
_DIRECTION = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_LINE_END = re.compile(rb"\r\n?|\n")


def source_problem(name: str, data: bytes) -> str | None:
    """Why Python could not read the source `data` of the file `name`, as a sentence; None when it can.

    Too large, UTF-16, NUL bytes, a notebook under a false name, bytes that are not in the declared
    encoding (PEP 263; UTF-8 when none is declared).
    """
    file = shown(name)
    if len(data) > SOURCE_BYTES:
        return (
            f"{file} has {size_text(len(data))}; a source of more than {size_text(SOURCE_BYTES)} is not "
            "graded. Move data out of it."
        )
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return f"{file} is saved as UTF-16, which Python does not read. Save it as UTF-8."
    if b"\0" in data:
        line = _line_of(data, data.index(b"\0"))
        return f"{file} holds a NUL byte in line {line}: it is damaged, or no text at all."
    if data.lstrip().startswith(b"{") and b'"nbformat"' in data:
        return f"{file} is a notebook with a false suffix. Rename it to .ipynb, or export it as Python."
    try:
        encoding, _ = tokenize.detect_encoding(BytesIO(data).readline)
    except SyntaxError:
        return (
            _undecodable(file, data)
            or f"{file} declares an encoding that does not exist or is not its own. Save it as UTF-8."
        )
    if not codecs.lookup(encoding).name.startswith(_CHARSETS):
        return f"{file} declares the encoding {shown(encoding)}, which no editor saves in. Save it as UTF-8."
    try:
        data.decode(encoding)
    except UnicodeDecodeError as error:
        line = _line_of(data, error.start)
        return f"{file} is not valid {encoding.upper()} in line {line}. Save it as UTF-8."
    return None


def direction_marks(data: bytes) -> list[int]:
    """The lines of a source that hold direction marks: they may read otherwise than they run.

    Lines are counted from 1. Only for sources without a `source_problem`.
    """
    encoding, _ = tokenize.detect_encoding(BytesIO(data).readline)
    text = data.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")
    return [number for number, line in enumerate(text.split("\n"), 1) if _DIRECTION.search(line)]


def _undecodable(file: str, data: bytes) -> str | None:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"{file} is not valid UTF-8 in line {_line_of(data, error.start)}. Save it as UTF-8."
    return None


def _line_of(data: bytes, offset: int) -> int:
    return len(_LINE_END.findall(data, 0, offset)) + 1
