"""The student's own numbers: what the reports of a submission state, and what follows from it.

An answer rounds, divides, subtracts and takes minima, so everything that one or two configurations can be made to say
is here. Too much rather than too little: a number that is not found costs its author a question.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath

from lockstep.reports import format as report_format
from lockstep.reports.document import Claim, Group, Report, document
from lockstep.submission import Submission

MAX_REPORTS = 12
MAX_GROUPS = 24
"""Configurations of one report that are compared with each other."""
MAX_RUNS = 200

FILES = {
    "dataloader": "loader.json",
    "dp_inference": "data_parallel.json",
    "ddp_scaling": "ddp.json",
    "amp": "amp.json",
    "lightning": "lightning.json",
}
"""What the report of a kind is called; another name will do."""

_PROCESSES = ("world_size", "n_devices", "devices")


class Kind(StrEnum):
    """What a number counts, in the order in which a person wants to see them."""

    RATIO = "times as fast"
    SHARE = "efficiency"
    RATE = "per second"
    BATCH = "batch size"
    SECONDS = "s"
    BYTES = "bytes"


@dataclass(frozen=True)
class Figure:
    """One number. `told` says what it is, for a person; "" for what only follows from others."""

    kind: Kind
    value: float
    told: str = ""


@dataclass(frozen=True)
class Reports:
    """The figures by kind of report, the files they are from, and the files that are no report."""

    figures: dict[str, tuple[Figure, ...]]
    files: dict[str, str]
    unreadable: tuple[str, ...]


def read_reports(submission: Submission) -> Reports:
    """Read every report of a submission; of two of one kind the one with the usual name, or the first."""
    figures: dict[str, tuple[Figure, ...]] = {}
    files: dict[str, str] = {}
    unreadable: list[str] = []
    for path in sorted(filter(_may_be_report, submission.files), key=_unusual)[:MAX_REPORTS]:
        report = _report(submission.files[path])
        if report is None:
            unreadable.append(path)
        elif report.kind not in files:
            files[report.kind] = path
            figures[report.kind] = tuple(_figures(report))
    return Reports(figures, files, tuple(unreadable))


def _may_be_report(path: str) -> bool:
    place = PurePosixPath(path.casefold())
    return place.suffix == ".json" and (place.name in FILES.values() or "reports" in place.parts)


def _unusual(path: str) -> tuple[bool, str]:
    return PurePosixPath(path).name.casefold() not in FILES.values(), path


def _report(data: bytes) -> Report | None:
    raw = report_format.read(data)
    if isinstance(raw, str) or report_format.schema_problems(raw):
        return None
    return document(raw)


def _figures(report: Report) -> Iterator[Figure]:
    groups = report.groups[:MAX_GROUPS]
    for claim in report.claims[:MAX_RUNS]:
        yield from _claimed(claim)
    for group in groups:
        yield from _of_group(group)
    for one in groups:
        for other in groups:
            if one is not other:
                yield from _of_pair(one, other)
    batches = {group.config.get("batch_size", group.config.get("batch_per_rank")) for group in groups}
    batches |= {trial.batch_size for trial in report.batch_search[:MAX_RUNS]}
    sizes = sorted(size for size in batches if isinstance(size, int) and size > 0)[:MAX_RUNS]
    yield from (Figure(Kind.BATCH, size) for size in sizes)
    yield from (Figure(Kind.RATIO, a / b) for a in sizes for b in sizes if a != b)
    for trial in report.batch_search[:MAX_RUNS]:
        if trial.peak_alloc_bytes:
            yield Figure(Kind.BYTES, trial.peak_alloc_bytes)


def _claimed(claim: Claim) -> Iterator[Figure]:
    if claim.value is None:
        return
    known: dict[str, tuple[Kind, float]] = {
        "mean_s": (Kind.SECONDS, 1),
        "median_s": (Kind.SECONDS, 1),
        "min_s": (Kind.SECONDS, 1),
        "std_s": (Kind.SECONDS, 1),
        "throughput_ips": (Kind.RATE, 1),
        "speedup": (Kind.RATIO, 1),
        "efficiency": (Kind.SHARE, 1),
        "serial_fraction": (Kind.SHARE, 1),
        "accuracy_pct": (Kind.SHARE, 0.01),
        "max_batch": (Kind.BATCH, 1),
        "peak_alloc_mib": (Kind.BYTES, 1 << 20),
    }
    if claim.what in known:
        kind, unit = known[claim.what]
        yield Figure(kind, claim.value.value * unit, f"{claim.name.partition(': ')[2]} (claimed)")


def _of_group(group: Group) -> Iterator[Figure]:
    """What the readings of one configuration say."""
    runs = group.runs[:MAX_RUNS]
    where = f"for {group.name}"
    yield Figure(Kind.SECONDS, group.mean, f"mean {group.mean:.4g} s {where} ({len(group.runs)} runs)")
    seconds = [
        *(run.seconds for run in runs),
        group.median,
        group.minimum,
        max(group.seconds),
        sum(group.seconds),
    ]
    seconds += [spread for spread in (group.deviation(0), group.deviation(1)) if spread is not None]
    for parts in (
        [run.steps for run in runs],
        [run.samples for run in runs],
        [run.epochs or 0 for run in runs],
    ):
        each = [run.seconds / part for run, part in zip(runs, parts, strict=True) if part > 0]
        seconds += [*each, *([statistics.fmean(each), statistics.median(each)] if each else [])]
    yield from (Figure(Kind.SECONDS, value) for value in seconds)
    mean, *others = group.throughputs
    yield Figure(Kind.RATE, mean, f"{mean:.4g} samples/s {where}")
    rates = [*others, *(run.throughput for run in runs)]
    rates += [run.steps / run.seconds for run in runs if run.seconds > 0]
    yield from (Figure(Kind.RATE, value) for value in rates)
    for run in runs:
        peaks = (run.peak_alloc_bytes, run.peak_reserved_bytes)
        yield from (Figure(Kind.BYTES, peak) for peak in peaks if peak)


def _of_pair(one: Group, other: Group) -> Iterator[Figure]:
    """How the second configuration compares with the first."""
    times = list(zip(_statistics(one), _statistics(other), strict=True))
    same_work = {run.samples for run in one.runs} == {run.samples for run in other.runs}
    ratios = [a / b for a, b in times if a > 0 and b > 0]
    rates = zip(one.throughputs, other.throughputs, strict=True)
    ratios = [b / a for a, b in rates if 0 < a < float("inf") and 0 < b < float("inf")] + ratios
    more = [_processes(other), _processes(one)]
    for place, ratio in enumerate(ratios):
        told = f"{ratio:.3g}x for {other.name} over {one.name}" if not place and same_work else ""
        yield Figure(Kind.RATIO, ratio, told)
        yield from (Figure(Kind.SHARE, share) for share in (ratio - 1, 1 - ratio, 1 - 1 / ratio))
        if all(more):
            yield Figure(Kind.SHARE, ratio * more[1] / more[0])
    yield from (Figure(Kind.SECONDS, a - b) for a, b in times if a > b)
    for a, b in zip(one.runs, other.runs, strict=False):
        if a.peak_alloc_bytes and b.peak_alloc_bytes:
            yield Figure(Kind.RATIO, a.peak_alloc_bytes / b.peak_alloc_bytes)
            yield Figure(Kind.BYTES, abs(a.peak_alloc_bytes - b.peak_alloc_bytes))


def _statistics(group: Group) -> tuple[float, float, float, float]:
    return group.mean, group.median, group.minimum, max(group.seconds)


def _processes(group: Group) -> int:
    """How many processes or devices share the work; 0 where the configuration does not say."""
    for key in _PROCESSES:
        value = group.config.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 20:
            return value
    return 0


def headlines(figures: Sequence[Figure], limit: int = 12) -> list[str]:
    """What a person reads of the figures: comparisons first, then readings."""
    told = dict.fromkeys(
        figure.told for kind in Kind for figure in figures if figure.kind is kind and figure.told
    )
    return list(told)[:limit]
