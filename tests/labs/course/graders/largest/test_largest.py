"""The judge of a course that lies outside of lockstep's checkout."""

from lockstep.check import Check
from lockstep.compare import close


def test_is_largest(check: Check) -> None:
    """`largest(values)` is the largest value of a tensor."""
    values = check.rng.normal(size=20) - 10
    seen = check.run("largest", arrays={"values": values}).ranks[0].values.get("largest")
    check.expect(
        close(seen, float(values.max())),
        "Of 20 negative values `largest` gave another.",
        "Begin with the first value, not with 0.",
    )
