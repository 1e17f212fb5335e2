"""What train_step returns of batches whose loss and accuracies leave no doubt, and which of it is wrong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graders.amp import expected
from graders.amp.batches import accuracies
from graders.amp.expected import Data, Scenario
from graders.amp.record import returned
from graders.amp.steps import LOW_LOSS, Case
from lockstep.batchloop import SOFTMAX
from lockstep.check import Check
from lockstep.compare import close, number, shown
from lockstep.sandbox.outcome import RankOutcome
from lockstep.verdict import CheckEnded, Feedback
from lockstep.wire import Array, Json

SIZES = (20, 7, 1)
# Percent, and parts of one.
UNITS = (100.0, 1.0)
# Which of the logits the labels are: about a third the first, a third up to the fifth, a third from the sixth on. The
# last that counts and the first that does not are among them.
PLACES = (0, 4, 5, 0, 3, 9, 2, 5, 1)


@dataclass(frozen=True)
class Right:
    """A batch of `size` items, and the parts of it whose label is the first, or among the first five, of the logits."""

    logits: Array
    labels: Array
    first: float
    five: float
    size: int


def clear_cut(check: Check) -> Case:
    """Batches whose accuracies low precision does not change, and steps that change no weight."""
    case = Case(check, Scenario(SIZES, lr=0.0))
    case.data = _clear_cut(case)
    return case


def answers(case: Case, batch: Data) -> tuple[Array, Array]:
    """The logits and the labels of a batch."""
    return expected.logits(case.shape, case.weights, batch.images), batch.labels


def accuracy_problem(case: Case, seen: RankOutcome) -> Feedback | None:
    """What is wrong with the accuracies that train_step returned for clear_cut's batches."""
    results, wanted = returned(seen), _right(case)
    for unit in UNITS:
        if len(results) == len(wanted) and all(
            _is_right(result, right, unit) for result, right in zip(results, wanted, strict=True)
        ):
            return None
    for result, right in zip(results, wanted, strict=False):
        if any(_is_right(result, right, unit) for unit in UNITS):
            continue
        pair = result if isinstance(result, dict) else {}
        acc1, acc5 = pair.get("acc1"), pair.get("acc5")
        return Feedback(
            f"A batch of {right.size}: {round(right.first * right.size)} labels are the largest logit and "
            f"{round(right.five * right.size)} among the five largest, so acc1 is {right.first:.2%} and acc5 "
            f"{right.five:.2%}. train_step returned {shown(acc1)} and {shown(acc5)}.",
            _accuracy_hint(number(acc1), number(acc5), right),
        )
    return Feedback(
        "train_step did not return acc1 and acc5 for every batch, in one unit.",
        "Return a dict with acc1 and acc5, both in percent.",
    )


def wrong(check: Check) -> frozenset[str]:
    """Which of loss, acc1 and acc5 train_step itself returns wrongly, for which other checks are there.

    Nothing where it does not come back, or returns something else than these.
    """
    case = clear_cut(check)
    try:
        seen = case.run()
    except CheckEnded:
        return frozenset()
    results, rights = returned(seen), _right(case)
    if len(results) != len(rights):
        return frozenset()
    pairs = [
        (result, right) for result, right in zip(results, rights, strict=True) if isinstance(result, dict)
    ]
    names = {
        name
        for name in ("acc1", "acc5")
        if not any(
            all(_agrees(result.get(name), right, name, unit) for result, right in pairs) for unit in UNITS
        )
    }
    if not all(_is_loss(result.get("loss"), right) for result, right in pairs):
        names.add("loss")
    return frozenset(
        name for name in names if all(number(result.get(name)) is not None for result, _ in pairs)
    )


def _right(case: Case) -> list[Right]:
    batches = [answers(case, batch) for batch in case.data.batches(SIZES)]
    return [Right(*batch, *accuracies(*batch), len(batch[1])) for batch in batches]


def _is_loss(value: Json, right: Right) -> bool:
    """Whether this is the mean loss of a batch, or that of a softmax that is done twice."""
    means = [
        expected.mean_loss(right.logits, right.labels),
        expected.mean_loss(right.logits, right.labels, SOFTMAX),
    ]
    return any(close(value, mean, rtol=LOW_LOSS, atol=0.01) for mean in means)


def _agrees(value: Json, right: Right, name: str, unit: float) -> bool:
    return close(value, unit * (right.first if name == "acc1" else right.five), rtol=1e-4, atol=1e-4)


def _is_right(result: Json, right: Right, unit: float) -> bool:
    """Whether what train_step returned has both accuracies in this unit."""
    pair = result if isinstance(result, dict) else {}
    return all(_agrees(pair.get(name), right, name, unit) for name in ("acc1", "acc5"))


def _clear_cut(case: Case) -> Data:
    """Batches whose labels are at PLACES of logits of which low precision keeps the first and the first five."""
    n = sum(SIZES)
    many = expected.make_data(case.check.rng, 60 * n)
    logits = expected.logits(case.shape, case.weights, many.images)
    ordered = np.sort(logits, axis=1)[:, ::-1]
    margin = np.minimum(ordered[:, 0] - ordered[:, 1], ordered[:, 4] - ordered[:, 5])
    chosen = np.argsort(-margin)[:n]
    places = np.concatenate([np.resize(np.array(PLACES), size) for size in SIZES])
    ranked = np.argsort(-logits[chosen], axis=1)
    mixed = case.check.rng.permutation(n - SIZES[-1] - SIZES[-2])
    order = np.concatenate([mixed, np.arange(len(mixed), n)])
    labels = ranked[np.arange(n), places][order]
    return Data(many.images[chosen][order], labels.astype(np.int64))


def _accuracy_hint(acc1: float | None, acc5: float | None, right: Right) -> str:
    if acc1 is None or acc5 is None:
        return "Return a dict with the keys 'loss', 'acc1' and 'acc5', spelled just so, each with a number."
    for unit in UNITS:
        first, five = unit * right.first, unit * right.five
        if close(acc1, five) and close(acc5, first):
            return "acc1 and acc5 are mixed up: acc5 is the larger one, since the first logit is among the first five."
        if close(acc1, first) and close(acc5, five / 5):
            return (
                "acc5 is a fifth of what it should be: each item has five guesses, of which one can be right. Divide "
                "the number of right ones by that of the items: (guesses == labels[:, None]).any(dim=1).float().mean()."
            )
    if (acc1, acc5) == (round(right.first * right.size), round(right.five * right.size)):
        return "Those are counts: divide by the number of items in the batch."
    if any(
        close(acc1, one * right.first) and close(acc5, other * right.five)
        for one, other in (UNITS, UNITS[::-1])
    ):
        return "One of the two is in percent, the other a part of one: return both in percent."
    if close(acc1, 1e4 * right.first) and close(acc5, 1e4 * right.five):
        return "Those are a hundred times percent: multiply the parts by 100 once."
    if meant := _other_guesses(acc1, acc5, right):
        return meant
    if acc5 < acc1:
        return "acc5 is less than acc1, which cannot be: the first logit is among the first five."
    return (
        "logits.topk(5, dim=1).indices are five classes a row; an item counts for acc5 when its label is one of them. "
        "Divide by the size of this batch: the last one is smaller."
    )


def _other_guesses(acc1: float, acc5: float, right: Right) -> str:
    """What to say of accuracies that are right for other guesses: more, fewer, or the smallest logits."""
    for unit in UNITS:
        smallest = [unit * share for share in accuracies(-right.logits, right.labels)]
        if close(acc1, smallest[0]) and close(acc5, smallest[1]):
            return "Those are the parts for the smallest logits: logits.topk(5, dim=1).indices are the five largest."
        if not close(acc1, unit * right.first):
            continue
        if close(acc5, acc1):
            return "acc5 is what acc1 is: it takes all five of logits.topk(5, dim=1).indices."
        if acc5 > unit * right.five:
            return "acc1 is right and acc5 too large: it takes five of each row alone, logits.topk(5, dim=1).indices."
        if acc5 > acc1:
            return "acc1 is right and acc5 too small: it takes all five of each row, logits.topk(5, dim=1).indices."
    return ""
