"""The mean loss over shares that are not equally long: that of the items, or that of the ranks' means."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lockstep.compare import close
from lockstep.wire import Array, Json


def first_loss(returned: Json) -> Json:
    """What train_one_epoch returned for the first of its epochs."""
    return returned[0] if isinstance(returned, list) and returned else None


def is_mean_of_means(returned: Sequence[Json], losses: Sequence[Array], n: int) -> bool:
    """Whether each rank returned the mean of the ranks' mean losses, over shares that differ in length.

    `losses` has those of the items that each rank was fed. Where shares are filled up, they are more than the `n` items
    that there are, and both means are the same. What is neither mean is for global_metrics to judge.
    """
    sizes = [len(own) for own in losses]
    if sum(sizes) != n or min(sizes) in (0, max(sizes)):
        return False
    of_means, over_items = (
        float(np.mean([own.mean() for own in losses])),
        float(np.concatenate(losses).mean()),
    )
    return not _are(returned, over_items) and _are(returned, of_means)


def _are(returned: Sequence[Json], wanted: float) -> bool:
    return all(close(value, wanted, rtol=1e-4) for value in returned)
