"""One plot per report: what was read, what is claimed, what the reference had, and what physics allows.

A person sees at a glance what is off. Colours are told apart by colour-blind eyes (Okabe and Ito, "Color Universal
Design", 2008), and by shape as well.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lockstep.reports.document import Config, Group, Report, config_key
from lockstep.reports.reference import CPU_BAND, GPU_BAND, comparable
from lockstep.reports.rule import Facts
from lockstep.reports.speed import ceiling
from lockstep.text import safe_line

READ, CLAIMED, REFERENCE, BOUND = "#0072B2", "#D55E00", "#009E73", "#000000"
MAX_GROUPS = 24
"""Configurations in one plot; a sweep of more cannot be read in a picture."""
SETTINGS = {
    "dataloader": ("num_workers", "batch_size"),
    "dp_inference": ("n_devices", "batch_size"),
    "ddp_scaling": ("world_size", "batch_per_rank"),
    "amp": ("precision", "batch_size"),
    "lightning": ("precision_resolved", "devices", "batch_size"),
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
}


@dataclass(frozen=True)
class _Column:
    """One configuration of the plot. Everything in images per second, so that all kinds look alike."""

    label: str
    readings: tuple[float, ...]
    mean: float
    claims: tuple[float, ...]
    band: tuple[float, float] | None
    bound: float | None


def draw(report: Report, facts: Facts) -> bytes:
    """The plot of a report as PNG. Reports of the right form only; odd numbers are left out, never raised about."""
    bands = _bands(report, facts)
    columns = [_column(report, facts, group, bands) for group in report.groups[:MAX_GROUPS]]
    figure = Figure(figsize=(max(6.4, 1.6 + 0.9 * len(columns)), 4.4), layout="constrained")
    axes = figure.add_subplot()
    _columns(axes, columns)
    axes.set_xticks(range(len(columns)), [column.label for column in columns], fontsize=8)
    axes.set_ylabel("images per second")
    axes.set_title(f"{report.kind} of {safe_line(report.student, 40)}", fontsize=10, parse_math=False)
    if _spread_out(columns):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:,.4g}")
    else:
        axes.set_ylim(bottom=0)
    axes.grid(axis="y", alpha=0.3)
    figure.legend(loc="outside lower center", ncols=5, fontsize=8, frameon=False)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=120)
    return picture.getvalue()


def _columns(axes: Axes, columns: Sequence[_Column]) -> None:
    # What stands first in a label is what matplotlib puts into the legend; once is enough.
    told: set[str] = set()

    def label(text: str) -> str:
        if text in told:
            return "_"
        told.add(text)
        return text

    for x, column in enumerate(columns):
        if column.band is not None:
            low, high = column.band
            axes.bar(
                x,
                high - low,
                bottom=low,
                width=0.7,
                color=REFERENCE,
                alpha=0.2,
                label=label("near the reference"),
            )
        axes.plot(
            [x] * len(column.readings),
            column.readings,
            "o",
            color=READ,
            alpha=0.5,
            markersize=5,
            label=label("readings"),
        )
        axes.hlines(column.mean, x - 0.3, x + 0.3, color=READ, label=label("their mean"))
        axes.plot(
            [x] * len(column.claims),
            column.claims,
            "D",
            color=CLAIMED,
            fillstyle="none",
            markersize=9,
            label=label("claimed"),
        )
        if column.bound is not None:
            axes.hlines(
                column.bound,
                x - 0.4,
                x + 0.4,
                color=BOUND,
                linestyle="--",
                label=label("most the GPU can do"),
            )


def _column(report: Report, facts: Facts, group: Group, bands: Mapping[str, tuple[float, float]]) -> _Column:
    readings = tuple(run.throughput for run in group.runs if _drawable(run.throughput))
    mean = group.throughputs[2]
    return _Column(
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
        if claim.value is None or report.selected(claim.config) != (group,):
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


def _spread_out(columns: Sequence[_Column]) -> bool:
    """Whether values lie too far apart for an axis from zero."""
    drawn = [
        value
        for column in columns
        for value in (*column.readings, *column.claims, *(column.band or ()), column.bound)
        if value is not None and _drawable(value)
    ]
    return bool(drawn) and max(drawn) > 20 * min(drawn)
