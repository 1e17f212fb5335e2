"""Writes measurements as a `perf-report/1` file. Given: there is nothing to fill in here.

A report keeps every single reading, unrounded, and what is needed to judge it: which code ran, on which
machine, over how much data. Means and speedups are worked out from the readings, never typed in by hand.
"""

import hashlib
import json
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import torch


def write_report(
    path: str,
    kind: str,
    script: str,
    runs: list[dict[str, Any]],
    workload: dict[str, Any],
    timed_region: str,
    plot: dict[str, Any] | None = None,
) -> None:
    """Write `runs`, and the numbers that follow from them, to `path`.

    `kind` is "dataloader" or "ddp_scaling". Every run holds `config`, `rep`, `t_start`, `t_end`, `wall_s`
    (text: `repr` of a difference of two `time.perf_counter()` readings), `samples` and `steps`.
    A report of kind "ddp_scaling" keeps the readings that the same code took earlier in other configurations,
    so that one file can hold one process and two.
    """
    code_sha256 = hashlib.sha256(Path(script).read_bytes()).hexdigest()
    if kind == "ddp_scaling":
        runs = _earlier_runs(Path(path), code_sha256, workload, runs) + runs
    on_gpu = torch.cuda.is_available() and kind != "dataloader"
    report = {
        "schema": "perf-report/1",
        "report": kind,
        "student": {"id": os.environ.get("STUDENT_ID") or "unknown"},
        "attempt": {
            "nonce": os.environ.get("ATTEMPT_NONCE") or "none",
            "created_utc": datetime.now(UTC).isoformat(timespec="microseconds"),
            "code_sha256": code_sha256,
            "argv": [word for word in sys.argv if word],
        },
        "env": _environment(),
        "method": {
            "clock": "time.perf_counter",
            "sync": "cuda.synchronize" if on_gpu else "not_applicable",
            "order": "sequential",
            "timed_region": timed_region,
        },
        "workload": workload,
        "runs": runs,
        "claims": _claims(runs),
    }
    if plot is not None:
        report["plot"] = plot
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(report, indent=1) + "\n")


def _earlier_runs(
    path: Path, code_sha256: str, workload: dict[str, Any], new_runs: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    earlier = json.loads(path.read_text())
    if earlier["attempt"]["code_sha256"] != code_sha256 or earlier["workload"] != workload:
        return []
    measured_again = [run["config"] for run in new_runs]
    return [run for run in earlier["runs"] if run["config"] not in measured_again]


def _environment() -> dict[str, Any]:
    devices = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return {
        "os": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        # A container or a batch system may give a process fewer cores than the machine has.
        "cpu_logical": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "gpus": [
            {"name": device.name, "memory_total_mib": device.total_memory // 2**20} for device in devices
        ],
    }


def _claims(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean and standard deviation of every configuration; speedups over one process where it was measured."""
    seconds: dict[str, list[float]] = {}
    for run in runs:
        seconds.setdefault(json.dumps(run["config"], sort_keys=True), []).append(float(run["wall_s"]))
    claims: list[dict[str, Any]] = []
    for key, walls in seconds.items():
        config = json.loads(key)
        claims.append({"what": "mean_s", "config": config, "value": f"{fmean(walls):.6f}", "unit": "s"})
        claims.append(
            {"what": "std_s", "config": config, "value": f"{pstdev(walls):.6f}", "unit": "s", "ddof": 0}
        )
        single = {**config, "world_size": 1}
        single_key = json.dumps(single, sort_keys=True)
        if config.get("world_size", 1) > 1 and single_key in seconds:
            speedup = fmean(seconds[single_key]) / fmean(walls)
            efficiency = speedup / config["world_size"]
            for what, value, unit in (("speedup", speedup, "x"), ("efficiency", efficiency, "1")):
                claims.append(
                    {"what": what, "config": config, "base": single, "value": f"{value:.4f}", "unit": unit}
                )
    return claims
