"""W&B files that no run wrote: always read, and what W&B's own messages say is what is read here."""

from __future__ import annotations

import json
import struct
import zlib

from google.protobuf.message import DecodeError
from hypothesis import given
from wandb.proto import wandb_internal_pb2

from lockstep.wandbfile import read_history
from tests.fuzz.bent import Dice, thrown, written
from tests.fuzz.promise import held, presentable
from tests.fuzz.protobuf import double, field, numbered, odd_field

HEADER = b":W&B\xe1\xbe\x00"
BLOCK = 32 << 10
KEYS = (
    b"loss",
    b"acc1",
    b"_step",
    b"_timestamp",
    b"val",
    b"",
    b"\xff",
    "\u202e##[x]\x1b[2J`".encode(),
    b"k" * 600,
)
JSON = (
    b"1",
    b"0.5",
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b'"a"',
    b"{}",
    b'{"a": [1]}',
    b"1e999",
    b"{",
    b"",
    b"[" * 40 + b"]" * 40,
    b"null",
    b"9" * 30,
)


def item(dice: Dice) -> bytes:
    keys = (
        [field(1, dice.choice(KEYS))]
        if not dice.rarely(4)
        else [field(2, dice.choice(KEYS)) for _ in range(dice.choice([0, 1, 2, 40]))]
    )
    text = dice.choice(JSON) if not dice.rarely() else written(dice.json())
    what = [
        field(16, text), field(16, text), field(8, text), numbered(4, dice.randrange(2)), numbered(5, dice.extreme()),
        double(6, dice.choice([0.5, float("nan"), float("-inf")])), field(7, text), odd_field(dice, dice.randrange(1, 18)),
    ]  # fmt: skip
    return b"".join(keys) + dice.choice(what)


def row(dice: Dice) -> bytes:
    items = b"".join(field(1, item(dice)) for _ in dice.few(4))
    step = field(2, numbered(1, dice.choice([0, 1, dice.extreme()]))) if dice.rarely(2) else b""
    odd = odd_field(dice, dice.randrange(1, 4)) if dice.rarely(10) else b""
    return field(2, items + step + odd)


def piece(dice: Dice, data: bytes, kind: int) -> bytes:
    crc = zlib.crc32(bytes([kind]) + data) ^ (1 << dice.randrange(32) if dice.rarely(20) else 0)
    size = dice.extreme(16) if dice.rarely(40) else len(data)
    return struct.pack("<IHB", crc, size, kind) + data


def wandb_file_of(dice: Dice) -> bytes:
    data = HEADER
    for _ in range(dice.randint(0, 2 * dice.size)):
        message = row(dice) if not dice.rarely() else dice.bent(row(dice), 1)
        if dice.rarely(10):
            # So long that it goes on in the next block.
            message += field(3, bytes(dice.choice([100, 9000, 40_000])))
        data = laid(dice, data, message)
    return dice.bent(data, 2) if dice.rarely(4) else data


def laid(dice: Dice, data: bytes, message: bytes) -> bytes:
    """The file with one more record, in as many pieces as blocks make of it, or now and then as somebody likes."""
    begun = False
    while True:
        room = BLOCK - len(data) % BLOCK
        if room < 7:
            data += bytes(room)
            continue
        cut = dice.randint(0, len(message)) if dice.rarely(10) else len(message)
        part, message = message[: min(cut, room - 7)], message[min(cut, room - 7) :]
        kind = (4 if begun else 1) if not message else (3 if begun else 2)
        if dice.rarely(30):
            kind = dice.choice([0, 1, 2, 3, 4, 5, 255])
        data += piece(dice, part, kind)
        begun = True
        if not message:
            return data


@given(thrown(wandb_file_of))
def test_any_wandb_file_is_read(data: bytes) -> None:
    read = held(lambda: read_history(data))
    assert read is not None
    presentable(*read.problems)
    json.dumps(read.rows, allow_nan=False).encode("ascii")
    if not read.problems:
        assert all("_step" in each for each in read.rows)


@given(thrown(row))
def test_any_row_says_what_it_says_to_wandb(message: bytes) -> None:
    crc = zlib.crc32(b"\1" + message)
    read = held(lambda: read_history(HEADER + struct.pack("<IHB", crc, len(message), 1) + message))
    assert read is not None
    try:
        theirs = wandb_internal_pb2.Record.FromString(message).history
    except DecodeError:
        # What is no text to them is none here, or stands in a field that is not read.
        return
    if read.problems or any(each.nested_key for each in theirs.item):
        return
    (ours,) = read.rows
    for each in theirs.item:
        if each.value_json and not each.json:
            assert read_json(each.value_json) == ours[each.key]


def read_json(text: str) -> object:
    return text if text in ("NaN", "Infinity", "-Infinity") else json.loads(text)
