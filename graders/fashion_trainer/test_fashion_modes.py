"""The judge of exercise 2, modes: `evaluate` works without dropout and gradients, `train` with them."""

from __future__ import annotations

import numpy as np

from fixtures import fashion_mnist
from graders.fashion_trainer import expected, idx, loops, scripts
from graders.fashion_trainer.expected import Patterns
from graders.fashion_trainer.runs import BATCH_SIZE, calls_of, look, options
from lockstep.check import Check
from lockstep.compare import difference
from lockstep.sandbox.outcome import RankOutcome


def test_eval_mode(check: Check) -> None:
    """`evaluate` switches dropout and batch norm to evaluation, and gradients off; so does the script where it tests."""
    patterns = Patterns(check.rng)
    # No batch of one picture: batch norm refuses it in training.
    # The last batch has two halves of two pictures: some put each batch through in parts.
    train = patterns.draw(2 * BATCH_SIZE + 4)
    test = patterns.draw(2 * BATCH_SIZE + 3)
    shape = expected.make_shape(check.rng, batch_norm=True, dropout=0.5)
    weights = expected.make_weights(check.rng, shape)
    seen = look(
        check,
        "modes",
        options(shape),
        {**train.arrays("train"), **test.arrays("test"), **expected.as_inputs(weights)},
    )
    evaluated = calls_of(check, seen, "test", "evaluate")
    in_training = sum(call.training for call in evaluated.calls)
    with_grad = sum(call.grad for call in evaluated.calls)
    call = f"evaluate on a model that was in training mode, {len(evaluated.calls)} batches"
    no_grad = "Put the loop under `with torch.no_grad():` (or @torch.no_grad() on the function): it saves memory and time."
    check.expect(
        in_training == 0,
        f"{call}: dropout and batch norm were in training mode in {in_training} of them"
        + (", and gradients were recorded." if with_grad else "."),
        f"Call model.eval() first. {no_grad}" if with_grad else "Call model.eval() first.",
        points=0.0 if with_grad else check.points / 2,
    )
    wrong = difference(
        evaluated.logits,
        expected.logits_of(shape, weights, evaluated.rows).astype(np.float32),
        what="an answer of the model",
        **expected.CLOSE_LOGITS,
    )
    held = expected.state(seen, "evaluated", weights)
    moved = held is None or any(not np.array_equal(held[name], weights[name]) for name in weights)
    check.expect(
        wrong is None and not moved,
        f"{call}: {wrong or 'afterwards the weights or the statistics of batch norm are not what they were'}.",
        "evaluate may look at the model, not change it: model.eval(), and no step in there.",
    )
    check.expect(
        with_grad == 0,
        f"{call}: gradients were recorded in {with_grad} of them.",
        no_grad,
        points=check.points / 2,
    )
    check.expect(
        seen.values.get("grad_after") is True,
        f"{call}: afterwards gradients stay switched off, and the next training fails.",
        "Use torch.no_grad() as a block: it switches them on again at its end, torch.set_grad_enabled(False) does not.",
        points=check.points / 2,
    )
    _trains_in_training_mode(check, seen)
    _script_does_likewise(check)


def _trains_in_training_mode(check: Check, seen: RankOutcome) -> None:
    calls = expected.noted(seen, "train")
    if not calls:
        check.fail(
            "train, two epochs: the model that was handed in was not called.", "Train the model as it is."
        )
    asleep = [call for call in calls if call.trained and not call.training]
    check.expect(
        not asleep,
        f"train, two epochs: dropout and batch norm were switched off in {len(asleep)} batches that were trained on.",
        "After evaluating within train, switch back with model.train() at the start of every epoch.",
        points=check.points / 2,
    )
    if any(call.trained and not call.training for call in expected.noted(seen, "again") or ()):
        check.note(
            "A model that was evaluated stays in evaluation mode in train: begin each epoch with model.train()."
        )


def _script_does_likewise(check: Check) -> None:
    """The script, which may have loops of its own; that it runs at all is another check's business."""
    tree = fashion_mnist.make_idx(check.rng, 24, 12)
    script = scripts.on_cpu(check, tree, "--epochs", "1", "--batch-size", "4")
    found = expected.calls(script.seen, "script") if script.seen is not None else None
    if script.seen is None or script.fault is not None or found is None:
        return
    parts = {part: idx.pictures(tree, part) for part in ("train", "t10k")}
    loops.in_their_modes(check, script.call, script.seen, found, parts)
