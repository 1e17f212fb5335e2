"""Text of a student's, whatever it is made of, is harmless once it went through `lockstep.text`."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from lockstep.members import shown
from lockstep.submission import display_name
from lockstep.text import few_lines, safe, safe_line
from tests.fuzz.bent import Dice, thrown
from tests.fuzz.promise import held, presentable

LIMITS = (0, 1, 10, 200, 2000)


def text_of(dice: Dice) -> str:
    """Odd pieces, some of them many times: what costs time or memory does so by repetition."""
    pieces = [dice.text(4) * dice.choice([1, 1, 1, 2, 1000]) for _ in dice.few(4)]
    return "".join(pieces)


@given(thrown(text_of), st.sampled_from(LIMITS))
def test_any_text_becomes_harmless_once_and_for_all(text: str, limit: int) -> None:
    clean = held(lambda: safe(text, limit))
    assert clean is not None
    clean.encode("utf-8")
    assert {unicodedata.category(sign) for sign in clean} & {"Cc", "Cs", "Co"} <= (
        {"Cc"} if "\n" in clean else set()
    )
    assert not set(clean) & set("\r\t\x1b\x9b\u202e\u2066\u2028\ufeff")
    assert safe(clean, len(clean)) == clean
    assert len(clean) <= limit + len(f" ... ({len(text)} more characters)")
    line = safe_line(text, limit)
    assert line.splitlines() in ([], [line])
    assert safe_line(line, len(line)) == line
    presentable(shown(text), display_name(text), *filter(None, few_lines(text.split("\n"), 3)))
