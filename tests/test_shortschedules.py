"""Schedules by parts of all steps, which are nothing of the few steps of a check, and warm-ups longer than all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockstep.sandbox.box import Box
from tests.samples import edited, messages_of_losses
from tests.sandboxed import run, seen

TRAINED = """
    import torch
    from torch.optim import lr_scheduler
    from torch.optim.lr_scheduler import *

    def rates(make, steps=3):
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        schedule = make(optimizer)
        found = []
        for _ in range(steps):
            optimizer.step()
            schedule.step()
            found.append(round(optimizer.param_groups[0]["lr"], 4))
        return found
"""


@pytest.mark.parametrize(
    ("made", "as_if"),
    [
        ("StepLR(o, step_size=3 // 10)", "StepLR(o, 1)"),
        ("StepLR(o, 0, 0.5)", "StepLR(o, 1, 0.5)"),
        ("lr_scheduler.CosineAnnealingLR(o, T_max=3 // 10)", "CosineAnnealingLR(o, 1)"),
        ("CosineAnnealingWarmRestarts(o, T_0=0, T_mult=2)", "CosineAnnealingWarmRestarts(o, 1, 2)"),
        ("LinearLR(o, 0.1, total_iters=0)", "LinearLR(o, 0.1, total_iters=1)"),
        ("CyclicLR(o, 0.1, 1.0, step_size_up=0)", "CyclicLR(o, 0.1, 1.0, step_size_up=1)"),
        ("OneCycleLR(o, 1.0, 3, pct_start=500 / 3)", "OneCycleLR(o, 1.0, total_steps=3, pct_start=0.9)"),
        # A class of one's own.
        ("type('Own', (StepLR,), {})(o, 0)", "StepLR(o, 1)"),
    ],
)
def test_a_part_of_few_steps_is_one_at_least(made: str, as_if: str, box: Box) -> None:
    source = f"{TRAINED}\n    def main(): return [rates(lambda o: {made}), rates(lambda o: {as_if})]"
    few, one = seen(box, source)  # type: ignore[misc]
    assert few == one


@pytest.mark.parametrize(
    "made",
    [
        "StepLR(o)",
        "StepLR(o, None)",
        "CosineAnnealingWarmRestarts(o, -1)",
        "OneCycleLR(o, 1.0, 4, pct_start=-0.1)",
        "OneCycleLR(o, 1.0, 2)",  # fewer steps than it is told
    ],
)
def test_what_fails_with_all_steps_fails(made: str, box: Box) -> None:
    outcome = run(box, f"{TRAINED}\n    def main(): return rates(lambda o: {made})")
    assert outcome.ranks[0].error is not None
    assert outcome.ranks[0].error.type in ("TypeError", "ValueError")


def test_others_are_as_ever(box: Box) -> None:
    source = f"""{TRAINED}
    import inspect

    def main():
        held = StepLR(torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0), 2, gamma=0.5).state_dict()
        return [
            rates(lambda o: StepLR(o, 2, gamma=0.5)),
            rates(lambda o: CosineAnnealingLR(o, 3)),
            rates(lambda o: LinearLR(o, 0.5, 1.0, 2)),
            [held["step_size"], held["gamma"]],
            [*inspect.signature(StepLR).parameters][:2],
        ]
    """
    assert seen(box, source) == [
        [1.0, 0.5, 0.5],
        [0.75, 0.25, 0.0],
        [0.75, 1.0, 1.0],
        [2, 0.5],
        ["optimizer", "step_size"],
    ]


OPTIMIZER = "    optimizer = torch.optim.Adam(model.parameters(), lr=lr)\n"
STEP = "            optimizer.step()\n"


def test_a_rate_that_falls_ten_times_in_all_costs_nothing(tmp_path: Path, box: Box) -> None:
    made = "    falls = torch.optim.lr_scheduler.StepLR(optimizer, epochs * len(loader) // 10, gamma=0.9)\n"
    edits = [(OPTIMIZER, OPTIMIZER + made), (STEP, f"{STEP}            falls.step()\n")]
    folder = edited("fashion_trainer", tmp_path, *edits)
    assert messages_of_losses(folder, "fashion_trainer", box, []) == []
