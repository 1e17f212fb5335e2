"""Exercise 4, the mean loss over the items of all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from graders.ddp_train import expected
from graders.ddp_train.batches import fed, items_by_epoch
from graders.ddp_train.expected import Training
from graders.ddp_train.on_gpus import (
    gpus_of_first,
    insist_on_gpus_of_the_node,
    insist_on_sums_on_the_device,
    run_on_gpus,
)
from graders.ddp_train.runs import on_nodes, options, rank_seeds
from lockstep.batchloop import PLAIN, SOFTMAX
from lockstep.check import Check, Inputs
from lockstep.compare import close, shown
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.wire import Array, Json

# How far, at most, bfloat16 takes the mean loss of a small network from what it is: its numbers have 8 bits.
HALF_PRECISION = 0.02


def test_global_metrics(check: Check) -> None:
    """train_one_epoch returns the mean loss over all ranks' items, the same on every rank."""
    faults = []
    for world in check.world_sizes[:2]:
        shape = expected.make_shape(check.rng)
        weights = expected.make_weights(check.rng, shape)
        # Batches of 4, 4 and 1. Every rank has images nobody else has: the mean cannot be had without the others.
        data = [expected.make_data(check.rng, world * 9) for _ in range(world)]
        # With lr 0 the loss of an item does not depend on what was trained before it; for the second epoch the check
        # itself changes the weights.
        train = partial(
            check.run,
            "train",
            ranks=world,
            arrays=expected.as_inputs(weights),
            per_rank=[Inputs(s, own.arrays()) for s, own in zip(rank_seeds(check, world), data, strict=True)],
        )
        values = options(shape, lr=0.0, epochs=[0, 1], halving=True)
        gpus = gpus_of_first(check, world)
        held = (weights, expected.halved(shape, weights))
        trainings = [
            [Training(shape, epoch, lr=0, momentum=0, loop=loop) for epoch in held]
            for loop in (PLAIN, SOFTMAX)
        ]
        if gpus is None or check.real_gpus >= world:
            outcome, fault = run_on_gpus(train, values, gpus)
        else:
            # A node for each, so that LOCAL_RANK is not RANK.
            outcome, fault = run_on_gpus(train, values, 1, on_nodes(1, world))
        losses = _nearest(outcome, [_losses(check, outcome, data, own) for own in trainings])
        if gpus is not None and _are_rounded(outcome, losses):
            # autocast is as good on a GPU: how the mean is made shows where nothing is rounded.
            outcome = train(values=values)
            losses = _nearest(outcome, [_losses(check, outcome, data, own) for own in trainings])
        for epoch, own in enumerate(losses):
            _mean_loss(check, outcome, epoch, own)
        faults.append(fault)
    insist_on_sums_on_the_device(check, faults)
    insist_on_gpus_of_the_node(check, check.world_sizes[0], faults[0])


def _losses(
    check: Check, outcome: Outcome, data: Sequence[expected.Data], trainings: Sequence[Training]
) -> list[list[Array]]:
    """For every epoch and every rank the loss of each item that this rank was fed."""
    items = [items_by_epoch(fed(check, rank, data[r], r), rank) for r, rank in enumerate(outcome.ranks)]
    check.expect(
        all(len(own) == 2 and all(own) for own in items),
        f"train_one_epoch on {len(data)} ranks, called for two epochs: an epoch had no batches.",
        "Does it iterate over the loader?",
    )
    return [
        [training.losses(own, tuple(seen[epoch])) for own, seen in zip(data, items, strict=True)]
        for epoch, training in enumerate(trainings)
    ]


def _nearest(outcome: Outcome, each: Sequence[list[list[Array]]]) -> list[list[Array]]:
    """The losses whose means the ranks returned, or nearly; else the first."""
    for is_it in (_are_means, _are_nearly_means):
        for losses in each:
            if is_it(outcome, losses):
                return losses
    return each[0]


def _are_rounded(outcome: Outcome, losses: Sequence[Sequence[Array]]) -> bool:
    """Whether all ranks returned the means of all losses, some of them no closer than half precision gets."""
    return _are_nearly_means(outcome, losses) and not _are_means(outcome, losses)


def _are_means(outcome: Outcome, losses: Sequence[Sequence[Array]]) -> bool:
    return all(_is_mean(value, wanted) for value, wanted in _returned_and_wanted(outcome, losses))


def _are_nearly_means(outcome: Outcome, losses: Sequence[Sequence[Array]]) -> bool:
    return all(
        close(value, wanted, rtol=HALF_PRECISION) for value, wanted in _returned_and_wanted(outcome, losses)
    )


def _returned_and_wanted(outcome: Outcome, losses: Sequence[Sequence[Array]]) -> list[tuple[Json, float]]:
    """What every rank returned for every epoch, and the mean of all ranks' losses in it."""
    return [
        (_returned(seen, epoch), float(np.concatenate(own).mean()))
        for seen in outcome.ranks
        for epoch, own in enumerate(losses)
    ]


def _returned(seen: RankOutcome, epoch: int) -> Json:
    losses = seen.values.get("losses")
    return losses[epoch] if isinstance(losses, list) and len(losses) > epoch else None


def _is_mean(value: Json, wanted: float) -> bool:
    return close(value, wanted, rtol=1e-4, atol=1e-5)


def _mean_loss(check: Check, outcome: Outcome, epoch: int, own: Sequence[Array]) -> None:
    """End the check where what a rank returned for an epoch is not the mean of all ranks' losses."""
    world, wanted = len(own), float(np.concatenate(own).mean())
    for rank, seen in enumerate(outcome.ranks):
        value = _returned(seen, epoch)
        if _is_mean(value, wanted):
            continue
        if epoch > 0:
            check.fail(
                f"train_one_epoch on {world} ranks returns the mean loss of the first epoch, but for the second rank {rank} "
                f"returned {shown(value)}; the mean loss over all ranks' items is {wanted:.6f} then.",
                "Begin each call with sums of 0: what is kept from one epoch to the next spoils its mean.",
                points=check.points / 2,
            )
        check.fail(
            f"train_one_epoch on {world} ranks: rank {rank} returned {shown(value)}; the mean loss over all "
            f"ranks' items is {wanted:.6f}.",
            _loss_hint(value, float(own[rank].mean()), wanted, world),
        )


def _loss_hint(value: Json, local: float, wanted: float, world: int) -> str:
    if close(value, local, rtol=1e-4):
        return (
            "That is this rank's own mean: add up losses and items over all ranks with dist.all_reduce, which changes the very "
            "tensor that it is given, then divide."
        )
    if close(value, wanted * world, rtol=1e-4):
        return "That is the sum over the ranks of their means: divide by the world size, too, or by the items of all ranks."
    if world > 1 and close(value, wanted / world, rtol=1e-4):
        return "That is the mean over all items, divided by the world size once more: divide by the number of items alone."
    if value is None:
        return (
            "Return the mean on every rank: a function that comes to its end without `return` gives None, and so it does on the "
            "other ranks where `return` stands in `if rank == 0`."
        )
    if not isinstance(value, int | float):
        return "Return a plain float, such as (total_loss / total_items).item()."
    return "Add up loss.item() * len(labels) and len(labels), both over all ranks with dist.all_reduce, then divide."
