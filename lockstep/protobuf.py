"""Takes the fields of a Protocol Buffers message apart, by hand and for untrusted bytes.

The generated classes of TensorBoard and W&B would do it too, but they run native parsers on whatever a
student's code wrote, import half a framework, and accept what is malformed without saying so.
Source: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""The wire types. 3 and 4, groups, have been out of use since proto2 and are refused."""

_MAX_VARINT = 10
_DOUBLE = struct.Struct("<d")
_FLOAT = struct.Struct("<f")


class ProtobufError(Exception):
    """Bytes that are not one well-formed message; the message says what is wrong with them."""


class Field(NamedTuple):
    """One field as it lies on the wire: `number` is an integer for VARINT, otherwise `data` holds its bytes."""

    tag: int
    wire: int
    number: int
    data: bytes

    def signed(self) -> int:
        """An int32, int64, enum or bool."""
        self._must_be(VARINT)
        return self.number - (1 << 64) if self.number >= 1 << 63 else self.number

    def double(self) -> float:
        """A double; may be NaN or infinite."""
        self._must_be(FIXED64)
        return float(_DOUBLE.unpack(self.data)[0])

    def float32(self) -> float:
        """A float, widened exactly; may be NaN or infinite."""
        self._must_be(FIXED32)
        return float(_FLOAT.unpack(self.data)[0])

    def message(self) -> bytes:
        """The bytes of a message, a string or a bytes field."""
        self._must_be(BYTES)
        return self.data

    def text(self, limit: int) -> str:
        """A string of at most `limit` bytes."""
        if len(self.message()) > limit:
            raise ProtobufError(f"a text of {len(self.data)} bytes where {limit} are the limit")
        try:
            return self.data.decode("utf-8")
        except UnicodeDecodeError:
            raise ProtobufError("a text that is not UTF-8") from None

    def _must_be(self, wire: int) -> None:
        if self.wire != wire:
            raise ProtobufError(f"field {self.tag} has wire type {self.wire} instead of {wire}")


def fields(message: bytes) -> Iterator[Field]:
    """The fields of `message`, in the order in which they were written. Raises ProtobufError."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        tag, wire = key >> 3, key & 7
        if not 1 <= tag < 1 << 29:
            raise ProtobufError(f"a field has the number {tag}")
        if wire == VARINT:
            number, at = _varint(message, at)
            yield Field(tag, wire, number, b"")
            continue
        if wire == BYTES:
            size, at = _varint(message, at)
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
        else:
            raise ProtobufError(f"field {tag} has the unknown wire type {wire}")
        if size > len(message) - at:
            raise ProtobufError(f"field {tag} ends after the message does")
        yield Field(tag, wire, 0, message[at : at + size])
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    # Nearly all of them are shorter than 128.
    if at < len(message) and message[at] < 0x80:
        return message[at], at + 1
    value = 0
    for i in range(_MAX_VARINT):
        if at + i >= len(message):
            raise ProtobufError("the message ends within a number")
        byte = message[at + i]
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            if value >= 1 << 64:
                break
            return value, at + i + 1
    raise ProtobufError("a number has more than 64 bits")
