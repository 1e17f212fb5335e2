"""Event files that no SummaryWriter wrote: always read, and what TensorBoard reads of them is what is read here."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.util.tensor_util import make_ndarray

from lockstep.eventfile import masked_crc32c, read_scalars
from tests.fuzz.bent import Dice, thrown
from tests.fuzz.promise import held, presentable
from tests.fuzz.protobuf import double, field, numbered, odd_field, single

TAGS = (b"loss", b"acc1", b"train/loss", b"", b"x" * 600, "\u202e##[x]\x1b[2J".encode(), b"\xff", b"loss")
VERSION = field(3, b"brain.Event:2")


def record(dice: Dice, data: bytes) -> bytes:
    length = dice.extreme() if dice.rarely(40) else len(data)
    size = struct.pack("<Q", length)
    checksums = [masked_crc32c(size), masked_crc32c(data)]
    if dice.rarely(20):
        checksums[dice.randrange(2)] ^= 1 << dice.randrange(32)
    return size + struct.pack("<I", checksums[0]) + data + struct.pack("<I", checksums[1])


def tensor(dice: Dice) -> bytes:
    kind = dice.choice([1, 1, 2, 3, 9, 7, 0])
    shape = field(2, field(2, numbered(1, dice.choice([1, 2, 2**40]))) * dice.choice([0, 0, 0, 1, 2]))
    number = dice.choice([0.0, 1.5, -2.0, 1e30, float("nan"), float("inf")])
    packed = dice.choice(
        [
            field(4, struct.pack("<f" if kind == 1 else "<d", number)),
            field(5, struct.pack("<f", number)),
            single(5, number),
            field(6, struct.pack("<d", number)),
            numbered(7, dice.extreme()),
            field(10, numbered(1, dice.extreme())[1:]),
            field(4, dice.noise(16)),
            odd_field(dice, dice.choice([4, 5, 6, 7, 10])),
            b"",
        ]
    )
    return numbered(1, kind) + shape + packed


def value(dice: Dice) -> bytes:
    tag = field(1, dice.choice(TAGS))
    what = (
        single(2, dice.choice([0.0, 0.1, -1.0, float("nan"), float("-inf")]))
        if dice.rarely(2)
        else field(8, tensor(dice))
    )
    odd = odd_field(dice, dice.choice([1, 2, 8, 9, 10])) if dice.rarely(10) else b""
    return tag + what + odd if not dice.rarely(20) else what + tag


def event(dice: Dice) -> bytes:
    step = numbered(2, dice.choice([0, 1, 7, dice.extreme()]))
    time = double(1, dice.choice([1.7e9, 0.0, float("nan"), -1e300]))
    values = b"".join(field(1, value(dice)) for _ in dice.few(3))
    odd = odd_field(dice, dice.randrange(0, 9)) if dice.rarely(10) else b""
    return time + step + odd + field(5, values)


def event_file_of(dice: Dice) -> bytes:
    data = b"" if dice.rarely(20) else record(dice, double(1, 1.7e9) + VERSION)
    for _ in range(dice.randint(0, 2 * dice.size)):
        data += record(dice, dice.bent(event(dice), 1) if dice.rarely(6) else event(dice))
    return dice.bent(data, 2) if dice.rarely(4) else data


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("events") / "events.out.tfevents.1"


@given(thrown(event_file_of))
def test_any_event_file_is_read_as_tensorboard_reads_it(path: Path, data: bytes) -> None:
    read = held(lambda: read_scalars(data))
    assert read is not None
    presentable(*read.problems)
    if not read.problems:
        ours = {tag: [(point.step, point.value) for point in points] for tag, points in read.series.items()}
        theirs = read_by_tensorboard(path, data)
        # By their spelling, because NaN equals nothing.
        assert theirs is None or repr(theirs) == repr(ours)


def read_by_tensorboard(path: Path, data: bytes) -> dict[str, list[tuple[int, float]]] | None:
    """None where it ends in an exception."""
    path.write_bytes(data)
    series: dict[str, list[tuple[int, float]]] = {}
    for serialized in RawEventFileLoader(str(path)).Load():
        try:
            event = event_pb2.Event.FromString(serialized)
        except DecodeError:
            # In a part that is not read here: a picture, a histogram.
            return None
        for each in event.summary.value:
            try:
                number = scalar_of(each)
            except (ValueError, TypeError):
                return None
            if number is not None:
                series.setdefault(each.tag, []).append((event.step, number))
    return series


def scalar_of(value: summary_pb2.Summary.Value) -> float | None:
    if value.WhichOneof("value") == "simple_value":
        return float(value.simple_value)
    is_scalar = value.WhichOneof("value") == "tensor" and not value.tensor.tensor_shape.dim
    return float(make_ndarray(value.tensor)) if is_scalar and value.tensor.dtype in (1, 2, 3, 9) else None
