"""Label smoothing, as of CrossEntropyLoss(label_smoothing=0.1): how much of it a training step was made with.

A share of each label goes to all classes alike (Szegedy et al., Rethinking the Inception Architecture for Computer
Vision, section 7). Nobody asks for it and nobody forbids it. How large the share is, only what was seen tells; all else
that was seen has to follow from it then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from graders.lightning_train import expected
from graders.lightning_train.expected import Data
from graders.lightning_train.runs import train
from lockstep.check import Check
from lockstep.compare import difference
from lockstep.crossentropy import row_losses
from lockstep.sandbox.outcome import RankOutcome
from lockstep.verdict import CheckEnded
from lockstep.wire import Array

MOST = 0.3  # papers have 0.1
OFF = 0.01  # what an estimate may be off by


def is_usual(share: float) -> bool:
    """Whether it is as much as somebody may want."""
    return share <= MOST + OFF


def of_first_step(
    seen: RankOutcome, tensors: Mapping[int, Array], labels: Array, loss: float
) -> dict[int, float]:
    """The tensors of the first step that the loss and its gradient say it was computed from, with how much smoothing.

    That may be any share from 0, no smoothing, to 1: nothing but smoothing is left of the labels.
    """
    found = {}
    for index, logits in tensors.items():
        for share in _told_by(seen.arrays.get(f"train0/gradient{index}"), logits, labels):
            if expected.same_loss(loss, row_losses(logits, labels, share).mean()):
                found[index] = share
    return found


def of_training(check: Check, data: Data, n: int) -> float:
    """The smoothing of a training step on the first `n` pictures, which is run; 0 where it cannot be told."""
    try:
        seen = train(check, data, split=n, batch_size=n, stop_after=1).ranks[0]
    except CheckEnded:
        return 0.0  # what goes wrong in training has checks of its own
    loss = next(iter(expected.step_losses(seen)), None)
    if loss is None:
        return 0.0
    found = of_first_step(seen, expected.seen_in(seen, "train0", n), data.labels[:n], loss)
    return min(found.values(), default=0.0)


def _told_by(gradient: Array | None, logits: Array, labels: Array) -> Iterator[float]:
    """The shares of smoothing that the gradient by the logits may have: none, and what fits it best."""
    if how_it_differs(gradient, logits, labels) is None:
        yield 0.0
    if gradient is None or gradient.shape != logits.shape or not np.isfinite(gradient).all():
        return
    seen, plain = gradient.astype(np.float64), expected.gradient(logits, labels)
    towards = expected.gradient(logits, labels, 1.0) - plain
    share = float(((seen - plain) * towards).sum() / (towards**2).sum())
    # Of a network that only guesses, the cross-entropy times a factor has nearly such a gradient.
    factor = (seen * plain).sum() / max((plain**2).sum(), 1e-12)
    off, off_the_factor = seen - plain - share * towards, seen - factor * plain
    fits = how_it_differs(gradient, logits, labels, share) is None
    if fits and 0 < share <= 1 and np.linalg.norm(off) <= 2 * np.linalg.norm(off_the_factor):
        yield share


def how_it_differs(gradient: Array | None, logits: Array, labels: Array, share: float = 0.0) -> str | None:
    """How a gradient by the logits differs from that of the cross-entropy with so much smoothing, as a sentence."""
    wanted = expected.gradient(logits, labels, share).astype(np.float32)
    return difference(gradient, wanted, rtol=1e-2, atol=1e-4, what="the gradient")


def explains(
    losses: Sequence[float], tensors: Sequence[Mapping[int, Array]], labels: Sequence[Array]
) -> bool:
    """Whether all of these steps had one smoothing by their losses, each computed from the same tensor of its step."""
    everywhere = set.intersection(*map(set, tensors))
    return any(_explains(losses, [each[index] for each in tensors], labels) for index in everywhere)


def _explains(losses: Sequence[float], logits: Sequence[Array], labels: Sequence[Array]) -> bool:
    plain, whole = (
        np.array([row_losses(*step, share).mean() for step in zip(logits, labels, strict=True)])
        for share in (0.0, 1.0)
    )
    apart = whole - plain
    share = float((np.array(losses) - plain) @ apart / max(apart @ apart, 1e-12))
    return share > 0 and is_usual(share) and all(map(expected.same_loss, losses, plain + share * apart))
