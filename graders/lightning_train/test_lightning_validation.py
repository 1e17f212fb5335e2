"""The judge of exercise 5, validation: whether what is logged is the loss or the accuracy over all processes.

What was seen are the tensors that could be the logits, and what is right is worked out here from them and from the
labels. How the student's code is built plays no part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from graders.lightning_train import expected, smoothing
from graders.lightning_train.expected import Data
from graders.lightning_train.figures import ACCURACY, is_of_training, mean_losses
from graders.lightning_train.modes import validates_in_training_mode
from graders.lightning_train.multiples import Multiple, Multiples
from graders.lightning_train.runs import train
from lockstep.check import Check
from lockstep.compare import close, elements, number, shown
from lockstep.crossentropy import row_losses
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.text import few_names, safe
from lockstep.verdict import Feedback
from lockstep.wire import Array, Json

MAX_DRAWS = 5
ERROR, COUNT = "the share of wrong answers", "the number of right answers, of a batch or of all"
LEAST = "the share of pictures whose label got the smallest of the ten logits"
FLAT = "the share of labels that are the place of the largest of all logits of their batch (no dim=1)"
LAST = "the share of right answers in the last batch of every process, not in all batches"
TOGETHER = "the share of right answers to the pictures of training and of validation together"
EXACT = 1e-5  # what losses of one batch differ by, worked out in float32 and here
ROUNDED = 0.06  # more than what a share loses when it is rounded to a tenth


def test_validation_logged(check: Check) -> None:
    """validation_step logs loss or accuracy with self.log, as one number for all processes."""
    # On few pictures a part of them may by chance have the loss and the accuracy of all, and tell nothing; and an odd
    # figure may by chance be another one, but not every time.
    may_be: dict[str, set[str]] = {}
    constant: set[tuple[str, float]] | None = None
    far: set[str] = set()
    shares = Multiples()
    for _ in range(MAX_DRAWS):
        seen = _validated(check)
        shares.note(seen.multiples)
        for name, told in seen.turned.items():
            before = may_be.get(name)
            may_be[name] = set(told) if before is None else before & set(told)
            # What could be two of them, as 0 could, the next draw tells apart.
            if before is not None and len(may_be[name]) == 1:
                (what,) = may_be[name]
                check.fail(told[what].message, told[what].hint, points=check.points / 2)
        constant = set(seen.odd.items()) if constant is None else constant & seen.odd.items()
        if seen.tells and not any(may_be.values()) and not constant and not shares.found():
            return
        far |= seen.far
    for name, value in sorted(constant or ()):
        if name in far:
            check.fail(
                f"{MAX_DRAWS} times trainer.fit, each with other pictures: {safe(name, 60)} is {value:.4g} every time, "
                "whatever share of the answers is right.",
                "Compute it from the batch in every validation_step: (logits.argmax(dim=1) == labels).float().mean().",
                points=check.points / 2,
            )
    for name, factor in sorted(shares.found().items()):
        if name in far:
            check.fail(
                f"{MAX_DRAWS} times trainer.fit, each with other pictures: {safe(name, 60)} is {factor:.4g} times the share of "
                "right answers every time.",
                "Is the number of right answers divided by a constant such as BATCH_SIZE? Batches have other sizes, too: the last "
                "one, and those of --batch-size. Take the mean over the batch, (logits.argmax(dim=1) == labels).float().mean().",
                points=check.points / 2,
            )


@dataclass(frozen=True)
class _Validated:
    """What one validation came to; `tells`: nothing that it could be by mistake is by chance what it should be.

    `turned` says, of what is called an accuracy, what else it may count: of each by its name, and nothing where it is one.
    `odd` has the value of what is called one and is not the share of right answers, and `far` the names of those that are
    not that rounded, either. `multiples` says how often such a one holds the share, by its name and by the tensor that
    could be the logits.
    """

    tells: bool
    turned: Mapping[str, Mapping[str, Feedback]]
    odd: Mapping[str, float]
    far: frozenset[str]
    multiples: Mapping[tuple[str, int], Multiple]


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
        'In validation_step, spelled just so: self.log("val_loss", loss, sync_dist=True). What is returned, printed or '
        "handed to self.logger.experiment is seen by no callback, no progress bar and no other process.",
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
        f"{call}: what validation logged ({few_names(sorted(logged[0]))}) is no number at the end of the epoch.",
        "Log the value for the whole epoch: on_epoch=True, which is the default in validation_step.",
    )
    statistics = _statistics(outcome, data, split, batch_size, batches)
    if not _fits(metrics[0], statistics):
        share = smoothing.of_training(check, data, split)
        if share and smoothing.is_usual(share):
            statistics += _statistics(outcome, data, split, batch_size, batches, share)
    is_clear = _not_of_probabilities(check, outcome, metrics[0], statistics, call)
    if not _fits(metrics[0], statistics):
        told = _misfit(metrics[0], statistics, batch_size)
        check.fail(f"{call}: {told.message}", told.hint)
    check.expect(
        not validates_in_training_mode(outcome.ranks[0]),
        f"{call}: LitFashion was in training mode. Dropout is on then, and batch norm learns from the pictures that it is "
        "tested with: what was logged is not of the network that was trained.",
        "Leave out self.train(): Lightning has switched to evaluation before validation_step, and switches back after it.",
        points=check.points / 2,
    )
    for name in sorted(logged[0] & _logged(outcome.ranks[0], "train")):
        check.expect(
            not is_of_training(name),
            f"{call}: {safe(name, 60)} was logged in training and in validation. Its curve has losses of pictures that are not "
            "trained on, and so has whatever watches it, such as ModelCheckpoint.",
            "Does validation_step call training_step, which logs as well? Put what they share into a method that logs nothing, "
            'and log in each of the two: "train_loss" in training_step, "val_loss" in validation_step.',
            points=check.points / 2,
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
        name: {
            what: Feedback(f"{call}: {safe(name, 60)} is {value:.4g}, and so is {what}.", _turned_hint(what))
            for what in _turned(value, statistics)
        }
        for name, value in called.items()
    }
    # By chance, or because it is what it should be.
    explained = {
        name
        for name, told in wrong.items()
        if told and any(_is_one_of(called[name], each.accuracies) for each in statistics)
    }
    odd = {name: value for name, value in called.items() if not _is_accuracy(value, statistics, 1e-4)}
    return _Validated(
        tells=parts_differ and is_clear and not explained,
        turned={name: told for name, told in wrong.items() if name not in explained},
        odd=odd,
        multiples={
            (name, tensor): Multiple(value / share, share)
            for name, value in odd.items()
            for tensor, share in enumerate(each.shares[0] for each in statistics)
            if share > 0
        },
        far=frozenset(name for name, value in called.items() if not _is_accuracy(value, statistics, ROUNDED)),
    )


def _fits(metrics: Mapping[str, float], statistics: Sequence[_Statistics]) -> bool:
    """Whether all that is called a loss is the mean loss, by some tensor; without such, whether anything is that or a share."""
    losses = [each.loss for each in statistics]
    named = mean_losses(metrics)
    if named:
        return all(_is_one_of(value, losses) for value in named.values())
    either = losses + [share for each in statistics for share in each.shares]
    return any(_is_one_of(value, either) for value in metrics.values())


def _misfit(metrics: Mapping[str, float], statistics: Sequence[_Statistics], batch_size: int) -> Feedback:
    """What is logged where that does not fit: what is called a loss, or all of it."""
    losses = [each.loss for each in statistics]
    shares = [share for each in statistics for share in each.shares]
    for name, value in mean_losses(metrics).items():
        if _is_one_of(value, losses):
            continue
        found = f"{safe(name, 60)} is {value:.4g}, which is not the mean loss over them"
        if _is_one_of(value, [loss * batch_size for loss in losses]):
            return Feedback(
                f"{found}, but {batch_size} times as much, and a batch holds {batch_size} pictures.",
                "Log the mean of a batch: leave out reduction='sum' and whatever multiplies by the number of pictures. "
                "Lightning takes the mean over the batches, by their sizes.",
            )
        if _is_one_of(value, shares):
            return Feedback(
                f"{found}, but a share of answers ({_values(metrics)}).",
                "Are the loss and the accuracy mixed up? The names are in front: "
                'self.log_dict({"val_loss": loss, "val_acc": accuracy}, sync_dist=True).',
            )
    return Feedback(
        f"what was logged ({_values(metrics)}) is neither the mean loss nor the accuracy over them.",
        "Log the mean loss of the batch, or the share of right answers in it, in every validation_step; Lightning takes "
        "the mean over the batches.",
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


def _turned(value: float, statistics: Sequence[_Statistics]) -> list[str]:
    """All that a figure may be that is no accuracy of the validation, the share of wrong answers for one."""
    return [
        what
        for what, figures in {
            # Of a few pictures the number may by chance be a share, too.
            COUNT: [count for each in statistics for count in each.counts],
            ERROR: [share for each in statistics for share in each.errors],
            LEAST: [share for each in statistics for share in each.least],
            FLAT: [share for each in statistics for share in each.flat],
            LAST: [share for each in statistics for share in each.last],
            TOGETHER: [share for each in statistics for share in each.together],
        }.items()
        if _is_one_of(value, figures)
    ]


def _turned_hint(what: str) -> str:
    if what == LAST:
        return (
            "What is kept on self with `=` is that of the last batch when the epoch ends. self.log in validation_step takes "
            "the mean over all batches; or add up with `+=`, and begin at 0 in on_validation_epoch_start."
        )
    if what == TOGETHER:
        return (
            "Is one metric updated in training_step and in validation_step? Lightning validates before the epoch of "
            "training ends: what training put in is still there. Make two of them, self.train_acc and self.val_acc."
        )
    accuracy = (
        "The answer to a picture is the class with the largest logit, logits.argmax(dim=1); the accuracy is the mean of "
        "`answers == labels`."
    )
    return (
        f"{accuracy} The share of wrong answers is an error: log it as val_error."
        if what == ERROR
        else accuracy
    )


def _logged(rank: RankOutcome, stage: str = "valid") -> set[str]:
    """The names that were logged in a part of the training, the validation unless told otherwise."""
    entries = rank.values.get("logged")
    return {
        entry[1]
        for entry in elements(entries)
        if isinstance(entry, list)
        and len(entry) == 4
        and isinstance(entry[1], str)
        and _is_of(entry[0], stage)
    }


def _is_of(found: Json, stage: str) -> bool:
    return isinstance(found, str) and stage in found.lower()


def _numbers(rank: RankOutcome, names: set[str]) -> dict[str, float]:
    """The values at the end of the epoch of what was logged under some names."""
    metrics = rank.values.get("metrics")
    listed = metrics if isinstance(metrics, dict) else {}
    values = {
        name: number(value) for name, value in listed.items() if {name, name.removesuffix("_epoch")} & names
    }
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
    a batch and of all; `flat` has one answer for a batch; `last` is the accuracy of the last batches, and `together` that
    of training and validation. `parts_differ`: neither one process nor the last batch has the loss or the accuracy of the
    whole. `are_probabilities`: the tensor is what a softmax makes.
    """

    loss: float
    shares: tuple[float, ...]
    accuracies: tuple[float, ...]
    errors: tuple[float, ...]
    least: tuple[float, ...]
    counts: tuple[float, ...]
    flat: tuple[float, ...]
    last: tuple[float, ...]
    together: tuple[float, ...]
    parts_differ: bool
    are_probabilities: bool


def _statistics(
    outcome: Outcome, data: Data, split: int, batch_size: int, batches: int, label_smoothing: float = 0.0
) -> list[_Statistics]:
    """Loss, with so much label smoothing, and accuracy over all validation items, by each tensor that could be the logits."""
    ranks = len(outcome.ranks)
    found: list[_Statistics] = []
    trained = _trained_on(outcome, data, split, batch_size)
    for index in range(expected.MAX_SEEN):
        losses, rights, answers, wanted, outputs = [], [], [], [], []
        for rank, seen in enumerate(outcome.ranks):
            own = data.labels[split:][rank::ranks]
            for batch in range(batches):
                labels = own[batch * batch_size : (batch + 1) * batch_size]
                logits = expected.seen_in(seen, f"val{batch}", batch_size).get(index)
                if logits is not None:
                    losses.append(row_losses(logits, labels, label_smoothing))
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
            last = _in_percent([expected.mean_over(rights[parts[1]])])
            together = _in_percent(_together(trained, answers, wanted))
            of_softmax = all(expected.is_probabilities(each) for each in outputs)
            found.append(
                _Statistics(
                    loss,
                    shares,
                    accuracies,
                    errors,
                    least,
                    counts,
                    flat,
                    last,
                    together,
                    not same,
                    of_softmax,
                )
            )
    return found


def _trained_on(outcome: Outcome, data: Data, split: int, batch_size: int) -> list[tuple[Array, Array]]:
    """The answers and the labels of the one batch that each process trained on, by each tensor that could be the logits.

    Nothing where they are not known, as of pictures that were changed: Lightning shares them out in an order of its own.
    """
    labels = dict(zip(map(expected.hash_of, data.images[:split]), data.labels[:split], strict=True))
    trained = [
        code for rank in outcome.ranks for _, code in expected.hashes(rank.values.get("hashes"), "train")
    ]
    if sorted(trained) != sorted(labels):
        return []
    wanted = np.array([labels[code] for code in trained])
    seen = [expected.seen_in(rank, "train0", batch_size) for rank in outcome.ranks]
    return [
        (np.concatenate([each[index].argmax(axis=1) for each in seen]), wanted)
        for index in seen[0]
        if all(index in each for each in seen)
    ]


def _together(
    trained: Sequence[tuple[Array, Array]], answers: Sequence[Array], wanted: Sequence[Array]
) -> list[float]:
    """The accuracy of the pictures of training and of validation, of all and by class."""
    found = []
    for given, labels in trained:
        both = [given, *answers], [labels, *wanted]
        found.append(float((np.concatenate(both[0]) == np.concatenate(both[1])).mean()))
        found.append(expected.mean_of_classes(*both))
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
