"""Where lockstep itself fails at something that nothing else rests on: that is told, and all else is made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lockstep.text import safe_line


@contextmanager
def noted(failures: list[str], what: str) -> Iterator[None]:
    """Make something in the block; where that fails, add a sentence to `failures` and go on behind it."""
    try:
        yield
    except OSError as error:
        failures.append(f"the {what} could not be written: {error.filename}: {error.strerror}")
    except Exception as error:
        said = f"{type(error).__name__}: {safe_line(str(error))}"
        failures.append(f"lockstep itself failed to make the {what}: {said}")
