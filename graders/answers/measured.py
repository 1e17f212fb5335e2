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
from lockstep.reports.counts import machine_count
from lockstep.reports.document import Claim, Group, Report, document, named
from lockstep.submission import Submission
from lockstep.wire import Json

MAX_REPORTS = 12
MAX_GROUPS = 24
"""Configurations of one report that are compared with each other."""
MAX_RUNS = 60
MAX_CLAIMS = 200

FILES = {
    "dataloader": "loader.json",
    "dp_inference": "data_parallel.json",
    "ddp_scaling": "ddp.json",
    "amp": "amp.json",
    "lightning": "lightning.json",
}
"""What the report of a kind is called; another name will do."""

_PROCESSES = ("world_size", "n_devices", "devices")
_COMPARED = (*_PROCESSES, "precision", "num_workers", "precision_requested")


class Kind(StrEnum):
    """What a number counts, in the order in which a person wants to see them."""

    RATIO = "times as fast"
    SHARE = "efficiency"
    RATE = "per second"
    BATCH = "batch size"
    SECONDS = "s"
    BYTES = "bytes"


class Topic(StrEnum):
    """What a sentence has to speak of to mean a figure that is not the one that its kind brings to mind."""

    STEP = "steps and calls, of which runs may have different numbers"
    EACH = "what one of several does"
    LOST = "what is lost"
    SHORT = "what is missing to the ideal"
    SPREAD = "the slowest and the fastest"


@dataclass(frozen=True)
class Figure:
    """One number. `told` says what it is, for a person; "" for what only follows from others.

    `turned_over`: how many times as fast few processes are as more of them. `topic`: where nothing else can be meant.
    """

    kind: Kind
    value: float
    told: str = ""
    turned_over: bool = False
    topic: Topic | None = None


@dataclass(frozen=True)
class Reports:
    """The figures by kind of report, the files they are from, and the files that are no report."""

    figures: dict[str, tuple[Figure, ...]]
    files: dict[str, str]
    unreadable: tuple[str, ...]


def read_reports(submission: Submission) -> Reports:
    """Read every report of a submission; of several of one kind the one with the usual name is named."""
    figures: dict[str, tuple[Figure, ...]] = {}
    files: dict[str, str] = {}
    unreadable: list[str] = []
    for path in sorted(filter(_may_be_report, submission.files), key=_unusual)[:MAX_REPORTS]:
        report = _report(submission.files[path])
        if report is None:
            unreadable.append(path)
        else:
            files.setdefault(report.kind, path)
            figures[report.kind] = (*figures.get(report.kind, ()), *_figures(report))
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
    for claim in report.claims[:MAX_CLAIMS]:
        yield from _claimed(claim)
    for group in groups:
        yield from _of_group(group)
    for at, one in enumerate(groups):
        for other in groups[at + 1 :]:
            yield from _of_pair(one, other)
    yield from _of_search(report, groups)


def _claimed(claim: Claim) -> Iterator[Figure]:
    known = {
        "speedup": (Kind.RATIO, 1.0),
        "efficiency": (Kind.SHARE, 1.0),
        "throughput_ips": (Kind.RATE, 1.0),
        "max_batch": (Kind.BATCH, 1.0),
        "mean_s": (Kind.SECONDS, 1.0),
        "median_s": (Kind.SECONDS, 1.0),
        "min_s": (Kind.SECONDS, 1.0),
        "std_s": (Kind.SECONDS, 1.0),
        "peak_alloc_mib": (Kind.BYTES, 2.0**20),
    }
    if claim.value is not None and claim.what in known:
        kind, unit = known[claim.what]
        # Seconds and rates are told as they come out of the readings.
        told = "" if kind in (Kind.SECONDS, Kind.RATE) else claim.name.partition(": ")[2]
        yield Figure(kind, claim.value.value * unit, told)


def _of_group(group: Group) -> Iterator[Figure]:
    """What the readings of one configuration say."""
    runs = group.runs[:MAX_RUNS]
    yield Figure(Kind.SECONDS, group.mean, f"{group.mean:.4g} s for {group.name} (mean of {len(group.runs)})")
    seconds = [*(run.seconds for run in runs), *_statistics(group), sum(group.seconds)]
    # Steps need not add up to wall_s: what lies between them, such as loading the data, may be in one of the two only.
    for each in filter(None, [[step.value for step in run.step_seconds] for run in runs]):
        seconds += [statistics.fmean(each), statistics.median(each), min(each), max(each), sum(each)]
    seconds += [spread for spread in (group.deviation(0), group.deviation(1)) if spread is not None]
    seconds.append(max(group.seconds) - group.minimum)
    if group.minimum > 0:
        slowest = max(group.seconds) / group.minimum
        yield from (Figure(Kind.RATIO, ratio, topic=Topic.SPREAD) for ratio in (slowest, 1 / slowest))
    for parts in (
        [run.steps for run in runs],
        [run.samples for run in runs],
        [run.epochs or 0 for run in runs],
    ):
        each = [run.seconds / part for run, part in zip(runs, parts, strict=True) if part > 0]
        seconds += [*each, *([statistics.fmean(each), statistics.median(each)] if each else [])]
    yield from (Figure(Kind.SECONDS, value) for value in seconds)
    mean, *others = group.throughputs
    yield Figure(Kind.RATE, mean, f"{mean:,.{0 if mean >= 100 else 3}f} samples/s for {group.name}")
    rates = [*others, *(run.throughput for run in runs)]
    rates += [run.steps / run.seconds for run in runs if run.seconds > 0]
    yield from (Figure(Kind.RATE, value) for value in rates)
    sharing = _processes(group) or _count(group.config.get("num_workers"))
    if sharing > 1:
        yield from (Figure(Kind.RATE, value / sharing, topic=Topic.EACH) for value in (mean, *rates))
    for run in runs:
        peaks = (run.peak_alloc_bytes, run.peak_reserved_bytes)
        yield from (Figure(Kind.BYTES, peak) for peak in peaks if peak)


def _of_pair(one: Group, other: Group) -> Iterator[Figure]:
    """How two configurations compare, in both directions."""
    times = list(zip(_statistics(one), _statistics(other), strict=True))
    yield from (Figure(Kind.SECONDS, abs(a - b)) for a, b in (*times, (sum(one.seconds), sum(other.seconds))))
    rates = list(zip(one.throughputs, other.throughputs, strict=True))
    ratios = [b / a for a, b in rates if 0 < a < float("inf") and 0 < b < float("inf")]
    if {run.samples for run in one.runs} == {run.samples for run in other.runs}:
        ratios += [a / b for a, b in times if a > 0 and b > 0]
    processes = _processes(one), _processes(other)
    alike = _same_batch(one, other) and all(processes)
    more, fewer = alike and processes[0] < processes[1], alike and processes[0] > processes[1]
    for place, ratio in enumerate(ratios):
        yield Figure(Kind.RATIO, ratio, "" if place else _comparison(one, other, ratio), turned_over=fewer)
        yield Figure(Kind.RATIO, 1 / ratio, turned_over=more)
        if 0 < processes[0] < processes[1]:
            yield from _efficiency(ratio * processes[0] / processes[1])
        elif 0 < processes[1] < processes[0]:
            yield from _efficiency(processes[1] / processes[0] / ratio)
    for step in _step_ratios(one, other):
        yield Figure(Kind.RATIO, step, turned_over=fewer, topic=Topic.STEP)
        yield Figure(Kind.RATIO, 1 / step, turned_over=more, topic=Topic.STEP)
    if _same_batch(one, other):
        for a, b in zip(one.runs, other.runs, strict=False):
            if a.peak_alloc_bytes and b.peak_alloc_bytes:
                yield Figure(Kind.RATIO, a.peak_alloc_bytes / b.peak_alloc_bytes)
                yield Figure(Kind.RATIO, b.peak_alloc_bytes / a.peak_alloc_bytes)
                yield Figure(Kind.BYTES, abs(a.peak_alloc_bytes - b.peak_alloc_bytes))


def _efficiency(share: float) -> Iterator[Figure]:
    """An efficiency, what of it is lost, and by how much the ideal would be faster."""
    yield Figure(Kind.SHARE, share)
    yield Figure(Kind.SHARE, 1 - share, topic=Topic.LOST)
    if share > 0:
        yield Figure(Kind.RATIO, 1 / share, topic=Topic.SHORT)


def _step_ratios(one: Group, other: Group) -> list[float]:
    """How long a step of one takes against a step of the other, where both differ in what a step is."""
    per_step = [
        (a / one.runs[0].steps, b / other.runs[0].steps)
        for a, b in zip(_statistics(one), _statistics(other), strict=True)
    ]
    return [a / b for a, b in per_step if a > 0 and b > 0]


def _of_search(report: Report, groups: Sequence[Group]) -> Iterator[Figure]:
    """Batches that were tried, and how the largest that fit compare."""
    largest: dict[str, int] = {}
    for trial in report.batch_search[:MAX_RUNS]:
        yield Figure(Kind.BATCH, trial.batch_size)
        if trial.peak_alloc_bytes:
            yield Figure(Kind.BYTES, trial.peak_alloc_bytes)
        if trial.ok:
            largest[trial.precision] = max(trial.batch_size, largest.get(trial.precision, 1))
    yield from (Figure(Kind.BATCH, batch) for group in groups if (batch := _batch(group)))
    sizes = largest.values()
    yield from (Figure(Kind.RATIO, a / b) for a in sizes for b in sizes if a != b)


def _comparison(one: Group, other: Group, ratio: float) -> str:
    """The ratio in words, where the two differ in what the exercise is about."""
    keys = [key for key in one.config if one.config[key] != other.config.get(key) and key in _COMPARED]
    if not keys or not _same_batch(one, other):
        return ""
    this, that = (named({key: group.config.get(key) for key in keys}) for group in (other, one))
    return f"{ratio:.3g}x for {this} over {that}{f', batch {_batch(one)}' if _batch(one) else ''}"


def _same_batch(one: Group, other: Group) -> bool:
    return _batch(one) == _batch(other)


def _statistics(group: Group) -> tuple[float, float, float, float]:
    return group.mean, group.median, group.minimum, max(group.seconds)


def _processes(group: Group) -> int:
    """How many processes or devices share the work; 0 where the configuration does not say."""
    processes = next((count for key in _PROCESSES if (count := _count(group.config.get(key)))), 0)
    # Lightning's devices are those of each machine.
    return processes * machine_count(group.config) if "devices" in group.config else processes


def _batch(group: Group) -> int:
    return _count(group.config.get("batch_size", group.config.get("batch_per_rank")))


def _count(value: Json) -> int:
    return int(value) if isinstance(value, int | float) and 0 < value < 1 << 30 else 0


def headlines(figures: Sequence[Figure], limit: int = 16) -> list[str]:
    """What a person reads of the figures: comparisons first, then readings."""
    told = dict.fromkeys(
        figure.told for kind in Kind for figure in figures if figure.kind is kind and figure.told
    )
    return list(told)[:limit]
