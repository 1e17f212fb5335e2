"""What a script's report says."""

from __future__ import annotations

import json
import re

from lockstep.wire import Json


def read(text: Json) -> dict[str, Json] | list[Json] | None:
    """What a report says; None where it is no JSON, or neither an object nor a list."""
    if not isinstance(text, str):
        return None
    try:
        report = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return report if isinstance(report, dict | list) else None


def numbers_in(report: Json) -> list[float]:
    """The finite numbers in a report, those in its texts as well."""
    found: list[float] = []
    for one in _parts(report):
        if isinstance(one, str):
            found += map(float, re.findall(r"[0-9]{1,20}(?:\.[0-9]{1,20})?", one))
        elif isinstance(one, int | float) and not isinstance(one, bool) and abs(one) < 1e300:
            found.append(float(one))
    return found


def losses_lost(report: Json, epochs: int) -> list[float] | None:
    """The losses of a report where they are fewer than the epochs, and nothing else in it has one for each epoch."""
    losses = report.get("losses") if isinstance(report, dict) else None
    if not isinstance(losses, list):
        return None
    found = [float(one) for one in losses if isinstance(one, int | float) and not isinstance(one, bool)]
    if not 0 < len(found) == len(losses) < epochs:
        return None
    elsewhere = any(
        isinstance(one, list | dict) and one is not report and len(one) >= epochs for one in _parts(report)
    )
    return None if elsewhere else found


def _parts(report: Json) -> list[Json]:
    """A report, all that is in it, and all that is in that."""
    found = [report]
    for one in found:
        if isinstance(one, dict):
            found += one.values()
        elif isinstance(one, list):
            found += one
    return found
