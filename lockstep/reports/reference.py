"""Rules that hold a report against the reference's own, measured on the same class of machine.

Nothing here costs points: another box with the same GPU is easily 1.5 times as fast, and another laptop three times.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from functools import cache

from lockstep.reports.between import beside_the_reference
from lockstep.reports.document import Group, Report, config_key
from lockstep.reports.finding import Finding, advice, not_verified, unusual
from lockstep.reports.rule import Facts, Rule

MAX_REFERENCE_CV = 0.10
GPU_BAND, CPU_BAND = (2.0, 3.0), (3.0, 6.0)
"""Ratios of medians up to which nothing is said, and from which a person looks."""
EQUIVALENT = 2.0
MOST_LOG = 300.0
SIGNIFICANCE = 0.05
LEAST_FOR_RANKS = 5
"""Fewer readings a side cannot be significant: with 4 and 4 the smallest two-sided p is 0.029, before Holm."""

# Student's t, two-sided 95 %, by degrees of freedom from 1 on (any statistics textbook).
_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


def _machine(report: Report) -> str:
    """The class of a machine: its GPUs by name, or that it has none."""
    return ", ".join(sorted({gpu.name for gpu in report.gpus})) or "no GPU"


def _pairs(report: Report, reference: Report) -> list[tuple[Group, Group]]:
    """Groups of both reports with the same configuration that did the same amount of work."""
    theirs = {config_key(group.config): group for group in reference.groups}
    found = [(group, theirs.get(config_key(group.config))) for group in report.groups]
    return [
        (own, other)
        for own, other in found
        if other is not None
        and {run.samples for run in own.runs} == {run.samples for run in other.runs}
        and min(*own.seconds, *other.seconds) > 0
    ]


def comparable(report: Report, facts: Facts) -> list[tuple[Group, Group]] | str:
    """The configurations of a report, each with the reference's; or why there is nothing to compare."""
    reference = facts.reference
    if reference is None or reference.kind != report.kind:
        return "There is no reference report of this kind to compare with."
    own, other = _machine(report), _machine(reference)
    if own != other:
        return f"The reference was measured on another class of machine ({other})."
    pairs = _pairs(report, reference)
    noisy = [group for _, group in pairs if _cv(group) > MAX_REFERENCE_CV]
    if noisy:
        return f"The reference's own readings vary by more than {MAX_REFERENCE_CV:.0%}: its machine was not quiet."
    return (
        pairs
        or "The reference has no configuration in common with this report, with the same amount of work."
    )


def _cv(group: Group) -> float:
    deviation = group.deviation(1)
    return deviation / group.mean if deviation is not None and group.mean > 0 else 0.0


def _band(report: Report, facts: Facts) -> Iterator[Finding]:
    pairs = comparable(report, facts)
    if isinstance(pairs, str):
        yield not_verified(f"{pairs} Absolute times are not compared.")
        return
    fine, far = GPU_BAND if report.gpus else CPU_BAND
    for own, other in pairs:
        ratio = own.median / other.median
        distance = max(ratio, 1 / ratio)
        if distance <= fine:
            continue
        told = (
            f"{own.name}: median {own.median:.6g} s, the reference {other.median:.6g} s on the same class of machine, "
            f"{distance:.3g} times as {'long' if ratio > 1 else 'fast'}. "
        )
        if distance > far:
            yield unusual(
                f"{told}Another number of cores, slower storage or work for something else at the time explain such a "
                f"distance at times; between two boxes with the same GPU more than {GPU_BAND[1]:g} was never seen.",
                ratio=ratio,
            )
        else:
            yield advice(f"{told}Was the machine busy with something else, or on battery?", ratio=ratio)


def ratio_interval(own: Sequence[float], other: Sequence[float]) -> tuple[float, float] | None:
    """95 % interval of the ratio of two sets of times, by Welch's t on their logarithms; None below 2 readings."""
    if min(len(own), len(other)) < 2 or min(*own, *other) <= 0:
        return None
    logs = [[math.log(value) for value in values] for values in (own, other)]
    middle = statistics.fmean(logs[0]) - statistics.fmean(logs[1])
    parts = [statistics.variance(values) / len(values) for values in logs]
    error = math.sqrt(sum(parts))
    if error == 0:
        return _ratio(middle), _ratio(middle)
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(values) - 1) for part, values in zip(parts, logs, strict=True)
    )
    # The next lower whole number of degrees of freedom: a little too wide, never too narrow.
    t = _T95[min(max(int(freedom), 1), len(_T95)) - 1]
    return _ratio(middle - t * error), _ratio(middle + t * error)


def _ratio(logarithm: float) -> float:
    # Readings of 1e-30 s and 1e15 s side by side would be beyond floats.
    return math.exp(min(max(logarithm, -MOST_LOG), MOST_LOG))


def _interval(report: Report, facts: Facts) -> Iterator[Finding]:
    pairs = comparable(report, facts)
    if isinstance(pairs, str):
        return
    for own, other in pairs:
        interval = ratio_interval(own.seconds, other.seconds)
        if interval is None:
            continue
        low, high = interval
        settled = (low >= 1 / EQUIVALENT and high <= EQUIVALENT) or low > EQUIVALENT or high < 1 / EQUIVALENT
        if not settled:
            yield advice(
                f"{own.name}: by these readings it takes {low:.3g} to {high:.3g} times as long as the reference (95 % "
                "interval). They vary too much to say more; measure more repetitions on a quiet machine.",
                low=low,
                high=high,
            )


@cache
def _rank_counts(m: int, n: int) -> tuple[int, ...]:
    """In how many orders of m and n readings the first are larger u times, for every u."""
    if m == 0 or n == 0:
        return (1,)
    without_first, without_second = _rank_counts(m - 1, n), _rank_counts(m, n - 1)
    counts = [0] * (m * n + 1)
    for u, count in enumerate(without_first):
        counts[u + n] += count
    for u, count in enumerate(without_second):
        counts[u] += count
    return tuple(counts)


def rank_test(a: Sequence[float], b: Sequence[float]) -> float:
    """Two-sided p of the Mann-Whitney test, exact; equal readings count half, towards no difference.

    Source: Mann and Whitney, Annals of Mathematical Statistics 18 (1947).
    """
    larger = sum((x > y) + 0.5 * (x == y) for x in a for y in b)
    counts = _rank_counts(len(a), len(b))
    extreme = math.ceil(min(larger, len(a) * len(b) - larger))
    return min(1.0, 2 * sum(counts[: extreme + 1]) / sum(counts))


def _direction(report: Report, facts: Facts) -> Iterator[Finding]:
    pairs = comparable(report, facts)
    if isinstance(pairs, str) or not pairs:
        return
    (own_base, base), *others = pairs
    tested = []
    for own, other in others:
        sides = (own, own_base), (other, base)
        if all(
            min(len(a.runs), len(b.runs)) >= LEAST_FOR_RANKS and len(a.runs) + len(b.runs) <= 40
            for a, b in sides
        ):
            worst = max(rank_test(a.seconds, b.seconds) for a, b in sides)
            tested.append((worst, own, own.median / own_base.median, other.median / base.median))
    # Holm: the smallest p against alpha/k, the next against alpha/(k-1), until one fails.
    for place, (p, own, here, there) in enumerate(sorted(tested, key=lambda entry: entry[0])):
        if p > SIGNIFICANCE / (len(tested) - place):
            return
        if (here - 1) * (there - 1) < 0:
            yield advice(
                f"{own.name} takes {here:.3g} times as long as {own_base.name}; in the reference {there:.3g} times, and both "
                "differences are clear. Either can be right: say in your answer what on your machine explains it.",
                here=here,
                there=there,
            )


def _changed(report: Report, facts: Facts) -> Iterator[Finding]:
    reference = facts.reference
    # What the reference's own script measured may be the reference itself.
    if reference is not None and report.code_sha256 != reference.code_sha256:
        yield from beside_the_reference(report, reference)


RULES: tuple[Rule, ...] = (
    Rule(
        id="R01",
        demands="Times are of the size that the reference had on the same class of machine.",
        threshold=f"ratio of medians: nothing up to {GPU_BAND[0]:g} (CPU {CPU_BAND[0]:g}), a person looks above {GPU_BAND[1]:g} "
        f"(CPU {CPU_BAND[1]:g}); nothing where the reference's own readings vary by more than {MAX_REFERENCE_CV:.0%}",
        why="158 comparisons of one GPU model in different boxes (github.com/ryujaehun/pytorch-gpu-benchmark).",
        honest="Above 2 in 0.6 % of these, above 3 never. CPU reports get wider bands: cores and storage are unknown.",
        examine=_band,
    ),
    Rule(
        id="R02",
        demands="The readings are settled enough to be compared with the reference.",
        threshold=f"the 95 % interval of the ratio of times lies within 1/{EQUIVALENT:g} to {EQUIVALENT:g}, or outside; advice only",
        why="Welch's t on log times covers 95 to 96 % at 3, 5 and 10 readings in simulation; bootstrapped means cover 80 %.",
        honest="It never costs anything.",
        examine=_interval,
    ),
    Rule(
        id="R03",
        demands="A configuration that is clearly faster in the reference is not clearly slower here without a word.",
        threshold=f"exact Mann-Whitney test from {LEAST_FOR_RANKS} readings a side on, {SIGNIFICANCE:.0%} after Holm, in both reports; "
        "advice only",
        why="No direction is required: more workers, two GPUs or AMP may well be slower. What is graded is the explanation.",
        honest="It never costs anything.",
        examine=_direction,
    ),
    Rule(
        id="R04",
        demands="Readings are not the reference's with a factor, nor with other numbers between the same times.",
        threshold="as F11 between students, but never more than unusual",
        why="The noise of two measurements is independent; the reference's report may be at hand.",
        honest="None of 3,967 honest pairs of students.",
        examine=_changed,
    ),
)
