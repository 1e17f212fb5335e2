"""Reads the scalars out of a TensorBoard event file that a student's code wrote.

TensorBoard's own reader stops at the first damaged record without a word and, unless told otherwise,
keeps a sample of 10,000 points. This one reads every record, compares every checksum and says what it had
to leave out. The checksums detect accidents, not intent: whoever writes the file can compute them.

The file is a TFRecord file: length (uint64), its masked CRC-32C, the data, their masked CRC-32C; the data
are `Event` messages. Sources: tensorflow/core/lib/io/record_writer.h, tensorflow/core/util/event.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lockstep.protobuf import Field, ProtobufError, fields
from lockstep.text import few_lines

MAX_BYTES = 8 << 20
MAX_EVENTS = 100_000
MAX_POINTS = 200_000
MAX_TAGS = 1000
MAX_TAG_BYTES = 500

_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")
_HEADER = _LENGTH.size + _CRC.size
_VERSION = "brain.Event:2"
# TensorProto's dtypes of which a scalar may be, with the codes of `struct`: float, double, int32, int64.
_DTYPES = {1: "<f", 2: "<d", 3: "<i", 9: "<q"}
# The fields of TensorProto that hold them where `tensor_content` does not.
_FLOAT_VAL, _DOUBLE_VAL, _INT_VAL, _INT64_VAL = 5, 6, 7, 10


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a series. `value` and `wall_time` are what the file says: NaN and infinity included."""

    step: int
    value: float
    wall_time: float


@dataclass(frozen=True)
class EventFile:
    """What a file says: the points of every tag in the order of the file, and everything wrong with the file."""

    series: Mapping[str, tuple[Point, ...]]
    problems: tuple[str, ...]


class _Enough(Exception):
    """A limit was reached; its message is the problem to report."""


class _Reader:
    def __init__(self) -> None:
        self.series: dict[str, list[Point]] = {}
        self.points = 0
        self.problems: list[str] = []

    def event(self, message: bytes, is_first: bool, offset: int) -> None:
        """Take in one `Event`. Raises ProtobufError and _Enough."""
        step, wall_time, version, summaries = 0, 0.0, None, []
        for field in fields(message):
            if field.tag == 1:
                wall_time = field.double()
            elif field.tag == 2:
                step = field.signed()
            elif field.tag == 3:
                version = field.text(100)
            elif field.tag == 5:
                summaries.append(field.message())
        if is_first and version != _VERSION:
            self.problems.append(f'the first record is not the version mark "{_VERSION}"')
        # A SummaryWriter with a purge_step marks the beginning twice.
        if version is not None and self.points:
            self.problems.append(f"the record at byte {offset} marks the beginning of another file")
        for summary in summaries:
            for field in fields(summary):
                if field.tag == 1:
                    self._value(field.message(), step, wall_time)

    def _value(self, message: bytes, step: int, wall_time: float) -> None:
        tag, value = "", None
        for field in fields(message):
            if field.tag == 1:
                tag = field.text(MAX_TAG_BYTES)
            elif field.tag == 2:
                value = field.float32()
            elif field.tag == 8:
                value = _scalar(field.message())
        if value is None:
            return  # a picture, a histogram, a text
        if tag not in self.series and len(self.series) >= MAX_TAGS:
            raise _Enough(f"the file has more than {MAX_TAGS} tags")
        if self.points >= MAX_POINTS:
            raise _Enough(f"the file has more than {MAX_POINTS} values")
        self.points += 1
        self.series.setdefault(tag, []).append(Point(step, value, wall_time))


def read_scalars(data: bytes) -> EventFile:
    """Every scalar in an event file, in the old form (`simple_value`) and the new one (a tensor of rank 0).

    Never raises, whatever the bytes are. A record whose data do not match their checksum is left out and the
    next one is read; after a damaged length nothing can be.
    """
    reader = _Reader()
    try:
        for count, (offset, message) in enumerate(_records(data[:MAX_BYTES], reader.problems)):
            if count >= MAX_EVENTS:
                raise _Enough(f"the file has more than {MAX_EVENTS} records")
            if message is None:
                continue
            try:
                reader.event(message, is_first=count == 0, offset=offset)
            except ProtobufError as error:
                reader.problems.append(f"the record at byte {offset} is not an event: {error}")
    except _Enough as limit:
        reader.problems.append(f"{limit}; the rest was not read")
    if len(data) > MAX_BYTES:
        reader.problems.append(f"the file has {len(data)} bytes; only the first {MAX_BYTES} were read")
    return EventFile(
        {tag: tuple(points) for tag, points in reader.series.items()}, few_lines(reader.problems)
    )


def _records(data: bytes, problems: list[str]) -> Iterator[tuple[int, bytes | None]]:
    """Offset and data of every record; None where the data are not what was written."""
    if not data:
        problems.append("the file is empty")
    at = 0
    while at < len(data):
        if len(data) - at < _HEADER:
            problems.append(f"the file is cut off in the record at byte {at}")
            return
        (size,) = _LENGTH.unpack_from(data, at)
        if masked_crc32c(data[at : at + _LENGTH.size]) != _CRC.unpack_from(data, at + _LENGTH.size)[0]:
            problems.append(f"bad crc of the length at byte {at}; nothing after it can be read")
            return
        end = at + _HEADER + size
        if end + _CRC.size > len(data):
            problems.append(f"the file is cut off in the record at byte {at}")
            return
        message = data[at + _HEADER : end]
        if masked_crc32c(message) == _CRC.unpack_from(data, end)[0]:
            yield at, message
        else:
            problems.append(f"bad crc of the data at byte {at}; the record was left out")
            yield at, None
        at = end + _CRC.size


def _scalar(message: bytes) -> float | None:
    """The number in a `TensorProto` of rank 0; None for any other tensor."""
    dtype, rank, content, listed = 0, 0, b"", None
    for field in fields(message):
        if field.tag == 1:
            dtype = field.signed()
        elif field.tag == 2:
            # TensorShapeProto: one `dim` (field 2) for each dimension.
            rank = sum(part.tag == 2 for part in fields(field.message()))
        elif field.tag == 4:
            content = field.message()
        elif field.tag in (_FLOAT_VAL, _DOUBLE_VAL, _INT_VAL, _INT64_VAL):
            listed = _listed(field)
    form = _DTYPES.get(dtype)
    if form is None or rank:
        return None
    if len(content) == struct.calcsize(form):
        return float(struct.unpack(form, content)[0])
    if content:
        raise ProtobufError(f"a scalar of {len(content)} bytes where {struct.calcsize(form)} are due")
    # What equals zero need not be written.
    return 0.0 if listed is None else listed


def _listed(field: Field) -> float:
    """The one value of a repeated numeric field, packed (as proto3 writes it) or not."""
    form = {_FLOAT_VAL: "<f", _DOUBLE_VAL: "<d"}.get(field.tag)
    if form is None:
        # A packed varint is a varint: read it as a field of its own.
        numbers = list(fields(b"\x08" + field.data)) if field.data else [field]
        if len(numbers) != 1:
            raise ProtobufError("a scalar that is not one number")
        number = numbers[0].signed()
        if field.tag == _INT_VAL and not -(1 << 31) <= number < 1 << 31:
            # Other readers cut it off and see another number.
            raise ProtobufError("a scalar of more than 32 bits")
        return float(number)
    if len(field.data) != struct.calcsize(form):
        raise ProtobufError("a scalar that is not one number")
    return float(struct.unpack(form, field.data)[0])


def masked_crc32c(data: bytes) -> int:
    """The CRC-32C (Castagnoli) of `data`, turned and shifted as TFRecord files want it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _table() -> tuple[int, ...]:
    # The reversed polynomial of RFC 3720 (iSCSI), appendix B.4; zlib only knows the other CRC-32.
    values = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        values.append(value)
    return tuple(values)


_TABLE = _table()
