"""Whatever comes back from the sandbox, well-formed but odd: every judge ends with a verdict, and none passes it.

The answers are made up here, so this takes no sandbox.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image

from lockstep.check import Check, Setting
from lockstep.exercise import Exercise, find_exercises
from lockstep.sandbox.outcome import CodeFrame, Outcome, RankOutcome, StudentError
from lockstep.sandbox.spec import RunSpec
from lockstep.submission import Submission
from lockstep.verdict import CheckEnded
from tests.observed import judge_of
from tests.sandboxed import ROOT

EXERCISES = {exercise.id: exercise for exercise in find_exercises(ROOT / "graders")}
CHECKS = [(exercise.id, check.id) for exercise in EXERCISES.values() for check in exercise.checks]

# Every JSON value that a frame may hold, as the answer to every question.
VALUES: dict[str, Any] = {
    "nothing": None,
    "true": True,
    "zero": 0,
    "minus one": -1,
    "a large number": 2**63 - 1,
    "the largest float": 1.7976931348623157e308,
    "text": "x" * 5000,
    "escapes": "\x1b[2J\u202e\0]]>",
    "an empty list": [],
    "numbers": [1, 2, 3] * 700,
    "nothings": [None] * 20,
    "deep lists": [[[[[[[]]]]]]],
    "an empty object": {},
    "objects": [{"kind": 1, "shape": "x", "digest": [], "type": None, "line": {}}] * 20,
    "an object": {"type": ["a"], "message": 1, "kind": {}, "items": 3, "problem": [], "line": "x"},
}
ARRAYS: dict[str, Any] = {
    "empty": np.zeros(0, np.float32),
    "a scalar": np.array(1.0, np.float32),
    "not a number": np.full((3, 3), np.nan, np.float32),
    "flags": np.ones((2, 48), bool),
    "rows": np.zeros((7, 48), np.float32),
    "bytes": np.zeros(100, np.uint8),
    "eight dimensions": np.zeros((1,) * 8, np.float64),
    "large integers": np.full(2100, 2**63 - 1, np.int64),
}


class Anything(dict[str, Any]):
    """Holds one thing under every name."""

    def __init__(self, thing: object) -> None:
        super().__init__()
        self.thing = thing

    def __missing__(self, name: str) -> Any:
        return self.thing

    def __contains__(self, name: object) -> bool:
        return True

    def get(self, name: str, default: object = None) -> Any:
        return self.thing

    def items(self) -> Any:
        return [(name, self.thing) for name in ("final/head.weight", "held/x", "picture0", "grad0/a")]


class Oracle:
    """Stands in for the sandbox: gives every run the same answer on all ranks."""

    isolated = True

    def __init__(self, rank: RankOutcome) -> None:
        self.rank = rank

    def run(self, spec: RunSpec) -> Outcome:
        ranks = (self.rank,) * len(spec.ranks)
        return Outcome(ranks=ranks, elapsed=0.1, loopback_bytes=1 << 30, left_running=0)


def judge(exercise: Exercise, check_id: str, rank: RankOutcome) -> None:
    nothing = Submission("hand-in", files={}, executable=frozenset(), digest="", notes=())
    setting = Setting(box=Oracle(rank), submission=nothing, seed=1, world_sizes=(2,), self_check=False)  # type: ignore[arg-type]
    judge_of(exercise, check_id)(Check(setting, exercise, exercise.check(check_id)))


def odd_answers() -> Iterator[tuple[str, RankOutcome]]:
    yield "no answer", RankOutcome(complete=True)
    for word, value in VALUES.items():
        yield word, RankOutcome(complete=True, values=Anything(value), arrays=Anything(ARRAYS["rows"]))
    for word, array in ARRAYS.items():
        yield f"array: {word}", RankOutcome(complete=True, values=Anything([7]), arrays=Anything(array))


@pytest.fixture(autouse=True)
def small_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """No judge looks at these; making real ones takes most of the time."""
    faces = importlib.import_module("graders.lfw_dataset.faces")
    monkeypatch.setattr(
        faces, "patchwork", lambda rng: Image.new("RGB", (8, 8), tuple(map(int, rng.bytes(3))))
    )


@pytest.mark.parametrize(
    ("exercise", "check"),
    CHECKS,
    ids=lambda name: name,
)
def test_an_odd_answer_is_a_verdict_and_never_a_pass(exercise: str, check: str) -> None:
    broke = []
    for word, rank in odd_answers():
        try:
            judge(EXERCISES[exercise], check, rank)
            broke.append(f"{word}: passed")
        except CheckEnded as ended:
            if 0 < EXERCISES[exercise].check(check).points <= ended.points:
                broke.append(f"{word}: full points")
        except Exception as error:
            broke.append(f"{word}: {type(error).__name__}: {error}")
    assert broke == []


@pytest.mark.parametrize(
    "error",
    [
        StudentError("", "", (), ""),
        StudentError("GraderFault", "the grader is broken", (), ""),
        StudentError("x" * 5000, "\x1b[2J" * 999, (CodeFrame("../../etc", -(10**400), "\0"),), "p" * 5000, 10**400, 10**400),
    ],
    ids=["empty", "pretends", "large"],
)  # fmt: skip
def test_a_forged_error_is_no_fault_of_the_grader(error: StudentError) -> None:
    """Once student code ran, what comes back may be theirs: only they can have broken it."""
    ran = ({"kind": "phase", "name": "importing lfw_dataset.py"},)
    rank = RankOutcome(complete=True, error=error, events=ran)
    with pytest.raises(CheckEnded) as ended:
        judge(EXERCISES["lfw_dataset"], "length", rank)
    assert len(str(ended.value)) < 3000
