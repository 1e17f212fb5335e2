"""The judge of exercise 6, its accuracies: acc1 and acc5 of a training batch and of a validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graders.amp import expected
from graders.amp.batches import accuracies
from graders.amp.expected import Data, Scenario
from graders.amp.record import insist_on_dicts, returned
from graders.amp.steps import EVALUATED_BY, LOW_LOSS, Case
from lockstep.batchloop import SOFTMAX
from lockstep.check import Check
from lockstep.compare import close, number, shown
from lockstep.sandbox.outcome import RankOutcome
from lockstep.verdict import Feedback
from lockstep.wire import Array, Json

# Percent, and parts of one.
UNITS = (100.0, 1.0)


@dataclass(frozen=True)
class Right:
    """The parts of a batch of `size` items whose label is the first, or among the first five, of the logits."""

    first: float
    five: float
    size: int


def test_accuracy_topk(check: Check) -> None:
    """acc1 and acc5 are the parts of the items whose label is the first, or among the first five, of the logits."""
    sizes = (20, 7, 1)
    case = Case(check, Scenario(sizes, lr=0.0))
    case.data = _clear_cut(case, sizes)
    seen = case.run(evaluate_by=EVALUATED_BY)
    _accurate_steps(check, case, seen, sizes)
    found = evaluation_problem(seen.values.get("evaluated"), *_answers(case, case.data))
    if found is not None:
        check.fail(found.message, found.hint, points=check.points / 2)


def _accurate_steps(check: Check, case: Case, seen: RankOutcome, sizes: Sequence[int]) -> None:
    insist_on_dicts(check, seen)
    results = returned(seen)
    wanted = [accuracies(*_answers(case, batch)) for batch in case.data.batches(sizes)]
    for unit in UNITS:
        if len(results) == len(wanted) and all(
            _is_right(result, right, unit) for result, right in zip(results, wanted, strict=True)
        ):
            return
    for size, result, (first, five) in zip(sizes, results, wanted, strict=False):
        if any(_is_right(result, (first, five), unit) for unit in UNITS):
            continue
        pair = result if isinstance(result, dict) else {}
        acc1, acc5 = pair.get("acc1"), pair.get("acc5")
        check.fail(
            f"A batch of {size}: {round(first * size)} labels are the largest logit and {round(five * size)} among the five "
            f"largest, so acc1 is {first:.2%} and acc5 {five:.2%}. train_step returned {shown(acc1)} and {shown(acc5)}.",
            _accuracy_hint(number(acc1), number(acc5), Right(first, five, size)),
        )
    check.fail(
        "train_step did not return acc1 and acc5 for every batch, in one unit.",
        "Return a dict with acc1 and acc5, both in percent.",
    )


def _is_right(result: Json, right: tuple[float, float], unit: float) -> bool:
    """Whether what train_step returned has both accuracies in this unit."""
    pair = result if isinstance(result, dict) else {}
    return all(
        close(pair.get(name), share * unit, rtol=1e-4, atol=1e-4)
        for name, share in zip(("acc1", "acc5"), right, strict=True)
    )


def evaluation_problem(evaluated: Json, logits: Array, labels: Array) -> Feedback | None:
    """What is wrong with what the template's `evaluate` returns; a validation of another form may return what it likes."""
    if not isinstance(evaluated, dict):
        return None
    shares = [abs(number(evaluated.get(name)) or 0.0) for name in ("acc1", "acc5")]
    unit = 100.0 if max(shares) > 1 else 1.0
    right = _figures(logits, labels, unit)
    twice = {**right, "loss": expected.mean_loss(logits, labels, SOFTMAX)}  # which matches_fp32 tells of
    wrong = [
        name
        for name in right
        if name in evaluated and not any(_agrees(evaluated, figures, name) for figures in (right, twice))
    ]
    if not wrong:
        return None
    name = wrong[0]
    ends = range(EVALUATED_BY, len(labels), EVALUATED_BY)
    batches = list(zip(np.split(logits, ends), np.split(labels, ends), strict=True))
    each = [_figures(*batch, unit) for batch in batches]
    hint = "Add up value * len(labels) of every batch, and after the loop divide by the number of all items."
    unweighed = {own: float(np.mean([figures[own] for figures in each])) for own in wrong}
    for meant, figures in (
        ("the mean of the batches' values, as if all were equally large", unweighed),
        ("the value of the first batch alone", each[0]),
        ("the value of the last batch alone", each[-1]),
    ):
        if all(_agrees(evaluated, figures, own) for own in wrong):
            hint = f"That is {meant}. {hint}"
    value = number(evaluated[name])
    return Feedback(
        f"evaluate(..., amp=False) on {len(labels)} items in batches of {', '.join(str(len(own)) for _, own in batches)} "
        f"returned {name} = {shown(evaluated[name]) if value is None else f'{value:.5g}'}; over all items it is {right[name]:.5g}.",
        hint,
    )


def _figures(logits: Array, labels: Array, unit: float) -> dict[str, float]:
    acc1, acc5 = accuracies(logits, labels)
    return {"acc1": unit * acc1, "acc5": unit * acc5, "loss": expected.mean_loss(logits, labels)}


def _agrees(evaluated: dict[str, Json], right: dict[str, float], name: str) -> bool:
    return close(evaluated[name], right[name], rtol=LOW_LOSS if name == "loss" else 1e-4, atol=1e-4)


def _answers(case: Case, batch: Data) -> tuple[Array, Array]:
    return expected.logits(case.shape, case.weights, batch.images), batch.labels


def _clear_cut(case: Case, sizes: Sequence[int]) -> Data:
    """Batches whose labels are the first, the third and the eighth of logits that low precision keeps in order."""
    n = sum(sizes)
    many = expected.make_data(case.check.rng, 60 * n)
    logits = expected.logits(case.shape, case.weights, many.images)
    ordered = np.sort(logits, axis=1)[:, ::-1]
    margin = np.minimum(ordered[:, 0] - ordered[:, 1], ordered[:, 4] - ordered[:, 5])
    chosen = np.argsort(-margin)[:n]
    places = np.concatenate([_places(size) for size in sizes])
    ranked = np.argsort(-logits[chosen], axis=1)
    mixed = case.check.rng.permutation(n - sizes[-1] - sizes[-2])
    order = np.concatenate([mixed, np.arange(len(mixed), n)])
    labels = ranked[np.arange(n), places][order]
    return Data(many.images[chosen][order], labels.astype(np.int64))


def _places(size: int) -> Array:
    """Which of the logits the labels are: about a third first, a third second to fifth, a third further down."""
    return np.resize(np.array([0, 2, 7, 0, 3, 9, 2, 8, 1]), size)


def _accuracy_hint(acc1: float | None, acc5: float | None, right: Right) -> str:
    if acc1 is None or acc5 is None:
        return "Return a dict with the keys 'loss', 'acc1' and 'acc5', spelled just so, each with a number."
    for unit in UNITS:
        first, five = unit * right.first, unit * right.five
        if close(acc1, five) and close(acc5, first):
            return "acc1 and acc5 are mixed up: acc5 is the larger one, since the first logit is among the first five."
        if close(acc1, first) and close(acc5, five / 5):
            return (
                "acc5 is a fifth of what it should be: each item has five guesses, of which one can be right. Divide the number "
                "of right ones by that of the items, as (guesses == labels[:, None]).any(dim=1).float().mean() does."
            )
    if (acc1, acc5) == (round(right.first * right.size), round(right.five * right.size)):
        return "Those are counts: divide by the number of items in the batch."
    if acc5 < acc1:
        return "acc5 is less than acc1, which cannot be: the first logit is among the first five."
    return (
        "logits.topk(5, dim=1).indices are five classes a row; an item counts for acc5 when its label is one of them. "
        "Divide by the size of this batch: the last one is smaller."
    )
