"""The grader of exercise 5, batches of two processes: halves of what they were told, and other sizes."""

from __future__ import annotations

import pytest

from graders.lightning_train.test_lightning_ranks import is_divided
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.wire import Json


def of(*sizes: Json) -> Outcome:
    return Outcome(tuple(RankOutcome(True, {"sizes": {"train": each}}) for each in sizes), elapsed=1.0)


def test_halves_on_both_are_divided() -> None:
    assert is_divided(of([4, 4, 3], [4, 4, 3]))


@pytest.mark.parametrize(
    "sizes", [([8, 7], [8, 7]), ([4], [8]), ([64], [64]), ([], []), ("4", None), ([2], [2])]
)
def test_other_sizes_are_not(sizes: tuple[Json, Json]) -> None:
    assert not is_divided(of(*sizes))
