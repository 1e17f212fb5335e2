"""Exercise 4, the script: what its report says of the run that wrote it."""

from __future__ import annotations

import json
from typing import Any

from graders.ddp_train.script_runs import BATCH_SIZE, hands_on
from lockstep.check import Check
from lockstep.compare import integer
from lockstep.text import listed
from lockstep.wire import Json


def settings(report: Json, name: str) -> list[int]:
    """The whole numbers of that name in the configurations of a perf-report/1, read as plain JSON."""
    if not isinstance(report, str):
        return []
    try:
        runs: Any = json.loads(report)["runs"]
        found = [integer(run["config"].get(name)) for run in runs]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []
    return [number for number in found if number is not None]


def tells_of_its_run(check: Check, report: Json, alone: Json, asked: Json) -> None:
    """End the check where a report's batch size or number of processes is that of no run that was made.

    `report` is of two processes, `alone` of one. What it leaves out, or has under another name, is not asked here.
    """
    sizes = settings(report, "batch_per_rank")
    # One that counts the images of all ranks has what was used as well.
    check.expect(
        not sizes or not hands_on(asked) or bool({BATCH_SIZE, 2 * BATCH_SIZE} & {*sizes}),
        f"`NPROC=2 ./ddp_train.sh ... --batch-size {BATCH_SIZE}` works, but its reports/ddp.json says batch_per_rank "
        f"{_all(sizes)}, expected {BATCH_SIZE}.",
        'Write down what was used: "batch_per_rank": args.batch_size.',
        points=check.points / 2,
    )
    worlds = settings(alone, "world_size")
    check.expect(
        not worlds or 1 in worlds,
        "`NPROC=2 ./ddp_train.sh` works, but `python ddp_train.py ... --report FILE`, one process without torchrun, "
        f"wrote world_size {_all(worlds)} into its report, expected 1.",
        'Ask the group how large it is: "world_size": dist.get_world_size().',
        points=check.points / 2,
    )


def _all(numbers: list[int]) -> str:
    return listed([str(number) for number in sorted({*numbers})[:3]])
