"""How much two texts have in common: a pass over a class compares every pair of answers to a question.

Texts are compared by shingles, runs of a few words (Broder, "On the resemblance and containment of documents", 1997).
Two people who answer one question share its terms, hardly ever whole runs of words; whoever copies shares most of
them, also after words were replaced here and there and sentences were moved.
"""

from __future__ import annotations

import re
import unicodedata

SHINGLE = 3
"""Words of a run. Longer runs miss a copy in which every fifth word was replaced."""

FEWEST = 8
"""Runs that the shorter text must have: two short sentences can be alike by chance."""

COPIED = 0.4
"""Similarity from which a person should look: honest pairs stay below 0.2 (tests/test_similarity.py)."""

CHARACTERS = 20_000
"""Compared of one text; pairs are many."""

# Scripts without spaces between words: there each character counts as one.
_UNSPACED = "\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+(?:['’][^\W_{_UNSPACED}]+)*")


def words(text: str) -> list[str]:
    """The words of a text in lower case, without punctuation, numbers among them."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def similarity(a: str, b: str, *, common: str = "") -> float:
    """The share of the shorter text's runs of words that the longer one holds as well, from 0 to 1.

    Runs that `common` holds count for nothing: the question, a form that was handed out. 0 where there is too
    little left to tell.
    """
    given = _shingles(common)
    first, second = _shingles(a) - given, _shingles(b) - given
    fewer = min(len(first), len(second))
    return len(first & second) / fewer if fewer >= FEWEST else 0.0


def _shingles(text: str) -> set[tuple[str, ...]]:
    found = words(text[:CHARACTERS])
    return set(zip(*(found[start:] for start in range(SHINGLE)), strict=False))
