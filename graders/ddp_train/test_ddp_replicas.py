"""Exercise 4, the replicas: equal at the start, and kept equal by gradients that are averaged in every step.

What came out of the student's ranks is held against a training in one process, here, on the batches that those
ranks were seen to use.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from graders.ddp_train import expected
from graders.ddp_train.batches import fed_by_step
from graders.ddp_train.expected import Batch, Data, Training
from graders.ddp_train.hints import LOOP_FIRST, ORDER_HINT, WRAP_HINT
from graders.ddp_train.runs import LR, MOMENTUM, judged, on_nodes, options, rank_seeds
from graders.ddp_train.weights import differing, first_unless_any, has_gradients, unlike
from lockstep.batchloop import LOOPS
from lockstep.check import Check, Inputs
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.verdict import CheckEnded, Feedback
from lockstep.wire import Array


def test_starts_equal(check: Check) -> None:
    """After wrap_model every rank holds rank 0's weights and buffers."""
    world = max(check.world_sizes)
    shape = expected.make_shape(check.rng, batch_norm=True)
    weights = [expected.make_weights(check.rng, shape) for _ in range(world)]
    outcome = check.run(
        "start",
        ranks=world,
        values={"shape": shape},
        per_rank=[Inputs(arrays=expected.as_inputs(own)) for own in weights],
    )
    training = Training(shape, weights[0], lr=LR, momentum=MOMENTUM)
    held = training.state()
    if all(rank.values.get("own_buffers") is True for rank in outcome.ranks):
        held = training.weights()
        check.note(
            "With broadcast_buffers=False DistributedDataParallel leaves each rank its own buffers, at the start, too: they "
            "have to be made alike."
        )
    wrong = differing(outcome.ranks, "held", held, "")
    if wrong is not None:
        rank, problem = wrong
        check.fail(
            f"Every one of {world} ranks built its model with weights of its own and called wrap_model. Afterwards "
            f"rank {rank} does not hold rank 0's weights: {problem.strip()}.",
            "DistributedDataParallel(model) copies rank 0's parameters and buffers to all ranks when it is "
            "made; nn.DataParallel, which is for several GPUs of one process, does not. Is the model wrapped on every rank, and is the wrapped model what wrap_model returns?",
        )


def test_weights_in_sync(check: Check) -> None:
    """After some steps all ranks hold the same weights: those of one process training on all their batches."""
    for world in check.world_sizes:
        shape = expected.make_shape(check.rng)
        weights = expected.make_weights_of_ranks(check.rng, shape, world)
        batch_size = int(check.rng.integers(2, 5))
        # Every rank has images nobody else has: what is in them can only arrive by communication.
        data = [expected.make_data(check.rng, world * batch_size * 3) for _ in range(world)]
        train = partial(
            check.run,
            "train",
            ranks=world,
            per_rank=[
                Inputs(seed, {**own.arrays(), **expected.as_inputs(held)})
                for seed, own, held in zip(rank_seeds(check, world), data, weights, strict=True)
            ],
        )
        values = options(
            shape, batch_size=batch_size, epochs=[0, 1], optimizer_first=world % 2 == 1, rate_kept=True
        )
        begun = Training(shape, weights[0], lr=LR, momentum=MOMENTUM)
        judge = partial(_one_training, check, begun, data, batch_size)
        has_gpus = world == check.world_sizes[0]
        seen, problem = (
            judged(judge, partial(train, values={**values, "gpus": world}))
            if has_gpus
            else judged(judge, partial(train, values=values, env=on_nodes(1, world)))
        )
        if problem is None and (not has_gpus or len(check.world_sizes) > 1):
            continue
        # On one machine without GPUs it is the training itself that is wrong.
        judge(train(values=values))
        if seen is not None and problem is not None:
            if has_gpus:
                _insist_on_averages_on_gpus(check, seen)
            else:
                _tell_of_nodes(check, world, problem)


def _one_training(
    check: Check, begun: Training, data: Sequence[Data], batch_size: int, outcome: Outcome
) -> None:
    """End the check where the ranks did not end as one process that trains on all their batches does."""
    call = f"train_one_epoch, two epochs on {len(data)} ranks"
    apart = unlike(outcome.ranks, "final")
    check.expect(apart is None, f"{call}: the ranks' weights are not equal: {apart}.", WRAP_HINT)
    steps = fed_by_step(check, outcome, data, batch_size)
    alone = (begun.anew(loop).run(data, steps) for loop in LOOPS)
    wrong = first_unless_any(
        differing(outcome.ranks, "final", training.state(), "the weight") for training in alone
    )
    if wrong is not None and differing(outcome.ranks, "final", begun.weights(), "") is None:
        check.fail(
            f"{call}: the ranks agree with each other, but the weights are what they were before the first step.",
            "An optimizer that is made before wrap_model, which DistributedDataParallel allows, has to go on stepping "
            f"the parameters that are trained: wrap the very model that is given, not a copy of it. {ORDER_HINT}"
            if has_gradients(outcome.ranks)
            else f"No parameter that the optimizer holds ever had a gradient. {ORDER_HINT} And who makes the optimizer before "
            "wrap_model has to wrap the very model that is given, not a copy of it.",
        )
    if wrong is not None:
        check.fail(
            f"{call}: the ranks agree with each other, but not with one process that trains on all their "
            f"batches ({wrong[1]}).",
            f"Each step has to average the gradients of all ranks before optimizer.step(), once. {WRAP_HINT} {LOOP_FIRST}",
        )
    # The steps were made at the rate given all the same; at their own the ranks would have gone apart.
    other = unlike(outcome.ranks, "rates")
    check.expect(
        other is None,
        f"{call}: the ranks set other learning rates than one another, {other}: at those their weights go apart.",
        "Every rank has an optimizer of its own: a schedule has to be stepped on all of them, not on rank 0 alone, and to "
        "go by what is the same on all ranks.",
    )


def _insist_on_averages_on_gpus(check: Check, seen: Outcome) -> None:
    """End the check where ranks with a GPU each go apart from the first step on; without GPUs they were right."""
    apart = apart_from_the_first_step(seen.ranks)
    check.expect(
        apart is None,
        f"Without GPUs train_one_epoch keeps the ranks' weights equal, but on {len(seen.ranks)} ranks with a GPU each, emulated "
        "ones, the optimizer of each rank saw other gradients in the first step, expected their mean on all, and afterwards "
        f"the weights are not equal: {apart}.",
        f"What does your code do otherwise where device.type is cuda? {WRAP_HINT} That holds for torch.compile, too: "
        "torch.compile(model) of the wrapped model.",
        points=check.points / 2,
    )


def apart_from_the_first_step(ranks: Sequence[RankOutcome]) -> str | None:
    """What differs between the ranks in the end, in words, where their first gradients do so as well.

    What comes of rounding, or of GPUs that are emulated, is the same on all ranks once it is averaged.
    """
    apart = unlike(ranks, "final")
    return apart if unlike(ranks, "grad0") is not None else None


def _tell_of_nodes(check: Check, world: int, problem: CheckEnded) -> None:
    """End the check where ranks that are right on one machine are not so on a node each."""
    check.fail(
        f"On one machine {world} ranks train together, but not where each is on a node of its own, with LOCAL_RANK 0 and "
        f"LOCAL_WORLD_SIZE 1. There: {problem.feedback.message}",
        "LOCAL_RANK and LOCAL_WORLD_SIZE count within a node, and the training is that of all nodes: average over "
        "dist.get_world_size() ranks. DistributedDataParallel(model) and dist.all_reduce(tensor) do so where they are "
        "given no group of their own.",
        points=check.points / 2,
    )


def test_gradients_averaged(check: Check) -> None:
    """What the optimizer sees is the mean over the ranks of their gradients, in every step."""
    world = check.world_sizes[0]
    shape = expected.make_shape(check.rng)
    weights = expected.make_weights(check.rng, shape)
    # So many steps that averaging which is left off after a while shows; the last batch is a short one.
    batch_size, n_steps = 3, int(check.rng.integers(70, 130))
    n = world * (batch_size * (n_steps - 1) + 1)
    data = [expected.make_data(check.rng, n) for _ in range(world)]
    looked_at = [0, 1, 2, int(check.rng.integers(n_steps - 6, n_steps - 1)), n_steps - 1]
    # One of the later epochs: weights_in_sync has the first ones.
    epoch = int(check.rng.integers(2, 7))
    # With lr 0 the weights stay, and each step's gradient can be told apart from the ones before it.
    outcome = check.run(
        "train",
        ranks=world,
        values=options(shape, lr=0.0, batch_size=batch_size, epochs=[epoch], gradients_of=[*looked_at]),
        arrays=expected.as_inputs(weights),
        per_rank=[Inputs(s, own.arrays()) for s, own in zip(rank_seeds(check, world), data, strict=True)],
    )
    steps = fed_by_step(check, outcome, data, batch_size)
    looked_at = [step for step in looked_at if step < len(steps)]
    plain, *others = (Training(shape, weights, lr=0.0, momentum=0.0, loop=loop) for loop in LOOPS)
    problems = (
        _not_averaged(
            outcome,
            epoch,
            step,
            [plain.local_gradients(own, batch) for own, batch in zip(data, steps[step], strict=True)],
        )
        for step in looked_at
    )
    found = next(filter(None, problems), None)
    if found is not None and not any(_are_means(outcome, each, data, steps, looked_at) for each in others):
        check.fail(found.message, found.hint)
    _whole_epoch(check, len(steps), n_steps, world)


def _whole_epoch(check: Check, made: int, wanted: int, world: int) -> None:
    """End the check where an epoch is broken off, though its length is right where it has a few steps."""
    # Shares that are cut in another way may leave a rank one step short.
    check.expect(
        made >= wanted - 1,
        f"train_one_epoch on {world} ranks made {made} {'step' if made == 1 else 'steps'} in an epoch of "
        f"{wanted}: the rest of the data is left out.",
        "Go through the whole loader. Is a `break` left over from debugging, a `return` in the loop that belongs "
        "behind it, or a limit on the number of batches?",
        points=check.points / 2,
    )


def _are_means(
    outcome: Outcome,
    training: Training,
    data: Sequence[Data],
    steps: Sequence[Sequence[Batch]],
    looked_at: Sequence[int],
) -> bool:
    """Whether the optimizer saw in the steps that are looked at what it sees in a training of this kind."""
    for step, ranks in enumerate(steps):
        gradients = training.gradients(data, ranks)
        if step in looked_at and differing(outcome.ranks, f"grad{step}", gradients, "") is not None:
            return False
    return True


def _not_averaged(
    outcome: Outcome, epoch: int, step: int, local: Sequence[dict[str, Array]]
) -> Feedback | None:
    """What the optimizer saw in a step instead of the mean of these gradients; None where it saw that."""
    world = len(local)
    mean = expected.mean_over_ranks(local)
    wrong = differing(outcome.ranks, f"grad{step}", mean, "the gradient of")
    if wrong is None:
        return None
    rank, problem = wrong
    where = f"Step {step + 1} of train_one_epoch(..., epoch={epoch}) on {world} ranks: when the optimizer stepped on rank {rank}, "
    if not any(name.startswith(f"grad{step}/") for name in outcome.ranks[rank].arrays):
        return Feedback(f"{where}no parameter had a gradient.", ORDER_HINT)
    total, part = (
        {name: value * np.float32(factor) for name, value in mean.items()} for factor in (world, 1 / world)
    )
    prefix = f"grad{step}"
    if differing(outcome.ranks, prefix, total, "") is None:
        cause = f"It is the sum over the {world} ranks: divide by the world size."
    elif differing(outcome.ranks, prefix, part, "") is None:
        cause = (
            f"It is the mean over the {world} ranks, divided by {world} once more. DistributedDataParallel takes the mean by "
            "itself: divide neither the loss nor the gradients by the world size."
        )
    elif all(
        differing([seen], prefix, own, "") is None for seen, own in zip(outcome.ranks, local, strict=True)
    ):
        cause = f"It is the rank's own gradient: nothing was averaged. {WRAP_HINT}"
        if step > 0:
            cause = (
                "It is the rank's own gradient: earlier steps were averaged, this one was not. Every batch needs it, the "
                "short last one as well: no_sync() and hooks that leave it out now and then let the replicas go apart."
            )
    else:
        right = [name for name in mean if differing(outcome.ranks, prefix, {name: mean[name]}, "") is None]
        cause = (
            f"Right are only {', '.join(right)}: are all parameters averaged?"
            if right
            else f"{WRAP_HINT} {LOOP_FIRST}"
        )
    return Feedback(
        f"{where}{problem} from the mean over the ranks.",
        cause,
    )
