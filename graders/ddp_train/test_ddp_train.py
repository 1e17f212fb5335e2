"""Exercise 4: DDP, judged on several ranks with hidden models and data.

Most checks hold two things against each other: what came out of the student's ranks, and a training in
one process, here, on the batches that those ranks were seen to use.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from fixtures import cifar10
from graders.ddp_train import expected
from graders.ddp_train.expected import Batch, Data, Shape, Training
from lockstep import explain
from lockstep.check import Check, Inputs
from lockstep.compare import close, difference, integer, number, shown
from lockstep.devicefault import is_device_fault
from lockstep.sandbox.limits import MIB, Limits
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.text import safe
from lockstep.verdict import CheckEnded, Crashed, Hung
from lockstep.wire import Array, Json

# A larger step makes two right trainings drift apart by the rounding alone: at 0.2 a thousandfold in 24 steps.
LR, MOMENTUM = 0.05, 0.9
# float32 sums in another order differ by about 1e-7 of their size; the mistakes differ by 1e-3 and more.
CLOSE = {"rtol": 2e-4, "atol": 5e-6}
SCRIPT_LIMITS = Limits(disk=512 * MIB)  # a checkpoint of ResNet-18 with momentum is 90 MB
SCRIPT_ENDS_SECONDS = 20.0
OTHER_NPROC = 1  # more than there are cores a script may refuse
RESNET18_BYTES = 44_000_000
MANY = 4
"""Times the usual bytes between ranks from which on a student is told: a sum by hand or checks of one's own stay below."""

# What DistributedDataParallel says of a model on the CPU for which it is given the number of a GPU.
NOT_MOVED = "only work with single-device"
TO_THE_DEVICE = (
    "Move the model, the images and the labels to the device that your function is given, and make tensors of your own "
    "there."
)
LOCAL_RANK_HINT = "RANK counts over all nodes; the number of a GPU within its node is LOCAL_RANK."
DEVICE_HINT = "Return the device: cuda:LOCAL_RANK where torch.cuda.is_available(), else torch.device('cpu')."
WRAP_HINT = (
    "wrap_model has to return DistributedDataParallel(model), and train_one_epoch has to call that wrapped "
    "model, not model.module: only its forward prepares the averaging that backward() does."
)


def options(
    shape: Shape, *, lr: float = LR, batch_size: int = 4, seed: int = 0, **more: Json
) -> dict[str, Json]:
    """What the probe's training functions are told."""
    return {
        "shape": shape, "lr": lr, "momentum": MOMENTUM, "batch_size": batch_size, "seed": seed,
        "rank_seed": 0, "epochs": [0], **more,
    }  # fmt: skip


def rank_seeds(check: Check, world: int) -> list[dict[str, Json]]:
    """A different state of torch's generator for each rank."""
    return [{"rank_seed": int(value)} for value in check.rng.choice(1 << 20, world, replace=False)]


def on_nodes(size: int, world: int) -> list[dict[str, str]]:
    """What torchrun's variables say of ranks of which `size` are on each node."""
    return [
        {
            "LOCAL_RANK": str(rank % size), "LOCAL_WORLD_SIZE": str(size), "GROUP_RANK": str(rank // size),
            "NODE_RANK": str(rank // size), "GROUP_WORLD_SIZE": str(world // size),
        }
        for rank in range(world)
    ]  # fmt: skip


def fed(check: Check, rank: RankOutcome, data: Data, number_of_rank: int) -> list[Batch]:
    """The batches that reached a rank's model; ends the check when they are not the data set's."""
    found = expected.batches(rank, data)
    if not found:
        check.fail(
            f"train_one_epoch on rank {number_of_rank}: {'no batch' if found is not None else 'something else than batches'}"
            " of the data set reached the model.",
            "Loop over the loader and hand its images to the model as they come, on the right device.",
        )
    return found


def differing(
    ranks: Sequence[RankOutcome], prefix: str, wanted: dict[str, Array], what: str
) -> tuple[int, str] | None:
    """The first rank and value that is not as wanted: missing, of another shape, not finite, or different."""
    for number_of_rank, rank in enumerate(ranks):
        for name, value in wanted.items():
            seen = rank.arrays.get(f"{prefix}/{name}")
            problem = difference(seen, value, what=f"{what} {name}", **CLOSE)
            if problem is not None:
                return number_of_rank, problem
    return None


def unlike(ranks: Sequence[RankOutcome], prefix: str) -> str | None:
    """A value that some rank holds differently from rank 0, in words."""
    first = {name: value for name, value in ranks[0].arrays.items() if name.startswith(f"{prefix}/")}
    for number_of_rank, rank in enumerate(ranks[1:], 1):
        for name, value in first.items():
            problem = difference(
                rank.arrays.get(name), value, rtol=1e-6, atol=1e-7, what=name.partition("/")[2]
            )
            if problem is not None:
                return f"between rank 0 and rank {number_of_rank}, {problem}"
    return None


# The group and the weights


def test_joins_group(check: Check) -> None:
    """setup() joins the group that torchrun's variables describe, and picks the device by LOCAL_RANK."""
    for world in (2, 3):
        try:
            _joined(check, world)
        except CheckEnded as ended:
            # Where not even two ranks find together, every other check would only hang or fail of it.
            ended.spoils = world == 2
            raise
    _given(check)
    _two_nodes(check)
    if check.real_gpus:
        _on_a_gpu(check)
    _two_jobs(check)


def _joined(check: Check, world: int) -> None:
    numbers = check.rng.integers(1, 1 << 40, world)
    outcome = check.run(
        "join", ranks=world, per_rank=[Inputs(arrays={"number": np.array([value])}) for value in numbers]
    )
    for rank, seen in enumerate(outcome.ranks):
        call = f"setup() on rank {rank} of {world}, from torchrun's variables"
        _in_group(check, seen, rank, world, int(numbers.sum()), call)
        device, backend = seen.values.get("device"), seen.values.get("backend")
        check.expect(
            isinstance(device, str) and device == "cpu",
            f"setup() on a machine without a GPU returned {shown(device)}, expected torch.device('cpu').",
            DEVICE_HINT,
        )
        check.expect(
            backend == "gloo",
            f"setup() on a machine without a GPU joined with backend {shown(backend)}, expected gloo.",
            "nccl only works between GPUs: choose the backend by torch.cuda.is_available().",
        )


def _given(check: Check) -> None:
    """Two ranks that are told where to meet, and to use gloo although there are GPUs."""
    numbers = check.rng.integers(1, 1 << 40, 2)
    outcome = check.run(
        "join",
        ranks=2,
        values={"gpus": 2, "meeting": "meet", "backend": "gloo"},
        per_rank=[Inputs(arrays={"number": np.array([value])}) for value in numbers],
        # What file:// says must not be needed from the environment.
        env={"MASTER_ADDR": "nowhere.invalid"},
        shared_files=True,
    )
    for rank, seen in enumerate(outcome.ranks):
        call = (
            f"setup(backend='gloo', init_method='file://...') on rank {rank} of 2, on a machine with two GPUs"
        )
        _in_group(check, seen, rank, 2, int(numbers.sum()), call)
        check.expect(
            seen.values.get("backend") == "gloo",
            f"{call}, joined with backend {shown(seen.values.get('backend'))}, expected gloo.",
            "A backend that is given is the one to use. Choose between nccl and gloo only where it is None.",
        )
        device = seen.values.get("device")
        # Who trains by gloo may do so on the CPU.
        check.expect(
            device in (f"cuda:{rank}", "cpu"),
            f"{call}, returned {shown(device)}, expected cuda:{rank}.",
            LOCAL_RANK_HINT,
        )


def _in_group(check: Check, seen: RankOutcome, rank: int, world: int, total: int, call: str) -> None:
    check.expect(
        seen.values.get("initialized") is True,
        f"{call}: no process group was joined.",
        "setup has to call torch.distributed.init_process_group.",
    )
    for name, wanted, variable in (("rank", rank, "RANK"), ("world_size", world, "WORLD_SIZE")):
        value = seen.values.get(name)
        check.expect(
            integer(value) == wanted,
            f"{call}: {name} is {shown(value)}, expected {wanted}.",
            f"Take it from the environment variable {variable}, or leave it to init_process_group.",
        )
    problem = difference(
        seen.arrays.get("total"), np.array([total]), what="the sum of one number of each rank"
    )
    check.expect(problem is None, f"{call}: {problem}.", "Did the ranks all join one and the same group?")


def _two_nodes(check: Check) -> None:
    """Ranks 2 and 3 of a second node with two GPUs, in a group of their own kind: LOCAL_RANK is not RANK."""
    numbers = check.rng.integers(1, 1 << 40, 4)
    try:
        outcome = check.run(
            "join",
            ranks=4,
            values={"gpus": 2},
            env=on_nodes(2, 4),
            per_rank=[Inputs(arrays={"number": np.array([value])}) for value in numbers],
        )
    except Crashed as ended:
        if "device ordinal" not in ended.feedback.message:
            raise
        raise Crashed(
            f"On two nodes with two GPUs each, where LOCAL_RANK is 0 or 1: {ended.feedback.message}",
            f"That node has no such GPU. {LOCAL_RANK_HINT}",
        ) from None
    for rank, seen in enumerate(outcome.ranks):
        call = f"setup() on rank {rank} of 4 on two nodes with two GPUs each (LOCAL_RANK {rank % 2})"
        _in_group(check, seen, rank, 4, int(numbers.sum()), call)
        device = seen.values.get("device")
        check.expect(
            device == f"cuda:{rank % 2}",
            f"{call} returned {shown(device)}, expected cuda:{rank % 2}.",
            DEVICE_HINT if device == "cpu" else LOCAL_RANK_HINT,
        )
        check.expect(
            seen.values.get("backend") == "nccl",
            f"{call} did not ask for the nccl backend.",
            "With GPUs the backend is nccl, without them gloo, unless setup is given another.",
        )


def _on_a_gpu(check: Check) -> None:
    """One rank on a real GPU: nccl refuses two on the same."""
    number = check.rng.integers(1, 1 << 40, 1)
    env = {"CUDA_VISIBLE_DEVICES": "0"}
    (seen,) = check.run(
        "join", ranks=1, values={"gpus": 1}, arrays={"number": number}, env=env, seconds=60.0
    ).ranks
    call = "setup() on one rank with a real GPU"
    _in_group(check, seen, 0, 1, int(number[0]), call)
    for what, wanted in (("device", "cuda:0"), ("backend", "nccl")):
        check.expect(
            seen.values.get(what) == wanted,
            f"{call}: {what} is {shown(seen.values.get(what))}, expected {wanted}.",
            "With a GPU the device is cuda:LOCAL_RANK and the backend nccl.",
        )


def _two_jobs(check: Check) -> None:
    """Two jobs of two ranks on one machine, as two students on one node: each has a port of its own."""
    numbers = check.rng.integers(1, 1 << 40, 4)
    ports = (29511, 29533)
    env = [{"RANK": str(r % 2), "LOCAL_RANK": str(r % 2), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
            "MASTER_PORT": str(ports[r // 2])} for r in range(4)]  # fmt: skip
    per_rank = [Inputs(arrays={"number": np.array([value])}) for value in numbers]
    try:
        outcome = check.run("join", ranks=4, env=env, per_rank=per_rank, seconds=8.0)
    except CheckEnded as ended:
        check.fail(
            "Two jobs of two ranks each, started at the same time on one machine with different MASTER_PORTs, "
            f"got in each other's way. {ended.feedback.message}",
            "Do not write MASTER_ADDR or MASTER_PORT into the file: torchrun sets them, for every job others.",
        )
    for rank, seen in enumerate(outcome.ranks):
        job = rank // 2
        total = int(numbers[2 * job : 2 * job + 2].sum())
        _in_group(
            check,
            seen,
            rank % 2,
            2,
            total,
            f"setup() on rank {rank % 2} of the {'second' if job else 'first'} of two jobs",
        )


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
            "made. Is the model wrapped on every rank, and is the wrapped model what wrap_model returns?",
        )


def test_weights_in_sync(check: Check) -> None:
    """After some steps all ranks hold the same weights: those of one process training on all their batches."""
    for world in check.world_sizes:
        shape = expected.make_shape(check.rng)
        weights = expected.make_weights_of_ranks(check.rng, shape, world)
        batch_size = int(check.rng.integers(2, 5))
        # Every rank has images nobody else has: what is in them can only arrive by communication.
        data = [expected.make_data(check.rng, world * batch_size * 3) for _ in range(world)]
        outcome = check.run(
            "train",
            ranks=world,
            values=options(shape, batch_size=batch_size, epochs=[0, 1], optimizer_first=world % 2 == 1),
            per_rank=[
                Inputs(seed, {**own.arrays(), **expected.as_inputs(held)})
                for seed, own, held in zip(rank_seeds(check, world), data, weights, strict=True)
            ],
        )
        call = f"train_one_epoch, two epochs on {world} ranks"
        apart = unlike(outcome.ranks, "final")
        check.expect(apart is None, f"{call}: the ranks' weights are not equal: {apart}.", WRAP_HINT)
        steps = _steps(check, outcome, data)
        training = Training(shape, weights[0], lr=LR, momentum=MOMENTUM)
        for ranks in steps:
            training.step(data, ranks)
        wrong = differing(outcome.ranks, "final", training.state(), "the weight")
        if wrong is not None:
            check.fail(
                f"{call}: the ranks agree with each other, but not with one process that trains on all their "
                f"batches ({wrong[1]}).",
                "Each step has to average the gradients of all ranks before optimizer.step(), once. "
                + WRAP_HINT,
            )


def _steps(check: Check, outcome: Outcome, data: Sequence[Data]) -> list[list[Batch]]:
    """The ranks' batches, step by step. Every rank must have made as many, one step per batch."""
    own = [fed(check, rank, data[number], number) for number, rank in enumerate(outcome.ranks)]
    counts = [len(batches) for batches in own]
    check.expect(
        min(counts) > 0,
        "train_one_epoch: no batch reached the model.",
        "Does the loop run, with model(images) in it?",
    )
    for number_of_rank, rank in enumerate(outcome.ranks):
        steps = rank.values.get("steps")
        check.expect(
            isinstance(steps, list) and len(steps) == counts[number_of_rank],
            f"train_one_epoch on rank {number_of_rank}: the model was called for {counts[number_of_rank]} batches, but "
            f"optimizer.step() was called {len(steps) if isinstance(steps, list) else 0} times.",
            "One batch, one step: zero_grad, forward, loss, backward, step.",
        )
    return [[batches[step] if step < len(batches) else () for batches in own] for step in range(max(counts))]


def test_gradients_averaged(check: Check) -> None:
    """What the optimizer sees is the mean over the ranks of their gradients, in every step."""
    world = 2 if check.world_sizes[0] == 2 else check.world_sizes[0]
    shape = expected.make_shape(check.rng)
    weights = expected.make_weights(check.rng, shape)
    # So many steps that averaging which is left off after a while shows; the last batch is a short one.
    batch_size, n_steps = 2, int(check.rng.integers(70, 130))
    n = world * (batch_size * (n_steps - 1) + 1)
    data = [expected.make_data(check.rng, n) for _ in range(world)]
    looked_at = [0, 1, 2, int(check.rng.integers(n_steps - 6, n_steps - 1)), n_steps - 1]
    # With lr 0 the weights stay, and each step's gradient can be told apart from the ones before it.
    outcome = check.run(
        "train",
        ranks=world,
        values=options(shape, lr=0.0, batch_size=batch_size, gradients_of=[*looked_at]),
        arrays=expected.as_inputs(weights),
        per_rank=[Inputs(s, own.arrays()) for s, own in zip(rank_seeds(check, world), data, strict=True)],
    )
    training = Training(shape, weights, lr=0.0, momentum=0.0)
    steps = _steps(check, outcome, data)
    for step in (step for step in looked_at if step < len(steps)):
        ranks = steps[step]
        local = [training.local_gradients(own, batch) for own, batch in zip(data, ranks, strict=True)]
        _averaged(check, outcome, step, [{n: np.array(g.numpy()) for n, g in one.items()} for one in local])
    _whole_epoch(check, len(steps), n_steps, world)


def _whole_epoch(check: Check, made: int, wanted: int, world: int) -> None:
    """End the check where an epoch is broken off, though its length is right where it has a few steps."""
    # Shares that are cut in another way may leave a rank one step short.
    check.expect(
        made >= wanted - 1,
        f"train_one_epoch on {world} ranks made {made} steps in an epoch of {wanted}: the rest of the data is left out.",
        "Go through the whole loader. Is a `break` left over from debugging, or a limit on the number of batches?",
        points=check.points / 2,
    )


def _averaged(check: Check, outcome: Outcome, step: int, local: Sequence[dict[str, Array]]) -> None:
    world = len(local)
    mean = {name: np.mean([own[name] for own in local], axis=0, dtype=np.float32) for name in local[0]}
    wrong = differing(outcome.ranks, f"grad{step}", mean, "the gradient of")
    if wrong is None:
        return
    rank, problem = wrong
    total = {name: value * np.float32(world) for name, value in mean.items()}
    prefix = f"grad{step}"
    if differing(outcome.ranks, prefix, total, "") is None:
        cause = f"It is the sum over the {world} ranks: divide by the world size."
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
        cause = f"Right are only {', '.join(right)}: are all parameters averaged?" if right else WRAP_HINT
    check.fail(
        f"Step {step + 1} of train_one_epoch on {world} ranks: when the optimizer stepped on rank {rank}, "
        f"{problem} from the mean over the ranks.",
        cause,
    )


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
        values=options(shape, batch_size=batch_size),
        arrays=expected.as_inputs(weights),
        per_rank=[Inputs(arrays=own.arrays()) for own in data],
    )
    steps = _steps(check, outcome, data)
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
        WRAP_HINT,
    )
    check.expect(
        any(_as_one(outcome, shape, weights, data, steps, softmax=softmax) for softmax in (False, True))
        or _in_gradients(outcome, training, data, steps[0]),
        f"{len(steps)} steps of train_one_epoch on {world} ranks exchanged {outcome.loopback_bytes / 1e6:.2f} MB, but "
        "neither the gradients nor the weights of a rank show what the other ranks' batches would do to them.",
        WRAP_HINT,
    )
    # Where the functions let the ranks go apart, other checks say why.
    if unlike(outcome.ranks, "final") is None:
        _script_trains_together(check)
    # Each rank sends and receives every gradient once over; by hand it may be twice that, and the first weights.
    usual = 2 * least
    if outcome.loopback_bytes > MANY * usual:
        check.note(
            f"{len(steps)} steps exchanged {outcome.loopback_bytes / 1e6:.1f} MB, where averaging the gradients takes "
            f"about {usual / 1e6:.1f} MB: something is sent again and again. That costs time, and no points."
        )


def _script_trains_together(check: Check) -> None:
    """End the check where the functions train together, but the script on two ranks does not; half of that is there.

    Of what is not seen, as where a script has a network or an optimizer of its own kind, nothing is said.
    """
    first, second = check.run(
        "together",
        ranks=2,
        values={
            "arguments": [
                "--training-data", "/data/cifar", "--epochs", "1", "--batch-size", "4", "--lr", "0.05",
            ],
        },
        data={"cifar": cifar10.make_batches(check.rng, 24, 10)},
        limits=SCRIPT_LIMITS,
        shared_files=True,
        expect=False,
    ).ranks  # fmt: skip
    before, *after = (_held_by_both(first, second, f"after{step}") for step in range(3))
    moved = [pair for pair in after if pair is not None]
    # Before the first step a network may still be what one rank alone has made of it.
    if before is None or not moved:
        return
    still = all(np.array_equal(now, then) for pair in moved for now, then in zip(pair, before, strict=True))
    check.expect(
        not still or any(rank.values.get("gradients") is not False for rank in (first, second)),
        "train_one_epoch trains, but in ddp_train.py on two ranks no parameter that the optimizer holds ever has a gradient, "
        "and the network stays as it was.",
        "Make the optimizer of the parameters of the model that is trained: torch.optim.SGD(model.parameters(), ...).",
        points=check.points / 2,
    )
    check.expect(
        any(difference(own, other, rtol=1e-4, atol=1e-6) is None for own, other in moved),
        "train_one_epoch keeps the ranks' weights equal, but in ddp_train.py on two ranks they go apart at the first step: "
        "each rank trains a network of its own there.",
        "Keep what wrap_model returns and train that, `model = wrap_model(model, device)`: the model that was given to it "
        "averages nothing.",
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


def _held_by_both(first: RankOutcome, second: RankOutcome, name: str) -> tuple[Array, Array] | None:
    """What two ranks hold under a name; None where one of them has none, or a training that went to infinity."""
    one, other = first.arrays.get(name), second.arrays.get(name)
    if one is None or other is None or one.shape != other.shape:
        return None
    if one.dtype != np.float32 or other.dtype != np.float32 or not np.isfinite([one, other]).all():
        return None
    return one, other


def _as_one(
    outcome: Outcome,
    shape: Shape,
    weights: dict[str, Array],
    data: Sequence[Data],
    steps: Sequence[Sequence[Batch]],
    *,
    softmax: bool,
) -> bool:
    """Whether all ranks ended with the weights of one process that trains on all their batches."""
    training = Training(shape, weights, lr=LR, momentum=MOMENTUM)
    for ranks in steps:
        training.step(data, ranks, softmax=softmax)
    return differing(outcome.ranks, "final", training.state(), "") is None


def _in_gradients(outcome: Outcome, training: Training, data: Sequence[Data], ranks: Sequence[Batch]) -> bool:
    """Whether every rank's first gradient holds a part of the others', in whatever proportion they were put together."""
    if not all(ranks):
        return False
    local = [training.local_gradients(own, batch) for own, batch in zip(data, ranks, strict=True)]
    return all(
        any(
            expected.is_mixed(seen.arrays.get(f"grad0/{name}"), [one[name].numpy() for one in local], number)
            for name in local[0]
        )
        for number, seen in enumerate(outcome.ranks)
    )


# The data


def test_sampler_disjoint(check: Check) -> None:
    """The ranks' loaders share out the data set: nothing missing, nothing twice but the padding."""
    for world in check.world_sizes:
        n = world * int(check.rng.integers(5, 9)) + int(check.rng.integers(1, world))
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
        _shared_out(check, own, n, f"make_loader on {world} ranks over {n} items, one pass", "make_loader")


def _items(check: Check, rank: RankOutcome, data: Data, number_of_rank: int) -> list[int]:
    found = expected.batches(rank, data)
    if found is None:
        check.fail(
            f"make_loader on rank {number_of_rank}: what the loader gave were not the data set's images.",
            "Each batch has to be images and labels, as DataLoader makes it of the data set's items.",
        )
    return [item for batch in found for item in batch]


def _shared_out(check: Check, own: Sequence[Sequence[int]], n: int, call: str, name: str) -> None:
    world = len(own)
    counts = Counter(item for items in own for item in items)
    twice = sum(counts.values()) - len(counts)
    sizes = [len(items) for items in own]
    listed = ", ".join(str(size) for size in sizes)
    if twice >= n and all(set(items) == set(own[0]) for items in own):
        check.fail(
            f"{call}: every rank was given the same items ({listed}).",
            f"{name} has to give the DataLoader sampler=DistributedSampler(dataset, ...); every rank then reads a share.",
        )
    check.expect(
        len(counts) == n,
        f"{call}: {n - len(counts)} items were given to no rank (the ranks had {listed} items).",
        "The shares together must be the whole data set: no drop_last, and the same seed on all ranks, so that "
        "they cut up the same order.",
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
            values=options(shape, epochs=epochs, seed=seed + more, lr=0.0),
            arrays={**data.arrays(), **weights},
            per_rank=[Inputs(own) for own in rank_seeds(check, world)],
        )
        for more, epochs in ((0, [0, 1, 2]), (1, [0]))
    )
    epochs = [_epochs(fed(check, rank, data, number), rank) for number, rank in enumerate(outcome.ranks)]
    if any(len(own) != 3 or not all(own) for own in epochs):
        check.fail(
            "train_one_epoch for epochs 0, 1, 2: an epoch had no batches.", "Does it iterate over the loader?"
        )
    orders = [tuple(tuple(own[epoch]) for own in epochs) for epoch in range(3)]
    if len(set(orders)) < 3 and not _script_reshuffles(check):
        check.fail(
            f"train_one_epoch for epochs 0, 1, 2 on {world} ranks: two epochs had the same order.",
            "Call loader.sampler.set_epoch(epoch) before iterating: DistributedSampler shuffles by seed + epoch.",
        )
    for epoch, own in enumerate(orders):
        _shared_out(
            check, own, len(data.images), f"Epoch {epoch} of train_one_epoch on {world} ranks", "make_loader"
        )
    again = [_epochs(fed(check, rank, data, number), rank) for number, rank in enumerate(other.ranks)]
    check.expect(
        all(len(own) == 1 for own in again),
        "train_one_epoch was called for one epoch, and went through the data otherwise.",
        "Does it iterate over the loader, once?",
    )
    first = tuple(tuple(own[0]) for own in again)
    _shared_out(check, first, len(data.images), f"An epoch with another seed on {world} ranks", "make_loader")
    check.expect(
        first != orders[0],
        f"make_loader(dataset, batch_size, seed={seed}) and seed={seed + 1}: the first epoch on {world} ranks had the same "
        "order.",
        "DistributedSampler(dataset, shuffle=shuffle, seed=seed): it shuffles with a generator of its own, whatever "
        "torch.manual_seed or the DataLoader's generator say.",
        points=check.points / 2,
    )


def _epochs(batches: Sequence[Batch], rank: RankOutcome) -> list[list[int]]:
    boundaries = rank.values.get("boundaries")
    ends = [integer(end) or 0 for end in boundaries] if isinstance(boundaries, list) else []
    return [[i for batch in batches[start:end] for i in batch] for start, end in pairwise([0, *ends])]


def _three_epochs(check: Check) -> Outcome:
    """The script on two ranks: what train_one_epoch leaves out may stand in main, where the epochs are counted."""
    tree = cifar10.make_batches(check.rng, 16, 10)
    return check.run(
        "orders",
        ranks=2,
        values={"arguments": ["--training-data", "/data/cifar", "--epochs", "3", "--batch-size", "8"]},
        data={"cifar": tree},
        files={f"data/{name}": content for name, content in tree.items()},
        limits=SCRIPT_LIMITS,
        shared_files=True,
        seconds=30.0,
        expect=False,
    )


def _script_reshuffles(check: Check) -> bool:
    """Whether the script itself sees to another order in each epoch."""
    for rank in _three_epochs(check).ranks:
        order = rank.values.get("order")
        # A first look at an item, as for its shape, is not part of an epoch.
        if not isinstance(order, list) or len(order) < 24:
            return False
        if len({tuple(map(number, order[-8 * epoch :][:8])) for epoch in (1, 2, 3)}) < 3:
            return False
    return True


def test_shuffle_false_for_eval(check: Check) -> None:
    """evaluate() returns the accuracy over the whole set, exactly, on every rank."""
    for world in check.world_sizes:
        shape = expected.make_shape(check.rng, dropout=0.6)
        weights = expected.make_weights(check.rng, shape)
        # In one of the runs as many batches as a loop that is broken off does not reach.
        share = 43 if world == check.world_sizes[-1] else 7
        n = world * share + int(check.rng.integers(1, world))
        data = _labelled(check, shape, weights, n)
        right = int(
            (Training(shape, weights, lr=0, momentum=0).logits(data.images).argmax(1) == data.labels).sum()
        )
        arrays = {**data.arrays(), **expected.as_inputs(weights)}
        # One GPU for each of the first ranks: what is computed there is the same, to the bit.
        gpus = world if world == check.world_sizes[0] else None
        outcome = _evaluated(check, world, options(shape, gpus=gpus), arrays)
        for rank, seen in enumerate(outcome.ranks):
            value = seen.values.get("accuracy")
            if close(value, right / n, rtol=0, atol=1e-5):
                continue
            check.fail(
                f"evaluate on {world} ranks over {n} items, {right} of which the model gets right: rank {rank} returned "
                f"{shown(value)}, expected {right / n:.6f}.",
                _accuracy_hint(value, right, n, outcome),
            )
        for rank, seen in enumerate(outcome.ranks):
            orders = [data.find(seen.arrays.get(f"order{which}", np.zeros(0))) for which in (0, 1)]
            check.expect(
                orders[0] is not None and orders[0] == orders[1],
                f"make_loader(..., shuffle=False) on rank {rank} of {world}: the order of the items depends on the seed.",
                "Hand shuffle on to the sampler: DistributedSampler(dataset, shuffle=shuffle, ...) shuffles by default.",
            )


def _evaluated(check: Check, world: int, values: dict[str, Json], arrays: dict[str, Array]) -> Outcome:
    try:
        return check.run("accuracy", ranks=world, values=values, arrays=arrays)
    except CheckEnded as ended:
        if values["gpus"] is None:
            raise
        if is_device_fault(ended.feedback.message):
            raise Crashed(
                f"On a machine with {world} GPUs: {ended.feedback.message}",
                TO_THE_DEVICE,
            ) from None
    # What else may go wrong on emulated GPUs is judged without them.
    return check.run("accuracy", ranks=world, values={**values, "gpus": None}, arrays=arrays)


def _labelled(check: Check, shape: Shape, weights: dict[str, Array], n: int) -> Data:
    """Data with clear answers, of which about two thirds are right, the first ones among them."""
    data = expected.make_data(check.rng, 40 * n)
    logits = Training(shape, weights, lr=0, momentum=0).logits(data.images)
    ordered = np.sort(logits, axis=1)
    clear = np.argsort(ordered[:, -2] - ordered[:, -1])[:n]
    answers = logits[clear].argmax(1)
    wrong = check.rng.permutation(np.arange(min(4, n - 1), n))[: n // 3]
    labels = answers.copy()
    labels[wrong] = (answers[wrong] + 1 + check.rng.integers(0, 9, len(wrong))) % 10
    return Data(data.images[clear], labels.astype(np.int64))


def _accuracy_hint(value: Json, right: int, n: int, outcome: Outcome) -> str:
    seen = number(value)
    values = [number(rank.values.get("accuracy")) for rank in outcome.ranks]
    if seen is not None and seen > 1:
        return "Accuracy is a fraction between 0 and 1: divide the number of right answers by the number of items."
    if len(set(values)) > 1:
        return "The ranks disagree: add up right answers and items over all ranks with dist.all_reduce before dividing."
    if seen is not None and abs(seen - right / n) < (len(outcome.ranks) - 1) / n:
        return (
            "DistributedSampler repeats items until all shares are equally long, and those count twice here. Leave "
            "the repeated ones out, or give each rank its share without padding."
        )
    return (
        "Call model.eval() first (this model has dropout), count right answers and items of the whole loader (no `break`), "
        "add both up over all ranks with dist.all_reduce, then divide."
    )


def test_steps_per_epoch(check: Check) -> None:
    """An epoch has ceil(items / (batch size x ranks)) steps."""
    world, batch_size = check.world_sizes[0], 4
    shape = expected.make_shape(check.rng)
    n = world * (batch_size * 3 + 1)  # even shares, with a short last batch
    data = expected.make_data(check.rng, n)
    outcome = check.run(
        "train",
        ranks=world,
        values=options(shape, batch_size=batch_size, lr=0.0),
        arrays={**data.arrays(), **expected.as_inputs(expected.make_weights(check.rng, shape))},
        per_rank=[Inputs(own) for own in rank_seeds(check, world)],
    )
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
        "With n ranks the effective batch is n times as large, so an epoch has that many fewer steps. All steps on "
        "every rank means that every rank reads the whole data set.",
    )


# The numbers


def test_global_metrics(check: Check) -> None:
    """train_one_epoch returns the mean loss over all ranks' items, the same on every rank."""
    for world in check.world_sizes[:2]:
        shape = expected.make_shape(check.rng)
        weights = expected.make_weights(check.rng, shape)
        data = expected.make_data(check.rng, world * 9)  # batches of 4, 4 and 1
        # With lr 0 the loss of an item does not depend on what was trained before it.
        outcome = check.run(
            "train",
            ranks=world,
            values=options(shape, lr=0.0),
            arrays={**data.arrays(), **expected.as_inputs(weights)},
            per_rank=[Inputs(own) for own in rank_seeds(check, world)],
        )
        training = Training(shape, weights, lr=0, momentum=0)
        own = [
            training.losses(data, tuple(i for b in fed(check, rank, data, r) for i in b))
            for r, rank in enumerate(outcome.ranks)
        ]
        wanted = float(np.concatenate(own).mean())
        for rank, seen in enumerate(outcome.ranks):
            losses = seen.values.get("losses")
            value = losses[0] if isinstance(losses, list) and losses else None
            if not close(value, wanted, rtol=1e-4, atol=1e-5):
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


def test_no_double_softmax(check: Check) -> None:
    """The logits reach the loss: CrossEntropyLoss does the softmax itself."""
    shape = expected.make_shape(check.rng)
    weights = expected.make_weights(check.rng, shape)
    data = expected.make_data(check.rng, 12)
    outcome = check.run(
        "train",
        ranks=1,
        values=options(shape),
        arrays={**data.arrays(), **expected.as_inputs(weights)},
    )
    steps = _steps(check, outcome, [data])
    right = Training(shape, weights, lr=LR, momentum=MOMENTUM)
    twice = Training(shape, weights, lr=LR, momentum=MOMENTUM)
    for ranks in steps:
        right.step([data], ranks)
        twice.step([data], ranks, softmax=True)
    wrong = differing(outcome.ranks, "final", right.state(), "the weight")
    if wrong is None:
        return
    if differing(outcome.ranks, "final", twice.state(), "the weight") is None:
        check.fail(
            "train_one_epoch puts a softmax between the model and CrossEntropyLoss: the trained weights are those of "
            "a softmax done twice. Training then still works, but much more slowly.",
            "Hand the model's output to the criterion as it is. Some course texts show this softmax; "
            "nn.CrossEntropyLoss takes logits and does log_softmax itself.",
        )
    check.fail(
        f"train_one_epoch on one rank: the weights are not those of plain training with CrossEntropyLoss ({wrong[1]}).",
        "Each batch: zero_grad, loss = criterion(model(images), labels), backward, step; nothing in between.",
    )


# A run from start to end


def test_checkpoint(check: Check) -> None:
    """Rank 0 alone writes the checkpoint, and a resumed run goes on as if it had not been interrupted."""
    # What a run on one rank computes does not depend on how gradients are averaged, which has checks of its own.
    for world in (check.world_sizes[0], 1):
        shape = expected.make_shape(check.rng)
        weights, other = (expected.make_weights(check.rng, shape) for _ in range(2))
        data = expected.make_data(check.rng, world * 4 * 2)
        epoch = int(check.rng.integers(2, 7))
        told = options(shape, epoch=epoch)
        saved = check.run(
            "save",
            ranks=world,
            # Of several nodes, rank 0 is on one only.
            env=on_nodes(1, world),
            values=told,
            arrays={**data.arrays(), **expected.as_inputs(weights)},
            shared_files=True,
        )
        _written_once(check, saved)
        resumed = check.run(
            "resume",
            ranks=world,
            # As after --lr was changed: the rate is part of what is resumed.
            values={**told, "lr": 3 * LR},
            arrays={**data.arrays(), **expected.as_inputs(other)},
            files={"checkpoint.pt": saved.ranks[0].arrays["checkpoint"].tobytes()},
            shared_files=True,
        )
        unbroken = Training(shape, weights, lr=LR, momentum=MOMENTUM)
        names = unbroken.state().keys()
        _loaded_everywhere(check, saved, resumed, epoch, names)
    for outcome in (saved, resumed):
        for ranks in _steps(check, outcome, [data]):
            unbroken.step([data], ranks)
    wrong = differing(resumed.ranks, "final", unbroken.state(), "the weight")
    check.expect(
        wrong is None,
        "An epoch, save_checkpoint, a new process, load_checkpoint, another epoch, on one rank: the weights are not "
        f"those of a run without a break ({wrong[1] if wrong else ''}).",
        "The file has to hold the weights and optimizer.state_dict() (momentum and learning rate are in there), and "
        "load_checkpoint has to load both.",
    )
    check.expect(
        saved.ranks[0].values.get("direct") is not True,
        "Saving and resuming work, but save_checkpoint writes straight over the last checkpoint: a run that is stopped "
        "while it writes has none left.",
        "Write to a second name in the same folder, then os.replace(second, path): that happens at once or not at all.",
        points=check.points / 2,
    )


def _loaded_everywhere(check: Check, saved: Outcome, resumed: Outcome, epoch: int, names: Set[str]) -> None:
    held = {n.partition("/")[2]: v for n, v in saved.ranks[0].arrays.items() if n.startswith("held/")}
    wrong = differing(resumed.ranks, "held", held, "")
    check.expect(
        wrong is None and names <= held.keys(),
        f"load_checkpoint on {len(resumed.ranks)} ranks: rank {wrong[0] if wrong else 0} does not hold the saved weights"
        f"{': ' + wrong[1].strip() if wrong else ''}.",
        "Every rank has to read the file: DistributedDataParallel hands weights out only once, when it is made.",
    )
    apart = unlike(resumed.ranks, "momentum")
    check.expect(
        apart is None,
        f"load_checkpoint on {len(resumed.ranks)} ranks: they hold the saved weights, but not the same momentum in their "
        f"optimizers: {apart}. From then on each rank takes steps of its own.",
        "Nobody keeps the optimizers of the ranks equal but you: optimizer.load_state_dict on every rank.",
    )
    for rank, seen in enumerate(resumed.ranks):
        value = seen.values.get("epoch")
        check.expect(
            integer(value) in (epoch, epoch + 1),
            f"load_checkpoint on rank {rank} returned {shown(value)} for a checkpoint saved after epoch {epoch}.",
            f"Save the epoch in the file and return it ({epoch}, or {epoch + 1} as the next to run).",
        )


def _written_once(check: Check, saved: Outcome) -> None:
    for rank, seen in enumerate(saved.ranks):
        wrote = seen.values.get("wrote")
        check.expect(
            rank == 0 or not wrote,
            f"save_checkpoint: rank {rank} wrote the file, too.",
            "Only rank 0 may write: `if dist.get_rank() == 0:`. Ranks that write the same file at once spoil it.",
        )
        check.expect(
            seen.values.get("there") is True,
            f"save_checkpoint returned on rank {rank} before the file was there.",
            "Let the other ranks wait for rank 0: dist.barrier() after writing, on every rank.",
        )
    keys = saved.ranks[0].values.get("keys")
    names = [key for key in keys if isinstance(key, str)] if isinstance(keys, list) else []
    check.expect(
        "checkpoint" in saved.ranks[0].arrays and len(names) > 0,
        "save_checkpoint wrote a file without tensors by name in it.",
        "Write a dict with the model's state_dict, the optimizer's state_dict and the epoch, with torch.save.",
    )
    prefixed = [name for name in names if name.startswith("module.")]
    check.expect(
        not prefixed,
        f"The checkpoint's keys begin with `module.` ({', '.join(prefixed[:2])} ...).",
        "Save model.module.state_dict(): a checkpoint should load into the plain model.",
    )


def test_uneven_data(check: Check) -> None:
    """A data set that cannot be divided evenly: no hang, and no item left out."""
    for world in check.world_sizes:
        batch_size = 2
        n = world * batch_size * 2 + 1
        shape = expected.make_shape(check.rng)
        data = expected.make_data(check.rng, n)
        outcome = check.run(
            "train",
            ranks=world,
            values=options(shape, batch_size=batch_size, lr=0.0),
            arrays={**data.arrays(), **expected.as_inputs(expected.make_weights(check.rng, shape))},
            per_rank=[Inputs(own) for own in rank_seeds(check, world)],
        )
        seen = {i for r, rank in enumerate(outcome.ranks) for b in fed(check, rank, data, r) for i in b}
        check.expect(
            len(seen) == n,
            f"train_one_epoch on {world} ranks over {n} items with batches of {batch_size}: {n - len(seen)} items were "
            "never trained on.",
            "Do not drop the last batch, and let the sampler fill up the shares (drop_last=False).",
        )


def test_cleans_up(check: Check) -> None:
    """cleanup() leaves the process group and nothing running."""
    world = check.world_sizes[0]
    shape = expected.make_shape(check.rng)
    data = expected.make_data(check.rng, 4)
    outcome = check.run(
        "tidy",
        ranks=world,
        values=options(shape),
        arrays={"images": data.images, **expected.as_inputs(expected.make_weights(check.rng, shape))},
    )
    for rank, seen in enumerate(outcome.ranks):
        check.expect(
            seen.values.get("was") is True and seen.values.get("is") is False,
            f"After cleanup() rank {rank} is still in its process group.",
            "cleanup has to call torch.distributed.destroy_process_group().",
        )
    check.expect(
        not outcome.left_running,
        f"After cleanup() {outcome.left_running} processes that your code started are still running.",
        "End what was started: join processes, and let DataLoader workers end with their loader.",
    )
    seen = check.run(
        "script_ends",
        ranks=1,
        values={"arguments": ["--training-data", "/data/cifar", "--epochs", "1", "--batch-size", "8"]},
        data={"cifar": cifar10.make_batches(check.rng, 8, 10)},
        limits=SCRIPT_LIMITS,
    ).ranks[0]
    check.expect(
        seen.values.get("is") is False or seen.values.get("was") is False,
        "cleanup() works, but ddp_train.py, run as a script, ends without having called it.",
        "Call cleanup() as the last line of main().",
    )


def test_fails_fast(check: Check) -> None:
    """An exception on one rank ends all ranks, with its traceback."""
    world = check.world_sizes[0]
    shape = expected.make_shape(check.rng)
    data = expected.make_data(check.rng, world * 4 * 2)
    broken = len(data.images) - 1
    outcome = check.run(
        "train",
        ranks=world,
        # The item is somebody's in the first epoch, whatever the order.
        values=options(shape, broken=broken),
        arrays={**data.arrays(), **expected.as_inputs(expected.make_weights(check.rng, shape))},
        expect=False,
    )
    raised = [r for r, rank in enumerate(outcome.ranks) if _is_injected(rank)]
    call = f"train_one_epoch on {world} ranks, with one item that raises InjectedFault when it is read"
    if outcome.timed_out:
        hung = [r for r, rank in enumerate(outcome.ranks) if not rank.complete]
        check.fail(
            f"{call}: {'rank ' + ', '.join(map(str, hung)) if hung else 'no rank'} still waited after "
            f"{outcome.elapsed:.0f} s.",
            "Do not catch the exception and go on: the other ranks wait for this one in their next collective. Let it "
            "end the process; torchrun then ends the others.",
        )
    check.expect(
        bool(raised),
        f"{call}: the exception came out of no rank.",
        "Something catches it (`except: pass`, `except Exception: print(...)`). Let it go through, or raise it again.",
    )
    _script_fails_fast(check)


def _script_fails_fast(check: Check) -> None:
    """End the check where train_one_epoch lets an exception through, but the script around it waits for ever."""
    arguments: Json = ["--training-data", "/data/cifar", "--epochs", "1", "--batch-size", "4"]
    outcome = check.run(
        "broken",
        ranks=2,
        values={"arguments": arguments, "broken": int(check.rng.integers(16))},
        data={"cifar": cifar10.make_batches(check.rng, 16, 8)},
        limits=SCRIPT_LIMITS,
        shared_files=True,
        seconds=SCRIPT_ENDS_SECONDS,
        expect=False,
    )
    limits = replace(SCRIPT_LIMITS, seconds=SCRIPT_ENDS_SECONDS)
    problem = explain.problem(outcome, limits, check.submission)
    if isinstance(problem, Hung):
        check.fail(
            "train_one_epoch lets an exception through, but ddp_train.py on two ranks, with a training image that cannot be "
            f"read, does not end. {problem.feedback.message}",
            "What stands in `finally` is done after an exception as well: a barrier there waits for ranks that wait "
            "elsewhere. dist.destroy_process_group() alone is safe.",
            points=check.points / 2,
        )
    check.expect(
        not any(map(_hides_a_fault, outcome.ranks)),
        "train_one_epoch lets an exception through, but the process of ddp_train.py that came to a training image that cannot "
        "be read ended early with exit status 0, as if all had gone well.",
        "torchrun and everybody who waits for the job go by the status. Whoever catches an exception in main has to raise it "
        "again after printing it; without any `except` Python prints it and ends with status 1.",
        points=check.points / 2,
    )


def _hides_a_fault(rank: RankOutcome) -> bool:
    """Whether a rank's script met what cannot be read, trained no further, and ended as one that is done."""
    happened = {event.get("kind") for event in rank.events}
    # Who passes over what cannot be read and goes on may mean it.
    if rank.error is not None or "met" not in happened or "went_on" in happened:
        return False
    return integer(rank.values.get("status") if rank.complete else rank.status) == 0


def _is_injected(rank: RankOutcome) -> bool:
    return rank.error is not None and (
        rank.error.type == "InjectedFault" or "put there by the check" in rank.error.message
    )


def test_single_process(check: Check) -> None:
    """Without torchrun the same functions train on one process."""
    shape = expected.make_shape(check.rng)
    weights = expected.make_weights(check.rng, shape)
    data = _labelled(check, shape, weights, 16)  # in whole batches: short ones have checks of their own
    arrays = {**data.arrays(), **expected.as_inputs(weights)}
    # Not the first: what is done in that one only is missing from then on.
    told = options(shape, epoch=int(check.rng.integers(1, 3)))
    seen = check.run("alone", values=told, arrays=arrays).ranks[0]
    loss, accuracy = number(seen.values.get("loss")), number(seen.values.get("accuracy"))
    check.expect(
        loss is not None and accuracy is not None and 0 <= accuracy <= 1,
        f"Without torchrun train_one_epoch returned {shown(seen.values.get('loss'))} and evaluate "
        f"{shown(seen.values.get('accuracy'))}; expected two numbers, the second from 0 to 1.",
        "In one process the mean over all ranks is the process's own.",
    )
    training = Training(shape, weights, lr=LR, momentum=MOMENTUM)
    batches = fed(check, seen, data, 0)
    for batch in batches:
        training.step([data], [batch])
    wrong = differing([seen], "final", training.state(), "the weight")
    check.expect(
        wrong is None,
        f"Without torchrun train_one_epoch did not train as one process does ({wrong[1] if wrong else ''}).",
        "Train in one process as well: only what needs other ranks falls away.",
    )
    n, n_trained = len(data.images), len({item for batch in batches for item in batch})
    check.expect(
        n_trained == n,
        f"Without torchrun train_one_epoch trained on {n_trained} of {n} items.",
        "In one process the whole data set is the share: go through the whole loader.",
        points=check.points / 2,
    )
    right = (training.logits(data.images).argmax(1) == data.labels).mean()
    check.expect(
        # One item may lie on the border between two answers after the training.
        close(accuracy, float(right), rtol=0, atol=1.01 / n),
        f"Without torchrun evaluate returned {shown(seen.values.get('accuracy'))}, expected {right:.6f}.",
        "In one process the accuracy over all ranks is the process's own: count its right answers there, too.",
        points=check.points / 2,
    )
    if seen.values.get("trains") is not True and not _script_trains(check):
        check.fail(
            "train_one_epoch was given a model in eval mode, as evaluate leaves it, and trained it as it was: from the "
            "second epoch on dropout is off, and batch norm keeps the statistics that it has.",
            "Call model.train() before the loop over the batches, as train_noddp.py does.",
            points=check.points / 2,
        )
    try:
        check.run("alone", values={**told, "gpus": 1}, arrays=arrays)
    except CheckEnded as ended:
        # What else may go wrong on an emulated GPU is not asked here.
        if is_device_fault(ended.feedback.message) or NOT_MOVED in ended.feedback.message:
            check.fail(
                f"On a machine with a GPU: {ended.feedback.message}", TO_THE_DEVICE, points=check.points / 2
            )


def _script_trains(check: Check) -> bool:
    """Whether the script itself puts the model back into training mode; one that does not get there is not blamed."""
    return all(rank.values.get("trains") != [False] for rank in _three_epochs(check).ranks)


def test_script(check: Check) -> None:
    """ddp_train.sh starts NPROC processes with torchrun, trains, and leaves a report and a checkpoint to go on from."""
    tree = cifar10.make_batches(check.rng, 16, 10)
    seen = check.run(
        "launch",
        values={
            "arguments": ["--training-data", "/data/cifar", "--epochs", "1", "--batch-size", "8"],
            "environment": {"NPROC": "2"},
            "other": {"NPROC": str(OTHER_NPROC)},
        },
        data={"cifar": tree},
        # Where the script does not hand its arguments on, the default folder has the data, too.
        files={f"data/{name}": content for name, content in tree.items()},
        limits=SCRIPT_LIMITS,
    )
    values = seen.ranks[0].values
    status, output = integer(values.get("status")), values.get("output")
    check.expect(
        status == 0,
        f"`NPROC=2 ./ddp_train.sh --training-data ... --epochs 1 --batch-size 8` ended with status "
        f"{shown(values.get('status'))}. Its last lines: {_tail(output)}",
        'Run the same line in a terminal. The script should hand its arguments on to ddp_train.py with "$@".',
    )
    least = RESNET18_BYTES
    check.expect(
        seen.loopback_bytes is None or seen.loopback_bytes >= least,
        "ddp_train.sh ran, but its processes exchanged "
        f"{(seen.loopback_bytes or 0) / 1e6:.1f} MB; one step of ResNet-18 on two ranks takes {least / 1e6:.0f} MB.",
        'Start two processes that join one group: torchrun --standalone --nproc-per-node "${NPROC:-2}" ddp_train.py.',
    )
    keys = values.get("keys")
    names = [key for key in keys if isinstance(key, str)] if isinstance(keys, list) else []
    check.expect(
        any(name.endswith("fc.weight") for name in names),
        "ddp_train.sh ran, but left no checkpoint of a ResNet-18 (looked for a new .pt, .pth or .ckpt file).",
        "Pass --checkpoint FILE in ddp_train.sh and call save_checkpoint after each epoch.",
    )
    check.expect(
        _world_of(values.get("report")) == 2,
        "ddp_train.sh ran, but wrote no reports/ddp.json that tells of a run with world_size 2 (one that was handed in does "
        "not count).",
        "Pass --report reports/ddp.json in ddp_train.sh; rank 0 writes it, in the format perf-report/1.",
    )
    # A script that takes no such arguments, or starts its processes in another way, is not asked.
    raised = _not_loaded(values.get("resumed"))
    check.expect(
        not raised,
        "ddp_train.sh works, but `python ddp_train.py --checkpoint FILE --resume` does not go on from the checkpoint that "
        f"it left: {raised}",
        "The names in the file have no `module.`. Load them into model.module where the model is wrapped already, or "
        "call load_checkpoint before wrap_model.",
        points=check.points / 2,
    )
    asked = _processes_asked_for(values.get("asked"))
    check.expect(
        asked in ("", str(OTHER_NPROC)),
        f"ddp_train.sh works, but `NPROC={OTHER_NPROC} ./ddp_train.sh` asks torchrun for {asked} processes.",
        'Let NPROC say how many there are: torchrun --standalone --nproc-per-node "${NPROC:-2}" ddp_train.py.',
        points=check.points / 2,
    )
    check.expect(
        asked == "" or not _asks_for_no_number(values.get("unasked")),
        "`NPROC=2 ./ddp_train.sh` works, but `./ddp_train.sh` alone, where nobody has set NPROC, starts no processes.",
        'Give NPROC a default: torchrun --standalone --nproc-per-node "${NPROC:-2}" ddp_train.py.',
        points=check.points / 2,
    )
    check.expect(
        values.get("executable") is True,
        "ddp_train.sh works, but only with `bash ddp_train.sh`: it is not executable.",
        "chmod +x ddp_train.sh",
        points=check.points / 2,
    )


def _tail(output: Json) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()] if isinstance(output, str) else []
    return " | ".join(line[:160] for line in lines[-4:]) or "(nothing was printed)"


def _not_loaded(output: Json) -> str:
    """What torch said where the names in a checkpoint were not those of the model; nothing where it did not."""
    text = output if isinstance(output, str) else ""
    found = re.search(r"RuntimeError: Error\(s\) in loading state_dict.*(?:\n.*)?", text)
    return safe(" ".join(found[0].split())[:160]) + " ..." if found else ""


def _processes_asked_for(words: Json) -> str:
    """How many processes torchrun was asked for; nothing where that is in no known words, or torchrun was not called."""
    given = re.search(
        r"(?:^|\n)--?nproc[-_]per[-_]node[=\n](0*(\d{1,4})|auto|cpu|gpu)(?:\n|$)",
        words if isinstance(words, str) else "",
    )
    return (given[2] or given[1]) if given else ""


def _asks_for_no_number(words: Json) -> bool:
    """Whether a script that asks for as many processes as NPROC says starts none, or torchrun without a number."""
    if not isinstance(words, str) or not words:
        return words == ""
    lines = words.split("\n")
    # Python that is to find the number out is not there, only what stands in for it.
    if {"-", "-c"} & set(lines) or sum(line.endswith(".py") for line in lines) != 1:
        return False
    given = re.search(r"(?:^|\n)--?nproc[-_]per[-_]node[=\n]([^\n]*)", words)
    return given is not None and (not given[1] or given[1].endswith(".py"))


def _world_of(report: Json) -> int | None:
    """The world size of the last run in a perf-report/1, read as plain JSON."""
    if not isinstance(report, str):
        return None
    try:
        runs: Any = json.loads(report)["runs"]
        return max(integer(run["config"]["world_size"]) or 0 for run in runs)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def test_lr_scaling(check: Check) -> None:
    """--scale-lr multiplies the learning rate by the number of ranks."""
    # On two ranks alone a 2 written out would do, and with one rate for both calls the rate itself.
    fewest, more = check.world_sizes[0], check.world_sizes[:2][-1]
    scaled, plain = (
        round(float(check.rng.uniform(*bounds)), 5) for bounds in ((0.001, 0.004), (0.005, 0.009))
    )
    calls = ((more, scaled, ["--scale-lr"], scaled * more), (fewest, plain, [], plain))
    first = [[rates[:1] for rates in _rates(check, *call[:3])] for call in calls]
    parts = [_part(rates, wanted) for rates, (*_, wanted) in zip(first, calls, strict=True)]
    if _may_warm_up(*parts, more) and _rises(_rates(check, more, scaled, ["--scale-lr"], steps=4)):
        return
    for (world, lr, flags, wanted), rates in zip(calls, first, strict=True):
        shown_call = " ".join(["ddp_train.py --lr", str(lr), *flags])
        for rank, seen in enumerate(rates):
            check.expect(
                all(close(rate, wanted, rtol=1e-6, atol=0) for rate in seen or [None]),
                f"`{shown_call}` on {world} ranks, each on a node of its own: the first step on rank {rank} had the learning "
                f"rate {shown(seen[0] if seen else None)}, expected {wanted:.6g}.",
                "With --scale-lr the rate is args.lr * world_size, since a step sees world_size times as many items; "
                "the batch size of one rank plays no part, and without the flag nothing is multiplied.",
            )


def _rates(check: Check, world: int, lr: float, flags: list[str], *, steps: int = 1) -> list[list[Json]]:
    """The learning rates of the script's first steps on each rank."""
    outcome = check.run(
        "first_lr",
        ranks=world,
        env=on_nodes(1, world),
        values={
            "arguments": [
                "--training-data", "/data/cifar", "--epochs", "2", "--batch-size", "8", "--lr", str(lr), *flags,
            ],
            "steps": steps,
        },
        data={"cifar": cifar10.make_batches(check.rng, 16 * world, 10)},
        limits=SCRIPT_LIMITS,
        shared_files=True,
    )  # fmt: skip
    found = [rank.values.get("lr") for rank in outcome.ranks]
    return [rates if isinstance(rates, list) else [] for rates in found]


def _part(rates: list[list[Json]], wanted: float) -> float | None:
    """Which part of a rate every rank begins with; None where they differ, or one has no rate."""
    first = [number(seen[0]) if seen else None for seen in rates]
    return first[0] / wanted if first[0] is not None and len(set(first)) == 1 else None


def _may_warm_up(scaled: float | None, plain: float | None, world: int) -> bool:
    """Whether a script that begins with these parts of its rates, with --scale-lr and without, may go up to them.

    It may begin with the same part of both, or with --scale-lr at the rate of one rank (Goyal et al., Accurate, Large
    Minibatch SGD, section 2.2).
    """
    if scaled is None or plain is None or not 0 < scaled < 1 - 1e-6:
        return False
    return close(scaled, plain, rtol=1e-6, atol=0) or (
        close(scaled, 1 / world, rtol=1e-6, atol=0) and close(plain, 1.0, rtol=1e-6, atol=0)
    )


def _rises(rates: list[list[Json]]) -> bool:
    """Whether the learning rate of every rank is higher in a later step than in the first."""
    found = [[rate for value in seen if (rate := number(value)) is not None] for seen in rates]
    return all(any(later > seen[0] for later in seen[1:]) for seen in found)
