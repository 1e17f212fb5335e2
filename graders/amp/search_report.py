"""What a search tells of its trials: the function in what it returns, the script in its report."""

from __future__ import annotations

import math

from lockstep.compare import elements, integer
from lockstep.reports import format as perf_report
from lockstep.verdict import Feedback
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


def problem_of_trials(listed: Json) -> Feedback | None:
    """What is wrong with the trials that the template's `find_batch_size` returns, of a search that met both outcomes.

    `listed` is what the probe tells of it. Trials in another form say nothing, nor do more of them that failed.
    """
    listed = listed if isinstance(listed, dict) else {}
    tried = _sizes(listed.get("tried"), length=3)
    told = _sizes(listed.get("trials"), length=2)
    size = integer(listed.get("size"))
    if tried is None or told is None or size is None or {ok for _, ok in tried} != {True, False}:
        return None
    fitted = {images for images, ok in told if ok}
    sizes = sorted({images for images, _ in tried})
    steps = f"find_batch_size tried batches of {', '.join(map(str, sizes))} images"
    hint = 'Append {"precision": ..., "batch_size": ..., "ok": ...} for each size that is tried, and return them all.'
    if not told:
        return Feedback(f"{steps} and returned no trials: ({size}, []).", hint)
    if size > max(fitted, default=0):
        return Feedback(
            f"{steps} and returned {size}. Of the trials that it returned, the largest that is ok has "
            f"{max(fitted, default=0)}.",
            hint,
        )
    invented = fitted - set(sizes)
    if invented:
        return Feedback(
            f"{steps}, and among the trials that it returned one that is ok has {max(invented)}.", hint
        )
    if all(ok for _, ok in told):
        return Feedback(
            f"{steps}, of which some did not fit, and all of the trials that it returned are ok.", hint
        )
    return None


def _sizes(trials: Json, *, length: int) -> list[tuple[int, bool]] | None:
    """The sizes of trials and whether they fitted, None where one of them has another form."""
    found = [
        (size, trial[1])
        for trial in elements(trials)
        if isinstance(trial, list) and len(trial) == length
        if (size := integer(trial[0])) is not None and isinstance(trial[1], bool)
    ]
    return found if isinstance(trials, list) and len(found) == len(trials) else None


def _entries(value: Json) -> list[dict[str, Json]]:
    return [entry for entry in elements(value) if isinstance(entry, dict)]


def _number(value: Json) -> float:
    """What a claim says, which is text; NaN, larger than nothing, for what is no number."""
    try:
        return float(value) if isinstance(value, str) else math.nan
    except ValueError:
        return math.nan
