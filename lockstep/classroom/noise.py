"""Which series of readings go along with each other, of thousands, without comparing each two in turn.

Candidates only, for the exact rule (lockstep.reports.between) to decide on: readings that are others times a constant,
and deviations that are correlated. All bounds here are a little wider than the rule's.
"""

from __future__ import annotations

import statistics
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lockstep.reports.between import CORRELATION, LEAST_VALUES, MAX_DEVIATION, NOISE, OF_THE_REST

SLACK = 0.05
"""By how much a correlation may be lower here: rows of different length have other means."""
MOST_COLUMNS = 1024
"""Readings that are compared, those that most reports have."""
_ROWS = 256
"""Reports that are held against all others at a time; memory stays flat."""
_PAIRS = 1 << 20
_REPEATS = 1 << 16

_Matrix: TypeAlias = NDArray[np.float64]
_Table: TypeAlias = NDArray[np.float32]
_Places: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Series:
    """Readings of one report as logarithms, one configuration after the other.

    `names` has a number for each configuration, equal for equal settings; `lengths` says how many readings it has.
    """

    names: _Places
    lengths: _Places
    logs: _Matrix

    @property
    def rows(self) -> list[_Matrix]:
        """The readings by configuration."""
        return np.split(self.logs, np.cumsum(self.lengths)[:-1])

    def columns(self, names: _Places) -> _Places:
        """A number for each reading: what is measured, under these names, and which repetition it is."""
        repeats = np.concatenate([np.arange(length) for length in self.lengths])
        return np.asarray(np.repeat(names, self.lengths) * _REPEATS + repeats, dtype=np.int64)


def series(readings: Mapping[str, Sequence[float]]) -> Series | None:
    """From readings in seconds by configuration; None where there are none."""
    if not readings:
        return None
    return Series(
        np.array([zlib.crc32(name.encode("utf-8", "replace")) for name in readings], dtype=np.int64),
        np.array([len(row) for row in readings.values()], dtype=np.int64),
        np.log(np.concatenate([np.array(row, dtype=np.float64) for row in readings.values()])),
    )


def alike_noise(reports: Sequence[Series], chance: float, nearest: int) -> set[tuple[int, int]]:
    """Pairs of reports, of one kind, whose noise may be the same; for each report at most the `nearest` ones.

    `chance` is how likely one pair with independent noise may be to look so.
    """
    deviations = [_deviations(report) for report in reports]
    own = [_own(report) for report in reports]
    found: set[tuple[int, int]] = set()
    # Settings that are told apart do not make other readings of the same ones.
    for names in ([report.names for report in reports], [np.arange(len(report.names)) for report in reports]):
        columns = [report.columns(each) for report, each in zip(reports, names, strict=True)]
        found |= set(_correlated(columns, deviations, own, nearest))
        found |= set(_scaled(reports, names, chance, nearest))
    return found


def _deviations(report: Series) -> _Matrix:
    """From the mean of the configuration."""
    starts = np.cumsum(report.lengths) - report.lengths
    means = np.add.reduceat(report.logs, starts) / report.lengths
    return np.asarray(report.logs - np.repeat(means, report.lengths))


def _own(report: Series) -> _Matrix:
    """What is left without what a configuration, and what a repetition, has in common: by medians, as in the rule."""
    around = []
    for row in report.rows:
        values = row.tolist()
        middle = statistics.median(values)
        around.append([value - middle for value in values])
    longest = max(len(row) for row in around)
    common = [statistics.median(row[rep] for row in around if rep < len(row)) for rep in range(longest)]
    return np.array([value - common[rep] for row in around for rep, value in enumerate(row)])


def _scaled(
    reports: Sequence[Series], names: Sequence[_Places], chance: float, nearest: int
) -> Iterator[tuple[int, int]]:
    """Reports one configuration of which has the readings of another's times a constant."""
    by_name: dict[int, list[tuple[int, _Matrix]]] = {}
    for number, (report, own) in enumerate(zip(reports, names, strict=True)):
        for name, row in zip(own.tolist(), report.rows, strict=True):
            if len(row) >= 3 and row.max() - row.min() > NOISE:
                by_name.setdefault(name, []).append((number, row))
    taken: dict[int, int] = {}
    for same in by_name.values():
        values = np.full((len(same), max(len(row) for _, row in same)), np.nan)
        for place, (_, row) in enumerate(same):
            values[place, : len(row)] = row - row[0]
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
        one = np.repeat(np.arange(begin, begin + len(lengths)), lengths)
        other = np.arange(len(one)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + first[one]
        apart = values[one] - values[other]
        off = (np.fmax.reduce(apart, axis=1) - np.fmin.reduce(apart, axis=1)) / 2
        near = off <= 1.05 * np.minimum(reach[one], reach[other])
        yield from zip(order[one[near]].tolist(), order[other[near]].tolist(), strict=True)
        begin = stop


def _correlated(
    columns: Sequence[_Places], deviations: Sequence[_Matrix], own: Sequence[_Matrix], nearest: int
) -> Iterator[tuple[int, int]]:
    """Reports whose deviations go along, as they are and without what repetitions have in common."""
    frequent = _frequent(columns)
    there, raw, rest = (np.zeros((len(columns), len(frequent)), dtype=np.float32) for _ in range(3))
    for number, mine in enumerate(columns):
        place = np.minimum(np.searchsorted(frequent, mine), max(len(frequent) - 1, 0))
        kept = frequent[place] == mine if len(frequent) else np.zeros(len(mine), dtype=np.bool_)
        there[number, place[kept]] = 1.0
        raw[number, place[kept]] = deviations[number][kept]
        rest[number, place[kept]] = own[number][kept]
    for begin in range(0, len(columns), _ROWS):
        block = slice(begin, begin + _ROWS)
        both = there[block] @ there.T
        likeness = _correlations(raw, there, both, block)
        fits = (both >= LEAST_VALUES) & (likeness > CORRELATION - SLACK)
        np.fill_diagonal(fits[:, begin:], False)
        if not fits.any():
            continue
        fits &= _correlations(rest, there, both, block) > OF_THE_REST - SLACK
        for row in np.flatnonzero(fits.any(axis=1)):
            others = np.flatnonzero(fits[row])
            for other in others[np.argsort(-likeness[row, others], kind="stable")][:nearest]:
                yield min(begin + int(row), int(other)), max(begin + int(row), int(other))


def _correlations(values: _Table, there: _Table, both: _Table, block: slice) -> _Table:
    """Of some reports with all, each over the readings that both have."""
    mine, here = values[block], there[block]
    count = np.maximum(both, np.float32(1))
    sums, other_sums = mine @ there.T, here @ values.T
    squares = (mine**2) @ there.T - sums**2 / count
    other_squares = here @ (values**2).T - other_sums**2 / count
    scale = np.sqrt(np.maximum(squares, 0) * np.maximum(other_squares, 0))
    product = mine @ values.T - sums * other_sums / count
    return np.asarray(np.divide(product, scale, out=np.zeros_like(scale), where=scale > 1e-12))


def _frequent(columns: Sequence[_Places]) -> _Places:
    """Readings that two reports at least have, the most frequent ones, in order."""
    every, counts = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *columns]), return_counts=True)
    every, counts = every[counts > 1], counts[counts > 1]
    return np.asarray(np.sort(every[np.argsort(-counts, kind="stable")][:MOST_COLUMNS]), dtype=np.int64)
