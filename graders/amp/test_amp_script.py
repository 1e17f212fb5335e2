"""The judge of exercise 6, its whole script or notebook: accumulated gradients, validation, all of it in one run."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from fixtures import cinic10
from fixtures.pictures import CLASSES
from fixtures.tree import Tree
from graders.amp.batches import are_of_logits
from graders.amp.record import named, numbers, run_events
from graders.amp.script_runs import run_script, trained
from graders.amp.steps import NO_STEP
from lockstep.check import Check
from lockstep.compare import integer, number, shown
from lockstep.helptexts import answers_help
from lockstep.reports import format as perf_report
from lockstep.reports.document import Number
from lockstep.sandbox.outcome import RankOutcome
from lockstep.text import safe_line
from lockstep.wire import Array, Json

# A `break` that was left in after debugging comes after ten batches, twenty, fifty. Neither of the two numbers divides
# what batch sizes are by default.
IMAGES, BATCH_SIZE, EPOCHS = 367, 7, 2
# So much of what the steps took, by the processor's clock, is in every reading, be it of the forward alone. What is
# divided by the batches, or times the validation, has a twentieth of it.
LEAST_SHARE = 0.2
_OTHER_RESNET = re.compile(r"resnet[\s_-]?(34|50|101|152)", re.IGNORECASE)


def test_accumulation(check: Check) -> None:
    """Where gradients are accumulated, each batch counts once and by its share, and the scale holds until the step."""
    outcome = run_script(check, "train", train=28, values={"accumulation": 2})
    call = "amp_train.py" + (
        " with an accumulation of 2" if outcome.ranks[0].values.get("accumulates") is True else ""
    )
    seen, _ = trained(check, outcome, call)
    groups = _groups(run_events(seen))
    sizes = [len(named(group, "backward")) for group in groups]
    most = max(sizes, default=0)
    if most <= 1:
        check.expect(
            seen.values.get("accumulates") is not True,
            f"{call}: the optimizer stepped after every single batch.",
            "Step only after that many batches, and call zero_grad only then.",
        )
        return  # as it should: nobody asked for it
    for group in groups:
        if len(named(group, "backward")) == most:
            _accumulated(check, call, group, most)


def _groups(events: Sequence[list[Json]]) -> list[list[list[Json]]]:
    """The events up to each step of the optimizer."""
    groups: list[list[list[Json]]] = [[]]
    for event in events:
        groups[-1].append(event)
        if event[0] == "optimizer":
            groups.append([])
    return groups[:-1]


def _accumulated(check: Check, call: str, group: list[list[Json]], size: int) -> None:
    backward = named(group, "backward")
    scales = named(group, "scale")
    check.expect(
        len(scales) in (0, size),
        f"{call}: {size} batches were accumulated for one step, and scaler.scale was called {len(scales)} times for them.",
        "Each batch's loss is scaled once: scaler.scale(loss / n).backward().",
    )
    check.expect(
        not any(backward[0] < place < backward[-1] for place in named(group, "zero_grad")),
        f"{call}: the gradients were set to zero between the batches of one step, so that only the last of {size} counts.",
        "Call optimizer.zero_grad() only after scaler.step(optimizer).",
    )
    check.expect(
        not any(
            backward[0] < place < backward[-1]
            for name in ("unscale_", "update")
            for place in named(group, name)
        ),
        f"{call}: between the batches of one step the scale was changed or taken out of the gradients.",
        "unscale_, step and update come once, after the last batch: what is added up must all have the same scale.",
    )
    losses = [numbers(group[place]) for place in named(group, "loss")]
    given = [numbers(group[place]) for place in scales or backward]
    shares = [
        [value[-1] / loss for loss in own if loss] if value else []
        for value, own in zip(given, losses, strict=False)
    ]
    check.expect(
        len(shares) == size
        and all(any(math.isclose(part, 1 / size, rel_tol=0.01) for part in parts) for parts in shares),
        f"{call}: {size} batches were accumulated for one step, and each loss was multiplied by "
        f"{', '.join(f'{parts[0]:.3g}' for parts in shares[:4] if parts) or 'nothing'} before backward, expected "
        f"{1 / size:.3g}.",
        "Gradients add up: divide each loss by the number of batches, or the step is that many times too large.",
    )


def test_eval_no_grad(check: Check) -> None:
    """Validation runs in evaluation mode and without gradients, and training in training mode again."""
    outcome = run_script(check, "train", epochs=2)
    call = "amp_train.py"
    seen, _ = trained(check, outcome, call)
    made = _calls(run_events(seen))
    forwards = [event for event, derived in made if not derived]
    if len(forwards) < 2:
        check.note(
            "No validation was seen. It is not asked for, but it is how you know what the model has learnt."
        )
        return
    check.expect(
        sum(event[2:3] == [True] for event in forwards) < 2,
        f"{call}: the model was called for {len(forwards)} batches that no backward followed, "
        f"{sum(event[2:3] == [True] for event in forwards)} of them with gradients switched on.",
        "Validate within `with torch.no_grad():` or under @torch.no_grad(): without it every activation is kept in vain, "
        "and a smaller batch fits.",
    )
    check.expect(
        sum(event[3:4] == [True] for event in forwards) < 2,
        f"{call}: the model was in training mode while it was validated: batch norm then goes by the batch and learns from "
        "the validation images.",
        "model.eval() before validation, model.train() before the next epoch.",
    )
    first = next(place for place, (_, derived) in enumerate(made) if not derived)
    after = [event for event, derived in made[first:] if derived]
    resumed = [event for (_, before), (event, derived) in pairwise(made) if derived and not before]
    check.expect(
        not after or any(event[3:4] == [True] for event in after),
        f"{call}: after the first validation the model was trained on in evaluation mode: dropout is off then, and batch "
        "norm learns nothing more.",
        "model.train() at the beginning of every epoch, not once before the first: evaluate() has called model.eval().",
        points=check.points / 2,
    )
    wrong = sum(event[3:4] == [False] for event in resumed)
    check.expect(
        wrong < 2,
        f"{call} validates within an epoch, and {wrong} of {len(resumed)} times the model was trained on in evaluation mode "
        "afterwards: dropout is off then, and batch norm learns nothing more, until the epoch ends.",
        "model.train() right after every validation, or before every batch: evaluate() has called model.eval().",
        points=check.points / 2,
    )


def _calls(events: Sequence[list[Json]]) -> list[tuple[list[Json], bool]]:
    """The calls of a model, and whether a backward followed before the next one."""
    found: list[tuple[list[Json], bool]] = []
    for event in events:
        if event[0] == "forward":
            found.append((event, False))
        elif event[0] == "backward" and found:
            found[-1] = (found[-1][0], True)
    return found


def test_notebook(check: Check) -> None:
    """The whole file runs from top to bottom, and its report fits an outside clock."""
    tree = _lopsided(check, IMAGES)
    outcome = run_script(
        check, "train", tree=tree, epochs=EPOCHS, batch_size=BATCH_SIZE, report="amp-report.json"
    )
    seen = outcome.ranks[0]
    is_notebook = seen.values.get("notebook") is True
    call = "amp_train.ipynb, run from top to bottom," if is_notebook else "amp_train.py --report FILE"
    seen, batches = trained(check, outcome, call)
    _weights_moved(check, seen, call)
    check.expect(
        not are_of_logits(seen),
        f"{call} trained on losses that are minus the logit of each label. That is no cross entropy: it falls without end.",
        "criterion = nn.CrossEntropyLoss(). nn.NLLLoss wants logarithms of probabilities: log_softmax stands before it.",
        points=check.points / 2,
    )
    steps = len(batches)
    most = EPOCHS * math.ceil(IMAGES / BATCH_SIZE)
    check.expect(
        steps in (most, most - EPOCHS),
        f"{call} trained on {steps} batches; two epochs over {IMAGES} images in batches of {BATCH_SIZE} are {most}.",
        "Let the constants or options decide: epochs, batch size, data. "
        + (
            "Was a `break` left in?"
            if steps < most
            else "Of DIR, only the images of train are trained on, whose folders are the classes."
        ),
    )
    labels = seen.arrays.get("labels")
    share = 0.0 if labels is None else float(np.bincount(labels.astype(np.int64)).max() / len(labels))
    check.expect(
        0.25 < share < 0.85,
        f"{call} was given a folder in which more than half of the images are of one class, and trained on labels of which "
        f"the most frequent is {share:.0%}.",
        "Train on the images in --training-data DIR (DIR/train/CLASS/*.png), not on others or on random ones.",
    )
    known = 0 if labels is None else len(np.unique(labels))
    check.expect(
        known == len(CLASSES),
        f"{call} was given images of {len(CLASSES)} classes and trained on {known} of them.",
        "Take every batch of the loader: `for images, labels in loader`. next(iter(loader)) starts anew each time, and one "
        "batch again and again is a try-out.",
        points=check.points / 2,
    )
    _is_shuffled(check, call, labels)
    if seen.values.get("tagged") is False:
        check.note(
            "No cell has the tag `parameters`, and none needs it: the one that holds the constants was set."
        )
    report = seen.values.get("report")
    if is_notebook and not isinstance(report, str):
        return
    check.expect(
        isinstance(report, str),
        f"{call} wrote no report.",
        "Write it with write_report of perf_report.py, of kind amp.",
    )
    found = perf_report.problems(report if isinstance(report, str) else "")
    check.expect(
        not found,
        f"{call}: the report is not a perf-report/1. {' '.join(found[:2])}",
        "Use write_report of perf_report.py.",
    )
    walls = _walls(report)
    total = sum(wall.value for wall in walls)
    check.expect(
        total > 0 and fit_into(walls, outcome.elapsed),
        f"{call}: its timings add up to {total:.3g} s, an outside clock saw {outcome.elapsed:.3g} s for everything.",
        "Take the time with time.perf_counter() around each epoch, in this very run.",
    )
    _is_long_enough(check, call, seen, steps, report)
    _tells_of_this_run(check, call, report)
    # A notebook need not have a constant for the network.
    other = None if is_notebook else other_network(report)
    check.expect(
        other is None,
        f"{call} was told --arch resnet18, and its report says that the model was {safe_line(other or '', 60)}.",
        'Write down what was used: "model": args.arch.',
        points=check.points / 2,
    )
    answers_help(check, seen, "amp_train.py")


def _is_shuffled(check: Check, call: str, labels: Array | None) -> None:
    """The images do not come class by class, as they lie in their folders."""
    changes = 0 if labels is None else int(np.count_nonzero(np.diff(labels.astype(np.int64))))
    # Shuffled, every second image or so is followed by one of another class.
    check.expect(
        changes >= 2 * EPOCHS * len(CLASSES),
        f"{call} trained on one class after the other, as the images lie in their folders: in {EPOCHS} epochs the label "
        f"changed {changes} times from one image to the next. A network learns each class then, and forgets the last.",
        'shuffle=True for the training data: make_loader(args.training_data, "train", batch_size, shuffle=True).',
        points=check.points / 2,
    )


def _is_long_enough(check: Check, call: str, seen: RankOutcome, made: int, report: Json) -> None:
    """The timings of a report are of the steps that it tells of, whatever clock they are read from."""
    walls = _walls(report)
    least = least_seconds(_runs(report), made, number(seen.values.get("step_s")) or 0.0)
    check.expect(
        sum(wall.value + wall.ulp for wall in walls) >= LEAST_SHARE * least,
        f"{call}: its timings add up to {sum(wall.value for wall in walls):.2g} s. The steps that its report tells of took "
        f"the processor {least:.2g} s, without the loading of the images.",
        "Read the clock before the loop over the batches and once more behind it: wall_s is the whole difference.",
        points=check.points / 2,
    )


def _tells_of_this_run(check: Check, call: str, report: Json) -> None:
    """Batch size, steps and samples of a report are about those of the run.

    Accumulated batches may count as one of that size, and what is searched or validated as steps and samples.
    """
    sizes = [run["config"].get("batch_size") for run in _runs(report)]
    check.expect(
        any(integer(size) is not None and size % BATCH_SIZE == 0 for size in sizes),
        f"{call} trained with a batch size of {BATCH_SIZE}, and its report says {shown(sizes[0])}.",
        'Write down what was used: "batch_size": args.batch_size.',
        points=check.points / 2,
    )
    for name, most, means in (
        ("steps", EPOCHS * math.ceil(IMAGES / BATCH_SIZE), "len(train_loader)"),
        ("samples", EPOCHS * IMAGES, "len(train_loader.dataset)"),
    ):
        least = min(run[name] for run in _runs(report))
        check.expect(
            least <= 2 * most,
            f"{call} made {most} {name} in all its epochs, and every run of its report has {least} or more.",
            f'Write down what was done: "{name}": {means}, for each epoch.',
            points=check.points / 2,
        )

    found = fewer_samples_than_steps(_runs(report))
    check.expect(
        found is None,
        f"{call} trained on {IMAGES} images in batches of {BATCH_SIZE}, and its report has no more samples than steps in any "
        f"run, {found[0] if found else 0} and {found[1] if found else 0} in the first.",
        'Samples are images: "samples": len(train_loader.dataset). len(train_loader) is the number of batches.',
        points=check.points / 2,
    )


def fewer_samples_than_steps(runs: Sequence[Mapping[str, Any]]) -> tuple[int, int] | None:
    """Samples and steps of the first run, where every run has fewer images than steps, or as many.

    What counts as a step, a batch or what is accumulated of several, holds more than one image either way.
    """
    counts = [(int(run["samples"]), int(run["steps"])) for run in runs]
    is_so = bool(counts) and all(samples <= steps for samples, steps in counts)
    return counts[0] if is_so else None


def other_network(report: Json) -> str | None:
    """The model of a report, where that is a ResNet of torchvision's with another depth than 18, and no other name."""
    value: Any = json.loads(report) if isinstance(report, str) else {}
    model = value.get("workload", {}).get("model")
    is_other = isinstance(model, str) and _OTHER_RESNET.fullmatch(model.strip()) is not None
    return model if is_other else None


def _weights_moved(check: Check, seen: RankOutcome, call: str) -> None:
    """One check's business: curves can be logged rightly of a training that does not train."""
    check.expect(
        seen.values.get("moved") is True or bool(named(run_events(seen), "optimizer")),
        f"{call} called its model for every batch, and no step of an optimizer followed.",
        NO_STEP,
    )
    check.expect(
        seen.values.get("moved") is True,
        f"{call} called its model and made its steps, but no weight of that model changed.",
        "The optimizer needs the parameters of the very model that is trained: "
        "torch.optim.SGD(model.parameters(), ...), made after build_model. Is there a step for every batch?",
    )


def _lopsided(check: Check, train: int) -> Tree:
    """A CINIC-10 whose training images are for the most part of one class, which tells it from any other data."""
    tree = cinic10.make_folders(check.rng, train=train // 2, valid=10, test=10)
    copied = str(check.rng.choice([name for name in tree if name.startswith("train/")]))
    more = {
        f"{copied.removesuffix('.png')}-{number}.png": tree[copied] for number in range(train - train // 2)
    }
    return {**tree, **more}


def _walls(report: Json) -> list[Number]:
    """The seconds of all runs of a report of kind amp; none where it is of another kind."""
    return [Number(run["wall_s"]) for run in _runs(report)]


def fit_into(walls: Sequence[Number], elapsed: float) -> bool:
    """Whether so many seconds can have been in `elapsed`; each may have been rounded up."""
    return sum(wall.value - wall.ulp for wall in walls) <= elapsed


def least_seconds(runs: Sequence[Mapping[str, Any]], made: int, step_s: float) -> float:
    """The processor's seconds for the steps that a report tells of, as far as they were made, by what one step took."""
    return min(made, sum(int(run["steps"]) for run in runs)) * step_s


def _runs(report: Json) -> list[Any]:
    """The runs of a report of kind amp; none where it is of another kind."""
    value: Any = json.loads(report) if isinstance(report, str) else {}
    return list(value["runs"]) if value.get("report") == "amp" else []
