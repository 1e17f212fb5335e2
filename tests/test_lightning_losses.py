"""The grader of exercise 5, the losses: label smoothing that the gradient bears out, and trainings that blow up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy, mse_loss, one_hot

from graders.lightning_train import smoothing
from lockstep.crossentropy import row_losses
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.sandbox.spec import RunSpec
from lockstep.verdict import CheckEnded, Crashed
from lockstep.wire import Array, Json
from tests.made_up import end_of

EXERCISE = "lightning_train"
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def smoothed(share: float) -> Loss:
    return lambda logits, labels: cross_entropy(logits, labels, label_smoothing=share)


def in_part(factor: float) -> Loss:
    """The cross-entropy with the gradient of a part of it."""

    def loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        whole = cross_entropy(logits, labels)
        return factor * whole + (1 - factor) * whole.detach()

    return loss


def answered(*values: Json, **arrays: Array) -> Outcome:
    (first,) = values
    assert isinstance(first, dict)
    return Outcome(
        (RankOutcome(True, first, {name.replace("__", "/"): a for name, a in arrays.items()}),), elapsed=1.0
    )


def a_step(loss: float | None) -> dict[str, Json]:
    return {"loss": loss, "loss_is": "a float32 tensor", "output": "a float32 tensor", "graph": True}


def first_step(spec: RunSpec, loss: Loss, spread: float) -> Outcome:
    """What the probe tells of one step of a network whose logits are drawn, `spread` apart."""
    if spec.call == "found":
        return answered({"is_class": True})
    given = spec.ranks[0]
    labels = torch.from_numpy(given.arrays["labels"][: given.values["split"]])  # type: ignore[misc]
    drawn = np.random.default_rng(1).normal(size=(len(labels), 10))
    logits = torch.tensor(spread * drawn, dtype=torch.float32, requires_grad=True)
    value = loss(logits, labels)
    value.backward()
    assert logits.grad is not None
    return answered(
        {"steps": [a_step(float(value.detach()))], "reached": ["network.weight"]},
        train0__seen0=logits.detach().numpy(),
        train0__gradient0=logits.grad.numpy(),
    )


def judged(loss: Loss, spread: float) -> CheckEnded | None:
    return end_of(EXERCISE, "training_step_loss", lambda spec: first_step(spec, loss, spread))


SPREADS = (0.0, 0.1, 1.0, 5.0)  # of a network that was zeroed, drawn as usual, trained, and is sure


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("share", [0.0, 0.01, 0.05, 0.1, 0.3])
def test_a_little_label_smoothing_costs_nothing(share: float, spread: float) -> None:
    assert judged(smoothed(share), spread) is None


def test_more_label_smoothing_than_anybody_wants_is_told() -> None:
    for spread in SPREADS[1:]:
        ended = judged(smoothed(0.5), spread)
        assert ended is not None
        assert "label_smoothing=0.5, expected at most 0.3" in ended.feedback.message


@pytest.mark.parametrize("spread", SPREADS[1:])
@pytest.mark.parametrize("factor", [0.5, 0.75, 0.9, 1.1, 2.0])
def test_a_right_loss_with_another_gradient_is_told_what_differs(factor: float, spread: float) -> None:
    ended = judged(in_part(factor), spread)
    assert ended is not None
    assert "as the mean cross-entropy of the batch is" in ended.feedback.message
    assert "the gradient differs by up to" in ended.feedback.message
    assert "Expected softmax(logits) - one_hot(labels), divided by" in ended.feedback.message


@pytest.mark.parametrize("spread", SPREADS[1:])
@pytest.mark.parametrize(
    "loss",
    [
        lambda logits, labels: 0.95 * cross_entropy(logits, labels),
        lambda logits, labels: 1.1 * cross_entropy(logits, labels) - 0.1 * smoothed(1.0)(logits, labels),
        lambda logits, labels: cross_entropy(logits, labels) + 0.01 * logits.square().sum(),
        lambda logits, labels: cross_entropy(logits.softmax(dim=1), labels, label_smoothing=0.1) + 0.1,
        lambda logits, labels: mse_loss(logits, one_hot(labels, 10).float()),
        lambda logits, labels: smoothed(0.1)(logits, labels) + 0.05,
        lambda logits, labels: smoothed(0.1)(logits, labels) * len(labels),
        lambda logits, labels: smoothed(0.1)(logits[:16], labels[:16]),
    ],
)
def test_no_other_loss_passes_for_label_smoothing(loss: Loss, spread: float) -> None:
    assert judged(loss, spread) is not None


def a_training(share: float, steps: int) -> tuple[list[Array], list[Array]]:
    """The logits and labels of the steps of a network that gets better."""
    rng = np.random.default_rng(0)
    labels = [rng.integers(0, 10, 8) for _ in range(steps)]
    return [
        step * 0.2 * np.eye(10)[own] + rng.normal(size=(8, 10)) for step, own in enumerate(labels)
    ], labels


@pytest.mark.parametrize(
    ("share", "is_one"), [(0.02, True), (0.1, True), (0.3, True), (0.35, False), (0.5, False), (-0.1, False)]
)
def test_the_losses_of_a_training_have_one_smoothing(share: float, is_one: bool) -> None:
    logits, labels = a_training(share, 20)
    losses = [float(row_losses(*step, share).mean()) for step in zip(logits, labels, strict=True)]
    tensors = [{0: np.ones((8, 10)), 3: values} for values in logits]
    assert smoothing.explains(losses, tensors, labels) is is_one
    # Another share in one step, or a tensor that is not always there, is no smoothing.
    odd = [*losses[:-1], float(row_losses(logits[-1], labels[-1], share / 2).mean())]
    assert not smoothing.explains(odd, tensors, labels)
    assert not smoothing.explains(losses, [*tensors[:-1], {0: tensors[-1][0]}], labels)


Course = tuple[int, int]  # pictures in a batch, epochs
# How far the right logit is above the others in a step; None where the loss is no finite number any more.
Heights = Callable[[int], float | None]


def learns(step: int) -> float | None:
    return 0.05 * step


def blows_up(step: int) -> float | None:
    return 0.0 if step < 9 else None


def stands(step: int) -> float | None:
    return 0.0


def trained(spec: RunSpec, heights: Heights, share: float = 0.0) -> Outcome:
    given = spec.ranks[0].values
    size, split = given["batch_size"], given["split"]
    labels = np.split(spec.ranks[0].arrays["labels"][:split], split // size) * given["epochs"]
    steps: list[Json] = []
    arrays = {}
    for number, own in enumerate(labels):
        height = heights(number)
        logits = ((height or 0.0) * np.eye(10)[own]).astype(np.float32)
        steps.append(a_step(None if height is None else float(row_losses(logits, own, share).mean())))
        arrays[f"train{number}/seen0"] = logits if height is not None else np.full_like(logits, np.nan)
    return Outcome((RankOutcome(True, {"steps": steps}, arrays),), elapsed=1.0)


def course(spec: RunSpec) -> Course:
    return spec.ranks[0].values["batch_size"], spec.ranks[0].values["epochs"]


def taught(courses: dict[Course, Heights], share: float = 0.0) -> tuple[CheckEnded | None, list[Course]]:
    """How the judge ends that sees such trainings, and for which it asked."""
    asked: list[Course] = []

    def answer(spec: RunSpec) -> Outcome:
        asked.append(course(spec))
        return trained(spec, courses[course(spec)], share)

    return end_of(EXERCISE, "learns", answer), asked


def learns_and_blows_up(step: int) -> float | None:
    """It learns all that there is in ten steps, and is far from it again in all that follow."""
    return 2.0 * step if step < 10 else -200.0


def dies(step: int) -> float | None:
    """One step goes far too far, and from then on all classes are alike."""
    return -100.0 if step == 3 else 0.0


def recovers(step: int) -> float | None:
    return -100.0 if step == 3 else 0.05 * step


SHORT, LONGER, USUAL = (8, 2), (8, 8), (64, 4)


@pytest.mark.parametrize(
    "courses",
    [
        {SHORT: learns},
        {SHORT: stands, LONGER: learns},
        {SHORT: blows_up, USUAL: learns},
        {SHORT: stands, LONGER: blows_up, USUAL: learns},
        {SHORT: stands, LONGER: stands, USUAL: learns},
        {SHORT: blows_up, USUAL: learns_and_blows_up},
        {SHORT: recovers},
        {SHORT: dies, LONGER: recovers},
        {SHORT: dies, LONGER: dies, USUAL: learns},
        {SHORT: dies, LONGER: dies, USUAL: recovers},
    ],
)
@pytest.mark.parametrize("share", [0.0, 0.1])
def test_who_learns_in_batches_of_the_usual_size_has_learned(
    courses: dict[Course, Heights], share: float
) -> None:
    ended, asked = taught(courses, share)
    assert ended is None
    assert asked == list(courses)


@pytest.mark.parametrize(
    ("courses", "told"),
    [
        ({SHORT: blows_up, USUAL: blows_up}, "in step 10 of 40 training_step returned a loss that is no finite number"),
        ({SHORT: blows_up, USUAL: stands}, "the first loss is 2.303, the mean of the first epoch 2.303, that of the last 2.303"),
        ({SHORT: stands, LONGER: stands, USUAL: blows_up}, "in step 10 of 40"),
        ({SHORT: dies, LONGER: dies, USUAL: dies}, "the first loss is 2.303, the mean of the first epoch 12.29, that of the last 2.303"),
    ],
)  # fmt: skip
def test_who_learns_in_no_batches_is_told_of_the_largest(courses: dict[Course, Heights], told: str) -> None:
    ended, asked = taught(courses)
    assert ended is not None
    assert asked == list(courses)
    assert "trainer.fit over 4 epochs of 10 batches of 64 pictures: " in ended.feedback.message
    assert told in ended.feedback.message
    assert "it should fall. Nor did it in batches of 8." in ended.feedback.message


def test_batches_of_the_usual_size_that_end_otherwise_excuse_nothing() -> None:
    def answer(spec: RunSpec) -> Outcome:
        if course(spec) == USUAL:
            raise Crashed("training took too long")
        return trained(spec, blows_up)

    ended = end_of(EXERCISE, "learns", answer)
    assert ended is not None
    assert "trainer.fit over 2 epochs of 20 batches of 8 pictures: in step 10 of 40" in ended.feedback.message


@pytest.mark.parametrize("usual", [learns, stands, None])
def test_a_longer_training_that_breaks_excuses_nothing_by_itself(usual: Heights | None) -> None:
    def answer(spec: RunSpec) -> Outcome:
        if course(spec) == LONGER or (course(spec) == USUAL and usual is None):
            raise Crashed(f"training {course(spec)} broke")
        return trained(spec, stands if course(spec) == SHORT else usual)

    ended = end_of(EXERCISE, "learns", answer)
    if usual is learns:
        assert ended is None
    else:
        assert ended is not None
        told = (
            "training (8, 8) broke"
            if usual is None
            else "that of the last 2.303. The pictures are easy: it should fall."
        )
        assert told in ended.feedback.message


def test_who_stops_a_training_that_has_blown_up_is_not_told_of_that() -> None:
    def answer(spec: RunSpec) -> Outcome:
        if course(spec) == USUAL:
            return trained(spec, learns)
        (rank,) = trained(spec, blows_up).ranks
        return Outcome((RankOutcome(True, {"steps": rank.values["steps"][:20]}, rank.arrays),), elapsed=1.0)

    assert end_of(EXERCISE, "learns", answer) is None


@pytest.mark.parametrize("share", [0.35, 0.6])
def test_a_training_with_more_smoothing_is_none_of_the_cross_entropy(share: float) -> None:
    ended, asked = taught({SHORT: learns}, share)
    assert ended is not None
    assert "which is not the mean cross-entropy" in ended.feedback.message
    assert asked == [SHORT]


def validation(share: float, of_training: float) -> CheckEnded | None:
    """How the judge ends of a sure network whose val_loss has so much smoothing, and its training so much."""

    def answer(spec: RunSpec) -> Outcome:
        given = spec.ranks[0]
        if given.values.get("stop_after") == 1:
            return first_step(spec, smoothed(of_training), 1.0)
        labels = given.arrays["labels"][given.values["split"] :]
        shared = np.concatenate([labels[rank::2] for rank in (0, 1)]).reshape(6, 8)
        logits = 3 * np.random.default_rng(len(labels)).normal(size=(6, 8, 10)).astype(np.float32)
        loss = np.mean([row_losses(*batch, share).mean() for batch in zip(logits, shared, strict=True)])
        values: dict[str, Json] = {
            "metrics": {"val_loss": float(loss)},
            "logged": [["validating", "val_loss", True, False]],
        }
        return Outcome(
            tuple(
                RankOutcome(
                    True, values, {f"val{batch}/seen0": logits[3 * rank + batch] for batch in range(3)}
                )
                for rank in (0, 1)
            ),
            elapsed=1.0,
        )

    return end_of(EXERCISE, "validation_logged", answer)


@pytest.mark.parametrize(
    ("share", "of_training", "fits"),
    [
        (0.0, 0.0, True),
        (0.0, 0.1, True),
        (0.1, 0.1, True),
        (0.01, 0.01, True),
        (0.3, 0.3, True),
        (0.1, 0.0, False),
        (0.2, 0.1, False),
        (0.5, 0.5, False),
    ],
)
def test_a_loss_of_validation_has_the_smoothing_of_training_or_none(
    share: float, of_training: float, fits: bool
) -> None:
    ended = validation(share, of_training)
    assert (ended is None) is fits
    assert ended is None or "is neither the mean loss nor the accuracy" in ended.feedback.message
