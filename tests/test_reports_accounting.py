"""C06, C07, C08, C10, C14 and C15: each catches what only it can, and leaves the honest and odd alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from fixtures.reports import honest
from fixtures.reports.sample import settings, single_steps
from lockstep.reports import accounting, clocks, equipment, ratios
from lockstep.reports import format as report_format
from lockstep.reports.document import document
from lockstep.reports.finding import Finding
from lockstep.reports.rule import Facts
from lockstep.reports.verify import verify
from tests.small_reports import runs_of, small

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


def _at_once_on(**places: Any) -> Change:
    """Two runs at once, and where they say they were: a pair of names, or the same for both."""

    def change(report: dict[str, Any]) -> None:
        _all_at_once(report)
        for which, run in enumerate(report["runs"][:2]):
            run["extra"] = {
                key: place[which] if isinstance(place, tuple) else place for key, place in places.items()
            }

    return change


def _written_before_the_end(seconds: float) -> Change:
    def change(report: dict[str, Any]) -> None:
        late = max(run["t_end"] for run in report["runs"]) - seconds
        report["attempt"]["created_utc"] = f"{datetime.fromtimestamp(late, UTC):%Y-%m-%dT%H:%M:%SZ}"

    return change


def _milliseconds(report: dict[str, Any]) -> None:
    for run in report["runs"]:
        run["wall_s"] = repr(1000 * float(run["wall_s"]))


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


def _nccl_on_one_gpu(report: dict[str, Any]) -> None:
    report["env"]["gpus"] = _gpus(1)
    for run in report["runs"]:
        run["config"]["backend"] = "nccl"


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


def _many_samples_accumulated(report: dict[str, Any]) -> None:
    """More images than a data set has, whatever a step is."""
    for run in report["runs"]:
        run["config"]["grad_accum"] = 3
        run["samples"] *= 3
        run["epochs"] = run.get("epochs", 1)
        run.pop("rank_samples", None)


CAUGHT: dict[str, tuple[str, str, Change, str]] = {
    "written before the runs": ("C06", "dataloader", _late, "local time with a Z"),
    "longer than its span": ("C06", "dataloader", _short_span, "system clock"),
    "milliseconds": ("C06", "dataloader", _milliseconds, "Is it in milliseconds?"),
    "steps of two runs": ("C06", "amp", single_steps(rounds=9), "step_s has"),
    "steps longer than their run": ("C06", "lightning", single_steps(length=9), "such as loading the data"),
    "two at once": ("C06", "dataloader", _all_at_once, "system clock set back between"),
    "two at once on one machine": (
        "C06",
        "dataloader",
        _at_once_on(node="n1", host="n1"),
        "at the same time",
    ),
    "written an hour before its last run": (
        "C06",
        "dataloader",
        _written_before_the_end(3600),
        "local time with a Z",
    ),
    "written two minutes before its last run": (
        "C06",
        "dataloader",
        _written_before_the_end(120),
        "old file",
    ),
    "three times the samples of an accumulation": (
        "C08",
        "ddp_scaling",
        _many_samples_accumulated,
        "steps an epoch",
    ),
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
    "two processes on one GPU": ("C14", "ddp_scaling", _nccl_on_one_gpu, "nnodes in config says how many"),
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


def _steps_of_the_optimizer(report: dict[str, Any]) -> None:
    """As `trainer.global_step` counts them, where gradients are accumulated over two batches."""
    for run in report["runs"]:
        run["steps"] = -(-run["steps"] // 2)
        run["config"]["grad_accum"] = 2
        run.pop("step_s", None)


def _a_mac_by_lightnings_name(report: dict[str, Any]) -> None:
    report["env"] |= {"os": "Darwin", "gpus": []}
    report["method"]["sync"] = "mps.synchronize"
    for run in report["runs"]:
        run["config"]["accelerator"] = "gpu"


HONEST: dict[str, tuple[str, Change]] = {
    **{
        f"steps of the optimizer, {kind}": (kind, _steps_of_the_optimizer)
        for kind in ("ddp_scaling", "amp", "lightning")
    },
    "the GPU of a Mac": ("lightning", _a_mac_by_lightnings_name),
    **{
        f"{kind} as it comes": (kind, _nothing)
        for kind in ("dataloader", "dp_inference", "ddp_scaling", "amp", "lightning")
    },
    "102 batches and no epoch": ("dataloader", _cut_off),
    "iterable with a short batch for every worker": ("dataloader", _by_workers),
    "padding left out": ("ddp_scaling", _no_padding_counted),
    "clocks that differ by 0.04 s": ("dataloader", _clock_slack),
    "written by a clock that is behind": ("dataloader", _written_before_the_end(1.4)),
    "written without its seconds": ("dataloader", _written_before_the_end(58)),
    "at once on two nodes": ("dataloader", _at_once_on(node=("n1", "n2"))),
    "at once on two laptops of one name": (
        "dataloader",
        _at_once_on(machine=("anna's", "ben's"), hostname="laptop"),
    ),
    "at once in two jobs": ("dataloader", _at_once_on(SLURM_JOB_ID=(4711, 4712))),
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


def of_ddp(*walls: float, backend: str = "gloo", gpus: int = 0) -> dict[str, Any]:
    """Three runs on one process and three on two, with these seconds on the longest rank, one after the other."""
    runs, now = [], 1_790_000_000.0
    for place, wall in enumerate(walls):
        world = 1 + place // 3
        config = {"world_size": world, "batch_per_rank": 32, "backend": backend}
        runs.append({"config": config, "rep": place % 3, "t_start": now, "t_end": now + int(wall) + 1e-5,
                     "wall_s": repr(wall), "samples": 50_000, "steps": -(-50_000 // (32 * world)), "epochs": 1})  # fmt: skip
        now += int(wall) + 0.3
    stated = {"what": "mean_s", "config": {"world_size": 1}, "value": "30"}
    report: dict[str, Any] = {**small("ddp_scaling", [], [stated]), "runs": runs}
    report["env"]["gpus"] = _gpus(gpus)
    report["workload"]["dataset_n"] = 50_000
    return report


def told_of(report: dict[str, Any], facts: Facts | None = None) -> list[tuple[str, str]]:
    return [
        (each.rule, str(each.judgement)) for each in found(report, facts) if each.judgement != "consistent"
    ]


@pytest.mark.parametrize(
    ("walls", "told"),
    [
        # A rank begins while rank 0 still saves the checkpoint of the run before.
        ((30.0, 30.0, 30.0, 17.0, 17.53, 17.69), []),
        ((30.0, 30.0, 30.0, 17.4, 17.4, 17.0), []),
        # One process waits for nobody.
        ((30.45, 30.0, 30.0, 17.0, 17.0, 17.0), [("C06", "inconsistent")]),
        # The run before was over later than this one is said to have begun.
        ((30.0, 30.0, 30.0, 17.0, 17.0, 17.0, 22.45), [("C06", "inconsistent")]),
    ],
)
def test_the_slowest_rank_may_begin_before_rank_0(
    walls: tuple[float, ...], told: list[tuple[str, str]]
) -> None:
    report = of_ddp(*walls[:6])
    if len(walls) > 6:
        report["runs"][4]["wall_s"] = repr(walls[6])
    assert told_of(report) == told


def test_a_long_wait_for_rank_0_is_its_checkpoint() -> None:
    report = of_ddp(30.0, 30.0, 30.0, 17.0, 17.0, 17.0)
    for run in report["runs"][4:]:
        run["t_start"] += 40 * run["rep"]
        run["t_end"] += 40 * run["rep"]
        run["wall_s"] = "55.0"
    assert told_of(report) == []
    for run in report["runs"][4:]:
        run["wall_s"] = "59.0"
    assert told_of(report) == [("C06", "inconsistent")] * 2


@pytest.mark.parametrize(
    ("backend", "gpus", "says"),
    [("gloo", 0, "unusual"), ("nccl", 2, "inconsistent"), ("nccl", 4, None)],
)
def test_two_jobs_at_once_may_have_had_cores_of_their_own(backend: str, gpus: int, says: str | None) -> None:
    report = of_ddp(30.0, 30.0, 30.0, 17.0, 17.0, 17.0, backend=backend, gpus=gpus)
    late = report["runs"][3]["t_start"] - report["runs"][0]["t_start"] - 1
    for run in report["runs"][3:]:
        run["t_start"] -= late
        run["t_end"] -= late
    assert set(told_of(report)) == ({("C06", says)} if says else set())


def test_repetitions_at_once_are_one_calls() -> None:
    report = of_ddp(30.0, 30.0, 30.0, 17.0, 17.0, 17.0)
    report["runs"][1].update({key: report["runs"][0][key] for key in ("t_start", "t_end")})
    assert told_of(report) == [("C06", "inconsistent")]


def _ahead(report: dict[str, Any], runs: slice, seconds: float = 3600.0) -> None:
    for run in report["runs"][runs]:
        run["t_start"] += seconds
        run["t_end"] += seconds


@pytest.mark.parametrize(
    ("runs", "says", "words"),
    [(slice(3), "unusual", "set right since"), (slice(3, 6), "inconsistent", "local time with a Z")],
)
def test_a_clock_that_was_ahead_on_the_first_day_costs_nothing(runs: slice, says: str, words: str) -> None:
    report = of_ddp(30.0, 30.0, 30.0, 17.0, 17.0, 17.0)
    report["attempt"]["created_utc"] = "2026-09-21T14:20:00Z"
    assert told_of(report) == []
    _ahead(report, runs)
    (late,) = found(report)
    assert (late.rule, str(late.judgement), words in late.message) == ("C06", says, True)
    deadline = found(report, Facts(deadline=1_790_000_900.0))
    assert [str(each.judgement) for each in deadline] == [says, says]


def test_no_clock_is_ahead_by_days() -> None:
    report = of_ddp(30.0, 30.0, 30.0, 17.0, 17.0, 17.0)
    report["attempt"]["created_utc"] = "2026-09-21T14:20:00Z"
    _ahead(report, slice(3), 3 * 86_400.0)
    assert told_of(report) == [("C06", "inconsistent")]


@pytest.mark.parametrize(
    ("shift", "year"),
    [
        (0.0, None),
        (3.2e7, "2027"),
        (2.3e9, "2099"),
        (-1_789_999_993.0, "1970"),
        (-3.6e8, None),
        (-3.8e8, "2014"),
    ],
)
def test_moments_before_pytorch_and_after_the_grading_are_odd(shift: float, year: str | None) -> None:
    report = of_ddp(30.0, 30.0, 30.0, 17.0, 17.0, 17.0)
    report["attempt"]["created_utc"] = "2099-12-01T00:00:00Z"
    for run in report["runs"]:
        run["t_start"] += shift
        run["t_end"] += shift
    now = 1_790_000_000.0
    told = [
        (str(each.judgement), f"measured in {year}," in each.message)
        for each in found(report, Facts(now=now))
    ]
    assert told == [("unusual", True)] * (year is not None)
    # Who does not know what time it is says nothing of the future; nor does a clock that is behind.
    assert found(report, Facts()) == () or shift < 0
    assert found(report, Facts(now=0.0)) == found(report, Facts(now=now))


def test_the_deadline_counts_where_there_is_one() -> None:
    report = changed("dataloader", _nothing)
    last = max(run["t_end"] for run in report["runs"])
    assert found(report, Facts(deadline=last)) == ()
    (late,) = found(report, Facts(deadline=last - 3600))
    assert (late.rule, late.judgement.costs) == ("C06", True)
    assert "3600 s after the deadline" in late.message


def of_lightning(steps: int, *, items: int = 48_000, batch: int = 64, **config: Any) -> dict[str, Any]:
    """A report of Lightning whose epochs have so many steps; drop_last, so that none is short."""
    named = {
        "precision_requested": "32-true",
        "precision_resolved": "32-true",
        "accelerator": "cpu",
        **config,
    }
    times = config.get("devices", 1) * config.get("num_nodes", config.get("nnodes", 1))
    runs = runs_of(
        {**named, "batch_size": batch}, ["9.0", "9.1", "9.2"], samples=steps * batch * times, steps=steps
    )
    for run in runs:
        run["epochs"] = 1
    report = small("lightning", runs, [{"what": "mean_s", "config": {"batch_size": batch}, "value": "9.1"}])
    report["workload"]["dataset_n"] = items
    return report


@pytest.mark.parametrize(
    ("report", "fits"),
    [
        (of_lightning(100, limit_train_batches=100), True),
        (of_lightning(750, limit_train_batches=100_000), True),
        (of_lightning(750, limit_train_batches=1.0), True),
        (of_lightning(1, limit_train_batches=1), True),
        # 2812 batches, of which 0.4 are 1124.8; and 2812.5.
        (of_lightning(1124, items=45_000, batch=16, limit_train_batches=0.4), True),
        (of_lightning(1125, items=45_000, batch=16, limit_train_batches=0.4), True),
        (of_lightning(28, items=6_400, limit_train_batches=0.29), True),
        # dataset_n is what was gone through.
        (of_lightning(100, items=6_400, limit_train_batches=0.1), True),
        (of_lightning(750), True),
        (of_lightning(100), False),
        (of_lightning(90, limit_train_batches=100), False),
        (of_lightning(200, limit_train_batches=100), False),
        (of_lightning(1100, items=45_000, batch=16, limit_train_batches=0.4), False),
        (of_lightning(2, limit_train_batches=1.0), False),
    ],
)  # fmt: skip
def test_an_epoch_that_lightning_cuts_short(report: dict[str, Any], fits: bool) -> None:
    assert told_of(report) == [("C08", "inconsistent")] * (0 if fits else 3)


def _of_machines(count: int, **config: Any) -> dict[str, Any]:
    report = of_lightning(188, accelerator="cuda", **config)
    report["env"]["gpus"] = _gpus(count)
    return report


@pytest.mark.parametrize(
    ("report", "told"),
    [
        (_of_machines(2, devices=2, num_nodes=2), set()),
        (_of_machines(2, devices=2, nnodes=2), set()),
        (_of_machines(4, devices=4), set()),
        (_of_machines(1, devices=1, num_nodes=4), set()),
        (_of_machines(2, devices=4), {("C14", "inconsistent")}),
        (_of_machines(1, devices=2, num_nodes=2), {("C14", "inconsistent")}),
        # Four processes, and steps for two.
        (_of_machines(2, devices=2), {("C08", "inconsistent")}),
    ],
)
def test_lightning_on_several_machines(report: dict[str, Any], told: set[tuple[str, str]]) -> None:
    assert set(told_of(report)) == told


def test_an_efficiency_over_machines_counts_the_devices_of_all() -> None:
    alone, both = of_lightning(750, devices=1), _of_machines(2, devices=2, num_nodes=2)
    both["runs"] = [*alone["runs"], *both["runs"]]
    for run in both["runs"]:
        run["config"]["accelerator"] = "cuda"
    # As long on four devices as on one.
    config = {"devices": 2, "num_nodes": 2}
    for value, right in (("0.250", True), ("0.500", False)):
        claim = {"what": "efficiency", "config": config, "base": {"devices": 1}, "value": value, "unit": "1"}
        findings = verify(document({**both, "claims": [claim]}), Facts(), ratios.RULES).findings
        assert ([each.rule for each in findings] == []) is right, findings


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
