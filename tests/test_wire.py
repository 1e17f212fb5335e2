"""The border: whatever bytes come out of the sandbox, `unpack` gives a frame or a WireError, and quickly."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep import wire
from lockstep.wire import WireError

quick = settings(max_examples=60, deadline=None, database=None)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


def framed(head: bytes, body: bytes = b"") -> bytes:
    return wire.PREFIX.pack(wire.MAGIC, len(head), len(body)) + head + body


def safetensored(index: object, data: bytes = b"") -> bytes:
    text = index if isinstance(index, bytes) else json.dumps(index).encode()
    return struct.pack("<Q", len(text)) + text + data


def array_frame(index: object, data: bytes = b"") -> bytes:
    return framed(b"{}", safetensored(index, data))


@quick
@given(st.dictionaries(TEXT, JSON, max_size=4))
def test_values_come_back_as_they_were(values: dict[str, wire.Json]) -> None:
    assert wire.unpack(wire.pack(values)).values == values


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 3), (2, 0, 3)], ids=str)
def test_arrays_come_back_as_they_were(dtype: str, shape: tuple[int, ...]) -> None:
    sent = (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2).astype(dtype)
    seen = wire.unpack(wire.pack({}, {"a": sent, "transposed": sent.T})).arrays
    assert (seen["a"].dtype, seen["a"].shape) == (sent.dtype, sent.shape)
    np.testing.assert_array_equal(seen["a"], sent)
    np.testing.assert_array_equal(seen["transposed"], sent.T)


REFUSED = {
    "nothing": b"",
    "half a prefix": b"LKS1\0\0",
    "another magic": b"PK\3\4" + bytes(12),
    "a pickle": b"\x80\x04\x95" + bytes(20),
    "cut short": wire.pack({"a": 1})[:-1],
    "trailing bytes": wire.pack({"a": 1}) + b"x",
    "two frames": wire.pack({"a": 1}) * 2,
    "a head above the cap": wire.PREFIX.pack(wire.MAGIC, wire.MAX_HEAD + 1, 0),
    "a body above the cap": wire.PREFIX.pack(wire.MAGIC, 2, wire.MAX_BODY + 1) + b"{}",
    "16 exabytes": wire.PREFIX.pack(wire.MAGIC, 2**32 - 1, 2**64 - 1),
    "no JSON": framed(b"{]"),
    "no UTF-8": framed(b'{"a": "\xff"}'),
    "a list": framed(b"[]"),
    "a number": framed(b"1"),
    "an empty head": framed(b""),
    "NaN": framed(b'{"a": NaN}'),
    "Infinity": framed(b'{"a": [-Infinity]}'),
    "1e999": framed(b'{"a": 1e999}'),
    "one key twice": framed(b'{"passed": false, "passed": true}'),
    "one key twice, inside": framed(b'{"a": [{"b": 1, "b": 2}]}'),
    "half a character": framed(b'{"a": "\\ud800"}'),
    "half a character in a key": framed(b'{"\\ud800": 1}'),
    "a million digits": framed(b'{"a": ' + b"9" * 1_000_000 + b"}"),
    "nested 33 deep": framed(b'{"a": ' + b"[" * 33 + b"]" * 33 + b"}"),
    "nested 100,000 deep": framed(b"[" * 100_000 + b"]" * 100_000),
    "nested objects": framed(b'{"a":' * 50_000 + b"1" + b"}" * 50_000),
    "no index": framed(b"{}", b"x"),
    "an index of 16 exabytes": framed(b"{}", struct.pack("<Q", 2**64 - 1) + b"{}"),
    "an index above the cap": framed(b"{}", safetensored(b" " * (wire.MAX_TENSOR_INDEX + 1))),
    "an index that is no JSON": array_frame(b"{"),
    "data that is not there": array_frame({"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}),
    "more data than announced": array_frame({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, bytes(8)),
    "a shape that overflows": array_frame({"a": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 4]}}, bytes(4)),
    "a negative shape": array_frame({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}, bytes(4)),
    "overlapping arrays": array_frame(
        {name: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]} for name in "ab"}, bytes(4)
    ),
    "bfloat16": array_frame({"a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}, bytes(4)),
    "objects": array_frame({"a": {"dtype": "O", "shape": [1], "data_offsets": [0, 8]}}, bytes(8)),
    "an unknown number format": array_frame({"a": {"dtype": "F7", "shape": [1], "data_offsets": [0, 4]}}, bytes(4)),
}  # fmt: skip


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_frame_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        wire.unpack(data)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**400], ids=["2**63", "-2**63-1", "10**400"])
def test_numbers_of_more_than_64_bits_are_refused(number: int) -> None:
    with pytest.raises(WireError):
        wire.unpack(framed(b'{"a": [%d]}' % number))


def test_what_is_too_large_is_not_even_packed() -> None:
    with pytest.raises(WireError, match="too large"):
        wire.pack({"a": "x" * (wire.MAX_HEAD + 1)})
    with pytest.raises(WireError, match="too large"):
        wire.pack({}, {"a": np.zeros(wire.MAX_BODY + 1, np.uint8)})


def test_a_frame_is_complete_when_its_last_byte_is_there() -> None:
    frame = wire.pack({"a": 1}, {"x": np.arange(3.0)})
    assert [wire.is_complete(frame[:size]) for size in range(len(frame))] == [False] * len(frame)
    assert wire.is_complete(frame)
    assert wire.is_complete(frame + b"x")  # and then refused for its trailing byte


def test_bytes_that_never_become_a_frame_are_not_waited_for() -> None:
    assert wire.is_complete(b"{" * wire.PREFIX.size)


def test_objects_are_not_packed() -> None:
    """The one way to run code while arrays are read would be a pickled object in them."""
    with pytest.raises(Exception, match="object"):
        wire.pack({}, {"a": np.array([object()], dtype=object)})


def test_the_border_unpickles_and_evaluates_nothing() -> None:
    source = Path(wire.__file__).read_text()
    assert not any(
        word in source for word in ("pickle.", "import pickle", "eval(", "exec(", "np.load", "torch")
    )
