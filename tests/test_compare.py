"""Comparisons: what cannot be compared counts as wrong, and says why."""

from __future__ import annotations

import numpy as np
import pytest

from lockstep.compare import close, difference, integer, number, shown
from lockstep.wire import Array, Json

EXPECTED = np.linspace(-2, 3, 6, dtype=np.float32).reshape(2, 3)


def changed(index: tuple[int, int], value: float) -> Array:
    other = EXPECTED.copy()
    other[index] = value
    return other


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (EXPECTED.copy(), None),
        (EXPECTED * np.float32(1 + 1e-7), None),
        (None, "is missing"),
        (EXPECTED.astype(np.float64), "dtype float64, expected float32"),
        (EXPECTED.T.copy(), "shape 3x2, expected 2x3"),
        (EXPECTED[:1], "shape 1x3"),
        (changed((0, 0), np.nan), "NaN or infinity in 1 of 6"),
        (changed((1, 2), np.inf), "NaN or infinity in 1 of 6"),
        (changed((1, 1), 9.0), "differs by up to 7 in 1 of 6"),
        (EXPECTED * np.float32(1.001), "differs by up to"),
        (EXPECTED[::-1].copy(), "differs by up to"),
        (np.zeros((0,), np.float32), "shape 0"),
    ],
)
def test_difference(seen: Array | None, words: str | None) -> None:
    problem = difference(seen, EXPECTED, what="the answer")
    assert problem is None if words is None else problem is not None and words in problem


def test_no_expected_value_is_told() -> None:
    problem = difference(np.zeros(3, np.float32), np.array([123.25, 4.5, 6.75], np.float32))
    assert problem is not None
    assert "4.5" not in problem
    assert "6.75" not in problem


def test_whole_numbers_have_no_tolerance() -> None:
    assert difference(np.array([10**9 + 1]), np.array([10**9])) is not None
    assert difference(np.array([True]), np.array([True])) is None


@pytest.mark.parametrize("value", [True, "1", None, [1], {"type": "NaN"}])
def test_forged_values_are_no_numbers(value: Json) -> None:
    assert number(value) is None
    assert integer(value) is None
    assert not close(value, 1.0)
    assert shown(value)


def test_integers_are_exact() -> None:
    assert integer(3) == 3
    assert integer(3.0) is None
    assert close(3, 3.0)
