"""Which images the ranks of a script learn from: in an epoch all training images, each once, and no test images."""

from __future__ import annotations

from collections.abc import Sequence

from lockstep.compare import elements, integer
from lockstep.wire import Json


def epochs_read(read: Json, n_epochs: int, share: int, batch_size: int, n: int) -> list[frozenset[int]]:
    """The images of each epoch of a rank that read them batch by batch; nothing where it reads in any other way.

    A share is so many of the `n` images, in whole batches. Copies in memory, batches that are fetched ahead, a part
    that is kept for validation and images that are read twice all leave another number of images somewhere.
    """
    steps = _steps(read, batch_size)
    per_epoch = share // batch_size
    if len(steps) != n_epochs * per_epoch or any(len(step) != batch_size for step in steps):
        return []
    epochs = [
        frozenset(image for step in steps[start : start + per_epoch] for image in step)
        for start in range(0, len(steps), per_epoch)
    ]
    whole = all(len(epoch) == share and epoch <= frozenset(range(n)) for epoch in epochs)
    return epochs if whole else []


def _steps(read: Json, batch_size: int) -> list[list[int]]:
    steps = [_numbers(step) for step in elements(read)]
    # A first look at an image, as for its shape, is not part of an epoch.
    steps[:1] = [step[-batch_size:] for step in steps[:1]]
    return steps


def _numbers(step: Json) -> list[int]:
    found = [integer(image) for image in elements(step)]
    return [-1 if image is None else image for image in found]


def most_left_out(ranks: Sequence[Sequence[frozenset[int]]], n: int) -> int:
    """How many of the `n` images no rank read, in the epoch of which that is true of the most."""
    if not all(ranks):
        return 0
    return max(n - len(frozenset().union(*epoch)) for epoch in zip(*ranks, strict=True))


def most_in_common(ranks: Sequence[Json], n_epochs: int, batch_size: int, n: int) -> int:
    """How many of the `n` images two ranks both read, in the epoch of which that is true of the most.

    Shares may be of any length. Nothing is in common where a rank does not read them batch by batch, or one twice.
    """
    first, other = (_steps(read, batch_size) for read in ranks)
    per_epoch, rest = divmod(len(first), n_epochs)
    if len(first) != len(other) or rest or not first:
        return 0
    shared = []
    for start in range(0, len(first), per_epoch):
        epochs = [steps[start : start + per_epoch] for steps in (first, other)]
        sizes = [[len(step) for step in steps] for steps in epochs]
        own = [frozenset(image for step in steps for image in step) for steps in epochs]
        as_loaded = all(set(size[:-1]) <= {batch_size} and 0 < size[-1] <= batch_size for size in sizes)
        once = all(len(images) == sum(size) for images, size in zip(own, sizes, strict=True))
        if not as_loaded or not once or not own[0] | own[1] <= frozenset(range(n)):
            return 0
        shared.append(len(own[0] & own[1]))
    return max(shared)


def learned_from(learned: Json) -> tuple[int, int]:
    """How many images the steps of a rank were seen to be made of, and how many of these were test images.

    Both are 0 where that is not seen of half of the steps: images that are kept in memory or fetched ahead are read at
    another time.
    """
    steps = [[integer(n) for n in elements(step)] for step in elements(learned)]
    seen = [
        (n, tests) for n, tests, *_ in (step for step in steps if len(step) == 2) if n and tests is not None
    ]
    if 2 * len(seen) < len(steps):
        return 0, 0
    return sum(n for n, _ in seen), sum(tests for _, tests in seen)
