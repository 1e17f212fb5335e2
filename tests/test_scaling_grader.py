"""The grader of exercise 7: its judge's own maths, for every seed."""

from __future__ import annotations

import json
import math
import operator
import re
import runpy
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
import torch

from fixtures import build
from graders.scaling import probe
from graders.scaling import test_scaling as judge
from graders.scaling.expected import FUNCTIONS, Call, bad_calls, legal_calls, positional_calls, right
from lockstep.check import Check, Setting
from lockstep.exercise import load_exercise
from lockstep.sandbox.box import Box
from lockstep.sandbox.probing import Observation, Student
from lockstep.verdict import CheckEnded, Failed, Verdict
from lockstep.wire import Json
from reference import scaling
from tests.forging import forgery
from tests.samples import graded

EXERCISE = "scaling"
SAMPLES = build.all_submissions(EXERCISE)


class Silent:
    """A watch that notes nothing."""

    def note(self, kind: str, **details: object) -> None:
        pass


def never(observation: Observation, stays: bool) -> NoReturn:
    """No probe of this exercise ends in the middle of a student's code."""
    raise AssertionError(observation)


def judged(name: str, function: Callable[..., object], seed: int) -> tuple[CheckEnded | None, Check]:
    """How the check ends for a function of this process, called the way the probe calls it."""
    exercise = load_exercise(build.ROOT / "graders" / EXERCISE)
    setting = Setting(None, None, seed, (2,), False)  # type: ignore[arg-type]
    check = Check(setting, exercise, exercise.check(name))
    student = Student("", Silent(), never)  # type: ignore[arg-type]

    def answers(calls: Sequence[Call], caught: tuple[type[BaseException], ...]) -> list[dict[str, Json]]:
        # Through JSON, as it comes out of the sandbox.
        sent = json.loads(json.dumps([call.to_json() for call in calls], allow_nan=False))
        told = [probe.call(student, function, name, each, caught) for each in sent]
        return list(json.loads(json.dumps(told, allow_nan=False)))

    legal, bad = legal_calls(name, check.rng), bad_calls(name, check.rng)
    positional = positional_calls(name, check.rng)
    try:
        judge.look_at_legal(check, legal, answers(legal, probe.CAUGHT["legal"]))
        judge.look_at_positional(check, positional, answers(positional, (Exception,)))
        judge.look_at_bad(check, bad, answers(bad, (Exception,)))
    except CheckEnded as ended:
        return ended, check
    return None, check


RIGHT = [sample for sample in SAMPLES if sample.kind == "correct" and (sample.path / "scaling.py").exists()]


@pytest.mark.parametrize("sample", [None, *RIGHT], ids=lambda sample: sample.name if sample else "reference")
def test_right_functions_are_right_for_every_seed(
    sample: build.Sample | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["scaling.py"])
    functions = runpy.run_path(str((sample.path if sample else build.ROOT / "reference") / "scaling.py"))
    for seed in range(40):
        for name in FUNCTIONS:
            ended, check = judged(name, functions[name], seed)
            assert ended is None, (seed, ended)
            # What another type or another error costs is a note.
            assert sample is not None or check.notes == ()


SLIPS = [(name, place) for name, function in FUNCTIONS.items() for place in range(len(function.slips))]


@pytest.mark.parametrize(("name", "place"), SLIPS)
def test_slips_earn_nothing_and_are_named_for_every_seed(name: str, place: int) -> None:
    slip = FUNCTIONS[name].slips[place]

    def slipped(*arguments: float, **keywords: bool) -> float:
        getattr(scaling, name)(*arguments, **keywords)  # so that bad input is refused
        return slip.formula(*arguments, **keywords)

    for seed in range(40):
        ended, _ = judged(name, slipped, seed)
        assert ended is not None, seed
        assert (ended.points, ended.feedback.hint) == (0, slip.hint), seed


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_formula_without_errors_keeps_half(name: str) -> None:
    for seed in range(40):
        ended, check = judged(name, FUNCTIONS[name].formula, seed)
        assert ended is not None, seed
        assert (ended.points, ended.feedback.hint != "") == (check.points / 2, True), seed


def test_a_wrong_number_is_shown_with_the_right_one_and_the_call() -> None:
    ended, _ = judged("effective_batch_size", lambda batch, world: batch * world + 0.25, 1)
    assert ended is not None
    shown = re.fullmatch(
        r"`effective_batch_size\((\d+), (\d+)\)` returned (\d+\.25); expected (\d+)\. 7 of 7 calls .*",
        ended.feedback.message,
    )
    assert shown, ended.feedback.message
    assert int(shown[1]) * int(shown[2]) == int(shown[4]) == float(shown[3]) - 0.25


class Count(int):
    """A whole number with a name."""


class Seconds(Fraction):
    """A number with a unit."""


@pytest.mark.parametrize(
    "kind", [float, np.float64, np.int64, np.array, Fraction, Seconds, Count, torch.tensor]
)
def test_whole_numbers_of_any_type_are_taken(kind: Callable[[int], object]) -> None:
    def steps(*arguments: int, **keywords: bool) -> object:
        return kind(scaling.steps_per_epoch(*arguments, **keywords))

    ended, check = judged("steps_per_epoch", steps, 3)
    assert ended is None
    assert len(check.notes) == (kind in (float, np.float64, Fraction, Seconds))


@pytest.mark.parametrize("value", [True, np.array([6]), 6j, "6"])
def test_what_is_no_number_is_taken_for_none(value: object) -> None:
    assert probe.as_number(value) is value


def test_another_error_for_another_type_costs_nothing() -> None:
    def amdahl(fraction: float, n: int) -> float:
        return scaling.amdahl_speedup(fraction, operator.index(n))  # TypeError for 2.5

    ended, check = judged("amdahl_speedup", amdahl, 3)
    assert (ended, len(check.notes)) == (None, 1)


@pytest.mark.parametrize("seed", range(100))
def test_steps_are_the_same_however_the_sampler_drops(seed: int) -> None:
    """A sampler that fills up the last share, and one that drops it, followed by a loader that drops."""
    for call in legal_calls("steps_per_epoch", np.random.default_rng(seed)):
        n, batch, world = (int(value) for value in call.arguments)
        filled, dropped = -(-n // world), n // world
        if call.keywords.get("drop_last"):
            assert filled // batch == dropped // batch == right(call)
        else:
            assert math.ceil(filled / batch) == right(call)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_draws_stay_where_no_taste_decides(name: str) -> None:
    """Not more than n times as fast, no empty data set, no learning rate of zero; nothing infinite."""
    for seed in range(100):
        rng = np.random.default_rng(seed)
        for call in legal_calls(name, rng):
            assert math.isfinite(right(call))
            assert name != "efficiency" or 0 < right(call) <= 1
            assert name != "karp_flatt" or 0 <= right(call) <= 1
        for call in bad_calls(name, rng):
            with pytest.raises(ValueError):
                getattr(scaling, name)(*call.arguments)
            assert call.arguments[0] != 0 or name not in ("steps_per_epoch", "scaled_lr")


ODD: list[Json] = [
    None, True, "1", [], {}, [1], {"type": 3}, {"type": "NaN"}, 1e308, -(1 << 62), [[{}]] * 40
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_odd_answers_end_the_check_and_break_nothing(name: str, odd: Json) -> None:
    _, check = judged(name, getattr(scaling, name), 5)
    legal, bad = legal_calls(name, check.rng), bad_calls(name, check.rng)
    forged = [
        judge.answers(odd, len(legal)),
        *([shape] * len(legal) for shape in ({"returned": odd}, {"raised": odd, "kinds": odd})),
    ]
    for seen in forged:
        with pytest.raises(Failed) as ended:
            judge.look_at_legal(check, legal, seen)
        assert ended.value.points == 0
        with pytest.raises(Failed):
            judge.look_at_bad(check, bad, [*seen, *seen, *seen][: len(bad)])


def test_an_own_slip_is_named_by_its_cause() -> None:
    def powers(batch: int, world: int) -> int:
        return batch**world

    def misspelt(t1: float, tn: float) -> float:
        return t1 / tn if t1 > 0 and tn > 0 else undefined  # type: ignore[name-defined, no-any-return]  # noqa: F821

    def floats(t1: float, tn: float) -> float:
        if not isinstance(t1, float):
            raise ValueError
        return scaling.speedup(t1, tn)

    def hinted(name: str, function: Callable[..., object]) -> str:
        ended, _ = judged(name, function, 7)
        assert ended is not None
        return ended.feedback.hint

    assert "Return a number" not in hinted("effective_batch_size", powers)
    assert "it is spelt `ValueError`" in hinted("speedup", misspelt)
    assert "A whole number is a number, too" in hinted("speedup", floats)
    assert "unrounded" in hinted("speedup", lambda t1, tn: round(t1 / tn, 2))
    assert "unrounded" not in hinted("speedup", lambda t1, tn: t1 / tn + 1)


def test_a_formula_is_told_that_what_it_calls_is_wrong(tmp_path: Path, box: Box) -> None:
    text = (build.ROOT / "reference" / "scaling.py").read_text()
    (tmp_path / "scaling.py").write_text(text.replace("return t1 / tn", "return round(t1 / tn, 2)"))
    (exercise,) = graded(tmp_path, EXERCISE, box, checks=["speedup", "efficiency"]).exercises
    speedup, efficiency = exercise.checks
    assert "unrounded" in speedup.hint
    assert "mend `speedup` first" in efficiency.hint


RAISES_ALWAYS = """
def f(*arguments, **keywords):
    raise ValueError

effective_batch_size = steps_per_epoch = scaled_lr = speedup = efficiency = amdahl_speedup = karp_flatt = f
"""


@pytest.mark.parametrize(
    "odd", ["None", "[{'returned': 1, 'kinds': ['ValueError']}] * 50", "[[1]] * 9", "{'a': [{}]}"]
)
def test_forged_answers_earn_nothing_and_break_nothing(odd: str, tmp_path: Path, box: Box) -> None:
    (tmp_path / "scaling.py").write_text(RAISES_ALWAYS + forgery(odd))
    (exercise,) = graded(tmp_path, EXERCISE, box).exercises
    assert {check.verdict for check in exercise.checks} == {Verdict.FAILED}
    assert exercise.points == 0


def test_without_the_file_one_check_says_so(tmp_path: Path, box: Box) -> None:
    (tmp_path / "lfw_dataset.py").write_text("x = 1")
    first, *others = graded(tmp_path, EXERCISE, box).exercises[0].checks
    assert (first.verdict, "scaling.py" in first.message) == (Verdict.FAILED, True)
    assert {check.verdict for check in others} == {Verdict.NOT_CHECKED}


def test_what_arguments_must_be_is_told_by_their_names() -> None:
    """Those of one kind are told together, and each function has a name for each of its kinds."""
    assert judge.must_be("efficiency") == (
        "t1 and tn are each a finite number above zero, and n is a whole number above zero"
    )
    assert all(judge.must_be(function) for function in FUNCTIONS)
