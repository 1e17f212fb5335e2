"""Rules on what was learned: the first loss, a loss that cannot fall, accuracy in two precisions. Nothing costs points."""

from __future__ import annotations

import math
from collections.abc import Iterator

from lockstep.reports.document import Claim, Group, Report
from lockstep.reports.finding import Finding, advice, few, unusual
from lockstep.reports.hardware import TRAINING, count, precision
from lockstep.reports.losses import DIGITS, class_count, tells
from lockstep.reports.rule import Facts, Rule

FIRST_LOSS = 1.0
MOSTLY_RIGHT = 0.5
POINTS, SIGMAS = 3.0, 3.0


def _first_loss(report: Report, facts: Facts) -> Iterator[Finding]:
    yield from few(_far_from_guessing(report, facts))


def _far_from_guessing(report: Report, facts: Facts) -> Iterator[Finding]:
    classes = class_count(report, facts)
    if classes is None or classes < 2 or report.declared & {"pretrained", "resumed"}:
        return
    guess = math.log(classes)
    warm = count(report.method.get("warmup_steps"), 0) > 0
    for group in report.groups:
        first = min(group.runs, key=lambda run: run.rep)
        loss = first.loss_first
        # Later repetitions may go on training, and so do steps for warming up.
        if loss is None or first.rep > 0 or abs(loss - guess) <= FIRST_LOSS or (warm and loss < guess):
            continue
        yield advice(
            f"{group.name}: the first loss is {loss:.4g}; a model that knows nothing guesses among {classes} classes, at "
            f"ln {classes} = {guess:.3g}. "
            + (
                "If the weights were not new, declare pretrained."
                if loss < guess
                else "Are the inputs normalised, is it the mean over the batch, is the learning rate small enough?"
            ),
            loss=loss,
            guess=guess,
        )


def _softmax(report: Report, facts: Facts) -> Iterator[Finding]:
    classes = class_count(report, facts)
    if classes is None or classes < 3 or "label_smoothing" in report.declared:
        return
    highest = math.log(math.e + classes - 1)
    lowest = highest - 1
    for claim in report.claims:
        right = _accuracy(claim)
        if right is None or right <= MOSTLY_RIGHT:
            continue
        runs = [run for group in report.selected(claim.config) for run in group.runs]
        last = [run.loss_last for run in runs if run.loss_last is not None]
        losses = last + [run.loss_first for run in runs if run.loss_first is not None]
        if last and all(lowest <= loss <= highest for loss in losses):
            yield unusual(
                f"{claim.name}: {100 * right:.4g} % are right, and the loss stays between {min(losses):.4g} and "
                f"{max(losses):.4g}. Behind a softmax of its own a model's cross-entropy lies between ln(e + {classes - 1}) - 1 "
                f"= {lowest:.4f} and {highest:.4f}, however good it is: nn.CrossEntropyLoss wants logits. With label "
                "smoothing the loss stays high as well: declare label_smoothing.",
                loss=min(losses),
                lowest=lowest,
            )
            return


def _accuracy(claim: Claim) -> float | None:
    if claim.what != "accuracy_pct" or claim.value is None:
        return None
    return claim.value.value / (1.0 if claim.unit == "1" else 100.0)


def _precisions_agree(report: Report, facts: Facts) -> Iterator[Finding]:
    yield from _same_losses(report, facts)
    told = []
    for claim in report.claims:
        right, groups = _accuracy(claim), report.selected(claim.config)
        kinds = {precision(report, group.config) for group in groups}
        if right is not None and 0 <= right <= 1 and len(kinds) == 1:
            told.append((claim, right, kinds.pop(), _epochs(groups)))
    for claim, right, kind, epochs in told:
        if kind is None or kind == "fp32":
            continue
        for other, full, other_kind, other_epochs in told:
            if other_kind != "fp32" or epochs != other_epochs:
                continue
            allowed = POINTS / 100 + SIGMAS * math.sqrt(_variance(claim, right) + _variance(other, full))
            if abs(right - full) > allowed:
                yield unusual(
                    f"{claim.name}: {100 * (right - full):+.3g} points from the {100 * full:.4g} % of fp32. Published "
                    "differences after a full training are 0.2 points. Were both trained equally long, from the same seed? "
                    "Short trainings differ more.",
                    accuracy=right,
                    fp32=full,
                )


def _same_losses(report: Report, facts: Facts) -> Iterator[Finding]:
    """Half precision whose last losses are those of fp32: autocast was off, or one was copied."""
    classes = class_count(report, facts)
    full = {
        run.loss_last: group.name
        for group in report.groups
        if precision(report, group.config) == "fp32"
        for run in group.runs
        if run.loss_last is not None and tells(run.loss_last, classes)
    }
    for group in report.groups:
        losses = [run.loss_last for run in group.runs if run.loss_last is not None]
        same = {loss for loss in losses if loss in full}
        if precision(report, group.config) in ("fp32", "tf32", None) or not same or same != {*losses}:
            continue
        yield unusual(
            f"{group.name}: loss_last is {losses[0]:.10g}, to the last digit what it is with {full[losses[0]]}. Sums in half "
            "precision come out otherwise. Was autocast switched on, for the device that trains? "
            'torch.autocast("cuda") does nothing on a CPU.',
            loss=losses[0],
        )
        return


def _variance(claim: Claim, right: float) -> float:
    """Of an accuracy over so many pictures; 0 where their number is not told."""
    return right * (1 - right) / claim.total if claim.total else 0.0


def _epochs(groups: tuple[Group, ...]) -> frozenset[int | None]:
    return frozenset(run.epochs for group in groups for run in group.runs)


RULES: tuple[Rule, ...] = (
    Rule(
        id="P15",
        demands="A training starts at the loss of guessing.",
        threshold=f"first loss within {FIRST_LOSS:g} of ln(classes); advice only",
        why="Cross-entropy of equal probabilities.",
        honest="Weights that were pretrained, which is declared.",
        examine=_first_loss,
        kinds=TRAINING,
    ),
    Rule(
        id="P16",
        demands="A model that is mostly right has a loss below what a softmax in front of the loss allows.",
        threshold="with C classes not all losses in ln(e + C - 1) - 1 ... ln(e + C - 1) (C = 10: 1.4612 ... 2.4612) at an "
        f"accuracy above {MOSTLY_RIGHT:.0%}",
        why="nn.CrossEntropyLoss applies log_softmax; probabilities in place of logits confine it to that interval.",
        honest="Label smoothing, which is declared; strong augmentation.",
        examine=_softmax,
        kinds=TRAINING,
    ),
    Rule(
        id="P18",
        demands="Half precision is as accurate as fp32, and no copy of it.",
        threshold=f"{POINTS:g} points and {SIGMAS:g} standard deviations of the number of pictures, at equal epochs; "
        f"last losses of {DIGITS} digits that are the same: unusual",
        why="NVIDIA's DeepLearningExamples, ResNet-50: 77.12 against 76.95 % on an A100, 76.88 against 77.01 % on a V100.",
        honest="Short trainings are noisy.",
        examine=_precisions_agree,
        kinds=frozenset({"amp", "lightning"}),
    ),
)
