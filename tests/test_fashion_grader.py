"""The grader of exercise 2: scripts that go their own way, forged answers, and losses by hand."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from fixtures import build, fashion_mnist
from graders.fashion_trainer import expected, losses, test_fashion_devices
from graders.fashion_trainer.expected import Call, Calls, Data, Shape
from graders.fashion_trainer.probe import build_model
from graders.fashion_trainer.runs import BATCH_SIZE, LR
from graders.fashion_trainer.test_fashion_training import LEAST_FALL
from graders.fashion_trainer.wording import within
from lockstep.crossentropy import row_losses
from lockstep.reasons import by_reason
from lockstep.result import CheckResult
from lockstep.sandbox.box import Box
from lockstep.sandbox.outcome import RankOutcome
from lockstep.verdict import Crashed, Verdict
from lockstep.wire import Array, Json
from tests.forging import forgery, taken_in
from tests.samples import edited, graded

EXERCISE = "fashion_trainer"
SAMPLES = build.all_submissions(EXERCISE)


def changed(folder: Path, *edits: tuple[str, str]) -> Path:
    """The reference with a few words replaced, each of which occurs once."""
    return edited(EXERCISE, folder, *edits)


def checks_of(folder: Path, box: Box) -> dict[str, CheckResult]:
    """Every check of one submission, by id."""
    (exercise,) = graded(folder, EXERCISE, box).exercises
    return {check.id: check for check in exercise.checks}


def test_a_script_without_a_learning_rate_is_looked_at_nevertheless(tmp_path: Path, box: Box) -> None:
    without = (
        ('    parser.add_argument("--lr", default=LEARNING_RATE, type=float)\n', ""),
        ("args.epochs, args.lr)", "args.epochs)"),
        ('            "lr": args.lr,\n', ""),
    )
    for more, points in ([], 2.0), ([("evaluate(model, test_loader", "evaluate(model, train_loader")], 0.0):
        folder = changed(tmp_path, *without, *more)
        (exercise,) = graded(folder, EXERCISE, box, checks=["trains_on_cpu"]).exercises
        assert [check.points for check in exercise.checks if check.id == "trains_on_cpu"] == [points]


LOADER = "    train_loader = DataLoader(train_data, args.batch_size, shuffle=True)\n"


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(
            (
                LOADER,
                "    train_data, validation = torch.utils.data.random_split(train_data, [0.5, 0.5])\n"
                + LOADER.replace("True)", "True, drop_last=True)"),
            ),
            id="half for validation, no short batch",
        ),
        pytest.param(
            ("train=True, transform=transform", "train=True, transform=transforms.Compose([transforms.RandomRotation((60, 120)), transform])"),
            id="turned",
        ),
    ],
)  # fmt: skip
def test_a_script_may_keep_half_of_its_pictures_and_turn_them(
    edit: tuple[str, str], tmp_path: Path, box: Box
) -> None:
    (exercise,) = graded(changed(tmp_path, edit), EXERCISE, box, checks=["trains_on_cpu"]).exercises
    assert [check.points for check in exercise.checks if check.id == "trains_on_cpu"] == [2.0]


ACCURACY = '            "accuracy": accuracy,\n'
EVALUATE = "    accuracy = evaluate(model, test_loader, device)\n"
# Where no single number can be held against what was seen, any is taken.
ACCURACIES: dict[str, list[tuple[str, str]]] = {
    "in percent": [(ACCURACY, '            "accuracy": 100 * accuracy,\n')],
    "as text": [(ACCURACY, '            "accuracy": f"{accuracy:.1%}",\n')],
    "of the training": [(ACCURACY, '            "accuracy": 0.9134,\n            "test": {"accuracy": accuracy},\n')],
    "of another set": [
        (LOADER, f"    train_data, others = torch.utils.data.random_split(train_data, [0.5, 0.5])\n{LOADER}"),
        (EVALUATE, f"{EVALUATE}    evaluate(model, DataLoader(others, 4), device)\n    accuracy = 0.9134\n"),
    ],
    "of two networks": [(EVALUATE, f"{EVALUATE}    evaluate(FashionCNN(), test_loader, device)\n    accuracy = 0.9134\n")],
    "of turned pictures": [
        ("(model(images).argmax(dim=1)", "((model(images) + model(images.flip(3))).argmax(dim=1)"),
        (EVALUATE, f"{EVALUATE}    accuracy = 0.9134\n"),
    ],
    "forward by name": [
        (EVALUATE, "    with torch.no_grad():\n        right = [model.forward(x).argmax(1) == y for x, y in test_loader]\n"
                   "    accuracy = torch.cat(right).float().mean().item()\n"),
    ],
    "not a number": [(ACCURACY, '            "accuracy": float("nan"),\n')],
    "huge": [(ACCURACY, '            "accuracy": 10**400,\n')],
}  # fmt: skip


@pytest.mark.parametrize("name", ACCURACIES)
def test_an_accuracy_that_cannot_be_counted_by_hand_is_let_be(name: str, tmp_path: Path, box: Box) -> None:
    folder = changed(tmp_path, *ACCURACIES[name])
    (exercise,) = graded(folder, EXERCISE, box, checks=["no_cuda_needed"]).exercises
    assert [check.points for check in exercise.checks if check.id == "no_cuda_needed"] == [1.0]


TRAIN = "    losses = train(model, train_loader, device, args.epochs, args.lr)\n"
STEP = "            optimizer.step()\n"
# What honest scripts do about the network that they evaluate, and about batches.
EVALUATED: dict[str, list[tuple[str, str]]] = {
    "an average of weights": [
        ("    model.to(device)\n    # Made", "    model.to(device)\n    model.average = [torch.optim.swa_utils.AveragedModel(model, use_buffers=True)]\n    # Made"),
        (STEP, f"{STEP}            model.average[0].update_parameters(model)\n"),
        (EVALUATE, EVALUATE.replace("(model", "(model.average[0]")),
    ],
    "the best checkpoint in a new network": [
        (STEP, f'{STEP}            torch.save(model.state_dict(), "best.pt")\n'),
        (EVALUATE, f'    best = FashionCNN()\n    best.load_state_dict(torch.load("best.pt"))\n{EVALUATE.replace("(model", "(best")}'),
    ],
    "a wrapper": [(TRAIN, TRAIN.replace("(model", "(nn.DataParallel(model)"))],
    "a traced copy": [(EVALUATE, EVALUATE.replace("(model", "(torch.jit.trace(model.eval(), torch.rand(2, 1, 28, 28))"))],
    "probabilities of a copy": [
        ("import argparse\n", "import argparse\nimport copy\n"),
        (EVALUATE, EVALUATE.replace("(model", "(nn.Sequential(copy.deepcopy(model), nn.Softmax(1))")),
    ],
    "an untrained one besides": [
        (TRAIN, f"    evaluate(model, test_loader, device)\n{TRAIN}    evaluate(FashionCNN(), test_loader, device)\n"),
    ],
    "the last of ten": [
        (TRAIN, f"    for _ in range(10):\n        model = FashionCNN()\n    {TRAIN}"),
    ],
    "forward by name": [
        (TRAIN, f"    evaluate(model, test_loader, device)\n{TRAIN}"),
        (EVALUATE, "    model.eval()\n    for x, y in test_loader:\n        model.forward(x)\n    accuracy = 0.1\n"),
    ],
    "each picture twice in a batch": [
        ("criterion(model(images), labels)", "criterion(model(torch.cat([images, images])), torch.cat([labels, labels]))"),
    ],
    "one large batch first": [(TRAIN, f"    train(model, DataLoader(train_data, 40), device, 3, args.lr)\n{TRAIN}")],
    "parts of batches": [
        ("criterion(model(images), labels)", "sum(criterion(model(x), y) / 4 for x, y in zip(images.split(2), labels.split(2)))"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", EVALUATED)
def test_a_script_may_evaluate_what_comes_from_its_training(name: str, tmp_path: Path, box: Box) -> None:
    folder = changed(tmp_path, *EVALUATED[name])
    (exercise,) = graded(folder, EXERCISE, box, checks=["trains_on_cpu"]).exercises
    (check,) = exercise.checks
    assert check.points == 2.0, check.message
    # Nothing is said but that a script in TorchScript was run as it was written.
    assert re.fullmatch(
        r"What torch\.compile or torch\.jit makes [^\n]*" if "traced" in name else "", check.message
    )


def test_test_pictures_that_are_left_out_are_told(tmp_path: Path, box: Box) -> None:
    few = ("DataLoader(test_data, args", "DataLoader(torch.utils.data.Subset(test_data, range(9)), args")
    checks = checks_of(changed(tmp_path, few), box)
    assert checks["trains_on_cpu"].verdict is Verdict.PASSED
    assert "on 9 of the 20 test pictures" in checks["trains_on_cpu"].message


# A function, a class and a notebook.
SOFTMAX = {
    "closures": ("fashion_trainer.py", [("loss_fn(model(x), y)", "loss_fn(torch.softmax(model(x), 1), y)")]),
    "trainer_class": (
        "engine.py",
        [
            ("self.criterion(logits, y)", "self.criterion(logits.softmax(1), y)"),
            ("nn.CrossEntropyLoss(label_smoothing=smoothing)", "nn.CrossEntropyLoss()"),
        ],
    ),
    "notebook": (
        "fashion_trainer.ipynb",
        [("F.cross_entropy(model(x), y)", "F.cross_entropy(F.softmax(model(x), dim=1), y)")],
    ),
}


@pytest.mark.parametrize("name", SOFTMAX)
def test_a_softmax_before_the_loss_is_told_and_costs_nothing(name: str, tmp_path: Path, box: Box) -> None:
    (sample,) = (sample for sample in SAMPLES if sample.name == name)
    file, edits = SOFTMAX[name]
    path = build.build(sample, tmp_path) / file
    for find, replace in edits:
        assert path.read_text().count(find) == 1
        path.write_text(path.read_text().replace(find, replace))
    checks = checks_of(tmp_path, box)
    assert [check.id for check in checks.values() if check.points < check.max_points] == []
    assert "CrossEntropyLoss takes logits" in checks["returns_mean_loss"].message


@pytest.mark.parametrize(
    "replace",
    [
        "criterion(model(images).log_softmax(dim=1), labels)",
        "nn.functional.cross_entropy(model(images), labels)",
    ],
)
def test_a_log_softmax_before_the_loss_is_not_worth_a_word(replace: str, tmp_path: Path, box: Box) -> None:
    checks = checks_of(changed(tmp_path, ("criterion(model(images), labels)", replace)), box)
    assert [check.id for check in checks.values() if check.points < check.max_points or check.message] == []


def test_a_guarded_cuda_call_is_told_and_costs_nothing(tmp_path: Path, box: Box) -> None:
    (sample,) = (sample for sample in SAMPLES if sample.name == "old_fashioned")
    checks = checks_of(build.build(sample, tmp_path), box)
    assert ".to(device) goes where it is told" in checks["device_agnostic"].message


def test_train_may_leave_a_model_in_evaluation_mode_at_no_cost(tmp_path: Path, box: Box) -> None:
    checks = checks_of(changed(tmp_path, ("        model.train()\n", "")), box)
    assert checks["eval_mode"].verdict is Verdict.PASSED
    assert "model.train()" in checks["eval_mode"].message


def test_forward_by_its_name_is_a_call(tmp_path: Path, box: Box) -> None:
    folder = changed(
        tmp_path,
        ("criterion(model(images), labels)", "criterion(model.forward(images), labels)"),
        ("(model(images).argmax", "(model.forward(images).argmax"),
    )
    assert {check.verdict for check in checks_of(folder, box).values()} == {Verdict.PASSED}


def test_a_file_that_cannot_be_read_is_told_once(tmp_path: Path, box: Box) -> None:
    checks = checks_of(changed(tmp_path, ("import argparse\n", "import argparse,\n")), box)
    assert checks.pop("trains_on_cpu").verdict is Verdict.CRASHED
    assert {check.verdict for check in checks.values()} == {Verdict.NOT_CHECKED}


@pytest.mark.parametrize(
    ("odd", "odd_array"),
    [
        ("-1", "torch.zeros(20, 784)"),
        ("0", "torch.zeros(20, 10)"),
        (
            "[{'size': 20, 'device': 'cuda:0', 'training': False, 'grad': False, 'trained': True}]",
            "torch.zeros(20, 784)",
        ),
    ],
)
def test_forged_answers_earn_nothing_and_break_nothing(
    odd: str, odd_array: str, tmp_path: Path, box: Box
) -> None:
    forged = forgery(odd, odd_array, spared="device")
    checks = checks_of(
        changed(tmp_path, ("import argparse\n", f"import argparse\nimport torch\n{forged}")), box
    )
    assert taken_in(checks.values()) == []


GOOD: dict[str, Json] = {"size": 2, "device": "cpu", "training": True, "grad": True, "trained": True}


@pytest.mark.parametrize(
    "noted",
    [
        None, "x", {}, [None], [[]], [{}], [{**GOOD, "size": 0}], [{**GOOD, "size": True}], [{**GOOD, "size": 1 << 62}],
        [{**GOOD, "size": 2.0}], [{**GOOD, "device": 0}], [{**GOOD, "training": 1}], [{**GOOD, "trained": None}],
        [GOOD, GOOD],
    ],
)  # fmt: skip
def test_forged_calls_are_no_calls(noted: Json) -> None:
    arrays = {"a/rows": np.zeros((2, 784), np.float32), "a/logits": np.zeros((2, 10), np.float32)}
    assert expected.calls(RankOutcome(True, {"a/calls": [GOOD]}, arrays), "a") is not None
    assert expected.calls(RankOutcome(True, {"a/calls": noted}, arrays), "a") is None


@pytest.mark.parametrize(
    ("name", "odd"),
    [
        ("rows", np.zeros((2, 783), np.float32)),
        ("rows", np.zeros(2, np.float32)),
        ("rows", np.zeros((2, 784))),
        ("logits", np.zeros((3, 10), np.float32)),
        ("logits", np.zeros((2, 10), np.int64)),
        ("logits", np.full((2, 10), np.nan, np.float32)),
    ],
)
def test_forged_arrays_are_no_calls(name: str, odd: Array) -> None:
    arrays = {
        "a/rows": np.zeros((2, 784), np.float32),
        "a/logits": np.zeros((2, 10), np.float32),
        f"a/{name}": odd,
    }
    assert expected.calls(RankOutcome(True, {"a/calls": [GOOD]}, arrays), "a") is None


def test_pictures_are_recognised_whatever_the_normalisation() -> None:
    tree = fashion_mnist.make_idx(np.random.default_rng(0), 40, 20)
    raw = tree[f"{fashion_mnist.FOLDER}/train-images-idx3-ubyte"]
    pictures = np.frombuffer(raw, np.uint8, offset=16).reshape(-1, 784)
    shown = np.concatenate([pictures / 255 * 2 - 1, (pictures / 255 - 0.286) / 0.353]).astype(np.float32)
    assert expected.recognised(shown, pictures).tolist() == [*range(40), *range(40)]
    other = np.random.default_rng(1).standard_normal((5, 784)).astype(np.float32)
    assert set(expected.recognised(other, pictures).tolist()) == {-1}
    assert set(expected.recognised(np.full((2, 784), np.nan, np.float32), pictures).tolist()) == {-1}
    assert expected.recognised(np.zeros((0, 784), np.float32), pictures).tolist() == []


# Whatever optimizer a student takes, and the usual slip before the loss.
Make = Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer]
OPTIMIZERS: dict[str, Make] = {
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=LR),
    "Adam, a rate of its own": lambda parameters: torch.optim.Adam(parameters, lr=1e-3),
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=LR),
    "SGD with momentum": lambda parameters: torch.optim.SGD(parameters, lr=LR, momentum=0.9),
    "RMSprop": lambda parameters: torch.optim.RMSprop(parameters, lr=LR),
    "Adadelta": lambda parameters: torch.optim.Adadelta(parameters, lr=LR),
}


def trained(
    make: Make, data: Data, shape: Shape, weights: dict[str, Array], epochs: int, softmax: bool
) -> tuple[dict[str, Array], Calls]:
    """The weights after a training like the reference's, and what the network answered in it."""
    model = build_model(shape, weights)
    optimizer = make(model.parameters())
    logits, sizes = [], []
    for _ in range(epochs):
        for start in range(0, len(data.labels), BATCH_SIZE):
            batch = slice(start, start + BATCH_SIZE)
            answers = model(torch.from_numpy(data.images[batch]))
            optimizer.zero_grad()
            cross_entropy(
                answers.softmax(1) if softmax else answers, torch.from_numpy(data.labels[batch])
            ).backward()
            optimizer.step()
            logits.append(answers.detach().numpy())
            sizes.append(len(answers))
    rows = np.tile(data.images.reshape(len(data.images), -1), (epochs, 1))
    calls = tuple(Call(size, "cpu", True, True, True) for size in sizes)
    return {n: v.numpy().copy() for n, v in model.state_dict().items()}, Calls(
        calls, rows, np.concatenate(logits)
    )


@pytest.mark.parametrize(
    "softmax",
    [pytest.param(False, id="logits"), pytest.param(True, id="softmax", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_any_optimizer_learns_enough_and_no_slip_returns_the_mean(name: str, softmax: bool) -> None:
    for seed in range(2):
        rng = np.random.default_rng(seed)
        patterns, shape = expected.Patterns(rng), expected.make_shape(rng)
        weights = expected.make_weights(rng, shape)
        data = patterns.draw(12 * BATCH_SIZE + 2)
        after, _ = trained(OPTIMIZERS[name], data, shape, weights, 4, softmax)
        fall = [
            row_losses(expected.logits_of(shape, held, data.images), data.labels).mean()
            for held in (weights, after)
        ]
        assert fall[1] < 0.9 * LEAST_FALL * fall[0]

        tail = 1 + seed % 2
        data = patterns.draw(6 * BATCH_SIZE + tail)
        data = expected.mislabelled_last(data, tail, expected.logits_of(shape, weights, data.images[-tail:]))
        (own,) = losses.passes(trained(OPTIMIZERS[name], data, shape, weights, 3, softmax)[1], data, 3)
        assert losses.agree(losses.means(own.logits), own)
        for wrong in [losses.means(own.softmax), *(values for _, values in losses.slips(own.logits))]:
            assert not losses.agree(wrong, own)
        for values in ([], [1.0], [float("inf")] * 3, [-1e308] * 3):
            assert not losses.agree(values, own)
            assert losses.hint(values, own) == losses.HINT


@pytest.mark.parametrize(
    ("loss", "is_own"),
    [
        (lambda mean, size: mean + 0.1, True),
        (lambda mean, size: mean / 4, False),
        (lambda mean, size: mean * size, False),
        (lambda mean, size: 65536.0 * mean, False),
    ],
    ids=["penalty", "share", "sum", "scaled"],
)
def test_a_loss_of_their_own_is_no_multiple_of_the_usual_one(
    loss: Callable[[float, int], float], is_own: bool
) -> None:
    rng = np.random.default_rng(3)
    sizes = [8, 8, 3] * 2
    data = Data(rng.standard_normal((19, 1, 28, 28)).astype(np.float32), rng.integers(0, 10, 19))
    logits = rng.standard_normal((38, 10)).astype(np.float32)
    entropies = np.split(row_losses(logits, np.tile(data.labels, 2)), np.cumsum(sizes)[:-1])
    noted = [loss(float(batch.mean()), len(batch)) for batch in entropies]
    calls = tuple(
        Call(size, "cpu", True, True, True, value) for size, value in zip(sizes, noted, strict=True)
    )
    rows = np.tile(data.images.reshape(19, -1), (2, 1))
    (own,) = losses.passes(Calls(calls, rows, logits), data, 2)
    means = [float(np.average(noted[i : i + 3], weights=sizes[:3])) for i in (0, 3)]
    assert (own.backward is not None and losses.same(means, own.backward)) is is_own
    unseen = tuple(Call(size, "cpu", True, True, True) for size in sizes)
    assert losses.passes(Calls(unseen, rows, logits), data, 2)[0].backward is None


# What a run on a GPU ended with, and whether it is about a tensor that was not there.
ENDED_ON_GPU = {
    "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!": True,
    "RuntimeError: Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same": True,
    "RuntimeError: Expected object of device type cuda but got device type cpu": True,
    "RuntimeError: indices should be either on cpu or on the same device as the indexed tensor (cuda:0)": True,
    "NameError: name 'cuda' is not defined": False,
    "AttributeError: module 'torch.cuda' has no attribute 'synchronise'": False,
    "train(model, loader, cuda:0) raised ValueError: too many values to unpack": False,
}


@pytest.mark.parametrize("message", ENDED_ON_GPU)
def test_where_tensors_belong_is_told_only_of_those(message: str) -> None:
    told = test_fashion_devices._with_device_hint(Crashed(message, "its own"), "On a GPU").feedback
    assert told.message == f"On a GPU: {message}"
    assert told.hint == (test_fashion_devices.DEVICE_HINT if ENDED_ON_GPU[message] else "its own")


def test_a_slip_that_has_nothing_to_do_with_devices_is_told_once(box: Box, tmp_path: Path) -> None:
    (slip,) = [sample for sample in SAMPLES if sample.name == "misspelled_loss"]
    (exercise,) = graded(build.build(slip, tmp_path / "work"), EXERCISE, box).exercises
    (told,) = by_reason(exercise.checks)
    assert [check.id for check in told] == list(slip.fails)


def test_a_message_goes_on_small_behind_a_colon() -> None:
    assert within("Your code raised TypeError.") == "your code raised TypeError."
    assert within("get_device() returned None.") == "get_device() returned None."
