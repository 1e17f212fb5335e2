"""Rules on ratios: more devices, more workers, half precision. Nothing here costs points.

A ratio beyond what seems possible mostly comes from a bad baseline, which happened to NVIDIA, Lambda and Hugging Face.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from lockstep.jsontext import Json
from lockstep.reports.counts import DEVICES, device_count, machine_count
from lockstep.reports.devices import AMPERE, Device
from lockstep.reports.document import Config, Group, Report
from lockstep.reports.finding import Finding, advice, few, unusual
from lockstep.reports.hardware import HALF, MIXED, batch, count, on_gpu, precision
from lockstep.reports.reference import ratio_interval
from lockstep.reports.rule import Facts, Rule

LINEAR, MORE, FAR_MORE = 1.02, 1.10, 1.5
WORKERS = 1.3
DECODED = 20_000
AMP_RATIO = (0.25, 4.5)
NEGATIVE, FALLS, FALLS_TO, RESIDUAL = -0.05, 0.2, 0.5, 0.15
LEASTDEVICESS = 3
MOST_NOISE = 1e9
"""Whoever has more has nothing that could be compared; a limit for the sake of the arithmetic."""
EMULATED_GAIN = 1.5
"""Half the bytes are moved; what calculates is slower than fp32."""

# What goes with the number of devices, and what does not change what a device has to do.
_ALONG = {
    "backend",
    "nnodes",
    "num_nodes",
    "comm_hook",
    "device_ids",
    "strategy",
    "plugin",
    "num_workers",
    "batch_per_rank",
    "batch_size",
}
_LOADER = {"num_workers", "persistent_workers", "prefetch_factor", "pin_memory", "start_method"}
_PRECISION = {
    "precision",
    "precision_requested",
    "precision_resolved",
    "grad_scaler",
    "plugin",
    "channels_last",
    "cudnn_benchmark",
}


def _rate(group: Group) -> float | None:
    """Images a second, the median; None where a reading is no duration."""
    rate = group.throughputs[1] if min(group.seconds) > 0 else 0.0
    return rate if 0 < rate < math.inf else None


def _at_least(group: Group, base: Group, ratio: float) -> float:
    """A ratio of rates, less what the noise of the readings may have added to it."""
    interval = ratio_interval(base.seconds, group.seconds)
    if interval is None:
        return ratio
    noise = base.median / group.median / interval[0]
    return ratio / min(max(noise, 1.0), MOST_NOISE)


def _rest(report: Report, config: Config, without: set[str]) -> dict[str, Json]:
    """The settings that must be the same for a comparison."""
    return {key: value for key, value in config.items() if key not in without}


@dataclass(frozen=True)
class _Point:
    """A configuration of n devices: how many times as fast as one, and at least so by the noise of the readings.

    `weak`: every device has what the one had.
    """

    group: Group
    n: int
    speedup: float
    least: float
    weak: bool


def _points(report: Report) -> list[_Point]:
    """Speedups over one device; of several baselines the one that makes least of it."""
    key = DEVICES[report.kind]
    found = []
    for group in report.groups:
        n, rate = device_count(report, group.config), _rate(group)
        if n is None or n < 2 or rate is None:
            continue
        rest = _rest(report, group.config, {key, *_ALONG})
        options = []
        for base in report.groups:
            one = _rate(base)
            if (
                device_count(report, base.config) != 1
                or one is None
                or _rest(report, base.config, {key, *_ALONG}) != rest
            ):
                continue
            speedup = rate / one
            least = _at_least(group, base, speedup)
            if not (speedup and least):
                continue  # less than any number that Python has
            # A batch of DataParallel is that of all devices, the others' is that of one.
            total = batch(report, group.config) * (1 if report.kind == "dp_inference" else n)
            if batch(report, base.config) * n == total:
                options.append(_Point(group, n, speedup, least, weak=True))
            elif batch(report, base.config) == total:
                options.append(_Point(group, n, speedup, least, weak=False))
        if options:
            found.append(min(options, key=lambda point: point.speedup))
    return found


# P05, P13: more devices


def _more_than_linear(report: Report, facts: Facts) -> Iterator[Finding]:
    yield from few(_superlinear(report))


def _superlinear(report: Report) -> Iterator[Finding]:
    for point in _points(report):
        efficiency = point.speedup / point.n
        if efficiency <= LINEAR:
            continue
        told = (
            f"{point.group.name}: by the medians of its runs and of those on one device, {point.speedup:.3g} times as many "
            f"images a second, an efficiency of {efficiency:.3g}. "
            "Was the run on one device disturbed, was it the first, or did it use other settings (loader workers, "
            "threads, cudnn.benchmark)?"
        )
        if efficiency <= MORE:
            yield advice(f"{told} 4.5 % of public results lie above {LINEAR}.", efficiency=efficiency)
        elif efficiency <= FAR_MORE:
            yield unusual(f"{told} 2 % of public results lie above {MORE}.", efficiency=efficiency)
        else:
            yield unusual(
                f"{told} None of 552 public results lies above {FAR_MORE}: measure the baseline again.",
                efficiency=efficiency,
            )


def _serial_part(report: Report, facts: Facts) -> Iterator[Finding]:
    points = sorted(_points(report), key=lambda point: point.n)
    for point in points:
        e = _karp_flatt(point.speedup, point.n)
        if _karp_flatt(point.least, point.n) < NEGATIVE:
            yield unusual(
                f"{point.group.name}: a speedup of {point.speedup:.3g} leaves a serial part of {e:.3g}: "
                "e = (1/S - 1/N)/(1 - 1/N). Less than nothing cannot be serial; was the baseline disturbed?",
                serial=e,
            )
            break
    for weak in (True, False):
        # Beyond the cores of a CPU, and across a network, other laws hold.
        alike = [
            p
            for p in points
            if p.weak is weak
            and machine_count(p.group.config) == 1
            and (on_gpu(report, p.group.config) or p.n <= count(report.env.get("cpu_logical")))
        ]
        sizes = {point.n: point for point in alike}
        if len(sizes) == len(alike) and len(sizes) > 1:
            yield from _no_law(list(sizes.values()), weak)


def _no_law(points: list[_Point], weak: bool) -> list[Finding]:
    """What speaks against one serial part.

    An epoch of a data set is the same work on any number of devices, also where the batch grows with them: then what
    Amdahl's law fits is told by neither.
    """
    own = list(_one_law(points, weak))
    return own if own and (not weak or list(_one_law(points, weak=False))) else []


def _one_law(points: list[_Point], weak: bool) -> Iterator[Finding]:
    law = "Gustafson's S = N - s(N - 1)" if weak else "Amdahl's 1/S = s + (1 - s)/N"
    parts = [_gustafson(p) if weak else _karp_flatt(p.speedup, p.n) for p in points]
    if not all(NEGATIVE <= part <= 1 for part in parts):
        # Slower than one device: overhead rules, and no law on serial parts applies.
        return
    first, last = parts[0], parts[-1]
    if last < first - FALLS and last < FALLS_TO * first:
        yield unusual(
            f"The serial part falls from {first:.2f} on {points[0].n} devices to {last:.2f} on {points[-1].n} ({law}). With "
            f"more devices there is more to coordinate, so that it stays or grows. Was the run on {points[0].n} disturbed?",
            first=first,
            last=last,
        )
    elif len(points) >= LEASTDEVICESS:
        fitted = [_fitted(points, parts, p, weak) for p in points]
        off, point = max(
            ((abs(s / p.speedup - 1), p) for s, p in zip(fitted, points, strict=True)),
            key=lambda pair: pair[0],
        )
        if off > RESIDUAL:
            yield unusual(
                f"No single serial part fits the speedups: {law} is {off:.0%} off at {point.n} devices. Were all sizes "
                "measured on the same machine, with the same link between the devices?",
                off=off,
            )


def _fitted(points: list[_Point], parts: list[float], at: _Point, weak: bool) -> float:
    """The speedup at a point, by the law with the serial part that fits all points best."""
    # Least squares, in S for Gustafson's law and in 1/S for Amdahl's: both are lines through the serial part.
    weights = [float((p.n - 1) ** 2) if weak else (1 - 1 / p.n) ** 2 for p in points]
    s = sum(w * part for w, part in zip(weights, parts, strict=True)) / sum(weights)
    return at.n - s * (at.n - 1) if weak else 1 / (s + (1 - s) / at.n)


def _karp_flatt(speedup: float, n: int) -> float:
    return (1 / speedup - 1 / n) / (1 - 1 / n)


def _gustafson(point: _Point) -> float:
    return (point.n - point.speedup) / (point.n - 1)


# P07, P08: loaders


def _workers(report: Report, facts: Facts) -> Iterator[Finding]:
    cores = count(report.env.get("cpu_logical"))
    fewest = min(count(group.config.get("num_workers"), 0) for group in report.groups)
    for base, group in itertools.product(report.groups, report.groups):
        workers, one, rate = count(group.config.get("num_workers"), 0), _rate(base), _rate(group)
        if (
            count(base.config.get("num_workers"), 0) != fewest
            or workers <= fewest
            or one is None
            or rate is None
        ):
            continue
        if _rest(report, base.config, _LOADER) != _rest(report, group.config, _LOADER):
            continue
        most = WORKERS * max(1, min(workers, cores))
        if _at_least(group, base, rate / one) > most:
            yield unusual(
                f"{group.name}: {rate / one:.3g} times as fast as {fewest} workers, with {cores} cores. Up to {most:.3g} is expected, "
                f"{WORKERS} x min(workers, cores), where each worker is as fast as what it is compared with and has a core of its "
                f"own. {_WITHOUT_WORKERS if fewest == 0 else ''}{_cache(report)}",
                ratio=rate / one,
                most=most,
            )


_WITHOUT_WORKERS = (
    "Without workers torch spreads each operation over many threads, which slows small ones down, and a worker uses one: "
    "how fast are 0 workers after torch.set_num_threads(1)? "
)


def _cache(report: Report) -> str:
    """The other innocent reason: what was read first came from a slower place."""
    stated = report.method.get("cache_state", "unknown")
    if stated == "unknown":
        return (
            "Did the first passes read from a cold disk or over a network? Then say so in method.cache_state."
        )
    return (
        f"Did the first passes read from a cold disk or over a network? method.cache_state says {stated}: was that so "
        "for each of them?"
    )


def _decoding(report: Report, facts: Facts) -> Iterator[Finding]:
    if "in_memory_data" in report.declared:
        return
    cores = count(report.env.get("cpu_logical"))
    for group in report.groups:
        rate, used = _rate(group), max(1, min(count(group.config.get("num_workers"), 0), cores))
        if rate is not None and rate / used > DECODED:
            yield unusual(
                f"{group.name}: {rate:.4g} images/s on {used} cores, {rate / used:.4g} for each. Decoding and transforming "
                f"JPEGs of 250x250 takes about 2 ms; above {DECODED} a second nothing is decoded any more. Does the data set "
                "hold tensors in memory? Then declare in_memory_data.",
                per_core=rate / used,
            )


# P09: half precision


def _amp_speed(report: Report, facts: Facts) -> Iterator[Finding]:
    yield from few(_amp_ratios(report, facts))


def _amp_ratios(report: Report, facts: Facts) -> Iterator[Finding]:
    least, most = AMP_RATIO
    for group in report.groups:
        kind, rate = precision(report, group.config), _rate(group)
        # On a CPU half precision may be emulated, or have units of its own: nothing is known of its ratio.
        if kind not in (*MIXED, *HALF) or rate is None or not on_gpu(report, group.config):
            continue
        rest = _rest(report, group.config, _PRECISION)
        full = [
            one
            for base in report.groups
            if precision(report, base.config) in ("fp32", "tf32")
            and _rest(report, base.config, _PRECISION) == rest
            and (one := _rate(base)) is not None
        ]
        if not full:
            continue
        emulated = kind.startswith("bf16") and _before_ampere(report, facts)
        if (
            emulated
            and _none_has_bf16(report, facts)
            and EMULATED_GAIN * max(full) < rate <= most * max(full)
        ):
            yield unusual(
                f"{group.name}: {rate / max(full):.3g} times as many images a second as in fp32, on a GPU that has no "
                "bfloat16 in hardware (compute capability below 8.0), where it is mostly slower. Was it fp16 after all? Then "
                "precision says fp16. Or were the readings taken on another GPU than the one in env?",
                ratio=rate / max(full),
            )
        if rate > most * max(full) or (rate < least * min(full) and not emulated):
            ratio = rate / (max(full) if rate > most * max(full) else min(full))
            yield unusual(
                f"{group.name}: {ratio:.3g} times as many images a second as in fp32. Published ratios are {least} to 3.97. "
                "Was one of the two measured without waiting for the GPU, without warm-up, or with another loader?",
                ratio=ratio,
            )


def _before_ampere(report: Report, facts: Facts) -> bool:
    found: list[Device | None] = [facts.devices.find(gpu.name) for gpu in report.gpus]
    return any(d is None or float(d.compute_capability or AMPERE) < AMPERE for d in found)


def _none_has_bf16(report: Report, facts: Facts) -> bool:
    """Whether all GPUs are known, and known to have no bfloat16."""
    found = [facts.devices.find(gpu.name) for gpu in report.gpus]
    return all(device is not None and device.emulates_bf16 for device in found)


RULES: tuple[Rule, ...] = (
    Rule(
        id="P05",
        demands="N devices are at most N times as fast as one.",
        threshold=f"efficiency above {LINEAR}: advice; above {MORE} and above {FAR_MORE}: unusual. Never more",
        why="Of 552 public pairs (Lambda's deeplearning-benchmark) 4.5 %, 2.0 % and none lie above these.",
        honest="Bad baselines: NVIDIA's EfficientNet README has 17.6 times on 8 GPUs.",
        examine=_more_than_linear,
        kinds=frozenset(DEVICES),
    ),
    Rule(
        id="P07",
        demands="Loader workers gain no more than there are cores.",
        threshold=f"ratio to the fewest workers <= {WORKERS} x min(workers, cores), at the lower end of its 95 % interval",
        why="Decoding is work for the CPU.",
        honest="Reading from a cold disk or over a network, which waits rather than works; torch's threads, of which there are many "
        "without workers and one in each worker.",
        examine=_workers,
        kinds=frozenset({"dataloader"}),
    ),
    Rule(
        id="P08",
        demands="No more pictures a second than a core can decode.",
        threshold=f"{DECODED} a second and core",
        why="About 500 a second and core were measured with an affine transform.",
        honest="Data sets in memory, which are declared.",
        examine=_decoding,
        kinds=frozenset({"dataloader"}),
    ),
    Rule(
        id="P09",
        demands="Half precision is faster or slower than fp32 within what has been seen on GPUs.",
        threshold=f"{AMP_RATIO[0]} to {AMP_RATIO[1]} times the throughput, on GPUs; below Ampere bfloat16 may be slower still, "
        f"and is told above {EMULATED_GAIN}",
        why="NVIDIA's DeepLearningExamples have 3.97 at most; the slowest of 128 public pairs is 0.25. The ratio of the "
        "peaks is no bound: an A100 has 2.63 at a ratio of 2.",
        honest="None seen.",
        examine=_amp_speed,
        kinds=frozenset({"dp_inference", "ddp_scaling", "amp", "lightning"}),
    ),
    Rule(
        id="P13",
        demands="The speedups of several sizes fit one serial part that does not shrink.",
        threshold=f"Karp-Flatt e >= {NEGATIVE} at the lower end of the speedup's 95 % interval; not down by more than {FALLS} and to less than {FALLS_TO:.0%}; from "
        f"{LEASTDEVICESS} sizes on within {RESIDUAL:.0%} of Amdahl's law (same total batch) or of one of Amdahl's and "
        "Gustafson's (same batch each)",
        why="Karp and Flatt, CACM 33(5), 1990. Clemson's tutorial gives 0.47 and 0.51, Lambda's figures 0 to 0.07.",
        honest="Rarely: a disturbed baseline. Sizes across machines, and beyond the cores of a CPU, are left out.",
        examine=_serial_part,
        kinds=frozenset(DEVICES),
    ),
)
