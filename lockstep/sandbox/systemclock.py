"""Whether the system's clock went on evenly: what time.time() tells from it is wrong where it did not.

A time server sets it, a virtual machine or a laptop that wakes up finds it behind, a leap second is put in. What
student code timed with it while that happened is wrong, and nobody's fault. time.monotonic() is never set, and stands
still while the machine sleeps; a time server that makes the one faster or slower for a while does so with both
(clock_gettime(2)).
"""

from __future__ import annotations

import time

# Time servers set a clock that is off by a tenth of a second and more; the rest they make up for little by little. A
# machine that is emulated may tell the two clocks apart by some microseconds more or less from one look to the next.
LEAST_SECONDS = 0.01
# Whoever looks may have to wait for a processor between two clocks; not every time.
LOOKS = 5


class SystemClock:
    """Looks at the system's clock when it is made."""

    def __init__(self) -> None:
        self._least, self._most = _ahead()

    def was_set(self) -> bool:
        """Whether it was set since then, or the machine slept."""
        least, most = _ahead()
        return least > self._most + LEAST_SECONDS or most < self._least - LEAST_SECONDS


def _ahead() -> tuple[float, float]:
    """How many seconds time.time() is ahead of time.monotonic(), at least and at most: the closest of some looks."""
    looks = []
    for _ in range(LOOKS):
        before, now, after = time.monotonic(), time.time(), time.monotonic()
        looks.append((now - after, now - before))
    return min(looks, key=lambda look: look[1] - look[0])
