"""The softmax of logits and its cross-entropy in double precision, a row at a time: what a loss must come to."""

from __future__ import annotations

import numpy as np

from lockstep.wire import Array


def softmax(logits: Array) -> Array:
    """The probabilities of each row; `logits` is rows x classes."""
    powers = np.exp(_from_highest(logits))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def row_losses(logits: Array, labels: Array, smoothing: float = 0.0) -> Array:
    """The loss of each row, in nats, with so much label smoothing as torch does it; `labels` are the rows' classes.

    Smoothing is the share of a label that goes to all classes alike: of 1 the label has no part any more.
    """
    shifted = _from_highest(logits)
    hit = (1 - smoothing) * shifted[np.arange(len(labels)), labels] + smoothing * shifted.mean(axis=1)
    return np.asarray(np.log(np.exp(shifted).sum(axis=1)) - hit)


def _from_highest(logits: Array) -> Array:
    """Without what no softmax sees, so that no power gets out of hand."""
    exact = logits.astype(np.float64)
    return np.asarray(exact - exact.max(axis=1, keepdims=True))
