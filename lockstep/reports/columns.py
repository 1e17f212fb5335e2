"""What a plot of a report shows, column by column: readings, claims, the reference's band, the most the GPU can do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lockstep.reports.document import Config, Group, Report, config_key
from lockstep.reports.recompute import the_group
from lockstep.reports.reference import CPU_BAND, GPU_BAND, comparable
from lockstep.reports.rule import Facts
from lockstep.reports.speed import ceiling
from lockstep.text import safe_line

MAX_GROUPS = 24
"""Configurations in one plot; a sweep of more cannot be read in a picture."""
SETTINGS = {
    "dataloader": ("num_workers", "batch_size"),
    "dp_inference": ("n_devices", "batch_size"),
    "ddp_scaling": ("world_size", "batch_per_rank"),
    "amp": ("precision", "batch_size"),
    "lightning": ("precision_resolved", "devices", "num_nodes", "nnodes", "batch_size"),
}
"""What a configuration is called on the axis, most telling first."""
SHORT = {
    "num_workers": "workers",
    "batch_size": "batch",
    "n_devices": "devices",
    "world_size": "processes",
    "batch_per_rank": "batch",
    "precision": "",
    "precision_resolved": "",
    "devices": "devices",
    "num_nodes": "machines",
    "nnodes": "machines",
}


@dataclass(frozen=True)
class Column:
    """One configuration of the plot. Everything in images per second, so that all kinds look alike."""

    label: str
    readings: tuple[float, ...]
    mean: float
    claims: tuple[float, ...]
    band: tuple[float, float] | None
    bound: float | None


def columns(report: Report, facts: Facts) -> tuple[Column, ...]:
    """The columns of a report of the right form; odd numbers are left out, never raised about."""
    bands = _bands(report, facts)
    return tuple(_column(report, facts, group, bands) for group in report.groups[:MAX_GROUPS])


def spread_out(columns: Sequence[Column]) -> bool:
    """Whether values lie too far apart for an axis from zero."""
    drawn = [
        value
        for column in columns
        for value in (*column.readings, *column.claims, *(column.band or ()), column.bound)
        if value is not None and _drawable(value)
    ]
    return bool(drawn) and max(drawn) > 20 * min(drawn)


def _column(report: Report, facts: Facts, group: Group, bands: Mapping[str, tuple[float, float]]) -> Column:
    readings = tuple(run.throughput for run in group.runs if _drawable(run.throughput))
    mean = group.throughputs[2]
    return Column(
        label=_label(report, group.config),
        readings=readings,
        mean=mean if _drawable(mean) else 0.0,
        claims=tuple(value for value in _claimed(report, group) if _drawable(value)),
        band=bands.get(config_key(group.config)),
        bound=ceiling(report, facts, group.config),
    )


def _claimed(report: Report, group: Group) -> list[float]:
    """What the claims on one configuration come to in images per second."""
    found = []
    for claim in report.claims:
        if claim.value is None or the_group(report, claim.config) is not group:
            continue
        value = claim.value.value
        if claim.what == "throughput_ips":
            found.append(value)
        elif claim.what in ("mean_s", "median_s", "min_s") and value > 0:
            found.append(group.runs[0].samples / value)
    return found


def _bands(report: Report, facts: Facts) -> dict[str, tuple[float, float]]:
    """Throughputs near the reference's, by configuration, where the two can be compared."""
    pairs = comparable(report, facts)
    if isinstance(pairs, str):
        return {}
    near = (GPU_BAND if report.gpus else CPU_BAND)[0]
    middles = {config_key(own.config): other.throughputs[1] for own, other in pairs}
    return {key: (middle / near, middle * near) for key, middle in middles.items() if _drawable(middle)}


def _label(report: Report, config: Config) -> str:
    names = [name for name in SETTINGS[report.kind] if name in config]
    return "\n".join(f"{SHORT[name]} {safe_line(_text(config[name]), 16)}".strip() for name in names)


def _text(value: object) -> str:
    # matplotlib takes text between dollar signs for mathematics.
    return (value if isinstance(value, str) else json.dumps(value)).replace("$", "")


def _drawable(value: float) -> bool:
    return 0 < value < 1e15
