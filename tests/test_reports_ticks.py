"""No clock makes a copyist: readings repeat as often as it ticks, whatever list it is in, however they were printed."""

from __future__ import annotations

import copy
import itertools
import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from lockstep.reports import between, patterns, repeated
from lockstep.reports.document import Number, document
from lockstep.reports.rule import Facts
from lockstep.reports.ticks import longest_tick

Report = dict[str, Any]
Print = Callable[[float], str]

TICKS = {
    "whole nanoseconds": 0.0, "121.875 MHz": 1 / 121.875e6, "100 MHz": 1e-8, "83.33 MHz": 1 / 83.33e6,
    "62.5 MHz": 1 / 62.5e6, "38.4 MHz": 1 / 38.4e6, "26 MHz": 1 / 26e6, "24 MHz": 1 / 24e6, "19.2 MHz": 1 / 19.2e6,
    "14.3 MHz": 1 / 14.31818e6, "13 MHz": 1 / 13e6, "10 MHz": 1e-7, "3.58 MHz": 1 / 3.579545e6,
    "2.93 MHz": 1024 / 3e9, "1 us": 1e-6, "1.024 us": 1.024e-6, "300 kHz": 1 / 300e3, "32 kHz": 1 / 32768,
    "0.1 ms": 1e-4, "1/1024 s": 1 / 1024, "1.0001 ms": 1.0001e-3, "1/300 s": 1 / 300, "nearly 4 ms": 3.99998e-3,
    "10 ms": 1e-2, "1/64 s": 1 / 64,
}  # fmt: skip
LISTED = {"100 MHz", "24 MHz", "19.2 MHz", "14.3 MHz", "10 MHz", "3.58 MHz", "1.024 us", "1/64 s"}
NOISE = (5e-4, 2e-3, 4e-3, 2e-2, 0.1)


def decimals(count: int) -> Print:
    return lambda seconds: f"{seconds:.{count}f}"


def of_milliseconds(count: int) -> Print:
    return lambda seconds: repr(round(seconds * 1e3, count) / 1e3)


def digits(style: str) -> Print:
    return lambda seconds: format(seconds, style)


PRINTS: dict[str, Print] = {
    "as it is": repr,
    **{f"{count} decimals": decimals(count) for count in (4, 5, 6, 7, 8)},
    **{f"ms, {count} decimals": of_milliseconds(count) for count in (2, 3, 4, 5)},
    "6 digits": digits(".6g"),
    "a power of ten": digits(".5e"),
}  # fmt: skip


def read(seconds: float, began: float, tick: float) -> float:
    """The difference of two readings of a counter, each cut to its ticks and then to nanoseconds."""
    before, after = (
        math.floor((math.floor(moment / tick) * tick if tick else moment) * 1e9) / 1e9
        for moment in (began, began + seconds)
    )
    return after - before


def report(
    seed: int, tick: float, style: Print, noise: float, *, steps: bool, student: str = "ann"
) -> Report:
    """Four configurations, five runs each, of 20 short steps or of one long reading."""
    rng = random.Random(seed)
    now, lopsided, runs = rng.uniform(1e3, 1e6), rng.random() < 0.5, list[Report]()
    for batch, usual in enumerate((4e-4, 2.1e-3, 7.3e-3, 0.04) if steps else (20.0, 10.0, 5.3, 0.7)):
        for rep in range(5):
            readings = []
            for _ in range(20 if steps else 1):
                off = rng.gauss(0, noise)
                now += rng.random() * 1e-3
                reading = read(usual * (1 + (abs(off) if lopsided else off)), now, tick)
                now += usual
                readings.append(style(max(reading, tick, 1e-9)))
            wall = repr(sum(map(float, readings))) if steps else readings[0]
            began = 1.7e9 + now
            runs.append(
                {"config": {"batch_size": 2**batch}, "rep": rep, "t_start": began, "t_end": began + float(wall),
                 "wall_s": wall, "samples": 1, "steps": 20, "step_s": readings if steps else []}
            )  # fmt: skip
    return {
        "report": "dp_inference", "runs": runs, "claims": [], "workload": {}, "env": {"gpus": []},
        "student": {"id": student}, "method": {"clock": "time.perf_counter", "sync": "cuda.synchronize"},
        "attempt": {"nonce": "", "created_utc": "1970-01-01T00:00:00Z", "code_sha256": ""},
    }  # fmt: skip


def rule(rules: tuple[Any, ...], name: str, told: Report) -> list[str]:
    (one,) = [each for each in rules if each.id == name]
    return [str(finding.judgement) for finding in one.examine(document(told), Facts())]


def in_two(one: Report, other: Report) -> list[str]:
    return [str(finding.judgement) for finding in between.compared([document(one), document(other)])[0]]


def odd(tick: float, style: Print, noise: float, steps: bool, seed: int) -> dict[str, list[str]]:
    own = report(seed, tick, style, noise, steps=steps)
    other = report(seed + 500_000, tick, style, noise, steps=steps, student="ben")
    found = {
        "F03": rule(repeated.RULES, "F03", own),
        "F11": in_two(own, other),
        "F04": rule(patterns.RULES, "F04", own),
        "F06": rule(patterns.RULES, "F06", own),
    }
    return {name: words for name, words in found.items() if words}


@pytest.mark.parametrize("name", TICKS)
def test_no_tick_looks_like_copying(name: str) -> None:
    cases = list(itertools.product(PRINTS, NOISE, (True, False)))
    for seed, (style, noise, steps) in enumerate(random.Random(name).sample(cases, 6)):
        seed += 1000 * list(TICKS).index(name)
        assert odd(TICKS[name], PRINTS[style], noise, steps, seed) == {}, (style, noise, steps, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", TICKS)
def test_no_tick_looks_like_copying_in_many_reports(name: str) -> None:
    slightly = 0
    cases = itertools.product(PRINTS, NOISE, (True, False), range(2))
    for seed, (style, noise, steps, _) in enumerate(cases):
        seed += 10_000 + 1000 * list(TICKS).index(name)
        found = odd(TICKS[name], PRINTS[style], noise, steps, seed)
        # Of steady machines one pair in a thousand looks scaled, which is unusual at most.
        assert found in ({}, {"F11": ["unusual"]}), (style, noise, steps, seed)
        slightly += bool(found)
    assert slightly <= 2


@pytest.mark.parametrize("name", sorted(LISTED))
def test_no_listed_tick_has_to_be_listed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lockstep.reports.resolution.COUNTERS_S", ())
    for seed, (style, steps) in enumerate(itertools.product(("as it is", "8 decimals"), (True, False))):
        assert odd(TICKS[name], PRINTS[style], 4e-3, steps, seed) == {}, (style, steps)


@pytest.mark.parametrize(
    "name", ["whole nanoseconds", "62.5 MHz", "26 MHz", "24 MHz", "13 MHz", "3.58 MHz", "1.024 us"]
)
@pytest.mark.parametrize("steps", [True, False], ids=["steps", "runs"])
def test_a_copy_is_found_whatever_the_tick_where_there_are_digits(name: str, steps: bool) -> None:
    tick, style = TICKS[name], repr if name != "1.024 us" else decimals(7)
    for seed in range(3):
        ann = report(seed, tick, style, 4e-3, steps=steps)
        ben = report(seed + 50, tick, style, 4e-3, steps=steps, student="ben")
        for mine, hers in zip(ben["runs"][3:], ann["runs"][3:], strict=True):
            mine.update(wall_s=hers["wall_s"], step_s=hers["step_s"])
        assert in_two(ben, ann) in (["inconsistent"], *([["unusual"]] if steps else []))


@pytest.mark.parametrize("runs", [5, 20, 100])
@pytest.mark.parametrize("style", ["as it is", "2 decimals", "3 decimals"])
def test_many_runs_on_a_coarse_clock_are_neither_even_nor_mirrored(style: str, runs: int) -> None:
    """Sorted, they are equal or a tick apart once there are more of them than ticks."""
    printed = {"as it is": repr, "2 decimals": decimals(2), "3 decimals": decimals(3)}[style]
    tick = 1 / 64 if style == "as it is" else 0.0
    for seed in range(6):
        rng, own = random.Random(seed), report(seed, 0.0, repr, 4e-3, steps=False)
        walls = [
            printed(read(usual * (1 + abs(rng.gauss(0, 5e-3))), rng.uniform(1e3, 1e5), tick))
            for usual in (20.0, 10.0, 5.3, 2.0)
            for _ in range(runs)
        ]
        own["runs"] = [
            {**own["runs"][5 * (place // runs)], "rep": place, "wall_s": wall}
            for place, wall in enumerate(walls)
        ]
        assert rule(patterns.RULES, "F04", own) == rule(patterns.RULES, "F06", own) == [], seed


@pytest.mark.parametrize("name", ["whole nanoseconds", "62.5 MHz"])
def test_a_run_s_steps_in_another_are_found(name: str) -> None:
    for seed in range(4):
        own = report(seed, TICKS[name], repr, 4e-3, steps=True)
        own["runs"][11]["step_s"] = copy.copy(own["runs"][12]["step_s"])
        (word,) = rule(repeated.RULES, "F03", own)
        assert word in ("unusual", "inconsistent")


@pytest.mark.parametrize(
    "name", ["62.5 MHz", "26 MHz", "24 MHz", "13 MHz", "3.58 MHz", "1.024 us", "1.0001 ms"]
)
def test_a_tick_is_found_by_the_readings(name: str) -> None:
    tick, rng = TICKS[name], random.Random(name)
    values = [
        read(7.3 * tick * 1e3 * (1 + 0.004 * abs(rng.gauss(0, 1))), rng.uniform(1e3, 1e5), tick)
        for _ in range(100)
    ]
    found = longest_tick([[Number(repr(value)) for value in values]], 1e-9)
    assert found.seen
    # Half of all readings of a tick are those of one twice as long.
    assert tick * 0.98 < found.seconds < tick * 2.05


def test_a_fine_clock_is_told_by_readings_that_lie_close() -> None:
    rng = random.Random(2)
    values = [
        read(7.3e-3 * (1 + 0.004 * abs(rng.gauss(0, 1))), rng.uniform(1e3, 1e5), 0.0) for _ in range(100)
    ]
    assert longest_tick([[Number(repr(value)) for value in values]], 1e-9).seconds < 2e-8


def test_few_readings_rule_out_few_ticks() -> None:
    found = longest_tick([[Number("20.1234567891")], [Number("10.2345678912")]], 1e-9)
    assert not found.seen
    assert found.seconds == 0.02
    assert longest_tick([[Number("20.1")], [Number("20.1")]], 0.1).seconds == 0.1
    assert longest_tick([], 1e-9).seconds == 1e-9
