"""Exercise 4, the process group: whether the ranks find together, on one node and on several, with GPUs and without."""

from __future__ import annotations

import numpy as np

from fixtures import cifar10
from graders.ddp_train.runs import on_nodes
from graders.ddp_train.script_runs import SCRIPT_LIMITS
from lockstep.check import Check, Inputs
from lockstep.compare import difference, integer, is_cpu, shown
from lockstep.devicefault import NO_BACKEND, names_no_gpu
from lockstep.sandbox.outcome import RankOutcome
from lockstep.text import safe
from lockstep.verdict import CheckEnded, Crashed
from lockstep.wire import Array

LOCAL_RANK_HINT = "RANK counts over all nodes; the number of a GPU within its node is LOCAL_RANK."
DEVICE_HINT = "Return the device: cuda:LOCAL_RANK where torch.cuda.is_available(), else torch.device('cpu')."


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
    _script_takes_its_gpus(check)


def _joined(check: Check, world: int) -> None:
    numbers = check.rng.integers(1, 1 << 40, world)
    outcome = check.run("join", ranks=world, per_rank=_numbered(numbers))
    for rank, seen in enumerate(outcome.ranks):
        call = f"setup() on rank {rank} of {world}, from torchrun's variables"
        _in_group(check, seen, rank, world, int(numbers.sum()), call)
        device, backend = seen.values.get("device"), seen.values.get("backend")
        check.expect(
            is_cpu(device),
            f"setup() on a machine without a GPU returned {shown(device)}, expected torch.device('cpu').",
            DEVICE_HINT,
        )
        check.expect(
            backend == "gloo",
            f"setup() on a machine without a GPU joined with backend {shown(backend)}, expected gloo.",
            "nccl only works between GPUs: choose the backend by torch.cuda.is_available().",
        )


def _numbered(numbers: Array) -> list[Inputs]:
    """A number for each rank alone: the sum of all is known only where the ranks found together."""
    return [Inputs(arrays={"number": np.array([value])}) for value in numbers]


def _given(check: Check) -> None:
    """Two ranks that are told where to meet, and to use gloo although there are GPUs."""
    numbers = check.rng.integers(1, 1 << 40, 2)
    outcome = check.run(
        "join",
        ranks=2,
        values={"gpus": 2, "meeting": "meet", "backend": "gloo"},
        per_rank=_numbered(numbers),
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
            per_rank=_numbered(numbers),
        )
    except Crashed as ended:
        if not names_no_gpu(ended.feedback.message):
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
    (seen,) = check.run("join", ranks=1, values={"gpus": 1}, arrays={"number": number}, seconds=60.0).ranks
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
    try:
        outcome = check.run("join", ranks=4, env=env, per_rank=_numbered(numbers), seconds=8.0)
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


def _script_takes_its_gpus(check: Check) -> None:
    """End the check where setup picks the GPU, and the script around it trains on another.

    Of a script that does not come to a step on emulated GPUs nothing is said.
    """
    outcome = check.run(
        "places",
        ranks=2,
        values={
            "arguments": ["--training-data", "/data/cifar", "--epochs", "1", "--batch-size", "8"],
            "gpus": 2,
        },
        env=on_nodes(2, 2),
        data={"cifar": cifar10.make_batches(check.rng, 16, 10)},
        limits=SCRIPT_LIMITS,
        shared_files=True,
        seconds=30.0,
        expect=False,
    )
    hint = (
        "Train on the device that setup returned: device = setup(...) in main, then wrap_model(model, device). "
        "torch.device('cuda') alone is the current GPU, which is the first one unless torch.cuda.set_device says another."
    )
    call = "setup() returns cuda:LOCAL_RANK, but ddp_train.py on a machine with two GPUs, emulated ones,"
    raised = [rank.error.message if rank.error else "" for rank in outcome.ranks]
    check.expect(
        not all(NO_BACKEND in message for message in raised),
        f"{call} ended with `{safe(raised[0][:160])}`: what the ranks are to exchange is on the CPU.",
        hint,
        points=check.points * 3 / 4,
    )
    found = [rank.values.get("places") for rank in outcome.ranks]
    for place, where in (("cuda:0", "on the first of them"), ("cpu", "on the CPU")):
        check.expect(
            found != [[place]] * 2,
            f"{call} trains a network on both ranks that is {where}.",
            hint,
            points=check.points * 3 / 4,
        )
