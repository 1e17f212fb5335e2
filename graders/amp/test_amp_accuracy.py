"""The judge of exercise 6, its accuracies: acc1 and acc5 of a training batch and of a validation."""

from __future__ import annotations

import numpy as np

from graders.amp import expected, returned_values
from graders.amp.batches import accuracies
from graders.amp.record import insist_on_dicts
from graders.amp.steps import EVALUATED_BY, LOW_LOSS
from lockstep.batchloop import SOFTMAX
from lockstep.check import Check
from lockstep.compare import close, number, shown
from lockstep.verdict import Feedback
from lockstep.wire import Array, Json


def test_accuracy_topk(check: Check) -> None:
    """acc1 and acc5 are the parts of the items whose label is the first, or among the first five, of the logits."""
    case = returned_values.clear_cut(check)
    seen = case.run(evaluate_by=EVALUATED_BY)
    insist_on_dicts(check, seen)
    found = returned_values.accuracy_problem(case, seen)
    if found is not None:
        check.fail(found.message, found.hint)
    found = evaluation_problem(seen.values.get("evaluated"), *returned_values.answers(case, case.data))
    if found is not None:
        check.fail(found.message, found.hint, points=check.points / 2)


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
