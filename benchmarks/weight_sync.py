"""The work that the two-rank benchmark does, once: hidden inputs and the training in one process."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graders.ddp_train import expected
from graders.ddp_train.expected import Data, Shape, Training
from lockstep.wire import Array

WORLD, STEPS, BATCH_SIZE, LR = 2, 5, 4, 0.2


def inputs(rng: np.random.Generator) -> tuple[Shape, dict[str, Array], Data]:
    """A hidden network, its weights and a data set that makes STEPS steps."""
    shape = expected.make_shape(rng)
    return shape, expected.make_weights(rng, shape), expected.make_data(rng, WORLD * BATCH_SIZE * STEPS)


def single_process(rng: np.random.Generator, orders: Sequence[Sequence[int]]) -> dict[str, Array]:
    """The weights of one process that trains on the batches of all ranks, in their order."""
    shape, weights, data = inputs(rng)
    training = Training(shape, weights, lr=LR, momentum=0.0)
    for step in range(STEPS):
        span = slice(step * BATCH_SIZE, (step + 1) * BATCH_SIZE)
        training.step([data] * WORLD, [tuple(order[span]) for order in orders])
    return training.weights()
