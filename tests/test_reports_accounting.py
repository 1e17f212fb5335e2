"""C06, C07, C08, C10, C14 and C15: each catches what only it can, and leaves the honest and odd alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fixtures.reports import honest
from fixtures.reports.sample import settings, single_steps
from lockstep.reports import accounting, clocks, equipment
from lockstep.reports import format as report_format
from lockstep.reports.document import document
from lockstep.reports.finding import Finding
from lockstep.reports.rule import Facts
from lockstep.reports.verify import verify

RULES = (*clocks.RULES, *accounting.RULES, *equipment.RULES)
Change = Callable[[dict[str, Any]], None]


def found(report: dict[str, Any], facts: Facts | None = None) -> tuple[Finding, ...]:
    """What these rules say; a report of the wrong form is a slip of the test."""
    assert report_format.schema_problems(report) == []
    return verify(document(report), facts or Facts(), RULES).findings


def changed(kind: str, change: Change, seed: int = 1) -> dict[str, Any]:
    """An honest report after a change."""
    report = honest(kind, np.random.default_rng(seed), drop_last=False)
    change(report)
    return report


def first(report: dict[str, Any], **config: Any) -> dict[str, Any]:
    """The first run with these settings."""
    run: dict[str, Any] = next(
        run for run in report["runs"] if all(run["config"].get(key) == value for key, value in config.items())
    )
    return run


def _late(report: dict[str, Any]) -> None:
    report["attempt"]["created_utc"] = "2020-01-01T00:00:00Z"


def _short_span(report: dict[str, Any]) -> None:
    run = report["runs"][-1]
    run["t_end"] = run["t_start"] + 0.5 * float(run["wall_s"]) - 0.06


def _all_at_once(report: dict[str, Any]) -> None:
    one, two = report["runs"][:2]
    two["t_end"] = one["t_start"] + two["t_end"] - two["t_start"]
    two["t_start"] = one["t_start"]


def _many_samples(report: dict[str, Any]) -> None:
    run = report["runs"][0]
    run["samples"] *= 3
    run.pop("rank_samples", None)


def _no_sampler(report: dict[str, Any]) -> None:
    for run in report["runs"]:
        epochs, items = run.get("epochs", 1), report["workload"]["dataset_n"]
        run["steps"] = epochs * math.ceil(items / run["config"]["batch_per_rank"])
        run["samples"] = epochs * items * run["config"]["world_size"]
        run.pop("rank_samples", None)


def _unequal(report: dict[str, Any]) -> None:
    run = first(report, world_size=2)
    batch = run["config"]["batch_per_rank"] * run.get("epochs", 1)
    run["rank_samples"] = [run["samples"] // 2 + batch, run["samples"] // 2 - batch]


def _shares_of_all(report: dict[str, Any]) -> None:
    run = first(report, world_size=2)
    run["rank_samples"] = [run["samples"], run["samples"]]


def _three_shares(report: dict[str, Any]) -> None:
    run = first(report, world_size=2)
    run["rank_samples"] = [run["samples"] // 3] * 3


def _accuracy(value: str, unit: str, five: str | None = None) -> Change:
    def change(report: dict[str, Any]) -> None:
        config = report["runs"][0]["config"]
        report["claims"] = [{"what": "accuracy_pct", "config": config, "value": value, "unit": unit}]
        if five is not None:
            report["claims"].append({"what": "acc5_pct", "config": config, "value": five, "unit": unit})

    return change


def _gpus(count: int, **gpu: Any) -> list[dict[str, Any]]:
    return [{"name": "Tesla T4", "memory_total_mib": 15360, **gpu} for _ in range(count)]


def _without_gpus(**config: Any) -> Change:
    def change(report: dict[str, Any]) -> None:
        report["env"]["gpus"] = []
        for run in report["runs"]:
            run["config"].update(config)

    return change


def _cuda_events(report: dict[str, Any]) -> None:
    report["env"]["gpus"] = []
    report["method"]["clock"] = "cuda_event"


def _two_devices_of_one(report: dict[str, Any]) -> None:
    report["env"]["gpus"] = _gpus(1)
    for run in report["runs"]:
        run["config"].pop("device_ids", None)
        run["config"]["n_devices"] = 2


def _ids_beyond(report: dict[str, Any]) -> None:
    report["env"]["gpus"] = _gpus(2)
    for run in report["runs"]:
        run["config"] |= {"n_devices": 2, "device_ids": [1, 2]}


def _tf32_on_a_t4(report: dict[str, Any]) -> None:
    report["env"]["gpus"] = _gpus(1, compute_capability="7.5")
    for run in report["runs"]:
        if run["config"]["precision"] == "fp32":
            run["config"]["precision"] = "tf32"


CAUGHT: dict[str, tuple[str, str, Change, str]] = {
    "written before the runs": ("C06", "dataloader", _late, "local time with a Z"),
    "longer than its span": ("C06", "dataloader", _short_span, "system clock"),
    "steps of two runs": ("C06", "amp", single_steps(rounds=9), "step_s has"),
    "steps longer than their run": ("C06", "lightning", single_steps(length=9), "add up to"),
    "two at once": ("C06", "dataloader", _all_at_once, "at the same time"),
    "three times the samples": ("C07", "ddp_scaling", _many_samples, "steps x batch x processes"),
    "no sampler": ("C08", "ddp_scaling", _no_sampler, "no DistributedSampler"),
    "unequal shares": ("C08", "ddp_scaling", _unequal, "give or take a batch"),
    "shares add up to twice the images": ("C08", "ddp_scaling", _shares_of_all, "add up to"),
    "three shares of two": ("C08", "ddp_scaling", _three_shares, "3 entries for 2 processes"),
    "accuracy above 100": ("C10", "amp", _accuracy("101.5", "%"), "between 0 and 100"),
    "percent as a part": ("C10", "amp", _accuracy("71.2", "1"), "between 0 and 1"),
    "top-1 above top-5": ("C10", "amp", _accuracy("71.2", "%", "40.1"), "mixed up"),
    "nccl without a GPU": ("C14", "ddp_scaling", _without_gpus(backend="nccl"), "GPUs only"),
    "CUDA events without a GPU": ("C14", "dataloader", _cuda_events, "only a GPU can record"),
    "more machines than processes": (
        "C14",
        "ddp_scaling",
        settings({"world_size": 2}, nnodes=3),
        "3 machines",
    ),
    "two devices of one": ("C14", "dp_inference", _two_devices_of_one, "used 2 GPUs; env.gpus names 1"),
    "device ids beyond": ("C14", "dp_inference", _ids_beyond, "count from 0"),
    "tf32 on a T4": ("C14", "amp", _tf32_on_a_t4, "8.0 (Ampere)"),
}


@pytest.mark.parametrize("name", CAUGHT)
def test_what_is_caught(name: str) -> None:
    rule, kind, change, words = CAUGHT[name]
    findings = [finding for finding in found(changed(kind, change)) if finding.judgement.costs]
    assert {finding.rule for finding in findings} == {rule}
    assert any(words in finding.message for finding in findings), [each.message for each in findings]


def _nothing(report: dict[str, Any]) -> None:
    pass


def _cut_off(report: dict[str, Any]) -> None:
    for run in report["runs"]:
        batch = run["config"]["batch_size"]
        run.pop("epochs", None)
        run |= {"steps": 3, "samples": 3 * batch}


def _by_workers(report: dict[str, Any]) -> None:
    report["declared"] = ["iterable_dataset"]
    for run in report["runs"]:
        # Every worker has a short batch at its end.
        run["steps"] += run["config"]["num_workers"]


def _no_padding_counted(report: dict[str, Any]) -> None:
    for run in report["runs"]:
        if "epochs" in run:
            run["samples"] = report["workload"]["dataset_n"] * run["epochs"]
            run.pop("rank_samples", None)


def _clock_slack(report: dict[str, Any]) -> None:
    run = report["runs"][-1]
    run["t_end"] = run["t_start"] + float(run["wall_s"]) - 0.04


def _three_laptops(report: dict[str, Any]) -> None:
    report["env"]["gpus"] = []
    for run in report["runs"]:
        run["config"]["backend"] = "gloo"


def _two_nodes_of_one_gpu(report: dict[str, Any]) -> None:
    report["env"]["gpus"] = _gpus(1)
    for run in report["runs"]:
        run["config"] |= {"backend": "nccl", "nnodes": run["config"]["world_size"]}


def _exactly_perfect(report: dict[str, Any]) -> None:
    _accuracy("100.00000", "%", "100")(report)


HONEST: dict[str, tuple[str, Change]] = {
    **{
        f"{kind} as it comes": (kind, _nothing)
        for kind in ("dataloader", "dp_inference", "ddp_scaling", "amp", "lightning")
    },
    "102 batches and no epoch": ("dataloader", _cut_off),
    "iterable with a short batch for every worker": ("dataloader", _by_workers),
    "padding left out": ("ddp_scaling", _no_padding_counted),
    "clocks that differ by 0.04 s": ("dataloader", _clock_slack),
    "four processes on a CPU": ("ddp_scaling", _three_laptops),
    "a GPU in each of two machines": ("ddp_scaling", _two_nodes_of_one_gpu),
    "100 %": ("amp", _exactly_perfect),
}


@pytest.mark.parametrize("name", HONEST)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_is_left_alone(name: str, seed: int) -> None:
    kind, change = HONEST[name]
    assert [each.message for each in found(changed(kind, change, seed)) if each.judgement.costs] == []


@pytest.mark.parametrize(
    ("start", "unusual"),
    [(lambda wall, rng: 4.0 * (1 + 0.01 * rng), range(1)), (lambda wall, rng: wall / 4, range(35, 41))],
    ids=["a time of its own", "in proportion"],
)
def test_a_part_that_is_left_out_is_told_where_it_follows_the_reading(
    start: Callable[[float, float], float], unusual: range
) -> None:
    told = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        report = changed("ddp_scaling", _nothing, seed)
        late = 1.7e9
        for run in report["runs"]:
            run.pop("step_s", None)
            wall = 16 * (1 + 0.01 * float(rng.standard_normal()))
            left_out = start(wall, float(rng.standard_normal())) if run["config"]["world_size"] > 1 else 0.0
            run.update(t_start=late, t_end=late + wall + left_out, wall_s=repr(wall))
            late += wall + left_out + 1
        told += any("was left out" in finding.message for finding in found(report))
    # A few of the reports have no configuration to compare with.
    assert told in unusual


def test_the_deadline_counts_where_there_is_one() -> None:
    report = changed("dataloader", _nothing)
    last = max(run["t_end"] for run in report["runs"])
    assert found(report, Facts(deadline=last)) == ()
    (late,) = found(report, Facts(deadline=last - 3600))
    assert (late.rule, late.judgement.costs) == ("C06", True)
    assert "3600 s after the deadline" in late.message


def test_lightning_makes_bf16_of_16_on_a_cpu() -> None:
    def asked(report: dict[str, Any]) -> None:
        for run in report["runs"]:
            run["config"] |= {
                "accelerator": "cpu",
                "precision_requested": "16",
                "precision_resolved": "16-mixed",
            }

    findings = found(changed("lightning", asked))
    assert {(each.rule, str(each.judgement)) for each in findings} == {("C15", "consistent")}
    assert "bf16-mixed" in findings[0].message


def test_many_alike_are_told_a_few_times() -> None:
    def all_wrong(report: dict[str, Any]) -> None:
        for run in report["runs"]:
            run["samples"] *= 7

    findings = [each for each in found(changed("ddp_scaling", all_wrong)) if each.rule == "C07"]
    assert len(findings) == 4
    assert "more" in findings[-1].message
