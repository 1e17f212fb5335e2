"""Holds the curves in a student's logs against what every training batch of the same run came to."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from graders.amp.batches import Batch
from lockstep.compare import integer, number
from lockstep.eventfile import read_scalars
from lockstep.text import safe
from lockstep.verdict import Feedback
from lockstep.wandbfile import read_history
from lockstep.wire import Json

METRICS = ("loss", "acc1", "acc5", "lr")
# TensorBoard keeps float32.
FLOAT32 = 1e-6
_VALIDATION_BESIDE = (
    "Is validation logged under the same name? Give its values one of their own, valid/loss beside train/loss: at a "
    "step that has been, W&B puts them in the place of the batch's."
)
# At the beginning of a word: neither "latest_loss" nor "loss_value".
_NOT_TRAINING = re.compile(r"(?<![a-z])(val(?!ue)|test|eval|dev(?!ice))")


@dataclass(frozen=True)
class Series:
    """One curve of a log, in the order of the file."""

    tag: str
    steps: tuple[int, ...]
    values: tuple[float, ...]


def tensorboard(files: Mapping[str, bytes]) -> tuple[list[Series], list[str]]:
    """The curves of all event files, and what is wrong with the files.

    Folders are called after dates, machines and settings, which say nothing about a curve. Only `add_scalars` puts a
    part of its name there: `add_scalars("loss", {"train": ...})` writes `loss` into the folder `loss_train`.
    """
    found, problems = [], []
    for path, data in files.items():
        file = read_scalars(data)
        problems += [f"{safe(path, 80)}: {problem}" for problem in file.problems]
        folder = path.rpartition("/")[0].rpartition("/")[2]
        for tag, points in file.series.items():
            group = f"{tag.replace('/', '_')}_"
            name = f"{tag}/{folder.removeprefix(group)}" if folder.startswith(group) else tag
            found.append(Series(name, tuple(p.step for p in points), tuple(p.value for p in points)))
    return found, problems


def wandb(files: Mapping[str, bytes]) -> tuple[list[Series], list[str]]:
    """The curves of all offline runs, and what is wrong with the files."""
    found, problems = [], []
    for path, data in files.items():
        file = read_history(data)
        problems += [f"{safe(path, 80)}: {problem}" for problem in file.problems]
        points: dict[str, list[tuple[int, float]]] = {}
        for row in file.rows:
            step = integer(row.get("_step"))
            for key, value in _flat(row):
                plain = number(value)
                if plain is not None and step is not None and not key.startswith("_"):
                    points.setdefault(key, []).append((step, plain))
        found += [
            Series(key, tuple(step for step, _ in own), tuple(value for _, value in own))
            for key, own in points.items()
        ]
    return found, problems


def _flat(row: Mapping[str, Json], before: str = "") -> list[tuple[str, Json]]:
    pairs: list[tuple[str, Json]] = []
    for key, value in row.items():
        name = f"{before}{key}"
        pairs += _flat(value, f"{name}/") if isinstance(value, dict) else [(name, value)]
    return pairs


def metric(tag: str) -> str | None:
    """Which of the four a curve of this name shows in training; None for any other curve."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", tag).lower()
    shows = _metric(name)
    # A learning rate is that of the training, whatever it stands beside.
    return shows if shows == "lr" or not _NOT_TRAINING.search(name) else None


def _metric(name: str) -> str | None:
    if "loss" in name:
        return "loss"
    if re.search(r"(^|[^a-z])lr([^a-z]|$)|learning|lrate", name):
        return "lr"
    if re.search(r"acc|top|prec", name):
        return "acc5" if re.search(r"(?<!\d)5(?!\d)", name) else "acc1"
    return None


def problem(
    name: str, series: Sequence[Series], batches: Sequence[Batch], epochs: int, *, any_values: bool = False
) -> Feedback | None:
    """What is wrong with the curve of one metric, where there may be several of such a name.

    Of `any_values` no more is asked than that there is one for each batch.
    """
    own = [one for one in series if metric(one.tag) == name]
    others = [one for one in series if one not in own and _metric(one.tag.lower()) == name]
    misnamed = next((one for one in others if _compared(name, one, batches, epochs) is None), None)
    if not own and misnamed is None:
        return Feedback(
            f"there is no curve named {name}",
            f"Log {name} under a name that has `{name}` in it, every step, as a number: text makes no curve.",
        )
    found = [_compared(name, one, batches, epochs, any_values) for one in own]
    if any(one is None for one in found):
        return None
    if misnamed is not None:
        return Feedback(
            f"{safe(misnamed.tag, 60)}, by its name a curve of validation, shows the {name} of the training batches",
            "Are the names of training and validation mixed up?",
        )
    # Of several curves, an epoch's mean perhaps, the longest is the one that was meant.
    longest = max(range(len(own)), key=lambda number: len(own[number].values))
    return found[longest]


def is_thinned(name: str, series: Sequence[Series], batches: Sequence[Batch]) -> bool:
    """Whether a right curve shows only some of the batches."""
    return max(len(one.values) for one in series if metric(one.tag) == name) < len(batches)


def _compared(
    name: str, series: Series, batches: Sequence[Batch], epochs: int, any_values: bool = False
) -> Feedback | None:
    if _are_steps(series):
        return _mixed_up(series)
    agrees = _agreement(name, batches, series, any_values)
    n, per_epoch = len(batches), _per_epoch(batches, epochs)
    count = len(series.values)
    call = f"{safe(series.tag, 60)} has {count} values for {n} training batches"
    steps = series.steps
    if len(steps) > 1 and len(set(steps)) == 1:
        return Feedback(
            f"all {count} values of {safe(series.tag, 60)} are at step {steps[0]}",
            "Hand the step on: writer.add_scalar(tag, value, global_step), with global_step += 1 after every batch.",
        )
    last = [min(n, (epoch + 1) * per_epoch) - 1 for epoch in range(epochs)]
    more = {place + 1 + epoch for epoch, place in enumerate(last)}
    rest = [point for point in range(count) if point not in more]
    if count == n + len(more) and all(agrees(point, place) for place, point in enumerate(rest)):
        return Feedback(f"{call}: one more after each epoch", _VALIDATION_BESIDE)
    if any(later <= earlier for earlier, later in pairwise(steps)):
        return Feedback(
            f"the steps of {safe(series.tag, 60)} do not rise: step {_first_return(steps)} comes twice or too late",
            "Count a global step through all epochs, global_step += 1 after every batch; the batch number begins anew "
            "with each epoch.",
        )
    places = list(range(n))
    if count == n:
        wrong = next((i for i in places if not agrees(i, i)), None)
        return None if wrong is None else _differing(name, series, batches, epochs, wrong)
    if count > n:
        return Feedback(
            call,
            "One value for each training batch: is something logged twice, or evaluation with it? With "
            "sync_tensorboard, W&B's own folder, `dir`, must not lie in the log folder that it watches.",
        )
    for stride in range(2, per_epoch // 2 + 1):
        for chosen in _thinned(n, per_epoch, stride):
            if len(chosen) == count and all(agrees(point, place) for point, place in enumerate(chosen)):
                return None
    if name == "lr" and count == epochs and _is_constant_in_epochs(batches, per_epoch):
        return None
    if count == epochs and all(agrees(point, place) for point, place in enumerate(last)):
        return Feedback(
            f"{call}: only the last batch of each epoch is logged",
            "Log within the loop over the batches, each batch at a step of its own: of several rows at one step, W&B "
            "keeps the last.",
        )
    for left_out in (set(last), {n - 1}):
        chosen = [place for place in places if place not in left_out]
        if len(chosen) == count and all(agrees(point, place) for point, place in enumerate(chosen)):
            return Feedback(
                f"{call}: the last batch of {'each epoch' if len(left_out) > 1 else 'the run'} is never logged",
                "Log a batch right after its train_step, in the same turn of the loop.",
            )
    return Feedback(
        call,
        "Log every batch, right after its train_step, and close the log at the end: its buffer is lost otherwise. W&B "
        "warns of a step that it has closed already, and ignores what comes with it: give every log a higher one.",
    )


def _are_steps(series: Series) -> bool:
    """Whether the values themselves count the batches."""
    return len(series.values) > 2 and all(later - earlier == 1 for earlier, later in pairwise(series.values))


def _mixed_up(series: Series) -> Feedback:
    first = ", ".join(f"{value:g}" for value in series.values[:3])
    return Feedback(
        f"the values of {safe(series.tag, 60)} are {first} and so on, which count the batches",
        "Are value and step mixed up? writer.add_scalar(tag, value, global_step): first the value, then its step.",
    )


def _per_epoch(batches: Sequence[Batch], epochs: int) -> int:
    return max(1, round(len(batches) / epochs))


def _is_constant_in_epochs(batches: Sequence[Batch], per_epoch: int) -> bool:
    """Whether the learning rate changes between epochs only, so that one value an epoch says it all."""
    return all(batch.lr == batches[i - i % per_epoch].lr for i, batch in enumerate(batches))


def _thinned(n: int, per_epoch: int, stride: int) -> list[list[int]]:
    """Which batches `if i % stride == 0` logs, with i counted in the epoch or through, from 0 or from 1."""
    counted: list[Callable[[int], int]] = [
        lambda i: i % per_epoch,
        lambda i: i % per_epoch + 1,
        lambda i: i,
        lambda i: i + 1,
    ]
    return [[i for i in range(n) if count(i) % stride == 0] for count in counted]


def _agreement(
    name: str, batches: Sequence[Batch], series: Series, any_values: bool = False
) -> Callable[[int, int], bool]:
    """Whether a point of the curve is the value of a batch; accuracies as fractions or in percent, all alike."""
    if name == "lr" or any_values:
        # Which rate is right is a check of its own.
        return lambda point, place: math.isfinite(series.values[point])
    if name == "loss":
        return lambda point, place: any(
            _lies_in(series.values[point], loss, loss) for loss in batches[place].losses
        )
    unit = 100.0 if max(series.values, default=0.0) > 1 else 1.0

    def accuracy(point: int, place: int) -> bool:
        low, high = batches[place].acc1 if name == "acc1" else batches[place].acc5
        return _lies_in(series.values[point], unit * low, unit * high)

    return accuracy


def _lies_in(value: float, low: float, high: float) -> bool:
    """Whether a logged value is between these, as exactly as float32 can tell."""
    room = FLOAT32 * max(abs(low), abs(high)) + 1e-12
    return bool(low - room <= value <= high + room)


def _differing(name: str, series: Series, batches: Sequence[Batch], epochs: int, wrong: int) -> Feedback:
    n, per_epoch = len(batches), _per_epoch(batches, epochs)
    tag = safe(series.tag, 60)
    agrees = _agreement(name, batches, series)
    if all(agrees(point, point - 1) for point in range(1, n)):
        return Feedback(
            f"{tag} is a batch late: each value is that of the batch before",
            "Log what train_step has just returned, before the next batch is trained on.",
        )
    last = {min(n, (epoch + 1) * per_epoch) - 1 for epoch in range(epochs)}
    if epochs > 1 and last == {point for point in range(n) if not agrees(point, point)}:
        return Feedback(
            f"{tag} has another value than the batch had at the last batch of each epoch alone, "
            f"{series.values[wrong]:.6g} in the place of {_shown(name, batches[wrong])}",
            _VALIDATION_BESIDE,
        )
    if name == "loss" and all(
        math.isclose(series.values[i], mean, rel_tol=1e-4, abs_tol=1e-6)
        for i, mean in enumerate(_running_means([batch.losses[0] for batch in batches], per_epoch))
    ):
        return Feedback(
            f"{tag} shows the mean over the epoch so far instead of each batch's loss",
            "Log the values that train_step returns; TensorBoard and W&B smooth curves by themselves.",
        )
    if _is_a_sum(name, series, batches, per_epoch):
        return Feedback(
            f"{tag} adds up all batches of the epoch so far instead of showing each batch's {name}",
            "Log the values that train_step returns; what is added up for a mean of the epoch goes under another name.",
        )
    return Feedback(
        f"{tag}, value {wrong + 1} of {n}, is {series.values[wrong]:.6g}; the batch had {_shown(name, batches[wrong])}",
        "Log the values that train_step returns, as they are, each at its own step.",
    )


def _running_means(values: Sequence[float], per_epoch: int) -> list[float]:
    return [float(np.mean(values[i - i % per_epoch : i + 1])) for i in range(len(values))]


def _is_a_sum(name: str, series: Series, batches: Sequence[Batch], per_epoch: int) -> bool:
    """Whether each loss is the sum of those of the epoch so far."""
    means = _running_means([batch.losses[0] for batch in batches], per_epoch)
    return name == "loss" and all(
        math.isclose(value, mean * (i % per_epoch + 1), rel_tol=1e-4, abs_tol=1e-6)
        for i, (value, mean) in enumerate(zip(series.values, means, strict=True))
    )


def _shown(name: str, batch: Batch) -> str:
    if name == "loss":
        return f"{batch.losses[0]:.6g}"
    return f"{(batch.acc1 if name == 'acc1' else batch.acc5)[0]:.2%}"


def _first_return(steps: Sequence[int]) -> int:
    return next(later for earlier, later in pairwise(steps) if later <= earlier)


def rates(series: Sequence[Series], batches: Sequence[Batch]) -> Feedback | None:
    """Whether the logged learning rates are those that the optimizer stepped with."""
    own = [one for one in series if metric(one.tag) == "lr"]
    used = [batch.lr for batch in batches]
    if not own:
        return Feedback(
            "there is no curve of the learning rate", "Log optimizer.param_groups[0]['lr'] with every step."
        )
    found: list[Feedback] = []
    for one in own:
        if len(one.values) == len(used):
            chosen = list(range(len(used)))
        else:
            # A thinner curve must show the rates of a regular choice of steps.
            ways = [w for stride in range(1, len(used) + 1) for w in _thinned(len(used), len(used), stride)]
            chosen = next((w for w in ways if len(w) == len(one.values) and _same(one, used, w)), [])
        if chosen and _same(one, used, chosen):
            return None
        found.append(_rate_problem(one, used))
    return found[0]


def _same(series: Series, used: Sequence[float | None], chosen: Sequence[int]) -> bool:
    return all(_is_rate(value, used[place]) for value, place in zip(series.values, chosen, strict=True))


def _is_rate(value: float, used: float | None) -> bool:
    return used is not None and _lies_in(value, used, used)


def _rate_problem(series: Series, used: Sequence[float | None]) -> Feedback:
    if _are_steps(series):
        return _mixed_up(series)
    tag, n = safe(series.tag, 60), len(used)
    values = series.values
    if len(values) == n and all(_is_rate(values[i], used[i + 1]) for i in range(n - 1)):
        return Feedback(
            f"{tag} is a step ahead: each value is the rate of the next step",
            "Read optimizer.param_groups[0]['lr'] before scheduler.step(), which sets the rate of the next step.",
        )
    if len(set(values)) == 1:
        return Feedback(
            f"{tag} stays at {values[0]:.6g} in all steps, while the scheduler changed the rate",
            "Log optimizer.param_groups[0]['lr'], not the rate that training began with.",
        )
    wrong = next((i for i in range(min(len(values), n)) if not _is_rate(values[i], used[i])), 0)
    rate = used[wrong] if len(values) == n else None
    first = "" if rate is None else f": value {wrong + 1} is {values[wrong]:.6g}, where that was {rate:.6g}"
    return Feedback(
        f"{tag} has other values than the rates that the optimizer stepped with{first}",
        "Log optimizer.param_groups[0]['lr'] of every step, as it is, between train_step and scheduler.step().",
    )
