"""TensorBoard event files: what `SummaryWriter` really writes is read back, and no bytes do any harm."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.tensorboard import SummaryWriter

from lockstep import eventfile
from lockstep.eventfile import EventFile, masked_crc32c, read_scalars
from tests.effort import costs_at_most

quick = settings(max_examples=60, deadline=None, database=None)


def write(folder: Path, fill: Callable[[SummaryWriter], None]) -> bytes:
    """The bytes of the one event file that `fill` makes a writer write."""
    writer = SummaryWriter(folder)
    fill(writer)
    writer.close()
    (file,) = folder.glob("events.out.tfevents.*")
    return file.read_bytes()


def log_losses(writer: SummaryWriter) -> None:
    for step in range(100):
        writer.add_scalar("train/loss", 2.302585092994046 / (step + 1), step)
        writer.add_scalar("acc1", step / 100, step, new_style=True)


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write(tmp_path_factory.mktemp("events"), log_losses)


def record(data: bytes) -> bytes:
    size = struct.pack("<Q", len(data))
    return size + struct.pack("<I", masked_crc32c(size)) + data + struct.pack("<I", masked_crc32c(data))


def field(tag: int, data: bytes) -> bytes:
    """A field of bytes shorter than 128."""
    return bytes([tag << 3 | 2, len(data)]) + data


VERSION = record(field(3, b"brain.Event:2"))


def scalar_event(value: bytes, step: int = 7) -> bytes:
    return record(bytes([2 << 3, step]) + field(5, field(1, value)))


def test_scalars_come_back_in_order(logged: bytes) -> None:
    before = time.time() - 3600
    seen = read_scalars(logged)
    assert seen.problems == ()
    assert set(seen.series) == {"train/loss", "acc1"}
    loss = seen.series["train/loss"]
    assert [point.step for point in loss] == list(range(100))
    assert all(before < point.wall_time < time.time() + 60 for point in loss)
    assert seen.series["acc1"][50].value == 0.5


def test_values_are_the_float32_that_was_written(logged: bytes) -> None:
    assert read_scalars(logged).series["train/loss"][0].value == 2.3025851249694824


def test_more_points_than_tensorboard_itself_keeps(tmp_path: Path) -> None:
    def fill(writer: SummaryWriter) -> None:
        for step in range(12_000):
            writer.add_scalar("loss", step, step)

    seen = read_scalars(write(tmp_path, fill))
    assert (len(seen.series["loss"]), seen.problems) == (12_000, ())


def test_pictures_texts_and_histograms_are_passed_over(tmp_path: Path) -> None:
    import torch

    def fill(writer: SummaryWriter) -> None:
        writer.add_text("note", "hello")
        writer.add_histogram("weights", torch.arange(10.0), 1)
        writer.add_image("batch", torch.zeros(3, 4, 4), 1)
        writer.add_scalar("loss", 1.5, 1)

    seen = read_scalars(write(tmp_path, fill))
    assert (list(seen.series), seen.problems) == (["loss"], ())


def test_a_step_counter_that_starts_again_is_kept(tmp_path: Path) -> None:
    def fill(writer: SummaryWriter) -> None:
        for _ in range(2):
            for step in range(50):
                writer.add_scalar("loss", step, step)

    steps = [point.step for point in read_scalars(write(tmp_path, fill)).series["loss"]]
    assert steps == [*range(50), *range(50)]


def test_odd_numbers_are_values(tmp_path: Path) -> None:
    def fill(writer: SummaryWriter) -> None:
        for step, value in enumerate((float("nan"), float("inf"), -0.0)):
            writer.add_scalar("loss", value, step - 1)

    seen = read_scalars(write(tmp_path, fill))
    assert [str(point.value) for point in seen.series["loss"]] == ["nan", "inf", "-0.0"]
    assert seen.series["loss"][0].step == -1
    assert seen.problems == ()


def test_a_flipped_byte_costs_its_record_and_is_told(logged: bytes) -> None:
    # 0.5 is 00 00 00 3f on the wire; only acc1 at step 50 has it, in tensor_content.
    at = logged.index(struct.pack("<f", 0.5))
    seen = read_scalars(logged[:at] + bytes([logged[at] ^ 1]) + logged[at + 1 :])
    assert 50 not in [point.step for point in seen.series["acc1"]]
    assert (len(seen.series["acc1"]), len(seen.series["train/loss"])) == (99, 100)
    (problem,) = seen.problems
    assert problem.startswith("bad crc of the data at byte ")


def test_a_damaged_length_ends_the_reading(logged: bytes) -> None:
    (size,) = struct.unpack_from("<Q", logged)
    second = 12 + size + 4
    seen = read_scalars(logged[:second] + b"\xff" + logged[second + 1 :])
    assert seen.series == {}
    assert seen.problems == (f"bad crc of the length at byte {second}; nothing after it can be read",)


@pytest.mark.parametrize("left", [1, 11, 12, 40, -1, -5])
def test_what_was_cut_off_is_told(logged: bytes, left: int) -> None:
    seen = read_scalars(logged[:left])
    assert len(seen.problems) == 1
    assert "the file is cut off in the record at byte " in seen.problems[0]


def test_an_empty_file_is_told() -> None:
    assert read_scalars(b"") == EventFile({}, ("the file is empty",))


def test_a_cut_between_records_leaves_no_trace() -> None:
    # The format has no end mark, so a check asks for the points that are due, not only for no problems.
    assert read_scalars(VERSION).problems == ()


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (field(1, b"\xff\xfe") + b"\x15\x00\x00\x80\x3f", "a text that is not UTF-8"),
        (field(1, b"loss") + field(2, b"1234"), "field 2 has wire type 2 instead of 5"),
        (field(1, b"loss") + b"\x15\x00", "field 2 ends after the message does"),
        (field(1, b"loss") + b"\x13", "field 2 has the unknown wire type 3"),
        (field(1, b"loss") + b"\x00\x00", "a field has the number 0"),
        (field(1, b"loss") + b"\x48" + b"\xff" * 10, "a number has more than 64 bits"),
        (field(1, b"loss") + b"\x48", "the message ends within a number"),
        (field(1, b"loss") + field(8, b"\x08\x01" + field(4, b"123")), "a scalar of 3 bytes where 4 are due"),
        (
            field(1, b"loss") + field(8, b"\x08\x01" + field(5, b"12345678")),
            "a scalar that is not one number",
        ),
        (
            field(1, b"loss") + field(8, b"\x08\x09" + field(10, b"\x01\x08\x01")),
            "a scalar that is not one number",
        ),
        (
            field(1, b"loss") + field(8, b"\x08\x03\x38" + b"\x80" * 9 + b"\x01"),
            "a scalar of more than 32 bits",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_malformed_event_costs_itself(value: bytes, problem: str) -> None:
    good = field(1, b"loss") + b"\x15\x00\x00\x80\x3f"
    seen = read_scalars(VERSION + scalar_event(value) + scalar_event(good))
    assert seen.problems == (f"the record at byte {len(VERSION)} is not an event: {problem}",)
    assert [(point.step, point.value) for point in seen.series["loss"]] == [(7, 1.0)]


@pytest.mark.parametrize(
    ("tensor", "value"),
    [
        (b"\x08\x01" + field(5, struct.pack("<f", 2.5)), 2.5),
        (b"\x08\x01\x2d" + struct.pack("<f", 2.5), 2.5),
        (b"\x08\x01" + field(4, struct.pack("<f", 2.5)), 2.5),
        (b"\x08\x02" + field(6, struct.pack("<d", 0.1)), 0.1),
        (b"\x08\x02" + field(4, struct.pack("<d", 0.1)), 0.1),
        (b"\x08\x03" + field(7, b"\x05"), 5.0),
        (b"\x08\x09\x50" + b"\xff" * 9 + b"\x01", -1.0),
        (b"\x08\x09" + field(4, struct.pack("<q", -3)), -3.0),
        (b"\x08\x01", 0.0),
        (b"\x08\x07", None),  # DT_STRING
        (b"\x08\x01" + field(2, field(2, b"\x08\x01")) + field(4, struct.pack("<f", 2.5)), None),  # shape [1]
    ],
)
def test_a_scalar_in_a_tensor(tensor: bytes, value: float | None) -> None:
    seen = read_scalars(VERSION + scalar_event(field(1, b"a") + field(8, tensor)))
    assert seen.problems == ()
    assert [point.value for point in seen.series.get("a", ())] == ([] if value is None else [value])


def test_a_file_that_is_two_files_is_told() -> None:
    first = VERSION + scalar_event(field(1, b"loss") + b"\x15\x00\x00\x80\x3f")
    assert read_scalars(first + first).problems == (
        f"the record at byte {len(first)} marks the beginning of another file",
    )


def test_a_writer_that_is_told_where_to_go_on_marks_the_beginning_twice(tmp_path: Path) -> None:
    with SummaryWriter(str(tmp_path), purge_step=0) as writer:
        writer.add_scalar("loss", 1.0, 0)
    (file,) = tmp_path.iterdir()
    seen = read_scalars(file.read_bytes())
    assert seen.problems == ()
    assert [point.value for point in seen.series["loss"]] == [1.0]


def test_a_file_without_its_first_record_is_told() -> None:
    good = field(1, b"loss") + b"\x15\x00\x00\x80\x3f"
    assert "is not the version mark" in read_scalars(scalar_event(good)).problems[0]


def test_limits_end_the_reading(monkeypatch: pytest.MonkeyPatch, logged: bytes) -> None:
    for limit, value, words in (
        ("MAX_BYTES", 5000, "the file is cut off"),
        ("MAX_EVENTS", 10, "more than 10 records"),
        ("MAX_POINTS", 10, "more than 10 values"),
        ("MAX_TAGS", 1, "more than 1 tags"),
        ("MAX_TAG_BYTES", 5, "a text of 10 bytes where 5 are the limit"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(eventfile, limit, value)
            assert words in read_scalars(logged).problems[0]


def test_many_problems_are_counted_and_harmless() -> None:
    seen = read_scalars(VERSION + record(b"\xff") * 100)
    assert len(seen.problems) == 21
    assert seen.problems[-1] == "and 80 more"


@quick
@given(at=st.integers(0, 2**20), value=st.integers(1, 255))
def test_no_damage_goes_unnoticed(logged: bytes, at: int, value: int) -> None:
    at %= len(logged)
    seen = read_scalars(logged[:at] + bytes([logged[at] ^ value]) + logged[at + 1 :])
    assert seen.problems


def test_the_checksum_is_the_one_of_the_format() -> None:
    # RFC 3720, appendix B.4: 32 bytes of zeros have the CRC 0x8A9136AA.
    crc = 0x8A9136AA
    assert masked_crc32c(bytes(32)) == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_a_large_file_is_read_in_seconds() -> None:
    with costs_at_most(20):
        masked_crc32c(bytes(1 << 20))
