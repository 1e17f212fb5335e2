"""A recording of runs with exactly one thing changed: a value, an array, a rank, or how the run ended.

Every mutant has a `key`, which says what was changed (`train values.steps.#`), and a `change`, which says how. Of the
places that share both, one is changed: the thousandth item of a list is judged as the first one is.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from lockstep.sandbox.outcome import Outcome, RankOutcome, StudentError
from lockstep.wire import Array
from tests.observed import Run, part

SLIGHTLY, GROSSLY = 1 + 1e-3, 1.5
LEAST = ("flipped", "one more", "slightly more", "other text", "one missing", "a problem")
_DECIMAL = re.compile(r"\d+\.\d+(e-?\d+)?")
DECIMAL_CHANGES = {
    "slightly more": SLIGHTLY,
    "slightly less": 1 / SLIGHTLY,
    "half as much again": GROSSLY,
    "half of it": 0.5,
    "negative": -1.0,
    "not a number": math.nan,
}
ENDED = "ended"
"""How a run and its ranks ended: the engine's to judge, whatever the check is about."""


Leaf = Callable[[Any], Iterator[tuple[str, Any]]]
"""What can be done to a value without parts: the change in words, and what it makes of it."""


@dataclass(frozen=True)
class Mutant:
    """The runs of a check, one thing of them changed."""

    key: str
    change: str
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class Place:
    """One change of one thing. `make` returns what it comes to: a value, an array, a rank, an outcome."""

    key: str
    change: str
    make: Callable[[], Any]


def mutants(runs: Sequence[Run]) -> Iterator[Mutant]:
    """Every change of every key, each at one place: which one depends on nothing but their number."""
    found: dict[tuple[str, str], list[tuple[int, Place]]] = {}
    for number, run in enumerate(runs):
        before = next((each for each in reversed(runs[:number]) if each.call == run.call), None)
        for place in _of_run(run, before):
            found.setdefault((place.key, place.change), []).append((number, place))
    for (key, change), alike in found.items():
        # Of arrays the last: what a training comes to in the end is judged wherever its steps are.
        which = -1 if " arrays." in key else zlib.crc32(f"{key} {change}".encode()) % len(alike)
        number, place = alike[which]
        changed = replace(runs[number], outcome=place.make())
        yield Mutant(key, change, (*runs[:number], changed, *runs[number + 1 :]))


def with_more(runs: Sequence[Run]) -> list[Run]:
    """The runs with a value and an array in every answer that nobody asked for."""
    more = []
    for run in runs:
        ranks = tuple(
            replace(rank, values={**rank.values, "more": 1}, arrays={**rank.arrays, "more": np.zeros(3)})
            for rank in run.outcome.ranks
        )
        more.append(replace(run, outcome=replace(run.outcome, ranks=ranks)))
    return more


# A run


def _of_run(run: Run, before: Run | None) -> Iterator[Place]:
    outcome, name = run.outcome, run.name
    ended, ranks = f"{name} {ENDED}", outcome.ranks
    last = len(ranks) - 1
    hung = _with_rank(outcome, last, replace(ranks[last], complete=False, status=None))
    yield Place(ended, "timed out", lambda: replace(hung, timed_out=True))
    yield Place(ended, "over a limit", lambda: replace(outcome, limit="memory"))
    for seconds in (0.1, 10.0):
        yield Place(
            f"{name} elapsed",
            f"times {seconds}",
            lambda s=seconds: replace(outcome, elapsed=s * outcome.elapsed),
        )
    yield Place(
        f"{name} began_at",
        "an hour later",
        lambda: replace(outcome, began_at=outcome.began_at + 3600, ended_at=outcome.ended_at + 3600),
    )
    yield Place(f"{name} loopback_bytes", "hardly any", lambda: replace(outcome, loopback_bytes=1000))
    yield Place(f"{name} loopback_bytes", "not counted", lambda: replace(outcome, loopback_bytes=None))
    yield Place(f"{name} left_running", "one", lambda: replace(outcome, left_running=1))
    yield from _between_ranks(run, before)
    for number, rank in enumerate(ranks):
        for place in _of_rank(name, rank):
            yield Place(place.key, place.change, lambda n=number, p=place: _with_rank(outcome, n, p.make()))


def _with_rank(outcome: Outcome, number: int, rank: RankOutcome) -> Outcome:
    return replace(outcome, ranks=(*outcome.ranks[:number], rank, *outcome.ranks[number + 1 :]))


def _between_ranks(run: Run, before: Run | None) -> Iterator[Place]:
    outcome, key = run.outcome, f"{run.name} ranks"
    ranks = outcome.ranks
    for number, (one, other) in enumerate(pairwise(ranks)):
        if not _same(one, other):
            yield Place(
                key,
                "swapped",
                lambda n=number, a=one, b=other: _with_rank(_with_rank(outcome, n, b), n + 1, a),
            )
    for number, rank in enumerate(ranks):
        if not _same(rank, ranks[0]):
            yield Place(key, "rank 0 twice", lambda n=number: _with_rank(outcome, n, ranks[0]))
    for number, (rank, old) in enumerate(zip(ranks, before.outcome.ranks if before else (), strict=False)):
        if not _same(rank, old):
            yield Place(key, "stale", lambda n=number, o=old: _with_rank(outcome, n, o))


def _same(one: RankOutcome, other: RankOutcome) -> bool:
    return (
        one.values == other.values
        and one.arrays.keys() == other.arrays.keys()
        and all(np.array_equal(array, other.arrays[name]) for name, array in one.arrays.items())
    )


def _of_rank(run: str, rank: RankOutcome) -> Iterator[Place]:
    ended = f"{run} {ENDED}"
    yield Place(ended, "a rank lost", lambda: replace(rank, complete=False, status=1))
    error = StudentError("RuntimeError", "something else", (), "")
    yield Place(ended, "a rank raised", lambda: replace(rank, error=error))
    if rank.values or rank.arrays:
        yield Place(f"{run} ranks", "silent", lambda: replace(rank, values={}, arrays={}))
    yield Place(f"{run} output", "emptied", lambda: replace(rank, output=""))
    for place in of_object(rank.values, f"{run} values"):
        yield Place(place.key, place.change, lambda p=place: replace(rank, values=p.make()))
    for name, array in sorted(rank.arrays.items(), key=_numbers):
        key = part(f"{run} arrays", name)
        rest = {other: kept for other, kept in rank.arrays.items() if other != name}
        yield Place(key, "missing", lambda r=rest: replace(rank, arrays=r))
        for place in _of_array(array, key):
            yield Place(
                place.key,
                place.change,
                lambda n=name, p=place: replace(rank, arrays={**rank.arrays, n: p.make()}),
            )


def _numbers(item: tuple[str, Array]) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", item[0])]


# JSON


def of_object(content: Mapping[str, Any], key: str, of_leaf: Leaf | None = None) -> Iterator[Place]:
    """Changes within a JSON object; each makes the whole object. `of_leaf` changes what has no parts."""
    for name, value in content.items():
        rest = {other: kept for other, kept in content.items() if other != name}
        # What is not there is nothing, and not true.
        if value is not None and value is not False:
            yield Place(part(key, name), "missing", lambda r=rest: r)
        for place in _of_value(value, part(key, name), of_leaf or _of_leaf):
            yield Place(place.key, place.change, lambda n=name, p=place: {**content, n: p.make()})


def _of_value(value: Any, key: str, of_leaf: Leaf) -> Iterator[Place]:
    if isinstance(value, dict):
        yield from of_object(value, key, of_leaf)
    elif isinstance(value, list):
        yield from _of_list(value, key, of_leaf)
    elif isinstance(value, str) and (document := _document(value)) is not None:
        for place in _of_document(document, key):
            yield Place(place.key, place.change, lambda p=place: json.dumps(p.make()))
    else:
        for change, changed in of_leaf(value):
            yield Place(key, change, lambda c=changed: c)


def _of_leaf(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, bool):
        yield "flipped", not value
        if value:
            yield "as a number", 1
    elif isinstance(value, int):
        yield "one more", value + 1
        yield "one less", value - 1
        yield "as text", str(value)
    elif isinstance(value, float):
        yield "slightly more", value * SLIGHTLY if value else 1e-3
        yield "half as much again", value * GROSSLY if value else 1.0
        yield "as text", str(value)
    elif isinstance(value, str):
        yield "other text", f"{value}x"
        if value:
            yield "emptied", ""
    else:
        yield "a problem", {"type": "RuntimeError", "message": "something else"}


def of_figure(value: Any) -> Iterator[tuple[str, Any]]:
    """As a leaf, and as the number that it is where that is written as text."""
    yield from _of_leaf(value)
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        for change, factor in DECIMAL_CHANGES.items():
            yield change, repr(float(value) * factor)


def _of_list(items: list[Any], key: str, of_leaf: Leaf) -> Iterator[Place]:
    if len(items) > 1:
        yield Place(key, "emptied", list)
    for i, item in enumerate(items):
        yield Place(key, "one missing", lambda i=i: [*items[:i], *items[i + 1 :]])
        yield Place(key, "one twice", lambda i=i: [*items[: i + 1], *items[i:]])
        if i and items[i - 1] != item:
            yield Place(
                key, "two swapped", lambda i=i: [*items[: i - 1], items[i], items[i - 1], *items[i + 1 :]]
            )
        for place in _of_value(item, f"{key}.#", of_leaf):
            yield Place(place.key, place.change, lambda i=i, p=place: [*items[:i], p.make(), *items[i + 1 :]])


def _of_document(document: Mapping[str, Any], key: str) -> Iterator[Place]:
    """Changes within a document, which has many parts: of each only the least that can be done to it."""
    return (place for place in of_object(document, f"{key}:") if place.change in LEAST)


def _document(text: str) -> dict[str, Any] | None:
    """The JSON object that a text holds, if it does."""
    try:
        document = json.loads(text) if text.startswith("{") else None
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


# Arrays


def _of_array(array: Array, key: str) -> Iterator[Place]:
    other = {"f4": "f8", "f8": "f4", "i8": "i4"}.get(array.dtype.str[1:], "f8")
    yield Place(key, "other type", lambda: array.astype(other))
    if array.dtype == np.uint8 and (document := _document(array.tobytes().decode("utf-8", "replace"))):
        for place in _of_document(document, key):
            yield Place(
                place.key,
                place.change,
                lambda p=place: np.frombuffer(json.dumps(p.make()).encode(), np.uint8),
            )
        return
    if array.ndim and len(array):
        yield Place(key, "last row missing", lambda: array[:-1])
    turned = array[::-1] if array.ndim == 1 else array.T
    if not np.array_equal(turned, array):
        yield Place(key, "turned", lambda: np.ascontiguousarray(turned))
    if not array.size:
        return
    if np.issubdtype(array.dtype, np.floating):
        yield Place(key, "scaled slightly", lambda: (array * SLIGHTLY).astype(array.dtype))
        yield Place(key, "scaled by half", lambda: (array * GROSSLY).astype(array.dtype))
        # One that is next to nothing may well change by a thousandth of that.
        large = np.flatnonzero(np.abs(array) >= 0.1 * np.abs(array).max())
        for index in large[:: max(1, len(large) // 8)]:
            value = array.flat[index]
            yield Place(
                key,
                "one value slightly more",
                lambda i=index, v=value: _with(array, i, v * SLIGHTLY if v else 1e-3),
            )
            yield Place(key, "not a number", lambda i=index: _with(array, i, np.nan))
    else:
        for index in range(0, array.size, max(1, array.size // 8)):
            value = array.flat[index]
            changed = not value if array.dtype == bool else value ^ 1
            yield Place(key, "one value other", lambda i=index, c=changed: _with(array, i, c))


def _with(array: Array, index: int, value: Any) -> Array:
    changed = array.copy()
    changed.flat[index] = value
    return changed
