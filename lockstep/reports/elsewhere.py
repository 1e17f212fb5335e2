"""Rules on numbers that no clock gave: an efficiency of exactly one, a table from elsewhere, starts by a timetable."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise

from lockstep.reports.counts import device_count
from lockstep.reports.document import Number, Report
from lockstep.reports.finding import Finding, unusual
from lockstep.reports.recompute import the_group
from lockstep.reports.resolution import sensible
from lockstep.reports.rule import Facts, Rule
from lockstep.reports.series import report_tick

EXACTLY_ONE = 1e-6
KNOWN_NUMBERS = 3
KNOWN_DIGITS = 6
GAP_S = 1e-6


# F10: efficiency of exactly one


def _exact_efficiency(report: Report, facts: Facts) -> Iterator[Finding]:
    for claim in report.claims:
        if claim.what not in ("efficiency", "speedup") or claim.base is None:
            continue
        fast, base = the_group(report, claim.config), the_group(report, claim.base)
        if fast is None or base is None or fast is base:
            continue
        groups = (fast, base)
        if any(len(sensible(run.wall for run in group.runs)) < len(group.runs) for group in groups):
            continue
        n, n_base = device_count(report, fast.config), device_count(report, base.config)
        if n is None or n_base is None or n <= n_base:
            continue
        ideal = 1.0 if claim.what == "efficiency" else n / n_base
        stated = claim.value is not None and claim.value.value == ideal and claim.value.ulp <= EXACTLY_ONE
        tick = report_tick(report)
        fine = all(tick / group.mean <= EXACTLY_ONE for group in groups)
        ratios = [a / b * n_base / n for a, b in zip(fast.throughputs, base.throughputs, strict=True)]
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
                f"{', '.join(f'{number:.6g}' for number in same[:5])}. Are they quoted for comparison? Then they belong "
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


RULES: tuple[Rule, ...] = (
    Rule(
        "F10",
        "No efficiency is one to six decimals.",
        f"efficiency within {EXACTLY_ONE:g} of 1, stated or computed from the runs: unusual",
        "Efficiencies near 1 occur, and scatter by per cents.",
        "Median 0.967 of 552 public results, spread over several per cent: about one report in 50,000.",
        _exact_efficiency,
    ),
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
