"""The mean losses of the epochs, worked out from what the network answered, and the usual ways to get them wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graders.fashion_trainer.expected import Calls, Data
from lockstep.crossentropy import row_losses, softmax
from lockstep.wire import Array

# The losses of one epoch's pictures, batch by batch.
Epoch = list[Array]

HINT = (
    "Add up loss.item() * len(labels) over the batches of an epoch and divide by the number of its pictures."
)
_UNWEIGHTED = (
    "the pictures of the short last batch count more than others: weight each batch's loss with len(labels)."
)
_RESET = "The sum goes on from epoch to epoch: set it to zero at the start of each."


@dataclass(frozen=True)
class Passes:
    """Whole passes over the data, one for each epoch: the losses on the logits, on their softmax, and without labels.

    `uniform` is the loss if all classes were equally right, which label smoothing mixes in, and `negative` the labels'
    own logits with a minus, which is what nn.NLLLoss makes of logits. `backward` holds the
    epochs' means of what the backward passes began at, where that is a loss of the student's own: with a penalty
    on the weights, with weights for the classes, on mixed pictures.
    """

    logits: list[Epoch]
    softmax: list[Epoch]
    uniform: list[Epoch]
    negative: list[Epoch]
    backward: list[float] | None = None


def passes(found: Calls, data: Data, epochs: int) -> list[Passes]:
    """The passes that were trained on, and those that were not; each only where there is one for every epoch.

    An epoch's loss may be taken while it trains, or from another pass over the data after it.
    """
    both = (_passes(found.only(trained=trained), data, epochs) for trained in (True, False))
    return [one for one in both if one is not None]


def _passes(own: Calls, data: Data, epochs: int) -> Passes | None:
    n, sizes = len(data.labels), [call.size for call in own.calls]
    ends = {int(end) for end in np.cumsum(sizes)}
    if sum(sizes) != epochs * n or not ends.issuperset(n * (epoch + 1) for epoch in range(epochs)):
        return None
    # Pictures that were changed on the way are taken to come in the loader's order.
    labels = data.labels_of(own.rows)
    labels = np.tile(data.labels, epochs) if labels is None else labels
    of_items = (
        row_losses(own.logits, labels),
        row_losses(softmax(own.logits), labels),
        row_losses(own.logits, labels, smoothing=1.0),
        -own.logits[np.arange(len(labels)), labels].astype(np.float64),
    )
    logits, of_softmax, uniform, negative = (
        _by_epoch(np.split(losses, np.cumsum(sizes)[:-1]), n) for losses in of_items
    )
    return Passes(logits, of_softmax, uniform, negative, _of_their_own(own, logits))


def _of_their_own(own: Calls, logits: Sequence[Epoch]) -> list[float] | None:
    """The epochs' means of the losses that backward began at, weighted by the pictures.

    None where they are the cross-entropy times something, such as a batch's share or its size: that times it has
    to be undone.
    """
    of_batches = [batch for epoch in logits for batch in epoch]
    found = [call.loss for call in own.calls if call.loss is not None]
    if len(found) != len(of_batches):
        return None
    sizes = np.array([len(batch) for batch in of_batches])
    entropies = np.array([batch.mean() for batch in of_batches])
    for usual in (entropies, entropies * sizes, entropies / sizes):
        ratios = found / np.maximum(usual, 1e-12)
        if np.ptp(ratios) <= 4e-3 * abs(ratios.mean()):
            return None
    ends = np.cumsum([len(epoch) for epoch in logits])[:-1]
    return [
        float(np.average(values, weights=weights))
        for values, weights in zip(np.split(np.array(found), ends), np.split(sizes, ends), strict=True)
    ]


def _by_epoch(batches: Sequence[Array], n: int) -> list[Epoch]:
    epochs: list[Epoch] = [[]]
    for batch in batches:
        if sum(len(one) for one in epochs[-1]) == n:
            epochs.append([])
        epochs[-1].append(batch)
    return epochs


def means(epochs: Sequence[Epoch]) -> list[float]:
    """The mean over the pictures of each epoch."""
    return [float(np.concatenate(batches).mean()) for batches in epochs]


def agree(values: Sequence[float], own: Passes) -> bool:
    """Whether these are the epochs' mean cross-entropies, with or without label smoothing."""
    plain, uniform = means(own.logits), means(own.uniform)
    if same(values, plain):
        return True
    if len(values) != len(plain) or uniform[0] <= plain[0]:
        return False
    # Smoothing is a mixture of the two, in the same proportion in every epoch.
    share = (values[0] - plain[0]) / (uniform[0] - plain[0])
    mixed = [(1 - share) * mean + share * other for mean, other in zip(plain, uniform, strict=True)]
    return 0 < share < 0.5 and same(values, mixed)


def hint(values: Sequence[float], own: Passes) -> str:
    """What to do about wrong values: by the slip that returns just these, if it is a usual one."""
    for epochs in (own.logits, own.softmax):
        for told, candidate in slips(epochs):
            if same(values, candidate):
                return told
    return HINT


def slips(epochs: Sequence[Epoch]) -> list[tuple[str, list[float]]]:
    """What to do about the usual slips, and what they return."""
    of_batches = [[float(batch.mean()) for batch in batches] for batches in epochs]
    sums = [sum(one) for one in of_batches]
    items = [float(np.concatenate(batches).sum()) for batches in epochs]
    n, n_batches, full = sum(len(batch) for batch in epochs[0]), len(epochs[0]), len(epochs[0][0])
    return [
        ("That is the loss of the last batch alone: add up over the epoch.", [one[-1] for one in of_batches]),
        ("That is the sum over the batches: multiply each batch's loss by len(labels), and divide by the number of "
         "pictures.", sums),
        (f"That is the mean over the batches: {_UNWEIGHTED}", [value / n_batches for value in sums]),
        (f"Every batch is weighted as a full one: {_UNWEIGHTED}", [value * full / n for value in sums]),
        ("That is the sum over the pictures: divide by their number.", items),
        ("The criterion adds up the losses of a batch already, and they are multiplied by len(labels) once more: leave "
         "out reduction='sum'.",
         [sum(float(batch.sum()) * len(batch) for batch in batches) / n for batches in epochs]),
        ("The batches' means are added up and divided by the number of pictures: multiply each by len(labels) first.",
         [value / n for value in sums]),
        (_RESET, [float(value) for value in np.cumsum(sums)]),
        (_RESET, [float(value) / n_batches for value in np.cumsum(sums)]),
        (_RESET, [float(value) / n for value in np.cumsum(items)]),
        ("That is one number for each batch: one for each epoch is asked for.", [x for one in of_batches for x in one]),
    ]  # fmt: skip


def same(values: Sequence[float], wanted: Sequence[float]) -> bool:
    """Whether two lists agree; half precision and rounding to four digits are fine, the slips differ by more."""
    return len(values) == len(wanted) and all(
        abs(value - want) <= 1e-3 + 3e-3 * abs(want) for value, want in zip(values, wanted, strict=True)
    )
