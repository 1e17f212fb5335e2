"""Which series of readings go along with each other, of thousands, without comparing each two in turn.

Candidates only, for the exact rule (lockstep.reports.between) to decide on: readings that are others times a constant,
and deviations that are correlated. All bounds here are a little wider than the rule's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lockstep.reports.between import CORRELATION, LEAST_VALUES, MAX_DEVIATION, NOISE, OF_THE_REST

Series: TypeAlias = Mapping[str, tuple[float, ...]]
"""Readings of one report, in seconds, by configuration, in the order of the file."""

SLACK = 0.05
"""By how much a correlation may be lower here: rows of different length have other means."""
MOST_COLUMNS = 1024
"""Readings that are compared, those that most reports have."""
_ROWS = 256
"""Reports that are held against all others at a time; memory stays flat."""
_PAIRS = 1 << 20

_Matrix: TypeAlias = NDArray[np.float64]


def alike_noise(reports: Sequence[Series], pairs: int, chance: float, nearest: int) -> set[tuple[int, int]]:
    """Pairs of reports, of one kind, whose noise may be the same; for each report at most the `nearest` ones.

    `chance` is how often that may come out of independent noise in a class of so many `pairs`.
    """
    found: set[tuple[int, int]] = set()
    for name in (_by_name, _by_place):
        rows = [
            (number, name(place, config), np.log(np.array(seconds)))
            for number, report in enumerate(reports)
            for place, (config, seconds) in enumerate(report.items())
        ]
        found |= set(_correlated(rows, len(reports), nearest))
        found |= set(_scaled(rows, chance / pairs, nearest))
    return found


def _by_name(place: int, config: str) -> str:
    return config


def _by_place(place: int, config: str) -> str:
    return str(place)


_Row: TypeAlias = tuple[int, str, _Matrix]
"""Number of the report, name of the configuration, logarithms of the readings."""


def _scaled(rows: Sequence[_Row], chance: float, nearest: int) -> Iterator[tuple[int, int]]:
    """Reports one configuration of which has the readings of another's times a constant."""
    by_name: dict[str, list[_Row]] = {}
    for row in rows:
        if len(row[2]) >= 3 and np.ptp(row[2]) > NOISE:
            by_name.setdefault(row[1], []).append(row)
    taken: dict[int, int] = {}
    for same in by_name.values():
        if len(same) < 2:
            continue
        values = np.full((len(same), max(len(row[2]) for row in same)), np.nan)
        for place, (_, _, logs) in enumerate(same):
            values[place, : len(logs)] = logs - logs[0]
        for one, other in _close(values, chance):
            a, b = same[one][0], same[other][0]
            taken[a], taken[b] = taken.get(a, 0) + 1, taken.get(b, 0) + 1
            if a != b and min(taken[a], taken[b]) <= nearest:
                yield min(a, b), max(a, b)


def _close(values: _Matrix, chance: float) -> Iterator[tuple[int, int]]:
    """Pairs of rows that differ by less than the rule allows, and less than chance would make them."""
    order = np.argsort(values[:, 1])
    values = values[order]
    counts = np.sum(~np.isnan(values), axis=1)
    spread = np.nanmax(values, axis=1) - np.nanmin(values, axis=1)
    # From (2 * deviation / spread) ** (count - 1) < chance.
    reach = np.minimum(MAX_DEVIATION, spread / 2 * chance ** (1 / (counts - 1)))
    first = np.arange(len(values)) + 1
    end = np.searchsorted(values[:, 1], values[:, 1] + 2.1 * reach, side="right")
    begin = 0
    while begin < len(values):
        # As many rows as have a bearable number of neighbours together.
        sizes = np.cumsum(np.maximum(end[begin:] - first[begin:], 0))
        stop = begin + max(1, int(np.searchsorted(sizes, _PAIRS, side="right")))
        lengths = np.maximum(end[begin:stop] - first[begin:stop], 0)
        one = np.repeat(np.arange(begin, stop), lengths)
        other = np.arange(len(one)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + first[one]
        apart = values[one] - values[other]
        off = (np.fmax.reduce(apart, axis=1) - np.fmin.reduce(apart, axis=1)) / 2
        near = off <= 1.05 * np.minimum(reach[one], reach[other])
        yield from zip(order[one[near]].tolist(), order[other[near]].tolist(), strict=True)
        begin = stop


def _correlated(rows: Sequence[_Row], reports: int, nearest: int) -> Iterator[tuple[int, int]]:
    """Reports whose deviations go along, as they are and without what repetitions have in common."""
    columns = _columns(rows)
    raw, own = (np.zeros((reports, len(columns))) for _ in range(2))
    there = np.zeros((reports, len(columns)))
    for number, mine in _by_report(rows):
        deviations = [logs - logs.mean() for _, logs in mine]
        around = [logs - np.median(logs) for _, logs in mine]
        longest = max(len(logs) for logs in around)
        common = [np.median([logs[rep] for logs in around if rep < len(logs)]) for rep in range(longest)]
        for (name, logs), plain, centred in zip(mine, deviations, around, strict=True):
            for rep in range(len(logs)):
                column = columns.get((name, rep))
                if column is not None:
                    raw[number, column] = plain[rep]
                    own[number, column] = centred[rep] - common[rep]
                    there[number, column] = 1.0
    for begin in range(0, reports, _ROWS):
        block = slice(begin, begin + _ROWS)
        both = there[block] @ there.T
        likeness = _correlations(raw, there, both, block)
        fits = (both >= LEAST_VALUES) & (likeness > CORRELATION - SLACK)
        if not fits.any():
            continue
        fits &= _correlations(own, there, both, block) > OF_THE_REST - SLACK
        for row in np.flatnonzero(fits.any(axis=1)):
            others = np.flatnonzero(fits[row])
            others = others[others != begin + row]
            for other in others[np.argsort(-likeness[row, others], kind="stable")][:nearest]:
                yield min(begin + int(row), int(other)), max(begin + int(row), int(other))


def _correlations(values: _Matrix, there: _Matrix, both: _Matrix, block: slice) -> _Matrix:
    """Of some reports with all, each over the readings that both have."""
    mine, here = values[block], there[block]
    count = np.maximum(both, 1.0)
    sums, other_sums = mine @ there.T, here @ values.T
    squares = (mine**2) @ there.T - sums**2 / count
    other_squares = here @ (values**2).T - other_sums**2 / count
    scale = np.sqrt(np.maximum(squares, 0.0) * np.maximum(other_squares, 0.0))
    product = mine @ values.T - sums * other_sums / count
    return np.asarray(np.divide(product, scale, out=np.zeros_like(scale), where=scale > 1e-12))


def _columns(rows: Sequence[_Row]) -> Mapping[tuple[str, int], int]:
    """Readings, by configuration and repetition, that two reports at least have; the most frequent ones."""
    counts: dict[tuple[str, int], int] = {}
    for _, name, logs in rows:
        for rep in range(len(logs)):
            counts[name, rep] = counts.get((name, rep), 0) + 1
    kept = sorted((key for key, count in counts.items() if count > 1), key=lambda key: (-counts[key], key))
    return {key: place for place, key in enumerate(kept[:MOST_COLUMNS])}


def _by_report(rows: Sequence[_Row]) -> Iterator[tuple[int, list[tuple[str, _Matrix]]]]:
    found: dict[int, list[tuple[str, _Matrix]]] = {}
    for number, name, logs in rows:
        found.setdefault(number, []).append((name, logs))
    yield from found.items()
