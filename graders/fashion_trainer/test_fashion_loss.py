"""The judge of exercise 2, the loss: what `train` returns, against what follows from the logits that left the network."""

from __future__ import annotations

from fixtures import fashion_mnist
from graders.fashion_trainer import expected, losses, scripts
from graders.fashion_trainer.expected import Patterns
from graders.fashion_trainer.report import losses_lost, read
from graders.fashion_trainer.runs import (
    BATCH_SIZE,
    LR,
    RANGE_HINT,
    REPORT,
    SCRIPT_EPOCHS,
    calls_of,
    look,
    options,
)
from graders.fashion_trainer.wording import worded
from lockstep.check import Check
from lockstep.compare import elements, number, shown
from lockstep.sandbox.outcome import RankOutcome

TRAIN = 24  # pictures of the script's run


def test_returns_mean_loss(check: Check) -> None:
    """`train` returns a list: for every epoch the mean loss over its pictures; the script's report keeps them all."""
    _train_returns_them(check)
    _report_keeps_them(check)


def _train_returns_them(check: Check) -> None:
    epochs = 3
    patterns = Patterns(check.rng)
    tail = int(check.rng.integers(1, 3))
    train = patterns.draw(6 * BATCH_SIZE + tail)
    shape = expected.make_shape(check.rng)
    weights = expected.make_weights(check.rng, shape)
    # The short last batch has the wrong labels that the untrained network takes for least likely: its loss is far
    # from the others', before the training and after.
    train = expected.mislabelled_last(train, tail, expected.logits_of(shape, weights, train.images[-tail:]))
    test = patterns.draw(BATCH_SIZE)
    seen = look(
        check,
        "train_and_evaluate",
        options(shape, epochs=epochs, small_lr=LR),
        {**train.arrays("train"), **test.arrays("test"), **expected.as_inputs(weights)},
    )
    found = calls_of(check, seen, "train", "train")
    call = f"train(..., epochs={epochs}) on {len(train.labels)} pictures in batches of {BATCH_SIZE}"
    values = _returned(check, seen, call, epochs)
    ways = losses.passes(found, train, epochs)
    n_seen = sum(one.size for one in found.calls)
    check.expect(
        len(ways) > 0,
        f"{call}: the model was not called with every picture once per epoch ({n_seen} pictures in all).",
        RANGE_HINT
        if n_seen == (epochs - 1) * len(train.labels)
        else "Every epoch is one pass over the whole loader, with one call of the model for each batch.",
    )
    if any(losses.agree(values, own) for own in ways):
        _begins_anew(check, seen, values)
        return
    if any(losses.same(values, losses.means(own.softmax)) for own in ways):
        check.note(
            "The loss is computed on softmax(logits). CrossEntropyLoss takes logits and does the softmax itself: with "
            "one too many the loss cannot get near 0, and the training is slower."
        )
        return
    check.expect(
        not any(losses.same(values, losses.means(own.negative)) for own in ways),
        f"{call} returned {', '.join(f'{value:.4g}' for value in values[:6])}: the mean of the labels' own logits, with a minus. "
        "That is no loss: it falls for ever, however the other classes' logits grow.",
        "nn.NLLLoss takes log-probabilities, and the network answers with logits: nn.CrossEntropyLoss() takes those.",
        points=check.points / 2,
    )
    if any(own.backward is not None and losses.same(values, own.backward) for own in ways):
        return
    hints = [(losses.hint(values, own), own) for own in ways]
    hint, own = next((pair for pair in hints if pair[0] != losses.HINT), hints[0])
    source, means = "the cross-entropy of what the model answered", losses.means(own.logits)
    if own.backward is not None:
        source, means = "the losses that backward() was called on", own.backward
    told = ", ".join(f"{value:.4g}" for value in values[:6]) + (", ..." if len(values) > 6 else "")
    check.fail(
        f"{call} returned {len(values)} numbers ({told}). Worked out from {source}, the epochs' means were "
        f"{', '.join(f'{mean:.4g}' for mean in means)}.",
        hint if len(values) == epochs else f"One number for each of the {epochs} epochs is asked for. {hint}",
    )


def _report_keeps_them(check: Check) -> None:
    """The script trained through all epochs, and the report holds fewer losses; that there is one is another check's business."""
    tree = fashion_mnist.make_idx(check.rng, TRAIN, 8)
    script = scripts.on_cpu(check, tree, "--epochs", str(SCRIPT_EPOCHS), "--batch-size", "8", report=True)
    if script.seen is None or script.fault is not None:
        return
    calls = expected.noted(script.seen, "script")
    trained = sum(call.size for call in calls or () if call.trained)
    lost = losses_lost(read(script.seen.values.get("report")), SCRIPT_EPOCHS)
    check.expect(
        trained < SCRIPT_EPOCHS * TRAIN or lost is None,
        f"`{script.call}` trained for {SCRIPT_EPOCHS} epochs, and of {len(lost or ())} of "
        f"them the loss is in {REPORT}: {', '.join(f'{one:.4g}' for one in lost or ())}.",
        "Write down all that train returns. Where the script calls it once for every epoch, add what it returns to a list: "
        "losses += train(model, loader, device, 1, args.lr).",
        points=check.points / 2,
    )


def _begins_anew(check: Check, seen: RankOutcome, values: list[float]) -> None:
    """End the check where another call of train returned the losses of the first one before its own."""
    again = seen.values.get("losses_again")
    held = [number(one) for one in elements(again)]
    check.expect(
        len(held) != len(values) + 1 or held[:-1] != values,
        f"train, called a second time for one epoch with another model, returned {len(held)} numbers, of which the first "
        f"{len(values)} are those of the call before. Expected one.",
        "Make the list within train, losses = [], so that every call begins with an empty one. A list outside of it, or one "
        "that is an argument's default, is the same in every call.",
        points=check.points / 2,
    )


def _returned(check: Check, seen: RankOutcome, call: str, epochs: int) -> list[float]:
    """The numbers that train returned; ends the check where it is something else."""
    returned, kind = seen.values.get("losses"), seen.values.get("losses_kind")
    values = [number(one) for one in elements(returned)]
    numbers = [value for value in values if value is not None]
    if not isinstance(returned, list) or len(numbers) < len(values):
        held = (
            next((one for one in returned if number(one) is None), None)
            if isinstance(returned, list)
            else None
        )
        check.fail(
            f"{call} returned {worded(kind)}{f' that holds {shown(held)}' if isinstance(returned, list) else ''}. "
            f"Expected a list of {epochs} numbers, the mean loss of each epoch.",
            "Append one float per epoch to a list, and return the list.",
        )
    if kind != "a list":
        check.note(f"train returned {worded(kind)}; the exercise asks for a list of floats.")
    return numbers
