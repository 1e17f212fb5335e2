"""The judge of lockstep's own test lab."""

import numpy as np

from lockstep.check import Check, Inputs
from lockstep.compare import close, difference


def test_doubles(check: Check) -> None:
    """`double(x)` is twice x."""
    x = check.rng.standard_normal(5).astype(np.float32)
    seen = check.run("double", arrays={"x": x}).ranks[0]
    problem = difference(seen.arrays.get("y"), 2 * x, what="double(x)")
    check.expect(problem is None, f"{problem}.", "Multiply by two.", points=1.0)


def test_adds_up(check: Check) -> None:
    """`add_up(x)` is the sum over the ranks."""
    numbers = check.rng.integers(1, 1000, 2)
    outcome = check.run("add_up", ranks=2, per_rank=[Inputs(arrays={"x": np.array([n])}) for n in numbers])
    for rank in outcome.ranks:
        check.expect(close(rank.values.get("total"), float(numbers.sum())), "The sum is wrong.", "all_reduce")


def test_draws(check: Check) -> None:
    """What the seed draws is told, so that a test can compare two gradings."""
    drawn = int(check.rng.integers(1 << 30))
    seen = check.run("draw", values={"drawn": drawn}).ranks[0]
    check.note(f"drawn {seen.values.get('drawn')}")
