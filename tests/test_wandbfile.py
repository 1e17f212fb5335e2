"""W&B offline runs: what a real `wandb` wrote is read back, and no bytes do any harm."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep import wandbfile
from lockstep.wandbfile import WandbFile, read_history

quick = settings(max_examples=60, deadline=None, database=None)
ROWS = 200
RUN = f"""
import wandb

run = wandb.init(mode="offline", project="labs", config={{"lr": 0.1}})
for step in range({ROWS}):
    run.log({{
        "loss": 2.302585092994046 / (step + 1), "acc1": step / {ROWS}, "epoch": step // 50,
        "val": {{"acc": 0.5, "top": {{"five": 1}}}}, "sizes": [1, 2.5, "x"], "name": "h\\u00e9", "done": False,
        "nothing": None, "grad": float("nan"), "scale": float("inf"), "low": -float("inf"), "steps": 2**40,
    }})
run.finish()
"""
HEADER = b":W&B\xe1\xbe\x00"


@pytest.fixture(scope="session")
def logged(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of the one file of a real run."""
    folder = tmp_path_factory.mktemp("wandb")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "WANDB_DIR": str(folder),
        "WANDB_SILENT": "true",
    }
    subprocess.run([sys.executable, "-c", RUN], cwd=folder, env=environment, timeout=300, check=True)
    (file,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    return file.read_bytes()


def piece(data: bytes, kind: int = 1) -> bytes:
    body = bytes([kind]) + data
    return struct.pack("<IH", zlib.crc32(body), len(data)) + body


def field(tag: int, data: bytes) -> bytes:
    key = bytes([tag << 3 | 2]) if tag < 16 else bytes([tag << 3 & 0x7F | 0x82, tag >> 4])
    size = bytes([len(data)]) if len(data) < 128 else bytes([len(data) & 0x7F | 0x80, len(data) >> 7])
    return key + size + data


def row(*items: bytes) -> bytes:
    return field(2, b"".join(field(1, item) for item in items))


def json_item(key: bytes, value: bytes) -> bytes:
    return field(1, key) + field(16, value)


def test_rows_come_back_in_order(logged: bytes) -> None:
    seen = read_history(logged)
    assert seen.problems == ()
    assert [row["_step"] for row in seen.rows] == list(range(ROWS))
    assert [row["loss"] for row in seen.rows] == pytest.approx(
        [2.302585092994046 / (i + 1) for i in range(ROWS)]
    )
    assert {"_timestamp", "_runtime"} <= set(seen.rows[0])


def test_values_are_what_was_logged(logged: bytes) -> None:
    third = read_history(logged).rows[3]
    assert {name: third[name] for name in third if not name.startswith("_")} == {
        "loss": 2.302585092994046 / 4, "acc1": 3 / ROWS, "epoch": 0,
        "val": {"acc": 0.5, "top": {"five": 1}}, "sizes": [1, 2.5, "x"], "name": "hé", "done": False,
        "nothing": None, "grad": "NaN", "scale": "Infinity", "low": "-Infinity", "steps": 2**40,
    }  # fmt: skip


def test_a_flipped_byte_costs_its_block_and_is_told(logged: bytes) -> None:
    assert len(logged) > 3 * (32 << 10), "the run must fill some blocks"
    at = logged.index(b"Infinity", 40_000)
    seen = read_history(logged[:at] + b"i" + logged[at + 1 :])
    assert any("bad crc at byte" in problem for problem in seen.problems)
    steps = [row["_step"] for row in seen.rows]
    assert steps == sorted(set(steps))
    assert steps[0] == 0
    assert steps[-1] == ROWS - 1
    assert ROWS - 80 < len(steps) < ROWS


@pytest.mark.parametrize("left", [10, 20, 40_000, 70_000, -1, -9])
def test_what_was_cut_off_is_told(logged: bytes, left: int) -> None:
    seen = read_history(logged[:left])
    assert "the file is cut off " in seen.problems[0]
    assert [row["_step"] for row in seen.rows] == list(range(len(seen.rows)))


@pytest.mark.parametrize("data", [b"", b":W&B", b":W&B\xe1\xbe\x01", b"{}", b"\x00" * 100])
def test_other_files_are_told(data: bytes) -> None:
    assert read_history(data) == WandbFile((), ("the file does not begin as a .wandb file does",))


def test_a_run_that_logged_nothing_has_no_rows() -> None:
    assert read_history(HEADER) == WandbFile((), ())


def test_a_step_counter_that_starts_again_is_kept() -> None:
    rows = [row(json_item(b"_step", b"%d" % step)) for step in (0, 1, 0, 1)]
    seen = read_history(HEADER + b"".join(map(piece, rows)))
    assert [row["_step"] for row in seen.rows] == [0, 1, 0, 1]


def test_a_record_in_pieces_is_one() -> None:
    whole = row(json_item(b"loss", b"0.5"))
    parts = piece(whole[:5], 2) + piece(whole[5:9], 3) + piece(whole[9:], 4)
    assert read_history(HEADER + parts) == WandbFile(({"loss": 0.5, "_step": 0},), ())


def test_the_step_of_the_record_stands_in_for_the_item() -> None:
    record = field(2, field(1, json_item(b"loss", b"1")) + field(2, b"\x08\x05"))
    assert read_history(HEADER + piece(record)).rows == ({"loss": 1, "_step": 5},)


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        (b"\x18\x00", None),
        (b"\x20\x01", True),
        (b"\x28\x05", -3),
        (b"\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", -(2**63)),
        (b"\x31" + struct.pack("<d", 0.1), 0.1),
        (b"\x31" + struct.pack("<d", float("nan")), "NaN"),
        (b"\x31" + struct.pack("<d", -float("inf")), "-Infinity"),
        (field(7, b"text"), "text"),
        (field(8, b"[1]"), [1]),
    ],
)
def test_typed_values(value: bytes, seen: object) -> None:
    got = read_history(HEADER + piece(row(field(1, b"key") + value)))
    assert got == WandbFile(({"key": seen, "_step": 0},), ())


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        (
            [json_item(b"a", b"{")],
            "row 0, 'a': Expecting property name enclosed in double quotes in line 1, column 2",
        ),
        (
            [json_item(b"a", b"[NaN]")],
            "row 0, 'a': it holds NaN, which is no number in JSON; leave such a value out",
        ),
        ([json_item(b"a", b"1e999")], "row 0, 'a': a number is not finite"),
        ([json_item(b"a", b"[" * 40 + b"]" * 40)], "row 0, 'a': it is nested too deeply"),
        ([json_item(b"a", b"1"), json_item(b"a", b"2")], "row 0, 'a': logged twice in the row"),
        (
            [json_item(b"a", b"1"), field(2, b"a") + field(2, b"b") + field(16, b"2")],
            "row 0, 'a.b': logged twice, as a value and as a group",
        ),
        ([field(16, b"1")], "row 0, '': 0 keys, one inside the other"),
        ([field(2, b"k") * 40 + field(16, b"1")], "40 keys, one inside the other"),
    ],
)
def test_a_value_that_cannot_be_read_costs_itself(items: list[bytes], problem: str) -> None:
    seen = read_history(HEADER + piece(row(json_item(b"loss", b"0.5"), *items)))
    assert seen.rows[0]["loss"] == 0.5
    assert len(seen.problems) == 1
    assert seen.problems[0].endswith(problem)


@pytest.mark.parametrize(
    ("pieces", "problem"),
    [
        (piece(b"\xff"), "the record at byte 7 is not one of W&B's: the message ends within a number"),
        (piece(b"", 9), "no record at byte 7; the rest of its block was left out"),
        (piece(b"ab", 2) + piece(b""), "the record at byte 7 has no end"),
        (piece(b"ab", 2), "the record at byte 7 has no end"),
        (struct.pack("<IHB", 0, 60_000, 1), "no record at byte 7; the rest of its block was left out"),
    ],
)
def test_a_damaged_record_is_told(pieces: bytes, problem: str) -> None:
    assert read_history(HEADER + pieces).problems == (problem,)


def test_limits_end_the_reading(monkeypatch: pytest.MonkeyPatch, logged: bytes) -> None:
    for limit, value, words in (
        ("MAX_BYTES", 5000, "only the first 5000 were read"),
        ("MAX_ROWS", 10, "more than 10 rows"),
        ("MAX_VALUES", 10, "more than 10 values"),
        ("MAX_PIECES", 10, "more than 10 records"),
        ("MAX_RECORD", 50, "more than 50 bytes"),
        ("MAX_KEY_BYTES", 2, "where 2 are the limit"),
        ("MAX_VALUE_BYTES", 2, "where 2 are the limit"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(wandbfile, limit, value)
            # A file that ends between two records is not cut off as well.
            assert any(words in problem for problem in read_history(logged).problems)


@quick
@given(at=st.integers(0, 2**20), value=st.integers(1, 255))
def test_no_damage_goes_unnoticed(logged: bytes, at: int, value: int) -> None:
    at %= len(logged)
    seen = read_history(logged[:at] + bytes([logged[at] ^ value]) + logged[at + 1 :])
    assert seen.problems
