"""The mean and standard deviation of five passes, in whatever words a script printed them."""

from __future__ import annotations

import bisect
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np

from graders.lfw_dataset.looks import number
from lockstep.compare import elements
from lockstep.text import without_escapes
from lockstep.wire import Json

PASSES = 5
# A deviation below this share of that of the passes is none of theirs: one of their mean is 0.45 of it.
LEAST_SHARE = 0.3
FULL_PRECISION = 1e-10
_LIST = re.compile(r"\[([^\[\]]*)\]")
# "0.31", ".31", "3.1e-02", also in "0.31s", "0.31." and "0.31) ms"; not the 64 of "float64", nor any part of a version
# number. Chinese has no blank before a number.
_NUMBER = re.compile(
    r"(?<![A-Za-z\d_.])((?:\d+|(?=\.\d))(\.\d+)?([eE][-+]?\d+)?)(?!\d*\.\d)[\s)\]}]*"
    r"(m?s(?:ecs?)?(?![A-Za-z])|[uµμn]s(?:ecs?)?(?![A-Za-z])|(?i:second|milli|mi[ck]ro|nano)|毫秒)?"
)
# What differs where a line is printed for each pass.
_DIFFERING = re.compile(r"\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?")
# "0.312(51)": the deviation in the last digits of the mean.
_CONCISE = re.compile(r"(?<![A-Za-z\d_.])(\d+\.(\d+))\((\d+)\)")
# Between these words' numbers may stand others: "mean 0.31 s (51.2 images/s), std 0.02 s".
_MEAN = re.compile(
    r"mean|average|avg|mittel|durchschnitt|moyenne|m[eé]dia\b|promedio|średni|平均|μ", re.IGNORECASE
)
_DEVIATION = re.compile(
    r"std|\bdev\b|devia|\bsd\b|sigma|σ|abweichung|streuung|[ée]cart|desv|odch|标准差|標準偏差", re.IGNORECASE
)
_PLUS_MINUS = re.compile(r"±|\+ ?/? ?[-−]")
# Of what a number is called: there ends what belongs to another.
_BEGINNING = re.compile(r"[\d\n]")
# "Timing [ms]: 310.2 +- 20.1", "mean_ms: 310.2": a unit before its numbers.
_UNIT_BEFORE = re.compile(r"(?<![A-Za-z\d])([muµμn]s(?:ecs?)?(?![A-Za-z])|(?i:milli|mi[ck]ro|nano)|毫秒)")
_SECONDS = {
    "ms": 1e-3,
    "milli": 1e-3,
    "毫秒": 1e-3,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "micro": 1e-6,
    "ns": 1e-9,
    "nano": 1e-9,
}


@dataclass(frozen=True)
class Reading:
    """A mean and a standard deviation in seconds, and the last digit that was printed of each."""

    mean: float
    std: float
    digit: float
    std_digit: float

    def fits(self, shortest: float, elapsed: float) -> bool:
        """Whether five passes can have had these times: none below `shortest`, all of them in `elapsed`."""
        # Of five times between `shortest` and what the others leave, with `ddof=1`.
        widest = max(elapsed - PASSES * shortest, 0.0) * 0.5 + self.digit
        return (
            self.mean + self.digit >= 0.95 * shortest
            and PASSES * (self.mean - self.digit) <= elapsed
            and 0 <= self.std <= widest
        )

    def is_too_narrow(self, took: list[float]) -> bool:
        """Whether the mean is that of passes which took at least so long, and the deviation far below theirs."""
        return self.mean + self.digit >= 0.95 * float(
            np.mean(took)
        ) and self.std + self.std_digit < LEAST_SHARE * float(np.std(took))

    def has_variance_of(self, took: list[float]) -> bool:
        """Whether what was printed for the deviation is, for clocks that differ a little, that of passes, squared."""
        return replace(self, std=math.sqrt(self.std), std_digit=0.0).is_of_five(took)

    def is_twice_the_same(self) -> bool:
        """Whether two numbers are one and the same, and are no two that happen to be alike in a few digits."""
        return self.mean == self.std and max(self.digit, self.std_digit) <= 1e-3 * self.mean

    def is_of_five(self, took: list[float]) -> bool:
        """Whether this is, for clocks that do not measure quite the same, the mean and the deviation of five passes."""
        fives = [took[first : first + PASSES] for first in range(len(took) - PASSES + 1)]
        return any(
            abs(self.mean - np.mean(five)) <= 0.2 * np.mean(five) + self.digit
            and abs(self.std - np.std(five)) <= 0.4 * np.std(five) + self.std_digit
            for five in fives
        )

    def is_of_two(self, took: list[float]) -> bool:
        """Whether these are the times of a pass and of the next one."""
        return any(
            abs(self.mean - one) <= 0.05 * one + self.digit
            and abs(self.std - other) <= 0.05 * other + self.std_digit
            for one, other in pairwise(took)
        )


def readings(output: str, bars: Json) -> list[Reading]:
    """Every mean with its deviation that was printed or drawn as an error bar."""
    found = pairs(output)
    for bar in elements(bars):
        if isinstance(bar, dict):
            means, stds = elements(bar.get("y")), elements(bar.get("yerr"))
            for mean, std in zip(map(number, means), map(number, stds), strict=False):
                if mean is not None and std is not None:
                    found.append(Reading(mean, std, 0.0, 0.0))
    return found


def readings_otherwise(output: str) -> list[Reading]:
    """Every mean with its deviation in less usual spellings.

    There may be a whole number in between ("mean of 5 passes: 0.31 s, std of 5 passes: 0.02 s"), the deviation may come
    first, milliseconds may have no decimals, and their unit may stand before them. Behind their words, the two may have
    others between them.
    """
    found = []
    for text in _texts(output):
        printed = _numbers(text)
        found += _odd_pairs_in(printed, text)
        before = _UNIT_BEFORE.search(text)
        if before and not any(one.unit in _SECONDS for one in printed):
            in_units = [one._replace(unit=one.unit or _unit(before[1])) for one in printed]
            found += _odd_pairs_in(in_units, text)
        means, deviations = (_behind(word, text) for word in (_MEAN, _DEVIATION))
        others = [one for one in printed if one.is_fine]
        pairs = zip(means, deviations, strict=False) if means else product(others[:20], deviations[:20])
        found += [_reading(*pair) for pair in pairs]
    found += [
        Reading(float(mean), int(last) / 10 ** len(decimals), *[10.0 ** -len(decimals)] * 2)
        for mean, decimals, last in _CONCISE.findall(output[-20000:])
        if len(last) <= len(decimals) + 1 < 20
    ]
    return found


def pairs(output: str, *, turned: bool = False) -> list[Reading]:
    """Two numbers with decimals, one after the other, in whatever words; some write 0,31.

    With `turned` also where the words say that the deviation comes first.
    """
    return next(filter(None, (_pairs_in(text, turned) for text in _texts(output))), [])


def without_passes(output: str, least: Sequence[float]) -> str:
    """What was printed, without the time of each pass where there is a list of them or a line for each, all alike.

    None of these is below its `least`.
    """
    lists = _LIST.findall(output)
    if len(lists) == 1 and _are_passes(_numbers(lists[0]), least):
        return _LIST.sub("", output)
    lines = without_escapes(output[-20000:]).splitlines()
    alike: dict[str, list[int]] = {}
    for place, line in enumerate(lines):
        alike.setdefault(_DIFFERING.sub("#", " ".join(line.split())), []).append(place)
    found = [
        places
        for words, places in alike.items()
        if len(places) == len(least)
        and not (_MEAN.search(words) or _DEVIATION.search(words))
        and _are_passes(
            [one for place in places for one in _numbers(_texts(lines[place])[1]) if one.has_decimals], least
        )
    ]
    if len(found) != 1:
        return output
    return "\n".join(line for place, line in enumerate(lines) if place not in found[0])


def are_bare_passes(output: str, least: Sequence[float]) -> bool:
    """Whether beside the time of each pass there are no two numbers, as of a mean and a deviation."""
    rest = without_passes(output, least)
    if rest == output or _UNIT_BEFORE.search(rest) or _CONCISE.search(rest):
        return False
    return all(sum(one.is_fine for one in _numbers(text)) < 2 for text in _texts(rest))


class _Printed(NamedTuple):
    value: float
    digit: float
    unit: str
    has_decimals: bool
    place: int

    @property
    def is_fine(self) -> bool:
        """Whether this can tell times of less than a second apart."""
        return self.has_decimals or self.unit in _SECONDS


def _are_passes(times: Sequence[_Printed], least: Sequence[float]) -> bool:
    return len(times) == len(least) and all(
        one.has_decimals and (one.value + one.digit) * _SECONDS.get(one.unit, 1.0) >= seconds
        for one, seconds in zip(times, least, strict=True)
    )


def _texts(output: str) -> tuple[str, str]:
    """What was printed, and the same with points for decimal commas."""
    text = without_escapes(output[-20000:])
    return text, re.sub(r"(?<=\d),(?=\d)", ".", text)


def _numbers(text: str) -> list[_Printed]:
    found = []
    for match in _NUMBER.finditer(text):
        digits, decimals, exponent, unit = match.groups("")
        # Forged output may hold any exponent; a second is never 1e30 of anything.
        power = max(-30, min(30, int(exponent[1:]))) if 0 < len(exponent) < 9 else 0
        digit = 10.0 ** (power - max(len(decimals) - 1, 0))
        found.append(_Printed(float(digits), digit, _unit(unit), bool(decimals or exponent), match.start()))
    return found


def _unit(word: str) -> str:
    """A unit as `_SECONDS` knows it, if it does: "msecs" and "Millisekunden" are other words for some."""
    return re.sub(r"ecs?$", "", word.lower()).replace("mikro", "micro")


def _behind(word: re.Pattern[str], text: str) -> list[_Printed]:
    """The first time behind each such word, in its line."""
    found = []
    for line in text.splitlines():
        words = [at.end() for at in word.finditer(line)]
        fine = [one for one in _numbers(line) if one.is_fine] if words else []
        places = [one.place for one in fine]
        found += [fine[nth] for end in words if (nth := bisect.bisect_left(places, end)) < len(fine)]
    return found


def _pairs_in(text: str, turned: bool) -> list[Reading]:
    return [
        _reading(*pair)
        for pair in pairwise(_numbers(text))
        if pair[0].has_decimals and pair[1].has_decimals and (turned or not _are_turned(*pair, text))
    ]


def _odd_pairs_in(found: list[_Printed], text: str) -> list[Reading]:
    fine = [one for one in found if one.is_fine]
    # "(310 +- 20) ms"
    shared = [(one, other) for one, other in pairwise(found) if not one.is_fine and other.unit in _SECONDS]
    both = [(one._replace(unit=one.unit or other.unit), other) for one, other in pairwise(fine)]
    turned = [_reading(other, one) for one, other in both if not _are_in_order(one, other, text)]
    both = [pair for pair in both if not _are_turned(*pair, text)]
    # Unless something stopped the script, the deviation is less than the mean.
    return [_reading(*pair) for pair in shared + both] + [each for each in turned if each.std < each.mean]


def _are_in_order(one: _Printed, other: _Printed, text: str) -> bool:
    """Whether the first of two numbers is called the mean and the second the deviation, by a sign or by words."""
    before, between = _called(one, other, text)
    by_words = _MEAN.search(before) and not _DEVIATION.search(before) and _DEVIATION.search(between)
    return bool(_PLUS_MINUS.search(between) or by_words)


def _are_turned(one: _Printed, other: _Printed, text: str) -> bool:
    """Whether the first of two numbers is called the deviation, and the second the mean."""
    before, between = _called(one, other, text)
    is_deviation = _DEVIATION.search(before) and not _MEAN.search(before)
    return bool(is_deviation and _MEAN.search(between) and not _DEVIATION.search(between))


def _called(one: _Printed, other: _Printed, text: str) -> tuple[str, str]:
    """What stands before the first of two numbers, in its line, and between the two."""
    before = _BEGINNING.split(text[max(0, one.place - 80) : one.place])[-1]
    return before, text[one.place : min(other.place, one.place + 160)]


def _reading(mean: _Printed, std: _Printed) -> Reading:
    # A unit behind both is that of both: "(31.2 +- 0.4) ms".
    seconds, std_seconds = (_SECONDS.get(unit, 1.0) for unit in (mean.unit or std.unit, std.unit))
    digit, std_digit = mean.digit * seconds, std.digit * std_seconds
    # Beside a mean in full precision 0.0 is no rounded number.
    is_exact = std.value == 0 and digit <= FULL_PRECISION
    return Reading(mean.value * seconds, std.value * std_seconds, digit, 0.0 if is_exact else std_digit)
