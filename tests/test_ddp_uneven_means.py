"""Exercise 4, the mean loss of uneven shares: a mean of means is told where it is one, and differs."""

from __future__ import annotations

import numpy as np
import pytest

from graders.ddp_train.uneven_means import first_loss, is_mean_of_means
from lockstep.wire import Json

UNEVEN = [np.array([1.0, 2.0, 3.0]), np.array([4.0, 6.0])]  # means 2 and 5: 3.5; over items 3.2
PADDED = [np.array([1.0, 2.0, 3.0]), np.array([4.0, 6.0, 1.0])]


@pytest.mark.parametrize(
    ("returned", "is_it"),
    [
        ([3.5, 3.5], True),
        ([3.2, 3.2], False),
        ([2.0, 5.0], False),  # each rank's own
        ([3.5, 3.2], False),
        ([3.51, 3.51], False),
        ([None, None], False),
        (["3.5", "3.5"], False),
    ],
)
def test_a_mean_of_means_is_told(returned: list[Json], is_it: bool) -> None:
    assert is_mean_of_means(returned, UNEVEN, 5) == is_it


def test_shares_that_are_filled_up_or_even_are_not_asked() -> None:
    mean = float(np.concatenate(PADDED).mean())
    for returned in (mean, 16 / 5, 17 / 5, 3.2, 3.5):
        assert not is_mean_of_means([returned] * 2, PADDED, 5)
        assert not is_mean_of_means([returned] * 2, PADDED, 6)


def test_means_that_are_the_same_by_chance_are_right() -> None:
    assert not is_mean_of_means([2.0, 2.0], [np.array([1.0, 2.0, 3.0]), np.array([2.0])], 4)
    assert not is_mean_of_means([2.0, 2.0], [np.array([1.0, 2.0, 3.0]), np.array([])], 3)


def test_the_first_epoch_is_looked_at() -> None:
    assert first_loss([1.5, 2.5]) == 1.5
    for none in ([], None, {}, 1.5):
        assert first_loss(none) is None
