"""What some work costs, against a piece of plain Python that the same slow or busy processor did beside it."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def costs_at_most(yardsticks: float) -> Iterator[None]:
    """Assert that what is done inside takes no more processor time than so many yardsticks, each some 50 ms."""
    before = _yardstick()
    # To go through what thousands of tests before this one have left takes longer than most of what is measured here.
    gc.disable()
    try:
        started = time.process_time()
        yield
        taken = time.process_time() - started
    finally:
        gc.enable()
    # A processor that slows down midway slowed down the work as well.
    assert taken <= yardsticks * max(before, _yardstick())


def _yardstick() -> float:
    """Processor seconds of a fixed number of dictionary look-ups, additions and small strings."""
    started = time.process_time()
    seen: dict[str, int] = {}
    for number in range(200_000):
        key = str(number % 1000)
        seen[key] = seen.get(key, 0) + number
    return time.process_time() - started
