"""The two-rank weight-sync check: its hidden inputs, the training in one process that it is held against, one run."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from graders.ddp_train import expected
from graders.ddp_train.expected import Data, Shape, Training
from lockstep.check import torchrun_environment
from lockstep.compare import difference
from lockstep.sandbox.box import Box
from lockstep.sandbox.outcome import Outcome
from lockstep.sandbox.spec import Pack, RankInputs, RunSpec
from lockstep.submission import Submission
from lockstep.wire import Array, Json

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


def sync_run(
    box: Box, submission: Submission, world: int = WORLD, *, shared_files: bool = False
) -> tuple[float, Outcome]:
    """The two-rank weight-sync check through the warm server; seconds from asking to knowing.

    Raises SystemExit when the submission is not in sync.
    """
    started = time.perf_counter()
    seed = 5
    shape, weights, data = inputs(np.random.default_rng(seed))
    values: dict[str, Json] = {
        "shape": shape, "lr": LR, "momentum": 0.0, "batch_size": BATCH_SIZE,
        "seed": seed, "rank_seed": 0, "epochs": [0],
    }  # fmt: skip
    arrays = {**data.arrays(), **expected.as_inputs(weights)}
    ranks = [RankInputs(values, arrays, torchrun_environment(rank, world)) for rank in range(world)]
    pack = Pack(submission.files, submission.executable)
    outcome = box.run(RunSpec("ddp_train", "train", pack, ranks, shared_files=shared_files))
    if world == WORLD:
        batches = [expected.batches(rank, data) or [] for rank in outcome.ranks]
        wanted = single_process(np.random.default_rng(seed), [[i for b in own for i in b] for own in batches])
        for rank in outcome.ranks:
            for name, value in wanted.items():
                problem = difference(rank.arrays.get(f"final/{name}"), value, rtol=2e-3, atol=2e-5)
                if problem is not None:
                    raise SystemExit(f"the reference is not in sync: {problem}")
    return time.perf_counter() - started, outcome
