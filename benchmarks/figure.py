"""One row of docs/benchmarks.md."""

from __future__ import annotations

from typing import NamedTuple


class Figure(NamedTuple):
    """What was measured, the figure, its bound, and whether the bound holds."""

    what: str
    figure: str
    bound: str
    holds: bool
