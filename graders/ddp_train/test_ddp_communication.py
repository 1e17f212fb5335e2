"""Exercise 4, the communication: other data on every rank, and what was made of it shared with the others."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from fixtures import cifar10
from graders.ddp_train import expected
from graders.ddp_train.batches import fed_by_step
from graders.ddp_train.expected import Batch, Data, Shape, Training
from graders.ddp_train.hints import ORDER_HINT, WRAP_HINT
from graders.ddp_train.probe.checkpoints import CHECKPOINT
from graders.ddp_train.runs import LR, MOMENTUM, options, rank_seeds
from graders.ddp_train.script_runs import SCRIPT_LIMITS, TEST_IMAGES
from graders.ddp_train.shares_read import epochs_read, learned_from, most_in_common, most_left_out
from graders.ddp_train.weights import differing, has_gradients, unlike
from lockstep.batchloop import LOOPS, Loop
from lockstep.check import Check, Inputs
from lockstep.compare import difference, elements, integer, shown
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.wire import Array, Json

SCRIPT_BATCH, SCRIPT_IMAGES, SCRIPT_EPOCHS = 4, 24, 2  # three steps in an epoch of two ranks
MANY_TESTS = 4  # the part of the images of its steps from which on a script learns from test images
MANY = 4
"""Times the usual bytes between ranks from which on a student is told: a sum by hand or checks of one's own stay below."""


def test_really_communicates(check: Check) -> None:
    """The ranks work on different data and exchange their gradients in every step."""
    world = check.world_sizes[0]
    shape = expected.make_shape(check.rng, hidden=120)
    weights = expected.make_weights(check.rng, shape)
    batch_size, n_steps = 3, 6
    # Every rank has images nobody else has: bytes alone do not tell what is in them.
    data = [expected.make_data(check.rng, world * batch_size * n_steps) for _ in range(world)]
    outcome = check.run(
        "train",
        ranks=world,
        # The second epoch: ranks that do not all hear of its number share it out wrongly.
        values=options(shape, batch_size=batch_size, epochs=[1]),
        arrays=expected.as_inputs(weights),
        per_rank=[Inputs(s, own.arrays()) for s, own in zip(rank_seeds(check, world), data, strict=True)],
    )
    steps = fed_by_step(check, outcome, data, batch_size)
    for step, ranks in enumerate(steps):
        check.expect(
            len({frozenset(batch) for batch in ranks}) > 1,
            f"Step {step + 1} of train_one_epoch on {world} ranks: every rank trained on the same batch. The weights "
            "stay equal that way, but the work is done once per rank instead of being shared.",
            "make_loader needs DistributedSampler(dataset): it gives every rank other items.",
        )
    if outcome.loopback_bytes is None:
        check.note("How many bytes went between the ranks can only be counted in the sandbox.")
        return
    training = Training(shape, weights, lr=LR, momentum=MOMENTUM)
    size = sum(v.numel() * 4 for v in training.model.parameters() if v.requires_grad)
    least = size * (world - 1) * len(steps)
    check.expect(
        outcome.loopback_bytes >= least,
        f"{len(steps)} steps of train_one_epoch on {world} ranks exchanged {outcome.loopback_bytes / 1e6:.2f} MB; "
        f"averaging the gradients of this model takes at least {least / 1e6:.2f} MB.",
        WRAP_HINT
        if has_gradients(outcome.ranks)
        else f"No parameter had a gradient to average. {ORDER_HINT}",
    )
    check.expect(
        any(_as_one(outcome, shape, weights, data, steps, loop) for loop in LOOPS)
        or _in_gradients(outcome, training, data, steps[0]),
        f"{len(steps)} steps of train_one_epoch on {world} ranks exchanged {outcome.loopback_bytes / 1e6:.2f} MB, but "
        "neither the gradients nor the weights of a rank show what the other ranks' batches would do to them.",
        WRAP_HINT,
    )
    # Where the functions let the ranks go apart, other checks say why.
    if unlike(outcome.ranks, "final") is None:
        seen = _script_trains_together(check, whole=max(map(len, chain(*steps)), default=0) == batch_size)
        _script_leaves_tests_alone(check, seen)
        items = [item for batch in chain(*steps) for item in batch]
        # Where the functions share out otherwise, sampler_disjoint says so.
        if len(set(items)) == len(items):
            _script_shares_out(check, seen)
    # Each rank sends and receives every gradient once over; by hand it may be twice that, and the first weights.
    usual = 2 * least
    if outcome.loopback_bytes > MANY * usual:
        check.note(
            f"{len(steps)} steps exchanged {outcome.loopback_bytes / 1e6:.1f} MB, where averaging the gradients takes "
            f"about {usual / 1e6:.1f} MB: something is sent again and again. That costs time, and no points."
        )


def _as_one(
    outcome: Outcome,
    shape: Shape,
    weights: dict[str, Array],
    data: Sequence[Data],
    steps: Sequence[Sequence[Batch]],
    loop: Loop,
) -> bool:
    """Whether all ranks ended with the weights of one process that trains on all their batches."""
    training = Training(shape, weights, lr=LR, momentum=MOMENTUM, loop=loop).run(data, steps)
    return differing(outcome.ranks, "final", training.state(), "") is None


def _in_gradients(outcome: Outcome, training: Training, data: Sequence[Data], ranks: Sequence[Batch]) -> bool:
    """Whether every rank's first gradient is the mean, or holds a part of the others', in whatever proportion.

    Of batches of one item a rank's part may be too small to be told from none; the mean can still not be had without it.
    """
    if not all(ranks):
        return False
    local = [training.local_gradients(own, batch) for own, batch in zip(data, ranks, strict=True)]
    mean = expected.mean_over_ranks(local)
    return differing(outcome.ranks, "grad0", mean, "") is None or all(
        any(
            expected.is_mixed(seen.arrays.get(f"grad0/{name}"), [one[name] for one in local], number)
            for name in mean
        )
        for number, seen in enumerate(outcome.ranks)
    )


def _script_trains_together(check: Check, *, whole: bool) -> Outcome:
    """End the check where the functions train together, but the script on two ranks does not; half of that is there.

    Of what is not seen, as where a script has a network or an optimizer of its own kind, nothing is said. `whole` says
    whether make_loader makes batches as large as it is told.
    """
    outcome = check.run(
        "together",
        ranks=2,
        values={
            "arguments": [
                "--training-data", "/data/cifar", "--epochs", str(SCRIPT_EPOCHS), "--batch-size", str(SCRIPT_BATCH), "--lr", "0.05",
                "--checkpoint", CHECKPOINT,
            ],
        },
        data={"cifar": cifar10.make_batches(check.rng, SCRIPT_IMAGES, TEST_IMAGES)},
        limits=SCRIPT_LIMITS,
        shared_files=True,
        expect=False,
    )  # fmt: skip
    first, second = outcome.ranks
    before, *after = (_held_by_both(first, second, f"after{step}") for step in range(3))
    moved = [pair for pair in after if pair is not None]
    # Before the first step a network may still be what one rank alone has made of it.
    if before is None or not moved:
        return outcome
    still = all(np.array_equal(now, then) for pair in moved for now, then in zip(pair, before, strict=True))
    check.expect(
        not still or any(rank.values.get("gradients") is not False for rank in (first, second)),
        "train_one_epoch trains, but in ddp_train.py on two ranks no parameter that the optimizer holds ever has a gradient, "
        "and the network stays as it was.",
        "Make the optimizer of the parameters of the model that is trained: torch.optim.SGD(model.parameters(), ...).",
        points=check.points / 2,
    )
    apart = [difference(own, other, rtol=1e-4, atol=1e-6, what="") for own, other in moved]
    check.expect(
        None in apart,
        "train_one_epoch keeps the ranks' weights equal, but in ddp_train.py on two ranks they go apart at the first step "
        f"({(apart[0] or '').strip()} that were compared of the network): each rank trains a network of its own there.",
        "Keep what wrap_model returns and train that, `model = wrap_model(model, device)`: the model that was given to it "
        "averages nothing. Who averages by hand does so for every parameter that has a gradient, the filters of convolutions, "
        "which have four dimensions, among them.",
        points=check.points / 2,
    )
    found = [rank.values.get("batches") for rank in (first, second)]
    batches = [[shown(name) for name in one[:2]] if isinstance(one, list) else [] for one in found]
    check.expect(
        # Two that differ: what is made up to try a network once may be the same everywhere.
        batches[0] != batches[1] or len(set(batches[0])) < 2,
        "make_loader shares out the data, but in ddp_train.py on two ranks both train on the same batches: the whole work is "
        "done twice.",
        "Make the loaders of main with make_loader, whose DistributedSampler gives every rank other items.",
        points=check.points / 2,
    )
    check.expect(
        not whole or not all(is_divided(rank.values.get("rows")) for rank in (first, second)),
        f"make_loader makes batches as large as it is told, but in ddp_train.py --batch-size {SCRIPT_BATCH} on two ranks every "
        f"step of a rank is made of {SCRIPT_BATCH // 2} images: the size is divided by the number of ranks.",
        "--batch-size is of one process: make_loader(train_data, args.batch_size, seed=args.seed). So a step of N ranks sees "
        "N times as many images, which is what --scale-lr is for.",
        points=check.points / 2,
    )
    _plans_go_on_everywhere(check, first, second)
    late = _held_by_both(first, second, "late")
    steps = first.values.get("late")
    # As far as the steps above it is the same.
    further = (
        isinstance(steps, list)
        and steps == second.values.get("late")
        and any((integer(n) or 0) > 2 for n in steps)
    )
    check.expect(
        late is None or not further or difference(*late, rtol=1e-4, atol=1e-6) is None,
        "train_one_epoch keeps the ranks' weights equal, and so does ddp_train.py --epochs 2 --checkpoint FILE on two ranks at "
        "first, but when it comes to its last step they have gone apart: by then each rank trains a network of its own.",
        "Train what wrap_model returned in every epoch. Where main wants the plain model, as for a checkpoint, give that "
        "another name, `plain = model.module`: `model = model.module` takes the wrapper away for all epochs that follow.",
        points=check.points / 2,
    )
    return outcome


def _plans_go_on_everywhere(check: Check, first: RankOutcome, second: RankOutcome) -> None:
    """End the check where a schedule of the learning rate goes on in every epoch on rank 0, and never on rank 1."""
    here, there = (elements(rank.values.get("plans")) for rank in (first, second))
    if len(here) != len(there):
        return
    for own, other in zip(here, there, strict=True):
        match own, other:
            # Rank 0 may plan for all, and hand its rate on: then neither rate is the first.
            case [[int() as gone_on, bool() as is_first], [0, bool() as is_first_there]] if (
                gone_on >= SCRIPT_EPOCHS and (is_first or is_first_there)
            ):
                check.fail(
                    f"train_one_epoch keeps the ranks' weights equal, but in ddp_train.py --epochs {SCRIPT_EPOCHS} on two ranks "
                    f"the schedule of the learning rate went on {gone_on} times on rank 0, and never on rank 1. Once it changes "
                    "the rate, the ranks take steps of other sizes, and their weights go apart.",
                    "Call scheduler.step() on every rank, outside of `if rank == 0:`.",
                    points=check.points / 2,
                )


def _script_leaves_tests_alone(check: Check, outcome: Outcome) -> None:
    """End the check where the script on two ranks learns from test images; half of that is there."""
    found = [learned_from(rank.values.get("learned")) for rank in outcome.ranks]
    images, tests = (sum(numbers) for numbers in zip(*found, strict=True))
    # Of the images of both kinds a third are test images; a few may have been looked at.
    check.expect(
        tests == 0 or tests < images / MANY_TESTS,
        f"train_one_epoch trains on what its loader gives it, but in ddp_train.py on two ranks {tests} of {images} images that "
        "were seen to go into a step are test images, of `test_batch`; expected are those of `data_batch_*` alone. The accuracy "
        "over images that the network has learned from says nothing of new ones.",
        "In main, train_loader is of datasets.CIFAR10(args.training_data, train=True, ...) and nothing else; what has "
        "train=False is for the loader of evaluate.",
        points=check.points / 2,
    )


def _script_shares_out(check: Check, outcome: Outcome) -> None:
    """End the check where the functions share out the data, but the script on two ranks does not; half of that is there."""
    share = SCRIPT_IMAGES // 2
    read = [
        epochs_read(rank.values.get("read"), SCRIPT_EPOCHS, share, SCRIPT_BATCH, SCRIPT_IMAGES)
        for rank in outcome.ranks
    ]
    left_out = most_left_out(read, SCRIPT_IMAGES)
    is_late = most_left_out([epochs[:1] for epochs in read], SCRIPT_IMAGES) == 0
    check.expect(
        left_out == 0,
        "make_loader shares out the data where every rank gives it the same seed"
        f"{' and the same epoch' if is_late else ''}, but in ddp_train.py on two ranks over {SCRIPT_IMAGES} images each rank "
        f"trained on {share} in {'a later' if is_late else 'an'} epoch, and {left_out} of these were the other rank's as well: "
        "as many images no rank trained on.",
        "Call train_loader.sampler.set_epoch(epoch) on every rank, not on rank 0 alone: each cuts its share out of the order "
        "that the seed and the epoch make."
        if is_late
        else "Give make_loader the same seed on every rank, make_loader(train_data, args.batch_size, seed=args.seed): each cuts "
        "its share out of the order that this seed makes. A seed of each rank's own, args.seed + rank, is for "
        "torch.manual_seed alone.",
        points=check.points / 2,
    )
    twice = most_in_common(
        [rank.values.get("read") for rank in outcome.ranks], SCRIPT_EPOCHS, SCRIPT_BATCH, SCRIPT_IMAGES
    )
    # One may be there to fill up the shares.
    check.expect(
        twice <= 1,
        f"make_loader shares out the data that every rank gives it alike, but in ddp_train.py on two ranks over {SCRIPT_IMAGES} "
        f"images the ranks had {twice} images in common in an epoch; at most 1 may be repeated to fill up the shares.",
        "Give make_loader the same images in the same order on every rank. What is drawn before, as by random_split, needs the same seed "
        "everywhere: random_split(..., generator=torch.Generator().manual_seed(args.seed)).",
        points=check.points / 2,
    )


def is_divided(rows: Json) -> bool:
    """Whether each step of a rank, in an epoch at least, is made of half as many images as a batch should have."""
    part = SCRIPT_BATCH // 2
    return (
        isinstance(rows, list)
        and len(rows) >= SCRIPT_IMAGES // 2 // part
        and all(integer(n) == part for n in rows)
    )


def _held_by_both(first: RankOutcome, second: RankOutcome, name: str) -> tuple[Array, Array] | None:
    """What two ranks hold under a name; None where one of them has none, or a training that went to infinity."""
    one, other = first.arrays.get(name), second.arrays.get(name)
    if one is None or other is None or one.shape != other.shape:
        return None
    if one.dtype != np.float32 or other.dtype != np.float32 or not np.isfinite([one, other]).all():
        return None
    return one, other
