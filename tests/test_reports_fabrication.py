"""Made-up readings are told from measured ones, and a coarse clock's from made-up ones."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.reports import CLOCKS, KINDS, Noise, honest, knowledge
from fixtures.reports.rework import configs, runs_of, settle
from fixtures.reports.sample import start
from lockstep.reports import fabrication
from lockstep.reports.document import Number, document
from lockstep.reports.finding import Finding, Judgement
from lockstep.reports.resolution import at_least, equal_by_chance, fit_by_chance, resolution
from lockstep.reports.rule import Facts
from lockstep.reports.series import report_tick
from lockstep.reports.verify import verify

Report = dict[str, Any]
Change = Callable[[list[list[float]]], list[list[float | str]]]
UNUSUAL, INCONSISTENT, ADVICE = Judgement.UNUSUAL, Judgement.INCONSISTENT, Judgement.CONSISTENT


def reworked(report: Report, change: Callable[..., Any]) -> Report:
    """The report with other readings: `change` gets those of each configuration and returns them, as text or not."""
    report = copy.deepcopy(report)
    groups = [runs_of(report, **config) for config in configs(report)]
    for runs, new in zip(
        groups, change([[float(run["wall_s"]) for run in runs] for runs in groups]), strict=True
    ):
        for run, value in zip(runs, new, strict=True):
            run["wall_s"] = value if isinstance(value, str) else repr(float(value))
            run.pop("step_s", None)
    settle(report)
    return report


def told(report: Report, facts: Facts | None = None) -> list[Finding]:
    """What these rules say, advice left out."""
    found = verify(document(report), facts or Facts(), fabrication.RULES).findings
    return [finding for finding in found if finding.judgement is not ADVICE]


def words(report: Report, facts: Facts | None = None) -> list[tuple[str, str]]:
    return [(finding.rule, str(finding.judgement)) for finding in told(report, facts)]


def uniform(texts: Callable[[float], str], groups: int = 1) -> Callable[..., Any]:
    """All readings of the first configurations are the first of them."""
    return lambda walls: [[texts(w[0])] * len(w) if i < groups else w for i, w in enumerate(walls)]


def printed(style: str) -> Callable[[float], str]:
    return lambda value: format(value, style)


def each(change: Callable[[list[float]], list[Any]]) -> Callable[..., Any]:
    return lambda walls: [change(values) for values in walls]


def first(change: Callable[[list[float]], list[Any]]) -> Callable[..., Any]:
    return lambda walls: [change(walls[0]), *walls[1:]]


def second(change: Callable[[list[float]], list[Any]]) -> Callable[..., Any]:
    """The second configuration is made from the first."""
    return lambda walls: [walls[0], change(walls[0]), *walls[2:]]


def noisy(walls: list[float], share: float) -> list[float]:
    """With so much noise about what they were made of."""
    rng = np.random.default_rng(0)
    return [
        wall * (1 + share * float(noise))
        for wall, noise in zip(walls, rng.standard_normal(len(walls)), strict=True)
    ]


def borrowed(count: int) -> Callable[..., Any]:
    """So many readings of the first configuration stand in the second as well, in other places."""

    def change(walls: list[list[float]]) -> list[list[float]]:
        shared = [*walls[0][2:], *walls[0][:2]][:count]
        return [walls[0], [*shared, *walls[1][count:]], *walls[2:]]

    return change


def one_spread(walls: list[list[float]]) -> list[list[float]]:
    """Every configuration has its own readings, drawn together until they spread by 1 %."""
    means = [statistics.fmean(own) for own in walls]
    widths = [statistics.stdev(own) / mean / 0.01 for own, mean in zip(walls, means, strict=True)]
    return [
        [mean + (value - mean) / width for value in own]
        for own, mean, width in zip(walls, means, widths, strict=True)
    ]


MADE_UP: list[tuple[str, str, Judgement, Callable[..., Any], str]] = [
    ("F01", "one reading five times", INCONSISTENT, uniform(repr), "none was uniform"),
    ("F01", "one reading, another spelling", INCONSISTENT, uniform(printed(".6e")), "none was uniform"),
    ("F01", "two decimals of 20 s", UNUSUAL, uniform(printed(".2f")), "so few digits"),
    ("F01", "one reading with noise", UNUSUAL, first(lambda w: noisy([w[0]] * 5, 1e-7)), "scatter by 0.00014"),
    ("F02", "tenths", UNUSUAL, each(lambda w: [format(x * 8, ".1f") for x in w]), "multiples of 0.1 s"),
    ("F03", "one reading twice", UNUSUAL, borrowed(1), "1 reading of 6 and more digits occurs again"),
    ("F03", "two readings twice", UNUSUAL, borrowed(2), "2 readings"),
    ("F03", "three readings twice", INCONSISTENT, borrowed(3), "3 readings"),
    ("F03", "padded", INCONSISTENT, each(lambda w: [w[0], w[1], w[2], w[0], w[2]]), "Was a run counted twice"),
    ("F03", "padded with noise", INCONSISTENT, each(lambda w: [w[0], w[1], w[2], w[0] + 1e-12, w[2]]), "again"),
    ("F04", "arithmetic", UNUSUAL, first(lambda w: [w[0] + 0.1371 * i for i in (2, 0, 4, 1, 3)]), "evenly spaced"),
    ("F04", "geometric", UNUSUAL, first(lambda w: [w[0] * 1.017**i for i in (2, 0, 4, 1, 3)]), "ratios"),
    ("F04", "by hand", UNUSUAL, first(lambda w: [format(20 + 0.111 * i, ".3f") for i in range(5)]), "20.111"),
    ("F04", "arithmetic with noise", UNUSUAL, first(lambda w: noisy([w[0] + 0.1371 * i for i in range(5)], 1e-7)),
     "evenly spaced"),
    ("F04", "geometric with noise", UNUSUAL, first(lambda w: noisy([w[0] * 1.017**i for i in range(5)], 1e-6)),
     "ratios"),
    ("F05", "scaled and shifted", INCONSISTENT, second(lambda w: [0.9 * x + 1.234 for x in w]), "times 0.9 plus 1.234 s"),
    ("F05", "scaled, shifted, with noise", INCONSISTENT, second(lambda w: noisy([1.1 * x - 1.7 for x in w], 1e-7)), " plus -1."),
    ("F05", "scaled, shifted, moved about", INCONSISTENT, second(lambda w: [w[i] * 0.8 + 2 for i in (3, 0, 4, 1, 2)]),
     "in another order"),
    ("F05", "scaled", INCONSISTENT, second(lambda w: [x * 0.91803 for x in w]), "times 0.91803"),
    ("F05", "scaled and rounded", INCONSISTENT, second(lambda w: [format(x * 0.9, ".4f") for x in w]), "times 0.9"),
    ("F05", "shifted", INCONSISTENT, second(lambda w: [x - 3.21 for x in w]), "plus -3.21 s"),
    ("F05", "scaled and moved about", INCONSISTENT, second(lambda w: [w[i] * 0.83 for i in (3, 0, 4, 1, 2)]),
     "times 0.83 in another order"),
    ("F06", "mirrored", UNUSUAL, first(lambda w: [w[0] + x for x in (0.31, -0.17, 0, 0.17, -0.31)]), "mirrored"),
    ("F06", "mirrored with noise", UNUSUAL, first(lambda w: noisy([w[0] + x for x in (0.31, -0.17, 0, 0.17, -0.31)], 1e-6)),
     "mirrored"),
    ("F07", "fives", UNUSUAL, each(lambda w: [format(round(x * 200) / 200, ".3f") for x in w]), "last digits"),
    ("F09", "one spread", UNUSUAL, one_spread, "spread alike"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "judgement", "change", "message"),
    [(rule, *rest) for rule, _, *rest in MADE_UP],
    ids=[f"{rule} {name}" for rule, name, *_ in MADE_UP],
)
def test_made_up_readings_are_told_by_their_own_rule_alone(
    rule: str, judgement: Judgement, change: Callable[..., Any], message: str
) -> None:
    report = reworked(start("dataloader"), change)
    (finding,) = told(report)
    assert (finding.rule, finding.judgement) == (rule, judgement)
    assert message in finding.message
    assert "?" in finding.message or "Note" in finding.message  # an innocent explanation, or what to do
    assert finding.numbers
    others = verify(document(report), knowledge(report)).findings
    assert {each.rule for each in others if each.judgement.costs or each.judgement is UNUSUAL} == {rule}


MOVED_ABOUT = second(lambda w: [x * 0.83 for x in reversed(w)])


@pytest.mark.parametrize(
    ("change", "expected"),
    [(each(list), []), (MOVED_ABOUT, [("F05", "inconsistent")])],
    ids=["honest", "moved about"],
)
def test_runs_may_be_as_many_as_have_more_orders_than_a_float_can_count(
    change: Callable[..., Any], expected: list[tuple[str, str]]
) -> None:
    assert words(reworked(start("dataloader", repetitions=200), change)) == expected


def test_a_fit_of_many_readings_is_no_surer_for_being_more_than_a_float_can_tell() -> None:
    """0.02 to the 199th is nought to a float, and 200! beyond it: together they are far above one."""
    assert fit_by_chance(0.02, 1.0, 200) == 0.0
    assert fit_by_chance(0.02, 1.0, 200, in_any_order=True) == 1.0
    assert fit_by_chance(0.5, 1.0, 5) == 0.5**4
    assert fit_by_chance(0.1, 1.0, 5, in_any_order=True) == pytest.approx(0.1**4 * 120)
    assert fit_by_chance(1.0, 0.0, 5) == 1.0


def test_steps_that_are_all_equal_were_not_read() -> None:
    report = copy.deepcopy(start("ddp_scaling"))
    run = report["runs"][0]
    run["step_s"] = [repr(float(run["wall_s"]) / 50)] * 50
    assert words(report) == [("F01", "inconsistent")]


def test_steps_of_one_run_in_another() -> None:
    report = copy.deepcopy(start("ddp_scaling"))
    for run in report["runs"][:2]:
        run["step_s"] = report["runs"][0].get("step_s") or [repr(0.1 + 1e-4 * i**0.5) for i in range(60)]
    (finding,) = told(report)
    assert (finding.rule, finding.judgement) == ("F03", INCONSISTENT)
    assert "entries of step_s" in finding.message


def test_steps_of_one_run_times_a_constant() -> None:
    report = copy.deepcopy(start("ddp_scaling"))
    steps = (0.1 * (1 + 0.02 * np.random.default_rng(4).standard_normal(30))).tolist()
    for run, scale in zip(report["runs"][:2], (1.0, 0.93), strict=True):
        run["step_s"] = [repr(step * scale) for step in steps]
    (finding,) = told(report)
    assert (finding.rule, finding.judgement) == ("F05", INCONSISTENT)
    assert "runs[1].step_s are those of runs[0] times 0.93" in finding.message


@pytest.mark.parametrize("decimals", [9, 6, 4])
def test_steps_of_a_steady_machine_are_not_each_other_s(decimals: int) -> None:
    """A hundredth of a per cent of noise, a slow first step in every run, and few decimals."""
    report = copy.deepcopy(start("ddp_scaling"))
    rng = np.random.default_rng(4)
    for run in report["runs"]:
        steps = 0.1 * (1 + 1e-4 * rng.standard_normal(30))
        steps[0] = 0.4
        run["step_s"] = [format(step, f".{decimals}f") for step in steps]
    assert [rule for rule, word in words(report) if rule == "F05"] == []


def _exact(decimals: int | None) -> Report:
    """A report whose second configuration is just as efficient as the first."""
    report = copy.deepcopy(start("ddp_scaling"))
    one, two = (runs_of(report, **config) for config in configs(report)[:2])
    devices = [runs[0]["config"]["world_size"] for runs in (one, two)]
    samples = [sum(run["samples"] for run in runs) for runs in (one, two)]
    total = sum(float(run["wall_s"]) for run in one)
    wanted = total * samples[1] / samples[0] * devices[0] / devices[1]
    scale = wanted / sum(float(run["wall_s"]) for run in two)
    for run in two:
        run["wall_s"] = format(float(run["wall_s"]) * scale, "" if decimals is None else f".{decimals}f")
        run.pop("step_s", None)
    settle(report)
    return report


def test_an_efficiency_of_exactly_one() -> None:
    report = _exact(None)
    assert any(claim["what"] in ("efficiency", "speedup") for claim in report["claims"])
    (finding,) = told(report)
    assert (finding.rule, finding.judgement) == ("F10", UNUSUAL)
    everything = verify(document(report), knowledge(report)).findings
    assert {each.rule for each in everything if each.judgement.costs or each.judgement is UNUSUAL} == {"F10"}


def test_an_efficiency_that_is_stated_as_exactly_one() -> None:
    report = copy.deepcopy(start("ddp_scaling"))
    for claim in report["claims"]:
        if claim["what"] == "efficiency":
            claim["value"] = "1.000000"
    assert words(report) == [("F10", "unusual")]


@pytest.mark.parametrize("value", ["1.00", "1", "0.999998", "1.0"])
def test_an_efficiency_near_one_is_nothing(value: str) -> None:
    report = copy.deepcopy(start("ddp_scaling"))
    for claim in report["claims"]:
        if claim["what"] == "efficiency":
            claim["value"] = value
    assert words(report) == []


def test_an_efficiency_of_one_in_whole_seconds_is_nothing_exact() -> None:
    assert ("F10", "unusual") not in words(_exact(1))


TABLE = ("151", "111", "96", "1.36", "1.57")


def test_numbers_of_a_known_table_are_told_short() -> None:
    report = copy.deepcopy(start("dataloader"))
    long = ("1.1279767209998681", "1.3547266179994041", "1.3665244900003017")
    for claim, value in zip(report["claims"], long, strict=False):
        claim["value"] = value
    (finding,) = told(report, Facts(known_tables=(long,)))
    assert "1.12798, 1.35473, 1.36652." in finding.message


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (("151", "111", "96.0"), [("F12", "unusual")]),
        (("151", "111", "96.1"), []),
        (("151", "111"), []),
        (("1.4", "1.6", "2"), []),
    ],
)
def test_numbers_of_a_known_table(values: tuple[str, ...], expected: list[tuple[str, str]]) -> None:
    report = copy.deepcopy(start("dataloader"))
    for claim, value in zip(report["claims"], values, strict=False):
        claim["value"] = value
    assert words(report, Facts(known_tables=(("7", "8"), TABLE))) == expected
    assert words(report) == []


@pytest.mark.parametrize(
    ("starts", "expected"),
    [
        (lambda i, t: float(round(t)), [("F14", "unusual")]),
        (lambda i, t: 1_788_250_000.25 + 60 * i, [("F14", "unusual")]),
        (lambda i, t: float(round(t)) + (i == 3) / 64, []),
        (lambda i, t: round(t, 3) + 0.5 * (i % 2), []),
        (lambda i, t: 1_788_250_000.25 + 60 * i + 2e-5 * (i * i % 7), []),
        (lambda i, t: round(t, 3), []),
    ],
)
def test_starts_on_a_grid(starts: Callable[[int, float], float], expected: list[tuple[str, str]]) -> None:
    report = copy.deepcopy(start("dataloader"))
    for index, run in enumerate(report["runs"]):
        run["t_start"] = starts(index, run["t_start"])
    assert words(report) == expected


def test_the_starts_alone_give_a_grid_away() -> None:
    """With pauses that fill up to the next minute, all else is as it should be."""
    report = copy.deepcopy(start("dataloader"))
    begin = report["runs"][0]["t_start"]
    for index, run in enumerate(report["runs"]):
        spent = run["t_end"] - run["t_start"]
        run["t_start"] = begin + 300 * index
        run["t_end"] = run["t_start"] + spent
    report["attempt"]["created_utc"] = "2099-01-01T00:00:00Z"
    everything = verify(document(report), knowledge(report)).findings
    assert {each.rule for each in everything if each.judgement.costs or each.judgement is UNUSUAL} == {"F14"}


@pytest.mark.parametrize("places", ["01010", "01111", "00111"])
@pytest.mark.parametrize("kind", KINDS)
def test_two_readings_that_fill_up_every_configuration_are_found(kind: str, places: str) -> None:
    """Readings so few rule out few ticks by their distances; that they are whole ticks of none does."""
    report = reworked(start(kind), each(lambda w: [w[int(place)] for place in places[: len(w)]]))
    assert ("F03", "inconsistent") in words(report)


@pytest.mark.parametrize("kind", KINDS)
def test_two_readings_that_fill_up_one_configuration_are_found(kind: str) -> None:
    report = reworked(start(kind), first(lambda w: [w[0], *[w[1]] * (len(w) - 1)]))
    assert ("F03", "inconsistent") in words(report)


@pytest.mark.parametrize("tick", [1 / 64, 1e-2, 1 / 300])
@pytest.mark.parametrize(("kind", "unit"), [("dp_inference", "samples"), ("ddp_scaling", "steps")])
def test_times_an_image_of_a_slow_clock_are_no_copies(kind: str, unit: str, tick: float) -> None:
    """Divided by what each configuration has of its own, they are whole ticks of none in seconds."""
    report = start(kind)
    groups = [runs_of(report, **config) for config in configs(report)]
    few = [[20, 21, 20, 22, 20], [20, 20, 21, 21, 20], [22, 22, 23, 22, 21]]
    walls = [
        [few[place % 3][rep] * tick / run[unit] for rep, run in enumerate(runs)]
        for place, runs in enumerate(groups)
    ]
    assert [rule for rule, _ in words(reworked(report, lambda _: walls)) if rule == "F03"] == []


HONEST: dict[str, Callable[..., Any]] = {
    "as measured": lambda walls: walls,
    "all of them multiples of 1/64 s": each(lambda w: [round(x * 64) / 64 for x in w]),
    "multiples of 1/64 s with the noise of time.time()": each(
        lambda w: [1788422939.5829573 + round(x * 64) / 64 - 1788422939.5829573 for x in w]
    ),
    "short runs on a clock of 1/64 s": each(lambda w: [round(x / 20 * 64) / 64 for x in w]),
    "whole milliseconds of ticks": each(lambda w: [int(round(x * 64) / 64 * 1000) / 1000 for x in w]),
    "short runs in milliseconds": each(lambda w: [round(x / 200, 3) for x in w]),
    "two decimals": each(lambda w: [round(x, 2) for x in w]),
    "scientific notation": each(lambda w: [f"{x:.6e}" for x in w]),
    "float32": each(lambda w: [float(np.float32(x)) for x in w]),
    "four of five equal in tenths": first(lambda w: ["20.1", "20.1", "20.1", "20.1", "20.2"]),
    "three readings of two decimals in a row": first(lambda w: ["20.11", "20.12", "20.13", "20.2", "20.3"]),
    "nearly scaled": second(lambda w: [x * 0.6 * (1 + 2e-4 * (i % 2)) for i, x in enumerate(w)]),
    "nearly mirrored": first(lambda w: [w[0] + x for x in (0.31, -0.17, 0, 0.19, -0.31)]),
    "nearly even": first(lambda w: [w[0] + x for x in (0.1, 0.2, 0.3, 0.4, 0.52)]),
    "nearly equal": first(lambda w: [w[0] + x for x in (0, 0, 0, 0, 1e-3)][:1] + [w[0] + x / 1e4 for x in (1, 3, 7, 8)]),
}  # fmt: skip


@pytest.mark.parametrize("change", HONEST.values(), ids=HONEST)
def test_measured_readings_are_left_alone(change: Callable[..., Any]) -> None:
    report = reworked(start("dataloader"), change)
    assert words(report) == []


def test_the_steadiest_machine_is_left_alone() -> None:
    """Three trainings on two A4000 once differed by 0.014 %: pairs of such series look scaled, and are not."""
    rng = np.random.default_rng(3)
    for _ in range(40):
        report = reworked(
            start("dataloader", repetitions=3),
            each(lambda w: [format(20 * np.exp(1.4e-4 * rng.standard_normal()), ".3f") for _ in w]),
        )
        assert not [finding for finding in told(report) if finding.judgement.costs]


def test_three_uniform_readings_of_few_digits_cost_nothing() -> None:
    report = reworked(start("dataloader", repetitions=3), uniform(lambda x: "39.025"))
    assert words(report) == [("F01", "unusual")]
    # Two such configurations do.
    report = reworked(start("dataloader", repetitions=3), uniform(lambda x: format(x, ".3f"), groups=2))
    assert ("F01", "inconsistent") in words(report)


def test_a_thousand_steps_of_one_length_share_some_readings_by_chance() -> None:
    report = copy.deepcopy(start("ddp_scaling"))
    rng = np.random.default_rng(0)
    for run in report["runs"]:
        run["step_s"] = [f"{0.2 * x:.7f}" for x in np.exp(0.01 * rng.standard_normal(500))]
    steps = [step for run in report["runs"] for step in run["step_s"]]
    assert len(set(steps)) < len(steps) - 10
    assert words(report) == []


def _of_events(seconds: float) -> float:
    """What `elapsed_time` gives: a float32 in ms, of GPUs that count in 1.024 us."""
    return float(np.float32(round(seconds / 1.024e-6) * 1.024e-3)) / 1000


def _of_a_counter(rate: float) -> Callable[[float], float]:
    """What time.perf_counter() gives of a counter with this rate, in whole nanoseconds of a machine long started."""
    return lambda seconds: (
        (int((int((4e5 + seconds) * rate) + 1) / rate * 1e9) - int(int(4e5 * rate) / rate * 1e9)) / 1e9
    )


SHORT_CLOCKS: dict[str, Callable[[float], float]] = {
    "events, and the clock that the writer names": _of_events,
    "acpi_pm": _of_a_counter(3.579545e6),
    "an Arm board": _of_a_counter(19.2e6),
    "an Ampere server": _of_a_counter(25e6),
}


@pytest.mark.parametrize("read", SHORT_CLOCKS.values(), ids=SHORT_CLOCKS)
def test_short_steps_repeat_where_the_clock_ticks_slowly(read: Callable[[float], float]) -> None:
    """Forward calls of half a millisecond: within their spread such a clock has a few readings only."""
    report = copy.deepcopy(start("dp_inference", machine="two t4"))
    other = copy.deepcopy(report) | {"student": {"id": "neighbour"}}
    for seed, each_report in enumerate((report, other)):
        rng = np.random.default_rng(seed)
        for run in each_report["runs"]:
            parts = [read(5e-4 * (1 + 0.01 * abs(x))) for x in rng.standard_normal(run["steps"]).tolist()]
            run.update(step_s=[repr(part) for part in parts], wall_s=repr(sum(parts)))
        settle(each_report)
    steps = [step for run in report["runs"] for step in run["step_s"]]
    assert len(set(steps)) < len(steps) / 2
    assert words(report, Facts(others=(document(other),))) == []


def test_events_are_the_clock_where_the_method_says_that_they_were_waited_for() -> None:
    report = reworked(start("dp_inference"), each(lambda w: [x / 1e3 / 7 for x in w]))
    report["method"].update(clock="time.perf_counter", sync="cuda_event")
    assert report_tick(document(report)) == 1e-6


def test_few_digits_are_advised_against() -> None:
    report = reworked(start("dataloader"), each(lambda w: [format(x / 10, ".2f") for x in w]))
    found = verify(document(report), Facts(), fabrication.RULES).findings
    (advice,) = [finding for finding in found if finding.rule == "F02"]
    assert advice.judgement is ADVICE
    assert "told in steps of 0.01 s" in advice.message
    assert "repr()" in advice.message


@pytest.mark.parametrize(
    ("texts", "clock", "expected"),
    [
        (["20.12", "20.3"], "", 0.01),
        (["2.5", "4.140625"], "", 1 / 64),
        (["4.140625", "2.500000"], "", 1 / 64),
        (["0.516", "0.531", "0.547", "0.500"], "", 1e-3),
        (["0.516", "0.531", "0.547", "0.500", "0.562", "0.578", "0.594", "0.609"], "", 1 / 64),
        (["0.5159999999996217", "0.5310000000001"], "", 1e-3),
        (["12.7380378", "11.2345671", "9.1231234"], "", 1e-7),
        ([repr(1788422939.25 + x - 1788422939.25) for x in (3.14159, 2.71828)], "", 2.0**-22),
        ([repr(float(np.float32(x))) for x in (23.78934, 19.123456)], "", 2.0**-19),
        (["3.1415926535", "2.7182818284"], "cuda_event", 1e-6),
        ([repr(n / 24e6) for n in (312456789, 298765431, 301234567, 305678901)], "", 125e-9 / 3),
        ([repr(float(np.float32(x)) / 1000) for x in (3.1415926, 2.7182818)], "", 1e-6),
        (["0.000512032", "0.000509920", "0.000520096"], "", 32e-9),
        (["0", "1e99"], "", 1.0),
    ],
)
def test_the_resolution_of_a_clock(texts: list[str], clock: str, expected: float) -> None:
    assert resolution((Number(text) for text in texts), clock) == pytest.approx(expected)


def test_a_fine_clock_has_a_fine_resolution() -> None:
    assert resolution([Number("23.78934527200181"), Number("22.51934947100017")]) == 1e-9


def test_equal_pairs_are_expected_as_often_as_they_come() -> None:
    rng = np.random.default_rng(5)
    for size, tick in ((60, 1e-3), (200, 1e-4), (2000, 1e-6)):
        seen, expected = 0, 0.0
        for _ in range(40):
            values = (np.round(rng.normal(1.0, 0.02, size) / tick) * tick).round(9)
            _, counts = np.unique(values, return_counts=True)
            seen += int((counts * (counts - 1) // 2).sum())
            expected += equal_by_chance(values.tolist(), tick)
        assert 0.6 * seen < expected < 1.6 * seen


def test_the_tail_of_poisson() -> None:
    assert at_least(0, 3.0) == 1.0
    assert at_least(1, 0.0) == 0.0
    assert at_least(1, 1e-4) == pytest.approx(1e-4, rel=1e-3)
    assert at_least(3, 0.5) == pytest.approx(0.0143877, rel=1e-4)
    assert at_least(30, 0.01) < 1e-80


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("kind", KINDS)
def test_honest_reports_of_every_clock(kind: str, clock: str) -> None:
    for seed in range(6):
        report = honest(kind, np.random.default_rng(seed), clock=clock)
        assert words(report) == []


@pytest.mark.parametrize("noise", [1.4e-4, 1e-3, 0.25])
def test_honest_reports_of_steady_and_busy_machines(noise: float) -> None:
    for seed, kind in itertools.product(range(4), KINDS):
        report = honest(kind, np.random.default_rng(seed), noise=Noise(noise), repetitions=3)
        assert words(report) == []


NUMBERS = st.one_of(
    st.sampled_from(["0", "0.0", "1e300", "1e-300", "0.1", "1", "12.5", "9" * 40, "0." + "1" * 40, "1e9", "5e-324"]),
    st.floats(0, allow_infinity=False, allow_nan=False).map(lambda x: repr(x)),
    st.floats(1, 2).map(lambda x: f"{x:.2f}"),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_numbers_upset_the_rules(data: st.DataObject) -> None:
    report = copy.deepcopy(start(data.draw(st.sampled_from(KINDS))))
    report["runs"] = report["runs"][:12]
    for run in report["runs"]:
        run["wall_s"] = data.draw(NUMBERS)
        run["step_s"] = data.draw(st.lists(NUMBERS, max_size=6))
        run["t_start"] = data.draw(st.floats(1e-300, 1.7e308))
        run["samples"] = data.draw(st.integers(1, 2**63 - 1))
    for claim in report["claims"]:
        if "value" in claim:
            claim["value"] = data.draw(NUMBERS)
    read = document(report)
    facts = dataclasses.replace(Facts(known_tables=(TABLE, ("1e999999", "0"))), others=(read,))
    for rule in fabrication.RULES:
        list(rule.examine(read, facts))


def test_every_rule_says_where_its_threshold_comes_from() -> None:
    assert [rule.id for rule in fabrication.RULES] == [
        f"F{number:02}" for number in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 14)
    ]
    for rule in fabrication.RULES:
        assert all((rule.demands, rule.threshold, rule.why, rule.honest))
        assert "fabricat" not in " ".join((rule.demands, rule.threshold, rule.why, rule.honest))


def test_a_slow_run_in_the_same_place_makes_no_configuration_a_multiple_of_another() -> None:
    steady = {0: ["30.001", "30.002", "39.001"], 1: ["20.001", "20.001", "26.001"]}
    report = reworked(
        start("dataloader", repetitions=3), lambda walls: [steady.get(i, w) for i, w in enumerate(walls)]
    )
    assert words(report) == []
