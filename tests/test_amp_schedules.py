"""Schedulers of exercise 6 that step more often than they were planned for, and those that only seem to."""

from __future__ import annotations

from pathlib import Path

import pytest

from graders.amp.test_amp_logs import steps_too_often
from lockstep.sandbox.box import Box
from lockstep.wire import Json
from tests.amp_scripts import result

MADE = "    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n_steps)\n"
STEP = "            scheduler.step()\n"
FALLS = [0.1, 0.05, 0.01]
RISES = [*FALLS, 0.02]


def events(plans: list[Json], made: int) -> list[list[Json]]:
    return [*(["scheduler made", plan] for plan in plans), *([["scheduler"]] * made)]


@pytest.mark.parametrize(
    ("plans", "made", "rates", "found"),
    [
        ([14], 28, RISES, 28),
        ([14], 17, RISES, 17),
        ([14], 16, RISES, None),  # once more at the end of each epoch
        ([14], 28, FALLS, None),
        ([14], 28, [], None),
        ([14, 14], 28, RISES, None),  # two of them, one for each part of the network
        ([14, None], 28, RISES, None),  # one after the other
        ([28], 28, RISES, None),
        ([7], 14, RISES, None),  # from the top in every epoch
        ([None], 28, RISES, None),
        (["14"], 28, RISES, None),
        ([], 28, RISES, None),
    ],
)
def test_only_one_scheduler_that_went_past_its_plan_stepped_too_often(
    plans: list[Json], made: int, rates: list[float], found: int | None
) -> None:
    assert steps_too_often(events(plans, made), rates, 14) == found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            MADE,
            f"{MADE}    scheduler = torch.optim.lr_scheduler.ChainedScheduler(\n"
            "        [scheduler, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n_steps)]\n    )\n",
        ),
        (
            MADE,
            "    schedules = torch.optim.lr_scheduler\n"
            "    rising = schedules.LinearLR(optimizer, 0.1, total_iters=3)\n"
            "    falling = schedules.CosineAnnealingLR(optimizer, n_steps)\n"
            "    scheduler = schedules.SequentialLR(optimizer, [rising, falling], milestones=[3])\n",
        ),
        (MADE, MADE.replace("n_steps", "len(train_loader)")),
        (
            STEP,
            STEP
            + "            if (global_step + 1) % len(train_loader) == 0:\n                scheduler.step()\n",
        ),
    ],
    ids=["chained", "after a warm-up", "in every epoch anew", "once more in each epoch"],
)
def test_schedules_of_several_parts_cost_nothing(old: str, new: str, tmp_path: Path, box: Box) -> None:
    found = result(tmp_path, box, "lr_logged", old, new)
    assert found.points == found.max_points, found.message
