"""What the clock behind some readings could tell apart, and how often two of its readings are equal by chance.

The digits of a reading say little by themselves: `repr` prints sixteen of a clock that ticks 64 times a second,
and `round` cuts off what a good clock had to say. Rules that take equal or evenly spaced readings for a sign ask
here first how likely that was.
"""

from __future__ import annotations

import math
import statistics
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lockstep.reports.document import Number

WINDOWS_TICK_S = 1 / 64
"""time.time() and, up to Python 3.12, time.monotonic() on Windows (GetSystemTimeAsFileTime, GetTickCount64)."""
MILLISECOND_S = 1e-3
COUNTERS_S = (
    1.024e-6,  # CUDA events of many GPUs, which other clocks are named for
    1 / 3.579545e6,  # Linux's clock source acpi_pm (ACPI specification, Power Management Timer)
    1e-7,  # Windows (QueryPerformanceFrequency: 10 MHz), and Linux on Hyper-V
    1 / 14.31818e6,  # Linux's clock source hpet, the usual rate
    1 / 19.2e6,  # Arm's generic timer, whose rate each maker chooses: Qualcomm,
    1 / 24e6,  # Apple (mach_timebase_info: 125/3 ns),
    1 / 25e6,  # Ampere,
    1 / 31.25e6,  # NVIDIA, and what the events of its newer GPUs are counted in,
    1 / 50e6,
    1 / 54e6,  # Broadcom,
    1e-8,
)
"""Ticks behind time.perf_counter() that are longer than the nanoseconds it tells."""
ROUNDED_S = (1e-4, 1e-5, 1e-6)
"""Rounded in milliseconds and then divided, readings have digits behind those that they were rounded to."""
LEAST_S = 1e-9
"""time.perf_counter() counts whole nanoseconds everywhere; digits below are what floats make of them."""
CUDA_EVENT_S = 1e-6
"""cudaEventElapsedTime: "a resolution of around 0.5 microseconds" (CUDA Runtime API)."""
SAME_DIGITS = 9
"""Readings that agree in so many digits are the same reading, whatever noise is printed behind them."""

_MOST_S = 1e9
# The floats of time.time() are 2.4e-7 apart, and a reading is a difference of two.
_TIME_NOISE_S = 1e-6
# Both readings are whole nanoseconds, and floats that may be 2e-10 apart.
_COUNTER_NOISE_S = 1.3e-9


@dataclass(frozen=True)
class Tick:
    """The longest tick that is possible, in seconds; `seen` where there were readings enough to speak against it."""

    seconds: float
    seen: bool


def sensible(numbers: Iterable[Number]) -> list[Number]:
    """The readings that can be durations at all; a rule on the form tells the others."""
    return [number for number in numbers if LEAST_S <= number.value < _MOST_S]


def resolution(numbers: Iterable[Number], clock: str = "") -> float:
    """The smallest difference in seconds that the clock behind the readings can have shown; at least a nanosecond.

    The largest of: the last place that any reading prints, the spacing of the floats they are (float32, or
    differences of time.time(), which are multiples of 2**-22 s), and a known clock's tick that divides them all.
    """
    readings = sensible(numbers)
    if not readings:
        return 1.0
    values = [number.value for number in readings]
    found = max(LEAST_S, min(number.ulp for number in readings), _float_spacing(values))
    if clock == "cuda_event" or _are_float32_milliseconds(values):
        # `elapsed_time` gives a float32, whichever clock the report names.
        found = max(found, CUDA_EVENT_S, 2.0**-23 * max(values))
    return max(found, _tick(values))


def _float_spacing(values: Sequence[float]) -> float:
    return 1 / max(value.as_integer_ratio()[1] for value in values)


def _are_float32_milliseconds(values: Sequence[float]) -> bool:
    """Whether all readings are a float32 divided by 1000; of other floats one in 2**29 is."""
    return all(
        abs(struct.unpack("f", struct.pack("f", 1e3 * value))[0] - 1e3 * value) <= 1e-15 * 1e3 * value
        for value in values
    )


def _tick(values: Sequence[float]) -> float:
    whole_milliseconds = _multiples(values, MILLISECOND_S, _TIME_NOISE_S)
    if _multiples(values, WINDOWS_TICK_S, _TIME_NOISE_S):
        return WINDOWS_TICK_S
    # GetTickCount64 gives the tick's whole milliseconds; one or two readings may look so by chance.
    if whole_milliseconds and len(values) >= 8 and _multiples(values, WINDOWS_TICK_S, 1.001 * MILLISECOND_S):
        return WINDOWS_TICK_S
    if whole_milliseconds:
        return MILLISECOND_S
    return next(
        (tick for tick in (*ROUNDED_S, *COUNTERS_S) if _multiples(values, tick, _COUNTER_NOISE_S)), LEAST_S
    )


def _multiples(values: Sequence[float], tick: float, noise: float) -> bool:
    return all(abs(value - tick * round(value / tick)) < noise for value in values)


def key(value: float) -> float:
    """Equal for readings that are the same, in as many digits as anybody measures."""
    return float(f"{value:.{SAME_DIGITS - 1}e}")


def ticks_in(value: float, tick: float) -> float:
    """How many different readings up to `value` the clock has; no more than are told apart."""
    return value / max(tick, 10.0 ** (math.floor(math.log10(value)) - SAME_DIGITS + 1))


def relative_spread(values: Sequence[float]) -> float:
    """How widely readings scatter around their median, over it; a single slow run does not widen it.

    The range of five readings from a normal distribution, or less.
    """
    middle = statistics.median(values)
    usual = 4 * statistics.median(abs(value - middle) for value in values)
    return min(usual, max(values) - min(values)) / middle


def equal_by_chance(values: Iterable[float], tick: float, *, steady: bool = True) -> float:
    """How many equal pairs to expect among honest readings as dense as these; equal ones themselves do not count.

    Taken from the pairs that lie near each other, in the surroundings where they are densest: as many of them as a
    tick is of those surroundings would be equal. In the narrowest lie all readings of the steadiest machines,
    and now and then two of others: where they cannot be `steady`, they are left out.
    """
    ordered = sorted(values)
    narrow = (2, 5, 15) if steady else ()
    reaches = (*narrow, 50, 500, 5_000, 50_000, 500_000, 5_000_000)
    return max(_expected(ordered, tick, reach) for reach in reaches)


def repeats_by_chance(numbers: Sequence[Number], tick: float, *, steady: bool = True) -> float:
    """The same of readings as they were printed, each as coarse as those of its size: six digits of 2 ms are 10 ns."""
    by_size: dict[int, list[float]] = {}
    for number in numbers:
        by_size.setdefault(size(number.value), []).append(number.value)
    finest = finest_of_size(numbers)
    return sum(
        equal_by_chance(alike, max(tick, finest[each]), steady=steady) for each, alike in by_size.items()
    )


def size(value: float) -> int:
    """Equal for readings of the same power of two."""
    return math.frexp(value)[1]


def finest_of_size(numbers: Iterable[Number]) -> dict[int, float]:
    """The last place in seconds that readings of a size have, by what is printed or by what floats can hold."""
    by_size: dict[int, list[Number]] = {}
    for number in numbers:
        by_size.setdefault(size(number.value), []).append(number)
    return {
        each: max(min(number.ulp for number in alike), _float_spacing([number.value for number in alike]))
        for each, alike in by_size.items()
    }


def _expected(ordered: Sequence[float], tick: float, reach: int) -> float:
    near, above, beyond = 0, 0, 0
    for value in ordered:
        step = value / ticks_in(value, tick)
        while above < len(ordered) and ordered[above] <= value + step / 2:
            above += 1
        beyond = max(beyond, above)
        while beyond < len(ordered) and ordered[beyond] <= value + step * reach:
            beyond += 1
        near += beyond - above
    return near / (2 * reach)


def fit_by_chance(
    close: float, spread: float, count: int, *, constants: int = 1, in_any_order: bool = False
) -> float:
    """How likely `count` readings that scatter by `spread` are to be those of another series times one factor.

    Each to within `close`, of which half lies on either side; both relative. `constants` were chosen so that they fit,
    the factor alone or more. `in_any_order` says that the readings may have been moved about: whoever does so has as
    many orders to choose from.
    """
    if close >= spread:
        return 1.0
    orders = math.lgamma(count + 1) if in_any_order else 0.0
    # In logarithms: of 171 readings the orders are more than a float can be, and the rest is less.
    return math.exp(min(0.0, (count - constants) * math.log(close / spread) + orders))


def at_least(count: int, expected: float) -> float:
    """The probability of `count` or more where `expected` are expected and each comes alone (Poisson)."""
    if count <= 0 or count <= expected:
        return 1.0
    if expected <= 0:
        return 0.0
    term = math.exp(count * math.log(expected) - expected - math.lgamma(count + 1))
    total, number = 0.0, count
    while term > total * 1e-12 and term > 0:
        total += term
        number += 1
        term *= expected / number
    return min(1.0, total)
