"""A student's performance reports as plots: laid out here from the numbers that `keeping` keeps, drawn by the page."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lockstep.reports.columns import Column, spread_out
from lockstep.text import safe_line

FILE = "reports.json"
MOST_READINGS = 50
WIDTH, HEIGHT = 640, 260
LEFT, RIGHT, TOP, BOTTOM = 58, 8, 12, 52


@dataclass(frozen=True)
class Bar:
    """One configuration in the plot's coordinates. `label` are its lines below the axis."""

    x: float
    half: float
    label: tuple[str, ...]
    readings: tuple[float, ...]
    mean: float | None
    claims: tuple[float, ...]


@dataclass(frozen=True)
class Plot:
    """One report, laid out. `ticks` are heights and what stands at them; `summary` says it without a picture."""

    name: str
    kind: str
    ticks: tuple[tuple[float, str], ...]
    bars: tuple[Bar, ...]
    summary: str
    logarithmic: bool


def kept_plots(folder: Path) -> tuple[Plot, ...]:
    """The plots of what was kept in `folder`; none where nothing was."""
    try:
        kept: Any = json.loads((folder / FILE).read_bytes())
        return tuple(_laid_out(entry) for entry in kept["plots"])
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def _laid_out(entry: Mapping[str, Any]) -> Plot:
    drawn = [
        Column(
            str(column["label"]),
            tuple(float(value) for value in column["readings"][:MOST_READINGS]),
            float(column["mean"]),
            tuple(float(value) for value in column["claims"][:MOST_READINGS]),
            None,
            None,
        )
        for column in entry["columns"]
    ]
    logarithmic = spread_out(drawn)
    values = [
        value for column in drawn for value in (*column.readings, *column.claims, column.mean) if value > 0
    ]
    low, high, ticks = _axis(values or [1.0], logarithmic)

    def height(value: float) -> float:
        share = (math.log10(value) - low) / (high - low) if logarithmic else value / high
        return round(HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP), 1)

    step = (WIDTH - LEFT - RIGHT) / max(len(drawn), 1)
    return Plot(
        name=safe_line(str(entry["name"])),
        kind=safe_line(str(entry["kind"])),
        ticks=tuple((height(tick), _shown(tick)) for tick in ticks),
        bars=tuple(
            Bar(
                x=round(LEFT + (place + 0.5) * step, 1),
                half=round(min(step * 0.3, 22), 1),
                label=tuple(safe_line(text, 16) for text in column.label.split("\n")),
                readings=tuple(height(value) for value in column.readings if value > 0),
                mean=height(column.mean) if column.mean > 0 else None,
                claims=tuple(height(value) for value in column.claims if value > 0),
            )
            for place, column in enumerate(drawn)
        ),
        summary=_summary(drawn),
        logarithmic=logarithmic,
    )


def _axis(values: Sequence[float], logarithmic: bool) -> tuple[float, float, list[float]]:
    """The axis' ends, as exponents where it is logarithmic, and the values that are named at it."""
    if logarithmic:
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        every = max(1, (high - low) // 5)
        return low, max(high, low + 1), [10.0**power for power in range(low, high + 1, every)]
    most = max(values) * 1.05
    step = 10.0 ** math.floor(math.log10(most))
    shares = (0.1, 0.2, 0.25, 0.5, 1.0, 2.0)
    step = next(step * share for share in shares if most / (step * share) <= 5 or share == shares[-1])
    return 0.0, most, [step * count for count in range(int(most / step) + 1)]


def _summary(drawn: Sequence[Column]) -> str:
    means = [(column.mean, " ".join(column.label.split("\n"))) for column in drawn if column.mean > 0]
    if not means:
        return "No reading can be drawn."
    return (
        "Mean images per second: "
        + "; ".join(f"{safe_line(name)}: {_shown(mean)}" for mean, name in means)
        + "."
    )


def _shown(value: float) -> str:
    """A throughput with as many digits as a person reads."""
    return f"{value:,.0f}" if 1000 <= value < 1e7 else f"{value:.4g}"
