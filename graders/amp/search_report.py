"""What the report of a search says of batches that do not fit into memory."""

from __future__ import annotations

import math

from lockstep.compare import elements, integer
from lockstep.reports import format as perf_report
from lockstep.wire import Json


def larger_than_fits(report: Json, fits: int) -> str | None:
    """That a report claims a batch that did not fit, or tells one as a trial that did; None where it does neither.

    Trials in another form, and a report without a search, say nothing of it.
    """
    content = perf_report.read(report) if isinstance(report, str) else {}
    if not isinstance(content, dict):
        return None
    for trial in _entries(content.get("batch_search")):
        size = integer(trial.get("batch_size"))
        if trial.get("ok") is True and size is not None and size > fits:
            return (
                f'the report has a trial with {size} images as one that fitted ("ok": true in batch_search).'
            )
    for claim in _entries(content.get("claims")):
        value = _number(claim.get("value"))
        if claim.get("what") == "max_batch" and claim.get("unit") == "images" and value > fits:
            return f"the report claims a largest batch (max_batch) of {value:g} images."
    return None


def _entries(value: Json) -> list[dict[str, Json]]:
    return [entry for entry in elements(value) if isinstance(entry, dict)]


def _number(value: Json) -> float:
    """What a claim says, which is text; NaN, larger than nothing, for what is no number."""
    try:
        return float(value) if isinstance(value, str) else math.nan
    except ValueError:
        return math.nan
