"""Compares names of people across systems that write them in another order, without accents or without spaces."""

from __future__ import annotations

import re
import unicodedata

NAME_LENGTH = 200
"""Characters of a name that are compared; normalising longer ones would only take time."""

TOKENS = 8
"""Words of a name; the longest real ones have six."""

# Accents of Latin, Greek and Cyrillic. The marks of other scripts are vowels: without them names become others.
_ACCENTS = re.compile(r"[\u0300-\u036f]")
# Letters that Unicode does not take apart.
_LETTERS = str.maketrans({"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i"})
# How the same letters are written out where there is no key for them.
_WRITTEN_OUT = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa", "æ": "ae"})


def folded(text: str) -> str:
    """`text` for comparing ids, logins and addresses: case and spelling of accents aside."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text.strip()).casefold())


def spellings(name: str) -> frozenset[str]:
    """The letters of a name in their order, with its accents dropped and with them written out."""
    return frozenset("".join(words) for words in _tokenised(name) if words)


def rotations(name: str) -> frozenset[str]:
    """`spellings` of the name from each of its words on: `Jane Doe` and `Doe, Jane` have them in common."""
    return frozenset(
        "".join(words[start:] + words[:start]) for words in _tokenised(name) for start in range(len(words))
    )


def words_of(name: str) -> frozenset[str]:
    """The words of a name in alphabetical order, as one text: equal whatever their order is."""
    return frozenset(" ".join(sorted(words)) for words in _tokenised(name) if words)


def share_a_word(name: str, squeezed: str) -> bool:
    """Whether a word of `name` stands in `squeezed`, a name that may have no spaces left."""
    letters = spellings(squeezed)
    return any(
        word in other for words in _tokenised(name) for word in words if len(word) >= 3 for other in letters
    ) or bool(rotations(name) & letters)


def exact(name: str) -> str:
    """The letters of a name in their order, accents kept."""
    return "".join(character for character in folded(name[:NAME_LENGTH]) if _is_letter(character))


def _tokenised(name: str) -> tuple[list[str], ...]:
    plain = folded(name[:NAME_LENGTH])
    written_out = plain.translate(_WRITTEN_OUT)
    return tuple(_words(text) for text in ((plain, written_out) if written_out != plain else (plain,)))


def _words(text: str) -> list[str]:
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", text)).translate(_LETTERS).casefold()
    # An apostrophe joins: O'Brien is one word and `obrien` the same.
    joined = re.sub(r"['’ʼ`´]", "", bare)
    return "".join(character if _is_letter(character) else " " for character in joined).split()[:TOKENS]


def _is_letter(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN"
