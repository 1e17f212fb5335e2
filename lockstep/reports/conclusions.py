"""C11: what a student concludes, the fastest configuration, the batch from which on one wins, the largest that fits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from lockstep.jsontext import Json
from lockstep.reports.document import Claim, Config, Group, Number, Report, Trial, named
from lockstep.reports.finding import Finding, few, inconsistent, not_verified
from lockstep.reports.ratios import Printed, same_work, speedups, throughputs, times
from lockstep.reports.recompute import SECONDS, bases_of, stated, the_group
from lockstep.reports.rule import Facts, Rule

BASES: Mapping[str, Config] = {
    "dataloader": {"num_workers": 0},
    "dp_inference": {"n_devices": 1},
    "ddp_scaling": {"world_size": 1},
    "amp": {"precision": "fp32"},
    "lightning": {"precision_resolved": "32-true"},
}
"""What a crossover is relative to where the claim does not say."""
MAX_CROSSOVERS = 20
"""Claims of this sort that are looked at: each compares every configuration with every other."""
PRECISIONS = ("precision", "precision_requested", "precision_resolved")


def _conclusions(report: Report, facts: Facts) -> Iterator[Finding]:
    yield from few(_not_the_fastest(report))
    yield from few(_wrong_crossovers(report))
    yield from few(_wrong_batches(report))


# The fastest configuration


def _not_the_fastest(report: Report) -> Iterator[Finding]:
    claims = [claim for claim in report.claims if claim.what == "best_config"]
    if not claims:
        return
    printed = Printed(report, *SECONDS, "throughput_ips")
    # Seconds compare only where all did the same work, images per second always do.
    by_seconds = all(same_work(report.groups[0], group) for group in report.groups)
    measures = [_speeds(group, by_seconds) for group in report.groups]
    for claim in claims:
        group = the_group(report, claim.config)
        if group is None:
            continue
        own = _speeds(group, by_seconds)
        slacks = [printed.slack(group, other) for other in report.groups]
        if any(
            all(speeds[way] <= own[way] * (1 + slack) for speeds, slack in zip(measures, slacks, strict=True))
            for way in range(len(own))
        ):
            continue
        best = max(report.groups, key=lambda other: throughputs(other)[0].value)
        yield inconsistent(
            f"{claim.name}: it has {_speed(group, by_seconds)}, but {best.name} has {_speed(best, by_seconds)}. By mean, "
            f"median and minimum alike another one is faster. {_LATER if by_seconds else _UNLIKE_WORK}",
            claimed=group.mean,
            best=best.mean,
        )


_LATER = "Is the claim from an earlier sitting, or were runs added later?"
_UNLIKE_WORK = "Configurations processed different numbers of samples, so their seconds do not compare."


def _speeds(group: Group, by_seconds: bool) -> list[float]:
    """How fast a configuration is, in each way of averaging; larger is faster."""
    speeds = [way.value for way in throughputs(group)]
    if by_seconds:
        speeds += [1 / way.value if way.value > 0 else float("inf") for way in times(group)]
    return speeds


def _speed(group: Group, by_seconds: bool) -> str:
    return f"mean {group.mean:.6g} s" if by_seconds else f"{throughputs(group)[0].value:.6g} images a second"


# From which batch size on a configuration wins


def _wrong_crossovers(report: Report) -> Iterator[Finding]:
    for claim, number in islice(stated(report, "crossover_batch"), MAX_CROSSOVERS):
        pairs = sorted(_pairs(report, claim), key=_batch_of)
        if not pairs:
            yield not_verified(
                f"{claim.name}: nothing with the same batch size was measured to compare it with; expected runs of "
                f"{named(claim.base or BASES[report.kind])}."
            )
            continue
        right = {batch for way in _ways_to_win(pairs) for batch in way}
        if number.value in right:
            continue
        if right:
            said = f"it wins from batch size {' or '.join(f'{batch:g}' for batch in sorted(right))} on"
        else:
            said = "it wins at no batch size, so there is no crossover to claim"
        gains = ", ".join(
            f"{batch:g}: {speedups(group, base)[0].value:.4g}" for batch, group, base in pairs[:6]
        )
        yield inconsistent(
            f"{claim.name}: {said}; speed-up by batch size: {gains}. Only batch sizes that were measured can be claimed, not "
            "values between them.",
            claimed=number.value,
            recomputed=[*sorted(right)],
        )


_Pair = tuple[float, Group, Group]


def _batch_of(pair: _Pair) -> float:
    return pair[0]


def _pairs(report: Report, claim: Claim) -> Iterator[_Pair]:
    """What the claim is about, and what it is compared with, at each batch size."""
    key = "batch_per_rank" if report.kind == "ddp_scaling" else "batch_size"
    wanted = {**(claim.base or BASES[report.kind])}
    wanted.pop(key, None)
    for group in report.selected({name: value for name, value in claim.config.items() if name != key}):
        batch = report.setting(group.config, key)
        if not isinstance(batch, int):
            continue
        bases = [other for other in bases_of(report, {**wanted, key: batch}, group) if other is not group]
        if len(bases) == 1 and group not in report.selected(wanted):
            yield float(batch), group, bases[0]


def _ways_to_win(pairs: Sequence[_Pair]) -> Iterator[set[float]]:
    """By each way of averaging: the first batch that wins, and the first from which on all win; a tie may count."""
    ways = min(len(speedups(group, base)) for _, group, base in pairs)
    for way in range(ways):
        gains = [(batch, speedups(group, base)[-1 - way].value) for batch, group, base in pairs]
        for least in (1.0, math.nextafter(1.0, 0.0)):
            winners = [batch for batch, gain in gains if gain > least]
            lost = [batch for batch, gain in gains if not gain > least]
            lasting = [batch for batch in winners if not lost or batch > max(lost)]
            yield {*winners[:1], *lasting[:1]}


# The largest batch that fits


def trials(report: Report, config: Config) -> tuple[Trial, ...]:
    """The trials of a search for the largest batch that a configuration is about."""
    names = {value for key, value in config.items() if key in PRECISIONS and isinstance(value, str)}
    for group in report.selected(config):
        names |= {value for key in PRECISIONS if isinstance(value := report.setting(group.config, key), str)}
    return tuple(trial for trial in report.batch_search if not names or trial.precision in names)


def _wrong_batches(report: Report) -> Iterator[Finding]:
    for claim, number in stated(report, "max_batch"):
        found = [trial.batch_size for trial in trials(report, claim.config) if trial.ok]
        ran = [
            batch
            for group in report.selected(claim.config)
            for key in ("batch_size", "batch_per_rank")
            if isinstance(batch := group.config.get(key), int)
        ]
        if not found:
            yield from _without_a_search(claim, number, ran)
            continue
        largest = max(found)
        # A timed run with a larger batch is a trial that was not noted as one.
        right = {largest, max([largest, *ran])}
        if number.value not in right:
            failed = [trial.batch_size for trial in trials(report, claim.config) if not trial.ok]
            after = f"; {min(failed)} did not fit" if failed else ""
            numbers: dict[str, Json] = {"claimed": number.value, "recomputed": max(right)}
            yield inconsistent(
                f"{claim.name}: the largest batch that batch_search says fitted is {max(right)}{after}. Was the claim made "
                "before the last trial, or was a trial not noted?",
                **numbers,
            )


def _without_a_search(claim: Claim, number: Number, ran: Sequence[int]) -> Iterator[Finding]:
    if ran and number.value < max(ran):
        yield inconsistent(
            f"{claim.name}: a run has the batch size {max(ran)}, which is larger. Was the claim made before it?",
            claimed=number.value,
            recomputed=max(ran),
        )
    else:
        yield not_verified(f"{claim.name}: batch_search has no trial of it that fitted.")


RULES: tuple[Rule, ...] = (
    Rule(
        id="C11",
        demands="Conclusions follow from the readings: the fastest configuration, the batch from which on several devices "
        "win, the largest batch.",
        threshold="exact, by any of mean, median, minimum and throughput; ties, as printed, count",
        why="A conclusion is true of the report's own figures or it is not.",
        honest="None known: whichever way of averaging the student used counts.",
        examine=_conclusions,
    ),
)
