"""What no machine can do is told with its formula, what machines rarely do is left to a person, and the odd is left alone.

That each rule catches something no other does is the corpus's business (tests/test_reports_corpus.py); here are the
lines they draw, from both sides.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.reports import KINDS, honest, knowledge
from lockstep.reports import factors, learning, memory, speed
from lockstep.reports.document import document
from lockstep.reports.finding import Finding, Judgement
from lockstep.reports.model import ModelFacts
from lockstep.reports.physics import RULES, ceiling
from lockstep.reports.rule import Facts
from lockstep.reports.verify import verify
from tests.small_reports import Raw, found, runs_of, small

IMPOSSIBLE, INCONSISTENT = Judgement.IMPOSSIBLE, Judgement.INCONSISTENT
UNUSUAL, ADVICE, UNKNOWN = Judgement.UNUSUAL, Judgement.CONSISTENT, Judgement.NOT_VERIFIED
MIB = 1 << 20

# 750 million multiplications remain of a forward pass, 2250 of forward and backward.
MODEL = ModelFacts(
    macs=1_000_000_000,
    macs_3x3=450_000_000,
    parameters=25_000_000,
    saved_bytes={"fp32": 100 * MIB, "amp": 50 * MIB},
    fixed_bytes={"fp32": 0, "amp": 50_000_000},
    classes=10,
)
FACTS = Facts(model=MODEL)
T4, A100, UNHEARD = ("Tesla T4", 15_109), ("NVIDIA A100-SXM4-40GB", 40_339), ("NVIDIA Lab 1", 8192)
T4_INFERENCE = 1.15 * 8.1e12 / (2 * 750e6)
T4_TRAINING, T4_AMP = T4_INFERENCE / 3, T4_INFERENCE / 3 * 65 / 8.1


def report(kind: str, runs: Sequence[Raw], gpus: Sequence[tuple[str, int]] = (T4,), **sections: Any) -> Raw:
    """A small report from a machine with these GPUs; `env` and `workload` add to what is there."""
    env, workload = sections.pop("env", {}), sections.pop("workload", {})
    claims = sections.pop("claims", [{"what": "best_config", "config": dict(runs[0]["config"])}])
    made = small(kind, runs, claims, **sections)
    made["env"].update({"gpus": [{"name": name, "memory_total_mib": mib} for name, mib in gpus], **env})
    made["workload"].update(
        {
            "model": "net",
            "params": MODEL.parameters,
            "input_shape": [3, 224, 224],
            "dataset_n": 50_000,
            **workload,
        }
    )
    if gpus and "method" not in sections:
        made["method"]["sync"] = "cuda.synchronize"
    return made


def at(
    rate: float, config: Mapping[str, Any], samples: int = 64_000, steps: int = 1000, **more: Any
) -> list[Raw]:
    """Three runs at so many images a second."""
    runs = runs_of(
        config, [repr(samples / rate * factor) for factor in (1.0, 1.0000123, 0.9999871)], samples, steps
    )
    return [{**run, **more} for run in runs]


def amp(rate: float, precision: str = "fp32", batch: int = 64, **config: Any) -> list[Raw]:
    return at(rate, {"precision": precision, "batch_size": batch, **config}, samples=1000 * batch)


def ddp(rate: float, world: int, batch: int = 32, **config: Any) -> list[Raw]:
    settings = {"world_size": world, "batch_per_rank": batch, **config}
    return at(rate, settings, samples=1000 * batch * world)


def gloo(*speedups: float, batches: Sequence[int] = (), counts: Sequence[int] = (), **sections: Any) -> Raw:
    """1, 2, 4 ... processes on 16 cores; the first is the baseline."""
    worlds = counts or [2**n for n in range(len(speedups))]
    sizes = batches or [32] * len(speedups)
    runs = [run for s, n, b in zip(speedups, worlds, sizes, strict=True) for run in ddp(100 * s, n, b)]
    return report("ddp_scaling", runs, (), env={"cpu_logical": 16, **sections.pop("env", {})}, **sections)


def dp(rate: float, n: int, batch: int = 64, **config: Any) -> list[Raw]:
    return at(rate, {"batch_size": batch, "n_devices": n, **config}, samples=1000 * batch)


def of(rule: str, raw: Raw, facts: Facts = FACTS) -> list[Finding]:
    return [finding for finding in found(raw, RULES, facts) if finding.rule == rule]


def judged(rule: str, raw: Raw, facts: Facts = FACTS) -> set[Judgement]:
    return {finding.judgement for finding in of(rule, raw, facts)}


def with_peak(
    peak: float, config: Mapping[str, Any] | None = None, gpus: Any = (T4,), **sections: Any
) -> Raw:
    settings = {"precision": "fp32", "batch_size": 64, **(config or {})}
    size = {"workload": {"optimizer": "sgd-momentum"}, **sections}
    return report("amp", at(50, settings, peak_alloc_bytes=int(peak)), gpus, **size)


def few_images(peak: float, images: int, batch: int, steps: int = 1) -> Raw:
    """A training that sees so many images in so many steps."""
    config = {"precision": "fp32", "batch_size": batch}
    return report("amp", at(50, config, images, steps, peak_alloc_bytes=int(peak)), (T4,))


def least(weights: float, images: int, each: int = 100, copies: int = 0) -> float:
    return weights * MODEL.parameters + copies + images * each * MIB


def search(
    *trials: tuple[str, int, int | None], claims: Mapping[str, int] | None = None, **sections: Any
) -> Raw:
    """Trials of (precision, batch, peak in MiB or None for out of memory)."""
    listed: list[Raw] = []
    for precision, batch, peak in trials:
        trial: Raw = {"precision": precision, "batch_size": batch, "ok": peak is not None}
        trial |= (
            {"error": "CUDA out of memory."}
            if peak is None
            else {"peak_alloc_bytes": peak * MIB}
            if peak
            else {}
        )
        listed.append(trial)
    stated = [
        {"what": "max_batch", "config": {"precision": name}, "value": str(size)}
        for name, size in (claims or {}).items()
    ]
    runs = amp(50, batch=16) + amp(80, "fp16-amp", 16)
    return report("amp", runs, batch_search=listed, **({"claims": stated} if stated else {}), **sections)


def networked(step_ms: float, gbit: float | None, world: int = 2, nodes: int = 2, **config: Any) -> Raw:
    env = {} if gbit is None else {"network_gbit_s": gbit}
    rate = 32 * world / (step_ms * 1e-3)
    runs = ddp(rate, world, backend="nccl", nnodes=nodes, **config)
    return report("ddp_scaling", runs, (A100,), env=env)


def linked(step_ms: float, link: str | None, world: int = 2, gpus: Any = (A100, A100), **config: Any) -> Raw:
    env = {} if link is None else {"interconnect": link}
    return report(
        "ddp_scaling",
        ddp(32 * world / (step_ms * 1e-3), world, **{"backend": "nccl", **config}),
        gpus,
        env=env,
    )


def loaded(zero: float, workers: Mapping[int, float], cores: int = 8, **sections: Any) -> Raw:
    runs = [
        r for n, rate in {0: zero, **workers}.items() for r in at(rate, {"num_workers": n, "batch_size": 64})
    ]
    plot = {"x": [0.0], "y": [1.0], "yerr": [0.0]}
    return report("dataloader", runs, (), env={"cpu_logical": cores}, plot=plot, **sections)


def learned(
    accuracy: float, first: float | None, last: float | None, classes: int = 10, **sections: Any
) -> Raw:
    losses = {
        name: value for name, value in (("loss_first", first), ("loss_last", last)) if value is not None
    }
    runs = at(50, {"precision": "fp32", "batch_size": 64}, **losses)
    claims = [
        {"what": "accuracy_pct", "config": {"precision": "fp32"}, "value": f"{accuracy:.2f}", "unit": "%"}
    ]
    return report("amp", runs, claims=claims, workload={"num_classes": classes}, **sections)


def accuracies(
    fp32: float, half: float, total: int | None = None, epochs: tuple[int, int] | None = None
) -> Raw:
    runs, claims = [], []
    for n, (name, value) in enumerate((("fp32", fp32), ("fp16-amp", half))):
        runs += at(50, {"precision": name, "batch_size": 64}, **({"epochs": epochs[n]} if epochs else {}))
        claim: Raw = {
            "what": "accuracy_pct",
            "config": {"precision": name},
            "value": f"{value:.2f}",
            "unit": "%",
        }
        claims.append(claim | ({"total": total, "correct": round(total * value / 100)} if total else {}))
    return report("amp", runs, claims=claims)


def last_losses(fp32: float, half: float) -> Raw:
    runs = [
        run
        for name, loss in (("fp32", fp32), ("bf16-amp", half))
        for run in at(50, {"precision": name, "batch_size": 64}, loss_last=loss)
    ]
    return report("amp", runs, (A100,), workload={"num_classes": 10})


NO_TF32 = {"allow_tf32": {"matmul": False, "cudnn": False}}
A100_FP32, A100_TF32 = T4_TRAINING * 19.5 / 8.1, T4_TRAINING * 156 / 8.1

BEYOND: list[tuple[str, str, Judgement, Raw]] = [
    ("P01", "inference", IMPOSSIBLE, report("dp_inference", dp(1.01 * T4_INFERENCE, 1))),
    ("P01", "two GPUs", IMPOSSIBLE, report("dp_inference", dp(2.02 * T4_INFERENCE, 2), (T4, T4))),
    ("P01", "training", IMPOSSIBLE, report("amp", amp(1.01 * T4_TRAINING))),
    ("P01", "AMP", IMPOSSIBLE, report("amp", amp(1.01 * T4_AMP, "fp16-amp"))),
    ("P01", "fp32 without TF32", IMPOSSIBLE, report("amp", amp(1.01 * A100_FP32), (A100,), env=NO_TF32)),
    ("P01", "TF32", IMPOSSIBLE, report("amp", amp(1.01 * A100_TF32), (A100,))),
    ("P01", "TF32 on a T4 is fp32", IMPOSSIBLE, report("amp", amp(1.01 * T4_TRAINING, "tf32"))),
    ("P01", "NCCL", IMPOSSIBLE, report("ddp_scaling", ddp(2.02 * T4_TRAINING, 2, backend="nccl"), (T4, T4))),
    ("P01", "Lightning", IMPOSSIBLE, report("lightning", at(1.01 * T4_AMP, {
        "precision_requested": "16", "precision_resolved": "16-mixed", "batch_size": 64, "accelerator": "cuda"}))),
    ("P01b", "inference", UNUSUAL, report("dp_inference", dp(0.91 * 8.1e12 / 2e9, 1))),
    ("P02", "fp32", IMPOSSIBLE, with_peak(0.949 * least(8, 64))),
    ("P02", "AMP", IMPOSSIBLE, with_peak(0.949 * least(8, 64, 50, 50_000_000), {"precision": "fp16-amp"})),
    ("P02", "Adam", IMPOSSIBLE, with_peak(0.949 * least(12, 64), workload={"optimizer": "adamw"})),
    ("P02", "Adam, as torch calls it", IMPOSSIBLE, with_peak(0.949 * least(12, 64), workload={"optimizer": "AdamW"})),
    ("P02", "a batch larger than the data set", IMPOSSIBLE, few_images(0.949 * least(4, 48), 48, batch=512)),
    ("P02", "three batches that are nearly full", IMPOSSIBLE, few_images(0.9 * least(4, 60), 180, batch=64, steps=3)),
    ("P02", "checkpointing", UNUSUAL, with_peak(0.9 * least(8, 64), {"activation_checkpointing": True})),
    ("P02", "compiled", UNUSUAL, with_peak(0.9 * least(8, 64), {"compiled": True})),
    ("P02", "in-place norms", UNUSUAL, with_peak(0.9 * least(8, 64), declared=["inplace_norm"])),
    ("P02", "a batch that cannot fit", IMPOSSIBLE, report("amp", amp(50, batch=162))),
    ("P02", "a trial that cannot fit", IMPOSSIBLE, search(("fp32", 16, 5000), ("fp32", 170, 0), ("fp32", 200, None))),
    ("P02", "a claim that cannot fit", IMPOSSIBLE, search(("fp32", 256, None), claims={"fp32": 170})),
    ("P02", "a trial with a low peak", IMPOSSIBLE, search(("fp32", 64, 3000), ("fp32", 200, None))),
    ("P03", "more allocated than reserved", INCONSISTENT, report("amp", at(
        50, {"precision": "fp32", "batch_size": 16}, peak_alloc_bytes=2020 * MIB, peak_reserved_bytes=1990 * MIB))),
    ("P03", "more than there is", IMPOSSIBLE, with_peak(15_300 * MIB)),
    ("P03", "more than there is, on Windows", UNUSUAL, with_peak(15_300 * MIB, env={"os": "Windows"})),
    ("P03", "a T4 with 24 GB", UNUSUAL, with_peak(8000 * MIB, gpus=(("Tesla T4", 24_576),))),
    ("P04", "10 GbE", IMPOSSIBLE, networked(0.89 * 80, 10.0)),
    ("P04", "fp16 hook", IMPOSSIBLE, networked(0.89 * 40, 10.0, comm_hook="fp16_compress")),
    ("P04", "accumulated", IMPOSSIBLE, networked(0.89 * 20, 10.0, grad_accum=4)),
    ("P04", "eight GPUs on two machines", IMPOSSIBLE, networked(0.89 * 80, 10.0, world=8)),
    ("P04", "PCIe", IMPOSSIBLE, linked(0.89 * 100 / 16, "PCIe3x16")),
    ("P04", "NVLink of four", IMPOSSIBLE, linked(0.89 * 150 / 300, "NVLink3", 4, (A100,) * 4)),
    ("P05", "a little more", ADVICE, gloo(1, 2.05)),
    ("P05", "more", UNUSUAL, gloo(1, 2.25)),
    ("P05", "far more", UNUSUAL, gloo(1, 3.1)),
    ("P05", "DataParallel", UNUSUAL, report("dp_inference", dp(500, 1) + dp(1200, 2), (T4, T4))),
    ("P06", "over PCIe 3", UNUSUAL, report(
        "dp_inference", dp(64 / 1e-6 / 301, 2), (A100, A100), env={"interconnect": "PCIe3x16"})),
    ("P07", "two cores", UNUSUAL, loaded(100, {4: 270}, cores=2)),
    ("P07", "one worker", UNUSUAL, loaded(100, {1: 135})),
    ("P08", "nothing decoded", UNUSUAL, loaded(20_100, {2: 20_000})),
    ("P09", "five times", UNUSUAL, report("amp", amp(10) + amp(46, "fp16-amp"))),
    ("P09", "a fifth", UNUSUAL, report("amp", amp(50) + amp(12, "fp16-amp"))),
    ("P10", "runs", UNUSUAL, report("amp", amp(50) + amp(80, "fp16-amp"))),
    ("P10", "trials", UNUSUAL, search(("fp32", 32, 8000), ("fp16-amp", 32, 3500))),
    ("P11", "after doubling", UNUSUAL, search(
        ("fp32", 8, 900), ("fp32", 16, None), ("fp16-amp", 64, 3700), claims={"fp32": 8, "fp16-amp": 64})),
    ("P11", "without a search", UNUSUAL, search(claims={"fp32": 30, "fp16-amp": 67})),
    ("P12", "no search", ADVICE, search(claims={"fp32": 30})),
    ("P12", "no failure", ADVICE, search(("fp32", 16, 5000), ("fp32", 32, 7000))),
    ("P12", "fits again", ADVICE, search(("fp32", 16, 5000), ("fp32", 32, None), ("fp32", 48, 9000))),
    ("P12", "no line", ADVICE, search(("fp32", 16, 9000), ("fp32", 32, 3900), ("fp32", 64, 9000), ("fp32", 96, None))),
    ("P13", "less than nothing", UNUSUAL, gloo(1, 2.12)),
    ("P13", "falls, weak", UNUSUAL, gloo(1, 1.3, 3.4)),
    ("P13", "falls, strong", UNUSUAL, gloo(1, 1.25, 2.9, batches=(64, 32, 16))),
    ("P13", "no law", UNUSUAL, gloo(1, 1.95, 3.9, 3.95)),
    ("P14", "any batch", ADVICE, report("dp_inference", dp(8 / 2e-3, 1, 8) + dp(128 / 2.4e-3, 1, 128), (A100,))),
    ("P15", "high", ADVICE, learned(40, 3.4, 1.2)),
    ("P15", "low", ADVICE, learned(40, 1.2, 0.8)),
    ("P16", "softmax twice", UNUSUAL, learned(70, 2.3, 1.7)),
    ("P16", "a hundred classes", UNUSUAL, learned(70, 4.6, 3.9, classes=100)),
    ("P18", "better", UNUSUAL, accuracies(70, 73.1)),
    ("P18", "fp32 once more", UNUSUAL, last_losses(1.2345678806304932, 1.2345678806304932)),
    ("P18", "worse", UNUSUAL, accuracies(70, 64, total=10_000, epochs=(5, 5))),
]  # fmt: skip


def _peaks(raw: Raw, **by_precision: int) -> Raw:
    for run in raw["runs"]:
        run["peak_alloc_bytes"] = by_precision[run["config"]["precision"].partition("-")[0]] * MIB
    return raw


_peaks(next(raw for rule, name, _, raw in BEYOND if (rule, name) == ("P10", "runs")), fp32=8000, fp16=3550)

WITHIN: list[tuple[str, str, Raw]] = [
    ("P01", "inference", report("dp_inference", dp(0.99 * T4_INFERENCE, 1))),
    ("P01", "training", report("amp", amp(0.99 * T4_TRAINING))),
    ("P01", "frozen layers", report("amp", amp(2.9 * T4_TRAINING), declared=["pretrained"])),
    ("P01", "cuDNN's default is TF32", report("amp", amp(0.99 * A100_TF32), (A100,))),
    ("P01", "matrix products in TF32", report("amp", amp(0.99 * A100_TF32), (A100,), env={
        "allow_tf32": {"matmul": True, "cudnn": False}})),
    ("P01", "several GPUs, and nobody says how many", report("amp", amp(1.9 * T4_TRAINING), (T4, T4))),
    ("P01", "a slice is measured by the whole card", report(
        "amp", amp(0.9 * A100_TF32), (("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4864),))),
    ("P01", "on the CPU of a machine with a GPU", report("ddp_scaling", ddp(1e6, 2, backend="gloo"))),
    ("P01", "no GPU", report("amp", amp(1e6), ())),
    ("P01", "Lightning on the CPU", report("lightning", at(1e6, {
        "precision_requested": "32", "precision_resolved": "32-true", "batch_size": 64, "accelerator": "cpu"}))),
    ("P01b", "at 0.89", report("dp_inference", dp(0.89 * 8.1e12 / 2e9, 1))),
    ("P02", "fp32", with_peak(0.951 * least(8, 64))),
    ("P02", "a batch larger than the data set", few_images(0.951 * least(4, 48), 48, batch=512)),
    ("P02", "a trial with a batch larger than the data set", search(
        ("fp32", 16, 5000), ("fp32", 512, 8000), ("fp32", 1024, None), workload={"dataset_n": 48})),
    ("P02", "frozen layers", with_peak(4.2 * MODEL.parameters, declared=["pretrained"])),
    ("P02", "momentum that never came to be", with_peak(0.951 * least(4, 64), {"grad_accum": 1000})),
    ("P02", "no peak was read", with_peak(0)),
    ("P02", "a batch split by DataParallel", with_peak(0.951 * least(8, 32), gpus=(T4, T4))),
    ("P02", "the largest that fits", report("amp", amp(50, batch=150))),
    ("P02", "the host's memory", report("amp", amp(50, batch=300), declared=["unified_memory"])),
    ("P02", "a driver for Windows", report("amp", amp(50, batch=300), env={"os": "Windows"})),
    ("P02", "a large batch on the CPU", report("ddp_scaling", ddp(5, 2, 4000, backend="gloo"))),
    ("P03", "all of it", with_peak(15_109 * MIB)),
    ("P03", "unified memory", with_peak(30_000 * MIB, declared=["unified_memory"])),
    ("P04", "10 GbE", networked(0.91 * 80, 10.0)),
    ("P04", "switches that add up", networked(0.91 * 4, 100.0)),
    ("P04", "PowerSGD", networked(3, 10.0, comm_hook="powersgd")),
    ("P04", "frozen layers", {**networked(10, 10.0), "declared": ["pretrained"]}),
    ("P04", "PCIe", linked(0.91 * 100 / 16, "PCIe3x16")),
    ("P04", "gloo inside a machine", linked(1, "PCIe3x16", backend="gloo")),
    ("P05", "linear", gloo(1, 2.0, 4.0)),
    ("P05", "a noisy machine", gloo(1, 2.03)),
    ("P05", "another model's baseline", report("ddp_scaling", ddp(100, 1, compiled=True) + ddp(300, 2), ())),
    ("P06", "over PCIe 3", report(
        "dp_inference", dp(64 / 1e-6 / 1300, 2), (A100, A100), env={"interconnect": "PCIe3x16"})),
    ("P06", "another link", report("dp_inference", dp(1e6, 2), (A100, A100), env={"interconnect": "other"})),
    ("P07", "eight workers on eight cores", loaded(100, {8: 1000})),
    ("P07", "slower", loaded(100, {2: 50, 8: 20})),
    ("P08", "fast", loaded(19_000, {})),
    ("P08", "in memory", loaded(500_000, {2: 80_000}, declared=["in_memory_data"])),
    ("P09", "NVIDIA's 3.97", report("amp", amp(10) + amp(39.7, "fp16-amp"))),
    ("P09", "slower", report("amp", amp(50) + amp(13, "fp16-amp"))),
    ("P09", "bf16 on a T4 is emulated", report("amp", amp(50) + amp(5, "bf16-amp"))),
    ("P09", "bf16 on a T4 that moves half the bytes", report("amp", amp(50) + amp(74, "bf16-amp"))),
    ("P09", "bf16 on a CPU", report("amp", amp(50) + amp(2, "bf16-amp"), ())),
    ("P09", "other batches", report("amp", amp(10, batch=8) + amp(60, "fp16-amp", 256))),
    ("P10", "half", _peaks(report("amp", amp(50) + amp(80, "fp16-amp")), fp32=8000, fp16=3650)),
    ("P11", "after doubling", search(
        ("fp32", 16, 3000), ("fp32", 32, None), ("fp16-amp", 64, 6000), ("fp16-amp", 128, None),
        claims={"fp32": 16, "fp16-amp": 64})),
    ("P11", "twice", search(claims={"fp32": 30, "fp16-amp": 61})),
    ("P12", "as it should be", search(
        ("fp32", 16, 3000), ("fp32", 32, 5000), ("fp32", 64, 9100), ("fp32", 128, None), claims={"fp32": 64})),
    ("P13", "Clemson", gloo(1, 151 / 111, 151 / 96)),
    ("P13", "linear", gloo(1, 1.97, 3.94, 7.83)),
    ("P13", "Amdahl", gloo(1, 1.6, 2.3, 2.9, batches=(64, 32, 16, 8))),
    *(
        ("P13", f"{fixed} s of {fixed + 100} are those of any number", gloo(
            *((fixed + 100) / (fixed + 100 / n) for n in (1, 2, 4, 8, 16))))
        for fixed in (2, 4, 8, 40)
    ),
    ("P13", "slower than one", gloo(1, 0.4, 0.9)),
    ("P13", "more processes than cores", gloo(1, 1.9, 1.95, 1.6, env={"cpu_logical": 2})),
    ("P14", "grows", report("dp_inference", dp(8 / 2e-3, 1, 8) + dp(128 / 2.6e-3, 1, 128), (A100,))),
    ("P14", "no wide range", report("dp_inference", dp(16 / 2e-3, 1, 16) + dp(128 / 2e-3, 1, 128), (A100,))),
    ("P15", "guessing", learned(40, 2.302, 1.2)),
    ("P15", "nearly", learned(40, 3.29, 1.2)),
    ("P15", "pretrained", learned(40, 0.9, 0.5, declared=["pretrained"])),
    ("P15", "a hundred classes", learned(40, 4.6, 3, classes=100)),
    ("P16", "learns", learned(70, 2.3, 0.9)),
    ("P16", "half right", learned(50, 2.3, 1.7)),
    ("P16", "label smoothing", learned(90, 2.3, 1.5, declared=["label_smoothing"])),
    ("P18", "nearly", accuracies(70, 72.9)),
    ("P18", "losses of four decimals", last_losses(1.2346, 1.2346)),
    ("P18", "losses that nearly agree", last_losses(1.2345678806304932, 1.2345678806304900)),
    ("P18", "a network that never learned", last_losses(2.3025851249694824, 2.3025851249694824)),
    ("P18", "few pictures", accuracies(70, 60, total=100)),
    ("P18", "not equally long", accuracies(60, 80, epochs=(1, 3))),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "name", "judgement", "raw"), BEYOND, ids=[f"{r} {n}" for r, n, _, _ in BEYOND]
)
def test_what_is_beyond_is_told(rule: str, name: str, judgement: Judgement, raw: Raw) -> None:
    told = of(rule, raw)
    assert {finding.judgement for finding in told} == {judgement}
    for finding in told:
        assert len(finding.message) > 40
        json.dumps(dict(finding.numbers), allow_nan=False)


@pytest.mark.parametrize(
    ("method", "words", "unsaid"),
    [
        ({}, "Then say so in method.cache_state", "cache_state says"),
        ({"cache_state": "unknown"}, "Then say so in method.cache_state", "cache_state says"),
        ({"cache_state": "warm"}, "method.cache_state says warm", "say so"),
    ],
)
def test_a_loader_that_gains_much_is_asked_for_what_it_has_not_said(
    method: Raw, words: str, unsaid: str
) -> None:
    raw = loaded(100, {4: 270}, cores=2)
    raw["method"] |= method
    (finding,) = of("P07", raw)
    assert "2.7 times as fast as 0 workers" in finding.message
    assert "Up to 2.6 is expected, 1.3 x min(workers, cores)" in finding.message
    assert "torch.set_num_threads(1)" in finding.message
    assert words in finding.message
    assert unsaid not in finding.message


@pytest.mark.parametrize(("rule", "name", "raw"), WITHIN, ids=[f"{r} {n}" for r, n, _ in WITHIN])
def test_what_is_within_is_left_alone(rule: str, name: str, raw: Raw) -> None:
    assert of(rule, raw) == []


def test_every_rule_is_tried_from_both_sides() -> None:
    ids = {rule.id for rule in RULES}
    assert {rule for rule, *_ in BEYOND} == {rule for rule, *_ in WITHIN} == ids
    assert ids == {"P01b", *(f"P{number:02}" for number in range(1, 19) if number != 17)}


def test_the_figures_of_the_rules_come_out() -> None:
    """ResNet-152 at 224 pixels: 183 images/s on a T4 and 355 on a V100 in fp32, 1470 on a T4 with AMP."""
    resnet = ModelFacts(11_511_599_104, 5_433_458_688, 58_164_298, {"fp32": 1, "amp": 1})
    for gpu, precision, expected in (
        ("Tesla T4", "fp32", 183),
        ("Tesla V100-SXM2-16GB", "fp32", 355),
        ("Tesla T4", "fp16-amp", 1470),
    ):
        raw = report("amp", amp(50, precision), ((gpu, 15_000),), workload={"params": 58_164_298})
        most = ceiling(document(raw), Facts(model=resnet), raw["runs"][0]["config"])
        assert most == pytest.approx(expected, rel=0.005)


def test_a_ceiling_is_there_only_where_it_is_known() -> None:
    raw = report("amp", amp(50))
    assert ceiling(document(raw), Facts(), raw["runs"][0]["config"]) is None
    assert ceiling(document(raw), FACTS, {"precision": "bf16-true"}) is None
    raw = report("amp", amp(50), (UNHEARD,))
    assert ceiling(document(raw), FACTS, raw["runs"][0]["config"]) is None


@pytest.mark.parametrize(
    ("raw", "facts", "rules", "words"),
    [
        (report("amp", amp(50), (UNHEARD,)), FACTS, {"P01"}, "NVIDIA Lab 1"),
        (report("amp", amp(50)), Facts(), {"P01", "P02"}, "could not be measured"),
        (report("amp", amp(50), workload={"params": 11_000_000}), FACTS, {"P01", "P02"}, "workload.params says 11000000"),
        (report("lightning", at(50, {"precision_requested": "x", "precision_resolved": "transformer-engine",
                                     "batch_size": 8, "accelerator": "cuda"})), FACTS, {"P01"}, "no peak is known"),
        (networked(100, None), FACTS, {"P04"}, "env.interconnect"),
        (linked(100, None), FACTS, {"P04"}, "env.interconnect"),
        (report("amp", amp(50), ()), Facts(), set(), ""),
        (gloo(1, 1.9), Facts(), set(), ""),
        (loaded(100, {2: 150}), Facts(), set(), ""),
    ],
)  # fmt: skip
def test_what_cannot_be_looked_into_is_said_once(raw: Raw, facts: Facts, rules: set[str], words: str) -> None:
    told = [finding for finding in found(raw, RULES, facts) if finding.judgement is UNKNOWN]
    assert {finding.rule for finding in told} == rules
    assert len(told) == len(rules)
    assert all(words in finding.message for finding in told)


def test_a_clock_that_ticks_coarsely_gets_its_tick() -> None:
    """A reading of 0.015625 s may have been twice that: one tick off at each end."""
    config = {"precision": "fp32", "batch_size": 32}
    raw = report(
        "amp", runs_of(config, ["0.015625"] * 3, 48, 2), method={"clock": "time.time", "sync": "none"}
    )
    assert 48 / 0.015625 > T4_TRAINING > 48 / 0.03125
    assert of("P01", raw) == []


def test_the_middle_run_decides() -> None:
    raw = report("amp", amp(0.5 * T4_TRAINING))
    raw["runs"][0]["wall_s"] = repr(float(raw["runs"][0]["wall_s"]) / 50)
    assert of("P01", raw) == []


def test_a_speedup_of_medians_is_told_as_one() -> None:
    """Claims are worked out from sums of seconds, and one slow run makes another number of it."""
    raw = gloo(1, 2.05)
    raw["runs"][0]["wall_s"] = repr(float(raw["runs"][0]["wall_s"]) * 3)
    (finding,) = of("P05", raw)
    assert (
        "by the medians of its runs and of those on one device, 2.05 times as many images" in finding.message
    )


def test_who_did_not_wait_is_asked_first() -> None:
    raw = report("amp", amp(9 * T4_TRAINING), method={"clock": "time.time", "sync": "none"})
    (finding,) = of("P01", raw)
    assert 'method.sync is "none"' in finding.message
    assert "1.15 x peak / (2 x multiplications" in finding.message
    waited = report("amp", amp(9 * T4_TRAINING))
    assert "Was the device synchronised" in of("P01", waited)[0].message


def test_many_findings_of_a_kind_are_few() -> None:
    runs = [run for batch in range(1, 9) for run in amp(9 * T4_TRAINING, batch=batch)]
    told = of("P01", report("amp", runs))
    assert len(told) == 4
    assert "The same holds for 5 more" in told[-1].message


def test_fewer_parameters_do_not_loosen_the_link() -> None:
    """Frozen parameters are not exchanged; those that are stated and those measured both bound them."""
    raw = networked(0.89 * 80, 10.0)
    assert judged("P04", raw) == {IMPOSSIBLE}
    assert judged("P04", raw, Facts()) == {IMPOSSIBLE}
    assert judged("P04", raw, Facts(model=replace(MODEL, parameters=20_000_000))) == set()


def test_names_of_a_student_cannot_paint() -> None:
    raw = report("amp", amp(50), (("\x1b[31mTesla\n\u202e", 9000),))
    for finding in found(raw, RULES, FACTS):
        assert "\x1b" not in finding.message
        assert "\n" not in finding.message


@pytest.mark.parametrize("kind", KINDS)
def test_honest_reports_are_left_alone(kind: str) -> None:
    for seed in range(12):
        raw = honest(kind, np.random.default_rng([7, seed]))
        told = verify(document(raw), knowledge(raw), RULES).findings
        assert not [finding for finding in told if finding.judgement.costs], (seed, told)


WHOLE = st.one_of(st.integers(0, 3), st.integers(1, 2**63 - 1))
SECONDS = st.one_of(
    st.sampled_from(["0", "0.0", "1e-30", "1e15", "1", "0.015625", "5e-324", "1e308"]),
    st.floats(1e-9, 1e9).map(repr),
)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_no_numbers_upset_the_rules(kind: str, data: st.DataObject) -> None:
    machine = data.draw(st.sampled_from(["two 3090", "two nodes of t4", "laptop", "v100"]))
    raw = copy.deepcopy(honest(kind, np.random.default_rng(data.draw(st.integers(0, 3))), machine=machine))
    for run in raw["runs"]:
        run["wall_s"] = data.draw(SECONDS)
        run["samples"], run["steps"] = data.draw(WHOLE), max(1, data.draw(WHOLE))
        run["config"] = {
            name: data.draw(WHOLE) if type(value) is int else value for name, value in run["config"].items()
        }
        if data.draw(st.booleans()):
            run["peak_alloc_bytes"], run["peak_reserved_bytes"] = data.draw(WHOLE), data.draw(WHOLE)
            run["loss_first"] = run["loss_last"] = data.draw(st.floats(-1e30, 1e30))
    for trial in raw.get("batch_search", []):
        trial["batch_size"], trial["peak_alloc_bytes"] = data.draw(WHOLE), data.draw(WHOLE)
    for claim in raw["claims"]:
        if "value" in claim:
            claim["value"] = data.draw(st.one_of(SECONDS, st.sampled_from(["-1e15", "-0.0"])))
    raw["workload"].update(
        params=data.draw(WHOLE), num_classes=data.draw(WHOLE), input_shape=[data.draw(WHOLE)] * 3
    )
    raw["env"]["cpu_logical"] = data.draw(WHOLE)
    wild = ModelFacts(
        data.draw(WHOLE), 0, data.draw(WHOLE), {"fp32": data.draw(WHOLE), "amp": data.draw(WHOLE)}
    )
    facts = data.draw(st.sampled_from([Facts(), Facts(model=wild), Facts(model=ModelFacts(0, 0, 0, {}))]))
    for rule in RULES:
        if rule.kinds is None or kind in rule.kinds:
            for finding in rule.examine(document(raw), facts):
                json.dumps(dict(finding.numbers))


def test_a_speedup_that_is_too_small_for_a_number_upsets_no_rule() -> None:
    raw = honest("dp_inference", np.random.default_rng(0), machine="v100")
    for run in raw["runs"]:
        run["wall_s"] = "1e-300" if run["config"]["n_devices"] == 1 else "1e308"
    for rule in RULES:
        if rule.kinds is None or "dp_inference" in rule.kinds:
            list(rule.examine(document(raw), Facts()))


def test_constants_are_in_the_texts() -> None:
    texts = {rule.id: rule.threshold for rule in RULES}
    for rule, value in {
        "P01": speed.CLOCKS, "P02": memory.KEPT, "P04": speed.LINK_PART, "P05": factors.FAR_MORE,
        "P07": factors.WORKERS, "P08": factors.DECODED, "P10": memory.AMP_PEAK, "P11": memory.AMP_BATCH,
        "P13": factors.NEGATIVE, "P18": f"{learning.POINTS:g}",
    }.items():  # fmt: skip
        assert str(value) in texts[rule]
    assert math.isclose(math.log(math.e + 9) - 1, 1.4612, abs_tol=5e-5)
