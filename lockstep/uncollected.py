"""No search for garbage where there can be none."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def nothing_collected() -> Iterator[None]:
    """Of a million new objects none is garbage; to look for some over and over takes as long as to make them."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def keep_for_good() -> None:
    """Leave what there is now, modules above all, out of all later searches.

    Measured: the end of a process with torch takes 1.1 s of CPU before and 0.4 s after. Only the first call in a
    process does it: what is garbage by then stays, and each of hundreds of gradings leaves some.
    """
    if gc.get_freeze_count() == 0:
        gc.freeze()
