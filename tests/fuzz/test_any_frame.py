"""What comes back from a rank: frames, events, stacks and output that no probe wrote, and what is said about them."""

from __future__ import annotations

import json
import struct
from dataclasses import replace

import numpy as np
from hypothesis import given

from lockstep import explain, wire
from lockstep.notebook import NotebookSource
from lockstep.remarks import remarks
from lockstep.sandbox import answers, standing
from lockstep.sandbox.limits import Limits
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.submission import Submission
from lockstep.text import safe
from lockstep.verdict import CheckEnded, GraderFault
from lockstep.wire import Frame, WireError
from tests.fuzz.bent import Dice, thrown, written
from tests.fuzz.promise import held, presentable

GOOD = wire.pack({"values": {"a": [1, "b"]}}, {"x": np.arange(4.0), "y": np.zeros((2, 0))})
DTYPES = ("F64", "F32", "F16", "BF16", "I64", "I8", "U8", "BOOL", "C64", "F8_E4M3", "X", 7)
WORK = "/run/lockstep/7/work"
NOTEBOOK = NotebookSource("# %% cell 1 (1 line)\nx = 1\n", (None, (1, 1)), {}, ())
SUBMISSION = Submission(
    "s", {"a.py": b"", "n.py": b"", "deep/b.py": b""}, frozenset(), "0", (), {"c.py": "c.py is not text."}, {"n.py": NOTEBOOK}
)  # fmt: skip


def frame_of(dice: Dice) -> bytes:
    kind = dice.randrange(4)
    if kind == 0:
        return dice.bent(GOOD)
    head = written(answer_of(dice))
    if kind == 1:
        head = dice.bent(head, 2)
    body = tensors(dice) if dice.rarely(2) else b""
    sizes = [
        dice.extreme(32) if dice.rarely(20) else len(head),
        dice.extreme() if dice.rarely(20) else len(body),
    ]
    return (
        struct.pack("<4sIQ", b"LKS1" if not dice.rarely(20) else dice.noise(4).ljust(4), *sizes) + head + body
    )


def tensors(dice: Dice) -> bytes:
    """A safetensors file whose index tells the truth, or does not."""
    index: dict[str, object] = {}
    data = b""
    for _ in dice.few(3):
        content = dice.noise(16)
        offsets = (
            [len(data), len(data) + len(content)] if not dice.rarely(4) else [dice.extreme(), dice.extreme()]
        )
        shape = dice.choice(
            [[len(content) // 8], [len(content)], [], [0], [2**40, 2**40], [-1], [dice.extreme()] * 3, None]
        )
        index[dice.text(2)] = {"dtype": dice.choice(DTYPES), "shape": shape, "data_offsets": offsets}
        data += content
    if dice.rarely():
        index["__metadata__"] = dice.json(2)
    head = written(index)
    size = dice.extreme() if dice.rarely() else len(head)
    body = struct.pack("<Q", size) + head + data
    return dice.bent(body, 2) if dice.rarely(4) else body


def answer_of(dice: Dice) -> object:
    """What a probe would say, with values of any type in any place."""
    frames = [
        [
            dice.choice(["a.py", "n.py", "/etc/x", dice.text(2)]),
            dice.choice([1, -1, 2**62, True]),
            dice.text(2),
        ]
        for _ in dice.few(3)
    ]
    error: dict[str, object] = {
        "type": dice.choice(["ValueError", "StudentMistake", "CellTooSlow", "CellTooLoud", "MemoryError", "SystemExit", "", dice.text()]),
        "message": dice.choice(["no", "", "Connection reset by peer", "(n.py, line 2) on line 1", "there is no b.py", dice.text()]),
        "frames": frames,
        "phase": dice.choice(["calling f()", "importing b.py", "importing c.py", "importing ", "", " ", "\u202e", dice.text()]),
        "errno": dice.choice([None, 28, 24, 11, 2**62, True]),
        "line": dice.choice([None, 2, -5, 2**62, True]),
    }  # fmt: skip
    if dice.rarely():
        error[dice.choice(sorted(error))] = dice.json()
    if dice.rarely(20):
        return dice.json()
    return {"values": {"a": dice.json()}, "error": dice.choice([None, error, error, dice.json(1)])}


def events_of(dice: Dice) -> bytes:
    lines = []
    for _ in range(dice.randint(0, 2 * dice.size)):
        event: dict[str, object] = {
            "kind": dice.choice(
                [
                    "phase",
                    "collective",
                    "returned",
                    "shim",
                    "definitions_only",
                    "missing_import",
                    dice.json(1),
                ]
            ),
            "name": dice.choice(["calling f()", "nccl", " ", "\x1b", dice.json(1)]),
            "number": dice.choice([1, 2, 2**62, dice.json(2)]),
            "op": dice.choice(["barrier", "init_process_group", dice.json(1)]),
            "spelling": dice.json(1),
            "file": dice.choice(["a.py", "n.py", dice.json(1)]),
            "lines": dice.choice([[1], [2, 3], [], ["x"], [True], [-1], dice.json(2)]),
            "names": dice.choice([["x"], [], [1], dice.json(2)]),
            "raised": dice.choice(["", "OSError: no", "\x1b", dice.json(1)]),
            "gpu": dice.choice([True, False, 1]),
        }
        lines.append(dice.bent(written(event), 1) if dice.rarely() else written(event))
    return b"\n".join(lines)


def stack_of(dice: Dice) -> str:
    files = (
        f"{WORK}/a.py",
        f"{WORK}/n.py",
        f"{WORK}/../x",
        "/x/torch/distributed/rendezvous.py",
        "/x/threading.py",
        dice.text(3),
    )
    lines = [
        f'  File "{dice.choice(files)}", line {dice.choice(["1", "2", "9" * 9, "9" * 20, "-1", "١"])} in {dice.choice(["join", "forward", dice.text(2)])}'
        for _ in range(dice.randint(0, 2 * dice.size))
    ]  # fmt: skip
    return "\n".join(lines)


@given(thrown(frame_of))
def test_any_frame_is_read_or_refused(data: bytes) -> None:
    frame = held(lambda: wire.unpack(data), WireError)
    held(lambda: wire.is_complete(data))
    if frame is not None:
        assert isinstance(frame, Frame)
        json.dumps(frame.values, allow_nan=False).encode("ascii")
        assert sum(array.nbytes for array in frame.arrays.values()) <= len(data)


def ranks_of(dice: Dice) -> list[tuple[bytes, bytes, bytes, int | None, str]]:
    return [
        (
            frame_of(dice) if not dice.rarely(4) else b"",
            events_of(dice),
            dice.text(6).encode("utf-8", "surrogatepass") + dice.noise(9),
            dice.choice([None, None, 0, 1, -9, -11, -200, 255]),
            stack_of(dice),
        )
        for _ in range(1 + dice.randrange(2))
    ]


def outcome_of(dice: Dice) -> Outcome:
    """A run as the trusted side puts it together, of ranks that say anything at all."""
    timed_out, work = dice.rarely(2), "" if dice.rarely(20) else WORK
    ranks: list[RankOutcome] = []
    for result, events, output, status, stack in ranks_of(dice):
        seen = answers.read(result, events, output, status)
        if timed_out and not seen.complete and status is None:
            seen = replace(
                seen, standing=standing.read(stack, work, dice.choice(["", "T", "S", "\x1b"]), seen.events)
            )
        ranks.append(seen)
    limit = dice.choice(["memory", "processes", "output", "disk", "files"]) if dice.rarely(10) else None
    return Outcome(tuple(ranks), 1.0, timed_out=timed_out, limit=limit)


@given(thrown(lambda dice: dice))
def test_whatever_comes_back_there_is_a_sentence_about_it(dice: Dice) -> None:
    outcome = held(lambda: outcome_of(dice))
    assert outcome is not None
    told = held(lambda: [*remarks(outcome, SUBMISSION)])
    assert told is not None
    try:
        problem = held(lambda: explain.problem(outcome, Limits(), SUBMISSION))
    except GraderFault:
        return
    if isinstance(problem, CheckEnded):
        told += [problem.feedback.message, problem.feedback.hint]
        # What is shown is what the plugin has made harmless once more; a line break in it is the most that may be lost.
        presentable(problem.feedback.hint)
    for text in told:
        assert safe(text) == text, ascii(text)
        assert WORK not in text
