"""Exercise 4, the metrics: loss and accuracy over the items of all ranks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from graders.ddp_train import accuracies, expected
from graders.ddp_train.batches import fed, items_by_epoch
from graders.ddp_train.expected import BATCH_SIZE, Training
from graders.ddp_train.hints import OWN_GPU_HINT, SUMS_TO_THE_DEVICE, TO_THE_DEVICE
from graders.ddp_train.runs import on_nodes, options, rank_seeds
from lockstep.batchloop import PLAIN, SOFTMAX
from lockstep.check import Check, Inputs
from lockstep.compare import close, number, shown
from lockstep.devicefault import NO_BACKEND, is_device_fault, names_no_gpu
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.verdict import CheckEnded, Crashed
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
        gpus = _gpus(check, world)
        held = (weights, expected.halved(shape, weights))
        trainings = [
            [Training(shape, epoch, lr=0, momentum=0, loop=loop) for epoch in held]
            for loop in (PLAIN, SOFTMAX)
        ]
        if gpus is None or check.real_gpus >= world:
            outcome, fault = _on_gpus(train, values, gpus)
        else:
            # A node for each, so that LOCAL_RANK is not RANK.
            outcome, fault = _on_gpus(train, values, 1, on_nodes(1, world))
        losses = _nearest(outcome, [_losses(check, outcome, data, own) for own in trainings])
        if gpus is not None and _are_rounded(outcome, losses):
            # autocast is as good on a GPU: how the mean is made shows where nothing is rounded.
            outcome = train(values=values)
            losses = _nearest(outcome, [_losses(check, outcome, data, own) for own in trainings])
        for epoch, own in enumerate(losses):
            _mean_loss(check, outcome, epoch, own)
        faults.append(fault)
    _insist_on_sums_on_the_device(check, faults)
    _insist_on_gpus_of_the_node(check, faults[0])


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
        return "That is this rank's own mean: add up losses and items over all ranks with dist.all_reduce, then divide."
    if close(value, wanted * world, rtol=1e-4):
        return "That is the sum over the ranks of their means: divide by the world size, too."
    if not isinstance(value, int | float):
        return "Return a plain float, such as (total_loss / total_items).item()."
    return "Add up loss.item() * len(labels) and len(labels), both over all ranks with dist.all_reduce, then divide."


def test_shuffle_false_for_eval(check: Check) -> None:
    """evaluate() returns the accuracy over the whole set, exactly, on every rank."""
    faults, places = [], []
    for world in check.world_sizes:
        shape = expected.make_shape(check.rng, dropout=0.6)
        weights = expected.make_weights(check.rng, shape)
        # In one of the runs as many batches as a loop that is broken off does not reach.
        share = 43 if world == check.world_sizes[-1] else 7
        n, even = world * share + int(check.rng.integers(1, world)), world * share
        data = expected.make_labelled_data(check.rng, shape, weights, n, world)
        answers = Training(shape, weights, lr=0, momentum=0).logits(data.images).argmax(1)
        right = int((answers == data.labels).sum())
        # The second time nothing is padded.
        kept = accuracies.telling(partial(_coins, check.rng, even), world, BATCH_SIZE)
        again = (answers[:even] + ~kept) % 10
        right_again = int(kept.sum())
        arrays = {**data.arrays(), "again": again, **expected.as_inputs(weights)}
        evaluate = partial(check.run, "accuracy", ranks=world, arrays=arrays)
        outcome, fault = _on_gpus(evaluate, options(shape), _gpus(check, world))
        if is_device_fault(fault):
            raise Crashed(f"On a machine with {world} GPUs: {fault}", TO_THE_DEVICE)
        for rank, seen in enumerate(outcome.ranks):
            value = seen.values.get("accuracy")
            if close(value, right / n, rtol=0, atol=1e-5):
                continue
            check.fail(
                f"evaluate on {world} ranks over {n} items, {right} of which the model gets right: rank {rank} returned "
                f"{shown(value)}, expected {right / n:.6f}.",
                _accuracy_hint(value, right, n, outcome, data, answers == data.labels),
            )
        for rank, seen in enumerate(outcome.ranks):
            value = seen.values.get("again")
            check.expect(
                close(value, right_again / even, rtol=0, atol=1e-5),
                f"evaluate on {world} ranks returns the accuracy over {n} items, but when it is called again, with {even} items "
                f"and other labels, rank {rank} returned {shown(value)}, expected {right_again / even:.6f}.",
                f"Begin each call with counts of 0. And {even} is {world} times {share}: nothing was repeated to fill up the "
                f"shares, and nothing is to be left out. {world} - n % {world} is {world} then, -n % {world} is 0.",
                points=check.points / 2,
            )
        for rank, seen in enumerate(outcome.ranks):
            orders = [data.find(seen.arrays.get(f"order{which}", np.zeros(0))) for which in (0, 1)]
            check.expect(
                orders[0] is not None and orders[0] == orders[1],
                f"make_loader(..., shuffle=False) on rank {rank} of {world}: the order of the items depends on the seed.",
                "Hand shuffle on to the sampler: DistributedSampler(dataset, shuffle=shuffle, ...) shuffles by default.",
            )
        faults.append(fault)
        places.append([] if fault else [rank.values.get("places") for rank in outcome.ranks])
    _insist_on_sums_on_the_device(check, faults)
    _insist_on_a_gpu_for_each(check, places[0])


def _coins(rng: np.random.Generator, n: int) -> Array:
    return rng.random(n) < 0.5


def _gpus(check: Check, world: int) -> int | None:
    """One GPU for each of the ranks of the first run, none in the others: what is computed is the same, to the bit."""
    return world if world == check.world_sizes[0] else None


def _on_gpus(
    run: Callable[..., Outcome],
    values: dict[str, Json],
    gpus: int | None,
    env: Sequence[Mapping[str, str]] | None = None,
) -> tuple[Outcome, str]:
    """A run on so many emulated GPUs; where that ends early one without them, and how the other ended."""
    if gpus is None:
        return run(values=values), ""
    try:
        return run(values={**values, "gpus": gpus}, env=env), ""
    except CheckEnded as ended:
        # Not everything that may go wrong on emulated GPUs is the fault of the code that runs there.
        return run(values=values), ended.feedback.message


def _insist_on_sums_on_the_device(check: Check, faults: Sequence[str]) -> None:
    """What else may not be where it is needed does not depend on the number of ranks: single_process tells it."""
    for world, fault in zip(check.world_sizes, faults, strict=False):
        check.expect(
            NO_BACKEND not in fault,
            f"On {world} ranks with a GPU each: {fault}",
            SUMS_TO_THE_DEVICE,
            points=check.points / 2,
        )


def _insist_on_gpus_of_the_node(check: Check, fault: str) -> None:
    """End the check where ranks on nodes of one GPU each looked for another, though setup had given them that one."""
    if not names_no_gpu(fault):
        return
    world = check.world_sizes[0]
    seen = check.run(
        "join",
        ranks=world,
        values={"gpus": 1},
        arrays={"number": np.array([1])},
        env=on_nodes(1, world),
        expect=False,
    ).ranks
    check.expect(
        # Of what setup returns joins_group tells.
        any(rank.values.get("device") != "cuda:0" for rank in seen),
        f"On {world} nodes with one GPU each, where setup() returned cuda:0 on every rank: {fault}",
        "That node has no such GPU: dist.get_rank() counts over all nodes. Use the device that the function is given, "
        "DistributedDataParallel(model.to(device), device_ids=[device.index]).",
        points=check.points / 2,
    )


def _insist_on_a_gpu_for_each(check: Check, places: Sequence[Json]) -> None:
    """End the check where a model is on the GPU of another rank; whether it is on a GPU, single_process tells."""
    for rank, found in enumerate(places):
        check.expect(
            found in (f"cuda:{rank}", "cpu"),
            f"evaluate is right, but on a machine with {len(places)} GPUs the model that wrap_model returned on rank {rank} "
            f"(LOCAL_RANK {rank}) was on {shown(found)}, expected cuda:{rank}.",
            OWN_GPU_HINT,
            points=check.points / 2,
        )


def _accuracy_hint(
    value: Json, right: int, n: int, outcome: Outcome, data: expected.Data, is_right: Array
) -> str:
    seen = number(value)
    if value is None:
        return "evaluate ends with `return`, a plain float: without it a function gives None."
    if seen is None or not math.isfinite(seen):
        return "It was divided by a number of items that is zero: count the items of every batch, `items += len(labels)`."
    found = (data.find(rank.arrays.get("order0", np.zeros(0))) for rank in outcome.ranks)
    orders = [order for order in found if order]
    values = [number(rank.values.get("accuracy")) for rank in outcome.ranks]
    if seen > 1:
        return "Accuracy is a fraction between 0 and 1: divide the number of right answers by the number of items."
    if len(set(values)) > 1:
        return "The ranks disagree: add up right answers and items over all ranks with dist.all_reduce before dividing."
    padded = bool(orders) and close(seen, accuracies.mean_over_items(orders, is_right), rtol=0, atol=1e-5)
    if (
        orders
        and not padded
        and any(
            close(seen, mean, rtol=0, atol=1e-5)
            for mean in accuracies.means_over_batches(orders, is_right, BATCH_SIZE)
        )
    ):
        return (
            "That is the mean of the batches' accuracies, in which an item of a short last batch counts for more: add up right "
            "answers and items of all batches and ranks, then divide once."
        )
    if close(seen, 1 - right / n, rtol=0, atol=1e-5):
        return "That is the share of wrong answers: count where `logits.argmax(dim=1) == labels`."
    if padded or (abs(seen - right / n) < (len(outcome.ranks) - 1) / n):
        return (
            "DistributedSampler repeats items until all shares are equally long, and those count twice here. Leave "
            "the repeated ones out, or give each rank its share without padding; and read the whole loader (no `break`)."
        )
    return (
        "Call model.eval() first (this model has dropout), count right answers and items of the whole loader (no `break`), "
        "add both up over all ranks with dist.all_reduce, then divide."
    )
