"""What `train` makes of a model's gradients and weights from step to step, by the backward passes that were seen."""

from __future__ import annotations

import numpy as np

from lockstep.check import Check
from lockstep.sandbox.outcome import RankOutcome
from lockstep.wire import Array

# Of the gradient in the first epoch: what has learned all there was has none left, and may well stand still.
STILL_STEEP = 0.05


def clear_gradients(check: Check, seen: RankOutcome) -> None:
    """After a step no gradient of an earlier batch may be added to."""
    passes = _passes(check, seen)
    if passes is None:
        return
    bias, _, before = passes
    stepped = np.any(bias[1:] != bias[:-1], axis=1)
    kept = np.any(before[1:] != 0, axis=1)
    late = np.flatnonzero(stepped & kept)
    check.expect(
        len(late) == 0,
        f"train: {len(late)} of {int(stepped.sum())} steps were made with the gradients of earlier batches still in "
        f"them, first at batch {int(late[0]) + 2 if len(late) else 0}.",
        "backward() adds to what is in .grad: call optimizer.zero_grad() for every step.",
    )


def go_on(check: Check, seen: RankOutcome, n_batches: int) -> None:
    """After an epoch, of so many batches, there are steps that change the weights, as long as there is a gradient.

    A schedule may take the rate to 0 in the last epoch, or in all but the first; none is at its end before that.
    """
    passes, sums = _passes(check, seen), seen.arrays.get("sums")
    if passes is None or sums is None or sums.shape != (len(passes[0]),):
        return
    _, fresh, before = passes
    changed = np.flatnonzero(sums[1:] != sums[:-1])
    last = int(changed[-1]) + 1 if len(changed) else 0
    steepness = np.abs(fresh).max(axis=1)
    check.expect(
        not 0 < last < n_batches < len(sums) // 2
        # Who adds up batches for a step has something in .grad when the next batch comes.
        or np.any(before[last:] != 0)
        or not np.mean(steepness[n_batches:]) > STILL_STEEP * np.mean(steepness[:n_batches]),
        f"train ran {len(sums)} batches forward and backward, {n_batches} in each epoch, and none of them changed a "
        f"weight after batch {last}: what came later taught it nothing.",
        "Is the learning rate 0 by then? A scheduler that counts epochs steps once an epoch, behind the loop over the "
        "batches; one that steps after each batch has to be planned for epochs * len(loader) steps.",
        points=check.points / 2,
    )


def _passes(check: Check, seen: RankOutcome) -> tuple[Array, Array, Array] | None:
    """At each backward pass: the last bias, its gradient of this pass, and what that was added to.

    None where the training was done on a copy of the model, or without backward passes: what it learned was seen.
    """
    bias, fresh, before = (seen.arrays.get(name) for name in ("bias", "fresh", "before"))
    if bias is None or fresh is None or before is None:
        return None
    if not bias.shape == fresh.shape == before.shape or bias.ndim != 2 or bias.shape[1] != 10:
        check.fail(
            "What train did to the gradients of the model cannot be told.", "Train the model as it is."
        )
    return bias, fresh, before
