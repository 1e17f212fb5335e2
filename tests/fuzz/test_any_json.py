"""JSON that somebody else wrote: what is accepted is what Python's own parser reads, and is harmless."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

from hypothesis import given

from lockstep.jsontext import MAX_DEPTH, Json, JsonError, parse_json
from tests.fuzz.bent import Dice, thrown, written
from tests.fuzz.promise import held

LITERALS = (
    b"NaN", b"-Infinity", b"1e999", b"-1e999", b"0e-999", b"01", b"1.", b"+1", b"-", b"- 1", b"9223372036854775807",
    b"9223372036854775808", b"1" * 4400, b'"\\ud83d\\ude00"', b'"\\ud83d"', b'"\\u00"', b'"\\x41"', b'"\x01"', b"'a'", b"nul",
    b"\xef\xbb\xbf1", b"/**/1", b"[1,]", b'{"a":1,}', b'{"a":1,"a":2}', b"{1:2}", b'"\xff"', b"[" * 40 + b"]" * 40, b"[" * 100_000,
)  # fmt: skip


def json_of(dice: Dice) -> bytes:
    if dice.rarely(4):
        literal = dice.choice(LITERALS)
        return dice.choice(
            [literal, b"[" + literal + b"]", b'{"k":' + literal + b"}", b'{"a": [' + literal + b", 0]}"]
        )
    data = written(dice.json(4))
    return dice.bent(data) if dice.rarely(2) else data


@given(thrown(json_of))
def test_any_json_is_read_as_python_reads_it_or_refused(data: bytes) -> None:
    refused = (JsonError,)
    value = held(lambda: [parse_json(data)], *refused)
    theirs = read_by_python(data)
    if value is not None:
        assert theirs == value
        json.dumps(value, allow_nan=False).encode()
    elif theirs is not None:
        assert not is_plain(theirs[0], 0)


def read_by_python(data: bytes) -> list[Json] | None:
    """In a list; None for what is no JSON to Python either, or names a key twice."""
    try:
        return [json.loads(data.decode("utf-8"), object_pairs_hook=once)]
    except (ValueError, RecursionError):
        return None


def once(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError
    return dict(pairs)


def is_plain(value: Json, depth: int) -> bool:
    """Whether nothing in it is beyond what lockstep takes."""
    if isinstance(value, list | dict):
        return depth <= MAX_DEPTH and all(is_plain(item, depth + 1) for item in parts(value))
    if isinstance(value, str):
        return depth <= MAX_DEPTH and not any("\ud800" <= sign <= "\udfff" for sign in value)
    if isinstance(value, float):
        return depth <= MAX_DEPTH and math.isfinite(value)
    return depth <= MAX_DEPTH and -(2**63) <= (value or 0) < 2**63


def parts(value: list[Json] | dict[str, Json]) -> Iterator[Json]:
    if isinstance(value, dict):
        yield from value
        yield from value.values()
    else:
        yield from value
