"""Quantities of Kubernetes, such as 500m of a processor and 16Gi of memory.

Source: kubernetes.io, "Quantity" of the API reference. Suffixes of 1000 and of 1024 are not alike, and none has a B.
"""

from __future__ import annotations

import re
from fractions import Fraction

from lockstep.wire import Json

_QUANTITY = re.compile(
    r"([+-]?)([0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?[0-9]{1,9}))?"
)
_THOUSANDS = {"n": -3, "u": -2, "m": -1, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_LIKE = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)\s*([kmgtp])(?:i?b|i)?", re.IGNORECASE)


def quantity(value: Json) -> Fraction | None:
    """How much a value is; None when Kubernetes takes it for no quantity."""
    found = _QUANTITY.fullmatch(str(value))
    if found is None or isinstance(value, bool):
        return None
    sign, digits, suffix, exponent = found.groups()
    number = Fraction(digits.removesuffix(".")) * (-1 if sign == "-" else 1)
    if exponent:
        # What is larger still, or smaller, makes no difference.
        return number * Fraction(10) ** max(-400, min(400, int(exponent)))
    if suffix and suffix.endswith("i"):
        return number * Fraction(1024) ** ("KMGTPE".index(suffix[0]) + 1)
    return number * Fraction(1000) ** _THOUSANDS[suffix] if suffix else number


def similar(text: str) -> str:
    """The quantity that was probably meant by 16GB; nothing when there is none."""
    found = _LIKE.fullmatch(text)
    return f"{found[1]}{found[2].upper()}i" if found else ""
