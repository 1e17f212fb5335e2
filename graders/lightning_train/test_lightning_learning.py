"""The judge of exercise 5, the training: whether the module learns from hidden pictures, by the losses of its steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from graders.lightning_train import expected, smoothing
from graders.lightning_train.expected import Data
from graders.lightning_train.learning import (
    comes_down,
    falls_at_once,
    made_for_batches,
    piles_up,
    share_left,
    stands_still_after,
)
from graders.lightning_train.modes import ends_in_evaluation_mode, trains_in_evaluation_mode
from graders.lightning_train.returned import LOSS_HINT, is_one_number
from graders.lightning_train.runs import train
from lockstep.check import Check
from lockstep.compare import elements
from lockstep.sandbox.outcome import RankOutcome
from lockstep.text import safe
from lockstep.verdict import CheckEnded

LEARNING_HINT = "Is the learning rate far too small or too large, and does a graph lead from the loss to this module's own network?"
ZERO_HINT = (
    "With automatic_optimization = False the loop is yours: optimizer.zero_grad() before self.manual_backward(loss), then "
    "optimizer.step()."
)

LEFT_HINT = (
    "Lightning clears them before each backward, unless optimizer_zero_grad says otherwise, as where it clears in every "
    "fourth batch only: leave that hook out. To add up four batches for one step, say "
    "Trainer(accumulate_grad_batches=4): then steps are rarer, too."
)


@dataclass(frozen=True)
class Course:
    """So many pictures, in batches of so many, as often as there are epochs."""

    pictures: int
    batch_size: int
    epochs: int

    @property
    def batches(self) -> int:
        """The training steps of an epoch."""
        return self.pictures // self.batch_size

    @property
    def steps(self) -> int:
        """The training steps of all epochs."""
        return self.epochs * self.batches

    def __str__(self) -> str:
        return (
            f"trainer.fit over {self.epochs} epochs of {self.batches} batches of {self.batch_size} pictures"
        )


SHORT = Course(160, 8, epochs=2)
# A large learning rate may lead uphill first.
LONGER = Course(160, 8, epochs=8)
# As short, with other numbers.
SECOND = Course(176, 8, epochs=2)
# With batch norm a learning rate that is right for batches of this size may blow up in batches of 8 by bad luck: of
# small networks of two convolutions and three linear layers, trained by SGD(lr=0.1, momentum=0.9), 9 of 20 did not
# learn in those, and all in these.
USUAL = Course(640, 64, epochs=4)


@dataclass(frozen=True)
class Training:
    """What came of a course: the losses of its steps, up to the first that is no finite number."""

    course: Course
    seen: RankOutcome
    losses: list[float]

    @property
    def blew_up(self) -> bool:
        """Whether a loss is no finite number, after others that were."""
        return len(self.losses) < self.course.steps

    @property
    def learned(self) -> bool:
        """Whether the loss came down."""
        return not self.blew_up and comes_down(self.losses, self.course.epochs)

    def told(self) -> str:
        """How it went, of a training that learned nothing."""
        if self.blew_up:
            return (
                f"{self.course}: in step {len(self.losses) + 1} of {self.course.steps} training_step returned a loss that is "
                "no finite number, and did not before."
            )
        means = np.array(self.losses).reshape(self.course.epochs, -1).mean(axis=1)
        return (
            f"{self.course}: the first loss is {self.losses[0]:.4g}, the mean of the first epoch {means[0]:.4g}, that of the "
            f"last {means[-1]:.4g}."
        )


def test_learns(check: Check) -> None:
    """Short epochs on pictures that are easily told apart bring the loss down."""
    data = _drawn(check, SHORT)
    short = _training(check, data, SHORT, _fit(check, data, SHORT))
    if not short.learned:
        _learns_otherwise(check, data, short)
    check.expect(
        not trains_in_evaluation_mode(short.seen),
        "trainer.fit brings the loss down, but training_step switched LitFashion to evaluation mode and left it so: dropout is "
        "off, and batch norm keeps the statistics that it began with.",
        "Leave out self.eval(): Lightning switches to evaluation for validation, and back to training after it.",
        points=check.points / 2,
    )
    check.expect(
        not ends_in_evaluation_mode(short.seen),
        f"trainer.fit brings the loss down, but LitFashion began in training mode and was in evaluation mode in the last steps "
        f"of epoch {SHORT.epochs}: dropout is off from then on, and batch norm learns no more statistics.",
        "Does a hook such as on_train_epoch_end or on_validation_epoch_end call self.eval()? Leave it out, or say "
        "self.train() after it: Lightning switches for validation by itself.",
        points=check.points / 2,
    )
    check.expect(
        not piles_up(short.seen),
        "trainer.fit brings the loss down, but training_step never clears the gradients: every step was made with those of all "
        "earlier batches of the epoch as well.",
        ZERO_HINT,
        points=check.points / 2,
    )
    if (left := share_left(short.seen)) is not None:
        check.fail(
            "trainer.fit brings the loss down, but "
            f"{left[0]} of {left[1]} steps were made with the gradients of the step before as well: nothing had cleared them.",
            LEFT_HINT,
            points=check.points / 2,
        )
    if (last := stands_still_after(short.seen, short.losses, SHORT.batches)) is not None:
        check.fail(
            f"{SHORT}: no step changed a weight after batch {last} of the first epoch, though the loss was still "
            f"{np.mean(short.losses[SHORT.batches :]):.3g}.",
            "Is the learning rate 0 by then? With interval='step' a scheduler steps after every batch: plan it in batches, as "
            "with total_iters=self.trainer.estimated_stepping_batches, or leave interval out, and it steps once an epoch.",
            points=check.points / 2,
        )
    _goes_as_planned(check, short.seen)


def _goes_as_planned(check: Check, seen: RankOutcome) -> None:
    """End the check where a schedule is planned in batches and steps once an epoch."""
    found = made_for_batches(seen, SHORT.steps, SHORT.epochs)
    if found is None:
        return
    # So many epochs could be meant, if they were as many in a training of other length.
    try:
        other = _fit(check, _drawn(check, SECOND), SECOND)
    except CheckEnded:
        return
    if made_for_batches(other, SECOND.steps, SECOND.epochs) is None:
        return
    name, made = found
    check.fail(
        f"{SHORT}: {safe(name, 40)} was made for {SHORT.steps} steps, one for each batch, and made {made}, one an epoch. The "
        "learning rate hardly leaves where it began.",
        'Tell Lightning to step after every batch: {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, '
        '"interval": "step"}}. Or plan in epochs: self.trainer.max_epochs.',
        points=check.points / 2,
    )


def _learns_otherwise(check: Check, data: Data, short: Training) -> None:
    """End the check unless the loss comes down in a longer course, or in batches of the usual size."""
    small, broken = short, None
    if not short.blew_up:
        try:
            longer = _fit(check, data, LONGER)
        except CheckEnded as ended:
            broken = ended
        else:
            small = _training(check, data, LONGER, longer)
            if small.learned:
                return
    data = _drawn(check, USUAL)
    try:
        usual = _fit(check, data, USUAL)
    except CheckEnded:
        if broken is not None:
            raise broken from None
        _fails(check, small)  # which nothing has excused
    last = _training(check, data, USUAL, usual)
    if not last.learned and not falls_at_once(last.losses, USUAL.batches):
        _fails(
            check,
            last,
            f" Nor did it in batches of {small.course.batch_size}.",
        )


def _fails(check: Check, training: Training, besides: str = "") -> NoReturn:
    check.fail(
        f"{training.told()} The pictures are easy: it should fall.{besides}",
        ZERO_HINT if piles_up(training.seen) else LEFT_HINT if share_left(training.seen) else LEARNING_HINT,
    )


def _drawn(check: Check, course: Course) -> Data:
    """The pictures of a course, and some for validation."""
    return expected.make_data(check.rng, course.pictures + SHORT.batch_size)


def _fit(check: Check, data: Data, course: Course) -> RankOutcome:
    """A training whose epochs draw the same numbers, as far as they are drawn from the usual generators."""
    outcome = train(
        check,
        data,
        split=course.pictures,
        epochs=course.epochs,
        batch_size=course.batch_size,
        same_draws=True,
    )
    return outcome.ranks[0]


def _training(check: Check, data: Data, course: Course, seen: RankOutcome) -> Training:
    """The losses of a training; ends the check where one is missing or is no cross-entropy of its batch."""
    losses = expected.step_losses(seen)
    blown_up = None in losses[1 : course.steps]
    # Who stops a training that has blown up does well.
    check.expect(
        len(losses) == course.steps or blown_up,
        f"{course} made {len(losses)} training steps, expected {course.steps}.",
        "Does something stop the training, such as a callback of configure_callbacks?",
    )
    steps = seen.values.get("steps")
    for made in elements(steps):
        if isinstance(made, dict):
            is_one_number(check, made)
    real: list[float] = []
    for loss in losses[: course.steps]:
        if loss is None:
            break
        real.append(loss)
    labels = np.split(data.labels[: course.pictures], course.batches) * course.epochs
    tensors = [expected.seen_in(seen, f"train{step}", course.batch_size) for step in range(len(real))]
    plain = [bool(expected.find(*each).matching) for each in zip(tensors, labels, real, strict=False)]
    if not real or not (all(plain) or smoothing.explains(real, tensors, labels[: len(real)])):
        wrong = plain.index(False) if real else 0
        check.fail(
            f"Step {wrong + 1} of {course.steps}: training_step returned {_told(losses[wrong])}, which is not the mean "
            "cross-entropy of the batch.",
            LOSS_HINT,
        )
    return Training(course, seen, real)


def _told(loss: float | None) -> str:
    return "a loss that is no finite number" if loss is None else f"{loss:.4g}"
