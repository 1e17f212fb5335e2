"""Whether the ranks hold the weights, gradients and buffers that they should, and the same as one another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from lockstep.compare import difference
from lockstep.sandbox.outcome import RankOutcome
from lockstep.wire import Array

Problem = TypeVar("Problem")

# float32 sums in another order differ by about 1e-7 of their size; the mistakes differ by 1e-3 and more.
CLOSE = {"rtol": 2e-4, "atol": 5e-6}
# The coarser of both kinds, bfloat16, keeps 8 bits of a number.
IN_SIXTEEN_BITS = {"rtol": 2**-8, "atol": 1e-6}


def differing(
    ranks: Sequence[RankOutcome],
    prefix: str,
    wanted: dict[str, Array],
    what: str,
    *,
    rtol: float = CLOSE["rtol"],
    atol: float = CLOSE["atol"],
) -> tuple[int, str] | None:
    """The first rank and value that is not as wanted: missing, of another shape, not finite, or different."""
    for number_of_rank, rank in enumerate(ranks):
        for name, value in wanted.items():
            seen = rank.arrays.get(f"{prefix}/{name}")
            problem = difference(seen, value, rtol=rtol, atol=atol, what=f"{what} {name}")
            if problem is not None:
                return number_of_rank, problem
    return None


def has_gradients(ranks: Sequence[RankOutcome]) -> bool:
    """Whether an optimizer saw a gradient of any parameter in a step that was looked at."""
    return any(name.startswith("grad") for rank in ranks for name in rank.arrays)


def first_unless_any(found: Iterable[Problem | None]) -> Problem | None:
    """The first of these problems; none where one of them is none. What comes behind that one is never asked for."""
    first = None
    for problem in found:
        if problem is None:
            return None
        first = first or problem
    return first


def unlike(ranks: Sequence[RankOutcome], prefix: str) -> str | None:
    """A value that some rank holds differently from rank 0, in words."""
    first = {name: value for name, value in ranks[0].arrays.items() if name.startswith(f"{prefix}/")}
    for number_of_rank, rank in enumerate(ranks[1:], 1):
        for name, value in first.items():
            problem = difference(
                rank.arrays.get(name), value, rtol=1e-6, atol=1e-7, what=name.partition("/")[2]
            )
            if problem is not None:
                return f"between rank 0 and rank {number_of_rank}, {problem}"
    return None
