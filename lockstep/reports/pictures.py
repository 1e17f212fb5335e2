"""One plot per report: what was read, what is claimed, what the reference had, and what physics allows.

A person sees at a glance what is off. Colours are told apart by colour-blind eyes (Okabe and Ito, "Color Universal
Design", 2008), and by shape as well.
"""

from __future__ import annotations

import io
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lockstep.reports.columns import Column, columns, spread_out
from lockstep.reports.document import Report
from lockstep.reports.rule import Facts
from lockstep.text import safe_line

READ, CLAIMED, REFERENCE, BOUND = "#0072B2", "#D55E00", "#009E73", "#000000"


def draw(report: Report, facts: Facts) -> bytes:
    """The plot of a report as PNG. Reports of the right form only; odd numbers are left out, never raised about."""
    drawn = columns(report, facts)
    figure = Figure(figsize=(max(6.4, 1.6 + 0.9 * len(drawn)), 4.4), layout="constrained")
    axes = figure.add_subplot()
    _columns(axes, drawn)
    axes.set_xticks(range(len(drawn)), [column.label for column in drawn], fontsize=8)
    axes.set_ylabel("images per second")
    axes.set_title(f"{report.kind} of {safe_line(report.student, 40)}", fontsize=10, parse_math=False)
    if spread_out(drawn):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:,.4g}")
    else:
        axes.set_ylim(bottom=0)
    axes.grid(axis="y", alpha=0.3)
    figure.legend(loc="outside lower center", ncols=5, fontsize=8, frameon=False)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=120)
    return picture.getvalue()


def _columns(axes: Axes, drawn: Sequence[Column]) -> None:
    # What stands first in a label is what matplotlib puts into the legend; once is enough.
    told: set[str] = set()

    def label(text: str) -> str:
        if text in told:
            return "_"
        told.add(text)
        return text

    for x, column in enumerate(drawn):
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
