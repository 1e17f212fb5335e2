"""Reports of a few readings, so that what follows from them can be worked out in one's head."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from lockstep.reports.document import document
from lockstep.reports.finding import Finding, Judgement
from lockstep.reports.format import schema_problems
from lockstep.reports.rule import Facts, Rule
from lockstep.reports.verify import verify

Raw = dict[str, Any]
NONCE, CODE = "nonce-1", "a" * 64
WORKLOAD = {"model": "net", "params": 3, "input_shape": [1, 2, 2], "dataset_n": 64}
COSTS = (Judgement.INCONSISTENT, Judgement.IMPOSSIBLE)


def runs_of(
    config: Mapping[str, Any], readings: Sequence[str], samples: int = 64, steps: int = 8
) -> list[Raw]:
    """One run for each reading."""
    return [
        {"config": dict(config), "rep": rep, "wall_s": text, "samples": samples, "steps": steps}
        for rep, text in enumerate(readings)
    ]


def small(kind: str, runs: Sequence[Raw], claims: Sequence[Raw], **sections: Any) -> Raw:
    """A report in which the runs follow one another."""
    now = 1_790_000_000.0
    timed = []
    for run in copy.deepcopy(list(runs)):
        took = max(float(run["wall_s"]), 0.0)
        timed.append({**run, "t_start": now, "t_end": now + took + 0.01})
        now += took + 0.05
    return {
        "schema": "perf-report/1", "report": kind, "student": {"id": "s"},
        "attempt": {"nonce": NONCE, "created_utc": "2026-12-01T00:00:00Z", "code_sha256": CODE},
        "env": {"os": "Linux", "python": "3.11.9", "torch": "2.15.0", "cpu_logical": 8, "gpus": []},
        "method": {"clock": "time.perf_counter", "sync": "not_applicable"},
        "workload": dict(WORKLOAD), "runs": timed, "claims": [dict(claim) for claim in claims], **sections,
    }  # fmt: skip


def loader(*readings: Sequence[str], claims: Sequence[Raw] = (), **sections: Any) -> Raw:
    """0, 1, 2 ... workers with these readings; the plot is drawn from them."""
    runs = [runs_of({"num_workers": n, "batch_size": 8}, texts) for n, texts in enumerate(readings)]
    means = [sum(map(float, texts)) / len(texts) for texts in readings]
    spreads = [
        (sum((float(text) - mean) ** 2 for text in texts) / len(texts)) ** 0.5
        for texts, mean in zip(readings, means, strict=True)
    ]
    plot = {"x": [*range(len(readings))], "y": means, "yerr": spreads}
    claims = claims or [{"what": "best_config", "config": {"num_workers": best_of(means)}}]
    return small("dataloader", [*itertools.chain(*runs)], claims, **{"plot": plot, **sections})


def best_of(means: Sequence[float]) -> int:
    """Where the smallest is."""
    return means.index(min(means))


def training(
    *readings: Sequence[str], claims: Sequence[Raw], samples: Sequence[int] = (), **sections: Any
) -> Raw:
    """1, 2, 4 ... processes with these readings; 64 images a run unless said otherwise."""
    counts = samples or [64] * len(readings)
    runs = [
        runs_of({"world_size": 2**n, "batch_per_rank": 8}, texts, count, max(1, count // (8 * 2**n)))
        for n, (texts, count) in enumerate(zip(readings, counts, strict=True))
    ]
    return small("ddp_scaling", [*itertools.chain(*runs)], claims, **sections)


def found(report: Raw, rules: Sequence[Rule], facts: Facts | None = None) -> tuple[Finding, ...]:
    """What the rules say; a report of the wrong form is a slip of the test."""
    assert schema_problems(report) == []
    known = facts or Facts(nonce=NONCE, code_sha256=frozenset({CODE}))
    return verify(document(report), known, rules).findings


def told(findings: Sequence[Finding]) -> str:
    """For a failing test."""
    return "\n".join(f"{each.rule} {each.judgement}: {each.message}" for each in findings)
