"""Figures by their names: what is called a loss or an accuracy and nothing more, and what a script makes of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeGuard

from graders.lightning_train import expected
from lockstep.check import Check
from lockstep.compare import elements, number
from lockstep.sandbox.outcome import RankOutcome
from lockstep.text import safe
from lockstep.wire import Json

# Others have names: val_acc_top5, val_accuracy_shirt, val_acc_gap.
ACCURACY = re.compile(
    r"(?:val|valid|validation)?[\W_]*(?:(?:avg|mean)[\W_]*)?(?:acc|accuracy)[\W_]*(?:(?:percent|pct)[\W_]*)?"
    r"(?:val|valid|validation)?(?:_epoch)?",
    re.IGNORECASE,
)
LOSS = re.compile(
    r"(?:val|valid|validation)?[\W_]*(?:(?:avg|mean)[\W_]*)?loss[\W_]*(?:val|valid|validation)?(?:_epoch)?",
    re.IGNORECASE,
)
TRAINING_LOSS = re.compile(
    r"(?:train|training)?[\W_]*(?:(?:avg|mean|step|batch)[\W_]*)?loss[\W_]*(?:train|training)?(?:_step|_epoch)?",
    re.IGNORECASE,
)

# Of what is called a loss, these words say that it is another figure than its mean over validation.
OTHER_FIGURES = frozenset(
    "train training gap diff difference ratio std stdev sem var variance min max median best worst ema".split()
)

# And these that it may be that: beside a val_loss, what has other words in its name, as val_hinge_loss, is another.
OF_THE_LOSS = frozenset(
    "loss val valid validation test eval avg average mean total epoch batch minibatch step ce xent crossentropy cross "
    "entropy nll cls classification".split()
)

PLATEAU = "ReduceLROnPlateau"
LEAST_GUESSED = 1.0  # a mean cross-entropy before anything is learned; whoever guesses has 2.3


def logs_no_constant(check: Check, seen: RankOutcome, call: str) -> None:
    """End the check where what training_step logs as its loss is one number, and what it returns is not."""
    constants = seen.values.get("constants")
    if not isinstance(constants, dict):
        return
    losses = [loss for loss in expected.step_losses(seen) if loss is not None]
    if max(losses, default=0) - min(losses, default=0) < 1e-3:
        return
    for name, value in constants.items():
        logged = number(value)
        if logged is not None and TRAINING_LOSS.fullmatch(name):
            check.fail(
                f"{call}: training_step logged {safe(name, 60)} as {logged:.4g} in every step, while the losses "
                f"that it returned are between {min(losses):.4g} and {max(losses):.4g}.",
                f'Log the loss of the batch: self.log("{safe(name, 60)}", loss).',
                points=check.points / 2,
            )


def logs_no_sum(check: Check, seen: RankOutcome, call: str) -> None:
    """End the check where what training_step logs as its loss is what it returns times the number of pictures."""
    multiplied = seen.values.get("multiplied")
    if not isinstance(multiplied, dict):
        return
    losses = [loss for loss in expected.step_losses(seen) if loss is not None]
    # Where it is less from the beginning, what is returned is a part of the loss, and may be logged as a whole.
    if max(losses, default=0) < LEAST_GUESSED:
        return
    for name, told in multiplied.items():
        logged, loss, size = [number(each) for each in told] if _has_three(told) else [None] * 3
        if logged is not None and loss is not None and size is not None and TRAINING_LOSS.fullmatch(name):
            check.fail(
                f"{call}: training_step logged {safe(name, 60)} as {logged:.4g} and returned a loss of {loss:.4g}, "
                f"which is the mean over the {size:g} pictures of the batch. So it was in every step: what is logged "
                "is their sum. The curve depends on --batch-size, and drops in a last batch that is smaller.",
                f'Log the loss that is returned, the mean of the batch: self.log("{safe(name, 60)}", loss).',
                points=check.points / 2,
            )


def _has_three(told: Json) -> TypeGuard[list[Json]]:
    return isinstance(told, list) and len(told) == 3


def watches_the_right_way(check: Check, seen: RankOutcome, call: str) -> None:
    """End the check where a callback or a plateau takes the smallest accuracy for the best one, or the largest loss."""
    monitors = seen.values.get("monitors")
    for entry in elements(monitors):
        match entry:
            case [str() as watcher, str() as name, "min"] if ACCURACY.fullmatch(name):
                taken, better = "smallest accuracy", "max"
            case [str() as watcher, str() as name, "max"] if _is_a_loss(name):
                taken, better = "largest loss", "min"
            case _:
                continue
        so = ": the learning rate falls while the network gets better" if watcher == PLATEAU else ""
        check.fail(
            f"{call}: the Trainer has {safe(watcher, 60)} with monitor={safe(name, 60)!r} and mode={entry[2]!r}, "
            f"which takes the {taken} for the best{so}.",
            f"Say mode={better!r}: it is 'min' where nothing is said, whatever the figure.",
            points=check.points / 2,
        )


def mean_losses(logged: Mapping[str, float]) -> dict[str, float]:
    """What of all that validation logs is called its mean loss: val_loss, val_ce_loss, but not val_loss_std."""
    has_plain = any(map(LOSS.fullmatch, logged))
    return {name: value for name, value in logged.items() if _is_mean_loss(name, has_plain)}


def _is_mean_loss(name: str, beside_a_plain_one: bool) -> bool:
    words = {word for word in re.split(r"[\W\d_]+", name.lower()) if word}
    if beside_a_plain_one and not (LOSS.fullmatch(name) or words <= OF_THE_LOSS):
        return False
    return "loss" in name.lower() and not OTHER_FIGURES & words


def is_of_training(name: str) -> bool:
    """Whether a name says that it is the loss of training, and not just a loss."""
    return "train" in name.lower() and TRAINING_LOSS.fullmatch(name) is not None


def _is_a_loss(name: str) -> bool:
    return bool(LOSS.fullmatch(name) or TRAINING_LOSS.fullmatch(name))
