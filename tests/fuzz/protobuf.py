"""Protocol Buffers messages, right or with everything that can be wrong with one."""

from __future__ import annotations

import struct

from tests.fuzz.bent import Dice


def varint(number: int) -> bytes:
    """A number in groups of seven bits, the lowest first."""
    out = bytearray()
    number &= (1 << 64) - 1
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def numbered(tag: int, number: int) -> bytes:
    return varint(tag << 3) + varint(number)


def field(tag: int, data: bytes) -> bytes:
    """Bytes, a text or a message in the message."""
    return varint(tag << 3 | 2) + varint(len(data)) + data


def double(tag: int, number: float) -> bytes:
    return varint(tag << 3 | 1) + struct.pack("<d", number)


def single(tag: int, number: float) -> bytes:
    return varint(tag << 3 | 5) + struct.pack("<f", number)


def odd_field(dice: Dice, tag: int) -> bytes:
    """A field that has the right number and another type, or that does not end."""
    return dice.choice(
        [
            numbered(tag, dice.extreme()),
            double(tag, dice.choice([0.0, -0.0, 1.5, float("nan"), float("-inf"), 1e308])),
            single(tag, 1.5),
            field(tag, dice.noise(9)),
            field(tag, dice.text(3).encode("utf-8", "surrogatepass")),
            varint(tag << 3 | dice.choice([3, 4, 6, 7])),
            varint(tag << 3 | 2) + varint(dice.extreme()),
            varint(tag << 3) + b"\x80" * dice.choice([1, 9, 10, 11]) + b"\1",
            varint(dice.extreme()),
            b"",
        ]
    )
