"""What every format shares: odd texts, odd names, odd JSON, damage to bytes, all thrown by one pair of dice.

Hypothesis draws two numbers for each input, a seed and a size, and not every part of it: ten thousand inputs of a
format take a minute so, and a failure is still made smaller, by its size.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from hypothesis import strategies as st

Value = TypeVar("Value")

EXTREMES = (
    0,
    1,
    2,
    127,
    128,
    255,
    256,
    0x7FFF,
    0xFFFF,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**63 - 1,
    2**63,
    2**64 - 1,
)
_ORDERS = ("<H", "<L", "<Q", ">H", ">L", ">Q")

ODD_CHARACTERS = tuple(
    "\0\x01\a\b\t\n\v\f\r\x1b\x7f\x85\x9b\xa0\xad\u0301\u034f\u061c\u200b\u200c\u200d\u200e\u2028\u2029\u202e\u2066"
    "\ud800\udc80\udfff\ue000\ufeff\uff1d\uffff\U000e0041\U0001f600\U0010ffffäß字\"'`\\/:;,.#[]{}()<>|&$%!?*=+-~^@ aZ09"
)
ODD_WORDS = (
    "\x1b[31m", "\x1b]0;title\a", "\x9b2J", "::error::", "##[error]", "../", "/etc/passwd", "C:\\", "=1+1", "@SUM(A1)",
    "e\u0301" + "\u0301" * 20, "NaN", "1e999", "9" * 40, "{{x}}", "${x}", "%s", "\r\n", "  ", "\u202egnp.exe",
)  # fmt: skip

_NAMES = (
    "a.py", "A.py", "b.py", "hw/a.py", "hw/b/c.py", "hw/n.ipynb", "n.ipynb", "answers.md", "r.json", "run.sh", "hw", "hw/",
    "../a.py", "hw/../../a.py", "/etc/cron.d/a.py", "C:\\a.py", "..\\a.py", "hw\\a.py", "a\0.py", "ä.py", "a\u0308.py",
    "con.py", "nul", "a.py.", "a.py ", " ", ".", "..", "", "/", "//", "./a.py", "-rf.py", "\u202eyp.a", "a\nb.py",
    "\x1b[2J.py", "`a`.py", "::error::.py", "##[x].py", "x" * 300 + ".py", "d/" * 20 + "a.py", "字" * 90 + ".py",
    ".git/config", "__MACOSX/._a.py", ".DS_Store", "venv/pyvenv.cfg", "model.pt", "inner.zip", "inner.tar.gz", "a.py/b.py",
)  # fmt: skip


class Dice(Random):
    """Decides what an input is made of. `size`, from 0 to 6, bounds how much of everything there is."""

    def __init__(self, seed: int, size: int) -> None:
        super().__init__(seed)
        self.size = size

    def few(self, most: int) -> range:
        """As many turns as something is there, at most `most`."""
        return range(self.randint(0, min(most, self.size)))

    def rarely(self, often: int = 8) -> bool:
        """True one time in `often`."""
        return self.randrange(often) == 0

    def extreme(self, bits: int = 64) -> int:
        """A number at which a counter turns over or a sign changes."""
        return self.choice(EXTREMES) & (1 << bits) - 1

    def noise(self, most: int) -> bytes:
        """Any bytes at all."""
        return self.randbytes(self.randint(0, most))

    def text(self, most: int = 12) -> str:
        """A text in which control characters, direction marks and lone surrogates are common."""
        return "".join(self._piece() for _ in self.few(most))

    def _piece(self) -> str:
        kind = self.randrange(5)
        if kind == 0:
            return self.choice(ODD_WORDS)
        return chr(self.randrange(0x110000)) if kind == 1 else self.choice(ODD_CHARACTERS)

    def name(self) -> str:
        """What somebody may call a file, or a file's path in an archive."""
        return self.text() if self.rarely(4) else self.choice(_NAMES)

    def json(self, depth: int = 3) -> object:
        """A value that JSON can write, NaN included."""
        kind = self.randrange(8 if depth else 6)
        if kind == 6:
            return [self.json(depth - 1) for _ in self.few(4)]
        if kind == 7:
            return {self.text(3): self.json(depth - 1) for _ in self.few(4)}
        if kind < 2:
            return self.choice(_ODD_NUMBERS)
        return self.text() if kind < 4 else self.choice([None, True, False, 0, 1, "a"])

    def bent(self, data: bytes, most: int = 4) -> bytes:
        """`data` with damage: bits, lying numbers, parts that are gone, twice, elsewhere or foreign."""
        for _ in self.few(most):
            at = self.randint(0, len(data))
            piece = data[at : at + self.choice([1, 2, 4, 8, 30, 64, 512])]
            kind = self.randrange(9)
            if kind == 0 and piece:
                data = data[:at] + bytes([piece[0] ^ 1 << self.randrange(8)]) + data[at + 1 :]
            elif kind == 1:
                form = self.choice(_ORDERS)
                number = struct.pack(form, self.extreme(8 * struct.calcsize(form)))
                data = data[:at] + number + data[at + len(number) :]
            elif kind == 2:
                data = data[:at]
            elif kind == 3:
                data = data[:at] + data[at + len(piece) :]
            elif kind == 4:
                data = data[:at] + self.noise(16) + data[at:]
            elif kind == 5:
                data = data[:at] + piece * self.choice([2, 3, 50]) + data[at + len(piece) :]
            elif kind == 6:
                to = self.randint(0, len(data))
                data = data[:to] + piece + data[to + len(piece) :]
            elif kind == 7:
                data = data[:at] + self.choice(_TOKENS) + data[at:]
            else:
                data = data[at:]
        return data


def thrown(build: Callable[[Dice], Value]) -> st.SearchStrategy[Value]:
    """What `build` makes of the dice."""
    return st.builds(lambda size, seed: build(Dice(seed, size)), st.integers(0, 6), st.integers(0, 2**48))


def written(value: object) -> bytes:
    """`value` as JSON; a lone surrogate as the escape that it can be in there."""
    return json.dumps(value).encode()


_ODD_NUMBERS = (
    0, -1, 1, 2, 2**31, 2**63 - 1, 2**63, -(2**63), 10**25, 0.5, 1e308, -0.0, 1e-320, float("nan"), float("inf"),
)  # fmt: skip
_TOKENS: Sequence[bytes] = (
    b"\0", b"\xff", b"\xff\xfe", b"\xef\xbb\xbf", b"\n", b"\r", b"\"", b"'", b"[" * 40, b"{\"a\":" * 40, b"9" * 5000, b"-",
    b"1e999", b"NaN", b"\\ud800", "\u202e".encode(), b"\xed\xa0\x80", b"\xc0\x80", b"\x80" * 12, b"&a ", b"*a", b"<<: ", b"!!x ",
)  # fmt: skip
