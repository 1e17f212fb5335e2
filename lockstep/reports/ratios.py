"""C03, C04, C05: speed-ups, efficiencies and throughputs, from the readings of one configuration or of two."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator

from lockstep.jsontext import Json
from lockstep.reports.counts import device_count
from lockstep.reports.document import Claim, Group, Number, Report
from lockstep.reports.finding import Finding, few, inconsistent, not_verified, unusual
from lockstep.reports.recompute import (
    FLOAT32_SLACK,
    SECONDS,
    Pair,
    Slip,
    Way,
    agrees,
    cause,
    compared,
    figures,
    stated,
    the_group,
    told,
)
from lockstep.reports.rule import Facts, Rule

SLACK_CAP = 0.05
"""The most that rounding of the printed means may excuse, of the value."""
ON_THE_WAY = 0.001
"""What means may have lost, of the value, that were rounded on the way and are printed nowhere."""
SAME_SAMPLES = 0.05
"""The most by which the last batches of an epoch may let numbers of samples differ."""


def throughputs(group: Group) -> tuple[Way, ...]:
    """Samples per second in each way of averaging."""
    mean, median, overall = group.throughputs
    return (
        Way("all samples / all seconds", overall),
        Way("mean over runs", mean),
        Way("median over runs", median),
        Way("fastest run", max(run.throughput for run in group.runs)),
    )


def times(group: Group) -> tuple[Way, ...]:
    """Seconds in each way of averaging."""
    return Way("means", group.mean), Way("medians", group.median), Way("minima", group.minimum)


def same_work(a: Group, b: Group) -> bool:
    """Whether both processed the same samples in a run, up to the last batch of each epoch."""
    work = [sum(run.samples for run in group.runs) / len(group.runs) for group in (a, b)]
    ragged = max(run.samples / run.steps * (run.epochs or 1) for run in (*a.runs, *b.runs))
    return abs(work[0] - work[1]) <= min(ragged, SAME_SAMPLES * max(work))


def speedups(group: Group, base: Group) -> tuple[Way, ...]:
    """How many times as fast as `base`: seconds where both did the same work, samples per second in any case."""
    ways: list[Way] = []
    if same_work(group, base):
        pairs = zip(times(base), times(group), strict=True)
        ways += [Way(f"ratio of {b.words}", _ratio(b.value, g.value)) for b, g in pairs]
    ways += _run_by_run(group, base)
    pairs = zip(throughputs(group), throughputs(base), strict=True)
    ways += [Way(f"ratio of images/s, {g.words}", _ratio(g.value, b.value)) for g, b in pairs]
    return tuple(ways)


def _run_by_run(group: Group, base: Group) -> tuple[Way, ...]:
    """How many times as fast the first run was as the base's first, the second as its second, and so on, on average."""
    if len(group.runs) != len(base.runs):
        return ()
    pairs = zip(group.runs, base.runs, strict=True)
    ratios = [_ratio(own.throughput, other.throughput) for own, other in pairs]
    return (
        Way("mean of the ratios run by run", statistics.fmean(ratios)),
        Way("median of the ratios run by run", statistics.median(ratios)),
    )


def _ratio(a: float, b: float) -> float:
    # S02 tells whoever has readings of 0.
    return a / b if b > 0 else float("nan")


class Printed:
    """How coarsely the means of each configuration are printed, relative to their size."""

    def __init__(self, report: Report, *whats: str) -> None:
        self._ulps: dict[int, float] = {}
        for claim, number in stated(report, *whats):
            group = the_group(report, claim.config)
            if group is not None:
                coarse = number.ulp / abs(number.value) if number.value else 1.0
                key = group.runs[0].index
                self._ulps[key] = max(coarse, self._ulps.get(key, 0.0))

    def slack(self, *groups: Group) -> float:
        """What a ratio of the printed means may differ by, of its value."""
        printed = sum(self._ulps.get(group.runs[0].index, 0.0) for group in groups)
        return min(max(printed, ON_THE_WAY), SLACK_CAP)


def _scaled(ways: tuple[Way, ...], scale: float) -> tuple[Way, ...]:
    return tuple(Way(way.words, way.value * scale) for way in ways)


# C03


def _speedups(report: Report, facts: Facts) -> Iterator[Finding]:
    yield from few(_wrong_speedups(report))


def _wrong_speedups(report: Report) -> Iterator[Finding]:
    printed = Printed(report, *SECONDS, "throughput_ips")
    for claim, number in stated(report, "speedup"):
        yield from _unless_one_fits(
            _wrong_speedup(claim, number, pair, printed.slack(*pair)) for pair in compared(report, claim)
        )


def _unless_one_fits(findings: Iterable[Finding | None]) -> Iterator[Finding]:
    """What is wrong with the first base that can be meant, where something is with each of them."""
    each = list(findings)
    wrong = [finding for finding in each if finding is not None]
    if len(wrong) == len(each):
        yield from wrong[:1]


def _wrong_speedup(claim: Claim, number: Number, pair: Pair, slack: float) -> Finding | None:
    scale = 100.0 if claim.unit == "%" else 1.0
    ways = _scaled(speedups(*pair), scale)
    if agrees(number, ways, slack):
        return None
    otherwise = "Was a run added or left out after it was worked out, or another base meant?"
    if not same_work(*pair):
        otherwise = "The two processed different numbers of samples, so seconds do not compare: take images per second."
    return inconsistent(
        f"{claim.name}: {_of_two(pair)}; a speed-up is the base's seconds over its own, here "
        f"{told(ways)}. {cause(number, _speedup_slips(ways, pair, scale), otherwise)}",
        claimed=number.value,
        recomputed=figures(ways),
    )


def _of_two(pair: Pair) -> str:
    group, base = pair
    return (
        f"mean {group.mean:.6g} s for {group.runs[0].samples} samples, with the base {base.mean:.6g} s for "
        f"{base.runs[0].samples}"
    )


def _speedup_slips(ways: tuple[Way, ...], pair: Pair, scale: float) -> list[Slip]:
    turned = "It is the other way round, its own seconds over the base's: turn the fraction over."
    percent = 'It is in percent: divide by 100, or say "unit": "%".'
    return [
        *(Slip(_ratio(scale * scale, way.value), turned) for way in ways),
        *(Slip(way.value * 100, percent) for way in ways if scale == 1),
        *(
            Slip(way.value - scale, "It is what was gained: add 1, a speed-up of 1 is no change.")
            for way in ways
        ),
        *(
            Slip((way.value - 1) * 100, "It is the gain in percent: a speed-up of 1 is no change.")
            for way in ways
            if scale == 1
        ),
        *(
            Slip(_ratio(base.value, own.value) * scale, _SECONDS_OF_OTHER_WORK)
            for own, base in zip(times(pair[0]), times(pair[1]), strict=True)
        ),
    ]


_SECONDS_OF_OTHER_WORK = (
    "It is a ratio of seconds, but the two processed different numbers of samples: take images per second."
)


# C04


def _efficiencies(report: Report, facts: Facts) -> Iterator[Finding]:
    yield from few(_wrong_by_devices(report, "efficiency", _wrong_efficiency))
    yield from few(_wrong_by_devices(report, "serial_fraction", _wrong_fraction))


def _devices(report: Report, pair: Pair) -> tuple[int, int] | None:
    """Devices of a configuration and of its base."""
    n, base = (device_count(report, group.config) for group in pair)
    return None if n is None or base is None else (n, base)


def _wrong_by_devices(
    report: Report,
    what: str,
    wrong: Callable[[Claim, Number, Pair, tuple[int, int] | None, float], Finding | None],
) -> Iterator[Finding]:
    """What is wrong with each claim that divides by devices."""
    printed = Printed(report, *SECONDS, "throughput_ips", "speedup")
    for claim, number in stated(report, what):
        yield from _unless_one_fits(
            wrong(claim, number, pair, _devices(report, pair), printed.slack(*pair))
            for pair in compared(report, claim)
        )


def _wrong_efficiency(
    claim: Claim, number: Number, pair: Pair, counts: tuple[int, int] | None, slack: float
) -> Finding | None:
    if counts is None:
        return not_verified(f"{claim.name}: this kind of report has no number of devices to divide by.")
    n, n_base = counts
    fractions = _scaled(speedups(*pair), n_base / n)
    # Without a unit, both a fraction and a percentage can be meant.
    ways = tuple(way for scale in _scales(claim) for way in _scaled(fractions, scale))
    if agrees(number, ways, slack):
        return None
    slips = [
        *(Slip(way.value * n / n_base, "It is the speed-up: divide it by the devices.") for way in ways),
        *(Slip(way.value * 100, 'It is in percent: divide by 100, or say "unit": "%".') for way in fractions),
        *(Slip(way.value / 100, "It is a fraction: the unit is 1, not %.") for way in ways),
        *(Slip(_ratio(1, way.value), "It is the other way round: turn it over.") for way in fractions),
    ]
    return inconsistent(
        f"{claim.name}: {_of_two(pair)}; efficiency is speed-up x devices of the base / devices = speed-up x {n_base} / "
        f"{n}, here {told(ways)}. "
        + cause(number, slips, "Does it go with an earlier speed-up? Work it out again from the readings."),
        claimed=number.value,
        recomputed=figures(ways),
    )


def _scales(claim: Claim) -> tuple[float, ...]:
    return {"%": (100.0,), None: (1.0, 100.0)}.get(claim.unit, (1.0,))


def _wrong_fraction(
    claim: Claim, number: Number, pair: Pair, counts: tuple[int, int] | None, slack: float
) -> Finding | None:
    if counts is None or counts[1] != 1 or counts[0] < 2:
        return not_verified(
            f"{claim.name}: a serial fraction is worked out from one device and several only."
        )
    n = counts[0]
    # A speed-up that is off by a little moves the fraction by a lot.
    fits = any(
        number.agrees_with(fraction * scale, (slack + FLOAT32_SLACK) * slope * way.value * scale)
        for scale in _scales(claim)
        for way in speedups(*pair)
        for fraction, slope in _fractions(way.value, n)
    )
    if fits:
        return None
    karp_flatt = [Way(way.words, _fractions(way.value, n)[0][0]) for way in speedups(*pair)]
    return not_verified(
        f"{claim.name}: from these two configurations (1/S - 1/N) / (1 - 1/N) is {told(karp_flatt)}, and Gustafson's "
        "(N - S) / (N - 1) is another. Was a curve fitted through more of them? That cannot be repeated.",
        claimed=number.value,
    )


def _fractions(speedup: float, n: int) -> tuple[tuple[float, float], ...]:
    """The serial fraction after Karp and Flatt, and after Gustafson, and how each moves with the speed-up."""
    inverse = _ratio(1.0, speedup)
    return (
        ((inverse - 1 / n) / (1 - 1 / n), inverse * inverse / (1 - 1 / n)),
        ((n - speedup) / (n - 1), 1 / (n - 1)),
    )


# C05


def _throughputs(report: Report, facts: Facts) -> Iterator[Finding]:
    yield from few(_wrong_throughputs(report))


def _wrong_throughputs(report: Report) -> Iterator[Finding]:
    printed = Printed(report, *SECONDS)
    for claim, number in stated(report, "throughput_ips"):
        group = the_group(report, claim.config)
        if group is None or agrees(number, throughputs(group), printed.slack(group)):
            continue
        ways = throughputs(group)
        slip = _unit_slip(report, group, number, ways)
        said = f"{claim.name}: samples / wall_s = {group.runs[0].samples} / {group.mean:.6g} s = {told(ways)} images/s. "
        numbers: dict[str, Json] = {"claimed": number.value, "recomputed": figures(ways)}
        if slip and _a_framework_logged(report):
            yield unusual(
                f"{said}{slip} Frameworks log it so (Hugging Face's Trainer counts samples of one process), "
                "hence this costs nothing; claims are images of all processes a second.",
                **numbers,
            )
            continue
        otherwise = "Are warm-up or evaluation in one of the two and not in the other, or the padding of the last batch?"
        yield inconsistent(said + (slip or otherwise), **numbers)


def _a_framework_logged(report: Report) -> bool:
    return report.kind == "lightning" or "lightning" in report.env


def _unit_slip(report: Report, group: Group, number: Number, ways: tuple[Way, ...]) -> str:
    """What was counted instead of images, if that explains the number."""
    run = group.runs[0]
    devices = device_count(report, group.config) or 1
    n = devices if devices > 1 else 0
    slips = [
        *(
            Slip(way.value * run.steps / run.samples, "It counts steps, not images, a second.")
            for way in ways
        ),
        *(Slip(_ratio(way.value, n), "It counts the images of one process.") for way in ways if n),
        *(Slip(way.value * n, "It counts the images of every process for all of them.") for way in ways if n),
        *(Slip(_ratio(1, way.value), "It is seconds for an image.") for way in ways),
        *(Slip(way.value / 1000, "It is in thousands of images a second.") for way in ways),
    ]
    return cause(number, slips, "")


RULES: tuple[Rule, ...] = (
    Rule(
        id="C03",
        demands="A speed-up is the base's time over its own, for the same work.",
        threshold="less than one unit in the last place, plus what rounding of the printed means can do (at least "
        f"{ON_THE_WAY:.1%} for means that are not printed, at most {SLACK_CAP:.0%}); ratio of means, medians, minima or throughputs, "
        "or mean or median of the ratios run by run",
        why="Students work ratios out from the readings or from printed means; all of it is right. Seconds compare only "
        "where both processed the same samples, up to the last batch of each epoch.",
        honest="Low: means printed with one digit, which the slack is for.",
        examine=_speedups,
    ),
    Rule(
        id="C04",
        demands="Efficiency is speed-up x devices of the base / devices.",
        threshold="as for speed-ups; a serial fraction that fits neither Karp and Flatt's nor Gustafson's formula is not "
        "verified",
        why="Karp and Flatt, Measuring Parallel Processor Performance, CACM 33(5), 1990; Gustafson, CACM 31(5), 1988.",
        honest="None known.",
        examine=_efficiencies,
    ),
    Rule(
        id="C05",
        demands="Throughput is samples over seconds.",
        threshold="less than one unit in the last place, plus what rounding of the printed mean can do; all samples over "
        "all seconds, or mean, median or best of the runs",
        why="Each of these is a throughput. Where a framework logs it, steps or the images of one process are a known slip, "
        "and costs nothing.",
        honest="Low: frameworks that include warm-up in one of the two.",
        examine=_throughputs,
    ),
)
