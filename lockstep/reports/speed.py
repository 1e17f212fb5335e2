"""Rules on speed: arithmetic against a GPU's peak, bytes against the width of a link, time against the batch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from lockstep.reports.devices import Device, Link
from lockstep.reports.document import Config, Group, Report
from lockstep.reports.finding import Finding, advice, few, impossible, not_verified, unusual
from lockstep.reports.hardware import (
    HALF,
    TRAINING,
    allows_tf32,
    batch,
    count,
    devices,
    fastest,
    measured_model,
    on_gpu,
    pace,
    precision,
)
from lockstep.reports.model import KINDS, ModelFacts
from lockstep.reports.rule import Facts, Rule

CLOCKS = 1.15
"""How far a card may run above the boost clock that its data sheet has in mind."""
DIRECT, DIRECT_SHARE = 0.90, 0.60
LINK_PART = 0.9
HOOKS = {"none": 1.0, "fp16_compress": 0.5, "bf16_compress": 0.5, "powersgd": 0.003}
"""Part of the gradients that a communication hook sends. PowerSGD of rank 1: 1/310 at best (arXiv 1905.13727)."""
SWITCHES_ADD_UP = 100e9 / 8
"""Bytes per second from which on a network may add gradients up in its switches (InfiniBand with SHARP)."""
LAUNCH_S = 5e-6
WIDER, SAME_TIME = 16, 1.25


@dataclass(frozen=True)
class _Bound:
    """The most images a second, and how that comes about."""

    images: float
    formula: str
    share_3x3: float
    direct: float
    """Images a second at the nominal peak, if every multiplication were carried out."""


def ceiling(report: Report, facts: Facts, config: Config) -> float | None:
    """Images a second that a configuration cannot exceed (P01); None where that is not known."""
    group = report.exactly(config)
    device, model = fastest(report, facts), measured_model(report, facts)
    if group is None or isinstance(device, str) or isinstance(model, str) or report.kind not in KINDS:
        return None
    bound = _bound(report, group, device, model)
    return None if bound is None else bound.images


def _bound(report: Report, group: Group, device: Device, model: ModelFacts) -> _Bound | None:
    kind = precision(report, group.config)
    peak = None if kind is None else device.peak(kind, tf32=allows_tf32(report))
    if peak is None or not on_gpu(report, group.config):
        return None
    trains = report.kind in TRAINING and "pretrained" not in report.declared
    least = model.least_training_macs if trains else model.least_macs
    if least <= 0 or model.macs <= 0:
        return None
    n = devices(report, group)
    passes = "forward and backward" if trains else "forward"
    tf32 = ", TF32 allowed" if kind == "fp32" and peak > device.fp32 else ""
    formula = (
        f"devices x {CLOCKS} x peak / (2 x multiplications of an image) = {n} x {CLOCKS} x {peak / 1e12:.4g} TFLOP/s "
        f"({device.name}, {kind}{tf32}) / (2 x {least / 1e9:.4g} G, {passes})"
    )
    direct = n * peak / (2 * model.macs * (3 if trains else 1))
    return _Bound(n * CLOCKS * peak / (2 * least), formula, model.macs_3x3 / model.macs, direct)


# P01, P01b: arithmetic


def _too_fast(report: Report, facts: Facts) -> Iterator[Finding]:
    groups = [group for group in report.groups if on_gpu(report, group.config)]
    if not groups:
        return
    device, model = fastest(report, facts), measured_model(report, facts)
    for reason in (device, model):
        if isinstance(reason, str):
            yield not_verified(f"Throughput against the peak of the GPU: {reason}")
            return
    assert isinstance(device, Device)
    assert isinstance(model, ModelFacts)
    if all(_bound(report, group, device, model) is None for group in groups):
        yield not_verified(
            "Throughput against the peak of the GPU: no peak is known for this precision or this model."
        )
    yield from few(_beyond(report, groups, device, model))


def _beyond(report: Report, groups: list[Group], device: Device, model: ModelFacts) -> Iterator[Finding]:
    for group in groups:
        bound, seen = _bound(report, group, device, model), pace(report, group)
        if bound is None or seen is None or seen.images <= bound.images:
            continue
        waits = report.method.get("sync")
        asked = (
            'method.sync is "none": kernels are only queued when a call returns, so wait with torch.cuda.synchronize() '
            "before each reading of the clock."
            if waits == "none"
            else "Was the device synchronised before each reading of the clock? Kernels are only queued when a call returns."
        )
        yield impossible(
            f"{group.name}: {seen.images:.4g} images/s, at most {bound.images:.4g} are possible: {bound.formula}. {asked} "
            "Then: is input_shape what the model really got, does samples count every image once, were layers frozen "
            "(declare pretrained), is allow_tf32 right?",
            images_per_s=seen.images,
            most_per_s=bound.images,
        )


def _near_peak(report: Report, facts: Facts) -> Iterator[Finding]:
    device, model = fastest(report, facts), measured_model(report, facts)
    if isinstance(device, str) or isinstance(model, str):
        return
    for group in report.groups:
        bound, seen = _bound(report, group, device, model), pace(report, group)
        if bound is None or seen is None or bound.share_3x3 >= DIRECT_SHARE:
            continue
        if DIRECT * bound.direct < seen.images <= bound.images:
            yield unusual(
                f"{group.name}: {seen.images:.4g} images/s are {seen.images / bound.direct:.0%} of the peak of "
                f"{device.name}. Trainings and inference in PyTorch reach 0.71 and 0.83 of it at most. Was the device "
                "synchronised, and is input_shape what the model got?",
                images_per_s=seen.images,
                peak_per_s=bound.direct,
            )


# P04: gradients over a link


def _gradients(report: Report, facts: Facts) -> Iterator[Finding]:
    if "pretrained" in report.declared:
        # Frozen layers have no gradients to exchange, and how many are frozen is not in the report.
        return
    found, unknown = [], False
    for group in report.groups:
        world, nodes = count(group.config.get("world_size")), count(report.setting(group.config, "nnodes"))
        ends = nodes if nodes > 1 else world
        if ends < 2 or world < ends or (nodes < 2 and group.config.get("backend") != "nccl"):
            continue
        link = _link(report, facts, nodes)
        if link is None:
            unknown = True
            continue
        found += list(_too_soon(report, facts, group, link, ends))
    yield from few(found)
    if unknown:
        what = "env.interconnect (inside a machine) or env.network_gbit_s (between machines)"
        yield not_verified(
            f"Time of a step against the width of the link between the GPUs: {what} is not given."
        )


def _link(report: Report, facts: Facts, nodes: int) -> Link | None:
    if nodes < 2:
        return facts.devices.links.get(str(report.env.get("interconnect")))
    speed = report.env.get("network_gbit_s")
    if not isinstance(speed, int | float) or isinstance(speed, bool) or speed <= 0:
        return None
    bandwidth = speed * 1e9 / 8
    return Link(f"a network of {speed:g} Gbit/s", bandwidth, bandwidth >= SWITCHES_ADD_UP)


def _too_soon(report: Report, facts: Facts, group: Group, link: Link, ends: int) -> Iterator[Finding]:
    stated = count(report.workload.get("params"), 0)
    parameters = min(stated, facts.model.parameters) if facts.model is not None else stated
    element = 2 if precision(report, group.config) in HALF else 4
    hook = HOOKS.get(str(report.setting(group.config, "comm_hook")), min(HOOKS.values()))
    accumulated = max(1, count(report.setting(group.config, "grad_accum")))
    size = element * parameters * hook / accumulated
    crossings = (1 if link.adds_up else 2) * (ends - 1) / ends
    least = LINK_PART * size * crossings / link.bandwidth
    seen = pace(report, group)
    if seen is not None and seen.step < least:
        yield impossible(
            f"{group.name}: a step took {seen.step * 1e3:.4g} ms. Its {size / 1e6:.4g} MB of gradients need at least "
            f"{least * 1e3:.4g} ms over {link.name}: {LINK_PART} x bytes x {crossings:.3g} / {link.bandwidth / 1e9:.4g} GB/s "
            f"({ends} {'machines' if count(report.setting(group.config, 'nnodes')) > 1 else 'GPUs'}). Is the link entered "
            "right (several adapters: their sum), are steps the forward passes of one process, and are grad_accum and "
            "comm_hook in config? Then: was the device synchronised?",
            step_s=seen.step,
            least_s=least,
        )


# P06: inputs over PCIe


def _inputs(report: Report, facts: Facts) -> Iterator[Finding]:
    name = report.env.get("interconnect")
    link = facts.devices.links.get("PCIe5x16" if name is None else str(name))
    shape = report.workload.get("input_shape")
    if link is None or not isinstance(shape, list):
        return
    for group in report.groups:
        n, seen = count(group.config.get("n_devices")), pace(report, group)
        element = 2 if precision(report, group.config) in HALF else 4
        if n < 2 or seen is None or not on_gpu(report, group.config):
            continue
        size = element * batch(report, group.config) * math.prod(count(extent) for extent in shape)
        least = size * (n - 1) / n / link.bandwidth + LAUNCH_S
        if seen.step < least:
            yield unusual(
                f"{group.name}: a forward call took {seen.step * 1e3:.4g} ms. To hand out {size / 1e6:.4g} MB of input "
                f"takes {least * 1e3:.4g} ms over {link.name}: bytes x (n - 1)/n / {link.bandwidth / 1e9:g} GB/s. Was the "
                "device synchronised? If every GPU got its part straight from the host, this does not hold.",
                step_s=seen.step,
                least_s=least,
            )


# P14: time against the batch


def _any_size(report: Report, facts: Facts) -> Iterator[Finding]:
    rows: dict[tuple[int, str | None], dict[int, float]] = {}
    for group in report.groups:
        seen = pace(report, group)
        if seen is not None and on_gpu(report, group.config):
            key = devices(report, group), precision(report, group.config)
            rows.setdefault(key, {})[batch(report, group.config)] = seen.step
    for (n, _), steps in rows.items():
        smallest, largest = min(steps), max(steps)
        if largest >= WIDER * smallest and max(steps.values()) < SAME_TIME * min(steps.values()):
            yield advice(
                f"n_devices {n}: a forward call takes {steps[smallest] * 1e3:.3g} ms with {smallest} images and "
                f"{steps[largest] * 1e3:.3g} ms with {largest}. In a tiny network launching the kernels takes all the time; "
                "in a larger one the clock was read before the GPU was done: torch.cuda.synchronize().",
                batches=[smallest, largest],
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="P01",
        demands="No more images a second than the GPU's peak allows for the multiplications of the model.",
        threshold=f"images/s <= n x {CLOCKS} x peak / (2 x multiplications), of which a 3x3 convolution of stride 1 needs "
        "1/2.25; three times as many in training, less for frozen layers",
        why=f"The highest published peak without sparsity, and {CLOCKS} for clocks above the nominal one. 2.25 is what "
        "Winograd's F(2x2, 3x3) saves. Convolutions in fp32 use TF32 from compute capability 8.0 on unless allow_tf32 "
        "says no. Multiplications are measured on the model.",
        honest="None of 876 public ResNet figures; the highest is at 0.60 of the bound without the 1.15.",
        examine=_too_fast,
        kinds=KINDS,
    ),
    Rule(
        id="P01b",
        demands="A share of the GPU's peak that trainings in PyTorch reach.",
        threshold=f"{DIRECT:.0%} of the peak, where less than {DIRECT_SHARE:.0%} of the multiplications are in 3x3 convolutions",
        why="The highest of 556 public ResNet figures are 0.83 in inference and 0.71 in training.",
        honest="None of those.",
        examine=_near_peak,
        kinds=KINDS,
    ),
    Rule(
        id="P04",
        demands="A step takes as long as its gradients need over the link between the GPUs.",
        threshold=f"seconds a step >= {LINK_PART} x S x 2(n - 1)/n / bandwidth, S = 4 bytes x parameters x hook / grad_accum; "
        "n machines over a network, n GPUs inside one; half of it where switches may add up",
        why="What a rank must send and receive in an all-reduce (nccl-tests, PERFORMANCE.md), at the nominal bandwidth.",
        honest="None known but a wrong link in env.",
        examine=_gradients,
        kinds=frozenset({"ddp_scaling"}),
    ),
    Rule(
        id="P06",
        demands="A forward call of DataParallel takes as long as handing out its input.",
        threshold=f"seconds a call >= input bytes x (n - 1)/n / bandwidth + {LAUNCH_S * 1e6:g} us; PCIe 5 where the link is "
        "not given",
        why="torch.nn.DataParallel scatters from the first GPU on every call.",
        honest="Low: inputs that come straight from the host.",
        examine=_inputs,
        kinds=frozenset({"dp_inference"}),
    ),
    Rule(
        id="P14",
        demands="A larger batch takes longer.",
        threshold=f"the same time (within {SAME_TIME - 1:.0%}) over {WIDER} times the batch; advice only",
        why="A call that returns before the GPU is done takes the same time whatever the batch.",
        honest="Tiny networks, whose time is that of launching kernels.",
        examine=_any_size,
        kinds=frozenset({"dp_inference"}),
    ),
)
