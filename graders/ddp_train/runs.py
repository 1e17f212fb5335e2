"""What the ranks of a run are told: the options of a training, their seeds, the nodes that they are on."""

from __future__ import annotations

from collections.abc import Callable

from graders.ddp_train.expected import BATCH_SIZE, Shape
from lockstep.check import Check
from lockstep.sandbox.gpus import REAL_GPUS
from lockstep.sandbox.outcome import Outcome
from lockstep.verdict import CheckEnded, Failed
from lockstep.wire import Json

# A larger step makes two right trainings drift apart by the rounding alone: at 0.2 a thousandfold in 24 steps.
LR, MOMENTUM = 0.05, 0.9


def options(
    shape: Shape, *, lr: float = LR, batch_size: int = BATCH_SIZE, seed: int = 0, **more: Json
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
    """What torchrun's variables say of ranks of which `size` are on each node.

    GPUs of such nodes are emulated, wherever there are real ones: nccl lets no two ranks share one.
    """
    return [
        {
            "LOCAL_RANK": str(rank % size), "LOCAL_WORLD_SIZE": str(size), "GROUP_RANK": str(rank // size),
            "NODE_RANK": str(rank // size), "GROUP_WORLD_SIZE": str(world // size), REAL_GPUS: "0",
        }
        for rank in range(world)
    ]  # fmt: skip


def judged(
    judge: Callable[[Outcome], None], run: Callable[[], Outcome]
) -> tuple[Outcome | None, CheckEnded | None]:
    """A run in a place of its own, and how the judge would end the check for what it sees; the check goes on.

    A run that did not come to its end has no outcome: not all that may go wrong there is the fault of the code.
    """
    try:
        outcome = run()
    except CheckEnded as ended:
        return None, ended
    try:
        judge(outcome)
    except Failed as ended:
        return outcome, ended
    return outcome, None
