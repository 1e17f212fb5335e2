"""The share of right answers, and the usual ways to get it wrong."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from graders.fashion_trainer import expected
from graders.fashion_trainer.expected import Data, Shape
from graders.fashion_trainer.runs import BATCH_SIZE
from lockstep.wire import Array

# Half precision on a GPU is fine, and so are other ways to round it; the mistakes differ by more.
ROUNDING = 0.0051
_HINT = (
    "Count where logits.argmax(dim=1), a class for each picture, equals the label, over all batches, and divide by the "
    "number of pictures."
)


def hint(
    value: float | None, logits: Array, shape: Shape, trained: Mapping[str, Array], train: Data, test: Data
) -> str:
    """What to do about a wrong share: by the slip that returns just this, if it is a usual one."""
    if value is None:
        return "evaluate returns a plain float; without `return` a function gives None."
    n = len(test.labels)
    right = (logits.argmax(axis=1) == test.labels).astype(np.float64)
    batches = np.split(right, range(BATCH_SIZE, n, BATCH_SIZE))
    of_train = expected.logits_of(shape, trained, train.images).argmax(axis=1) == train.labels
    candidates = {
        "That is the accuracy on the training pictures: use the loader that evaluate is given.": of_train.mean(),
        "That is the mean over the batches, in which the pictures of a short last batch count more than the others: "
        "divide the number of right answers by the number of pictures.": np.mean([b.mean() for b in batches]),
        "That is the accuracy on the last batch: add up over all batches.": batches[-1].mean(),
        "That is the share of wrong answers: count where they are equal, ==.": 1 - right.mean(),
        "That is the number of right answers: divide by the number of pictures.": right.sum(),
        "Divide by the number of pictures (len(loader.dataset)), not of batches (len(loader)).": right.sum()
        / len(batches),
    }
    for told, candidate in candidates.items():
        if between(value, float(candidate), float(candidate)):
            # Of no right answer in the last batch the cause may be another.
            return f"{told} Where that is done: {_HINT}" if candidate == 0 else told
    return _HINT


def between(value: float | None, least: float, most: float) -> bool:
    """Whether a share is one of these, but for rounding."""
    return value is not None and least - ROUNDING <= value <= most + ROUNDING


def by_hand(least: int, most: int, n: int) -> str:
    """How many answers are right by the judge's own count, for a message."""
    return f"counted by hand, {least if least == most else f'{least} to {most}'} of {n} are right."
