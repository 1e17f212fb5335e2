"""Rules on readings that do not differ: within a configuration, in their digits, or between places.

Each asks first whether the clock could have told the readings apart, and how often chance alone would make them equal.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from lockstep.reports.document import Number, Report
from lockstep.reports.finding import Finding, advice, inconsistent, unusual
from lockstep.reports.resolution import (
    WINDOWS_TICK_S,
    Tick,
    at_least,
    key,
    repeats_by_chance,
    resolution,
    sensible,
    ticks_in,
)
from lockstep.reports.rule import Facts, Rule
from lockstep.reports.series import (
    BY_CHANCE,
    CHANCE,
    CHANCE_TO_FAIL,
    Series,
    all_series,
    clock,
    longest_step_tick,
    longest_wall_tick,
    report_tick,
    seconds,
    step_tick,
    texts,
)

FINE = 1e-4
"""F01: relative resolution from which on equal readings cost points where five are equal, or two configurations."""
FINE_ALONE = 1e-5
"""F01: the same for three or four equal readings of a single configuration."""
USUAL_SPREAD = 0.003
"""F01: standard deviation over mean where no other configuration tells it; the median within public runs."""
STEADY_SPREAD = 7e-4
"""F01: the same where the clock is known to be coarse; 95 % of public runs scatter more."""
NEARLY, STEADIEST = 1e-5, 1.4e-4
"""F01: range over mean of readings that hardly differ, and the standard deviation of the steadiest public runs."""
COARSE = 1e-3
"""F02: resolution over mean from which on a finer clock, or longer runs, are advised."""
SHARED_DIGITS = 6
SHARED_TO_FAIL = 3


# F01: readings that do not differ


def _identical(report: Report, facts: Facts) -> Iterator[Finding]:
    series = all_series(report, least=3)
    equal = [each for each in series if each.all_equal]
    if equal:
        fine, surest = _fine(equal)
        if surest or len(fine) >= 2:
            # The others may show a clock that ticks more slowly than any list says.
            possible = longest_wall_tick(report, report_tick(report))
            if possible.seen:
                equal = [replace(each, tick=max(each.tick, possible.seconds)) for each in equal]
                fine, surest = _fine(equal)
        spread = _spread_of_the_others(series)
        if report_tick(report) == WINDOWS_TICK_S:
            spread = min(spread, STEADY_SPREAD)  # the clock is at fault before the student is
        by_chance = sum(_within_by_chance(each.relative_tick, spread, len(each.numbers)) for each in series)
        first = (surest or fine or equal)[0]
        what = (
            f"All {len(first.numbers)} readings of {first.group.name} are {texts(first.numbers, 1)} s"
            + (f", and {len(equal) - 1} more configurations are as uniform" if len(equal) > 1 else "")
            + f"; the digits tell readings apart that differ by {seconds(first.tick)}, {first.relative_tick:.1g} of "
            "the mean. "
        )
        try_first = (
            "Was one reading, or the mean, written into every run? Note the clock's difference of each run as it "
            "is, with repr()."
        )
        numbers: dict[str, float | int] = {
            "configurations": len(equal), "reading_s": first.values[0], "resolution_over_mean": first.relative_tick,
        }  # fmt: skip
        if surest or len(fine) >= 2:
            yield inconsistent(
                f"{what}Real runs vary by more than that: of 3,200 honest series none was uniform at "
                f"resolution / mean <= {FINE:g}. {try_first}",
                **numbers,
            )
        elif at_least(len(equal), by_chance) < CHANCE:
            yield unusual(
                f"{what}With so few digits honest series show it now and then. {try_first}", **numbers
            )
    else:
        yield from _nearly_identical(series)
    yield from _identical_steps(report)


def _nearly_identical(series: Sequence[Series]) -> Iterator[Finding]:
    close = [each for each in series if each.range < NEARLY * each.mean]
    chance = math.prod(map(_as_close_by_chance, close))
    if close and chance * math.comb(len(series), len(close)) < CHANCE:
        first = close[0]
        yield unusual(
            f"The {len(first.numbers)} readings of {first.group.name} lie within {first.range / first.mean:.1g} of their mean: "
            f"{texts(first.numbers, 3)} s{f', and {len(close) - 1} more configurations as close' if len(close) > 1 else ''}. "
            f"The steadiest runs known to us scatter by {STEADIEST:g}. Was one reading, or the mean, written into every run? "
            "Note the clock's difference of each run as it is, with repr().",
            configurations=len(close),
            range_over_mean=first.range / first.mean,
        )


def _as_close_by_chance(series: Series) -> float:
    """How likely the steadiest readings are to lie as close together; any of them may be the shortest."""
    count, close = len(series.numbers), max(series.range, series.tick) / series.mean
    return min(1.0, count * _within_by_chance(close, STEADIEST, count))


def _fine(equal: Sequence[Series]) -> tuple[list[Series], list[Series]]:
    """Those in which the clock could have told the readings apart, and those that are enough by themselves."""
    fine = [each for each in equal if each.relative_tick <= FINE]
    return fine, [each for each in fine if len(each.numbers) >= 5 or each.relative_tick <= FINE_ALONE]


def _spread_of_the_others(series: Sequence[Series]) -> float:
    spreads = [each.deviation for each in series if not each.all_equal]
    return statistics.median(spreads) if spreads else USUAL_SPREAD


def _within_by_chance(close: float, spread: float, count: int) -> float:
    """How likely all but one of `count` readings that scatter by `spread` are to lie within `close` of that one."""
    # The density of a normal distribution at its middle, for every reading after the first.
    return min(1.0, close / (math.sqrt(2 * math.pi) * spread)) ** (count - 1)


def _identical_steps(report: Report) -> Iterator[Finding]:
    tick = step_tick(report)
    for run in report.runs:
        steps = sensible(run.step_seconds)
        if len(steps) < 5 or len({key(step.value) for step in steps}) > 1:
            continue
        relative = max(tick, min(step.ulp for step in steps)) / steps[0].value
        if relative <= FINE and (possible := longest_step_tick(report, tick)).seen:
            relative = max(relative, possible.seconds / steps[0].value)
        if relative <= FINE:
            yield inconsistent(
                f"All {len(steps)} entries of runs[{run.index}].step_s are {texts(steps, 1)} s, to {relative:.1g} of "
                "the step. Was wall_s divided by the number of steps? step_s is for steps that were read one by one; "
                "leave it out where they were not.",
                run=run.index,
                reading_s=steps[0].value,
                resolution_over_mean=relative,
            )
            return


# F02: few digits


def _coarse(report: Report, facts: Facts) -> Iterator[Finding]:
    series = all_series(report)
    # A sum of steps is a multiple of whatever the steps are.
    readings = sensible(run.wall for run in report.runs if not run.step_seconds)
    if len(readings) >= 3 and all(_is_multiple_of_tenths(number) for number in readings):
        yield unusual(
            f"All {len(readings)} readings are multiples of 0.1 s, such as {texts(readings, 3)}. Were they rounded, "
            "or typed off a progress bar? Write what the clock gave, with repr(): its decimals are evidence, and "
            "rounded readings of short runs hide what is to be measured.",
            readings=len(readings),
        )
        return
    coarse = [each for each in series if each.relative_tick > COARSE]
    if coarse:
        worst = max(coarse, key=lambda each: each.relative_tick)
        cause = (
            "The clock ticks 64 times a second, as time.time() and time.monotonic() do on Windows; "
            "time.perf_counter() is finer"
            if worst.tick == WINDOWS_TICK_S
            else "Write wall_s with repr(), unrounded"
        )
        yield advice(
            f"The readings of {worst.group.name} are told in steps of {seconds(worst.tick)}, "
            f"{worst.relative_tick:.2g} of their mean of {seconds(worst.mean)} (advised: at most {COARSE:g}). "
            f"{cause}; or time more batches in one run.",
            resolution_s=worst.tick,
            resolution_over_mean=worst.relative_tick,
        )


def _is_multiple_of_tenths(number: Number) -> bool:
    tenths = number.value * 10
    return abs(tenths - round(tenths)) < 1e-9 * max(1.0, tenths)


# F03: one reading in several places


def _shared(report: Report, facts: Facts) -> Iterator[Finding]:
    walls = [
        (place, number)
        for place, group in enumerate(report.groups)
        for number in _without_uniform([run.wall for run in group.runs])
    ]
    steps = [(run.index, number) for run in report.runs for number in _without_uniform(run.step_seconds)]
    of_steps = step_tick(report) if steps else 0.0
    for readings, one, many in (
        (walls, "reading", "readings"),
        (steps, "entry of step_s", "entries of step_s"),
    ):
        # A run may be the sum of its steps, a multiple of their tick.
        tick = max(resolution((number for _, number in readings), clock(report)), of_steps)
        enough, places, expected = _repeats(readings, Tick(tick, True))
        if not _is_odd(places, expected):
            continue
        # Only now, for it takes a while: is the clock one that ticks more slowly than any list says?
        possible = longest_wall_tick(report, tick) if readings is walls else longest_step_tick(report, tick)
        tick = possible.seconds
        enough, places, expected = _repeats(readings, possible)
        if not _is_odd(places, expected):
            continue
        repeats = _again(places)
        chance = at_least(repeats, expected)
        what = one if repeats == 1 else many
        value, _ = places.most_common(1)[0]
        where = {place for place, number in enough if key(number.value) == value}
        message = (
            f"{repeats} {what} of {SHARED_DIGITS} and more digits {'occurs' if repeats == 1 else 'occur'} again, such as "
            f"{texts(number for _, number in enough if key(number.value) == value)}"
            f"{_where(report, sorted(where)) if readings is walls else ''}. Chance makes {expected:.2g} such repeats among {len(enough)} "
            f"readings of a clock that ticks every {seconds(tick)} at most. Was a run counted twice, or a line "
            "pasted into the wrong configuration? List every run once, under the configuration it was taken with."
        )
        if repeats >= SHARED_TO_FAIL and chance < CHANCE_TO_FAIL:
            yield inconsistent(message, repeats=repeats, expected=expected)
        else:
            yield unusual(message, repeats=repeats, expected=expected)


def _repeats(
    readings: Sequence[tuple[int, Number]], tick: Tick
) -> tuple[list[tuple[int, Number]], Counter[float], float]:
    """The readings with digits enough above a tick that was seen, how often each occurs, and the repeats of chance."""
    told_apart = tick.seconds if tick.seen else 0.0
    enough = [
        (place, number)
        for place, number in readings
        if ticks_in(number.value, max(told_apart, number.ulp)) >= 10 ** (SHARED_DIGITS - 1)
    ]
    places = Counter(key(number.value) for _, number in enough)
    numbers = [number for _, number in enough]
    expected = repeats_by_chance(numbers, tick.seconds, steady=tick.seen) if _again(places) else 0.0
    return enough, places, expected


def _again(places: Counter[float]) -> int:
    return sum(count - 1 for count in places.values())


def _is_odd(places: Counter[float], expected: float) -> bool:
    return at_least(_again(places), expected) < CHANCE


def _without_uniform(numbers: Sequence[Number]) -> list[Number]:
    """The readings of one configuration; of those that are all equal, which F01 tells, the first alone."""
    readings = sensible(numbers)
    return (
        readings[:1]
        if len({key(number.value) for number in readings}) == 1 and len(readings) > 2
        else readings
    )


def _where(report: Report, places: Sequence[int]) -> str:
    names = [report.groups[place].name for place in places[:2]]
    return f" (in {' and in '.join(names)})"


RULES: tuple[Rule, ...] = (
    Rule(
        "F01",
        "The runs of a configuration differ from each other.",
        f"all readings (3 or more) equal where resolution / mean <= {FINE:g} (five readings, or two configurations), or "
        f"<= {FINE_ALONE:g}: inconsistent; with fewer digits, or nearly equal (a range below {NEARLY:g} of the mean): unusual, "
        f"{BY_CHANCE}",
        "Timings of real runs scatter; the steadiest public ones (three runs of a training on two A4000) by 0.014 %.",
        "0 of 3,200 series of five passes at resolution / mean <= 1e-4; 0.47 % at 3 decimals and 8.7 % at 2 decimals "
        "of about 0.9 s.",
        _identical,
    ),
    Rule(
        "F02",
        "Readings have the digits that the clock gave.",
        f"resolution / mean > {COARSE:g}: advice; every reading a multiple of 0.1 s: unusual",
        "Decimals are evidence: whoever rounds them off leaves nothing to tell a measurement by.",
        "A clock of 15.6 ms and runs under 15 s get the advice.",
        _coarse,
    ),
    Rule(
        "F03",
        "A reading belongs to one run.",
        f"{SHARED_TO_FAIL} or more repeats of readings with {SHARED_DIGITS} digits above the clock's resolution, and a "
        f"chance below {CHANCE_TO_FAIL:g}: inconsistent; fewer: unusual, {BY_CHANCE}",
        "Independent readings repeat as often as their density says; the count is compared with that (Poisson).",
        "None of some thousand simulated ones: 25 clocks that tick 1 ns to 15.6 ms, 11 ways to print, noise of 0.05 to 10 %. The "
        "clock's resolution is the longest tick that the readings leave possible, whether a list has it or not.",
        _shared,
    ),
)
