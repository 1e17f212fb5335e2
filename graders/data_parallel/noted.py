"""What the probe noted, read as what may be missing, of another type, or a lie."""

from __future__ import annotations

from lockstep.compare import elements, integer
from lockstep.wire import Json


def totals(parts: Json) -> dict[str, int]:
    """How many rows each device saw, or how many calls each size of a batch got."""
    rows: dict[str, int] = {}
    for part in elements(parts):
        if isinstance(part, list) and len(part) == 2 and isinstance(part[0], str):
            rows[part[0][:20]] = rows.get(part[0][:20], 0) + (integer(part[1]) or 0)
    return rows


def config_value(run: dict[str, Json], name: str) -> int | None:
    """A number of what was run: batch_size or n_devices."""
    config = run.get("config")
    return integer(config.get(name)) if isinstance(config, dict) else None


def steps(runs: list[dict[str, Json]]) -> int:
    """How many steps the runs tell of."""
    return sum(integer(run.get("steps")) or 0 for run in runs)
