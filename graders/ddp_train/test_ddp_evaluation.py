"""Exercise 4, the accuracy over the items of all ranks."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from graders.ddp_train import accuracies, expected
from graders.ddp_train.expected import BATCH_SIZE, Training
from graders.ddp_train.hints import ONE_GPU_EACH, OWN_GPU_HINT, TO_THE_DEVICE
from graders.ddp_train.on_gpus import (
    insist_on_gpus_of_the_node,
    insist_on_sums_on_the_device,
    run_on_gpus,
)
from graders.ddp_train.runs import judged, on_nodes, options
from lockstep.check import Check
from lockstep.compare import close, number, shown
from lockstep.devicefault import is_device_fault
from lockstep.sandbox.outcome import Outcome
from lockstep.verdict import Crashed
from lockstep.wire import Array, Json

TWO_GPUS = re.compile(r"\bcuda:\d+ and cuda:\d+\b")
IN_EVALUATE = "calling evaluate("  # how lockstep.explain words what was done meanwhile


@dataclass(frozen=True)
class Evaluation:
    """What evaluate is called on by so many ranks, twice: which items the model gets right, and which the second time.

    The second time there are fewer items, so that nothing is padded, and other labels.
    """

    world: int
    data: expected.Data
    is_right: Array
    is_right_again: Array


def test_shuffle_false_for_eval(check: Check) -> None:
    """evaluate() returns the accuracy over the whole set, exactly, on every rank."""
    fault, places, of_nodes = "", [], []
    for world in check.world_sizes:
        shape = expected.make_shape(check.rng, dropout=0.6)
        weights = expected.make_weights(check.rng, shape)
        # In one of the runs as many batches as a loop that is broken off does not reach.
        share = 43 if world == check.world_sizes[-1] else 7
        # On more than two ranks several shares are filled up: what is repeated is not the end of the last one alone.
        n, even = world * share + int(check.rng.integers(1, max(world - 1, 2))), world * share
        data = expected.make_labelled_data(check.rng, shape, weights, n, world)
        answers = Training(shape, weights, lr=0, momentum=0).logits(data.images).argmax(1)
        kept = accuracies.telling(partial(_coins, check.rng, even), world, BATCH_SIZE)
        arrays = {**data.arrays(), "again": (answers[:even] + ~kept) % 10, **expected.as_inputs(weights)}
        evaluate = partial(check.run, "accuracy", ranks=world, arrays=arrays)
        judge = partial(_one_evaluation, check, Evaluation(world, data, answers == data.labels, kept))
        if world == check.world_sizes[0]:
            outcome, fault = run_on_gpus(evaluate, options(shape), world)
            if is_device_fault(fault):
                raise Crashed(
                    f"On a machine with {world} GPUs: {fault}",
                    ONE_GPU_EACH if TWO_GPUS.search(fault) else TO_THE_DEVICE,
                )
            judge(outcome)
            places = [] if fault else [rank.values.get("places") for rank in outcome.ranks]
            continue
        _, ended = judged(
            judge, partial(evaluate, values={**options(shape), "gpus": 1}, env=on_nodes(1, world))
        )
        if ended is not None:
            _judge_without_gpus(check, world, judge, partial(evaluate, values=options(shape)))
            if IN_EVALUATE in ended.feedback.message:
                of_nodes.append((world, ended.feedback.message))
    insist_on_sums_on_the_device(check, [fault])
    _insist_on_a_gpu_for_each(check, places)
    for world, message in of_nodes[:1]:
        insist_on_gpus_of_the_node(check, world, message)


def _judge_without_gpus(
    check: Check, world: int, judge: Callable[[Outcome], None], evaluate: Callable[..., Outcome]
) -> None:
    """End the check where evaluate is wrong on several nodes; where it is so on one machine, too, say that."""
    seen, ended = judged(judge, partial(evaluate, env=on_nodes(1, world)))
    if ended is None:
        return
    judge(evaluate())
    if seen is not None:
        check.fail(
            f"On one machine evaluate is right, but not on {world} nodes with one rank each, where LOCAL_RANK is 0 and "
            f"LOCAL_WORLD_SIZE 1 on all. There: {ended.feedback.message}",
            "LOCAL_RANK and LOCAL_WORLD_SIZE count within a node: which items are a rank's own goes by its number among all, "
            "dist.get_rank() of dist.get_world_size(), as in the sampler's rank and num_replicas.",
            points=check.points / 2,
        )


def _one_evaluation(check: Check, case: Evaluation, outcome: Outcome) -> None:
    """End the check where what evaluate returned is not the accuracy, or its loader's order hangs on the seed."""
    world, n, even = case.world, len(case.is_right), len(case.is_right_again)
    right, right_again = int(case.is_right.sum()), int(case.is_right_again.sum())
    for rank, seen in enumerate(outcome.ranks):
        value = seen.values.get("accuracy")
        if close(value, right / n, rtol=0, atol=1e-5):
            continue
        check.fail(
            f"evaluate on {world} ranks over {n} items, {right} of which the model gets right: rank {rank} returned "
            f"{shown(value)}, expected {right / n:.6f}.",
            _accuracy_hint(value, right, n, outcome, case.data, case.is_right),
        )
    for rank, seen in enumerate(outcome.ranks):
        value = seen.values.get("again")
        check.expect(
            close(value, right_again / even, rtol=0, atol=1e-5),
            f"evaluate on {world} ranks returns the accuracy over {n} items, but when it is called again, with {even} items "
            f"and other labels, rank {rank} returned {shown(value)}, expected {right_again / even:.6f}.",
            f"Begin each call with counts of 0. And {even} is {world} times {even // world}: nothing was repeated to fill up "
            f"the shares, and nothing is to be left out. {world} - n % {world} is {world} then, -n % {world} is 0.",
            points=check.points / 2,
        )
    for rank, seen in enumerate(outcome.ranks):
        orders = [case.data.find(seen.arrays.get(f"order{which}", np.zeros(0))) for which in (0, 1)]
        check.expect(
            orders[0] is not None and orders[0] == orders[1],
            f"make_loader(..., shuffle=False) on rank {rank} of {world}: the order of the items depends on the seed.",
            "Hand shuffle on to the sampler: DistributedSampler(dataset, shuffle=shuffle, ...) shuffles by default.",
        )


def _coins(rng: np.random.Generator, n: int) -> Array:
    return rng.random(n) < 0.5


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
        return "Accuracy is a fraction between 0 and 1: divide the right answers of all ranks by the items of all ranks."
    if len(set(values)) > 1:
        return "The ranks disagree: add up right answers and items over all ranks with dist.all_reduce before dividing."
    padded = bool(orders) and close(seen, accuracies.mean_over_items(orders, is_right), rtol=0, atol=1e-5)
    if not padded and any(
        close(seen, mean, rtol=0, atol=1e-5) for mean in accuracies.means_of_ranks(orders, is_right)
    ):
        return (
            "Every rank returned what one of them counted in its own share: nothing of the others arrived. all_reduce changes "
            "the very tensor that it is given, and all_gather wants a tensor for each rank, "
            "[torch.zeros_like(x) for _ in range(world)]: `[torch.zeros_like(x)] * world` is one of them several times."
        )
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
    cut = accuracies.cut_at_the_end(accuracies.shares(n, len(outcome.ranks)), is_right)
    if not padded and close(seen, cut, rtol=0, atol=1e-5):
        return (
            f"That is the share of right answers where all ranks' shares are put one behind the other, [:{n}] of them. "
            "DistributedSampler deals the items out like cards, so that what it repeats stands at the end of several shares, not "
            "of the last one alone: each rank leaves out its own, or item i * world_size + rank goes back to its place first."
        )
    if padded or (abs(seen - right / n) < (len(outcome.ranks) - 1) / n):
        return (
            "DistributedSampler repeats items until all shares are equally long, and those count twice here. Leave "
            "the repeated ones out, or give each rank its share without padding; and read the whole loader (no `break`)."
        )
    return (
        "Call model.eval() first (this model has dropout), count right answers and items of the whole loader (no `break`), "
        "add both up over all ranks with dist.all_reduce, then divide."
    )
