"""The judge of exercise 5, the training: whether the module learns from hidden pictures, by the losses of its steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graders.lightning_train import expected
from graders.lightning_train.expected import Data
from graders.lightning_train.learning import comes_down, piles_up
from graders.lightning_train.modes import ends_in_evaluation_mode, trains_in_evaluation_mode
from graders.lightning_train.returned import LOSS_HINT, is_one_number
from graders.lightning_train.runs import train
from lockstep.check import Check
from lockstep.sandbox.outcome import RankOutcome
from lockstep.verdict import CheckEnded

LEARNING_HINT = "Is the learning rate far too small or too large, and does a graph lead from the loss to this module's own network?"
ZERO_HINT = (
    "With automatic_optimization = False the loop is yours: optimizer.zero_grad() before self.manual_backward(loss), then "
    "optimizer.step()."
)

# What learns trains on, and for how long: again and longer where the loss did not come down.
PICTURES, BATCH_SIZE = 160, 8
EPOCHS, MORE_EPOCHS = 2, 8


def test_learns(check: Check) -> None:
    """Short epochs on pictures that are easily told apart bring the loss down."""
    data = expected.make_data(check.rng, PICTURES + BATCH_SIZE)
    seen = _trained(check, data, EPOCHS)
    _brings_the_loss_down(check, data, _real_losses(check, data, seen, EPOCHS))
    check.expect(
        not trains_in_evaluation_mode(seen),
        "trainer.fit brings the loss down, but training_step switched LitFashion to evaluation mode and left it so: dropout is "
        "off, and batch norm keeps the statistics that it began with.",
        "Leave out self.eval(): Lightning switches to evaluation for validation, and back to training after it.",
        points=check.points / 2,
    )
    check.expect(
        not ends_in_evaluation_mode(seen),
        f"trainer.fit brings the loss down, but LitFashion began in training mode and was in evaluation mode in the last steps "
        f"of epoch {EPOCHS}: dropout is off from then on, and batch norm learns no more statistics.",
        "Does a hook such as on_train_epoch_end or on_validation_epoch_end call self.eval()? Leave it out, or say "
        "self.train() after it: Lightning switches for validation by itself.",
        points=check.points / 2,
    )
    check.expect(
        not piles_up(seen),
        "trainer.fit brings the loss down, but training_step never clears the gradients: every step was made with those of all "
        "earlier batches of the epoch as well.",
        ZERO_HINT,
        points=check.points / 2,
    )


def _trained(check: Check, data: Data, epochs: int) -> RankOutcome:
    """A training whose epochs draw the same numbers, as far as they are drawn from the usual generators."""
    outcome = train(check, data, split=PICTURES, epochs=epochs, batch_size=BATCH_SIZE, same_draws=True)
    return outcome.ranks[0]


def _real_losses(check: Check, data: Data, seen: RankOutcome, epochs: int) -> list[float]:
    """The loss of each step; ends the check where one is missing or is no cross-entropy of its batch."""
    losses = expected.step_losses(seen)
    wanted = epochs * PICTURES // BATCH_SIZE
    check.expect(
        len(losses) == wanted,
        f"trainer.fit over {epochs} epochs of {PICTURES // BATCH_SIZE} batches made {len(losses)} training steps, "
        f"expected {wanted}.",
        "Does something stop the training, such as a callback of configure_callbacks?",
    )
    steps = seen.values.get("steps")
    for made in steps if isinstance(steps, list) else []:
        if isinstance(made, dict):
            is_one_number(check, made)
    real = []
    for step, loss in enumerate(losses):
        check.expect(
            step == 0 or loss is not None,
            f"Step {step + 1} of {wanted}: training_step returned a loss that is no finite number, and did not before. The "
            "pictures are easy: it should fall.",
            LEARNING_HINT,
        )
        start = step * BATCH_SIZE % PICTURES
        labels = data.labels[start : start + BATCH_SIZE]
        tensors = expected.seen_in(seen, f"train{step}", BATCH_SIZE)
        match = expected.find(tensors, labels, loss) if loss is not None else None
        check.expect(
            match is not None and bool(match.matching),
            f"Step {step + 1} of {wanted}: training_step returned {_told(loss)}, which is not the mean cross-entropy of the "
            "batch.",
            LOSS_HINT,
        )
        real.append(loss or 0.0)
    return real


def _brings_the_loss_down(check: Check, data: Data, losses: Sequence[float]) -> None:
    if comes_down(losses, EPOCHS):
        return
    # A large learning rate may lead uphill first.
    try:
        longer = _trained(check, data, MORE_EPOCHS)
    except CheckEnded:
        return  # two epochs were fine, so that this says nothing
    losses = _real_losses(check, data, longer, MORE_EPOCHS)
    means = np.array(losses).reshape(MORE_EPOCHS, -1).mean(axis=1)
    check.expect(
        comes_down(losses, MORE_EPOCHS),
        f"trainer.fit over {MORE_EPOCHS} epochs of {PICTURES // BATCH_SIZE} batches: the first loss is {losses[0]:.4g}, the "
        f"mean of the first epoch {means[0]:.4g}, that of the last {means[-1]:.4g}. The pictures are easy: it should fall.",
        ZERO_HINT if piles_up(longer) else LEARNING_HINT,
    )


def _told(loss: float | None) -> str:
    return "a loss that is no finite number" if loss is None else f"{loss:.4g}"
