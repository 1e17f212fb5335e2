"""Exercise 4, one process: what the functions do where there is no other rank is plain training."""

from __future__ import annotations

from functools import partial

import numpy as np

from fixtures import cifar10
from graders.ddp_train import expected
from graders.ddp_train.batches import fed_by_step
from graders.ddp_train.expected import Training
from graders.ddp_train.hints import TO_THE_DEVICE
from graders.ddp_train.runs import LR, MOMENTUM, options
from graders.ddp_train.script_runs import SCRIPT_LIMITS, three_epochs
from graders.ddp_train.weights import differing, first_unless_any
from lockstep.batchloop import CLEAR_HINT, LOOPS, PLAIN, SOFTMAX, SOFTMAX_HINT, UNCLEARED
from lockstep.check import Check
from lockstep.compare import close, elements, number, shown
from lockstep.devicefault import is_device_fault
from lockstep.sandbox.outcome import StudentError
from lockstep.slips import slip
from lockstep.verdict import CheckEnded
from lockstep.wire import Array, Json

# What DistributedDataParallel says of a model on the CPU for which it is given the number of a GPU.
NOT_MOVED = "only work with single-device"


# What a loss of one's own making, or one that is named anew instead of taken from the caller, does not do.
SMOOTHING = 0.1
SCRIPT_BATCH = 8  # images of a step


def test_no_double_softmax(check: Check) -> None:
    """The logits reach the loss: CrossEntropyLoss does the softmax itself."""
    shape = expected.make_shape(check.rng)
    weights = expected.make_weights(check.rng, shape)
    data = expected.make_data(check.rng, 12)
    outcome = check.run(
        "train",
        ranks=1,
        values=options(shape, smoothing=SMOOTHING, rate_kept=True),
        arrays={**data.arrays(), **expected.as_inputs(weights)},
    )
    steps = fed_by_step(check, outcome, [data])
    own_loss = Training(shape, weights, lr=LR, momentum=MOMENTUM).run([data], steps)
    # How the loop is written, and how far what came out is from that.
    off = {
        loop: differing(
            outcome.ranks,
            "final",
            Training(shape, weights, lr=LR, momentum=MOMENTUM, smoothing=SMOOTHING, loop=loop)
            .run([data], steps)
            .state(),
            "the weight",
        )
        for loop in LOOPS
    }
    wrong = off[PLAIN]
    if wrong is None:
        _loop_of_the_script(check)
        return
    if any(off[loop] is None for loop in LOOPS if loop.softmax):
        check.fail(
            "train_one_epoch puts a softmax between the model and CrossEntropyLoss: the trained weights are those of "
            "a softmax done twice. Training then still works, but much more slowly.",
            SOFTMAX_HINT,
        )
    if off[UNCLEARED] is None:
        check.fail(
            "train_one_epoch never clears the gradients: the trained weights are those of steps that were made with the "
            "gradients of all earlier batches as well.",
            CLEAR_HINT,
        )
    if differing(outcome.ranks, "final", own_loss.state(), "the weight") is None:
        check.fail(
            f"train_one_epoch was given CrossEntropyLoss(label_smoothing={SMOOTHING}) as its criterion, and trained with a "
            "loss without that.",
            "loss = criterion(model(images), labels): which loss it is, the caller decides.",
            points=check.points / 2,
        )
    check.fail(
        f"train_one_epoch on one rank: the weights are not those of plain training with CrossEntropyLoss ({wrong[1]}).",
        "Each batch: zero_grad, loss = criterion(model(images), labels), backward, step; nothing in between.",
    )


def _loop_of_the_script(check: Check) -> None:
    """End the check where the script never clears gradients, or its cross-entropy takes probabilities for logits."""
    outcome = check.run(
        "into_the_loss",
        values={
            "arguments": [
                "--training-data",
                "/data/cifar",
                "--epochs",
                "1",
                "--batch-size",
                str(SCRIPT_BATCH),
            ]
        },
        data={"cifar": cifar10.make_batches(check.rng, 8 * SCRIPT_BATCH, 10)},
        limits=SCRIPT_LIMITS,
        seconds=30.0,
        expect=False,
    )
    _clears(check, outcome.ranks[0].values.get("left"))
    arrays = outcome.ranks[0].arrays
    outputs = [values for name, values in arrays.items() if name.startswith("outputs") and values.ndim == 2]
    # Of one batch alone it may be chance; a last layer that begins with zeros gives nothing but those at first.
    if len(outputs) < 3 or not any(values.any() for values in outputs):
        return
    are_shares = all((values >= 0).all() and (values <= 1).all() for values in outputs)
    sums = (
        "of which every row adds up to 1, as softmax makes them"
        if all(map(_add_up, outputs))
        else "as sigmoid makes them"
    )
    check.expect(
        not are_shares,
        "train_one_epoch hands a model's output to the criterion as it is, but the network that `python ddp_train.py` trains "
        f"ends in numbers from 0 to 1, {sums}, and the cross-entropy takes them for logits. Training then still works, but "
        "much more slowly.",
        "Let the network end in its linear layer, as in model.fc = nn.Linear(model.fc.in_features, 10): nn.CrossEntropyLoss "
        "takes logits and does log_softmax itself.",
        points=check.points / 2,
    )


def _clears(check: Check, left: Json) -> None:
    """End the check where every backward of the script but the first adds to gradients that were used before."""
    found = elements(left)
    check.expect(
        len(found) < 2 or not all(one is True for one in found),
        "train_one_epoch clears the gradients, but the loop that `python ddp_train.py` trains in never does: each of its steps is "
        "made with the gradients of all earlier batches as well.",
        f"Let main call train_one_epoch. {CLEAR_HINT}",
        points=check.points / 2,
    )


def _add_up(values: Array) -> bool:
    return bool(np.allclose(values.sum(axis=1), 1, atol=0.02))  # in half precision, too


def test_single_process(check: Check) -> None:
    """Without torchrun the same functions train on one process."""
    shape = expected.make_shape(check.rng)
    weights = expected.make_weights(check.rng, shape)
    # In whole batches: short ones have checks of their own.
    data = expected.make_labelled_data(check.rng, shape, weights, 16)
    arrays = {**data.arrays(), **expected.as_inputs(weights)}
    # Not the first: what is done in that one only is missing from then on.
    told = options(shape, epoch=int(check.rng.integers(1, 3)))
    outcome = check.run("alone", values=told, arrays=arrays)
    seen = outcome.ranks[0]
    loss, accuracy = number(seen.values.get("loss")), number(seen.values.get("accuracy"))
    check.expect(
        loss is not None and accuracy is not None and 0 <= accuracy <= 1,
        f"Without torchrun train_one_epoch returned {shown(seen.values.get('loss'))} and evaluate "
        f"{shown(seen.values.get('accuracy'))}; expected two numbers, the second from 0 to 1.",
        "Both end with `return`, a plain float each. In one process the mean over all ranks is the process's own. NaN and "
        "infinity come of what is divided by a count that is zero still.",
    )
    steps = fed_by_step(check, outcome, [data])
    trainings = [
        Training(shape, weights, lr=LR, momentum=MOMENTUM, loop=loop).run([data], steps)
        for loop in (PLAIN, SOFTMAX)
    ]
    differences = [differing([seen], "final", training.state(), "the weight") for training in trainings]
    training = trainings[differences.index(None)] if None in differences else trainings[0]
    wrong = first_unless_any(differences)
    check.expect(
        wrong is None,
        f"Without torchrun train_one_epoch did not train as one process does ({wrong[1] if wrong else ''}).",
        "Train in one process as well: only what needs other ranks falls away. One batch of the loader is one step: "
        "zero_grad, forward, loss, backward, step.",
    )
    n, n_trained = len(data.images), len({item for (batch,) in steps for item in batch})
    check.expect(
        n_trained == n,
        f"Without torchrun train_one_epoch trained on {n_trained} of {n} items.",
        "In one process the whole data set is the share: go through the whole loader.",
        points=check.points / 2,
    )
    right = (training.logits(data.images).argmax(1) == data.labels).mean()
    check.expect(
        # One item may lie on the border between two answers after the training.
        close(accuracy, float(right), rtol=0, atol=1.01 / n),
        f"Without torchrun evaluate returned {shown(seen.values.get('accuracy'))}, expected {right:.6f}.",
        "In one process the accuracy over all ranks is the process's own: count its right answers there, too.",
        points=check.points / 2,
    )
    if seen.values.get("trains") is not True and not _script_trains(check):
        check.fail(
            "train_one_epoch was given a model in eval mode, as evaluate leaves it, and trained it as it was: from the "
            "second epoch on dropout is off, and batch norm keeps the statistics that it has.",
            "Call model.train() before the loop over the batches, as train_noddp.py does.",
            points=check.points / 2,
        )
    on_a_gpu = partial(check.run, "alone", values={**told, "gpus": 1}, arrays=arrays)
    try:
        on_a_gpu()
    except CheckEnded as ended:
        # What else may go wrong on an emulated GPU is not asked here.
        if is_device_fault(ended.feedback.message) or NOT_MOVED in ended.feedback.message:
            check.fail(
                f"On a machine with a GPU: {ended.feedback.message}", TO_THE_DEVICE, points=check.points / 2
            )
        _insist_on_names(check, on_a_gpu(expect=False).ranks[0].error)


def _insist_on_names(check: Check, error: StudentError | None) -> None:
    """End the check where a name was misspelt in a line that only a machine with a GPU reaches; half of it is there."""
    written_wrong = slip(check, error)
    if written_wrong is not None:
        check.fail(
            "Without torchrun, on a machine with a GPU, an emulated one, what trains without a GPU ended with "
            f"{written_wrong.message}.",
            written_wrong.hint,
            points=check.points / 2,
        )


def _script_trains(check: Check) -> bool:
    """Whether the script itself puts the model back into training mode; one that does not get there is not blamed."""
    return all(rank.values.get("trains") != [False] for rank in three_epochs(check).ranks)
