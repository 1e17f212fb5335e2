"""What every training batch of a whole run came to, as the probe recorded it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from graders.amp.record import named, numbers, run_events, strings
from lockstep.compare import close, elements, integer, number
from lockstep.crossentropy import row_losses
from lockstep.sandbox.outcome import RankOutcome
from lockstep.wire import Array, Json


@dataclass(frozen=True)
class Batch:
    """What one training batch came to. Accuracies are ranges: which of equal logits comes first is open.

    `losses` are what may be logged as its loss. Where the cross-entropy that was seen is not the mean over the items,
    as with `reduction="none"`, it is part of a criterion of the student's own.
    """

    losses: tuple[float, ...]
    acc1: tuple[float, float]
    acc5: tuple[float, float]
    lr: float | None
    size: int


def accuracies(logits: Array, labels: Array) -> tuple[float, float]:
    """The parts of the rows whose label is the first of the logits, and among the first five; no two are equal."""
    (one, _), (five, _) = _hits(logits, labels, 1), _hits(logits, labels, 5)
    return one, five


def _hits(logits: Array, labels: Array, k: int) -> tuple[float, float]:
    own = logits[np.arange(len(labels)), labels][:, None]
    larger, equal = (logits > own).sum(axis=1), (logits == own).sum(axis=1) - 1
    return float((larger + equal < k).mean()), float((larger < k).mean())


def training(seen: RankOutcome) -> list[Batch]:
    """The training batches of a run, none where the record is not one of trainings."""
    losses, sizes, events = (seen.values.get(name) for name in ("losses", "sizes", "events"))
    logits, labels = seen.arrays.get("logits"), seen.arrays.get("labels")
    if not isinstance(losses, list) or not isinstance(sizes, list) or not isinstance(events, list):
        return []
    if logits is None or labels is None or logits.ndim != 2 or labels.shape != logits.shape[:1]:
        return []
    if logits.dtype != np.float64 or labels.dtype.kind not in "iu" or logits.shape[1] < 5:
        return []
    if len(labels) and (labels.min() < 0 or labels.max() >= logits.shape[1]):
        return []
    counts = [integer(size) for size in sizes]
    if any(count is None or count < 1 for count in counts) or sum(filter(None, counts)) != len(labels):
        return []
    made = _made(events)
    if len(losses) != len(counts) or len(made) != len(counts):
        return []
    batches: list[Batch] = []
    start = 0
    for loss, size, own in zip(losses, filter(None, counts), made, strict=True):
        rows = slice(start, start + size)
        start += size
        if own.is_derived:
            hits = [_hits(logits[rows], labels[rows], k) for k in (1, 5)]
            batches.append(Batch(own.may_be_logged(number(loss)), hits[0], hits[1], own.rate, size))
    return batches


def are_of_logits(seen: RankOutcome) -> bool:
    """Whether every loss is minus the mean of the labels' logits: nn.NLLLoss without a log_softmax in front of it."""
    logits, labels, sizes = seen.arrays.get("logits"), seen.arrays.get("labels"), seen.values.get("sizes")
    losses = [number(loss) for loss in elements(seen.values.get("losses"))]
    if logits is None or labels is None or not losses:
        return False
    ends = np.cumsum([integer(size) or 0 for size in elements(sizes)])[:-1]
    own = -logits[np.arange(len(labels)), labels]
    entropies = row_losses(logits, labels)
    # What falls without end may come to its end as infinity.
    rows = zip(losses, np.split(own, ends), np.split(entropies, ends), strict=True)
    finite = [
        (loss, of.mean(), entropy.mean())
        for loss, of, entropy in rows
        if loss is not None and np.isfinite(of).all()
    ]
    return len(finite) > 1 and all(
        close(loss, float(of_logits), rtol=1e-3, atol=1e-4)
        and not close(loss, float(entropy), rtol=1e-2, atol=1e-2)
        for loss, of_logits, entropy in finite
    )


@dataclass(frozen=True)
class _Made:
    """What became of a loss: the mean cross-entropy of its batch, and the number that was derived, before scaling."""

    mean: float | None
    is_derived: bool = False
    derived: float | None = None
    rate: float | None = None

    def may_be_logged(self, value: float | None) -> tuple[float, ...]:
        """The loss `value` that was seen, if it is the mean; else that, the mean, or what was derived."""
        if value is not None and self.mean is not None and math.isclose(value, self.mean, rel_tol=1e-4):
            return (value,)
        return tuple(one for one in (value, self.mean, self.derived) if one is not None) or (math.nan,)


def _made(events: Sequence[Json]) -> list[_Made]:
    """Every loss that was computed: whether a backward followed, and the learning rate of its step."""
    made: list[_Made] = []
    for event in events:
        if not isinstance(event, list) or not event:
            continue
        name = event[0]
        if name == "loss":
            made.append(_Made(number(event[-1])))
        elif name in ("scale", "backward") and made:
            last = made[-1]
            derived = number(event[-1]) if last.derived is None else last.derived
            made[-1] = replace(last, is_derived=last.is_derived or name == "backward", derived=derived)
        elif name == "optimizer" and len(event) == 3:
            made = [replace(one, rate=number(event[2])) if one.rate is None else one for one in made]
    return made


@dataclass(frozen=True)
class Step:
    """The types that layers answered a training batch in, and what its loss was multiplied by before the backward."""

    answers: frozenset[str]
    factor: float | None


def first_steps(seen: RankOutcome) -> list[Step]:
    """The training batches of a run in which layers were watched; none where the record is not one of those."""
    answers, groups = seen.values.get("answers"), by_loss(run_events(seen))
    if not isinstance(answers, list) or len(answers) != len(groups):
        return []
    return [
        Step(frozenset(strings(own)), _factor(group))
        for own, group in zip(answers, groups, strict=True)
        if named(group, "backward")
    ]


def by_loss(events: Sequence[list[Json]]) -> list[list[list[Json]]]:
    """The events from each loss to the next."""
    groups: list[list[list[Json]]] = []
    for event in events:
        if event[0] == "loss":
            groups.append([])
        if groups:
            groups[-1].append(event)
    return groups


def _factor(group: Sequence[list[Json]]) -> float | None:
    """What the loss that a group begins with was multiplied by before its backward."""
    losses, derived = numbers(group[0]), number(group[named(group, "backward")[0]][-1])
    loss = losses[0] if losses else None
    return derived / loss if loss and derived is not None else None


def losses_without_forward(events: Sequence[list[Json]], sizes: Sequence[int]) -> int:
    """How many of the losses that were derived no call of a model on as many images preceded.

    `sizes` are those of their batches; a call under no_grad does not count.
    """
    images, derived, seen, strange = 0, 0, False, 0
    for event in events:
        if event[0] == "forward" and event[2:3] == [True]:
            images += integer(event[1]) or 0
        elif event[0] == "loss":
            seen = True
        elif event[0] == "backward" and seen:
            strange += derived < len(sizes) and images < sizes[derived]
            images, derived, seen = 0, derived + 1, False
    return strange
