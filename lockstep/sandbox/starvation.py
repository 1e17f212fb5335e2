"""How long a run waited for a processor while others had them: on a busy machine its clock must not count that.

Source: /proc/PID/task/TID/schedstat, nanoseconds on a processor and nanoseconds ready to run (the kernel's
scheduler/sched-stats.rst). A kernel without it says nothing, and then nothing was waited for.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from lockstep.sandbox.processes import members


def kept_waiting(pid: int, elapsed: float) -> float:
    """Seconds of the last `elapsed` that a process and its descendants waited while others had the processors.

    What they took from each other is not counted: a run that has all processors was not kept waiting.
    """
    ran, waited = _threads(pid)
    others = len(os.sched_getaffinity(0)) * elapsed - ran
    return max(0.0, min(waited, others))


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
