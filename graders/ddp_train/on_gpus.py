"""Runs on GPUs, most of them emulated: repeated without where they end early, and what is said of how they ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from graders.ddp_train.hints import SUMS_TO_THE_DEVICE
from graders.ddp_train.runs import on_nodes
from lockstep.check import Check
from lockstep.devicefault import NO_BACKEND, names_no_gpu
from lockstep.sandbox.outcome import Outcome
from lockstep.verdict import CheckEnded
from lockstep.wire import Json


def gpus_of_first(check: Check, world: int) -> int | None:
    """One GPU for each of the ranks of the first run, none in the others: what is computed is the same, to the bit."""
    return world if world == check.world_sizes[0] else None


def run_on_gpus(
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


def insist_on_sums_on_the_device(check: Check, faults: Sequence[str]) -> None:
    """What else may not be where it is needed does not depend on the number of ranks: single_process tells it."""
    for world, fault in zip(check.world_sizes, faults, strict=False):
        check.expect(
            NO_BACKEND not in fault,
            f"On {world} ranks with a GPU each: {fault}",
            SUMS_TO_THE_DEVICE,
            points=check.points / 2,
        )


def insist_on_gpus_of_the_node(check: Check, world: int, fault: str) -> None:
    """End the check where ranks on nodes of one GPU each looked for another, though setup had given them that one."""
    if not names_no_gpu(fault):
        return
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
        "images.to(device) and DistributedDataParallel(model.to(device), device_ids=[device.index]).",
        points=check.points / 2,
    )
