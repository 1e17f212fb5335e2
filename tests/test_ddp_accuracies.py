"""Exercise 4, accuracies: a wrong way to count is never right by chance, whatever is drawn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils.data import DistributedSampler, TensorDataset

from graders.ddp_train.accuracies import (
    cut_at_the_end,
    mean_over_items,
    means_of_ranks,
    means_over_batches,
    shares,
    telling,
)

BATCH = 4


@pytest.mark.parametrize(("n", "world"), [(14, 2), (15, 2), (22, 3), (23, 3), (3, 4), (131, 3)])
def test_shares_are_those_of_torch(n: int, world: int) -> None:
    data = TensorDataset(torch.zeros(n))
    samplers = [DistributedSampler(data, world, rank, shuffle=False) for rank in range(world)]
    assert [list(sampler) for sampler in samplers] == list(map(list, shares(n, world)))


def test_means_by_hand() -> None:
    right = np.array([1, 1, 1, 1, 0, 0, 0, 1, 1, 0, 0], dtype=bool)
    orders = shares(11, 2)
    assert orders == [[0, 2, 4, 6, 8, 10], [1, 3, 5, 7, 9, 0]]
    assert mean_over_items(orders, right) == 7 / 12
    padded, own = means_over_batches(orders, right, BATCH)
    assert padded == pytest.approx((2 / 4 + 1 / 2 + 3 / 4 + 1 / 2) / 4)
    assert means_of_ranks(orders, right) == [3 / 6, 4 / 6, 3 / 6, 3 / 5]
    assert own == pytest.approx((2 / 4 + 1 / 2 + 3 / 4 + 0 / 1) / 4)
    assert cut_at_the_end(orders, right) == 6 / 11


def test_shares_that_are_cut_at_the_end_by_hand() -> None:
    right = np.array([1, 0, 0, 1, 0, 1, 0], dtype=bool)
    assert shares(7, 3) == [[0, 3, 6], [1, 4, 0], [2, 5, 1]]
    assert cut_at_the_end(shares(7, 3), right) == 3 / 7  # item 0 twice, item 5 not at all
    right[5] = False
    assert cut_at_the_end(shares(7, 3), right) == 3 / 7 != right.mean()


@pytest.mark.parametrize("world", [2, 3, 4, 8])
def test_what_is_drawn_tells_a_mean_over_batches(world: int) -> None:
    for seed in range(50):
        rng = np.random.default_rng(seed)
        n = world * 7 + int(rng.integers(0, world))
        right = telling(lambda rng=rng, n=n: rng.random(n) < 0.5, world, BATCH)
        assert all(
            abs(mean - right.mean()) > 1e-4 for mean in means_over_batches(shares(n, world), right, BATCH)
        )


@pytest.mark.parametrize(("n", "world"), [(22, 3), (29, 4), (30, 4), (57, 8), (62, 8)])
def test_what_is_drawn_tells_shares_that_are_cut_at_the_end(n: int, world: int) -> None:
    for seed in range(50):
        rng = np.random.default_rng(seed)
        right = telling(lambda rng=rng, n=n: rng.random(n) < 0.5, world, BATCH)
        assert abs(cut_at_the_end(shares(n, world), right) - right.mean()) > 1e-4


def test_what_can_tell_nothing_is_said() -> None:
    with pytest.raises(RuntimeError, match="8 items"):
        telling(lambda: np.ones(8, dtype=bool), 2, BATCH)
