"""Rules on what made-up readings look like: too equal, too even, too round, too much like others.

None of these is proof by itself. Every one asks first whether the clock could have told the readings apart, and
how often chance alone would make them look so (lockstep.reports.resolution). F08, the first digits after Benford,
is not used: 86 % of honest reports fail it. F11 is in lockstep.reports.between, F13 was never given.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations, pairwise

from lockstep.reports.between import F11
from lockstep.reports.document import Config, Group, Number, Report
from lockstep.reports.finding import Finding, advice, inconsistent, unusual
from lockstep.reports.resolution import (
    WINDOWS_TICK_S,
    at_least,
    equal_by_chance,
    key,
    relative_spread,
    resolution,
    sensible,
    ticks_in,
)
from lockstep.reports.rule import Facts, Rule
from lockstep.text import safe_line

CHANCE = 1e-3
"""What looks odd is told only if among this many honest reports less than one would show it by chance."""
CHANCE_TO_FAIL = 1e-6
"""And costs points only from here on; a course has some thousand reports."""
FINE = 1e-4
"""F01: relative resolution from which on equal readings cost points where five are equal, or two configurations."""
FINE_ALONE = 1e-5
"""F01: the same for three or four equal readings of a single configuration."""
USUAL_SPREAD = 0.003
"""F01: standard deviation over mean where no other configuration tells it; the median within public runs."""
STEADY_SPREAD = 7e-4
"""F01: the same where the clock is known to be coarse; 95 % of public runs scatter more."""
COARSE = 1e-3
"""F02: resolution over mean from which on a finer clock, or longer runs, are advised."""
SHARED_DIGITS = 6
SHARED_TO_FAIL = 3
MAX_DEVIATION = 5e-5
MIN_LAST_DIGITS = 20
MAX_FIVES = 0.70
SAME_SPREAD = {2: 2e-4, 3: 5e-3}
"""F09: the largest standard deviation of ln(CV) that is told, by number of configurations; few agree by chance."""
SAME_SPREAD_OF_MANY = 0.02
EXACTLY_ONE = 1e-6
KNOWN_NUMBERS = 3
KNOWN_DIGITS = 6
GAP_S = 1e-6
MAX_NAMED = 3
MAX_GROUPS = 300
"""Configurations that are compared pair by pair."""


@dataclass(frozen=True)
class _Series:
    """The readings of one configuration that can be durations, and the tick of their clock."""

    group: Group
    numbers: tuple[Number, ...]
    tick: float

    @property
    def values(self) -> list[float]:
        return [number.value for number in self.numbers]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def relative_tick(self) -> float:
        return self.tick / self.mean

    @property
    def step(self) -> float:
        """The tick, but not below the digits in which readings are compared."""
        return self.mean / ticks_in(self.mean, self.tick)

    @property
    def range(self) -> float:
        return max(self.values) - min(self.values)

    @property
    def all_equal(self) -> bool:
        return len({key(value) for value in self.values}) == 1

    @property
    def deviation(self) -> float:
        """Standard deviation over mean."""
        return statistics.stdev(self.values) / self.mean


def _all_series(report: Report, least: int = 1) -> list[_Series]:
    tick, step_tick = report_tick(report), _step_tick(report)
    found = []
    for group in report.groups:
        numbers = tuple(sensible(run.wall for run in group.runs))
        if len(numbers) >= least:
            # The clock is one; a configuration may still be printed with fewer digits than the others, or be a sum
            # of steps, each of which was cut to the clock's tick.
            steps = max(len(run.step_seconds) for run in group.runs)
            own = max(tick, min(number.ulp for number in numbers), steps * step_tick)
            found.append(_Series(group, numbers, own))
    return found


def _step_tick(report: Report) -> float:
    return resolution((step for run in report.runs for step in run.step_seconds), _clock(report))


def report_tick(report: Report) -> float:
    """The resolution of the clock that read the runs, in seconds."""
    return resolution((run.wall for run in report.runs), str(report.method.get("clock", "")))


def _named(series: Sequence[_Series]) -> str:
    names = [each.group.name for each in series[:MAX_NAMED]]
    more = len(series) - len(names)
    return "; ".join(names) + (f"; and {more} more" if more else "")


def _texts(numbers: Iterable[Number], limit: int = 5) -> str:
    return ", ".join(safe_line(number.text, 24) for number in list(numbers)[:limit])


def _seconds(value: float) -> str:
    return f"{value:.3g} s"


# F01: readings that do not differ


def _identical(report: Report, facts: Facts) -> Iterator[Finding]:
    series = _all_series(report, least=3)
    equal = [each for each in series if each.all_equal]
    if equal:
        fine = [each for each in equal if each.relative_tick <= FINE]
        surest = [each for each in fine if len(each.numbers) >= 5 or each.relative_tick <= FINE_ALONE]
        spread = _spread_of_the_others(series)
        if report_tick(report) == WINDOWS_TICK_S:
            spread = min(spread, STEADY_SPREAD)  # the clock is at fault before the student is
        by_chance = sum(_all_equal_by_chance(each, spread) for each in series)
        first = (surest or fine or equal)[0]
        what = (
            f"All {len(first.numbers)} readings of {first.group.name} are {_texts(first.numbers, 1)} s"
            + (f", and {len(equal) - 1} more configurations are as uniform" if len(equal) > 1 else "")
            + f"; the digits tell readings apart that differ by {_seconds(first.tick)}, {first.relative_tick:.1g} of "
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
    yield from _identical_steps(report)


def _spread_of_the_others(series: Sequence[_Series]) -> float:
    spreads = [each.deviation for each in series if not each.all_equal]
    return statistics.median(spreads) if spreads else USUAL_SPREAD


def _all_equal_by_chance(series: _Series, spread: float) -> float:
    # The density of a normal distribution at its middle, for every reading after the first.
    return min(1.0, series.relative_tick / (math.sqrt(2 * math.pi) * spread)) ** (len(series.numbers) - 1)


def _identical_steps(report: Report) -> Iterator[Finding]:
    tick = _step_tick(report)
    for run in report.runs:
        steps = sensible(run.step_seconds)
        if len(steps) < 5 or len({key(step.value) for step in steps}) > 1:
            continue
        relative = max(tick, min(step.ulp for step in steps)) / steps[0].value
        if relative <= FINE:
            yield inconsistent(
                f"All {len(steps)} entries of runs[{run.index}].step_s are {_texts(steps, 1)} s, to {relative:.1g} of "
                "the step. Was wall_s divided by the number of steps? step_s is for steps that were read one by one; "
                "leave it out where they were not.",
                run=run.index,
                reading_s=steps[0].value,
                resolution_over_mean=relative,
            )
            return


def _clock(report: Report) -> str:
    return str(report.method.get("clock", ""))


# F02: few digits


def _coarse(report: Report, facts: Facts) -> Iterator[Finding]:
    series = _all_series(report)
    # A sum of steps is a multiple of whatever the steps are.
    readings = sensible(run.wall for run in report.runs if not run.step_seconds)
    if len(readings) >= 3 and all(_is_multiple_of_tenths(number) for number in readings):
        yield unusual(
            f"All {len(readings)} readings are multiples of 0.1 s, such as {_texts(readings, 3)}. Were they rounded, "
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
            f"The readings of {worst.group.name} are told in steps of {_seconds(worst.tick)}, "
            f"{worst.relative_tick:.2g} of their mean of {_seconds(worst.mean)} (advised: at most {COARSE:g}). "
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
    for readings, one, many in (
        (walls, "reading", "readings"),
        (steps, "entry of step_s", "entries of step_s"),
    ):
        tick = resolution((number for _, number in readings), _clock(report))
        enough = [
            (place, number)
            for place, number in readings
            if ticks_in(number.value, max(tick, number.ulp)) >= 10 ** (SHARED_DIGITS - 1)
        ]
        places = Counter(key(number.value) for _, number in enough)
        repeats = sum(count - 1 for count in places.values())
        if not repeats:
            continue
        expected = equal_by_chance((number.value for _, number in enough), tick)
        chance = at_least(repeats, expected)
        if chance >= CHANCE:
            continue
        what = one if repeats == 1 else many
        value, _ = places.most_common(1)[0]
        where = {place for place, number in enough if key(number.value) == value}
        message = (
            f"{repeats} {what} of {SHARED_DIGITS} and more digits {'occurs' if repeats == 1 else 'occur'} again, such as "
            f"{_texts(number for _, number in enough if key(number.value) == value)}"
            f"{_where(report, sorted(where)) if readings is walls else ''}. Chance makes {expected:.2g} such repeats among {len(enough)} "
            f"readings that a clock with a resolution of {_seconds(tick)} took. Was a run counted twice, or a line "
            "pasted into the wrong configuration? List every run once, under the configuration it was taken with."
        )
        if repeats >= SHARED_TO_FAIL and chance < CHANCE_TO_FAIL:
            yield inconsistent(message, repeats=repeats, expected=expected)
        else:
            yield unusual(message, repeats=repeats, expected=expected)


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


# F04 and F06: readings that lie too evenly


def _even(report: Report, facts: Facts) -> Iterator[Finding]:
    series = _all_series(report, least=3)
    told = [each for each in series if _progression(each) * len(series) < CHANCE]
    if told:
        first = told[0]
        ordered = sorted(first.numbers, key=lambda number: number.value)
        yield unusual(
            f"The readings of {_named(told)} are evenly spaced when sorted: {_texts(ordered)}. Differences, or ratios, "
            f"of neighbours agree to {_seconds(first.step)}. Honest series of seven decimals never showed it, of four "
            "decimals 0.03 %. Do the readings stand for something else than the clock's differences, such as a "
            "running total?",
            configurations=len(told),
            resolution_s=first.step,
        )


def _progression(series: _Series) -> float:
    """How likely readings of this range are to form an arithmetic or a geometric sequence as good as these do."""
    ordered = sorted(series.values)
    best = 1.0
    for values, step in (
        (ordered, series.step),
        ([math.log(value) for value in ordered], series.step / ordered[0]),
    ):
        gaps = [after - before for before, after in pairwise(values)]
        off = max(abs(after - before) for before, after in pairwise(gaps))
        best = min(best, _chance_of(off, values[-1] - values[0], step, len(values) - 2))
    return min(1.0, 2 * best)


def _chance_of(off: float, span: float, step: float, conditions: int) -> float:
    """How likely so many readings within `span` are to fall where they have to, within `off` or a tick and a half."""
    ticks = round(off / step)
    if ticks > 1 or span < step / 2 or conditions < 1:
        return 1.0
    return float(min(1.0, (2 * ticks + 1) * step / span) ** conditions)


def _mirrored(report: Report, facts: Facts) -> Iterator[Finding]:
    series = _all_series(report, least=5)
    told = [
        each
        for each in series
        if _mirror(each) * len(series) < CHANCE and _progression(each) * len(series) >= CHANCE
    ]
    if told:
        first = told[0]
        middle = statistics.median(first.values)
        yield unusual(
            f"The readings of {_named(told)} lie mirrored about their median: "
            f"{', '.join(f'{value - middle:+.6g}' for value in sorted(first.values)[:7])} s around {middle:.9g} s. "
            "Timings have a long tail on the slow side; 0.5 % of honest reports show this at four decimals and none "
            "at seven. Are these the readings of the clock itself?",
            configurations=len(told),
            median_s=middle,
        )


def _mirror(series: _Series) -> float:
    ordered = sorted(series.values)
    middle = statistics.median(ordered)
    half = len(ordered) // 2
    sums = [low + high for low, high in zip(ordered[:half], reversed(ordered), strict=False)]
    # For an even number the innermost two make the median.
    conditions = half if len(ordered) % 2 else half - 1
    if conditions < 2:
        return 1.0
    return _chance_of(max(abs(each - 2 * middle) for each in sums), series.range, series.step, conditions)


# F05: one configuration computed from another


def _derived(report: Report, facts: Facts) -> Iterator[Finding]:
    series = [each for each in _all_series(report, least=3) if not each.all_equal][:MAX_GROUPS]
    pairs = max(1, len(series) * (len(series) - 1) // 2)
    for one, other in combinations(series, 2):
        how, off, chance = _fit(one, other)
        if off >= MAX_DEVIATION or chance * pairs >= CHANCE:
            continue
        message = (
            f"The readings of {other.group.name} are those of {one.group.name} {how}, in every run to "
            f"{off:.1g} of the reading: {_texts(other.numbers, 3)} from {_texts(one.numbers, 3)}. Runs vary by "
            f"{one.range / one.mean:.2g} here, each in its own way; the closest of 200,000 honest pairs differ by 1.9e-4. "
            "Was one configuration worked out from the other, per step or per device? List what the clock gave."
        )
        if chance * pairs < CHANCE_TO_FAIL * 10:
            yield inconsistent(message, deviation=off, chance=chance * pairs)
        else:
            yield unusual(message, deviation=off, chance=chance * pairs)
        return


def _fit(one: _Series, other: _Series) -> tuple[str, float, float]:
    """How `other` comes from `one`, by how much of a reading it is off at most, and how likely that is."""
    pairs = list(zip(one.values, other.values, strict=False))
    ratio = statistics.fmean(b / a for a, b in pairs)
    scaled = max(abs(b / a / ratio - 1) for a, b in pairs)
    offset = statistics.fmean(b - a for a, b in pairs)
    shifted = max(abs(b - a - offset) / b for a, b in pairs)
    how, off = (f"times {ratio:.6g}", scaled) if scaled <= shifted else (f"plus {offset:.6g} s", shifted)
    finest = max(one.step / one.mean, other.step / other.mean) / 2
    spread = min(relative_spread(one.values), relative_spread(other.values))
    close = 2 * max(off, finest)
    return how, off, (close / spread) ** (len(pairs) - 1) if close < spread else 1.0


# F07: last digits


def _last_digits(report: Report, facts: Facts) -> Iterator[Finding]:
    tick = report_tick(report)
    # Wide enough for the last digit to take every value.
    series = [each for each in _all_series(report) if each.range >= 10 * each.tick]
    numbers = [number for each in series for number in each.numbers]
    if len(numbers) < MIN_LAST_DIGITS:
        return
    place = min(number.ulp for number in numbers)
    if tick > 1.5 * place:
        return  # Digits that come from the clock's tick: multiples of 1/64 s end in 5.
    digits = [round(number.value / place) % 10 for number in numbers]
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
        for each in _all_series(report, least=3)
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


# F10: efficiency of exactly one


def _exact_efficiency(report: Report, facts: Facts) -> Iterator[Finding]:
    for claim in report.claims:
        if claim.what not in ("efficiency", "speedup") or claim.base is None:
            continue
        fast, base = report.selected(claim.config), report.selected(claim.base)
        if len(fast) != 1 or len(base) != 1 or fast[0] is base[0]:
            continue
        groups = (fast[0], base[0])
        if any(len(sensible(run.wall for run in group.runs)) < len(group.runs) for group in groups):
            continue
        n, n_base = _devices(report, fast[0].config), _devices(report, base[0].config)
        if n is None or n_base is None or n <= n_base:
            continue
        ideal = 1.0 if claim.what == "efficiency" else n / n_base
        stated = claim.value is not None and claim.value.value == ideal and claim.value.ulp <= EXACTLY_ONE
        tick = report_tick(report)
        fine = all(tick / group.mean <= EXACTLY_ONE for group in groups)
        ratios = [a / b * n_base / n for a, b in zip(fast[0].throughputs, base[0].throughputs, strict=True)]
        measured = fine and any(abs(ratio - 1) <= EXACTLY_ONE for ratio in ratios)
        if stated or measured:
            yield unusual(
                f"{claim.name}: the efficiency is 1 to six decimals, speedup {n / n_base:g} on {n / n_base:g} times as "
                "many devices. Of 552 published results 93 % lie between 0.5 and 1.02, and none stays put to six decimals "
                "from run to run. Were the readings divided by the number of "
                "devices before they were noted?",
                efficiency=1.0,
                devices=n,
            )
            return


def _devices(report: Report, config: Config) -> int | None:
    name = {"ddp_scaling": "world_size", "dp_inference": "n_devices", "lightning": "devices"}.get(report.kind)
    count = None if name is None else report.setting(config, name)
    return count if isinstance(count, int) and not isinstance(count, bool) else None


# F12: numbers from elsewhere


def _known(report: Report, facts: Facts) -> Iterator[Finding]:
    stated = {_plain(claim.value) for claim in report.claims if claim.value is not None}
    stated = {number for number in stated if _significant(number) >= 2}
    # Readings are many, and short ones meet any table.
    stated |= {number for run in report.runs if _significant(number := _plain(run.wall)) >= 4}
    for table in facts.known_tables:
        numbers = {number for text in table if _significant(number := _plain(Number(text))) >= 2}
        same = sorted(numbers & stated)
        if len(same) >= KNOWN_NUMBERS and sum(map(_significant, same)) >= KNOWN_DIGITS:
            yield unusual(
                f"{len(same)} numbers are those of a table that can be read elsewhere: "
                f"{', '.join(f'{number:f}' for number in same[:5])}. Are they quoted for comparison? Then they belong "
                "into answers; claims and runs are for what was measured here.",
                numbers=len(same),
            )
            return


def _plain(number: Number) -> Decimal:
    # Beyond these, normalising overflows.
    return Decimal(number.text).normalize() if 1e-30 < abs(number.value) < 1e30 else Decimal(0)


def _significant(number: Decimal) -> int:
    return len(number.as_tuple().digits) if number else 0


# F14: starts on a grid


def _grid(report: Report, facts: Facts) -> Iterator[Finding]:
    starts = sorted(run.t_start for run in report.runs)
    if len(starts) >= 5 and all(start == math.floor(start) for start in starts):
        yield unusual(
            f"All {len(starts)} runs start at a whole second. Was t_start rounded, or does a timetable start the runs? "
            "Note time.time() as it is, just before the timed region.",
            starts=len(starts),
        )
        return
    gaps = [after - before for before, after in pairwise(starts)]
    alike = sum(abs(after - before) < GAP_S and after > 0 for before, after in pairwise(gaps))
    # Rounded starts, or those of a coarse clock, are equally far apart now and then.
    coarse = all(_on_a_tick(start) for start in starts)
    if alike >= 3 and (not coarse or alike == len(gaps) - 1 >= 6):
        yield unusual(
            f"{alike + 1} runs follow each other at equal distances: gaps between starts agree to "
            f"{GAP_S * 1e6:g} microsecond (the first gap is {gaps[0]:.6f} s). Runs take their own time, so their starts "
            "drift. Does a timetable start them, or was t_start worked out?",
            alike=alike,
        )


def _on_a_tick(start: float) -> bool:
    return start < 1e12 and any(abs(start * rate - round(start * rate)) < 1e-3 for rate in (64, 1000))


_CHANCE = (
    f"told where fewer than {CHANCE:g} of honest reports show it by chance, given the clock's resolution"
)

RULES: tuple[Rule, ...] = (
    Rule(
        "F01",
        "The runs of a configuration differ from each other.",
        f"all readings (3 or more) equal where resolution / mean <= {FINE:g} (five readings, or two configurations), or "
        f"<= {FINE_ALONE:g}: inconsistent; with fewer digits: unusual, {_CHANCE}",
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
        f"chance below {CHANCE_TO_FAIL:g}: inconsistent; fewer: unusual, {_CHANCE}",
        "Independent readings repeat as often as their density says; the count is compared with that (Poisson).",
        "By construction below the chance named; multiples of one tick never count.",
        _shared,
    ),
    Rule(
        "F04",
        "Readings are not evenly spaced.",
        f"sorted, they form an arithmetic or geometric sequence to within a tick: unusual, {_CHANCE}",
        "Numbers made up by hand or in a loop are.",
        "0.63 % of series at 2 decimals, 0.03 % at 4, none at 7, before chance is asked.",
        _even,
    ),
    Rule(
        "F05",
        "A configuration is not worked out from another.",
        f"one times a factor, or plus a constant, gives the other in all runs to < {MAX_DEVIATION:g}, and a chance below "
        f"{CHANCE_TO_FAIL * 10:g}: inconsistent; below {CHANCE:g}: unusual",
        "The noise of two measurements is independent.",
        "0 of 200,000 pairs; the closest differ by 1.9e-4.",
        _derived,
    ),
    Rule(
        "F06",
        "Readings do not lie mirrored about their median.",
        f"five or more readings, each as far below the median as another is above, to within a tick: unusual, {_CHANCE}",
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
    Rule(
        "F10",
        "No efficiency is one to six decimals.",
        f"efficiency within {EXACTLY_ONE:g} of 1, stated or computed from the runs: unusual",
        "Efficiencies near 1 occur, and scatter by per cents.",
        "Median 0.967 of 552 public results, spread over several per cent: about one report in 50,000.",
        _exact_efficiency,
    ),
    F11,
    Rule(
        "F12",
        "Numbers were measured, not read elsewhere.",
        f"{KNOWN_NUMBERS} or more numbers, together of {KNOWN_DIGITS} or more digits, equal to those of one table that the "
        "course keeps: unusual. Claims count from two digits, readings from four",
        "Tables of lectures and web pages are at hand.",
        "A coincidence of three claims takes few digits and luck; it costs nothing.",
        _known,
    ),
    Rule(
        "F14",
        "Runs start when the one before has ended, not on a grid.",
        f"five or more starts at whole seconds, or four or more starts with gaps that agree to {GAP_S:g} s: unusual "
        "(seven, all of them, where starts are multiples of 1/64 s or of a millisecond)",
        "time.time() has six decimals, and no two runs take equally long.",
        "Runs that a timetable (cron) starts are on a grid.",
        _grid,
    ),
)
