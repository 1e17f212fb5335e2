"""What an accuracy comes to when it is counted in one way or another, by which items were right."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from lockstep.wire import Array

Orders = Sequence[Sequence[int]]
"""The items that each rank's loader gives, in order."""

ATTEMPTS = 100
# Further apart than what an accuracy may be off.
APART = 1e-4


def shares(n: int, world: int) -> Orders:
    """What DistributedSampler gives each rank of `n` items without shuffling: the first ones fill the shares up."""
    padded = [item % n for item in range(-(-n // world) * world)]
    return [padded[rank::world] for rank in range(world)]


def mean_over_items(orders: Orders, right: Array) -> float:
    """The share of right answers where what fills up the shares counts as well."""
    return float(np.mean(right[[item for order in orders for item in order]]))


def means_over_batches(orders: Orders, right: Array, batch_size: int) -> tuple[float, float]:
    """The mean over all batches of the share of right answers: with what fills up the shares, and without."""
    steps = [item for step in itertools.zip_longest(*orders) for item in step]
    first = {item: place for place, item in reversed(list(enumerate(steps)))}
    own = [
        [item for step, item in enumerate(order) if first[item] == step * len(orders) + rank]
        for rank, order in enumerate(orders)
    ]
    return _mean_over_batches(orders, right, batch_size), _mean_over_batches(own, right, batch_size)


def means_of_ranks(orders: Orders, right: Array) -> list[float]:
    """The share of right answers of each rank's own items, and where what fills up the shares counts as well."""
    n, world = len(right), len(orders)
    own = [order[: len(range(rank, n, world))] for rank, order in enumerate(orders)]
    return [float(right[list(share)].mean()) for share in (*orders, *own) if share]


def cut_at_the_end(orders: Orders, right: Array) -> float:
    """The share of right answers in what all ranks have, one behind the other, cut off at the number of items.

    The sampler fills up several shares, so that this leaves items of the last one out and counts others twice.
    """
    return float(np.mean(right[[item for order in orders for item in order][: len(right)]]))


def _mean_over_batches(orders: Orders, right: Array, batch_size: int) -> float:
    batches = [order[at : at + batch_size] for order in orders for at in range(0, len(order), batch_size)]
    return float(np.mean([right[list(batch)].mean() for batch in batches]))


def telling(draw: Callable[[], Array], world: int, batch_size: int) -> Array:
    """Which items are right, drawn so that a mean over batches is by chance no other mean, nor what is cut at the end.

    Raises RuntimeError where `draw` gives no such thing.
    """
    for _ in range(ATTEMPTS):
        right = draw()
        orders = shares(len(right), world)
        padded, own = means_over_batches(orders, right, batch_size)
        others = [(padded, right.mean()), (own, right.mean()), (own, mean_over_items(orders, right))]
        if sum(map(len, orders)) > len(right) + 1:  # one repeated item is the very last
            others.append((cut_at_the_end(orders, right), right.mean()))
        if all(abs(mean - other) > APART for mean, other in others):
            return right
    raise RuntimeError(f"no draw of {len(right)} items tells a mean over batches from others")
