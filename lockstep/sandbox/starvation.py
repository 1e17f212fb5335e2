"""How long a run waited for a processor while others had them: on a busy machine its clock must not count that.

Sources: /proc/PID/task/TID/schedstat, nanoseconds on a processor and nanoseconds ready to run (the kernel's
scheduler/sched-stats.rst), and the first line of /proc/stat (proc(5)). A kernel without them says nothing, and then
nothing was waited for.
"""

from __future__ import annotations

import contextlib
import math
import os
from pathlib import Path

from lockstep.sandbox.processes import members
from lockstep.sandbox.stopwatch import Stopwatch

# Times its limit that something may take on a machine that is busy with others; beyond that nothing gets done there.
LONGEST = 4
_TICKS = os.sysconf("SC_CLK_TCK")
# What runs ask for it may have been replaced (lockstep.sandbox.shims).
_CORES = os.sysconf("SC_NPROCESSORS_ONLN")


def kept_waiting(pid: int, elapsed: float, others: float) -> float:
    """Seconds of the last `elapsed` that a process and its descendants waited while others had the processors.

    What they took from each other is not counted: a run that has all processors was not kept waiting, and one that
    crowds on a single one of them (`sched_setaffinity`) no longer than `others` worked in all.
    """
    ran, waited = _threads(pid)
    left = len(os.sched_getaffinity(0)) * elapsed - ran
    return max(0.0, min(waited, left, others))


def _threads(pid: int) -> tuple[float, float]:
    """Seconds that all threads of a process tree ran, and that they waited; those that have ended no longer count."""
    ran = waited = 0.0
    for member in members(pid):
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{member}/task"):
                with contextlib.suppress(OSError, ValueError):
                    on, ready, _ = Path(f"/proc/{member}/task/{thread}/schedstat").read_text().split()
                    ran, waited = ran + int(on) / 1e9, waited + int(ready) / 1e9
    return ran, waited


class Others:
    """What others than a run worked since this was made, as far as the machine tells."""

    def __init__(self) -> None:
        # A container may be shown a file that counts itself alone (lxcfs); its neighbours keep it waiting all the same.
        self._told = False
        with contextlib.suppress(OSError):
            self._told = os.stat("/proc/stat").st_dev == os.stat("/proc/self").st_dev
        self._before = _seconds_of_all()

    def seconds(self, own: float) -> float:
        """So many seconds at most, where the run itself worked `own`."""
        return _seconds_of_all() - self._before - own if self._told else math.inf


class Limit:
    """Seconds for something that consists of short processes: what they waited, nobody can say once they have ended.

    So the clock runs slower by the share of all processors that others have, but LONGEST times slower at most.
    """

    def __init__(self, seconds: float, own: int, stopwatch: Stopwatch | None = None) -> None:
        """The clock starts. `own` is the process below which all that works is not others: a run's supervisor.

        Who does not ask several times a second needs a `stopwatch` for that.
        """
        self.seconds = seconds
        self._own = own
        self._stopwatch = stopwatch or Stopwatch()
        self._before = _seconds_of_others(own)

    def is_reached(self) -> bool:
        """Whether the time is up."""
        elapsed = self._stopwatch.seconds()
        if elapsed < self.seconds:
            return False
        share = (_seconds_of_others(self._own) - self._before) / (elapsed * _CORES)
        return elapsed * (1 - share) >= self.seconds or elapsed >= LONGEST * self.seconds


def _seconds_of_others(own: int) -> float:
    """Seconds that all processors together worked for others than a process tree and those of it that have ended."""
    return _seconds_of_all() - seconds_of(own)


def _seconds_of_all() -> float:
    try:
        line = Path("/proc/stat").read_text().split("\n", 1)[0]
    except OSError:
        return 0.0
    user, nice, system, _, _, irq, softirq, steal = map(int, line.split()[1:9])
    return (user + nice + system + irq + softirq + steal) / _TICKS


def seconds_of(pid: int) -> float:
    """Seconds that a process and its descendants worked, and those of them that were waited for when they ended."""
    return _ticks(pid) / _TICKS


def _ticks(pid: int) -> int:
    """What a process and its descendants worked, and those of them that were waited for when they ended."""
    total = 0
    for member in members(pid):
        with contextlib.suppress(OSError, ValueError):
            # A process names itself, in parentheses and in any bytes.
            fields = Path(f"/proc/{member}/stat").read_bytes().rpartition(b")")[2].split()
            total += sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime of proc(5)
    return total
