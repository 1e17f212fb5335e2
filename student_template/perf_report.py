"""Writes measurements as a `perf-report/1` file. Given: there is nothing to fill in here.

A report keeps every single reading, unrounded, and what is needed to judge it: which code ran, on which
machine, over how much data. Means and speedups are worked out from the readings, never typed in by hand.
"""

import hashlib
import json
import math
import os
import platform
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import torch
import torch.distributed as dist

# What a configuration of each kind is compared with, where that was measured: these settings instead of its own ...
BASELINES: dict[str, dict[str, Any]] = {
    "dp_inference": {"n_devices": 1},
    "ddp_scaling": {"world_size": 1},
    "amp": {"precision": "fp32"},
    "lightning": {"precision_resolved": "32-true", "devices": 1},
}
# ... while these follow from them, and all others are the same.
FOLLOWING = {
    "device_ids", "backend", "grad_scaler", "precision_requested", "strategy", "plugin", "nnodes", "num_nodes",
}  # fmt: skip
# One call of these scripts measures one configuration, so that a report grows from call to call.
ONE_AT_A_TIME = {"ddp_scaling", "amp", "lightning"}
BACKENDS = ("nccl", "gloo", "mpi")  # that a report can name
COMPUTED = {
    "mean_s",
    "std_s",
    "throughput_ips",
    "speedup",
    "efficiency",
}  # here; all other claims are the caller's


def write_report(
    path: str,
    kind: str,
    script: str,
    runs: list[dict[str, Any]],
    workload: dict[str, Any],
    timed_region: str,
    plot: dict[str, Any] | None = None,
    *,
    method: dict[str, Any] | None = None,
    claims: Sequence[dict[str, Any]] = (),
    **sections: Any,
) -> None:
    """Write `runs`, and the numbers that follow from them, to `path`.

    `kind` is "dataloader", "dp_inference", "ddp_scaling", "amp" or "lightning". Every run holds `config`,
    `rep`, `t_start`, `t_end`, `wall_s` (text: `repr` of a difference of two `time.perf_counter()` readings),
    `samples` and `steps`. `method` says what was done otherwise, for example {"sync": "cuda_event"}; `claims`
    are statements that do not follow from the seconds, such as {"what": "accuracy_pct", "config": {...}, "value":
    "61.2", "unit": "%"}; `sections` are further parts of a report, such as
    not_available=[{"config": {"n_devices": 2}, "reason": "one GPU only"}].

    A claim can be about mean_s, std_s, median_s, min_s, throughput_ips, speedup, efficiency, serial_fraction,
    max_batch, peak_alloc_mib, accuracy_pct, acc5_pct, best_config or crossover_batch; further parts are declared,
    discarded, not_available, batch_search, logs, answers and artifacts. Others may be there, and are not looked at.

    A report on trainings keeps what the same code measured earlier in other configurations, so that one file
    can hold one process and two, or fp32 and AMP.
    """
    code_sha256 = hashlib.sha256(Path(script).read_bytes()).hexdigest()
    own = {
        "runs": _with_machines(kind, _with_plain_numbers(_with_one_backend(runs))),
        "claims": _with_text_values(_with_one_backend(claims)),
        **sections,
    }
    environment = _environment()
    if kind in ONE_AT_A_TIME:
        own["runs"] = [{**run, "extra": {**_place(), **run.get("extra", {})}} for run in own["runs"]]
        earlier = _earlier_report(Path(path), kind, code_sha256, workload)
        if earlier:
            own = _with_earlier(own, earlier)
            environment["gpus"] = _gpus_of_both(earlier["env"]["gpus"], environment["gpus"])
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
        "env": environment,
        "method": {
            "clock": "time.perf_counter",
            "sync": "cuda.synchronize" if on_gpu else "not_applicable",
            "order": "sequential",
            "timed_region": timed_region,
            **(method or {}),
        },
        "workload": workload,
        **own,
        "claims": _claims(kind, own["runs"]) + own["claims"],
    }
    if plot is not None:
        report["plot"] = plot
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(report, indent=1) + "\n")


def _with_plain_numbers(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Take away what `repr` writes around a number of NumPy's, np.float64(0.5) is 0.5, and what is no number.

    The loss of a training that went astray is NaN, which JSON has no word for.
    """

    def plain(reading: Any) -> Any:
        if isinstance(reading, list):
            return [plain(one) for one in reading]
        if isinstance(reading, dict):
            return {name: plain(value) for name, value in reading.items() if not lost(value)}
        return re.sub(r"^np\.float\d+\((.*)\)$", r"\1", reading) if isinstance(reading, str) else reading

    def lost(value: Any) -> bool:
        return isinstance(value, float) and not math.isfinite(value)

    return [plain(run) for run in runs]


def _with_text_values(claims: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Write the values of claims as a report has them: as text, which keeps the digits, and percent as %."""
    found = []
    for claim in _with_plain_numbers(claims):
        value, changed = claim.get("value"), dict(claim)
        if isinstance(value, int | float):
            changed["value"] = repr(float(value)) if isinstance(value, float) else str(value)
        elif isinstance(value, str):
            changed["value"] = value.strip()
        if claim.get("unit") == "percent":
            changed["unit"] = "%"
        found.append(changed)
    return found


def _with_machines(kind: str, runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Name the machines of a training on several, of which a report names the GPUs of one."""
    if kind not in ("ddp_scaling", "lightning"):
        return runs
    joined = dist.is_available() and dist.is_initialized()
    processes = dist.get_world_size() if joined else int(os.environ.get("WORLD_SIZE") or 1)
    started = int(os.environ.get("LOCAL_WORLD_SIZE") or processes)
    found = []
    for run in runs:
        config = run["config"]
        # Lightning counts the devices of each machine, torchrun the processes.
        here = config.get("devices") if kind == "lightning" else started
        machines = math.ceil(processes / here) if isinstance(here, int) and here > 0 else 1
        named = {"nnodes", "num_nodes"} & config.keys() or config.get("world_size", processes) != processes
        found.append(run if named or machines < 2 else {**run, "config": {**config, "nnodes": machines}})
    return found


def _with_one_backend(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Name the backend that was used, where `dist.get_backend()` names one for each sort of device, or none."""
    device, usual = ("cuda", "nccl") if torch.cuda.is_available() else ("cpu", "gloo")
    found = []
    for entry in entries:
        changed = dict(entry)
        for key in ("config", "base"):
            name = entry.get(key, {}).get("backend")
            if name is None or name in BACKENDS:
                continue
            # As in "cpu:gloo,cuda:nccl"; a group that was made without a backend has an "undefined" one.
            by_device = dict(part.split(":", 1) for part in str(name).split(",") if ":" in part)
            used = usual if name == "undefined" else by_device.get(device)
            changed[key] = {**entry[key], "backend": used}
            if used not in BACKENDS:
                del changed[key]["backend"]
        found.append(changed)
    return found


def _earlier_report(path: Path, kind: str, code_sha256: str, workload: dict[str, Any]) -> dict[str, Any]:
    """What `path` holds, if the same code measured it on the same workload."""
    if not path.exists():
        return {}
    earlier = json.loads(path.read_text())
    same = (earlier["report"], earlier["attempt"]["code_sha256"], earlier["workload"])
    return earlier if same == (kind, code_sha256, workload) else {}


def _with_earlier(own: dict[str, Any], earlier: dict[str, Any]) -> dict[str, Any]:
    """Put what was measured earlier before our own, except what was measured again."""
    merged = dict(own)
    for section in ("runs", "claims", "batch_search", "logs"):
        ours = list(own.get(section, ()))
        again = [_about(entry) for entry in ours]
        before = [entry for entry in earlier.get(section, ()) if entry.get("what") not in COMPUTED]
        if before or ours:
            merged[section] = [entry for entry in before if _about(entry) not in again] + ours
    return merged


def _gpus_of_both(earlier: list[dict[str, Any]], now: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What either call saw: a batch system gives each job as many GPUs as it asks for, and not always the same."""
    others = list(earlier)
    for gpu in now:
        if gpu in others:
            others.remove(gpu)
    return now + others


def _place() -> dict[str, Any]:
    """Where a run took place: two jobs may measure at the same time, each on a machine or a GPU of its own."""
    devices = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    uuids = [_alias(str(device.uuid)) for device in devices if hasattr(device, "uuid")]
    return {"hostname": _alias(platform.node())} | ({"gpu_uuids": uuids} if uuids else {})


def _alias(name: str) -> str:
    """Tells one name from another without telling it: what a student calls a computer is nobody's business."""
    return hashlib.sha256(name.encode()).hexdigest()[:12]


def _about(entry: dict[str, Any]) -> tuple[Any, Any]:
    """What an entry of a report speaks of: a configuration, or a trial of `batch_search` a precision."""
    return entry.get("what"), entry.get("config", entry.get("precision"))


def _environment() -> dict[str, Any]:
    devices = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    environment = {
        # Windows' drivers, below WSL as well, move to the host's memory what a GPU has no room for.
        "os": platform.system() + (" (WSL)" if "microsoft" in platform.release().lower() else ""),
        "python": platform.python_version(),
        "torch": torch.__version__,
        # A container or a batch system may give a process fewer cores than the machine has.
        "cpu_logical": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "gpus": [
            {"name": device.name, "memory_total_mib": device.total_memory // 2**20} for device in devices
        ],
    }
    for name in ("pytorch_lightning", "lightning"):
        if name in sys.modules:
            environment["lightning"] = sys.modules[name].__version__
    return environment


def _claims(kind: str, runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What follows from the readings of each configuration, and from comparing it with its baseline."""
    configs: list[dict[str, Any]] = []
    for run in runs:
        if run["config"] not in configs:
            configs.append(run["config"])
    claims: list[dict[str, Any]] = []
    for config in configs:
        seconds = [float(run["wall_s"]) for run in runs if run["config"] == config]
        claims.append({"what": "mean_s", "config": config, "value": f"{fmean(seconds):.6f}", "unit": "s"})
        claims.append(
            {"what": "std_s", "config": config, "value": f"{pstdev(seconds):.6f}", "unit": "s", "ddof": 0}
        )
        if kind == "dataloader":
            continue
        throughput = _images_per_second(runs, config)
        claims.append(
            {"what": "throughput_ips", "config": config, "value": f"{throughput:.2f}", "unit": "images/s"}
        )
        base = next((other for other in configs if _is_baseline(kind, other, config)), None)
        if base is not None:
            # By images per second: two configurations need not have seen equally many.
            speedup = throughput / _images_per_second(runs, base)
            values = {"speedup": (speedup, "x")}
            if kind in ("dp_inference", "ddp_scaling"):
                n = config["n_devices" if kind == "dp_inference" else "world_size"]
                values["efficiency"] = (speedup / n, "1")
            claims += [
                {"what": what, "config": config, "base": base, "value": f"{value:.4f}", "unit": unit}
                for what, (value, unit) in values.items()
            ]
    return claims


def _is_baseline(kind: str, base: dict[str, Any], config: dict[str, Any]) -> bool:
    """Whether `config` is compared with `base`: nothing else differs."""
    settings = BASELINES[kind]
    if (
        not settings
        or base == config
        or any(base.get(key, value) != value for key, value in settings.items())
    ):
        return False
    same = (base.keys() | config.keys()) - settings.keys() - FOLLOWING
    return all(base.get(key) == config.get(key) for key in same)


def _images_per_second(runs: list[dict[str, Any]], config: dict[str, Any]) -> float:
    readings = [run for run in runs if run["config"] == config]
    return sum(run["samples"] for run in readings) / sum(float(run["wall_s"]) for run in readings)
