"""The histogram of final points, laid out for the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lockstep.classroom.pages.overview import Bin
from lockstep.classroom.pages.text import plural, points

WIDTH, HEIGHT = 720, 200
LEFT, RIGHT, TOP, BOTTOM = 4, 4, 20, 24
MOST_TICKS = 11


@dataclass(frozen=True)
class Bar:
    """One bar in the coordinates of the picture."""

    x: float
    y: float
    width: float
    height: float
    count: int


@dataclass(frozen=True)
class Histogram:
    """Bars, the values named below them, and where mean and median stand; `summary` says it without a picture."""

    width: int
    height: int
    base: int
    bars: tuple[Bar, ...]
    ticks: tuple[tuple[float, str], ...]
    mean: float
    median: float
    summary: str


def histogram(bins: Sequence[Bin], mean: float, median: float) -> Histogram:
    """The layout of at least one bin."""
    most = max(each.count for each in bins)
    span = bins[-1].high - bins[0].low
    base = HEIGHT - BOTTOM

    def across(value: float) -> float:
        inside = min(max(value, bins[0].low), bins[-1].high)
        return round(LEFT + (inside - bins[0].low) / span * (WIDTH - LEFT - RIGHT), 1)

    def bar(each: Bin) -> Bar:
        height = round(each.count / most * (base - TOP), 1)
        x = across(each.low)
        return Bar(x + 1, round(base - height, 1), round(across(each.high) - x - 2, 1), height, each.count)

    edges = [each.low for each in bins] + [bins[-1].high]
    every = -(-len(edges) // MOST_TICKS)
    return Histogram(
        width=WIDTH,
        height=HEIGHT,
        base=base,
        bars=tuple(bar(each) for each in bins),
        ticks=tuple((across(edge), points(edge)) for edge in edges[::every]),
        mean=across(mean),
        median=across(median),
        summary="; ".join(
            f"{points(each.low)} to {points(each.high)} points: {plural(each.count, 'student')}"
            for each in bins
        ),
    )
