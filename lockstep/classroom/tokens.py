"""Sources as rows of tokens in which names, numbers, texts and layout make no difference.

Nothing is parsed: what a student wrote may be no Python at all, and a syntax tree of a hostile source takes
gigabytes. A token is what a regular expression finds.
"""

from __future__ import annotations

import keyword
import re
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

import numpy as np
from numpy.typing import NDArray

from lockstep.source import SOURCE_BYTES

PYTHON = frozenset({".py"})
PLAIN = frozenset({".sh", ".pbs", ".slurm", ".sbatch", ".lsf", ".yaml", ".yml"})
"""Suffixes of launch files: few of their words are names, so all of them stay what they are."""

MOST = 200_000
"""Tokens of one hand-in that are looked at; all worked solutions together have 15,000."""

# What is left open ends with its line, or with the file: no text makes the search start over. Most frequent first.
_PYTHON = re.compile(
    r"""
    [ \t]*+
    (
        [^\W\d]\w*+(?!['"])
      | [][(){},.]
      | \n
      | [rRbBfFuU]{0,2}(?:
            '''[^'\\]*+(?:(?:\\.?|'(?!''))[^'\\]*+)*+(?:'''|\Z)
          | \"\"\"[^"\\]*+(?:(?:\\.?|"(?!""))[^"\\]*+)*+(?:\"\"\"|\Z)
          | '[^'\\\n]*+(?:\\.?[^'\\\n]*+)*+'?
          | "[^"\\\n]*+(?:\\.?[^"\\\n]*+)*+"?
        )
      | \#[^\n]*+
      | \d(?:[\w.]|(?<=[eE])[+-])*+
      | (?:\*\*|//|<<|>>|[-+*/%@&|^=<>!:])=|\*\*|//|<<|>>|->
      | \\\n
      | \S|\s
    )
    """,
    re.VERBOSE | re.DOTALL,
)
# Batch systems read their options from comments.
_PLAIN = re.compile(r"\#(?!\s*(?:SBATCH|PBS|BSUB)\b)[^\n]*|\w+|\n|[^\w\s]")

# Tokens that stand for themselves are numbers from 0 on; for these there is something to do.
_LINE, _JOINED, _SKIPPED, _STRING, _OPEN, _CLOSE, _IMPORT, _DOT = range(-8, 0)
_SPECIAL = {
    "\n": _LINE, "\\\n": _JOINED, ".": _DOT, "import": _IMPORT, "from": _IMPORT,
    **dict.fromkeys("([{", _OPEN), **dict.fromkeys(")]}", _CLOSE),
}  # fmt: skip
_QUOTED = re.compile(r"[rRbBfFuU]{0,2}['\"]")
_KEYWORDS = frozenset(keyword.kwlist)
_NAME, _NUMBER, _TEXT, _COMMA = (zlib.crc32(kind) for kind in (b"a name", b"a number", b"a text", b","))


@dataclass(frozen=True)
class Tokens:
    """A source as numbers: equal `codes` are equal tokens; `lines` are where they begin, from 1."""

    codes: NDArray[np.uint64]
    lines: NDArray[np.int64]


def is_source(path: str) -> bool:
    """Whether files of this name are read as tokens."""
    return PurePosixPath(path).suffix.lower() in PYTHON | PLAIN


def is_plain(path: str) -> bool:
    """Whether this is a launch file, whose words stay what they are."""
    return PurePosixPath(path).suffix.lower() in PLAIN


def tokens(path: str, content: bytes, most: int = MOST) -> Tokens:
    """The first tokens of a source, at most so many; `path` says by its suffix how it is read.

    Python: all names are equal, but for keywords and for what stands behind a dot: that is somebody else's
    interface, unless the dot stands behind `self`. All numbers are equal, and all texts. Comments, docstrings,
    imports, line breaks and indentation are left out. Launch files keep their words.
    """
    # Blanks at the end would be tried from each of them on.
    text = (
        content[:SOURCE_BYTES].decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n").rstrip()
    )
    codes, lines = (_plain if is_plain(path) else _python)(text)
    return Tokens(np.array(codes[:most], dtype=np.uint64), np.array(lines[:most], dtype=np.int64))


def _python(source: str) -> tuple[list[int], list[int]]:
    codes: list[int] = []
    lines: list[int] = []
    line, depth = 1, 0
    begins, imports = True, False  # a statement; an import statement
    before, last = "", ""
    for token in _PYTHON.findall(source):
        code = _code(token)
        if code == _LINE:
            line += 1
            if not depth:
                begins, imports = True, False
            continue
        if code < 0:
            if code == _SKIPPED:
                continue
            if code == _JOINED:
                line += 1
                continue
            if code == _IMPORT:
                imports = imports or begins
            elif code == _STRING:
                # What begins a statement is a docstring; texts side by side are one.
                if not (begins or imports or (codes and codes[-1] == _TEXT)):
                    codes.append(_TEXT)
                    lines.append(line)
                line += token.count("\n")
                begins, before, last = False, last, token
                continue
            elif code == _OPEN:
                depth += 1
            elif code == _CLOSE:
                depth = max(0, depth - 1)
                # The comma that a formatter leaves behind the last argument.
                if not imports and codes and codes[-1] == _COMMA:
                    codes.pop()
                    lines.pop()
            code = _itself(token)
        elif code == _NAME and last == "." and before != "self" and before != "cls":
            code = _itself(token)
        if not imports:
            codes.append(code)
            lines.append(line)
        begins, before, last = False, last, token
    return codes, lines


@lru_cache(1 << 16)
def _code(token: str) -> int:
    if token in _SPECIAL:
        return _SPECIAL[token]
    if token[0] == "#" or token.isspace():
        return _SKIPPED
    if _QUOTED.match(token):
        return _STRING
    if token[0].isdigit():
        return _NUMBER
    return _NAME if token.isidentifier() and token not in _KEYWORDS else _itself(token)


@lru_cache(1 << 16)
def _itself(token: str) -> int:
    return zlib.crc32(token.encode("utf-8", "replace"))


def _plain(source: str) -> tuple[list[int], list[int]]:
    codes: list[int] = []
    lines: list[int] = []
    line = 1
    for token in _PLAIN.findall(source):
        if token == "\n":
            line += 1
        elif token[0] != "#" or len(token) == 1:
            codes.append(_NUMBER if token[0].isdigit() else _itself(token))
            lines.append(line)
    return codes, lines
