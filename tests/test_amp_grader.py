"""The grader of exercise 6: forged answers, tolerances in low precision, and odd ones out."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from fixtures import build
from graders.amp import complaints, curves, expected, own_step, returned_values
from graders.amp.batches import Batch, accuracies, are_of_logits, losses_without_forward, training
from graders.amp.curves import Series
from graders.amp.expected import Scenario
from graders.amp.probe import build_net
from graders.amp.probe.constants import constants
from graders.amp.probe.entries import with_entries, with_parameters
from graders.amp.probe.training import Training
from graders.amp.test_amp_accuracy import evaluation_problem
from graders.amp.test_amp_script import fewer_samples_than_steps, fit_into
from graders.amp.test_amp_search import answers_printed, problem_at_the_ends, smaller_answer, was_a_step
from lockstep.reports.document import Number
from lockstep.sandbox.box import Box
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.verdict import Crashed, Verdict
from lockstep.wire import Array, Json
from tests.amp_scripts import result
from tests.forging import forgery, taken_in
from tests.made_up import check_of
from tests.samples import graded

EXERCISE = "amp"
REFERENCE = build.ROOT / "reference"


ODD = "[['loss'], ['backward', 1, 2], ['optimizer', True, 'x'], ['call'], 7]"


@pytest.mark.slow
def test_forged_answers_earn_nothing_and_break_nothing(tmp_path: Path, box: Box) -> None:
    for name in ("amp_train.py", "perf_report.py"):
        shutil.copy(REFERENCE / name, tmp_path / name)
    source = tmp_path / "amp_train.py"
    forged = forgery(ODD, "torch.full((4, 108), torch.nan)")
    source.write_text(source.read_text().replace("import argparse\n", f"import argparse\n{forged}", 1))
    (exercise,) = graded(tmp_path, EXERCISE, box).exercises
    assert taken_in(exercise.checks) == []


def test_a_frozen_copy_that_asks_for_no_gradients_is_as_good_as_no_grad(tmp_path: Path, box: Box) -> None:
    for name in ("amp_train.py", "perf_report.py"):
        shutil.copy(REFERENCE / name, tmp_path / name)
    source = (REFERENCE / "amp_train.py").read_text()
    for old, new in (
        ("    model.eval()\n    sums", "    model = __import__('copy').deepcopy(model).eval().requires_grad_(False)\n    sums"),
        ("    with torch.no_grad():\n        for images, labels in loader:", "    with torch.enable_grad():\n        for images, labels in loader:"),
    ):  # fmt: skip
        assert source.count(old) == 1
        source = source.replace(old, new)
    (tmp_path / "amp_train.py").write_text(source)
    (exercise,) = graded(tmp_path, EXERCISE, box, checks=["eval_no_grad"]).exercises
    assert [
        c.message for c in exercise.checks if c.id == "eval_no_grad" and c.verdict is not Verdict.PASSED
    ] == []


LOOP = "        for batch in train_loader:\n"
AUGMENTED = """\
        from torchvision.transforms import v2

        augment = v2.Compose([v2.RandomHorizontalFlip(), v2.Normalize([0.1], [0.5])])
        for images, labels in train_loader:
            batch = augment(images.to(device)), labels
"""


@pytest.mark.parametrize("check", ["params_fp32", "eval_no_grad"])
def test_a_transform_of_a_whole_batch_is_no_model(check: str, tmp_path: Path, box: Box) -> None:
    found = result(tmp_path, box, check, LOOP, AUGMENTED)
    assert (found.verdict, found.message) == (Verdict.PASSED, "")


MADE = "    model = build_model(args.arch).to(device)\n    criterion"
LAZY = """\
    model = build_model(args.arch).to(device)
    model.fc = nn.LazyLinear(10)
    model(next(iter(train_loader))[0].to(device))  # shows the lazy layer what comes
    criterion"""


@pytest.mark.parametrize("check", ["params_fp32", "eval_no_grad", "notebook"])
def test_a_layer_may_be_lazy(check: str, tmp_path: Path, box: Box) -> None:
    found = result(tmp_path, box, check, MADE, LAZY)
    assert (found.verdict, found.message) == (Verdict.PASSED, "")


EVALUATED = "        metrics = evaluate(model, valid_loader, criterion, device, args.amp)\n"
AVERAGED = """\
        from torch.optim.swa_utils import AveragedModel{name}

        averaged = AveragedModel(model)
        averaged.update_parameters(model)
        {call}(train_loader, averaged, device)
        metrics = evaluate(averaged, valid_loader, criterion, device, args.amp)
"""


@pytest.mark.parametrize(
    ("name", "call"), [(", update_bn", "update_bn"), ("", "torch.optim.swa_utils.update_bn")]
)
def test_what_torch_does_for_an_averaged_batch_norm_is_no_validation(
    name: str, call: str, tmp_path: Path, box: Box
) -> None:
    found = result(tmp_path, box, "eval_no_grad", EVALUATED, AVERAGED.format(name=name, call=call))
    assert (found.verdict, found.message) == (Verdict.PASSED, "")


PICTURE_AND_TABLE = """    run.log({"sample": wandb.Image(valid_loader.dataset[0][0])}, step=global_step + 1)
    table = wandb.Table(columns=["name", "value"], data=[list(pair) for pair in metrics.items()])
    run.log({"final": table}, step=global_step + 2)
    writer.close()
"""


def test_pictures_and_tables_may_be_logged(tmp_path: Path, box: Box) -> None:
    """wandb writes them into a folder that it has made when it was imported."""
    shutil.copy(REFERENCE / "perf_report.py", tmp_path)
    source = (REFERENCE / "amp_train.py").read_text()
    assert source.count("    writer.close()\n") == 1
    (tmp_path / "amp_train.py").write_text(source.replace("    writer.close()\n", PICTURE_AND_TABLE))
    checks = ["tensorboard", "wandb"]
    (exercise,) = graded(tmp_path, EXERCISE, box, checks=checks).exercises
    assert [
        (c.id, c.message) for c in exercise.checks if c.id in checks and c.verdict is not Verdict.PASSED
    ] == []


# What the judge holds against the student's work


def test_seconds_may_have_been_rounded_up() -> None:
    walls = [Number("0.1"), Number("0.2"), Number("0.1")]
    assert fit_into(walls, 0.25)
    assert not fit_into(walls, 0.05)
    assert not fit_into([Number("0.1000000"), Number("0.2000000")], 0.25)


def test_low_precision_stays_within_the_tolerance_and_no_training_does_not() -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)
        shape = expected.make_shape(rng)
        weights = expected.make_weights(rng, shape)
        scenario = Scenario((16,) * 20, momentum=0.9)
        data = expected.make_data(rng, 320)
        right = expected.train(shape, weights, data, scenario)[-1].weights
        model = build_net(shape, weights)
        velocity: dict[str, torch.Tensor] = {}
        for batch in data.batches(scenario.sizes):
            model.zero_grad()
            with torch.autocast("cpu"):
                logits = model(torch.from_numpy(batch.images))
                loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(batch.labels))
            loss.backward()
            with torch.no_grad():
                for name, value in model.named_parameters():
                    assert value.grad is not None
                    velocity[name] = value.grad + (0.9 * velocity[name] if name in velocity else 0)
                    value -= scenario.lr * velocity[name]
        way = {name: right[name] - weights[name] for name in right}
        off = {name: value.detach().numpy() - right[name] for name, value in model.named_parameters()}
        assert expected.norm(off) < 0.02 * expected.norm(way)
        assert not expected.is_low_precision(expected.logits(shape, weights, data.images), 7)


@pytest.mark.parametrize(("bits", "dtype"), [(7, torch.bfloat16), (10, torch.float16)])
def test_low_precision_is_told_from_the_values(bits: int, dtype: torch.dtype) -> None:
    exact = torch.randn(50)
    assert expected.is_low_precision(exact.to(dtype).float().numpy(), bits)
    assert not expected.is_low_precision(exact.numpy(), bits)
    assert not expected.is_low_precision(np.full(3, np.nan, np.float32), bits)


def test_an_overflowing_step_is_left_out() -> None:
    rng = np.random.default_rng(0)
    shape = expected.make_shape(rng)
    weights = expected.make_weights(rng, shape)
    data = expected.make_data(rng, 12)
    with_it = expected.train(shape, weights, data, Scenario((4, 4, 4), momentum=0.9, overflow=1))
    assert all(np.array_equal(with_it[0].weights[name], with_it[1].weights[name]) for name in weights)
    assert not np.array_equal(with_it[1].weights["head.bias"], with_it[2].weights["head.bias"])


# The curves

BATCHES = [Batch((2.0 - i / 10,), (i / 20, i / 20), (i / 10, i / 10), 0.1 / (i + 1), 4) for i in range(8)]
LOSSES = [batch.losses[0] for batch in BATCHES]


def curve(values: Sequence[float], steps: Sequence[int] | None = None, tag: str = "loss/train") -> Series:
    return Series(tag, tuple(range(len(values)) if steps is None else steps), tuple(map(float, values)))


@pytest.mark.parametrize(
    ("series", "words"),
    [
        (curve(LOSSES), None),
        (curve([np.float32(value) for value in LOSSES], range(1, 9)), None),
        (curve(LOSSES[::2], range(0, 8, 2)), None),
        (curve([LOSSES[1], LOSSES[3], LOSSES[5], LOSSES[7]], (2, 4, 6, 8)), None),
        (curve(LOSSES, [0, 1, 2, 3, 0, 1, 2, 3]), "do not rise"),
        (curve(LOSSES, [0, 1, 2, 3, 3, 4, 5, 6]), "do not rise"),
        (curve([LOSSES[3], LOSSES[7]]), "only the last batch"),
        (curve(LOSSES[:3] + LOSSES[4:7]), "the last batch of each epoch is never logged"),
        (curve(LOSSES[:7]), "the last batch of the run is never logged"),
        (curve(LOSSES[:5]), "5 values for 8"),
        (curve(LOSSES + LOSSES), "16 values for 8"),
        (curve([LOSSES[0], *LOSSES[:7]]), "a batch late"),
        (curve([2.0, 1.95, 1.9, 1.85, 1.6, 1.55, 1.5, 1.45]), "mean over the epoch so far"),
        (curve([value + 1e-4 for value in LOSSES]), "value 1 of 8"),
        (curve([float("nan")] * 8), "value 1 of 8"),
        (curve(LOSSES, tag="loss/valid"), "shows the loss of the training batches"),
        (curve(LOSSES[:2], tag="loss/valid"), "no curve named loss"),
        (curve(LOSSES, [0] * 8), "all 8 values of loss/train are at step 0"),
        (curve(range(8), [2, 1, 1, 1, 1, 1, 1, 1]), "which count the batches"),
        (
            curve([*LOSSES[:4], 9, *LOSSES[4:], 8], [0, 1, 2, 3, 3, 4, 5, 6, 7, 7]),
            "one more after each epoch",
        ),
        (curve([*LOSSES[:4], 9, *LOSSES[4:], 8], range(10)), "one more after each epoch"),
        (curve([*LOSSES[:3], 9, *LOSSES[4:7], 8]), "at the last batch of each epoch alone"),
        (curve([2.0, 3.9, 5.7, 7.4, 1.6, 3.1, 4.5, 5.8]), "adds up all batches of the epoch"),
    ],
)
def test_a_curve_of_losses(series: Series, words: str | None) -> None:
    found = curves.problem("loss", [series], BATCHES, epochs=2)
    assert (found is None) if words is None else (found is not None and words in found.message)


def test_of_values_that_another_check_tells_of_there_has_to_be_one_for_each_batch() -> None:
    wrong, short = (curve([0.0] * count, tag="acc5") for count in (8, 5))
    assert curves.problem("acc5", [wrong], BATCHES, 2) is not None
    assert curves.problem("acc5", [wrong], BATCHES, 2, any_values=True) is None
    assert curves.problem("acc5", [short], BATCHES, 2, any_values=True) is not None


@pytest.mark.parametrize("unit", [1, 100])
def test_accuracies_may_be_fractions_or_percent(unit: float) -> None:
    assert (
        curves.problem("acc1", [curve([unit * b.acc1[0] for b in BATCHES], tag="acc1")], BATCHES, 2) is None
    )
    mixed = [unit * b.acc1[0] if i else 0.5 for i, b in enumerate(BATCHES)]
    assert curves.problem("acc1", [curve(mixed, tag="acc1")], BATCHES, 2) is not None


def test_equal_logits_leave_the_accuracy_open() -> None:
    logits, labels = np.array([[1.0, 1.0, 0, 0, 0, 0], [3, 1, 1, 1, 1, 1]]), np.array([1, 5])
    values: dict[str, Json] = {
        "losses": [1.0], "sizes": [2], "events": [["loss", 1.0], ["backward", False, 1.0], ["optimizer", True, 0.1]],
    }  # fmt: skip
    found = training(RankOutcome(True, values, {"logits": logits, "labels": labels}))
    assert found == [Batch((1.0,), (0.0, 0.5), (0.5, 1.0), 0.1, 2)]


def test_minus_the_logits_of_the_labels_are_no_cross_entropy() -> None:
    logits, labels = np.random.default_rng(5).normal(size=(6, 10)), np.array([0, 3, 9, 2, 2, 5])
    own = -logits[np.arange(6), labels]
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))

    def are_of_logits_with(losses: list[Json], logits: Array = logits) -> bool:
        return are_of_logits(
            RankOutcome(True, {"losses": losses, "sizes": [4, 2]}, {"logits": logits, "labels": labels})
        )

    assert are_of_logits_with([own[:4].mean(), own[4:].mean()])
    right = [-logs[np.arange(6), labels][rows].mean() for rows in (slice(4), slice(4, 6))]
    assert not are_of_logits_with(right)
    assert not are_of_logits_with(right, logs)
    assert not are_of_logits_with([own[:4].mean(), right[1]])


@pytest.mark.parametrize(
    ("guesses", "unit", "words"),
    [
        (lambda ranked: (ranked[:, :1], ranked[:, :5]), 100, None),
        (lambda ranked: (ranked[:, :1], ranked[:, :5]), 1, None),
        (lambda ranked: (ranked[:, :1], ranked[:, :4]), 100, "acc1 is right and acc5 too small"),
        (lambda ranked: (ranked[:, :1], ranked[:, :6]), 1, "acc1 is right and acc5 too large"),
        (lambda ranked: (ranked[:, :1], ranked[:, :1]), 100, "acc5 is what acc1 is"),
        (lambda ranked: (ranked[:, -1:], ranked[:, -5:]), 100, "the smallest logits"),
        (lambda ranked: (ranked[:, :5], ranked[:, :1]), 100, "mixed up"),
        (lambda ranked: (ranked[:, :1], ranked[:, :5]), 1e4, "a hundred times percent"),
        (lambda ranked: (ranked[:, 1:2], ranked[:, 1:6]), 100, "five classes a row"),
    ],
)
def test_which_guesses_count(
    guesses: Callable[[Array], tuple[Array, Array]], unit: float, words: str | None
) -> None:
    case = returned_values.clear_cut(check_of(EXERCISE, "accuracy_topk", lambda spec: Outcome(())))
    returned: list[Json] = []
    for batch in case.data.batches(returned_values.SIZES):
        logits, labels = returned_values.answers(case, batch)
        one, five = (
            unit * float((chosen == labels[:, None]).any(axis=1).mean())
            for chosen in guesses(np.argsort(-logits, axis=1))
        )
        returned.append({"loss": 1.0, "acc1": one, "acc5": five})
    found = returned_values.accuracy_problem(case, RankOutcome(True, {"0": {"returned": returned}}))
    assert (found is None) if words is None else (found is not None and words in found.hint)


@pytest.mark.parametrize(
    "changed",
    [
        {"losses": None}, {"losses": [1.0, 2.0]}, {"sizes": [1]}, {"sizes": ["2"]}, {"sizes": [3, -1]}, {"sizes": [True]},
        {"events": 3}, {"events": []}, {"events": [[], None, ["loss"], ["loss"]]},
    ],
)  # fmt: skip
def test_forged_records_are_no_training(changed: dict[str, Json]) -> None:
    values: dict[str, Json] = {
        "losses": [1.0],
        "sizes": [2],
        "events": [["loss", 1.0], ["backward"]],
        **changed,
    }
    arrays = {"logits": np.zeros((2, 6)), "labels": np.array([0, 1])}
    assert not training(RankOutcome(True, values, arrays))


@pytest.mark.parametrize(
    ("events", "strange"),
    [
        ([["forward", 4, True, True], ["loss", 1.0], ["backward"]], 0),
        ([["forward", 2, True, True], ["forward", 2, True, True], ["loss", 1.0], ["backward"]], 0),
        ([["forward", 4, False, True], ["loss", 1.0], ["backward"]], 1),
        ([["forward", 3, True, True], ["loss", 1.0], ["backward"]], 1),
        ([["loss", 1.0], ["backward"]], 1),
        ([["forward"], ["forward", {}, True], ["loss"], ["backward"]], 1),
    ],
)
def test_a_loss_needs_the_answers_of_a_model(events: list[list[Json]], strange: int) -> None:
    assert losses_without_forward(events, [4]) == strange


def test_one_learning_rate_an_epoch_is_enough_where_it_changes_between_them_only() -> None:
    rates = [0.1] * 4 + [0.05] * 4
    batches = [Batch(b.losses, b.acc1, b.acc5, rate, 4) for b, rate in zip(BATCHES, rates, strict=True)]
    seldom = [curve([0.1, 0.05], (3, 7), tag="lr")]
    assert curves.problem("lr", seldom, batches, 2) is None
    assert curves.rates(seldom, batches) is None
    assert curves.problem("lr", seldom, BATCHES, 2) is not None


def test_a_loss_without_backward_is_no_training_batch() -> None:
    values: dict[str, Json] = {
        "losses": [1.0, 2.0], "sizes": [1, 1],
        "events": [["loss"], ["backward"], ["optimizer", False, 0.5], ["loss"], ["optimizer", False, {}]],
    }  # fmt: skip
    arrays = {"logits": np.zeros((2, 6)), "labels": np.array([0, 1])}
    found = training(RankOutcome(True, values, arrays))
    assert [(batch.losses, batch.lr) for batch in found] == [((1.0,), 0.5)]


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        ([batch.lr for batch in BATCHES], None),
        ([batch.lr for batch in BATCHES[::2]], None),
        ([*(batch.lr for batch in BATCHES[1:]), 0.01], "a step ahead"),
        ([0.1] * 8, "stays at 0.1"),
        ([0.3, *(batch.lr for batch in BATCHES[1:])], "other values"),
    ],
)
def test_learning_rates(rates: list[float], words: str | None) -> None:
    found = curves.rates([curve(rates, tag="lr")], BATCHES)
    assert (found is None) if words is None else (found is not None and words in found.message)


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("Loss/train", "loss"), ("train_loss", "loss"), ("acc1", "acc1"), ("Acc@5/train", "acc5"), ("top5", "acc5"),
        ("train/accuracy", "acc1"), ("lr", "lr"), ("lr-SGD", "lr"), ("learning_rate", "lr"), ("train/lr", "lr"),
        ("trainLR", "lr"), ("latest_loss", "loss"), ("loss_value", "loss"), ("top_50", "acc1"), ("Acc@5", "acc5"),
        ("valid/lr", "lr"), ("valLoss", None), ("test/top5", None), ("dev_loss", None), ("Loss/val", None), ("valid/acc1", None), ("test_acc5", None), ("clr", None), ("images/s", None),
    ],
)  # fmt: skip
def test_curves_are_known_by_their_names(tag: str, name: str | None) -> None:
    assert curves.metric(tag) == name


# Searches

# What a check has trained are small networks; these are torchvision's.
SEARCH = """
import torch
import amp_train

for arch in ("resnet18", "resnet50"):
    for largest in (1, 3):
        size, trials = amp_train.find_batch_size(arch, torch.rand(3, 32, 32), torch.device("cpu"), False, largest)
        print(size, [trial["batch_size"] for trial in trials])
"""


def test_the_worked_solution_searches_with_a_real_resnet() -> None:
    ended = subprocess.run([sys.executable, "-c", SEARCH], cwd=REFERENCE, capture_output=True, text=True)
    assert (ended.stdout.splitlines(), ended.returncode) == (["0 []", "3 [2, 3]"] * 2, 0), ended.stderr


# Validation, and searches at both ends

LABELS = np.arange(28) % 10
# Of every three items one is right, one among the first five, and one further down.
PLACES = np.arange(28)[:, None] % 3 * 4
LOGITS = -((np.arange(10) - LABELS[:, None] + PLACES) % 10).astype(np.float32)


def figures(items: slice = slice(None), unit: float = 100.0) -> dict[str, float]:
    logits, labels = LOGITS[items], LABELS[items]
    acc1, acc5 = accuracies(logits, labels)
    return {"acc1": unit * acc1, "acc5": unit * acc5, "loss": expected.mean_loss(logits, labels)}


EACH = [figures(slice(start, start + 9)) for start in range(0, 28, 9)]
UNWEIGHED = {name: sum(batch[name] for batch in EACH) / 4 for name in EACH[0]}


@pytest.mark.parametrize(
    ("evaluated", "words"),
    [
        (figures(), None),
        (figures(unit=1.0), None),
        ({**figures(), "items": 28.0}, None),
        ({"loss": figures()["loss"]}, None),
        ({"type": "tuple"}, None),
        (None, None),
        (UNWEIGHED, "mean of the batches' values"),
        ({**figures(), "loss": UNWEIGHED["loss"]}, "mean of the batches' values"),
        (EACH[0], "the first batch alone"),
        (EACH[-1], "the last batch alone"),
        ({**figures(), "acc1": 0.0}, "returned acc1 = 0; over all items it is 35.714"),
        ({**figures(), "acc5": None}, "returned acc5 = None"),
        ({**figures(unit=1.0), "acc1": 35.714}, "returned acc5"),
        ({name: 28 * value for name, value in figures().items()}, "divide by the number of all items"),
        ({name: -value for name, value in figures().items()}, "over all items it is 35.714"),
        ({**figures(), "loss": float("nan")}, "returned loss = nan"),
    ],
)
def test_an_evaluation_is_of_all_items_alike(evaluated: Json, words: str | None) -> None:
    found = evaluation_problem(evaluated, LOGITS, LABELS)
    assert (found is None) if words is None else (found is not None and words in found.message + found.hint)


@pytest.mark.parametrize(
    ("printed", "answer"),
    [({192}, None), ({128}, 128), ({128, 192}, None), ({1, 32}, None), (set(), None), ({206}, None)],
)
def test_an_answer_that_is_not_the_largest_that_fitted_is_named(
    printed: set[int], answer: int | None
) -> None:
    tried = [(1, True), (32, True), (128, True), (256, False), (192, True), (206, False)]
    assert smaller_answer(tried, printed) == answer


@pytest.mark.parametrize(
    ("tried", "was"),
    [
        ([[4, True, True], [8, False, False], [6, True, True], [6, True, False]], True),
        ([[6, True, False], [6, True, True], [7, False, False]], True),
        ([[6, True, False], [7, False, False], [6, True, True]], False),
        ([[4, True, True]], False),
        ([[6, True], 6, ["6", True, True], [6, True, "yes"]], False),
        (None, False),
    ],
)
def test_a_batch_was_tried_where_a_backward_followed_it_first(tried: Json, was: bool) -> None:
    assert was_a_step(Outcome((RankOutcome(True, {"tried": tried}, {}),), elapsed=1.0), 6) is was


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([21, 16, 0], None),
        ([21, 16, None], None),
        ([None, None, None], None),
        (None, None),
        ([20, 16, 0], "found 20, expected 21"),
        ([21, 15, 0], "found 15, expected 16"),
        ([128, 16, 0], "found 128, expected 21"),
        ([21, 16, 1], "not even one image fits into memory, found 1, expected 0"),
    ],
)
def test_a_search_ends_at_what_is_asked_for(found: Json, words: str | None) -> None:
    problem = problem_at_the_ends([(21, 168), (16, 128), (21, 0)], found)
    assert (problem is None) if words is None else (problem is not None and words in problem.message)


# Steps of the script's own

LIMIT, SCALE = 1e-6, 2.0**16


@pytest.mark.parametrize(
    ("sizes", "scale", "tiny"),
    [
        ([2e-12] * 3, SCALE, True),
        ([LIMIT / SCALE] * 3, SCALE, True),
        # Of four million values all are equally large.
        ([LIMIT / 2000] * 3, SCALE, False),
        ([LIMIT, 2e-12, 2e-12], SCALE, False),
        ([2e-12] * 2, SCALE, False),
        ([0.0] * 3, SCALE, False),
        ([1e-9] * 3, 512.0, False),
        ([], 0.0, False),
    ],
)
def test_what_was_clipped_with_the_scale_in_it_is_tiny(sizes: list[float], scale: float, tiny: bool) -> None:
    assert own_step.are_tiny(sizes, LIMIT, scale) is tiny


RIGHT: list[list[Json]] = [["loss", 1.0], ["scale", 1.0], ["backward", False, 1e4], ["unscale_"], ["clip"], ["step"], ["optimizer", True, 0.1]]  # fmt: skip


@pytest.mark.parametrize(
    ("step", "scaled"),
    [
        (RIGHT, False),
        ([event for event in RIGHT if event[0] != "unscale_"], True),
        ([event for event in RIGHT if event[0] not in ("unscale_", "clip")], False),
        ([event for event in RIGHT if event[0] not in ("unscale_", "step")], False),
        # In a hook, when scaler.step has taken the scale out.
        ([*(event for event in RIGHT if event[0] not in ("unscale_", "clip")), ["clip"]], False),
    ],
)
def test_clipping_without_unscale_is_told_by_the_order(step: list[list[Json]], scaled: bool) -> None:
    made = [*RIGHT[:3], *step * 3]
    assert own_step.clips_before_unscale(RankOutcome(True, {"events": made}, {})) is scaled
    assert not own_step.clips_before_unscale(RankOutcome(True, {"events": [*step * 3, *RIGHT]}, {}))


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        ([(53, 53), (53, 53)], (53, 53)),
        ([(52, 53), (52, 52)], (52, 53)),
        ([(367, 53), (367, 53)], None),
        # Without the last batch of each epoch; of several that are accumulated; with those of the validation; from the
        # beginning of the run on.
        ([(364, 52)], None),
        ([(367, 27)], None),
        ([(367, 55)], None),
        ([(53, 53), (53, 106), (367, 53)], None),
        ([(53, 53), (367, 53)], None),
        ([], None),
    ],
)
def test_samples_are_images_and_no_batches(
    counts: list[tuple[int, int]], found: tuple[int, int] | None
) -> None:
    assert (
        fewer_samples_than_steps([{"samples": samples, "steps": steps} for samples, steps in counts]) == found
    )


# The constants of a notebook

NOTEBOOK = """# %% cell 1 (2 lines)
import torch
EPOCHS = 100
# %% cell 2 (8 lines) [parameters]
DATA_DIR = Path("~/cinic")
epochs: int = 3
BATCH_SIZE = 128; ARCH = "resnet152"
log_dir = "runs"
WANDB_PROJECT = "cinic"
search_batch_size = research = False; archive = None
wandb_mode = "online"
AMP, (GPU, REPORT) = True, (0, None)
"""


@pytest.mark.parametrize(
    "names",
    [
        "DATENORDNER EPOCHEN BATCHGROESSE NETZ PROTOKOLLORDNER GEMISCHT BERICHT SUCHE_BATCHGRÖSSE WANDB_MODUS",
        "ruta_datos épocas tamaño_lote modelo registros precisión_mixta informe busca_lote wandb",
        "données époques taille_batch modèle journal amp rapport cherche_batch wandb_mode",
    ],
    ids=["German", "Spanish", "French"],
)
def test_constants_may_have_names_in_other_languages(names: str) -> None:
    options = "training_data epochs batch_size arch logdir amp report find_batch_size wandb".split()
    source = (
        "# %% cell 1 (1 lines) [parameters]\n" + "; ".join(f"{name} = None" for name in names.split()) + "\n"
    )
    chosen = constants(source, {option: option for option in options})
    assert chosen == dict(zip(names.split(), options, strict=True))


def test_of_two_cells_with_constants_that_with_more_has_the_parameters() -> None:
    """Below the imports there may be the template's own, which stay what they are by default."""
    cells = (
        '# %% cell 1 (3 lines)\nARCH = "resnet152"\nBATCH_SIZE = 64\nEPOCHS = 3\n',
        '# %% cell 2 (4 lines)\nTRAINING_DATA = "data"\nBATCH_SIZE = 64\nEPOCHS = 3\nLOGDIR = "runs"\n',
    )
    options: dict[str, Json] = {
        "training_data": "/data", "epochs": 1, "batch_size": 4, "logdir": "x", "arch": "resnet18",
    }  # fmt: skip
    marked = cells[1].replace("(4 lines)", "(4 lines) [parameters]")
    assert with_parameters("".join(cells), options) == cells[0] + marked
    few = "# %% cell 1 (2 lines)\nEPOCHS = 3\nLOGDIR = 'runs'\n"
    assert with_parameters(few, options) == few


def test_a_cell_that_looks_at_data_and_model_has_no_parameters() -> None:
    parameters = (
        '# %% cell 1 (4 lines)\nTRAINING_DATA = "data"\nBATCH_SIZE = 64\nEPOCHS = 3\nLOGDIR = "runs"\n'
    )
    look = """# %% cell 2 (7 lines)
train_dataset, valid_dataset = make_dataset("train"), make_dataset("valid")
data_iter = iter(make_loader(train_dataset))
batch_images, batch_labels = next(data_iter)
model = build_model()
logits = model(batch_images)
log_probabilities = logits.log_softmax(1)
epoch_steps, batch = len(train_dataset) // 32, batch_images[:8]
"""
    options: dict[str, Json] = {
        "training_data": "/data",
        "epochs": 1,
        "batch_size": 4,
        "logdir": "x",
        "arch": "x",
    }
    marked = parameters.replace("(4 lines)", "(4 lines) [parameters]")
    assert with_parameters(parameters + look, options) == marked + look
    look = look.replace("cell 2", "cell 1")
    parameters, marked = (text.replace("cell 1", "cell 2") for text in (parameters, marked))
    assert with_parameters(look + parameters, options) == look + marked


def test_what_is_no_such_thing_keeps_its_value() -> None:
    cell = """# %% cell 1 (4 lines) [parameters]
logger = logging.getLogger(); data = Cinic("x")
LOG_EVERY, LOGITS, DATA_MEAN = 10, "x", (0.5, 0.5, 0.5)
BATCH_NORM = True; BATCH_SIZE = 2 ** 5; EPOCHS = int(os.environ.get("EPOCHS", 3))
SEARCH_BATCH_FROM = 16; BATCH_SIZES = [32, 64]; LOGDIR: str = "runs"
"""
    assert constants(cell, {"training_data": "/data", "amp": True}) == {"data": "/data"}
    cell = cell.replace("logger =", "DATA = 'cinic'; logger =")
    options: dict[str, Json] = {
        "training_data": "/data", "epochs": 1, "batch_size": 4, "logdir": "x", "find_batch_size": False,
    }  # fmt: skip
    assert constants(cell, options) == {"DATA": "/data", "BATCH_SIZE": 4, "EPOCHS": 1, "LOGDIR": "x"}


@pytest.mark.parametrize(
    "name",
    [
        "START_EPOCH", "LAST_EPOCH", "WARMUP_EPOCHS", "SAVE_EVERY_N_EPOCHS", "LOG_EVERY_N_BATCHES", "MAX_BATCHES",
        "DOWNLOAD_DATA",
    ],
)  # fmt: skip
def test_numbers_of_other_things_keep_their_value(name: str) -> None:
    cell = f"# %% cell 1 (1 lines) [parameters]\n{name} = False; EPOCHS = 3; BATCH_SIZE_PER_GPU = 64\n"
    options: dict[str, Json] = {"training_data": "/data", "epochs": 1, "batch_size": 4}
    assert constants(cell, options) == {"EPOCHS": 1, "BATCH_SIZE_PER_GPU": 4}
    assert constants(cell.replace("False", "0"), options) == {"EPOCHS": 1, "BATCH_SIZE_PER_GPU": 4}


@pytest.mark.parametrize(
    ("cell", "edited"),
    [
        (
            "class CFG:\n    épochs = 3  # all of them\n    data: Path = pathlib.Path('data')\n    lr = 0.1\n"
            "    download_data = False\n",
            "class CFG:\n    épochs = 1  # all of them\n    data: Path = pathlib.Path('/data')\n    lr = 0.1\n"
            "    download_data = False\n",
        ),
        (
            "CONFIG = {'epochs': 3, 'lr': 0.1, 'loader': {\"batch_size\": 64}, 'data_mean': (0.5,)}\n",
            "CONFIG = {'epochs': 1, 'lr': 0.1, 'loader': {\"batch_size\": 4}, 'data_mean': (0.5,)}\n",
        ),
        (
            "args = argparse.Namespace(\n    epochs=3,\n    batch_size=2 ** 6,\n    training_data=find_data(),\n)\n",
            "args = argparse.Namespace(\n    epochs=1,\n    batch_size=4,\n    training_data=find_data(),\n)\n",
        ),
        (
            "cfg = dict(data=dict(root='data', batch_size=64), run={'epochs': EPOCHS})\n",
            "cfg = dict(data=dict(root='/data', batch_size=4), run={'epochs': EPOCHS})\n",
        ),
        ("loader = DataLoader(dataset, batch_size=64)\n", "loader = DataLoader(dataset, batch_size=64)\n"),
    ],
    ids=["class", "dict", "Namespace", "dicts", "call"],
)
def test_constants_may_be_parts_of_a_class_or_a_dict(cell: str, edited: str) -> None:
    options: dict[str, Json] = {"training_data": "/data", "epochs": 1, "batch_size": 4}
    header = f"# %% cell 1 ({cell.count(chr(10))} lines) [parameters]\n"
    assert with_entries(header + cell, options)[0] == header + edited
    taken = {"epochs", "batch_size", "training_data"}
    assert with_entries(header + cell, options, taken) == (header + cell, frozenset())


def test_a_class_of_constants_is_what_a_notebook_has_for_parameters() -> None:
    cells = (
        "# %% cell 1 (1 lines)\nimport torch\n",
        "# %% cell 2 (4 lines)\nclass CFG:\n    root = 'data'\n    epochs = 3\n    logdir = 'runs'\n",
    )
    options: dict[str, Json] = {"training_data": "/data", "epochs": 1, "logdir": "x"}
    marked = cells[1].replace("(4 lines)", "(4 lines) [parameters]")
    assert with_parameters("".join(cells), options) == cells[0] + marked


@pytest.mark.parametrize(
    ("path", "where", "is_told"),
    [
        ("/data/cinic10/train", "amp_train.ipynb, cell 7, line 3", True),
        ("data/train", "amp_train.ipynb, cell 7, line 3", True),
        ("/data/cinic/training", "amp_train.ipynb, cell 7, line 3", False),
        ("data/train", "amp_train.py, line 3", False),
    ],
)
def test_a_notebook_that_reads_its_own_folder_hears_of_constants(
    path: str, where: str, is_told: bool
) -> None:
    ended = Crashed(
        f"Your code raised FileNotFoundError: No such file or directory: '{path}' ({where}).", "usual"
    )
    complaints.explain(check_of(EXERCISE, "notebook", lambda spec: Outcome(())), ended)
    assert ("TRAINING_DATA or DATA_DIR" in ended.feedback.hint) is is_told


def _trained(*batches: nn.Module) -> tuple[list[Json], list[Json]]:
    """The losses and the events that count of a training in which each batch was put to one of some models."""
    training = Training()
    training.note("scheduler made", len(batches))
    training.note("scheduler")
    for number, model in enumerate(batches):
        training.forward(model, torch.zeros(2, 3, 8, 8))
        training.batches.append(
            {
                "loss": number,
                "type": "",
                "logits": torch.zeros(2, 3).numpy(),
                "labels": [0, 0],
                "derived": False,
            }
        )
        training.note("loss", number)
    values = training.observation(0).values
    events = values["events"]
    losses = values["losses"]
    assert isinstance(losses, list)
    assert isinstance(events, list)
    return losses, [event[-1] for event in events if isinstance(event, list) and event[0] != "forward"]


def test_steps_of_a_copy_before_the_training_are_not_of_it() -> None:
    model, copied, other, within = (nn.Linear(2, 2) for _ in range(4))
    within.eval()
    assert _trained(copied, other, *[model] * 3) == ([2, 3, 4], [5, "scheduler", 2, 3, 4])
    # As many as the others; the last ones; in between; there is nothing else; an evaluation, not of the wrapper.
    for batches in (
        [copied] * 3 + [model] * 3,
        [model] * 3 + [copied],
        [copied, model, copied, model],
        [model] * 3,
        [model] * 3 + [within] * 4,
    ):
        assert _trained(*batches) == (
            [*range(len(batches))],
            [len(batches), "scheduler", *range(len(batches))],
        )


def test_constants_are_found_in_the_parameters_cell() -> None:
    options: dict[str, Json] = {
        "training_data": "/data",
        "epochs": 1,
        "batch_size": 4,
        "logdir": "x",
        "wandb": "disabled",
        "amp": False,
        "report": "x.json",
        "arch": "resnet18",
        "find_batch_size": False,
    }
    assert constants(NOTEBOOK, options) == {
        "DATA_DIR": Path("/data"), "epochs": 1, "BATCH_SIZE": 4, "ARCH": "resnet18", "log_dir": "x",
        "search_batch_size": False, "wandb_mode": "disabled", "AMP": False, "REPORT": "x.json",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("output", "answers"),
    [
        ("largest batch size: 187\n", {187}),
        ("Found 96\nepoch 0: loss 2.31, 0.5 s\n", {96, 0}),
        ("fits: 128\nmax 190, does not fit 191\n", {128, 190, 191}),
        ("maior lote: 176\nepoca 0: loss 2.294, acc1 20.000\n", {176, 0, 1}),
        ("batch of 190 fits\nbatch of 191 does not fit\nbatch of 192: out of memory\n", {190}),
        ("2026-11-22 13:30:46,380 x 190 fits\n2026-11-22 13:30:46,388 x 191 does not fit\n", {190}),
        ("Largest batch size without running out of memory: 190\n", {190}),
        ("trying 170: OOM\nThe largest batch size that does not run out of memory is 169.\n", {169}),
        ("max batch before OOM: 169\nepoch 0: loss 2.31, 0.5 s\n", {169, 0}),
        ("Größter Batch ohne OOM: 169\n", {169}),
        ("best batch: 190\n191 is too large: out of memory\n192: out of memory, max memory reached\n", {190}),
        ("largest batch: 190\nNo more than max_batch, OOM with 192\n", {190, 192}),
        ("\x1b[1mbest: 190\x1b[0m\n\x1b[31m191 does not fit\x1b[0m\n", {190}),
        ("191 images no longer fits, OOM\n", set()),
        ("best 7\nx.py:203: UserWarning: the result\n  f(203)\n", {7}),
        ("Using batch_size=187\nepoch 0: loss 2.31\n", {187, 0}),
        ("The largest batch size is 187.\nepochs: 1, batch size: 4\nBest epoch took 1.80 s\n", {187, 1, 4}),
        (f"max {' '.join(map(str, range(150, 250)))}\n", set()),
        ("nothing\n", set()),
        ("1.5\n", set()),
    ],
)
def test_the_answer_of_a_search_is_read_from_what_was_printed(output: str, answers: set[int]) -> None:
    assert answers_printed(output) == answers
