"""On what a configuration ran, in what precision, and with how many devices: read in the student's favour.

Where a report leaves something open (which GPU of several, whether a process used the GPU at all), these take
what allows the report more, so that a bound made from them holds however it was.
"""

from __future__ import annotations

from dataclasses import dataclass

from lockstep.jsontext import Json
from lockstep.reports.counts import devices_of_all
from lockstep.reports.devices import Device
from lockstep.reports.document import Config, Group, Report
from lockstep.reports.model import ModelFacts
from lockstep.reports.resolution import resolution
from lockstep.reports.rule import Facts
from lockstep.reports.series import clock
from lockstep.text import safe_line

SAME_MODEL = 0.1
"""Part by which the parameters that a report states and those measured may differ: another head changes little."""
MIXED = ("fp16-amp", "bf16-amp")
HALF = ("fp16-true", "bf16-true")
TRAINING = frozenset({"ddp_scaling", "amp", "lightning"})

# What Lightning calls a precision; the ceilings of fp32 hold for fp64 all the more.
_LIGHTNING = {
    "32-true": "fp32", "32": "fp32", "64-true": "fp32", "64": "fp32", "16-mixed": "fp16-amp", "16": "fp16-amp",
    "bf16-mixed": "bf16-amp", "bf16": "bf16-amp", "16-true": "fp16-true", "bf16-true": "bf16-true",
}  # fmt: skip


def count(value: Json, otherwise: int = 1) -> int:
    """A setting that counts something."""
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else otherwise


def batch(report: Report, config: Config) -> int:
    """Images of one forward pass, over all devices of one process."""
    return count(config.get("batch_per_rank" if report.kind == "ddp_scaling" else "batch_size"))


def on_gpu(report: Report, config: Config) -> bool:
    """Whether a configuration ran on the GPUs that the report names, as far as it says."""
    if not report.gpus or report.kind == "dataloader":
        return False
    if report.kind == "lightning":
        return str(config.get("accelerator", "")).lower() in ("cuda", "gpu", "auto")
    if report.kind == "dp_inference":
        return True
    backend = config.get("backend")
    if backend == "nccl":
        return True
    if report.method.get("sync") == "not_applicable":
        return False
    # gloo works on both, and the baseline has no backend: it ran where the others did.
    others = {run.config.get("backend") for run in report.runs} - {None}
    return backend is None and (not others or "nccl" in others)


def devices(report: Report, group: Group) -> int:
    """The most devices that a configuration can have used."""
    config = group.config
    if report.kind == "dp_inference":
        return max(1, count(config.get("n_devices")))
    if report.kind == "ddp_scaling":
        return max(1, count(config.get("world_size")))
    if report.kind == "lightning":
        return max(1, devices_of_all(config))
    # Nothing in an AMP configuration says that it was alone on its machine.
    ranks = max(len(run.rank_samples) for run in group.runs)
    return max(1, len(report.gpus), ranks)


def precision(report: Report, config: Config) -> str | None:
    """The precision of a configuration in the words of `config.precision`; None where it is not one of them."""
    if report.kind == "lightning":
        return _LIGHTNING.get(str(config.get("precision_resolved", "")))
    value = report.setting(config, "precision")
    return value if isinstance(value, str) else None


def allows_tf32(report: Report) -> bool:
    """Whether fp32 may be TF32 there; PyTorch's default is yes for convolutions and no for matrix products."""
    allowed = report.env.get("allow_tf32")
    settings = allowed if isinstance(allowed, dict) else {}
    return bool(settings.get("cudnn", True)) or bool(settings.get("matmul", False))


def fastest(report: Report, facts: Facts) -> Device | str:
    """The published figures of the fastest GPU in the report, or a sentence that says why there are none."""
    found: list[Device] = []
    for gpu in report.gpus:
        device = facts.devices.find(gpu.name)
        if device is None:
            return f"No ceilings are known for {safe_line(gpu.name, 60)!r}; an instructor can add them to a table."
        found.append(device)
    return max(found, key=lambda device: device.fp32) if found else "The report names no GPU."


def measured_model(report: Report, facts: Facts) -> ModelFacts | str:
    """What was measured on the model, or a sentence that says why it cannot be used."""
    if facts.model is None:
        return "What the model costs is not known: it could not be measured here."
    stated = report.workload.get("params")
    own = facts.model.parameters
    if isinstance(stated, int | float) and abs(stated - own) > SAME_MODEL * max(stated, own):
        return (
            f"The model that was measured has {own} parameters, workload.params says {stated}: it is not the one of "
            "the report. Is workload.model the name it has in torchvision, and does params count all parameters?"
        )
    return facts.model


@dataclass(frozen=True)
class Pace:
    """How fast a configuration was, in the student's favour: the median, a tick of the clock added to each reading."""

    images: float
    """Images a second."""
    step: float
    """Seconds a step."""


def pace(report: Report, group: Group) -> Pace | None:
    """The pace of a configuration; None where a reading is no duration."""
    if min(group.seconds) <= 0:
        return None
    tick = resolution((run.wall for run in group.runs), clock(report))
    images = sorted(run.samples / (run.seconds + tick) for run in group.runs)
    steps = sorted((run.seconds + tick) / run.steps for run in group.runs)
    # With an even number of runs the one of the two middle ones that allows more.
    return Pace(images[(len(images) - 1) // 2], steps[len(steps) // 2])


def gib(size: float) -> str:
    """Bytes for a person."""
    return f"{size / 2**30:.3g} GiB"
