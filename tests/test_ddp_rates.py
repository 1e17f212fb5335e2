"""Exercise 4, the learning rate that train_one_epoch sets: a schedule is no mistake, and hides none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch

from graders.ddp_train.probe.rates import insist_on_a_rate, keep_rate
from lockstep.sandbox.box import Box
from lockstep.sandbox.probing import StudentMistake
from tests.samples import edited, messages_of_losses

EXERCISE = "ddp_train"
# The checks that compare weights after steps at a rate that is not 0.
COMPARING = ("weights_in_sync", "no_double_softmax", "single_process", "checkpoint", "really_communicates")

BEGINS = "    loss_sum, n_items = 0.0, 0\n"
LOOP = "    for images, labels in loader:\n        images, labels = images.to(device), labels.to(device)\n        optimizer.zero_grad()\n"
STEP = "        optimizer.step()\n"
CALL = "criterion(model(images), labels)"


def at_rate(rate: str) -> tuple[str, str]:
    """An edit by which every step has the rate of an expression of `base`, `step`, `epoch`, `n` and `rank`."""
    return LOOP, (
        "    rank, n = dist.get_rank(), len(loader)\n"
        "    for step, (images, labels) in enumerate(loader):\n"
        "        for group in optimizer.param_groups:\n"
        '            base = group.setdefault("initial_lr", group["lr"])\n'
        f'            group["lr"] = {rate}\n'
        "        images, labels = images.to(device), labels.to(device)\n"
        "        optimizer.zero_grad()\n"
    )


# As in torchvision's references/detection/engine.py.
WARM_UP = (
    (
        BEGINS,
        "    warm_up = None\n"
        "    if epoch == 0:\n"
        "        warm_up = torch.optim.lr_scheduler.LinearLR(\n"
        "            optimizer, start_factor=1 / 1000, total_iters=min(1000, len(loader) - 1)\n"
        "        )\n" + BEGINS,
    ),
    (STEP, f"{STEP}        if warm_up is not None:\n            warm_up.step()\n"),
)
# As in MAE's util/lr_sched.py.
HALF_COSINE = at_rate("base * 0.5 * (1 + torch.cos(torch.tensor(torch.pi * (epoch + step / n) / 30)).item())")
FROM_ZERO = at_rate("base * min(1, (epoch + step / n) / 5)")
UNAVERAGED = (CALL, "criterion(model.module(images), labels)")
ON_RANK_0_ALONE = at_rate("base * 0.99 ** step if rank == 0 else base")


@pytest.mark.parametrize(
    "edits", [WARM_UP, (HALF_COSINE,), (FROM_ZERO,)], ids=["warm-up", "half a cosine", "from zero"]
)
def test_a_rate_may_be_set_within_an_epoch(
    edits: tuple[tuple[str, str], ...], tmp_path: Path, box: Box
) -> None:
    assert messages_of_losses(edited(EXERCISE, tmp_path, *edits), EXERCISE, box, COMPARING) == []


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        ((at_rate("base * dist.get_world_size()"),), "not with one process"),
        ((at_rate("base * 1e-9"), UNAVERAGED), "the ranks' weights are not equal"),
        ((at_rate("0.0"),), "learning rate to 0"),
        ((at_rate("-base"),), "not with one process"),
        ((at_rate("float('nan')"),), "weights are not equal"),
        ((ON_RANK_0_ALONE,), "other learning rates than one another"),
    ],
    ids=["multiplied", "tiny, and nothing averaged", "zero", "negative", "no number", "on rank 0 alone"],
)
def test_no_rate_hides_that_the_weights_are_wrong(
    edits: tuple[tuple[str, str], ...], said: str, tmp_path: Path, box: Box
) -> None:
    (message,) = messages_of_losses(edited(EXERCISE, tmp_path, *edits), EXERCISE, box, ("weights_in_sync",))
    assert said in message


FORGED = """
import os

from lockstep.sandbox import probing

made = probing.Observation.__init__

def forging(self, values, arrays=None):
    if "rates/the learning rate" in (arrays or {}) and os.environ["RANK"] in RANKS:
        arrays["rates/the learning rate"] = ODD
    made(self, values, arrays)

probing.Observation.__init__ = forging
"""


def forged(odd: str, ranks: str) -> tuple[str, str]:
    """An edit by which these ranks tell other rates than they set."""
    return "import argparse\n", "import argparse\n" + FORGED.replace("ODD", odd).replace("RANKS", repr(ranks))


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        ((forged("torch.full((6,), 1e-12)", "01"), UNAVERAGED), "the ranks' weights are not equal"),
        ((forged("torch.tensor([])", "01"), UNAVERAGED), "the ranks' weights are not equal"),
        ((forged("torch.full((6,), float('nan'))", "01"),), "holds NaN"),
        ((forged("torch.zeros(6, dtype=torch.int64)", "1"),), "has dtype int64"),
        ((forged("torch.zeros(2, 3, dtype=torch.float64)", "1"),), "has shape 2x3"),
    ],
)
def test_rates_that_are_forged_gain_nothing(
    edits: tuple[tuple[str, str], ...], said: str, tmp_path: Path, box: Box
) -> None:
    (message,) = messages_of_losses(edited(EXERCISE, tmp_path, *edits), EXERCISE, box, ("weights_in_sync",))
    assert said in message


def trained(set_to: Mapping[int, float], n_steps: int = 3) -> tuple[float, list[float], float]:
    """Where a weight of 0 comes to by steps along a gradient of 1 at rate 0.5, or what is set instead before a step.

    Also the rates that were noted, and the one that the optimizer has in the end.
    """
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.5)
    rates = keep_rate(optimizer)
    for step in range(n_steps):
        optimizer.param_groups[0]["lr"] = set_to.get(step, optimizer.param_groups[0]["lr"])
        weight.grad = torch.ones(1)
        optimizer.step()
    return weight.item(), rates, optimizer.param_groups[0]["lr"]


@pytest.mark.parametrize(
    ("set_to", "rates", "comes_to"),
    [
        ({}, [0.5, 0.5, 0.5], -1.5),
        ({0: 0.0, 1: 0.25, 2: 0.5}, [0.0, 0.25, 0.5], -1.5),
        ({1: 0.25}, [0.5, 0.25, 0.25], -1.5),
        ({2: 0.5 + 1e-9}, [0.5, 0.5, 0.5 + 1e-9], -1.5),  # a schedule that is back where it began
        ({1: 1.0, 2: 0.5}, [0.5, 1.0, 0.5], -2.0),
        ({1: -1.0}, [0.5, -1.0, -1.0], 1.5),
    ],
)
def test_a_step_is_made_at_the_rate_given_unless_a_larger_one_is_set(
    set_to: dict[int, float], rates: list[float], comes_to: float
) -> None:
    assert trained(set_to) == (pytest.approx(comes_to), rates, rates[-1])


def test_what_is_no_rate_stays_none() -> None:
    assert np.isnan(trained({1: float("nan")})[0])


@pytest.mark.parametrize("rates", [[], [0.1], [0.0, 0.1], [float("nan")]])
def test_a_training_needs_one_rate_above_zero(rates: list[float]) -> None:
    insist_on_a_rate(rates)
    with pytest.raises(StudentMistake, match="nothing is trained"):
        insist_on_a_rate([0.0, 0.0])
