"""Rules on the devices that the runs used: those that are there, and what they and Lightning do with a precision."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lockstep.reports.counts import gpus_needed, machine_count, number
from lockstep.reports.document import Report
from lockstep.reports.finding import Finding, advice, few, inconsistent
from lockstep.reports.rule import Facts, Rule
from lockstep.text import safe_line

AMPERE = 8.0
"""Compute capability from which on a GPU has TF32 and bfloat16 in hardware."""


def _hardware(report: Report, facts: Facts) -> Iterator[Finding]:
    yield from few(_devices_used(report))
    yield from _clock_of_a_gpu(report)
    yield from few(_precisions(report))


def _devices_used(report: Report) -> Iterator[Finding]:
    there = len(report.gpus)
    for group in report.groups:
        config = group.config
        used, nodes = gpus_needed(report, config), machine_count(config)
        if report.kind == "ddp_scaling" and nodes > number(config.get("world_size")):
            yield inconsistent(
                f"{group.name}: {nodes} machines, but fewer processes. nnodes counts the machines that this configuration "
                "used, each of which runs one process at least.",
                nodes=nodes,
                processes=number(config.get("world_size")),
            )
        if config.get("backend") == "nccl" and not there:
            yield inconsistent(
                f"{group.name}: the backend is nccl, which works on GPUs only, and env.gpus is empty. Was the "
                "environment noted on another machine (a login node)?",
                backend="nccl",
                gpus=0,
            )
        elif used is not None and used > max(there * nodes, 0):
            yield inconsistent(
                f"{group.name} used {used} GPUs; env.gpus names {there}"
                + (f" on each of {nodes} machines." if nodes > 1 else ".")
                + " Was the environment noted on another machine, or do you mean processes on the CPU?",
                used=used,
                gpus=there,
                nodes=nodes,
            )
        ids = config.get("device_ids")
        listed = ids if isinstance(ids, list) else []
        highest = max((int(one) for one in listed if isinstance(one, int | float)), default=0)
        if highest >= max(there, 1):
            yield inconsistent(
                f"{group.name}: device_ids go up to {highest}, and env.gpus names {there} GPUs, which count from 0.",
                gpus=there,
            )


def _clock_of_a_gpu(report: Report) -> Iterator[Finding]:
    if report.gpus:
        return
    if report.method.get("clock") == "cuda_event":
        yield inconsistent(
            "method.clock is cuda_event, which only a GPU can record, and env.gpus is empty. Was the environment noted on "
            "another machine (a login node), or the time read from time.perf_counter?",
            gpus=0,
        )
    elif report.method.get("sync") in ("cuda.synchronize", "cuda_event"):
        yield advice(
            "method.sync says that a GPU was waited for, and env.gpus is empty: on a CPU it is not_applicable.",
            gpus=0,
        )


def _precisions(report: Report) -> Iterator[Finding]:
    best = _capability(report)
    if best is None or best >= AMPERE:
        return
    for group in report.groups:
        precision = str(group.config.get("precision", group.config.get("precision_resolved", "")))
        if precision == "tf32":
            yield inconsistent(
                f"{group.name}: TF32 needs compute capability 8.0 (Ampere), and env.gpus has {best:g}. There it is plain "
                "fp32 whatever allow_tf32 says.",
                compute_capability=best,
            )
        elif precision.startswith("bf16"):
            yield advice(
                f"{group.name}: below compute capability 8.0 (here {best:g}) bfloat16 is emulated, and slow. fp16 with a "
                "GradScaler is what these GPUs are made for.",
                compute_capability=best,
            )


def _capability(report: Report) -> float | None:
    """The highest compute capability that the report names."""
    found = [
        float(gpu.compute_capability)
        for gpu in report.gpus
        if gpu.compute_capability is not None and re.fullmatch(r"\d{1,2}(\.\d{1,2})?", gpu.compute_capability)
    ]
    return max(found, default=None) if len(found) == len(report.gpus) else None


# C15: what Lightning does with a precision

_MIXED = {"16": "16-mixed", "bf16": "bf16-mixed", "32": "32-true", "64": "64-true"}


def _lightning_precision(report: Report, facts: Facts) -> Iterator[Finding]:
    if str(report.env.get("lightning", "2")).startswith("1."):
        # Lightning 1 kept the number it was given.
        return
    for group in report.groups:
        asked, got = (str(group.config.get(f"precision_{part}", "")) for part in ("requested", "resolved"))
        expected = _MIXED.get(asked, asked)
        if group.config.get("accelerator") == "cpu" and expected == "16-mixed":
            expected = "bf16-mixed"
        if _MIXED.get(got, got) != expected:
            yield advice(
                f"{group.name}: Trainer(precision={safe_line(asked, 20)!r}) becomes {safe_line(expected, 20)} there, and "
                f"precision_resolved says {safe_line(got, 20)}. Take it from trainer.precision after the Trainer was made.",
                expected=safe_line(expected, 20),
                resolved=safe_line(got, 20),
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="C14",
        demands="A configuration uses no more devices than there are, and nothing they do not have.",
        threshold="devices <= GPUs of a machine x machines; machines <= processes; TF32 from compute capability 8.0 on; "
        "nccl and CUDA events need GPUs",
        why="NVIDIA, CUDA C++ Programming Guide, Compute Capabilities: TF32 and bfloat16 in hardware from 8.0 on.",
        honest="None known.",
        examine=_hardware,
    ),
    Rule(
        id="C15",
        demands="precision_resolved is what Lightning makes of the request.",
        threshold="exact; advice only",
        why="Seen with pytorch_lightning 2.6.6: 16, '16' and '16-mixed' become bf16-mixed on a CPU.",
        honest="Other versions of Lightning may resolve differently, so that it never costs anything.",
        examine=_lightning_precision,
        kinds=frozenset({"lightning"}),
    ),
)
