"""The grader of exercise 6 on scripts that compute a second cross-entropy, for a log alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from graders.amp.probe.graph import records_in, remember
from lockstep.sandbox.box import Box
from tests.samples import edited, messages_of_losses

Edit = tuple[str, str]

CHECKS = ("autocast_on", "tensorboard", "wandb", "lr_logged", "accumulation")
MADE = "    criterion = nn.CrossEntropyLoss()\n"
SMOOTHED: Edit = (MADE, MADE.replace("()", "(label_smoothing=0.1)"))
BY_HAND: Edit = (
    MADE,
    """\
    def criterion(logits, labels):
        logs = logits.float().log_softmax(dim=1)
        return -0.9 * logs.gather(1, labels[:, None]).mean() - 0.1 * logs.mean()

""",
)
LOSS = "        logits = model(images)\n        loss = criterion(logits, labels)\n    # Small"
SECOND = "        second = nn.functional.cross_entropy({})\n"
RETURNED: Edit = (
    '        "loss": loss.item(),\n        "acc1": topk',
    '        "loss": loss.item(),\n        "plain": second.item(),\n        "acc1": topk',
)


def second(arguments: str, then: str = "") -> tuple[Edit, Edit]:
    """A second cross-entropy behind the first, and what `train_step` returns of it."""
    line = SECOND.format(arguments).replace("\n", f"{then}\n")
    return (LOSS, LOSS.replace("    # Small", f"{line}    # Small")), RETURNED


BEFORE: Edit = (LOSS, LOSS.replace("        loss =", SECOND.format("logits, labels") + "        loss ="))
# Behind autocast the logits are what the layers answered in.
IN_LOW: Edit = (
    LOSS,
    LOSS.replace("    # Small", SECOND.format("logits.detach(), labels")[4:] + "    # Small"),
)


@pytest.mark.parametrize(
    "edits",
    [
        (SMOOTHED, *second("logits.detach(), labels")),
        second('logits.detach(), labels, reduction="none"', ".max()"),
        (SMOOTHED, *second("logits, labels")),
        (SMOOTHED, BEFORE, RETURNED),
        (SMOOTHED, IN_LOW, RETURNED),
    ],
    ids=["detached", "hardest", "with a graph", "before", "in low precision"],
)
def test_a_second_loss_may_be_computed_for_a_log(edits: tuple[Edit, ...], tmp_path: Path, box: Box) -> None:
    assert messages_of_losses(edited("amp_train", tmp_path, *edits), "amp", box, CHECKS) == []


@pytest.mark.parametrize(
    "edits",
    [
        (BY_HAND, *second("logits.detach(), labels")),
        (BY_HAND, *second("logits, labels")),
        (SMOOTHED, *second("logits.roll(1, 0), labels")),
    ],
    ids=["by hand", "by hand, with a graph", "of other logits"],
)
def test_the_loss_that_is_derived_is_the_one_that_is_logged(
    edits: tuple[Edit, ...], tmp_path: Path, box: Box
) -> None:
    assert messages_of_losses(edited("amp_train", tmp_path, *edits), "amp", box, CHECKS[1:]) == []


def test_a_second_loss_hides_no_training_in_fp32(tmp_path: Path, box: Box) -> None:
    in_full = ("optimizer, scaler, device, args.amp, args", "optimizer, scaler, device, False, args")
    folder = edited("amp_train", tmp_path, in_full, SMOOTHED, *second("logits, labels"))
    (message,) = messages_of_losses(folder, "amp", box, ["autocast_on"])
    assert "trained on its first batches in float32" in message


def test_a_second_loss_hides_no_loss_in_low_precision(tmp_path: Path, box: Box) -> None:
    in_low = LOSS.replace("        loss =", "    loss =").replace(
        "    # Small",
        "    with torch.autocast(device.type):\n" + SECOND.format("logits, labels") + "    # Small",
    )
    folder = edited("amp_train", tmp_path, (LOSS, in_low), RETURNED)
    (message,) = messages_of_losses(folder, "amp", box, ["autocast_on"])
    assert "the loss was computed in bfloat16, expected float32" in message


def test_a_second_loss_is_not_what_is_to_be_logged(tmp_path: Path, box: Box) -> None:
    rate = '            metrics["lr"] ='
    logged = (rate, f'            metrics["loss"] = metrics["plain"]\n{rate}')
    folder = edited("amp_train", tmp_path, logged, *second("logits.roll(1, 0), labels"))
    (message,) = messages_of_losses(folder, "amp", box, ["tensorboard"])
    assert "train/loss, value 1 of 14" in message


def test_what_is_derived_tells_of_the_losses_in_it() -> None:
    logits = nn.Linear(2, 3)(torch.ones(4, 2))
    labels = torch.zeros(4, dtype=torch.int64)
    first, other = (nn.functional.cross_entropy(logits, labels) for _ in range(2))
    detached = nn.functional.cross_entropy(logits.detach(), labels)
    for name, value in (("first", first), ("other", other), ("detached", detached)):
        remember(value, {"name": name})
    assert [record["name"] for record in records_in(64 * first)] == ["first"]
    assert [record["name"] for record in records_in([other / 2])] == ["other"]
    assert sorted(record["name"] for record in records_in(first + first * other)) == ["first", "other"]
    assert [*records_in(logits.sum())] == [*records_in(detached)] == [*records_in(None)] == []
    # In place, and behind the first derivation.
    first *= 0.5
    first.backward(retain_graph=True)
    assert [record["name"] for record in records_in(first)] == ["first"]
