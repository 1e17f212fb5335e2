"""The judge of an exercise that takes next to no computing."""

import numpy as np

from lockstep.check import Check
from lockstep.compare import difference


def test_doubles(check: Check) -> None:
    """`double(x)` is twice x."""
    _expect(check, "double", 2.0)


def test_halves(check: Check) -> None:
    """`half(x)` is half of x."""
    _expect(check, "half", 0.5)


def _expect(check: Check, function: str, factor: float) -> None:
    x = check.rng.standard_normal(5).astype(np.float32)
    seen = check.run("call", values={"function": function}, arrays={"x": x}).ranks[0]
    problem = difference(seen.arrays.get("y"), factor * x, what=f"{function}(x)")
    check.expect(problem is None, f"{problem}.", "Multiply.", points=0.5)
