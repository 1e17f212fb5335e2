"""Whether a training brings its loss down, and by gradients of its own.

Every epoch has the same batches, and draws the same numbers for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from lockstep.compare import elements, integer
from lockstep.sandbox.outcome import RankOutcome

FEW = 5  # steps, which say nothing yet
# Of the first epoch's loss, in each epoch after it. A learning rate of 1e-9 brings it down by half as much at the most;
# plain SGD with one of 1e-3 that takes a thousand steps to warm up, by nearly twice as much.
LEAST_FALL = 2e-5
AT_ONCE = 0.6  # of the first loss: the mean of an epoch that has learned much
MOST = 1.5  # times the first loss: more has blown up
LEAP = 3.0  # times the first loss, in its first epoch: more may have killed the network
# Of the first loss, in an epoch of a network that has leapt and lives. To one that is dead all classes are alike, which
# costs ln 10, as they are to one that has just been drawn.
ALIVE = 0.97
NOTHING_LEFT = 0.01  # of the first loss


def comes_down(losses: Sequence[float], epochs: int) -> bool:
    """Whether a later epoch has a lower mean loss than the first.

    The draws are the same, so that a network that stands still has the same loss again and one that goes downhill,
    however slowly, a lower one: no noise is to be allowed for. Where the loss leaps up in the first epoch, so does its
    mean, and a lower one says nothing: some epoch has to be clearly below the first loss then.
    """
    by_epoch = np.array(losses).reshape(epochs, -1)
    means = by_epoch.mean(axis=1)
    # Comparisons with NaN are false.
    if by_epoch[0].max() > LEAP * losses[0]:
        return bool(means.min() < ALIVE * losses[0])
    return any(
        mean < means[0] * (1 - LEAST_FALL * after) and mean < MOST * losses[0]
        for after, mean in enumerate(means[1:], 1)
    )


def falls_at_once(losses: Sequence[float], batches: int) -> bool:
    """Whether the first epoch, of so many batches, is on average far below its first loss.

    What has learned that much and blows up later has a large learning rate. What learns nothing stays near its first
    loss in every batch of usual size.
    """
    return len(losses) >= batches and bool(np.mean(losses[:batches]) < AT_ONCE * losses[0])


def piles_up(seen: RankOutcome) -> bool:
    """Whether a loop written by hand added to what every step had used, and never cleared it."""
    stayed = _stayed(seen)
    return len(stayed) > FEW and all(stayed) and seen.values.get("automatic") is not True


def share_left(seen: RankOutcome) -> tuple[int, int] | None:
    """In how many of Lightning's own steps what the step before had used was added to; None where in less than half.

    The last step of an epoch is none of them. Who adds up batches for one step, and clears behind it, leaves nothing.
    """
    stayed = _stayed(seen)
    left = sum(stayed)
    if left <= FEW or 2 * left < len(stayed) or seen.values.get("automatic") is not True:
        return None
    # What training_step itself clears, a check of its own is about, and the probe has kept from being cleared.
    return None if seen.values.get("manual") else (left, len(stayed))


def stands_still_after(seen: RankOutcome, losses: Sequence[float], batches: int) -> int | None:
    """The batch of the first epoch, of so many, after which no step of the training changed a weight; None: none is.

    Where next to no loss is left there is nothing more to learn. A schedule by epochs may end with the first, none does
    within it; but one may be planned by the length of a data set of their own.
    """
    sums = [one for one in elements(seen.values.get("sums")) if isinstance(one, str)]
    if seen.values.get("opened") is not False or len(sums) != len(losses) or len(losses) < 2 * batches:
        return None
    last = max((step for step, (one, other) in enumerate(pairwise(sums), 1) if one != other), default=0)
    is_left = np.mean(losses[batches:]) > NOTHING_LEFT * losses[0]
    return last if 0 < last < batches and bool(is_left) else None


def made_for_batches(seen: RankOutcome, steps: int, epochs: int) -> tuple[str, int] | None:
    """A schedule that was made for all steps of the training and made one an epoch: its class, and how many it made."""
    schedules = seen.values.get("stepped_by_epoch")
    for entry in elements(schedules):
        match entry:
            case [str() as name, length, made]:
                stepped = integer(made)
                # Who steps it by hand as well goes further.
                if integer(length) == steps and stepped is not None and stepped <= epochs < steps:
                    return name, stepped
    return None


def _stayed(seen: RankOutcome) -> list[bool]:
    stayed = seen.values.get("stayed")
    return [one is True for one in elements(stayed)]
