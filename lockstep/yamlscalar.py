"""What a scalar of a YAML file stands for, and where the readers of YAML do not agree on it.

YAML 1.1 takes `no` for false, 010 for eight and 22:30 for 1350; YAML 1.2 takes the first and the last for text and
010 for ten. Read here is what Kubernetes' tools read (sigs.k8s.io/yaml over go-yaml 2, resolve.go): the words of
1.1, but no numbers to base 60, and dates stay text.
"""

from __future__ import annotations

import math
import re

from lockstep.text import safe_line
from lockstep.wire import Json


class TagError(Exception):
    """A tag that is not taken, or does not fit; the message is a sentence."""


_TAGS = {f"tag:yaml.org,2002:{name}": name for name in ("str", "int", "float", "bool", "null")}
_NULL = {"", "~", "null", "Null", "NULL"}
_TRUE, _FALSE = ({word, word.capitalize(), word.upper()} for word in ("true", "false"))
_LIKE_TRUE, _LIKE_FALSE = (
    {form for word in words for form in (word, word.capitalize(), word.upper())}
    for words in (("y", "yes", "on"), ("n", "no", "off"))
)
_DECIMAL = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_PREFIXED = re.compile(r"([-+]?)0(?:o([0-7]{1,20})|x([0-9a-fA-F]{1,16})|b([01]{1,60}))")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")
_UNDERSCORES = re.compile(r"[-+]?[0-9]+_[0-9_]*(?:\.[0-9_]*)?")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_SEXAGESIMAL = re.compile(r"[-+]?[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9]*)?")
_INTEGER_DIGITS = 18
"""Longer ones fit no machine's integer; readers turn them into a float."""


def resolved(text: str, tag: str | None, *, quoted: bool) -> tuple[Json, str]:
    """What a scalar stands for, and a sentence where another reader takes it for something else.

    Raises TagError for a tag that is none of YAML's core, or does not fit the text.
    """
    if tag == "!" or (tag is None and quoted):
        return text, ""
    kind = _TAGS.get(tag or "")
    if tag is not None and kind is None:
        raise TagError(refused(tag))
    if kind == "str":
        return text, ""
    value, trap = _plain(text)
    types: dict[str, tuple[type, ...]] = {
        "int": (int,),
        "float": (int, float),
        "bool": (bool,),
        "null": (type(None),),
    }
    if kind is not None and type(value) not in types[kind]:
        raise TagError(f"`{safe_line(text, 40)}` is not what its tag !!{kind} says.")
    return value, trap


def _plain(text: str) -> tuple[Json, str]:
    shown = f"`{safe_line(text, 40)}`"
    if text in _NULL:
        return None, ""
    if text in _TRUE or text in _FALSE:
        return text in _TRUE, ""
    if text in _LIKE_TRUE or text in _LIKE_FALSE:
        meant = text in _LIKE_TRUE
        word = "true" if meant else "false"
        return (
            meant,
            f"{shown} is {word} to Kubernetes and a text to readers of YAML 1.2; write {word}, or quote it.",
        )
    if _DECIMAL.fullmatch(text) and len(text) <= _INTEGER_DIGITS:
        return int(text), ""
    if match := _PREFIXED.fullmatch(text):
        digits, base = next(
            (group, base) for group, base in zip(match.groups()[1:], (8, 16, 2), strict=True) if group
        )
        return (-1 if match[1] == "-" else 1) * int(digits, base), ""
    if _LEADING_ZERO.fullmatch(text) and len(text) <= _INTEGER_DIGITS:
        octal = not set(text) & set("89")
        return int(text, 8 if octal else 10), (
            f"{shown} begins with a zero, which makes it an octal number to some readers and not to others; write it "
            "without, or quote it."
        )
    if _SEXAGESIMAL.fullmatch(text):
        return text, f"{shown} is a number to base 60 to readers of YAML 1.1; quote it."
    if _UNDERSCORES.fullmatch(text):
        return (
            text,
            f"{shown} is a number to readers of YAML 1.1 and a text to others; leave out the `_`, or quote it.",
        )
    if _FLOAT.fullmatch(text) and math.isfinite(number := float(text)):
        return number, ""
    return text, ""


def refused(tag: str) -> str:
    """The sentence for a tag that would build something else than plain values."""
    short = tag.removeprefix("tag:yaml.org,2002:")
    return f"the tag `{'!!' if short != tag else ''}{safe_line(short, 40)}` is not taken; leave it out."
