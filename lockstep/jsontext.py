"""JSON that somebody else wrote: read strictly, or refused with the reason.

Needs nothing but the standard library, so that whatever only reads JSON starts without NumPy.
"""

from __future__ import annotations

import json
import math
from typing import TypeAlias

from lockstep.text import safe_line

Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None

MAX_DEPTH = 32


class JsonError(Exception):
    """Bytes that are not plain JSON; the message says why, as the rest of "it is no JSON: ..."."""


def parse_json(data: bytes) -> Json:
    """Parse untrusted JSON: no duplicate keys, no NaN or infinity, no lone surrogates, bounded depth and numbers."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise JsonError("it is not UTF-8 text") from None
    try:
        value: Json = json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise JsonError(f"{error.msg} in line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise JsonError("it is nested too deeply") from None
    except ValueError:
        # Python itself refuses to read an integer of more than 4,300 digits.
        raise JsonError("a number has more than 64 bits") from None
    _check(value, 0)
    return value


def _unique_keys(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    result: dict[str, Json] = {}
    for key, value in pairs:
        if key in result:
            # ASCII and short, because a key may hold anything.
            raise JsonError(f"it names {safe_line(json.dumps(key[:40]))} twice in one object")
        result[key] = value
    return result


def _no_constant(name: str) -> Json:
    raise JsonError(f"it holds {name}, which is no number in JSON; leave such a value out")


def _check(value: Json, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise JsonError("it is nested too deeply")
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise JsonError("a string holds a lone surrogate") from None
    elif isinstance(value, int):
        # Larger ones come from no probe and no clock, and float() of one raises.
        if not -(1 << 63) <= value < 1 << 63:
            raise JsonError("a number has more than 64 bits")
    elif isinstance(value, float):
        # 1e999 is valid JSON and becomes infinity, so the parser's hook does not see it.
        if not math.isfinite(value):
            raise JsonError("a number is not finite")
    elif isinstance(value, list):
        for item in value:
            _check(item, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            _check(key, depth + 1)
            _check(item, depth + 1)
