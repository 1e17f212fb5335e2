"""Rules on claims: every number that a student states is worked out again from the readings.

Which configuration a claim is about (C00), statistics of its readings (C01, C02), accuracies (C09) and the numbers
of a plot (C12) are here; ratios are in `ratios`, what a student concludes in `conclusions`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from lockstep.jsontext import Json
from lockstep.reports import conclusions, ratios
from lockstep.reports.document import (
    FIRST_DIGIT,
    ROUNDED,
    Claim,
    Config,
    Group,
    Number,
    Report,
    named,
    same_setting,
)
from lockstep.reports.finding import Finding, advice, few, inconsistent, not_verified
from lockstep.reports.recompute import (
    FLOAT32_SLACK,
    SECONDS,
    SEVERAL,
    Slip,
    Way,
    agrees,
    bases_of,
    cause,
    meant_as_base,
    of_same_config,
    stated,
    the_group,
    told,
)
from lockstep.reports.rule import Facts, Rule

PLOT_SLACK = 0.001
"""Of the seconds that are drawn."""
PLOT_PLACE = 0.1
"""Of the seconds: the coarsest last place that figures may be rounded to for a plot, which leaves two digits."""
MIB = 1 << 20


# C00: which configuration a claim is about


def _selections(report: Report, facts: Facts) -> Iterator[Finding]:
    yield from few(_unselected(report))


def _unselected(report: Report) -> Iterator[Finding]:
    for claim in report.claims:
        groups = report.selected(claim.config)
        if not groups:
            # A search for the largest batch need not have been timed.
            if claim.what != "max_batch" or not conclusions.trials(report, claim.config):
                yield inconsistent(f"{claim.name}: {_no_such(report, claim.config)}", selected=0)
            continue
        group = the_group(report, claim.config)
        if group is None and claim.what not in SEVERAL:
            yield inconsistent(f"{claim.name}: {_several(report, groups)}", selected=len(groups))
        elif claim.base is not None:
            yield from _unselected_base(report, claim, claim.base, group or groups[0])


def _unselected_base(report: Report, claim: Claim, base: Config, group: Group) -> Iterator[Finding]:
    selected = report.selected(base)
    if not selected:
        yield inconsistent(f"{claim.name}, base: {_no_such(report, base)}", selected=0)
    elif claim.what not in SEVERAL and not meant_as_base(report, base, group):
        several = bases_of(report, base, group) or selected
        yield inconsistent(f"{claim.name}, base: {_several(report, several)}", selected=len(selected))


def _no_such(report: Report, config: Config) -> str:
    """Why nothing is selected: the nearest configuration, and in what it differs."""

    def differing(group: Group) -> dict[str, Json]:
        return {
            key: value
            for key, value in config.items()
            if not same_setting(report.setting(group.config, key), value)
        }

    nearest = min(report.groups, key=lambda group: len(differing(group)))
    seen = {key: report.setting(nearest.config, key) for key in differing(nearest)}
    return (
        f"no run has this configuration. The nearest has {named(seen)} instead of {named(differing(nearest))}. Is it a slip, "
        "or were its runs left out? A claim repeats settings as the runs have them."
    )


def _several(report: Report, groups: Sequence[Group]) -> str:
    keys = sorted({key for group in groups for key in group.config})
    differing = [
        key
        for key in keys
        if any(
            not same_setting(report.setting(group.config, key), report.setting(groups[0].config, key))
            for group in groups
        )
    ]
    return (
        f"{len(groups)} configurations fit, for example ({groups[0].name}) and ({groups[-1].name}), so it is open which is "
        f"meant. They differ in {', '.join(differing[:4])}. Give the claim every setting that the runs it is about have, and "
        "no other: what repeats a whole configuration is that one, also where others fit, too."
    )


# C01: seconds and memory


def _statistics(report: Report, facts: Facts) -> Iterator[Finding]:
    yield from few(_wrong_seconds(report))
    yield from few(_wrong_memory(report))


def _statistic(group: Group, what: str) -> Way:
    values = {"mean_s": group.mean, "median_s": group.median, "min_s": group.minimum}
    words = {"mean_s": "mean", "median_s": "median", "min_s": "minimum"}
    return Way(words[what], values[what])


def _wrong_seconds(report: Report) -> Iterator[Finding]:
    for claim, number in stated(report, *SECONDS):
        group = the_group(report, claim.config)
        if group is None:
            continue
        way = _statistic(group, claim.what)
        if not agrees(number, [way]):
            yield inconsistent(
                f"{claim.name}: the {way.words} of its {len(group.runs)} readings is {way.value:.8g} s. "
                + cause(
                    number,
                    list(_slips_of_seconds(report, group, claim.what)),
                    "Was a run added or left out after this was worked out, or wall_s rounded?",
                ),
                claimed=number.value,
                recomputed=way.value,
            )


def _slips_of_seconds(report: Report, group: Group, what: str) -> Iterator[Slip]:
    value, run = _statistic(group, what).value, group.runs[0]
    for other in (_statistic(group, name) for name in SECONDS if name != what):
        yield Slip(other.value, f"It is their {other.words}: is the claim mislabelled?")
    yield Slip(value * 1e3, "It is in milliseconds: claims are in seconds.")
    yield Slip(value * 1e6, "It is in microseconds: claims are in seconds.")
    yield Slip(value / 60, "It is in minutes: claims are in seconds.")
    yield Slip(value / run.steps, "It is the time of one step: claims are about whole runs, as wall_s is.")
    yield Slip(
        value / (run.epochs or 1), "It is the time of one epoch: claims are about whole runs, as wall_s is."
    )
    yield Slip(
        value / 1e3, "The readings are 1000 times as long: is wall_s in milliseconds? It is in seconds."
    )
    yield Slip(value * 60, "The readings are a 60th of it: is wall_s in minutes? It is in seconds.")
    yield Slip(sum(group.seconds), "It is the sum over the runs: claims are about one run.")
    discarded = tuple(
        replace(run, wall=Number(str(entry["wall_s"])))
        for entry in report.discarded
        if "wall_s" in entry and of_same_config(report, group, entry["config"])
    )
    if discarded:
        with_them = _statistic(Group(group.config, group.runs + discarded), what)
        yield Slip(
            with_them.value, "It counts the discarded runs: leave them out, or move them back to runs."
        )


def _wrong_memory(report: Report) -> Iterator[Finding]:
    for claim, number in stated(report, "peak_alloc_mib"):
        group = the_group(report, claim.config)
        if group is None:
            continue
        peaks = [run.peak_alloc_bytes for run in group.runs if run.peak_alloc_bytes is not None]
        batch = report.setting(group.config, "batch_size")
        peaks += [
            trial.peak_alloc_bytes
            for trial in conclusions.trials(report, group.config)
            if trial.peak_alloc_bytes is not None and trial.ok and trial.batch_size == batch
        ]
        if not peaks:
            yield not_verified(f"{claim.name}: its runs have no peak_alloc_bytes.")
            continue
        ways = [
            Way("largest", max(peaks) / MIB),
            *(Way("of one run", peak / MIB) for peak in peaks),
            Way("mean", sum(peaks) / len(peaks) / MIB),
        ]
        if not agrees(number, ways):
            slips = [
                *(Slip(way.value * MIB / 1e6, "It is in MB of 1,000,000 bytes: divide by 2**20.") for way in ways),
                *(Slip(way.value / 1024, "It is in GiB: claims are in MiB.") for way in ways),
                *(Slip(way.value * MIB, "It is in bytes: divide by 2**20.") for way in ways),
            ]  # fmt: skip
            yield inconsistent(
                f"{claim.name}: peak_alloc_bytes / 2**20 is {ways[0].value:.6g} MiB at most. "
                + cause(number, slips, "Is it the memory reserved, or that of another configuration?"),
                claimed=number.value,
                recomputed=ways[0].value,
            )


# C02: standard deviations


def _deviations(report: Report, facts: Facts) -> Iterator[Finding]:
    yield from few(_wrong_deviations(report))


def _wrong_deviations(report: Report) -> Iterator[Finding]:
    for claim, number in stated(report, "std_s"):
        group = the_group(report, claim.config)
        if group is None:
            continue
        n, by_ddof = len(group.runs), {ddof: group.deviation(ddof) for ddof in (0, 1)}
        # Taking the mean off costs digits that a float32 does not have.
        slack = FLOAT32_SLACK * group.mean
        fitting = [
            ddof
            for ddof, value in by_ddof.items()
            if value is not None and number.agrees_with(value, slack + FLOAT32_SLACK * value)
        ]
        ways = [Way(f"ddof {ddof}", value) for ddof, value in by_ddof.items() if value is not None]
        if not fitting:
            slips = [
                *(Slip(way.value / math.sqrt(n), "It is the standard error, divided by sqrt(n).") for way in ways),
                *(Slip(way.value**2, "It is the variance: take its square root.") for way in ways),
                *(Slip(way.value * 1e3, "It is in milliseconds: claims are in seconds.") for way in ways),
                *(Slip(way.value / 1e3, "Is wall_s in milliseconds? It is in seconds.") for way in ways),
                *(Slip(way.value * 60, "Is wall_s in minutes? It is in seconds.") for way in ways),
                Slip(max(group.seconds) - group.minimum, "It is the range, largest less smallest."),
            ]  # fmt: skip
            yield inconsistent(
                f"{claim.name}: the standard deviation of its {n} readings is {told(ways)} s. "
                + cause(
                    number, slips, "Was a run added or left out after this was worked out, or wall_s rounded?"
                ),
                claimed=number.value,
                recomputed=[way.value for way in ways],
            )
        elif (claim.ddof or 0) not in fitting:
            said = (
                "does not say so: ddof 0 is assumed then" if claim.ddof is None else f"says ddof {claim.ddof}"
            )
            yield advice(
                f"{claim.name} is the standard deviation with ddof {fitting[0]}, and the claim {said}. They "
                f"differ by a factor sqrt(n / (n - 1)) = {math.sqrt(n / max(n - 1, 1)):.4f}; numpy.std divides by n, "
                "torch.std and statistics.stdev by n - 1.",
                ddof=fitting[0],
            )


# C09: accuracies


def _accuracies(report: Report, facts: Facts) -> Iterator[Finding]:
    yield from few(_wrong_accuracies(report))


def _wrong_accuracies(report: Report) -> Iterator[Finding]:
    for claim, number in stated(report, "accuracy_pct", "acc5_pct"):
        correct, total = claim.correct, claim.total
        if correct is not None and total is not None and correct > total:
            yield inconsistent(
                f"{claim.name}: {correct} of {total} predictions cannot be right. Were correct and total swapped?",
                correct=correct,
                total=total,
            )
        elif claim.aggregation == "batch_mean":
            continue  # The last batch is shorter, so the mean over batches need not be a multiple of 1/total.
        elif correct is not None and total is not None:
            yield from _wrong_share(claim, number, correct, total)
        elif total is not None:
            yield from _no_share_of(claim, number, total)
        elif not report.logs:
            yield not_verified(
                f"{claim.name}: give correct and total, from which it follows, or the log of the training that shows it."
            )


def _scale(claim: Claim) -> int:
    return 1 if claim.unit == "1" else 100


def _wrong_share(claim: Claim, number: Number, correct: int, total: int) -> Iterator[Finding]:
    share = Fraction(correct, total)
    if _prints(number, share * _scale(claim)):
        return
    value = float(share)
    slips = [
        Slip(value, 'It is a fraction: multiply by 100, or say "unit": "1".'),
        Slip(value * 100, 'It is in percent: divide by 100, or say "unit": "%".'),
        Slip((1 - value) * _scale(claim), "It is the share of wrong predictions."),
    ]
    yield inconsistent(
        f"{claim.name}: {correct} / {total} is {value * _scale(claim):.8g}{' %' * (_scale(claim) == 100)}. "
        + cause(
            number,
            slips,
            "Is it a mean over batches? Then the last, shorter batch counts too much; say "
            '"aggregation": "batch_mean".',
        ),
        correct=correct,
        total=total,
        recomputed=value * _scale(claim),
    )


def _no_share_of(claim: Claim, number: Number, total: int) -> Iterator[Finding]:
    """GRIM: a share of few predictions cannot have every value that the printed decimals can show."""
    ulp, value = _ulp(number) / _scale(claim), Fraction(number.text) / _scale(claim)
    if total * ulp >= 1 or not 0 <= value <= 1:
        return
    nearest = math.floor(value * total)
    if any(_prints(number, Fraction(count, total) * _scale(claim)) for count in (nearest, nearest + 1)):
        return
    below, above = (float(Fraction(count, total) * _scale(claim)) for count in (nearest, nearest + 1))
    yield inconsistent(
        f"{claim.name}: {nearest} of {total} correct predictions make {below:.8g}, {nearest + 1} make {above:.8g}, and "
        "nothing lies between. Is total another number, or is it a mean over batches? Then say "
        '"aggregation": "batch_mean".',
        total=total,
        below=below,
        above=above,
    )


def _ulp(number: Number) -> Fraction:
    digits = number.text.lower().partition("e")
    decimals = len(digits[0].partition(".")[2])
    return Fraction(10) ** (int(digits[2] or 0) - decimals)


def _prints(number: Number, exact: Fraction) -> bool:
    """Whether rounding or cutting off an exact value can have printed this, worked out without rounding."""
    # A float32 on the way is as far as an accuracy can be off.
    ulp, slack = _ulp(number), Fraction(FLOAT32_SLACK) * abs(exact)
    left_out = exact - Fraction(number.text)
    return -Fraction(ROUNDED) * ulp - slack <= left_out < ulp + slack and (
        ulp <= 1 or exact >= FIRST_DIGIT * ulp
    )


# C12: the numbers of a plot


def _plot(report: Report, facts: Facts) -> Iterator[Finding]:
    yield from few(_wrong_points(report))


def _wrong_points(report: Report) -> Iterator[Finding]:
    plot = report.plot
    if plot is None:
        return
    if not len(plot.x) == len(plot.y) == len(plot.yerr):
        yield inconsistent(
            f"plot has {len(plot.x)} x, {len(plot.y)} y and {len(plot.yerr)} yerr: every point needs one of each.",
            x=len(plot.x),
            y=len(plot.y),
            yerr=len(plot.yerr),
        )
        return
    # Of 1.50 a JSON number keeps 1.5, so that the finest place is that of all.
    place = min((Number(repr(value)).ulp for value in (*plot.y, *plot.yerr)), default=0.0)
    by_workers: dict[float, list[Group]] = {}
    for group in report.groups:
        workers = report.setting(group.config, "num_workers")
        if isinstance(workers, int):
            by_workers.setdefault(float(workers), []).append(group)
    for index, (x, y, yerr) in enumerate(zip(plot.x, plot.y, plot.yerr, strict=True)):
        groups = by_workers.get(x, [])
        if not groups:
            yield inconsistent(
                f"plot.x[{index}] is {x:g}, and no run has so many workers. Is the plot from an earlier sitting?",
                x=x,
            )
        elif not any(_drawn(group, y, yerr, place) for group in groups):
            yield _wrong_point(index, y, yerr, groups[0])
    missing = sorted(by_workers.keys() - set(plot.x))
    if missing and len(report.groups) == len(by_workers):
        shown = ", ".join(f"{workers:g}" for workers in missing[:5])
        yield inconsistent(
            f"plot leaves out what was measured with {shown} workers. Draw every configuration, also one that looks odd.",
            missing=[*missing[:5]],
        )


def _drawn(group: Group, y: float, yerr: float, place: float) -> bool:
    """Whether a point is a configuration's seconds, in any way of averaging, with a standard deviation as its bar.

    `place` is one unit in the last place to which both may have been rounded.
    """
    slack = PLOT_SLACK * group.mean
    if place <= PLOT_PLACE * group.minimum:
        slack = max(slack, ROUNDED * place)
    deviations = [value for value in (group.deviation(0), group.deviation(1)) if value is not None]
    return any(abs(y - value) <= slack for value in (group.mean, group.median, group.minimum)) and any(
        abs(yerr - value) <= slack for value in deviations
    )


def _wrong_point(index: int, y: float, yerr: float, group: Group) -> Finding:
    zero, one = group.deviation(0) or 0.0, group.deviation(1)
    other = "" if one is None else f" or {one:.6g} (ddof 1)"
    return inconsistent(
        f"plot point {index}: y {y:.6g}, yerr {yerr:.6g}, but the readings of {group.name} have the mean {group.mean:.6g} s "
        f"and the standard deviation {zero:.6g}{other} s. Was it drawn from other runs, in milliseconds, or with the "
        "standard error?",
        y=y,
        yerr=yerr,
        mean=group.mean,
        deviation=zero,
    )


RULES: tuple[Rule, ...] = (
    Rule(
        id="C00",
        demands="Every claim is about a configuration that was run.",
        threshold="exactly one fits, settings left out having their defaults, or repeats every setting; several may for "
        "max_batch, accuracies and crossover_batch. A base that fits several is the one that is otherwise like the claim's own "
        "configuration, or the one of which it repeats every setting",
        why="A number about nothing cannot be compared with any reading.",
        honest="None known.",
        examine=_selections,
    ),
    Rule(
        id="C01",
        demands="Means, medians, minima and peaks of memory are those of the readings.",
        threshold="less than one unit in the last printed place below the value, or half of one above it; or four units of a "
        "float32",
        why="Rounding stays within half a unit, cutting off within one (Hugging Face cuts seconds off).",
        honest="None known.",
        examine=_statistics,
    ),
    Rule(
        id="C02",
        demands="Standard deviations are those of the readings, with divisor n or n - 1.",
        threshold="less than one unit in the last printed place; the other divisor than declared is advice",
        why="numpy.std divides by n, torch.std and statistics.stdev by n - 1: a factor of 1.118 for five readings.",
        honest="None known.",
        examine=_deviations,
    ),
    *ratios.RULES,
    Rule(
        id="C09",
        demands="An accuracy is correct / total.",
        threshold="less than one unit in the last printed place, or four units of a float32. Without correct, and where "
        "total is below 10^(decimals + 2): a value that so many predictions can have",
        why="A share of N is a multiple of 1/N (Brown and Heathers, The GRIM Test, 2017). A mean over batches need not be.",
        honest='None known; means over batches are declared ("aggregation": "batch_mean").',
        examine=_accuracies,
    ),
    *conclusions.RULES,
    Rule(
        id="C12",
        demands="What is drawn is what was measured.",
        threshold=f"{PLOT_SLACK:.1%} of the seconds, or half a unit in the last place that was drawn, where that is at most "
        f"{PLOT_PLACE:.0%} of them; mean, median or minimum, with either standard deviation",
        why="A plot is worked out from the same readings; rounded to two digits it still shows them.",
        honest="None known.",
        examine=_plot,
        kinds=frozenset({"dataloader"}),
    ),
)
