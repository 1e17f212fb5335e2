"""Reads the logged rows out of the `.wandb` file of an offline run that a student's code made.

W&B offers no reader for these files. They are LevelDB logs with a header and checksums of their own: blocks
of 32 KiB hold pieces, each with its CRC-32, length (uint16) and type (uint8); pieces make up `Record`
messages, of which the history is read here. Sources: wandb/proto/wandb_internal.proto as shipped with
wandb 0.31.0; https://github.com/google/leveldb/blob/main/doc/log_format.md
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lockstep.jsontext import MAX_DEPTH, Json, JsonError, parse_json
from lockstep.protobuf import ProtobufError, fields
from lockstep.text import few_lines

MAX_BYTES = 8 << 20
MAX_ROWS = 50_000
MAX_VALUES = 500_000
MAX_PIECES = 200_000
MAX_RECORD = 4 << 20
MAX_KEY_BYTES = 500
MAX_VALUE_BYTES = 1 << 20

_FILE_HEADER = b":W&B" + struct.pack("<HB", 0xBEE1, 0)
_BLOCK = 32 << 10
_PIECE = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_NOT_FINITE = {b"NaN": "NaN", b"Infinity": "Infinity", b"-Infinity": "-Infinity"}


@dataclass(frozen=True)
class WandbFile:
    """What a file says: one row for each `log`, in the order of the file, and everything wrong with the file.

    A row has the keys that were logged (nested dicts as dicts) and W&B's own `_step`, `_timestamp` and
    `_runtime`. Numbers that are not finite come as the texts "NaN", "Infinity" and "-Infinity", as W&B's own
    exports show them.
    """

    rows: tuple[Mapping[str, Json], ...]
    problems: tuple[str, ...]


class _Enough(Exception):
    """A limit was reached; its message is the problem to report."""


class _Reader:
    def __init__(self) -> None:
        self.rows: list[dict[str, Json]] = []
        self.values = 0
        self.problems: list[str] = []

    def record(self, message: bytes) -> None:
        """Take in one `Record`. Raises ProtobufError and _Enough."""
        for field in fields(message):
            if field.tag != 2:
                continue  # a summary, the configuration, the machine, what was printed
            if len(self.rows) >= MAX_ROWS:
                raise _Enough(f"the file has more than {MAX_ROWS} rows")
            row: dict[str, Json] = {}
            step = 0
            for part in fields(field.message()):
                if part.tag == 1:
                    self._item(part.message(), row)
                elif part.tag == 2:
                    for number in fields(part.message()):
                        step = number.signed() if number.tag == 1 else step
            row.setdefault("_step", step)
            self.rows.append(row)

    def _item(self, message: bytes, row: dict[str, Json]) -> None:
        self.values += 1
        if self.values > MAX_VALUES:
            raise _Enough(f"the file has more than {MAX_VALUES} values")
        keys: list[str] = []
        value: Json = None
        try:
            for field in fields(message):
                if field.tag in (1, 2):
                    keys.append(field.text(MAX_KEY_BYTES))
                elif field.tag in (8, 16):
                    value = _json(field.message())
                elif field.tag == 4:
                    value = bool(field.signed())
                elif field.tag == 5:
                    # sint64: the sign is the lowest bit.
                    number = field.signed() & (1 << 64) - 1
                    value = number >> 1 ^ -(number & 1)
                elif field.tag == 6:
                    double = field.double()
                    value = double if math.isfinite(double) else _spelt(double)
                elif field.tag == 7:
                    value = field.text(MAX_VALUE_BYTES)
        except JsonError as error:
            self.problems.append(f"row {len(self.rows)}, {'.'.join(keys)!r}: {error}")
            return
        fault = _put(row, keys, value)
        if fault:
            self.problems.append(f"row {len(self.rows)}, {'.'.join(keys)!r}: {fault}")


def read_history(data: bytes) -> WandbFile:
    """Every row of the history in a `.wandb` file.

    Never raises, whatever the bytes are. A damaged piece costs what is left of its block, as its length
    cannot be trusted; the next block is read again.
    """
    reader = _Reader()
    try:
        for offset, message in _records(data[:MAX_BYTES], reader.problems):
            try:
                reader.record(message)
            except ProtobufError as error:
                reader.problems.append(f"the record at byte {offset} is not one of W&B's: {error}")
    except _Enough as limit:
        reader.problems.append(f"{limit}; the rest was not read")
    if len(data) > MAX_BYTES:
        reader.problems.append(f"the file has {len(data)} bytes; only the first {MAX_BYTES} were read")
    return WandbFile(tuple(reader.rows), few_lines(reader.problems))


def _records(data: bytes, problems: list[str]) -> Iterator[tuple[int, bytes]]:
    """Offset and data of every record that is there as a whole."""
    if not data.startswith(_FILE_HEADER):
        problems.append("the file does not begin as a .wandb file does")
        return
    began = -1
    collected = bytearray()
    for count, (offset, kind, piece) in enumerate(_pieces(data, problems)):
        if count >= MAX_PIECES:
            raise _Enough(f"the file has more than {MAX_PIECES} records")
        is_start = kind in (_FULL, _FIRST)
        if is_start and began >= 0:
            problems.append(f"the record at byte {began} has no end")
        if is_start:
            began, collected = offset, bytearray()
        elif began < 0:
            # What is left of a record whose beginning was damaged, and has been reported.
            continue
        collected += piece
        if len(collected) > MAX_RECORD:
            raise _Enough(f"the record at byte {began} has more than {MAX_RECORD} bytes")
        if kind in (_FULL, _LAST):
            yield began, bytes(collected)
            began = -1
    if began >= 0:
        problems.append(f"the record at byte {began} has no end")


def _pieces(data: bytes, problems: list[str]) -> Iterator[tuple[int, int, bytes]]:
    """Offset, type and data of every piece whose checksum is right."""
    at = len(_FILE_HEADER)
    while at < len(data):
        block_end = at - at % _BLOCK + _BLOCK
        if block_end - at < _PIECE.size:
            # No header fits: zeros fill the block.
            if any(data[at:block_end]):
                problems.append(f"bytes that belong to no record at byte {at}")
            at = block_end
            continue
        if len(data) - at < _PIECE.size:
            problems.append(f"the file is cut off at byte {at}")
            return
        crc, size, kind = _PIECE.unpack_from(data, at)
        end = at + _PIECE.size + size
        if end <= block_end and end > len(data):
            problems.append(f"the file is cut off in the record at byte {at}")
            return
        if end > block_end or kind not in (_FULL, _FIRST, _MIDDLE, _LAST):
            problems.append(f"no record at byte {at}; the rest of its block was left out")
            at = block_end
            continue
        if zlib.crc32(data[at + _PIECE.size - 1 : end]) != crc:
            problems.append(f"bad crc at byte {at}; the rest of its block was left out")
            at = block_end
            continue
        yield at, kind, data[at + _PIECE.size : end]
        at = end


def _json(text: bytes) -> Json:
    if text in _NOT_FINITE:
        return _NOT_FINITE[text]
    if len(text) > MAX_VALUE_BYTES:
        raise JsonError(f"a text of {len(text)} bytes where {MAX_VALUE_BYTES} are the limit")
    return parse_json(text)


def _spelt(number: float) -> str:
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _put(row: dict[str, Json], keys: list[str], value: Json) -> str:
    """Store a value under its nested keys; what hinders that, or nothing."""
    if not 1 <= len(keys) <= MAX_DEPTH:
        return f"{len(keys)} keys, one inside the other"
    place = row
    for key in keys[:-1]:
        inner = place.setdefault(key, {})
        if not isinstance(inner, dict):
            return "logged twice, as a value and as a group"
        place = inner
    if keys[-1] in place:
        return "logged twice in the row"
    place[keys[-1]] = value
    return ""
