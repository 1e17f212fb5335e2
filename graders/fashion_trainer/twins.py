"""Test pictures in pairs that are alike but for a few pixels: whether both of a pair come to a script's network alike.

Whatever is done to each picture in the same way leaves them alike; what is done at random does not.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping

import numpy as np

from fixtures import fashion_mnist
from graders.fashion_trainer import expected, idx
from graders.fashion_trainer.expected import Calls
from graders.fashion_trainer.probe import PIXELS
from lockstep.check import Check
from lockstep.compare import integer
from lockstep.sandbox.outcome import RankOutcome
from lockstep.wire import Array

# Too few to be seen, and enough to tell one of a pair from the other.
PIXELS_CHANGED = 16
# Of two that are alike it is 0.9 or more, and 0.7 where a mean over the batch is taken from every pixel; of noise that
# is mirrored, turned or moved in two ways next to 0.
LEAST_LIKENESS = 0.25
LEAST_ALONE = 3


def with_twins(tree: Mapping[str, bytes], rng: np.random.Generator) -> dict[str, bytes]:
    """The same data; its test pictures, an even number, are noise in pairs that are alike."""
    name = f"{fashion_mnist.FOLDER}/t10k-images-idx3-ubyte"
    n = len(idx.pictures(tree, "t10k"))
    noise = rng.integers(0, 256, (n // 2, PIXELS), dtype=np.uint8)
    twins = noise.copy()
    for twin in twins:
        twin[rng.choice(PIXELS, PIXELS_CHANGED, replace=False)] ^= 255
    pictures = np.concatenate([noise, twins])[rng.permutation(n)]
    content = tree[name][:16] + pictures.tobytes()
    return {**tree, name: content, f"{name}.gz": gzip.compress(content, mtime=0)}


def are_shown_alike(
    check: Check, shown_call: str, seen: RankOutcome, found: Calls, parts: Mapping[str, Array], epochs: int
) -> None:
    """The test pictures came to the network as they are, or all changed in the same way.

    Nothing is said unless the last pass without training is one over as many pictures as the test set has, and all
    training pictures were trained on: others may be a validation set, and who averages over several looks at a picture
    may well change it at random.
    """
    n, n_train = len(parts["t10k"]), len(parts["train"])
    trained = np.repeat([call.trained for call in found.calls], [call.size for call in found.calls])
    last = np.flatnonzero(trained)[-1] + 1 if trained.any() else 0
    if (
        trained.sum() < epochs * n_train
        or len(trained) - last != n
        or integer(seen.values.get("other_calls")) != 0
    ):
        return
    alone = alone_in(found.rows[last:])
    check.expect(
        alone < LEAST_ALONE,
        f"`{shown_call}` evaluated on test pictures that it had changed at random: of {n}, which come in pairs that "
        f"are alike but for {PIXELS_CHANGED} pixels, {alone} came to the network unlike any other.",
        "RandomHorizontalFlip, RandomRotation and their like are for training. Give the test set a transform of its "
        "own: ToTensor, and Normalize with the same numbers.",
        points=0.75 * check.points,
    )


def alone_in(rows: Array) -> int:
    """How many rows are like no other."""
    likeness = expected.likeness(rows, rows)
    np.fill_diagonal(likeness, -1)
    return int(np.count_nonzero(likeness.max(axis=1) < LEAST_LIKENESS))
