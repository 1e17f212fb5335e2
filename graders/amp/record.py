"""What the probe recorded of training steps and of whole runs, read without trusting its shape."""

from __future__ import annotations

from collections.abc import Sequence

from lockstep.check import Check
from lockstep.compare import elements, number
from lockstep.sandbox.outcome import RankOutcome
from lockstep.text import safe_line
from lockstep.wire import Json


def told(seen: RankOutcome) -> dict[str, Json]:
    """What the probe says of the first scenario."""
    values = seen.values.get("0")
    return values if isinstance(values, dict) else {}


def returned(seen: RankOutcome) -> list[Json]:
    """What every call of train_step returned."""
    results = told(seen).get("returned")
    return elements(results)


def insist_on_dicts(check: Check, seen: RankOutcome) -> None:
    """End the check where a call of train_step returned something else than a dict."""
    for result in returned(seen):
        other = result.get("type") if isinstance(result, dict) else "something unreadable"
        if other is not None:
            check.fail(
                f"train_step returned {safe_line(str(other), 80)}, expected a dict.",
                "Return {'loss': ..., 'acc1': ..., 'acc5': ...} of the batch, each of them a number.",
            )


def calls(seen: RankOutcome) -> list[list[list[Json]]]:
    """The events of every call of train_step."""
    result: list[list[list[Json]]] = []
    for event in _events(told(seen).get("events")):
        if event[0] == "call":
            result.append([])
        elif result:
            result[-1].append(event)
    return result


def run_events(seen: RankOutcome) -> list[list[Json]]:
    """What happened in a whole run, in order."""
    return _events(seen.values.get("events"))


def _events(value: Json) -> list[list[Json]]:
    return [event for event in elements(value) if isinstance(event, list) and event]


def named(events: Sequence[list[Json]], name: str) -> list[int]:
    """Where events of that name stand."""
    return [place for place, event in enumerate(events) if event[0] == name]


def strings(value: Json) -> list[str]:
    """The strings of a list that may be anything."""
    return [item for item in elements(value) if isinstance(item, str)]


def numbers(event: Sequence[Json]) -> list[float]:
    """The numbers that stand in an event, behind its name."""
    return [value for value in map(number, event[1:]) if value is not None]
