"""The longest tick that a clock may have, to judge by the readings alone: there are more counters than any list has.

Readings of a clock that ticks differ by whole ticks, whatever the ticks are. So a tick is possible as long as the
differences between readings that lie near each other do not speak against it; few readings speak against little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lockstep.reports.document import Number
from lockstep.reports.resolution import Tick, finest_of_size, size

LONGEST_S = 0.02
"""Ticks that are looked for: up to Windows' 15.6 ms, and Unix's 10 ms."""
NANOSECONDS_S = 2e-9
"""What two readings of a counter in whole nanoseconds are off from a multiple of its tick, each."""
NEAR, AT_LEAST, FAR = 12, 24, 3000
"""Differences of so many ticks are looked at; where there are fewer than `AT_LEAST`, of up to `FAR` ticks."""
TOO_FEW = 3
"""Differences from which on they speak against a tick."""
SEEN_BY_CHANCE = 1e-3
"""How often differences may be whole ticks of some tick by chance, of one that is taken for seen."""
OWN_READINGS = 8
"""Different readings of a configuration from which on its clock is looked at by itself: some note times per image."""
COARSE_S = 1.1e-6
"""A longer tick shows in every reading of a report, so all of them are asked: readings copied in are few otherwise."""
DRIFT = 1e-7
"""How much of a difference a clock that is being set right may be off from its ticks, from one run to the next."""
SUMMED, SUMMED_S = 1e-4, 1e-8
"""How much of a coarse tick, and by how much more, readings may be off that are sums of many, each cut to nanoseconds."""
SAME_S = 1e-7
"""Readings that lie so near each other are the same on a coarse clock."""

_MOST_VALUES, _MOST_DIFFERENCES, _LOOKED_AT = 600, 40_000, 120
_FINE, _FINER = 1e-3, 2e-5
_CHUNK = 1024

_Values: TypeAlias = NDArray[np.float64]


def longest_tick(groups: Sequence[Sequence[Number]], least: float) -> Tick:
    """The longest tick that the clock behind readings, by configuration, may have; not less than `least`.

    `least` is what is known of the clock. Readings of some digits are rounded to more the longer they are.
    """
    common = _common(groups, least)
    if common is not None and common.seen:
        return Tick(max(least, common.seconds), True)
    longest = _longest(groups, least, LONGEST_S)
    if longest.seconds <= max(COARSE_S, least):
        return longest
    if common is None:
        return _longest(groups, least, COARSE_S)
    return Tick(max(least, min(common.seconds, longest.seconds)), longest.seen and common.is_near)


def _longest(groups: Sequence[Sequence[Number]], least: float, bound: float) -> Tick:
    every = [number for group in groups for number in group]
    own = [
        _possible(group, least, bound)
        for group in groups
        if len({each.value for each in group}) >= OWN_READINGS
    ]
    return max(
        [_possible(every, least, bound), *(tick for tick in own if tick.seen)], key=lambda tick: tick.seconds
    )


@dataclass(frozen=True)
class _Common(Tick):
    """A tick of which differences are whole numbers; `is_near` where one of them is a few ticks only."""

    is_near: bool


def _common(groups: Sequence[Sequence[Number]], least: float) -> _Common | None:
    """The longest tick above `COARSE_S` of which all readings of a configuration differ by whole numbers; if any.

    Only within a configuration: what was taken off its readings, such as an empty run, is the same for all of them.
    It is seen where chance would hardly make the differences so.
    """
    apart = sorted(
        (difference, noise + DRIFT * difference + SUMMED_S)
        for group in groups
        for difference, noise in _neighbours(group, least)
    )
    if not apart:
        return _Common(LONGEST_S, False, True)
    (shortest, off), *others = apart
    whole = np.arange(max(1.0, np.ceil(shortest / LONGEST_S)), np.floor(shortest / COARSE_S) + 1)
    tick, chance = shortest / whole, whole
    low, high = tick - (off + SUMMED * tick) / whole, tick + (off + SUMMED * tick) / whole
    for difference, exact in others:
        tick = (low + high) / 2
        times, noise = np.rint(difference / tick), exact + SUMMED * tick
        within = 2 * noise + (high - low) * times
        # What a tick is known to is too little to tell how often it goes into a difference that is much longer.
        is_told = within < tick / 2
        low = np.where(is_told, np.maximum(low, (difference - noise) / times), low)
        high = np.where(is_told, np.minimum(high, (difference + noise) / times), high)
        chance = np.where(is_told, chance * within / tick, chance)
        left = low <= high
        low, high, chance = low[left], high[left], chance[left]
    if not len(high):
        return None
    return _Common(float(high[0]), bool(chance[0] < SEEN_BY_CHANCE), bool(shortest <= NEAR * high[0]))


def _neighbours(numbers: Sequence[Number], least: float) -> list[tuple[float, float]]:
    """By how much different readings that follow each other in order differ, and how far off that may be."""
    ordered, noise = _in_order(numbers, least)
    apart = zip(np.diff(ordered).tolist(), noise[1:].tolist(), strict=True)
    return [(difference, noise) for difference, noise in apart if difference > max(noise, SAME_S)]


def _in_order(numbers: Sequence[Number], least: float) -> tuple[_Values, _Values]:
    """The readings, sorted, and how far each may be off from a multiple of the tick. Of two, the longer is the coarser."""
    finest = finest_of_size(numbers)
    ordered = np.array(sorted(number.value for number in numbers), dtype=np.float64)
    rounded = [max(least, finest[size(value)]) for value in ordered.tolist()]
    return ordered, np.array(rounded, dtype=np.float64) + NANOSECONDS_S


@dataclass(frozen=True)
class _Apart:
    """Differences between readings that lie near each other, in order, and how far each may be off from whole ticks."""

    seconds: _Values
    noise: _Values


def _possible(numbers: Sequence[Number], least: float, bound: float) -> Tick:
    apart = _differences(numbers, least)
    if not len(apart.seconds):
        return Tick(least, False)
    # Above this, the nearest differences are many enough without those far off.
    dense = apart.seconds[AT_LEAST - 1] / NEAR if len(apart.seconds) >= AT_LEAST else bound
    lowest = max(least, float(apart.noise.min()))
    for low, high, spacing in (
        (max(dense, lowest), bound, _FINE),
        (lowest, min(dense, bound), _FINER),
    ):
        ticks = np.exp(np.arange(np.log(high), np.log(low), -spacing)) if low < high else np.zeros(0)
        for start in range(0, len(ticks), _CHUNK):
            some = ticks[start : start + _CHUNK]
            counts = np.searchsorted(apart.seconds, (NEAR if spacing == _FINE else FAR) * some)
            most = _LOOKED_AT if spacing == _FINE else AT_LEAST
            if spacing == _FINER:
                counts = np.minimum(counts, AT_LEAST)
            for place in np.flatnonzero(_fits(apart, some, counts, spacing, most)).tolist():
                seen = bool(counts[place] >= TOO_FEW)
                if not seen or spacing == _FINE or _holds(apart, int(counts[place]), float(some[place])):
                    return Tick(float(some[place]), seen)
    return Tick(lowest, True)


def _fits(
    apart: _Apart, ticks: _Values, counts: NDArray[np.int64], spacing: float, most: int
) -> NDArray[np.bool_]:
    """Which ticks the first `counts` of the differences do not speak against; `most` of them are looked at.

    The ticks come from the longest to the shortest, and so the counts from the largest to the smallest.
    """
    many = int(np.count_nonzero(counts > most))
    share = (np.arange(most) + 0.5) / most
    spread = (share * counts[:many, None]).astype(np.int64)
    there = np.arange(min(most, len(apart.seconds))) < counts[many:, None]
    twice = np.concatenate(
        [
            _for_and_against(apart.seconds[spread], apart.noise[spread], ticks[:many], spacing, True),
            _for_and_against(apart.seconds[:most], apart.noise[:most], ticks[many:], spacing, there),
        ]
    )
    return np.asarray((counts < TOO_FEW) | (twice >= np.minimum(counts, most)))


def _for_and_against(
    differences: _Values, noise: _Values, ticks: _Values, spacing: float, there: NDArray[np.bool_] | bool
) -> _Values:
    """For each tick: twice how many of the differences that are `there` are whole ticks, less those that chance makes."""
    within = noise + differences * (spacing / 2)
    in_ticks = differences / ticks[:, None]
    allowed = within / ticks[:, None]
    whole = (np.abs(in_ticks - np.rint(in_ticks)) <= allowed) & there
    by_chance = np.minimum(1.0, 2 * allowed) * there
    return np.asarray(2.0 * whole.sum(axis=1) - by_chance.sum(axis=1))


def _holds(apart: _Apart, count: int, tick: float) -> bool:
    """Whether they fit as well when the tick is taken exactly: of many ticks tried, some nearly fit a few differences."""
    differences, noise = apart.seconds[:count], apart.noise[:count]
    whole = np.round(differences / tick)
    fit = np.abs(differences - tick * whole) <= noise + differences * _FINER / 2
    if not whole[fit].any():
        return True
    exact = float((differences[fit] * whole[fit]).sum() / (whole[fit] ** 2).sum())
    off = np.abs(differences - exact * np.round(differences / exact))
    return bool(2 * (off <= noise).sum() >= count + np.minimum(1.0, 2 * noise / exact).sum())


def _differences(numbers: Sequence[Number], least: float) -> _Apart:
    """Of all readings that lie near each other; none that noise makes."""
    ordered, rounded = _in_order(numbers, least)
    if len(ordered) > _MOST_VALUES:
        # Where they lie closest, ticks show best.
        spans = ordered[_MOST_VALUES - 1 :] - ordered[: len(ordered) - _MOST_VALUES + 1]
        start = int(spans.argmin())
        ordered, rounded = ordered[start : start + _MOST_VALUES], rounded[start : start + _MOST_VALUES]
    lags = range(1, min(len(ordered), 1 + _MOST_DIFFERENCES // max(1, len(ordered))))
    apart = np.concatenate([np.zeros(0), *(ordered[lag:] - ordered[:-lag] for lag in lags)])
    noise = np.concatenate([np.zeros(0), *(rounded[lag:] for lag in lags)])
    order = np.argsort(apart)
    order = order[apart[order] > noise[order]]
    return _Apart(apart[order], noise[order])
