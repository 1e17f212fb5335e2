"""A stopwatch that stands still while the process that looks at it is stopped.

Ctrl-Z stops a grading, a cluster's scheduler suspends a job, `docker pause` a container, a host its virtual machine:
afterwards much time has passed in which nobody looked, and often nobody worked. It says nothing about student code.
"""

from __future__ import annotations

import time

# Who watches a run looks several times a second, on a machine with thirty busy processes for two cores as well.
MOST_SECONDS = 1.0


class Stopwatch:
    """Seconds since it was made, of which from one look to the next at most `most` count.

    A longer pause counts for `most` and not for nothing: student code that found a way to keep whoever looks from
    looking would else run for ever.
    """

    def __init__(self, most: float = MOST_SECONDS) -> None:
        """It starts; `most` has to be more than what whoever looks at it does between two looks."""
        self._most = most
        self._seconds = self._passed = 0.0
        self._last = time.monotonic()

    def seconds(self) -> float:
        """Look at it: seconds in which whoever looks was awake."""
        now = time.monotonic()
        pause, self._last = now - self._last, now
        self._passed += pause
        self._seconds += min(pause, self._most)
        return self._seconds

    @property
    def stood_still(self) -> float:
        """Seconds up to the last look that do not count."""
        return self._passed - self._seconds
