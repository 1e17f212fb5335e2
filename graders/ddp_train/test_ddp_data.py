"""Exercise 4, the data: every rank its share, in another order each epoch, and all of it.

The loader of evaluate has its check in test_ddp_evaluation.py.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain, pairwise

import numpy as np

from graders.ddp_train import expected
from graders.ddp_train.batches import fed, items_by_epoch
from graders.ddp_train.expected import Data, Training
from graders.ddp_train.runs import on_nodes, options, rank_seeds
from graders.ddp_train.script_runs import OF_THREE_EPOCHS, three_epochs
from graders.ddp_train.uneven_means import first_loss, is_mean_of_means
from lockstep.check import Check, Inputs
from lockstep.compare import elements, integer, shown
from lockstep.sandbox.outcome import Outcome, RankOutcome

# Of fewer images two epochs may have the same order by chance: of eight, one pair in 40,320 has.
LEAST_ORDERED = 8


def test_sampler_disjoint(check: Check) -> None:
    """The ranks' loaders share out the data set: nothing missing, nothing twice but the padding."""
    for world in check.world_sizes:
        # A share of 7 or 8 has a short last batch, and a rest that a sampler may leave out.
        n = world * int(check.rng.integers(6, 8)) + int(check.rng.integers(1, world))
        data = expected.make_data(check.rng, n)
        seed = int(check.rng.integers(1 << 20))
        outcome = check.run(
            "shares",
            ranks=world,
            values={"batch_size": 3, "seed": seed},
            arrays=data.arrays(),
            per_rank=[Inputs(own) for own in rank_seeds(check, world)],
            # One rank on each of several nodes: what counts is the number of ranks of the group, not of a node.
            env=on_nodes(1, world) if world == check.world_sizes[0] else None,
        )
        own = [_items(check, rank, data, number) for number, rank in enumerate(outcome.ranks)]
        _shared_out(check, own, n, f"make_loader on {world} ranks over {n} items, one pass")
        kept = [integer(rank.values.get("kept")) for rank in outcome.ranks]
        left_out = 0 < sum(filter(None, kept)) < sum(map(len, own))
        check.expect(
            None not in kept and left_out,
            f"make_loader(dataset, 3, drop_last=True) on {world} ranks over {n} items "
            f"{'gave no batches' if None in kept else 'left none of them out'}.",
            "Hand drop_last on: to the DistributedSampler, to the DataLoader, or to both.",
            points=check.points * 3 / 4,
        )


def _items(check: Check, rank: RankOutcome, data: Data, number_of_rank: int) -> list[int]:
    found = expected.batches(rank, data)
    if found is None:
        check.fail(
            f"make_loader on rank {number_of_rank}: what the loader gave were not the data set's images.",
            "Each batch has to be images and labels, as DataLoader makes it of the data set's items.",
        )
    return [item for batch in found for item in batch]


def _shared_out(check: Check, own: Sequence[Sequence[int]], n: int, call: str) -> None:
    world = len(own)
    counts = Counter(item for items in own for item in items)
    twice = sum(counts.values()) - len(counts)
    sizes = [len(items) for items in own]
    listed, left_out = ", ".join(str(size) for size in sizes), n - len(counts)
    if twice >= n and all(set(items) == set(own[0]) for items in own):
        check.fail(
            f"{call}: every rank was given the same items ({listed}).",
            "make_loader has to give the DataLoader sampler=DistributedSampler(dataset, ...); every rank then reads a share.",
        )
    check.expect(
        left_out == 0,
        f"{call}: {left_out} {'item was' if left_out == 1 else 'items were'} given to no rank (the ranks had {listed} items).",
        "The shares are long enough for all of it, but they overlap: every rank has to cut its own out of the same order, "
        "DistributedSampler(dataset, shuffle=shuffle, seed=seed) with the same seed on all ranks, and set_epoch(epoch) on all."
        if sum(sizes) >= n
        else "The shares together must be the whole data set: no drop_last, and no `break` or `return` in the loop over the "
        "loader.",
    )
    check.expect(
        twice < world,
        f"{call}: {twice} items were given more than once; at most {world - 1} may be repeated to fill up the shares.",
        "DistributedSampler(dataset) makes the shares disjoint, provided that all ranks give it the same seed.",
    )
    check.expect(
        max(sizes) - min(sizes) <= 1,
        f"{call}: the ranks had {listed} items; the shares may differ by one at most.",
        "A rank with more batches than the others waits for them in its last backward.",
    )


def test_reshuffles(check: Check) -> None:
    """Every epoch has another order, the same on all ranks."""
    world = check.world_sizes[0]
    shape = expected.make_shape(check.rng)
    data = expected.make_data(check.rng, world * 12)
    weights = expected.as_inputs(expected.make_weights(check.rng, shape))
    seed = int(check.rng.integers(1 << 20))
    outcome, other = (
        check.run(
            "train",
            ranks=world,
            # The second time as main may: make_loader shuffles unless it is told not to.
            values=options(shape, epochs=[*epochs], seed=seed + more, lr=0.0, by_default=more > 0),
            arrays={**data.arrays(), **weights},
            per_rank=[Inputs(own) for own in rank_seeds(check, world)],
        )
        for more, epochs in ((0, [0, 1, 2]), (1, [0]))
    )
    epochs = [
        items_by_epoch(fed(check, rank, data, number), rank) for number, rank in enumerate(outcome.ranks)
    ]
    if any(len(own) != 3 or not all(own) for own in epochs):
        check.fail(
            "train_one_epoch for epochs 0, 1, 2: an epoch had no batches.", "Does it iterate over the loader?"
        )
    orders = [tuple(tuple(own[epoch]) for own in epochs) for epoch in range(3)]
    if len(set(orders)) < 3 and any(len(own) < 3 for own in _orders(three_epochs(check, 2))):
        check.fail(
            f"train_one_epoch for epochs 0, 1, 2 on {world} ranks: two epochs had the same order.",
            "Call loader.sampler.set_epoch(epoch) before iterating: DistributedSampler shuffles by seed + epoch.",
        )
    for epoch, own in enumerate(orders):
        _shared_out(check, own, len(data.images), f"Epoch {epoch} of train_one_epoch on {world} ranks")
    again = [items_by_epoch(fed(check, rank, data, number), rank) for number, rank in enumerate(other.ranks)]
    check.expect(
        all(len(own) == 1 for own in again),
        "train_one_epoch was called for one epoch, and went through the data otherwise.",
        "Does it iterate over the loader, once?",
    )
    first = tuple(tuple(own[0]) for own in again)
    _shared_out(check, first, len(data.images), f"An epoch with another seed on {world} ranks")
    check.expect(
        first != orders[0],
        f"make_loader(dataset, batch_size, seed={seed}) and seed={seed + 1}: the first epoch on {world} ranks had the same "
        "order.",
        "DistributedSampler(dataset, shuffle=shuffle, seed=seed): it shuffles with a generator of its own, whatever "
        "torch.manual_seed or the DataLoader's generator say.",
        points=check.points / 2,
    )
    check.expect(
        any(list(own) != sorted(own) for own in first),
        f"make_loader(dataset, batch_size, seed={seed + 1}), with no word on shuffle: an epoch on {world} ranks had the order "
        "of the data set.",
        "make_loader has shuffle=True by default, and hands it on to the sampler.",
        points=check.points / 2,
    )
    _script_reshuffles(check)


def _script_reshuffles(check: Check) -> None:
    """End the check where train_one_epoch has another order for every epoch, and the script around it has not."""
    seen = three_epochs(check, 1)
    learned = _learned(seen)
    check.expect(
        not any(len(own) == 1 and any(map(_in_file_order, own)) for own in learned),
        "train_one_epoch has another order for epochs 0, 1, 2, but ddp_train.py, run for three epochs on one rank, trained in "
        "the order of the data set in every one of them.",
        "shuffle=False is for the loader of evaluate: in main, make_loader(train_data, args.batch_size, seed=args.seed) "
        "shuffles.",
        points=check.points / 2,
    )
    check.expect(
        not any(map(_stands_still, _orders(seen))),
        "train_one_epoch has another order for epochs 0, 1, 2, but in ddp_train.py, run for three epochs on one rank, two "
        "epochs had the same.",
        "Hand the number of the epoch on: train_one_epoch(..., epoch) in main's loop over the epochs.",
        points=check.points / 2,
    )


def _orders(outcome: Outcome) -> list[set[tuple[int, ...]]]:
    """The orders in which each rank of the script learns from its images in three epochs; none where that is not seen.

    Those in which it reads them, where only the steps are not seen: as some keep images in memory, or fetch ahead. But
    who reads more than three epochs looks at training images besides, for the accuracy on them.
    """
    learned, read = _learned(outcome), _in_thirds(outcome, "order")
    return [
        own or (others if n < 4 * OF_THREE_EPOCHS else set())
        for own, (others, n) in zip(learned, read, strict=True)
    ]


def _learned(outcome: Outcome) -> list[set[tuple[int, ...]]]:
    """The orders in which each rank learns from its images in three epochs; none where that is not seen."""
    return [orders for orders, _ in _in_thirds(outcome, "learned")]


def _in_thirds(outcome: Outcome, which: str) -> list[tuple[set[tuple[int, ...]], int]]:
    """Of each rank the orders of three epochs, and how many images it read in all.

    A first look at an item, as for its shape, is no part of an epoch. Some of the images may be for validation.
    """
    found = []
    for rank in outcome.ranks:
        seen = [integer(item) or 0 for item in elements(rank.values.get(which))]
        length = min(len(seen) // 3, OF_THREE_EPOCHS)
        ends = [len(seen) - epoch * length for epoch in range(3)] if length >= LEAST_ORDERED else []
        found.append(({tuple(seen[end - length : end]) for end in ends}, len(seen)))
    return found


def _in_file_order(order: Sequence[int]) -> bool:
    return all(one < other for one, other in pairwise(order))


def _stands_still(orders: set[tuple[int, ...]]) -> bool:
    """Whether two epochs had the same order; what is read in the order of the file may be a copy into memory."""
    return 0 < len(orders) < 3 and not any(map(_in_file_order, orders))


def test_steps_per_epoch(check: Check) -> None:
    """An epoch has ceil(items / (batch size x ranks)) steps."""
    world, batch_size = check.world_sizes[0], 4
    n = world * (batch_size * 3 + 1)  # even shares, with a short last batch
    data, outcome, _ = _one_epoch(check, world, n, batch_size)
    wanted = math.ceil(n / (batch_size * world))
    counts = []
    for rank in outcome.ranks:
        steps = rank.values.get("steps")
        counts.append(len(steps) if isinstance(steps, list) else 0)
    # Shares without padding may leave some ranks one step short.
    check.expect(
        max(counts) == wanted and min(counts) >= wanted - 1,
        f"train_one_epoch on {world} ranks over {n} items with batches of {batch_size} on each rank made "
        f"{', '.join(map(str, counts))} steps, expected {wanted}.",
        steps_hint(
            max(counts) - wanted,
            [len(batch) for rank in outcome.ranks for batch in expected.batches(rank, data) or ()],
            batch_size,
        ),
    )
    # What cannot be recognised any more may be anything.
    seen = [
        {item for batch in expected.batches(rank, data) or () for item in batch} for rank in outcome.ranks
    ]
    check.expect(
        any(len(items) < n for items in seen),
        f"train_one_epoch on {world} ranks over {n} items made {wanted} steps, but on every rank all {n} items went through "
        "the model, several batches to a step.",
        "make_loader has to give the DataLoader sampler=DistributedSampler(dataset, ...): a rank reads its share, and makes "
        "a step for each batch of it.",
    )


def steps_hint(too_many: int, sizes: Sequence[int], batch_size: int) -> str:
    """What is usually wrong where an epoch has so many steps too many, with batches of these sizes."""
    if too_many == -1:
        return "The short last batch of a share is a step as well: no drop_last, and nothing in the loop that passes over it."
    if too_many < 0:
        return (
            "Each batch of the loader is a step: optimizer.step() stands in the loop, with its brackets, and `return` behind "
            "the loop, not in it."
        )
    if 0 < (largest := max(sizes, default=0)) < batch_size:
        return (
            f"No batch had more than {largest} of the {batch_size} items that were asked for. The batch size is that of one "
            "rank: make_loader hands it on as it is, DataLoader(dataset, batch_size, sampler=sampler, ...), and the sampler "
            "shares the data out."
        )
    return (
        "With n ranks the effective batch is n times as large, so an epoch has that many fewer steps. All steps on "
        "every rank means that every rank reads the whole data set."
    )


def test_uneven_data(check: Check) -> None:
    """A data set that cannot be divided evenly: no hang, and no item left out."""
    for world in check.world_sizes:
        batch_size = 2
        n = world * batch_size * 2 + 1
        data, outcome, training = _one_epoch(check, world, n, batch_size)
        own = [
            [item for batch in fed(check, rank, data, number) for item in batch]
            for number, rank in enumerate(outcome.ranks)
        ]
        left_out = n - len(set(chain(*own)))
        check.expect(
            left_out == 0,
            f"train_one_epoch on {world} ranks over {n} items with batches of {batch_size}: {left_out} "
            f"{'item was' if left_out == 1 else 'items were'} never trained on.",
            "The shares are long enough for all of it, but they overlap: give the sampler the same seed on every rank."
            if sum(map(len, own)) >= n
            else "Do not drop the last batch, let the sampler fill up the shares (drop_last=False), and go through the whole "
            "loader, without a `break` or `return` in the loop.",
        )
        losses = [training.losses(data, tuple(items)) for items in own]
        returned = [first_loss(rank.values.get("losses")) for rank in outcome.ranks]
        check.expect(
            not is_mean_of_means(returned, losses, n),
            f"train_one_epoch on {world} ranks over {n} items, which make_loader shares out as "
            f"{', '.join(str(len(items)) for items in own)}: it returned {shown(returned[0])}, the mean of the ranks' means. Over "
            f"all items it is {float(np.concatenate(losses).mean()):.6f}: an item of a smaller share counted for more.",
            "Where the shares are not equally long, add up loss.item() * len(labels) and len(labels) over all ranks with "
            "dist.all_reduce, then divide once.",
            points=check.points / 2,
        )


def _one_epoch(check: Check, world: int, n: int, batch_size: int) -> tuple[Data, Outcome, Training]:
    """A data set of n items, one epoch of train_one_epoch over it that leaves the weights as they are, and those weights."""
    shape = expected.make_shape(check.rng)
    data = expected.make_data(check.rng, n)
    weights = expected.make_weights(check.rng, shape)
    outcome = check.run(
        "train",
        ranks=world,
        values=options(shape, batch_size=batch_size, lr=0.0),
        arrays={**data.arrays(), **expected.as_inputs(weights)},
        per_rank=[Inputs(own) for own in rank_seeds(check, world)],
    )
    return data, outcome, Training(shape, weights, lr=0.0, momentum=0.0)
