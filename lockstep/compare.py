"""Compare an observed array with the expected one, so that NaN, shape, dtype and absence fail by name."""

from __future__ import annotations

import json
import re

import numpy as np

from lockstep.wire import Array, Json


def difference(
    seen: Array | None, expected: Array, *, rtol: float = 1e-5, atol: float = 1e-6, what: str = "the result"
) -> str | None:
    """How `seen` differs from `expected`, as a sentence; None when it does not.

    An element agrees when |seen - expected| <= atol + rtol * |expected|. The sentence never holds an
    expected value: a student could copy it.
    """
    if seen is None:
        return f"{what} is missing or is not a plain CPU tensor"
    if seen.dtype != expected.dtype:
        return f"{what} has dtype {seen.dtype}, expected {expected.dtype}"
    if seen.shape != expected.shape:
        return f"{what} has shape {_shape(seen)}, expected {_shape(expected)}"
    if seen.size == 0:
        return None
    if not np.issubdtype(expected.dtype, np.floating):
        wrong = int(np.count_nonzero(seen != expected))
        return None if wrong == 0 else f"{what} differs in {wrong} of {seen.size} values"
    seen64, expected64 = seen.astype(np.float64), expected.astype(np.float64)
    bad = int(np.count_nonzero(~np.isfinite(seen64)))
    if bad:
        return f"{what} holds NaN or infinity in {bad} of {seen.size} values"
    distance = np.abs(seen64 - expected64)
    # Written as "not within", so that anything incomparable counts as wrong.
    outside = ~(distance <= atol + rtol * np.abs(expected64))
    wrong = int(np.count_nonzero(outside))
    if wrong == 0:
        return None
    return f"{what} differs by up to {distance.max():.3g} in {wrong} of {seen.size} values"


def _shape(array: Array) -> str:
    return "x".join(str(size) for size in array.shape) or "of a scalar"


def number(value: Json) -> float | None:
    """A JSON value as a number; None for anything else, a bool among it."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def integer(value: Json) -> int | None:
    """A JSON value as an int; None for anything else, a bool among it."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def elements(value: Json) -> list[Json]:
    """Those of a JSON list; none where it is no list."""
    return value if isinstance(value, list) else []


def is_cpu(device: Json) -> bool:
    """Whether a device, by its name, is the CPU: it may have a number, which says nothing."""
    return isinstance(device, str) and re.fullmatch(r"cpu(:\d+)?", device) is not None


def shown(value: Json) -> str:
    """A student's value for a message: numbers and short strings as they are, other things by their kind."""
    if isinstance(value, dict):
        kind = value.get("type")
        return kind[:80] if isinstance(kind, str) else "something else"
    if isinstance(value, str):
        return json.dumps(value[:40])
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return str(value)[:40]


def close(seen: Json, expected: float, *, rtol: float = 1e-5, atol: float = 1e-6) -> bool:
    """Whether a JSON value is a number that agrees with `expected`."""
    value = number(seen)
    return value is not None and bool(abs(value - expected) <= atol + rtol * abs(expected))
