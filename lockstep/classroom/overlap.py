"""Who shares how much with whom: sets of numbers compared across a class, without comparing every pair of sets.

An inverted index, from a number to those who have it; a set is compared with nobody it shares nothing with. What too
many have is no sign of anything: a tutorial's lines, an idiom, a sentence of the lecture.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

COMMON_SHARE, COMMON_LEAST = 0.2, 10
"""What more than a fifth of the class has, and more than ten of it, counts for nothing."""


def is_common(holders: NDArray[np.int64], class_size: int) -> NDArray[np.bool_]:
    """Whether what so many of a class have is no sign of anything."""
    return np.asarray(holders > max(COMMON_LEAST, COMMON_SHARE * class_size), dtype=np.bool_)


@dataclass(frozen=True)
class Overlap:
    """What one set shares. `own` is how much it holds that is not common to the class.

    `owners` are those who share something of it, most first, and `shared` how much each of them does.
    """

    place: int
    own: int
    owners: NDArray[np.int64]
    shared: NDArray[np.int64]


class Index:
    """Sets of numbers, each of one owner. An owner may have several; together they are what others share with."""

    def __init__(self, sets: Sequence[NDArray[np.generic]], owners: Sequence[int], class_size: int) -> None:
        self._owners = np.asarray(owners, dtype=np.int64)
        self._people = int(self._owners.max(initial=0)) + 1
        lengths = [len(each) for each in sets]
        self._starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        values, ids = (
            np.unique(np.concatenate([*sets]), return_inverse=True) if sets else (np.zeros(0), np.zeros(0))
        )
        self._ids = ids.astype(np.int32)
        # Who has what, as one number each, so that sorting brings those together who have the same.
        pairs = ids.astype(np.int64)
        pairs *= self._people
        pairs += np.repeat(self._owners, lengths)
        pairs.sort()
        pairs = pairs[np.concatenate([[True], np.diff(pairs) > 0])] if len(pairs) else pairs
        self._holders = (pairs % self._people).astype(np.int32)
        self._first = np.searchsorted(pairs, np.arange(len(values) + 1) * self._people)
        self._common = is_common(np.diff(self._first), class_size)

    def common(self, place: int) -> NDArray[np.bool_]:
        """Which numbers of a set are common to the class, in the order of the set."""
        return np.asarray(self._common[self._of(place)], dtype=np.bool_)

    def overlaps(self, least: int, share: float) -> Iterator[Overlap]:
        """For every set who shares at least so many of its numbers, and at least this share of them."""
        for place, owner in enumerate(self._owners):
            ids = self._of(place)
            ids = ids[~self._common[ids]]
            if len(ids) < least:
                continue
            counts = np.bincount(
                self._holders[_ranges(self._first[ids], self._first[ids + 1])], minlength=self._people
            )
            counts[owner] = 0
            found = np.flatnonzero(counts >= max(least, share * len(ids), 1))
            if len(found):
                found = found[np.argsort(-counts[found], kind="stable")]
                yield Overlap(place, len(ids), found, counts[found])

    def _of(self, place: int) -> NDArray[np.int32]:
        return self._ids[int(self._starts[place]) : int(self._starts[place + 1])]


def _ranges(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """All numbers from each start up to its end, one range after the other."""
    lengths = ends - starts
    skipped = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    places: NDArray[np.int64] = np.arange(int(lengths.sum())) + np.repeat(starts - skipped, lengths)
    return places
