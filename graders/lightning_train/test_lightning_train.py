"""Exercise 5: Lightning. The module is trained by the probe on hidden pictures; the script runs on a hidden data set.

Where a loss or a metric is judged, what was seen are the tensors that could be the logits, and what is right is
worked out here from them and from the labels. How the student's code is built plays no part.
"""

from __future__ import annotations

import contextlib
import csv
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fixtures import fashion_mnist
from graders.lightning_train import expected
from graders.lightning_train.expected import Data, Item
from lockstep.check import Check
from lockstep.compare import close, difference, integer, number, shown
from lockstep.devicefault import is_device_fault
from lockstep.sandbox.limits import MIB, Limits
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.text import safe
from lockstep.verdict import CheckEnded, Crashed
from lockstep.wire import Array, Json

LIMITS = Limits(disk=256 * MIB)
MAX_DRAWS = 5
EXACT = 1e-5  # what losses of one batch differ by, worked out in float32 and here
ROUNDED = 0.06  # more than what a share loses when it is rounded to a tenth
LOADED_BY = 8  # pictures in a batch at the most: probe.BATCH_SIZE
FEW = 8  # items that drop_last may leave out, and the padding of a sampler
# What is called the accuracy and nothing more. Others have names: val_acc_top5, val_accuracy_shirt, val_acc_gap.
ACCURACY = re.compile(
    r"(?:val|valid|validation)?[\W_]*(?:avg|mean)?[\W_]*(?:acc|accuracy)[\W_]*(?:percent|pct)?[\W_]*(?:val|valid|validation)?"
    r"(?:_epoch)?",
    re.IGNORECASE,
)
LOSS_HINT = (
    "training_step has to return the mean cross-entropy of the batch, with its graph: "
    "`return F.cross_entropy(self(images), labels)`."
)


def train(check: Check, data: Data, *, split: int, **values: Json) -> Outcome:
    """Fit LitFashion on the first `split` items, with the others for validation."""
    ranks = values.pop("ranks", None)
    return check.run(
        "train",
        ranks=ranks if isinstance(ranks, int) else None,
        values={"batch_size": 8, "epochs": 1, "split": split, **values},
        arrays=data.arrays(),
        data={"fashion": fashion_mnist.make_idx(np.random.default_rng(0), 20, 20)},
    )


# The module


def test_training_step_loss(check: Check) -> None:
    """training_step returns the cross-entropy of the batch, and gradients flow from it."""
    try:
        found = check.run("found").ranks[0]
        check.expect(
            found.values.get("is_class") is True,
            "LitFashion is not a class derived from LightningModule.",
            "class LitFashion(pl.LightningModule): ...",
        )
    except CheckEnded as ended:
        # Without the class every other check would only say the same.
        ended.spoils = True
        raise
    # As large as batches are: every picture of one counts.
    size = int(check.rng.integers(40, 65))
    data = expected.make_data(check.rng, size + 8)
    outcome = train(check, data, split=size, batch_size=size, stop_after=1)
    seen = outcome.ranks[0]
    _is_loss(check, _first(check, seen.values.get("steps")))
    labels = data.labels[:size]
    tensors = expected.seen_in(seen, "train0", size)
    loss = expected.step_losses(seen)[0]
    call = f"training_step on a batch of {size} pictures"
    check.expect(loss is not None, f"{call} returned a loss that is no finite number.", LOSS_HINT)
    assert loss is not None
    match = expected.find(tensors, labels, loss)
    used = _with_gradient(seen, tensors, match.matching, labels)
    check.expect(
        not any(expected.is_probabilities(tensors[index]) for index in used),
        f"{call}: the loss was computed from probabilities, as if they were logits. Cross-entropy does a softmax "
        "itself, so that it is done twice: training still works, but slowly, and the loss cannot fall below 1.46.",
        "Hand the network's output to cross_entropy as it is, without softmax. Some course texts show this softmax. "
        "log_softmax with nll_loss is right, too.",
    )
    check.expect(
        not match.summed or bool(match.matching),
        f"{call}: the loss is the sum over the batch, not the mean.",
        "Leave out reduction='sum': with the mean, the learning rate does not depend on the batch size.",
    )
    check.expect(
        bool(match.matching),
        f"{call} returned {loss:.4g}, which is not the mean cross-entropy between any output of the network, of shape "
        f"({size}, 10), and the labels of the batch."
        + ("" if tensors else " No tensor of that shape was computed."),
        LOSS_HINT,
    )
    check.expect(
        len(expected.strings(seen.values.get("reached"))) > 0,
        "loss.backward() after training_step gave no parameter of LitFashion a gradient.",
        "Something cuts the graph between the network and the loss: detach(), .data, torch.tensor(loss) or "
        "torch.no_grad(). Or is the network not an attribute of the module?",
    )
    check.expect(
        bool(used),
        "The loss that training_step returns is right, but its gradient with respect to the network's output is not "
        "that of the cross-entropy.",
        "Return the loss as cross_entropy gives it: no factor, no detached part.",
    )


def _first(check: Check, steps: Json) -> Mapping[str, Json]:
    step = steps[0] if isinstance(steps, list) and steps else None
    if not isinstance(step, dict):
        check.fail(
            "trainer.fit(model, train_loader, val_loader) with one batch: training_step was never called.",
            "LitFashion needs a method training_step(self, batch, batch_idx).",
        )
    return step


def _is_loss(check: Check, step: Mapping[str, Json]) -> None:
    what, output = step.get("loss_is"), step.get("output")
    returned = safe(output, 80) if isinstance(output, str) else "something else"
    loss = safe(what, 80) if isinstance(what, str) else "something else"
    check.expect(
        what != "None",
        f"training_step returned {returned}. Without a loss Lightning skips the batch: nothing is trained, and no "
        "error tells of it.",
        "End training_step with `return loss`, or with a dict that has the key 'loss'.",
    )
    check.expect(
        isinstance(what, str) and "tensor" in what,
        f"training_step returned {loss} as the loss, expected a tensor.",
        "Return the loss itself: loss.item() and float(loss) are numbers without a graph, good for printing only.",
    )
    check.expect(
        step.get("graph") is True,
        "training_step returned a loss without a graph: no gradient can flow from it back to the network.",
        "Do not use detach(), .data, .item() or torch.no_grad() on the way to the loss.",
    )


def _with_gradient(
    seen: RankOutcome, tensors: Mapping[int, np.ndarray], matching: Sequence[int], labels: np.ndarray
) -> list[int]:
    """Those of the tensors through which the loss was really computed: it could be that of others by chance."""
    found = []
    for index in matching:
        slope = expected.gradient(tensors[index], labels).astype(np.float32)
        own = seen.arrays.get(f"train0/gradient{index}")
        if difference(own, slope, rtol=1e-2, atol=1e-4, what="the gradient") is None:
            found.append(index)
    return found


def test_configure_optimizers(check: Check) -> None:
    """configure_optimizers covers every parameter of the module, each once."""
    data = expected.make_data(check.rng, 16)
    outcome = train(check, data, split=8, stop_before=0)
    seen = outcome.ranks[0].values
    trainable, held = expected.strings(seen.get("trainable")), Counter(expected.strings(seen.get("held")))
    check.expect(
        len(trainable) > 0,
        "LitFashion has no parameters to train when training begins.",
        "Make the network in __init__ and keep it as an attribute: self.network = nn.Sequential(...).",
    )
    check.expect(
        bool(held),
        "configure_optimizers returned no optimizer: Lightning then trains nothing.",
        "return torch.optim.Adam(self.parameters(), lr=...)",
    )
    missing = [name for name in trainable if name not in held]
    check.expect(
        not missing,
        f"The optimizer holds {len(trainable) - len(missing)} of the module's {len(trainable)} parameters; "
        f"{_listed(missing)} would stay as initialised."
        + (f" It holds {held['?']} that are not the module's." if held["?"] else ""),
        "Give it self.parameters(): those of this module, all layers of it.",
    )
    twice = [name for name, count in held.items() if count > 1 and name != "?"]
    check.expect(
        not twice,
        f"{_listed(twice)} stand in the optimizers more than once, and would be stepped more than once per batch.",
        "Put every parameter into one group of one optimizer.",
    )
    rates = seen.get("rates")
    values = [number(rate) for rate in rates] if isinstance(rates, list) else []
    check.expect(
        any(rate is not None and rate > 0 for rate in values),
        "The learning rate of the optimizer is 0.",
        "Give it a learning rate above 0, for example lr=1e-3.",
    )


def _listed(names: Sequence[str]) -> str:
    few = ", ".join(safe(name, 60) for name in names[:3])
    return few + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def test_no_device_calls(check: Check) -> None:
    """The module works on whatever device Lightning puts it, without `.cuda()` or `.to("cuda")` of its own."""
    data = expected.make_data(check.rng, 16)
    seen = train(check, data, split=8).ranks[0]
    _first(check, seen.values.get("steps"))
    calls = expected.strings(seen.values.get("gpu_calls"))
    check.expect(
        seen.values.get("gpu_calls") == [],
        f"On a machine without a GPU, LitFashion called {safe(check.placed('; '.join(calls[:2])), 200)}.",
        "Leave the call out: Lightning moves the module and every batch to its device. For a tensor that you make "
        "yourself, say device=self.device.",
    )
    fault = _device_fault(check, data, "gpu")
    if fault:
        raise Crashed(
            f"On a machine with a GPU: {fault}",
            "Lightning moves the module's parameters and buffers, and every batch. A tensor that you make yourself needs "
            "device=self.device, or self.register_buffer in __init__; .cpu() stands before .numpy().",
        )
    fault = _device_fault(check, data, "cpu")
    if fault:
        check.fail(
            f'On a machine with a GPU, with a Trainer that is told accelerator="cpu": {fault}',
            "Which device it is, Lightning decides, and not whether torch.cuda.is_available(). Leave out .to(device) with a "
            "device of your own; for a tensor that you make yourself, say device=self.device.",
            points=check.points / 2,
        )


def _device_fault(check: Check, data: Data, accelerator: str) -> str:
    """How a training on a machine with a GPU ended, if that was because something was on another device; else nothing."""
    try:
        check.run(
            "on_gpu",
            values={"batch_size": 8, "epochs": 1, "split": 8, "accelerator": accelerator},
            arrays=data.arrays(),
            data={"fashion": fashion_mnist.make_idx(np.random.default_rng(0), 20, 20)},
        )
    except CheckEnded as ended:
        # What else may go wrong on an emulated GPU did not go wrong without it, and is no fault of this code.
        return ended.feedback.message if is_device_fault(ended.feedback.message) else ""
    return ""


def test_no_manual_loop(check: Check) -> None:
    """Lightning runs the loop: training_step calls neither backward nor step nor zero_grad."""
    data = expected.make_data(check.rng, 16)
    seen = train(check, data, split=8, stop_before=1).ranks[0].values
    _first(check, seen.get("steps"))
    if seen.get("automatic") is False:
        check.note(
            "self.automatic_optimization is False, so the loop in training_step is yours, and was left alone."
        )
        return
    manual = expected.strings(seen.get("manual"))
    check.expect(
        seen.get("manual") == [],
        f"training_step called {safe(', '.join(manual[:4]), 120)}. Under automatic optimization Lightning calls them "
        "after training_step: they would be done twice.",
        "Return the loss and leave the rest to Lightning. Who wants to do it all sets self.automatic_optimization = False.",
    )


def test_validation_logged(check: Check) -> None:
    """validation_step logs loss or accuracy with self.log, as one number for all processes."""
    # On few pictures a part of them may by chance have the loss and the accuracy of all, and tell nothing; and an odd
    # figure may by chance be another one, once.
    before: set[str] = set()
    constant: set[tuple[str, float]] | None = None
    far: set[str] = set()
    for _ in range(MAX_DRAWS):
        seen = _validated(check)
        for name in seen.turned.keys() & before:
            check.fail(
                seen.turned[name],
                "The answer to a picture is the class with the largest logit, logits.argmax(dim=1); the accuracy is the "
                "mean of `answers == labels`. The share of wrong answers is an error: log it as val_error.",
                points=check.points / 2,
            )
        constant = set(seen.odd.items()) if constant is None else constant & seen.odd.items()
        if seen.tells and not seen.turned and not constant:
            return
        before |= seen.turned.keys()
        far |= seen.far
    for name, value in sorted(constant or ()):
        if name in far:
            check.fail(
                f"{MAX_DRAWS} times trainer.fit, each with other pictures: {safe(name, 60)} is {value:.4g} every time, "
                "whatever share of the answers is right.",
                "Compute it from the batch in every validation_step: (logits.argmax(dim=1) == labels).float().mean().",
                points=check.points / 2,
            )


@dataclass(frozen=True)
class _Validated:
    """What one validation came to; `tells`: nothing that it could be by mistake is by chance what it should be.

    `turned` says, by name, of what is called an accuracy and counts something else. `odd` has the value of what is called
    one and is not the share of right answers, and `far` the names of those that are not that rounded, either.
    """

    tells: bool
    turned: Mapping[str, str]
    odd: Mapping[str, float]
    far: frozenset[str]


def _validated(check: Check) -> _Validated:
    batch_size, ranks, batches = 8, 2, 3
    n_val = ranks * batches * batch_size
    data = expected.make_data(check.rng, ranks * batch_size + n_val)
    split = len(data.labels) - n_val
    outcome = train(check, data, split=split, batch_size=batch_size, ranks=ranks)
    logged = [_logged(rank) for rank in outcome.ranks]
    call = f"trainer.fit on {ranks} processes with {n_val} pictures for validation"
    check.expect(
        bool(logged[0]),
        f"{call}: nothing was logged in validation with self.log.",
        'In validation_step: self.log("val_loss", loss, sync_dist=True). What is returned, printed or handed to '
        "self.logger.experiment is seen by no callback, no progress bar and no other process.",
    )
    metrics = [_numbers(rank, logged[0]) for rank in outcome.ranks]
    for name, value in metrics[0].items():
        other = metrics[1].get(name)
        check.expect(
            other is None or abs(value - other) <= 1e-6 + 1e-4 * abs(value),
            f"{call}: after validation {safe(name, 60)} is {value:.4g} on rank 0 and {shown(other)} on rank 1. Each took "
            "the mean over its own share of the pictures only.",
            "self.log(name, value, sync_dist=True) takes the mean over all processes; a torchmetrics object does it by "
            "itself.",
        )
    check.expect(
        bool(metrics[0]),
        f"{call}: what validation logged ({_listed(sorted(logged[0]))}) is no number at the end of the epoch.",
        "Log the value for the whole epoch: on_epoch=True, which is the default in validation_step.",
    )
    statistics = _statistics(outcome, data, split, batch_size, batches)
    losses = [each.loss for each in statistics]
    is_clear = _not_of_probabilities(check, outcome, metrics[0], statistics, call)
    either = losses + [share for each in statistics for share in each.shares]
    right = {name: _is_one_of(value, losses) for name, value in metrics[0].items() if "loss" in name.lower()}
    check.expect(
        all(right.values()) and (bool(right) or any(_is_one_of(v, either) for v in metrics[0].values())),
        f"{call}: what was logged ({_values(metrics[0])}) is neither the mean loss nor the accuracy over them.",
        "Log the mean loss of the batch, or the share of right answers in it, in every validation_step; Lightning takes "
        "the mean over the batches.",
    )
    if not any("val" in name.lower() for name in logged[0]):
        check.note(
            "The usual names begin with val_, such as val_loss: ModelCheckpoint and EarlyStopping are told them with "
            "monitor=..."
        )
    parts_differ = all(
        each.parts_differ
        for each in statistics
        if any(_is_one_of(value, [each.loss, *each.shares]) for value in metrics[0].values())
    )
    called = {name: value for name, value in metrics[0].items() if ACCURACY.fullmatch(name)}
    wrong = {
        name: f"{call}: {safe(name, 60)} is {value:.4g}, and so is {what}."
        for name, value in called.items()
        if (what := _turned(value, statistics))
    }
    explained = {
        name for name in wrong if any(_is_one_of(called[name], each.accuracies) for each in statistics)
    }
    return _Validated(
        tells=parts_differ and is_clear and not explained,
        turned={name: message for name, message in wrong.items() if name not in explained},
        odd={name: value for name, value in called.items() if not _is_accuracy(value, statistics, 1e-4)},
        far=frozenset(name for name, value in called.items() if not _is_accuracy(value, statistics, ROUNDED)),
    )


def _not_of_probabilities(
    check: Check, outcome: Outcome, metrics: Mapping[str, float], statistics: Sequence[_Statistics], call: str
) -> bool:
    """End the check where validation takes the cross-entropy of probabilities, and training knows none.

    Whether it can be told: a network that only guesses has nearly the same loss either way.
    """
    wrong = [each.loss for each in statistics if each.are_probabilities]
    right = [each.loss for each in statistics if not each.are_probabilities]
    doubtful = {
        name: value
        for name, value in metrics.items()
        if "loss" in name.lower() and any(close(value, one, rtol=EXACT, atol=EXACT) for one in wrong)
    }
    if not doubtful:
        return True
    size = max(expected.counts(outcome.ranks[0].values.get("sizes"), "train"), default=0)
    trained_on = expected.seen_in(outcome.ranks[0], "train0", size)
    # A softmax before the loss in training, too, is said of training.
    if not trained_on or any(expected.is_probabilities(tensor) for tensor in trained_on.values()):
        return True
    for name, value in doubtful.items():
        if not any(close(value, one, rtol=10 * EXACT, atol=10 * EXACT) for one in right):
            check.fail(
                f"{call}: {safe(name, 60)} is {value:.4g}, the cross-entropy of probabilities as if they were logits. "
                "Cross-entropy does a softmax itself, so that it is done twice, and the loss of validation cannot be "
                "compared with that of training.",
                "Hand the network's output to cross_entropy as it is, without softmax, as in training_step. The answer is "
                "logits.argmax(dim=1), with a softmax or without.",
                points=check.points / 2,
            )
    return False


def _is_accuracy(value: float, statistics: Sequence[_Statistics], tolerance: float) -> bool:
    """Whether a figure is the share of right answers, or that in percent."""
    return any(
        abs(value - scale * each.shares[0]) <= scale * tolerance for each in statistics for scale in (1, 100)
    )


def _turned(value: float, statistics: Sequence[_Statistics]) -> str:
    """What a figure is if it is the share of wrong answers, or of the least likely ones; else nothing."""
    for each in statistics:
        if _is_one_of(value, each.errors):
            return "the share of wrong answers"
        if _is_one_of(value, each.least):
            return "the share of pictures whose label got the smallest of the ten logits"
        if _is_one_of(value, each.counts):
            return "the number of right answers, of a batch or of all"
        if _is_one_of(value, each.flat):
            return "the share of labels that are the place of the largest of all logits of their batch (no dim=1)"
    return ""


def _logged(rank: RankOutcome) -> set[str]:
    """The names that were logged in the validation part."""
    entries = rank.values.get("logged")
    return {
        entry[1]
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, list) and len(entry) == 4 and isinstance(entry[1], str) and _validates(entry[0])
    }


def _validates(stage: Json) -> bool:
    return isinstance(stage, str) and "valid" in stage.lower()


def _numbers(rank: RankOutcome, names: set[str]) -> dict[str, float]:
    """The values at the end of the epoch of what was logged under some names."""
    metrics = rank.values.get("metrics")
    listed = metrics if isinstance(metrics, dict) else {}
    values = {name: number(value) for name, value in listed.items() if name.removesuffix("_epoch") in names}
    return {name: value for name, value in values.items() if value is not None}


def _values(metrics: Mapping[str, float]) -> str:
    return ", ".join(f"{safe(name, 40)} {value:.4g}" for name, value in list(metrics.items())[:4])


def _is_one_of(value: float, wanted: Sequence[float]) -> bool:
    return any(close(value, one, rtol=1e-3, atol=1e-4) for one in wanted)


@dataclass(frozen=True)
class _Statistics:
    """What a validation comes to by one tensor that could be the logits.

    `shares` are the accuracy in all the ways in which it may be told, the error among them; `accuracies` go further:
    of the best few, by batch, by class. `least` takes the smallest logit for the answer; `counts` are right answers, of
    a batch and of all; `flat` has one answer for a batch. `parts_differ`: neither one process nor the last batch has the
    loss or the accuracy of the whole. `are_probabilities`: the tensor is what a softmax makes.
    """

    loss: float
    shares: tuple[float, ...]
    accuracies: tuple[float, ...]
    errors: tuple[float, ...]
    least: tuple[float, ...]
    counts: tuple[float, ...]
    flat: tuple[float, ...]
    parts_differ: bool
    are_probabilities: bool


def _statistics(outcome: Outcome, data: Data, split: int, batch_size: int, batches: int) -> list[_Statistics]:
    """Loss and accuracy over all validation items, by each tensor that could be the logits."""
    ranks = len(outcome.ranks)
    found: list[_Statistics] = []
    for index in range(expected.MAX_SEEN):
        losses, rights, answers, wanted, outputs = [], [], [], [], []
        for rank, seen in enumerate(outcome.ranks):
            own = data.labels[split:][rank::ranks]
            for batch in range(batches):
                labels = own[batch * batch_size : (batch + 1) * batch_size]
                logits = expected.seen_in(seen, f"val{batch}", batch_size).get(index)
                if logits is not None:
                    losses.append(expected.losses(logits, labels))
                    outputs.append(logits)
                    answers.append(logits.argmax(axis=1))
                    wanted.append(labels)
                    rights.append(answers[-1] == labels)
        if len(losses) == ranks * batches:
            loss = expected.mean_over(losses)
            share, by_class = expected.mean_over(rights), expected.mean_of_classes(answers, wanted)
            errors = _in_percent([1 - share, 1 - by_class])
            shares = (*_in_percent([share, by_class]), *errors)
            least = _in_percent(
                [float(np.mean([o.argmin(axis=1) == w for o, w in zip(outputs, wanted, strict=True)]))]
            )
            parts = [slice(0, batches), slice(batches - 1, None, batches)]
            same = any(
                _is_one_of(expected.mean_over(losses[part]), [loss])
                or _is_one_of(expected.mean_over(rights[part]), [share])
                for part in parts
            )
            accuracies = _in_percent(_readings(outputs, wanted, batches))
            counts = (batch_size * share, len(rights) * batch_size * share)
            flat = _in_percent(
                [float(np.mean([o.argmax() == w for o, w in zip(outputs, wanted, strict=True)]))]
            )
            of_softmax = all(expected.is_probabilities(each) for each in outputs)
            found.append(
                _Statistics(loss, shares, accuracies, errors, least, counts, flat, not same, of_softmax)
            )
    return found


def _in_percent(shares: Sequence[float]) -> tuple[float, ...]:
    return tuple(told for one in shares for told in (one, 100 * one))


def _readings(outputs: Sequence[Array], wanted: Sequence[Array], batches: int) -> list[float]:
    """All that may be called the accuracy of batches: of the best k, by class, and that as a mean over batches or ranks."""
    logits, labels = np.concatenate(list(outputs)), np.concatenate(list(wanted))
    places = (logits > logits[np.arange(len(labels)), labels][:, None]).sum(axis=1)
    of_best = [float((places < k).mean()) for k in range(1, expected.CLASSES)]
    answers = [each.argmax(axis=1) for each in outputs]
    by_class = []
    for n in (1, batches, len(answers)):
        parts = [slice(start, start + n) for start in range(0, len(answers), n)]
        by_class.append(
            float(np.mean([expected.mean_of_classes(answers[part], wanted[part]) for part in parts]))
        )
    return [*of_best, *by_class]


def test_learns(check: Check) -> None:
    """Two short epochs on pictures that are easily told apart bring the loss down."""
    n, epochs, batch_size = 160, 2, 8
    data = expected.make_data(check.rng, n + batch_size)
    seen = train(check, data, split=n, epochs=epochs, batch_size=batch_size).ranks[0]
    losses = expected.step_losses(seen)
    wanted = epochs * n // batch_size
    check.expect(
        len(losses) == wanted,
        f"trainer.fit over {epochs} epochs of {n // batch_size} batches made {len(losses)} training steps, "
        f"expected {wanted}.",
        "Does something stop the training, such as a callback of configure_callbacks?",
    )
    real = []
    for step, loss in enumerate(losses):
        start = step * batch_size % n
        labels = data.labels[start : start + batch_size]
        tensors = expected.seen_in(seen, f"train{step}", batch_size)
        match = expected.find(tensors, labels, loss) if loss is not None else None
        check.expect(
            match is not None and bool(match.matching),
            f"Step {step + 1} of {wanted}: training_step returned {_told(loss)}, which is not the mean cross-entropy of the "
            "batch.",
            LOSS_HINT,
        )
        real.append(loss or 0.0)
    # Every batch comes once in each epoch: what differs between them is luck only where a network draws numbers.
    halves = np.array(real).reshape(epochs, -1)
    first, last = halves.mean(axis=1)
    falls = halves[0] - halves[1]
    luck = min(3 * falls.std(ddof=1) / np.sqrt(len(falls)), 0.03 * first)
    check.expect(
        falls.mean() > luck + 1e-4 * first and last < 1.5 * real[0],
        f"trainer.fit over {epochs} epochs of {n // batch_size} batches: the first loss is {real[0]:.4g}, the mean of the "
        f"first epoch {first:.4g}, that of the second {last:.4g}. The pictures are easy: it should fall.",
        "Is the learning rate far too small or too large, and does the loss come from this module's own network?",
    )


def _told(loss: float | None) -> str:
    return "no finite number" if loss is None else f"{loss:.4g}"


# The Trainer


def test_trainer_flags(check: Check) -> None:
    """build_trainer(): at most 10 epochs, 20 % of the batches, a logger; what it is given takes precedence."""
    batches = int(check.rng.integers(11, 25))
    data = expected.make_data(check.rng, 2 * batches)
    epochs = int(check.rng.integers(2, 9))
    outcome = check.run(
        "flags",
        values={
            "limited": {"max_epochs": 1, "precision": "bf16-mixed"},
            "dev": {"max_epochs": epochs, "limit_train_batches": 1.0, "fast_dev_run": True},
        },
        arrays=data.arrays(),
        data={"fashion": fashion_mnist.make_idx(np.random.default_rng(0), 20, 20)},
        limits=LIMITS,
    )
    seen = outcome.ranks[0].values
    _defaults(check, seen)
    wanted = batches // 5
    taken = len(expected.counts(seen.get("limited_batches"), "train"))
    check.expect(
        taken == wanted,
        f"build_trainer(max_epochs=1).fit over {batches} batches made {taken} training steps, expected {wanted}, "
        "which is 20 %.",
        "limit_train_batches=0.2 rounds down. Is it given to the Trainer, and are gradients of several batches not "
        "counted as one step?",
    )
    check.expect(
        seen.get("limited_precision") == "bf16-mixed",
        f"build_trainer(precision='bf16-mixed') made a Trainer with precision {shown(seen.get('limited_precision'))}.",
        "Hand the overrides on: pl.Trainer(**{**defaults, **overrides}).",
    )
    taken = len(expected.counts(seen.get("dev_batches"), "train"))
    check.expect(
        taken == 1,
        f"build_trainer(fast_dev_run=True).fit made {taken} training steps, expected 1.",
        "Hand the overrides on: pl.Trainer(**{**defaults, **overrides}).",
    )
    again, first = seen.get("again"), [seen.get("max_epochs"), seen.get("limit")]
    check.expect(
        again == first,
        f"build_trainer() made a Trainer with max_epochs and limit_train_batches {_both(first)}, and after a call with "
        f"max_epochs={epochs}, limit_train_batches=1.0 another with {_both(again)}: what one call is given stays for the "
        "next.",
        "Leave the defaults as they are: pl.Trainer(**{**DEFAULTS, **overrides}) makes a new dict, DEFAULTS.update does "
        "not.",
        points=check.points / 2,
    )


def _both(values: Json) -> str:
    return " and ".join(map(shown, values if isinstance(values, list) else [values]))


def _defaults(check: Check, seen: Mapping[str, Json]) -> None:
    epochs = integer(seen.get("max_epochs"))
    check.expect(
        epochs is not None and 1 <= epochs <= 10,
        f"build_trainer() makes a Trainer with max_epochs={shown(seen.get('max_epochs'))}, expected 1 to 10."
        + (
            " Without max_epochs Lightning goes on for 1000 epochs."
            if epochs is None or epochs == 1000
            else ""
        ),
        "pl.Trainer(max_epochs=3, ...)",
    )
    limit = seen.get("limit")
    if integer(limit) is not None:
        check.fail(
            f"build_trainer() makes a Trainer with limit_train_batches={shown(limit)}: a whole number is a number of "
            "batches, not a percentage.",
            "Write 20 % as a float: limit_train_batches=0.2.",
        )
    check.expect(
        close(limit, 0.2, rtol=1e-6),
        f"build_trainer() makes a Trainer with limit_train_batches={shown(limit)}, expected 0.2, that is 20 % of the "
        "batches.",
        "pl.Trainer(limit_train_batches=0.2, ...)",
    )
    check.expect(
        len(expected.strings(seen.get("loggers"))) > 0,
        "build_trainer() makes a Trainer without a logger.",
        "logger=True, or one of TensorBoardLogger, CSVLogger, WandbLogger.",
    )


# The script, which knows its data


def run_script(
    check: Check, arguments: Sequence[str], *, ranks: int | None = None, n: tuple[int, int], **values: Json
) -> Outcome:
    """Run lightning_train.py on a small Fashion-MNIST with `n` pictures to train on and to test on."""
    tree = fashion_mnist.make_idx(check.rng, *n)
    own: list[Json] = ["--data", "/data/fashion", "--accelerator", "cpu", *arguments]
    return check.run(
        "script",
        ranks=ranks,
        values={"arguments": own, **values},
        data={"fashion": tree},
        env={"WANDB_MODE": "offline"},
        limits=LIMITS,
        shared_files=True,  # what prepare_data downloads on one rank, the others look for
    )


def _fitted(check: Check, seen: RankOutcome, call: str) -> None:
    """End the check unless the script came to a Trainer's fit and to its end."""
    check.expect(
        (integer(seen.values.get("fits")) or 0) > 0,
        f"{call}: no Trainer's fit was called.",
        "main() has to build the Trainer with build_trainer(...) and call trainer.fit(model, ...).",
    )
    status = seen.values.get("status")
    check.expect(
        status is None or integer(status) == 0,
        f"{call} ended with status {shown(status)}: {_tail(seen.output)}",
        "Run the same line in a terminal.",
    )


def _tail(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return " | ".join(safe(line, 160) for line in lines[-3:]) or "(nothing was printed)"


def _drawn(check: Check, low: int, high: int) -> int:
    """How many pictures a process trains on; no last batch has one alone, for which batch norm has no variance."""
    return int(check.rng.choice([n for n in range(low, high) if n % LOADED_BY != 1]))


def test_data(check: Check) -> None:
    """The script trains on the training pictures, each once per epoch, and validates on others."""
    n_train, n_test = _drawn(check, 60, 90), int(check.rng.integers(25, 40))
    arguments = ["--devices", "1", "--max-epochs", "1", "--limit-train-batches", "1.0", "--logger", "csv"]
    outcome = run_script(check, arguments, n=(n_train, n_test))
    seen = outcome.ranks[0]
    call = f"lightning_train.py on {n_train} training and {n_test} test pictures, one epoch of all batches"
    _fitted(check, seen, call)
    trained, validated = expected.pictures(seen, "train"), expected.pictures(seen, "val")
    hint = "FashionMNIST(folder, train=True) is there to train on, train=False for validation."
    tested = sum(part == "test" for part, _ in trained)
    check.expect(tested == 0, f"{call}: {tested} pictures of the test part were trained on.", hint)
    check.expect(
        len(validated) > 0,
        f"{call}: validation_step was given no picture.",
        "Give Lightning a loader for validation, too: val_dataloader() of the module or the LightningDataModule, or the "
        "second loader of trainer.fit(model, train_loader, val_loader). Where there is one, is the Trainer told to leave it "
        "out, as by limit_val_batches=0.0?",
    )
    both = len(set(trained) & set(validated)) or _same_by_content(seen, trained, validated)
    check.expect(
        both == 0,
        f"{call}: {both} of the pictures for validation were trained on as well. What they say of the model is too good.",
        hint,
    )
    twice = len(trained) - len(set(trained))
    check.expect(
        twice == 0,
        f"{call}: {twice} pictures were trained on twice.",
        "One pass over the data set is an epoch.",
    )
    # A part of the training pictures may be kept for validation instead of the test part. Those of which only the content
    # is known may be of either.
    parts = {part for part, _ in validated}
    may_be = parts == {"?"} and len(set(trained)) <= n_train - FEW
    kept = len(set(validated)) if parts == {"train"} or may_be else 0
    total = len(set(trained)) + kept
    check.expect(
        n_train - FEW < total <= n_train,
        f"{call}: training_step was given {len(set(trained))} different pictures"
        + (f" and {kept} were kept for validation" if kept else "")
        + f", expected {n_train} in all.",
        "The loader has to go through the whole training part.",
    )


def _same_by_content(seen: RankOutcome, trained: Sequence[Item], validated: Sequence[Item]) -> int:
    """How many pictures look the same in both stages, where numbers are not known of both."""
    if all(part != "?" for part, _ in (*trained, *validated)):
        return 0
    both = [set(expected.hashes(seen.values.get("hashes"), stage)) for stage in ("train", "val")]
    return len(both[0] & both[1])


def test_two_ranks(check: Check) -> None:
    """With --devices 2 --strategy ddp two processes share out the data and keep equal weights."""
    n_train, n_test = 2 * _drawn(check, 31, 46) - 1, 24
    arguments = [
        "--devices", "2", "--strategy", "ddp", "--max-epochs", "1", "--limit-train-batches", "1.0", "--logger", "csv",
    ]  # fmt: skip
    outcome = run_script(check, arguments, ranks=2, n=(n_train, n_test))
    call = "lightning_train.py --accelerator cpu --devices 2 --strategy ddp under torchrun with two processes"
    for rank, seen in enumerate(outcome.ranks):
        _fitted(check, seen, f"{call}, rank {rank}")
        check.expect(
            integer(seen.values.get("world_size")) == 2,
            f"{call}: the Trainer of rank {rank} has world size {shown(seen.values.get('world_size'))}, expected 2. Each "
            "process would train a model of its own.",
            "Hand --devices and --strategy on to build_trainer(devices=..., strategy=...).",
        )
    own = [expected.pictures(seen, "train") for seen in outcome.ranks]
    check.expect(
        all(own),
        f"{call}: training_step of rank {0 if not own[0] else 1} was given no picture.",
        "Both processes have to train.",
    )
    _shared(check, outcome, own, n_train, call)
    _same_weights(check, outcome, call)
    check.expect(
        integer(outcome.ranks[1].values.get("downloads")) == 0,
        "Training on two processes works, but rank 1 called for the download of the data as well. Without the data on disk, "
        "both would write the same files at once.",
        "Put FashionMNIST(..., download=True) into prepare_data, which Lightning calls in one process of each node while "
        "the others wait, and open the data sets in setup or in the loaders, without download.",
        points=check.points / 2,
    )


def _shared(check: Check, outcome: Outcome, own: Sequence[Sequence[Item]], n: int, call: str) -> None:
    sets = [set(items) for items in own]
    both = len(sets[0] & sets[1])
    sampler = (
        "Leave use_distributed_sampler=True, the default of Trainer: Lightning then gives every loader a "
        "DistributedSampler. A sampler or a batch_sampler of your own it leaves alone."
    )
    # Splits that were drawn apart share half of what each process trains on, more or less.
    if both > FEW and both > 0.8 * len(sets[0]):
        check.fail(f"{call}: both processes trained on the same {both} pictures.", sampler)
    # Noise or a random crop makes every picture another one, where it is known by content alone: then they are counted.
    if all(_reads_all(seen, items) for seen, items in zip(outcome.ranks, own, strict=True)):
        given = [_given(seen) for seen in outcome.ranks]
        check.expect(
            any(size <= (n + 1) // 2 + batch for size, batch in given),
            f"{call}: of {n} pictures {' and '.join(str(size) for size, _ in given)} were given to training_step in an epoch "
            "on the two processes, expected half of them on each, and no DistributedSampler shares them out.",
            sampler,
        )
    check.expect(
        both <= 1,
        f"{call}: {both} pictures were trained on by both processes, expected at most 1, the sampler's padding.",
        "Both processes have to shuffle or split the data alike: pl.seed_everything(...), or a generator with a fixed seed.",
    )
    # A part of the training pictures may be kept for validation. What is known by content alone could be of that part.
    trained = sets[0] | sets[1]
    validated = {item for seen in outcome.ranks for item in expected.pictures(seen, "val")}
    kept = {item for item in validated if item[0] != "test"} - trained
    # With drop_last a loader leaves out less than a batch, in each process.
    stages = ("train", "val") if kept else ("train",)
    left_out = sum(
        max(FEW, *expected.counts(seen.values.get("sizes"), stage))
        for seen in outcome.ranks
        for stage in stages
    )
    is_whole = len(trained) + len(kept) >= n - left_out
    check.expect(
        # Without any validation nobody knows what was kept for it.
        len(trained) >= n // 2 and (is_whole or not validated),
        f"{call}: together they trained on {len(trained)} of {n} pictures"
        + (f", with {len(kept)} kept for validation." if kept else "."),
        f"{sampler} To share out by rank as well, with a Subset(data, range(rank, n, world_size)) for example, halves the "
        "pictures twice.",
    )


def _given(seen: RankOutcome) -> tuple[int, int]:
    """How many pictures a process trained on in its first epoch, and the largest batch of them."""
    sizes = expected.counts(seen.values.get("sizes"), "train")
    epochs = expected.counts({"train": seen.values.get("epochs_from_one")}, "train")
    first = [size for size, epoch in zip(sizes, epochs, strict=False) if epoch == epochs[0]]
    return sum(first), max(first, default=0)


def _reads_all(seen: RankOutcome, items: Sequence[Item]) -> bool:
    """Whether a process that trained once read pictures of its own by a loader that nothing shares out."""
    by_content = all(part == "?" for part, _ in items)
    return by_content and seen.values.get("shared_out") is False and integer(seen.values.get("fits")) == 1


def _same_weights(check: Check, outcome: Outcome, call: str) -> None:
    weights = [seen.arrays.get("weights") for seen in outcome.ranks]
    first = weights[0]
    if first is None or first.size == 0 or first.dtype != np.float32:
        check.fail(
            f"{call}: the model has no weights to compare.", "Make the network in LitFashion.__init__."
        )
    problem = difference(weights[1], first, rtol=1e-5, atol=1e-6, what="the weights of rank 1")
    check.expect(
        problem is None,
        f"{call}: after an epoch the processes hold different models: {problem} from rank 0.",
        "Train with trainer.fit and let Lightning do the steps: it wraps the module in DistributedDataParallel.",
    )


def test_precision(check: Check) -> None:
    """--precision bf16-mixed: the network computes in bfloat16, its parameters stay in float32."""
    arguments = [
        "--devices", "1", "--max-epochs", "1", "--limit-train-batches", "1.0", "--logger", "csv",
        "--precision", "bf16-mixed",
    ]  # fmt: skip
    outcome = run_script(check, arguments, n=(32, 16), stop_before=1)
    call = "lightning_train.py --precision bf16-mixed"
    seen = outcome.ranks[0]
    _fitted(check, seen, call)
    precision = seen.values.get("precision")
    check.expect(
        precision == "bf16-mixed",
        f"{call}: the Trainer has precision {shown(precision)}.",
        "Hand --precision on to build_trainer(precision=args.precision).",
    )
    parameters = expected.strings(seen.values.get("parameter_types"))
    check.expect(
        parameters == ["float32"],
        f"{call}: the parameters of the module are {safe(' and '.join(parameters), 60) or 'unknown'}, expected float32. Small "
        "updates are lost in 16 bits.",
        "Do not call half(), bfloat16() or to(dtype) on the network: mixed precision casts what it computes with, and "
        "leaves the parameters alone.",
    )
    types = expected.strings(seen.values.get("types"))
    check.expect(
        "bfloat16" in types,
        f"{call}: the layers of the network computed in {safe(' and '.join(types), 60) or 'nothing that could be seen'}, "
        "expected bfloat16.",
        "Let Lightning's autocast do its work: no torch.autocast(enabled=False) around the network.",
    )
    arguments[-1] = "32-true"
    call = "lightning_train.py --precision 32-true"
    try:
        seen = run_script(check, arguments, n=(32, 16), stop_before=1).ranks[0]
    except CheckEnded:
        return  # other names of it, and no others, may be known to a script
    if "bfloat16" in expected.strings(seen.values.get("types")):
        check.fail(
            f"--precision bf16-mixed works, but with {call} the layers of the network computed in bfloat16, too: the Trainer "
            f"has precision {shown(seen.values.get('precision'))}.",
            "Hand --precision on to build_trainer(precision=args.precision), whatever it is.",
            points=check.points / 2,
        )


def test_script(check: Check) -> None:
    """The script trains for as long as it is told, logs where it is told, and answers --help."""
    arguments = ["--devices", "1", "--max-epochs", "2", "--limit-train-batches", "0.5", "--logger", "csv"]
    n_train = 300  # so that a batch sampler of their own makes several batches, too
    outcome = run_script(check, arguments, n=(n_train, 24))
    seen = outcome.ranks[0]
    call = "lightning_train.py --max-epochs 2 --limit-train-batches 0.5 --logger csv"
    _fitted(check, seen, call)
    epochs = Counter(expected.counts({"train": seen.values.get("epochs_from_one")}, "train"))
    check.expect(
        sorted(epochs) == [1, 2],
        f"{call} trained for {len(epochs)} epochs, expected 2.",
        "Hand --max-epochs on to build_trainer(max_epochs=...).",
    )
    share = sum(expected.counts(seen.values.get("sizes"), "train")) / 2 / n_train
    check.expect(
        share <= 0.6 and close(seen.values.get("limit"), 0.5),
        f"{call} trained on {share:.0%} of the pictures in an epoch, expected half of them.",
        "Hand --limit-train-batches on to build_trainer(limit_train_batches=...), as a float.",
    )
    check.expect(
        _has_table(seen.values.get("left")),
        f"{call} left no metrics.csv with a number in it.",
        "With --logger csv use pytorch_lightning.loggers.CSVLogger, and log with self.log.",
    )
    for name in ("tensorboard", "wandb"):
        outcome = run_script(check, ["--devices", "1", "--logger", name], n=(16, 8), at_fit=True)
        loggers = expected.strings(outcome.ranks[0].values.get("loggers"))
        check.expect(
            any(name in logger.lower() for logger in loggers),
            f"lightning_train.py --logger {name}: the Trainer logs with {_listed(loggers) or 'nothing'}.",
            "Choose the logger by the argument: TensorBoardLogger, WandbLogger or CSVLogger.",
        )
        unasked = [logger for logger in loggers if "wandb" in logger.lower() and name != "wandb"]
        check.expect(
            not unasked,
            f"lightning_train.py --logger {name}: the Trainer logs with {_listed(loggers)}, with W&B as well, which was not "
            "asked for: it wants an account, and sends what it is given to another machine.",
            "Choose the logger by the argument, and make no others: TensorBoardLogger, WandbLogger or CSVLogger.",
            points=check.points / 2,
        )
    helped = run_script(check, ["--help"], n=(16, 8), at_fit=True).ranks[0]
    check.expect(
        integer(helped.values.get("status")) == 0
        and integer(helped.values.get("fits")) == integer(helped.values.get("rehearsed")),
        "`lightning_train.py --help` does not print help and end.",
        "argparse answers --help by itself: parse the arguments before anything else is done.",
    )
    imported = check.run(
        "imported", data={"fashion": fashion_mnist.make_idx(check.rng, 16, 8)}, limits=LIMITS
    ).ranks[0]
    check.expect(
        integer(imported.values.get("fits")) == 0,
        "The script works, but `import lightning_train` starts a training: so does every process that Lightning starts "
        "with --strategy ddp_spawn, and every worker of a DataLoader on Windows and macOS.",
        'Put what runs into main() and call it under `if __name__ == "__main__":`.',
        points=check.points / 2,
    )


def _has_table(left: Json) -> bool:
    """Whether one of the files that the script left is a table with a number in a column of a metric."""
    for name, text in left.items() if isinstance(left, dict) else ():
        # What is no table, the reader refuses with an error of its own.
        with contextlib.suppress(csv.Error):
            if name.endswith("metrics.csv") and isinstance(text, str) and _has_a_metric(text):
                return True
    return False


def _has_a_metric(text: str) -> bool:
    return any(
        value and column not in ("epoch", "step")
        for row in csv.DictReader(io.StringIO(text))
        for column, value in row.items()
        if column
    )
