"""Rules on readings that follow a pattern: evenly spaced, mirrored, computed from others, all of one spread.

Each asks first how often readings of this range and this clock would fall into the pattern by chance.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, pairwise

from lockstep.reports.document import Report
from lockstep.reports.finding import Finding, inconsistent, unusual
from lockstep.reports.resolution import fit_by_chance, relative_spread, sensible, ticks_in
from lockstep.reports.rule import Facts, Rule
from lockstep.reports.series import (
    BY_CHANCE,
    CHANCE,
    CHANCE_TO_FAIL,
    Series,
    all_series,
    longest_step_tick,
    longest_wall_tick,
    named,
    report_tick,
    seconds,
    step_tick,
    texts,
)

MAX_DEVIATION = 5e-5
MIN_LAST_DIGITS = 20
MAX_FIVES = 0.70
SAME_SPREAD = {2: 2e-4, 3: 5e-3}
"""F09: the largest standard deviation of ln(CV) that is told, by number of configurations; few agree by chance."""
SAME_SPREAD_OF_MANY = 0.02
LEAST_STEPS, STEPS_COMPARED, RUNS_COMPARED = 5, 50, 60
"""F05: entries of step_s that are compared one by one, and runs of which they are."""
LEAST_OF_LINES, LINE_DEVIATION = 5, 1e-5
"""F05: readings from which on, and deviation below which, one configuration may be the other's times a factor and plus
a constant at once. Where both slow down from run to run, honest ones come nearer to a line than to a multiple.
"""
WITH_NOISE = 100
"""F04, F06: how much less likely a pattern has to be that there is to more than a tick: whoever sees one looks for more."""
MAX_GROUPS = 300
"""Configurations that are compared pair by pair."""


# F04 and F06: readings that lie too evenly


def _even(report: Report, facts: Facts) -> Iterator[Finding]:
    series = all_series(report, least=3)
    told = _odd(report, series, _progression)
    if told:
        first = told[0]
        ordered = sorted(first.numbers, key=lambda number: number.value)
        yield unusual(
            f"The readings of {named(told)} are evenly spaced when sorted: {texts(ordered)}. Differences, or ratios, "
            f"of neighbours agree as chance hardly makes them on a clock that tells {seconds(first.step)} apart. Honest "
            "series of seven decimals never showed it, of four decimals 0.03 %. Do the readings stand for something "
            "else than the clock's differences, such as a running total?",
            configurations=len(told),
            resolution_s=first.step,
        )


def _progression(series: Series) -> float:
    """How likely readings of this range are to form an arithmetic or a geometric sequence as good as these do."""
    ordered = sorted(series.values)
    best = 1.0
    for values, step in (
        (ordered, series.step),
        ([math.log(value) for value in ordered], series.step / ordered[0]),
    ):
        gaps = [after - before for before, after in pairwise(values)]
        off = max(abs(after - before) for before, after in pairwise(gaps))
        apart = (values[-1] - values[0]) / (len(values) - 1)
        best = min(best, _chance_of(off, [apart] * (len(values) - 2), step))
    return min(1.0, 2 * best)


def _chance_of(off: float, apart: Sequence[float], step: float) -> float:
    """How likely readings are to fall where they have to, within `off` to either side, or within a tick.

    `apart` tells of each how far its neighbour is: where that is a tick or two, readings fall into any pattern.
    """
    ticks = round(off / step)
    width = (2 * ticks + 1) * step
    chance = math.prod(width / each for each in apart if each > width)
    return chance if ticks <= 1 else min(1.0, WITH_NOISE * chance)


def _odd(report: Report, series: Sequence[Series], chance: Callable[[Series], float]) -> list[Series]:
    """Those that chance would hardly make so, on a clock that ticks as slowly as it may."""
    told = [each for each in series if chance(each) * len(series) < CHANCE]
    if not told:
        return []
    slowest = longest_wall_tick(report, report_tick(report))
    # Few readings rule out few ticks; what they leave is none that was seen.
    exact = [replace(each, tick=max(each.tick, slowest.seconds if slowest.seen else 0.0)) for each in told]
    return [own for own, each in zip(told, exact, strict=True) if chance(each) * len(series) < CHANCE]


def _mirrored(report: Report, facts: Facts) -> Iterator[Finding]:
    series = all_series(report, least=5)
    told = [each for each in _odd(report, series, _mirror) if _progression(each) * len(series) >= CHANCE]
    if told:
        first = told[0]
        middle = statistics.median(first.values)
        yield unusual(
            f"The readings of {named(told)} lie mirrored about their median: "
            f"{', '.join(f'{value - middle:+.6g}' for value in sorted(first.values)[:7])} s around {middle:.9g} s. "
            "Timings have a long tail on the slow side; 0.5 % of honest reports show this at four decimals and none "
            "at seven. Are these the readings of the clock itself?",
            configurations=len(told),
            median_s=middle,
        )


def _mirror(series: Series) -> float:
    ordered = sorted(series.values)
    middle = statistics.median(ordered)
    half = len(ordered) // 2
    sums = [low + high for low, high in zip(ordered[:half], reversed(ordered), strict=False)]
    # For an even number the innermost two make the median.
    conditions = half if len(ordered) % 2 else half - 1
    if conditions < 2:
        return 1.0
    off = max(abs(each - 2 * middle) for each in sums)
    return _chance_of(
        off, [after - before for before, after in pairwise(ordered[: conditions + 1])], series.step
    )


# F05: one configuration computed from another


def _derived(report: Report, facts: Facts) -> Iterator[Finding]:
    series = [each for each in all_series(report, least=3) if not each.all_equal][:MAX_GROUPS]
    pairs = max(1, len(series) * (len(series) - 1) // 2)
    slowest = 0.0
    for one, other in combinations(series, 2):
        how, off, chance = _fit(one, other)
        if off < MAX_DEVIATION and chance * pairs < CHANCE:
            # Is the clock one that ticks more slowly than any list says?
            slowest = slowest or longest_wall_tick(report, report_tick(report)).seconds
            how, off, chance = _fit(*(replace(each, tick=max(each.tick, slowest)) for each in (one, other)))
        if off >= MAX_DEVIATION or chance * pairs >= CHANCE:
            continue
        message = (
            f"The readings of {other.group.name} are those of {one.group.name} {how}, in every run to "
            f"{off:.1g} of the reading: {texts(other.numbers, 3)} from {texts(one.numbers, 3)}. Runs vary by "
            f"{one.range / one.mean:.2g} here, each in its own way; the closest of 200,000 honest pairs differ by 1.9e-4. "
            "Was one configuration worked out from the other, per step or per device? List what the clock gave."
        )
        if chance * pairs < CHANCE_TO_FAIL * 10:
            yield inconsistent(message, deviation=off, chance=chance * pairs)
        else:
            yield unusual(message, deviation=off, chance=chance * pairs)
        return
    yield from _derived_steps(report)


def _derived_steps(report: Report) -> Iterator[Finding]:
    tick, slowest = step_tick(report), 0.0
    timed = [
        (run.index, [step.value for step in sensible(run.step_seconds)[:STEPS_COMPARED]])
        for run in report.runs
        if len(sensible(run.step_seconds)) >= LEAST_STEPS
    ][:RUNS_COMPARED]
    pairs = max(1, len(timed) * (len(timed) - 1) // 2)
    for (a, one), (b, other) in combinations(timed, 2):
        spread = min(relative_spread(one), relative_spread(other))
        how, off, chance = _fit_steps(one, other, tick, spread)
        if off < MAX_DEVIATION and chance * pairs < CHANCE_TO_FAIL and one != other:
            slowest = slowest or longest_step_tick(report, tick).seconds
            how, off, chance = _fit_steps(one, other, slowest, spread)
        # Equal steps, which F03 tells, are those of another run times one.
        if off >= MAX_DEVIATION or chance * pairs >= CHANCE_TO_FAIL or one == other:
            continue
        yield inconsistent(
            f"The entries of runs[{b}].step_s are those of runs[{a}] {how}, one by one to {off:.1g}, and the steps of a run "
            f"vary by {spread:.2g}. Each step takes its own time. Was one run's list worked out from the other's, per image "
            "or per device? List what the clock gave at each step, or leave step_s out.",
            deviation=off,
            chance=chance * pairs,
        )
        return


def _fit_steps(
    one: Sequence[float], other: Sequence[float], tick: float, spread: float
) -> tuple[str, float, float]:
    finest = max(1 / ticks_in(min(steps), tick) for steps in (one, other)) / 2
    return _fit_pairs(list(zip(one, other, strict=False)), finest, spread)


def _fit(one: Series, other: Series) -> tuple[str, float, float]:
    """How `other` comes from `one`, by how much of a reading it is off at most, and how likely that is.

    In the order in which the runs stand, or sorted.
    """
    finest = max(one.step / one.mean, other.step / other.mean) / 2
    spread = min(relative_spread(one.values), relative_spread(other.values))
    in_place = _fit_pairs(list(zip(one.values, other.values, strict=False)), finest, spread)
    if len(one.values) != len(other.values):
        return in_place
    how, off, chance = _fit_pairs(
        list(zip(sorted(one.values), sorted(other.values), strict=True)), finest, spread, in_any_order=True
    )
    return min(in_place, (f"{how} in another order", off, chance), key=lambda fit: fit[2])


def _fit_pairs(
    pairs: Sequence[tuple[float, float]], finest: float, spread: float, *, in_any_order: bool = False
) -> tuple[str, float, float]:
    ratio = statistics.fmean(b / a for a, b in pairs)
    scaled = max(abs(b / a / ratio - 1) for a, b in pairs)
    offset = statistics.fmean(b - a for a, b in pairs)
    shifted = max(abs(b - a - offset) / b for a, b in pairs)
    how, off = (f"times {ratio:.6g}", scaled) if scaled <= shifted else (f"plus {offset:.6g} s", shifted)
    found = [(how, off, fit_by_chance(2 * max(off, finest), spread, len(pairs), in_any_order=in_any_order))]
    ones, others = zip(*pairs, strict=True)
    if len(pairs) >= LEAST_OF_LINES and min(ones) < max(ones):
        slope, offset = statistics.linear_regression(ones, others)
        off = max(abs(b - slope * a - offset) / b for a, b in pairs)
        if off < LINE_DEVIATION:
            narrow = min(map(_narrow, (ones, others)))
            chance = fit_by_chance(
                2 * max(off, finest), narrow, len(pairs), constants=2, in_any_order=in_any_order
            )
            found.append((f"times {slope:.6g} plus {offset:.6g} s", off, chance))
    return min(found, key=lambda fit: fit[2])


def _narrow(values: Sequence[float]) -> float:
    """The range of all but two of the readings, the closest, over their mean: any two lie on a line with any others."""
    ordered = sorted(values)
    return (
        min(high - low for low, high in zip(ordered, ordered[len(ordered) - 3 :], strict=False)) / ordered[0]
    )


# F07: last digits


def _last_digits(report: Report, facts: Facts) -> Iterator[Finding]:
    tick = report_tick(report)
    # Wide enough for the last digit to take every value.
    series = [each for each in all_series(report) if each.range >= 10 * each.tick]
    numbers = [number for each in series for number in each.numbers]
    if len(numbers) < MIN_LAST_DIGITS:
        return
    place = min(number.ulp for number in numbers)
    if tick > 1.5 * place:
        return  # Digits that come from the clock's tick: multiples of 1/64 s end in 5.
    # Where all have as many digits, as in scientific notation, a longer reading has its last one further left.
    alike = len({number.digits for number in numbers}) == 1
    digits = [round(number.value / (number.ulp if alike else place)) % 10 for number in numbers]
    share = sum(digit in (0, 5) for digit in digits) / len(digits)
    if share >= MAX_FIVES:
        yield unusual(
            f"{share:.0%} of the last digits of {len(digits)} readings are 0 or 5 (at {place:g} s), where chance gives "
            f"20 %; none of 2,000 honest reports reached {MAX_FIVES:.0%}. Does the clock tick in such steps, or were "
            "the readings rounded to them? method.clock says which clock it was.",
            share=share,
            readings=len(digits),
        )


# F09: the same spread everywhere


def _same_spread(report: Report, facts: Facts) -> Iterator[Finding]:
    series = [
        each
        for each in all_series(report, least=3)
        if not each.all_equal and each.relative_tick <= SAME_SPREAD_OF_MANY * each.deviation
    ]
    if len(series) < 2:
        return
    spreads = [each.deviation for each in series]
    differ = statistics.stdev(math.log(spread) for spread in spreads)
    most = SAME_SPREAD.get(len(series), SAME_SPREAD_OF_MANY)
    if differ < most:
        yield unusual(
            f"All {len(series)} configurations spread alike: standard deviation / mean is "
            f"{min(spreads):.4%} to {max(spreads):.4%}, and sd(ln CV) = {differ:.2g} (told below {most:g}; 99 % of honest "
            "reports lie above 0.25). Short runs usually spread more than long ones. Were all of them taken with the "
            "clock, and none worked out from the others?",
            sd_ln_cv=differ,
            configurations=len(series),
        )


RULES: tuple[Rule, ...] = (
    Rule(
        "F04",
        "Readings are not evenly spaced.",
        f"sorted, they form an arithmetic or geometric sequence, or nearly: unusual, {BY_CHANCE}",
        "Numbers made up by hand or in a loop are.",
        "0.63 % of series at 2 decimals, 0.03 % at 4, none at 7, before chance is asked.",
        _even,
    ),
    Rule(
        "F05",
        "A configuration is not worked out from another.",
        f"one times a factor, or plus a constant, gives the other in all runs to < {MAX_DEVIATION:g}, or both together to < "
        f"{LINE_DEVIATION:g} (from {LEAST_OF_LINES} readings on), in their order or in another, and a chance below {CHANCE_TO_FAIL * 10:g}: inconsistent; below {CHANCE:g}: unusual; the same of the "
        f"entries of step_s of two runs, from {LEAST_STEPS} on: inconsistent below {CHANCE_TO_FAIL:g}",
        "The noise of two measurements is independent.",
        "0 of 200,000 pairs; the closest differ by 1.9e-4.",
        _derived,
    ),
    Rule(
        "F06",
        "Readings do not lie mirrored about their median.",
        f"five or more readings, each as far below the median as another is above, or nearly: unusual, {BY_CHANCE}",
        "Timings are skewed: something may always take longer.",
        "0.5 % of reports at 4 decimals, none at 7, before chance is asked.",
        _mirrored,
    ),
    Rule(
        "F07",
        "Last digits are of all kinds.",
        f">= {MIN_LAST_DIGITS} readings and >= {MAX_FIVES:.0%} of the last digits 0 or 5: unusual; not where the clock's "
        "tick decides them (multiples of 1/64 s end in 5)",
        "People who invent numbers round them; below its spread a clock does not.",
        "0 of 2,000 reports.",
        _last_digits,
    ),
    Rule(
        "F09",
        "Configurations differ in their relative spread.",
        f"sd(ln CV) < {SAME_SPREAD_OF_MANY:g} over four or more configurations ({SAME_SPREAD[3]:g} over three, "
        f"{SAME_SPREAD[2]:g} over two): unusual",
        "Noise of one size for everything comes from a formula.",
        "The 1 % quantile of honest reports is 0.25.",
        _same_spread,
    ),
)
