"""The readings of a report by configuration, with the resolution of the clock that took them.

For the rules on what made-up readings look like (lockstep.reports.fabrication), and for what those say of readings.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lockstep.reports.document import Group, Number, Report
from lockstep.reports.resolution import Tick, key, resolution, sensible, ticks_in
from lockstep.text import safe_line

CHANCE = 1e-3
"""What looks odd is told only if among this many honest reports less than one would show it by chance."""
CHANCE_TO_FAIL = 1e-6
"""And costs points only from here on; a course has some thousand reports."""
BY_CHANCE = (
    f"told where fewer than {CHANCE:g} of honest reports show it by chance, given the clock's resolution"
)
"""What the rules that ask so say of their threshold."""
MAX_NAMED = 3


@dataclass(frozen=True)
class Series:
    """The readings of one configuration that can be durations, and the tick of their clock."""

    group: Group
    numbers: tuple[Number, ...]
    tick: float

    @property
    def values(self) -> list[float]:
        """The readings, in seconds."""
        return [number.value for number in self.numbers]

    @property
    def mean(self) -> float:
        """Their mean, in seconds."""
        return statistics.fmean(self.values)

    @property
    def relative_tick(self) -> float:
        """The clock's resolution over the mean."""
        return self.tick / self.mean

    @property
    def step(self) -> float:
        """The tick, but not below the digits in which readings are compared."""
        return self.mean / ticks_in(self.mean, self.tick)

    @property
    def range(self) -> float:
        """The longest less the shortest, in seconds."""
        return max(self.values) - min(self.values)

    @property
    def all_equal(self) -> bool:
        """Whether the readings are all the same, in the digits in which they are compared."""
        return len({key(value) for value in self.values}) == 1

    @property
    def deviation(self) -> float:
        """Standard deviation over mean."""
        return statistics.stdev(self.values) / self.mean


def all_series(report: Report, least: int = 1) -> list[Series]:
    """One for each configuration that has at least so many readings."""
    of_runs, of_steps = report_tick(report), step_tick(report)
    found = []
    for group in report.groups:
        numbers = tuple(sensible(run.wall for run in group.runs))
        if len(numbers) >= least:
            # The clock is one; a configuration may still be printed with fewer digits than the others, or be a sum
            # of steps, each of which was cut to the clock's tick.
            steps = max(len(run.step_seconds) for run in group.runs)
            own = max(of_runs, min(number.ulp for number in numbers), steps * of_steps)
            found.append(Series(group, numbers, own))
    return found


def report_tick(report: Report) -> float:
    """The resolution of the clock that read the runs, in seconds."""
    return resolution((run.wall for run in report.runs), clock(report))


def step_tick(report: Report) -> float:
    """The resolution of the clock that read the steps, in seconds."""
    return resolution((step for run in report.runs for step in run.step_seconds), clock(report))


def longest_step_tick(report: Report, least: float) -> Tick:
    """The longest tick that the clock behind the steps can have, to judge by them; not less than `least`."""
    return _longest_tick(
        [[step for run in group.runs for step in sensible(run.step_seconds)] for group in report.groups],
        least,
    )


def longest_wall_tick(report: Report, least: float) -> Tick:
    """The same for the runs, which may be sums of steps and tick as they do."""
    own = _longest_tick([sensible(run.wall for run in group.runs) for group in report.groups], least)
    if not any(run.step_seconds for run in report.runs):
        return own
    return max(own, longest_step_tick(report, least), key=lambda tick: tick.seconds)


def _longest_tick(groups: Sequence[Sequence[Number]], least: float) -> Tick:
    # Needs NumPy, which takes longer to import than most reports take to be looked through.
    from lockstep.reports.ticks import longest_tick

    return longest_tick(groups, least)


def clock(report: Report) -> str:
    """The clock that the report names; "" where it names none."""
    # The writer names perf_counter unless it is told otherwise; whoever has told it of events has read them.
    return "cuda_event" if report.method.get("sync") == "cuda_event" else str(report.method.get("clock", ""))


def named(series: Sequence[Series]) -> str:
    """The first configurations by name, and how many more there are."""
    names = [each.group.name for each in series[:MAX_NAMED]]
    more = len(series) - len(names)
    return "; ".join(names) + (f"; and {more} more" if more else "")


def texts(numbers: Iterable[Number], limit: int = 5) -> str:
    """The first readings as the report has them."""
    return ", ".join(safe_line(number.text, 24) for number in list(numbers)[:limit])


def seconds(value: float) -> str:
    """A time for a message, in three digits."""
    return f"{value:.3g} s"
