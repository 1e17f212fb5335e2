"""The graders of exercises 2 and 5: trainings whose learning rate is 0 before the first epoch has ended, and others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    LRScheduler,
    OneCycleLR,
    PolynomialLR,
    StepLR,
)

from graders.fashion_trainer import steps
from graders.fashion_trainer.probe.nets import PIXELS, Net
from graders.fashion_trainer.probe.training import backward_passes
from graders.lightning_train.learning import stands_still_after
from graders.lightning_train.probe.recorder import sum_of
from lockstep.sandbox.outcome import RankOutcome
from lockstep.wire import Json
from tests.test_fashion_scripts import fails

BATCHES, EPOCHS = 13, 4
Schedule = Callable[[torch.optim.Optimizer], LRScheduler]


@dataclass(frozen=True)
class Way:
    """How a training is done: its scheduler, whether that steps after each batch, how many batches make a step."""

    schedule: Schedule = lambda optimizer: ExponentialLR(optimizer, 1.0)
    by_batch: bool = False
    accumulate: int = 1
    momentum: float = 0.9
    lr: float = 0.03
    epochs: int = EPOCHS


def trained(way: Way) -> tuple[RankOutcome, list[float]]:
    """What both probes note of it, and the loss of each batch."""
    torch.manual_seed(0)
    model = Net(6, batch_norm=False, dropout=0.0)
    noted = backward_passes(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=way.lr, momentum=way.momentum)
    scheduler = way.schedule(optimizer)
    labels = torch.arange(8) % 10
    pictures = [torch.randn(8, PIXELS) + 3 * labels[:, None] for _ in range(BATCHES)]
    losses, sums = [], []
    for number in range(way.epochs * BATCHES):
        sums.append(sum_of(model.parameters()))
        loss = cross_entropy(model(pictures[number % BATCHES]), labels)
        losses.append(loss.item())
        loss.backward()
        if (number + 1) % way.accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
        if way.by_batch or (number + 1) % BATCHES == 0:
            scheduler.step()
    values: dict[str, Json] = {"sums": list[Json](sums), "opened": False}
    return RankOutcome(True, values, {name: np.stack(each) for name, each in noted.items()}), losses


# Dead before the first epoch has ended, which every exercise has more than one of.
DEAD = [
    Way(lambda optimizer: StepLR(optimizer, 1, 0.1), by_batch=True),
    Way(lambda optimizer: StepLR(optimizer, 1, 0.1), by_batch=True, momentum=0.0),
    Way(lambda optimizer: PolynomialLR(optimizer, EPOCHS), by_batch=True),
    Way(lambda optimizer: LinearLR(optimizer, 1.0, 0.0, BATCHES - 1), by_batch=True),
    Way(lambda optimizer: LambdaLR(optimizer, lambda batch: float(batch < 5)), by_batch=True),
]
ALIVE = [
    Way(),
    # Planned for all batches, for the epochs, or to come back.
    Way(lambda optimizer: PolynomialLR(optimizer, EPOCHS * BATCHES), by_batch=True),
    Way(lambda optimizer: OneCycleLR(optimizer, 0.03, EPOCHS * BATCHES), by_batch=True),
    Way(lambda optimizer: CosineAnnealingLR(optimizer, EPOCHS), by_batch=True),
    Way(lambda optimizer: CosineAnnealingLR(optimizer, EPOCHS)),
    Way(lambda optimizer: StepLR(optimizer, 1, 0.1)),
    Way(lambda optimizer: ExponentialLR(optimizer, 0.9), by_batch=True),
    # At its end when the first epoch is.
    Way(lambda optimizer: PolynomialLR(optimizer, 1)),
    Way(lambda optimizer: PolynomialLR(optimizer, BATCHES), by_batch=True),
    # A warm-up, small steps, steps of many batches, one of which comes late.
    Way(lambda optimizer: LinearLR(optimizer, 1e-3, 1.0, BATCHES), by_batch=True),
    Way(lr=1e-6, momentum=0.0),
    Way(accumulate=4),
    Way(accumulate=BATCHES),
    Way(accumulate=2 * BATCHES),
    # Nothing is left to be learned.
    Way(lr=1.0),
    # Never begun: another rule's business.
    Way(lr=0.0),
]


@pytest.mark.filterwarnings("ignore:Detected call of")
@pytest.mark.parametrize(
    ("way", "is_told"), [*((way, True) for way in DEAD), *((way, False) for way in ALIVE)]
)
def test_a_rate_that_is_0_before_an_epoch_has_ended_is_told(way: Way, is_told: bool) -> None:
    seen, losses = trained(way)
    assert fails(lambda check: steps.go_on(check, seen, BATCHES)) is is_told
    assert (stands_still_after(seen, losses, BATCHES) is not None) is is_told


def test_of_a_single_epoch_and_of_a_copy_nothing_is_said() -> None:
    seen, losses = trained(replace(DEAD[0], epochs=1))
    assert not fails(lambda check: steps.go_on(check, seen, BATCHES))
    assert stands_still_after(seen, losses, BATCHES) is None
    copied, losses = trained(DEAD[0])
    assert not fails(lambda check: steps.go_on(check, replace(copied, arrays={}), BATCHES))


def test_a_schedule_may_be_planned_by_a_data_set_of_their_own() -> None:
    seen, losses = trained(DEAD[0])
    opened = replace(seen, values={**seen.values, "opened": True})
    assert stands_still_after(opened, losses, BATCHES) is None
