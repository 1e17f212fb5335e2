"""R01 to R04: what a comparison with the reference's own report says, and when it says nothing."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fixtures.reports import honest
from fixtures.reports.sample import start
from lockstep.reports import format as report_format
from lockstep.reports.document import Number, Report, document
from lockstep.reports.finding import Finding
from lockstep.reports.reference import RULES, rank_test, ratio_interval
from lockstep.reports.rule import Facts
from lockstep.reports.verify import verify


def loader(
    factors: dict[int, float], *, spread: float = 0.01, runs: int = 5, gpu: str | None = None, seed: int = 0
) -> Report:
    """A loader report whose median times are given by number of workers."""
    rng = np.random.default_rng(seed)
    report: dict[str, Any] = copy.deepcopy(honest("dataloader", np.random.default_rng(1)))
    start = report["runs"][0]["t_start"]
    sample = report["runs"][0]
    report["env"]["gpus"] = [{"name": gpu, "memory_total_mib": 16384}] if gpu else []
    report["runs"] = []
    for workers, seconds in factors.items():
        for rep, noise in enumerate(np.linspace(-1, 1, runs)):
            wall = seconds * math.exp(spread * (float(noise) + 0.01 * float(rng.normal())))
            start += wall + 1
            config = {"num_workers": workers, "batch_size": sample["config"]["batch_size"]}
            report["runs"].append(
                {
                    **sample,
                    "config": config,
                    "rep": rep,
                    "wall_s": repr(wall),
                    "t_start": start - wall,
                    "t_end": start,
                }
            )
    report["claims"] = [
        {"what": "best_config", "config": {"num_workers": min(factors, key=lambda w: factors[w])}}
    ]
    report["plot"] = {
        "x": list(factors),
        "y": list(factors.values()),
        "yerr": [0.0] * len(factors),
    }
    report["attempt"]["created_utc"] = "2030-01-01T00:00:00Z"
    assert report_format.schema_problems(report) == []
    return document(report)


def compared(own: Report, reference: Report | None) -> tuple[Finding, ...]:
    """What R01 to R04 say."""
    return verify(own, Facts(reference=reference), RULES).findings


SAME = {0: 4.0, 2: 2.5, 4: 2.2}


def slower(by: float) -> dict[int, float]:
    """The same shape on a slower machine."""
    return {workers: by * seconds for workers, seconds in SAME.items()}


def changed(report: Report, factor: float) -> Report:
    """Readings of another report times a factor, said to be by a script of one's own."""
    runs = [replace(run, wall=Number(repr(factor * run.seconds)), t_start=run.t_start + 9e4, t_end=run.t_end + 9e4)
            for run in report.runs]  # fmt: skip
    return replace(report, runs=tuple(runs), code_sha256="e" * 64)


def test_the_reference_s_readings_with_a_factor_are_told_and_cost_nothing() -> None:
    reference = document(honest("dataloader", np.random.default_rng(1), clock="perf_counter"))
    own = document(honest("dataloader", np.random.default_rng(2), clock="perf_counter"))
    told = [each for each in compared(changed(reference, 1.07), reference) if each.rule == "R04"]
    assert [str(each.judgement) for each in told] == ["unusual"]
    assert "the reference" in told[0].message
    assert [each for each in compared(changed(own, 1.0), reference) if each.rule == "R04"] == []
    # What its own script measured may be the reference itself.
    assert [each for each in compared(reference, reference) if each.rule == "R04"] == []


def test_two_hundred_runs_of_a_configuration_are_compared_with_the_reference_s() -> None:
    reference, own = (document(start("dataloader", repetitions=200, seed=seed)) for seed in (11, 5))
    told = [
        [each.rule for each in compared(changed(report, 1.07), reference) if each.rule == "R04"]
        for report in (reference, own)
    ]
    assert told == [["R04"], []]


@pytest.mark.parametrize(
    ("by", "gpu", "word"),
    [
        (1.0, None, None),
        (2.9, None, None),
        (1 / 2.9, None, None),
        (3.1, None, "consistent"),
        (6.5, None, "unusual"),
        (1 / 6.5, None, "unusual"),
        (1.9, "Tesla T4", None),
        (2.2, "Tesla T4", "consistent"),
        (3.2, "Tesla T4", "unusual"),
    ],
)
def test_bands(by: float, gpu: str | None, word: str | None) -> None:
    findings = compared(loader(slower(by), gpu=gpu), loader(SAME, gpu=gpu, seed=1))
    assert {(each.rule, str(each.judgement)) for each in findings} == ({("R01", word)} if word else set())


def test_nothing_is_compared_across_machines_or_with_a_noisy_reference() -> None:
    on_gpu, on_cpu, noisy = loader(SAME, gpu="Tesla T4"), loader(SAME), loader(SAME, spread=0.3)
    for own, reference, words in [
        (on_gpu, on_cpu, "another class of machine (no GPU)"),
        (on_cpu, on_gpu, "another class of machine (Tesla T4)"),
        (on_cpu, noisy, "vary by more than 10%"),
        (on_cpu, None, "no reference report"),
        (on_cpu, loader({8: 1.0}), "no configuration in common"),
    ]:
        (finding,) = compared(own, reference)
        assert str(finding.judgement) == "not verified"
        assert words in finding.message


def test_readings_that_settle_nothing_are_told() -> None:
    findings = compared(loader({0: 8.0}, spread=0.9, runs=3), loader({0: 4.0}, seed=1))
    assert {(each.rule, str(each.judgement)) for each in findings} == {("R02", "consistent")}
    assert "more repetitions" in findings[0].message


def test_a_turned_order_is_told_and_costs_nothing() -> None:
    findings = compared(loader({0: 3.0, 4: 3.6}), loader({0: 4.0, 4: 2.2}, seed=1))
    assert {(each.rule, str(each.judgement)) for each in findings} == {("R03", "consistent")}
    assert "Either can be right" in findings[0].message


def test_a_turned_order_within_the_noise_is_not() -> None:
    assert compared(loader({0: 3.0, 4: 3.02}, spread=0.05), loader({0: 4.0, 4: 3.9}, seed=1)) == ()


def test_exact_ranks() -> None:
    # The smallest two-sided p of n against n readings.
    for n, p in [(3, 0.1), (4, 2 / 70), (5, 2 / 252), (7, 2 / 3432)]:
        assert rank_test(range(n), range(n, 2 * n)) == pytest.approx(p)
    assert rank_test([1, 1, 1, 1, 1], [1, 1, 1, 1, 1]) == 1.0


@pytest.mark.parametrize("n", [3, 5, 10])
def test_the_interval_covers_what_it_says(n: int) -> None:
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(400):
        own, other = np.exp(rng.normal(0.0, 0.1, n)) * 1.5, np.exp(rng.normal(0.0, 0.03, n))
        interval = ratio_interval(own.tolist(), other.tolist())
        assert interval is not None
        hits += interval[0] <= 1.5 <= interval[1]
    assert 0.93 <= hits / 400 <= 1.0


def test_no_interval_without_spread_to_judge_by() -> None:
    assert ratio_interval([1.0], [1.0, 2.0]) is None
    assert ratio_interval([0.0, 1.0], [1.0, 2.0]) is None
    assert ratio_interval([2.0, 2.0], [1.0, 1.0]) == pytest.approx((2.0, 2.0))
