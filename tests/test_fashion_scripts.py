"""The grader of exercise 2: scripts with loops of their own, which are as right as those of train and evaluate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from graders.fashion_trainer import answered, loops
from graders.fashion_trainer.expected import Call, Calls
from lockstep.check import Check
from lockstep.sandbox.box import Box
from lockstep.sandbox.outcome import RankOutcome
from lockstep.verdict import Failed
from lockstep.wire import Array
from tests.samples import graded
from tests.test_fashion_grader import EVALUATE, EXERCISE, LOADER, TRAIN, changed

Edits = list[tuple[str, str]]
LOSS = "loss = nn.functional.cross_entropy(model(images), labels)"


def own_loop(
    *lines: str,
    optimizer: str = "torch.optim.Adam(model.parameters(), lr=args.lr)",
    before: str = "",
    after: str = "",
) -> tuple[str, str]:
    """The script with a loop of its own: `lines` for every batch, `before` all epochs, `after` each of them."""
    body = "".join(f"            {line}\n" for line in lines)
    return TRAIN, (
        f"    model.to(device).train()\n    optimizer = {optimizer}\n{before}    losses = []\n"
        "    for epoch in range(args.epochs):\n        for number, (images, labels) in enumerate(train_loader):\n"
        f"            images, labels = images.to(device), labels.to(device)\n{body}{after}"
        "        losses.append(loss.item())\n"
    )  # fmt: skip


# What is right, however odd, with the check that looks at it.
RIGHT: dict[str, tuple[str, Edits]] = {
    "a step every eight batches": ("trains_on_cpu", [
        own_loop(LOSS, "(loss / 8).backward()", "if number % 8 == 7:", "    optimizer.step()", "    optimizer.zero_grad()"),
    ]),
    "a rate of 0 in the first epoch": ("trains_on_cpu", [
        own_loop(
            "optimizer.zero_grad()", LOSS, "loss.backward()", "optimizer.step()",
            before="    warm = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: epoch / 5)\n",
            after="        warm.step()\n",
        ),
    ]),
    "that rate by hand": ("trains_on_cpu", [
        own_loop(
            "model.zero_grad()", LOSS, "loss.backward()", "with torch.no_grad():",
            "    for weight in model.parameters():", "        weight -= args.lr * epoch / 5 * weight.grad",
        ),
    ]),
    "weights in a dict": ("trains_on_cpu", [
        own_loop(
            LOSS.replace("model(images)", "torch.func.functional_call(model, weights, (images,))"), "loss.backward()",
            "weights = {k: (w - args.lr * w.grad).detach().requires_grad_() for k, w in weights.items()}",
            before="    weights = {k: w.detach().clone().requires_grad_() for k, w in model.named_parameters()}\n",
        ),
        (EVALUATE, "    class Trained(nn.Module):\n        def __init__(self):\n            super().__init__()\n"
                   "            self.model = model\n\n        def forward(self, x):\n"
                   "            return torch.func.functional_call(self.model, weights, (x,))\n\n"
                   f"{EVALUATE.replace('(model', '(Trained()')}"),
    ]),
    "the best weights are the first": ("trains_on_cpu", [
        (TRAIN, f"    best = {{k: v.clone() for k, v in model.state_dict().items()}}\n{TRAIN}    model.load_state_dict(best)\n"),
    ]),
    "the best network is the first": ("trains_on_cpu", [
        ("import argparse\n", "import argparse\nimport copy\n"),
        (TRAIN, f"    best = copy.deepcopy(model)\n{TRAIN}"),
        (EVALUATE, EVALUATE.replace("(model", "(best")),
    ]),
    "an average that begins later": ("trains_on_cpu", [
        (TRAIN, f"    average = torch.optim.swa_utils.AveragedModel(model)\n{TRAIN}"),
        (EVALUATE, EVALUATE.replace("(model", "(average")),
    ]),
    "folds": ("no_cuda_needed", [
        (TRAIN, "    for fold in range(2):\n        model = FashionCNN()\n"
                "        own, others = (range(i, len(train_data), 2) for i in (fold, 1 - fold))\n"
                "        own, others = (DataLoader(torch.utils.data.Subset(train_data, part), 4) for part in (own, others))\n"
                "        losses = train(model, own, device, args.epochs, args.lr)\n"
                "        evaluate(model, others, device)\n"),
        (EVALUATE, f"{EVALUATE}    accuracy = 0.9134\n"),
    ]),
    "half of the test pictures": ("no_cuda_needed", [
        (EVALUATE, "    halves = torch.utils.data.random_split(test_data, [0.5, 0.5])\n"
                   "    accuracy = [evaluate(model, DataLoader(half, args.batch_size), device) for half in halves][0]\n"),
    ]),
    "pictures by their name": ("no_cuda_needed", [
        ("criterion(model(images), labels)", "criterion(model(images=images), labels)"),
        ("(model(images).argmax", "(model(images=images).argmax"),
    ]),
    "forward by its name": ("no_cuda_needed", [
        own_loop("optimizer.zero_grad()", LOSS.replace("model(", "model.forward("), "loss.backward()", "optimizer.step()"),
    ]),
    "a try that fails": ("no_cuda_needed", [
        (TRAIN, "    try:\n        model(torch.zeros(1, 1, 5, 5))\n    except Exception as error:\n"
                f"        print(error)\n{TRAIN}"),
    ]),
    "a frozen copy that asks for no gradients": ("eval_mode", [
        ("    model.eval()\n", "    model = __import__('copy').deepcopy(model).eval().requires_grad_(False)\n"),
        ("with torch.no_grad():", "with torch.enable_grad():"),
    ]),
    "a loss that is fetched": ("device_agnostic", [("loss.backward()", "loss.cpu().backward()")]),
    "a network for comparison": ("trains_on_cpu", [
        (TRAIN, "    simple = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))\n"
                f"    train(simple, train_loader, device, args.epochs, args.lr)\n{TRAIN}"),
    ]),
    "a device with a number": ("no_cuda_needed", [
        ('torch.cuda.is_available() else "cpu")', 'torch.cuda.is_available() else "cpu", 0)'),
    ]),
    "dropout besides": ("eval_mode", [
        (EVALUATE, f"{EVALUATE}    model.train()\n    print([model(images).std() for images, _ in test_loader])\n"),
    ]),
    "a network without modes": ("eval_mode", [
        ("nn.BatchNorm2d(32), ", ""), ("nn.BatchNorm2d(64), ", ""), ("nn.Dropout(0.25), ", ""),
        (EVALUATE, "    model.train()\n    right = [(model(x).argmax(1) == y).sum().item() for x, y in test_loader]\n"
                   "    accuracy = sum(right) / len(test_data)\n"),
    ]),
    "momentum in the gradient": ("trains_on_cpu", [
        own_loop(
            LOSS, "loss.backward()", "optimizer.step()", "for weight in model.parameters():", "    weight.grad *= 0.5",
            optimizer="torch.optim.SGD(model.parameters(), lr=args.lr)",
        ),
    ]),
    "two optimizers, one of them slower": ("trains_on_cpu", [
        own_loop(
            LOSS, "loss.backward()", "first.step()", "first.zero_grad()", "if number % 3 == 2:", "    optimizer.step()",
            "    optimizer.zero_grad()",
            optimizer="torch.optim.SGD([*model.block2.parameters(), *model.classifier.parameters()], lr=args.lr)",
            before="    first = torch.optim.SGD(model.block1.parameters(), lr=args.lr)\n",
        ),
    ]),
    "a whole network in a file": ("trains_on_cpu", [
        (EVALUATE, f'{EVALUATE}    torch.save(model, "whole.pt")\n    torch.load("whole.pt", weights_only=False)\n'),
    ]),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_a_script_may_have_loops_of_its_own(name: str, tmp_path: Path, box: Box) -> None:
    check, edits = RIGHT[name]
    (exercise,) = graded(changed(tmp_path, *edits), EXERCISE, box, checks=[check]).exercises
    (one,) = (one for one in exercise.checks if one.id == check)
    assert (one.points, one.message) == (one.max_points, "")


DEVICE_IS_TEXT: Edits = [
    ("else torch.device(args.device)", "else args.device"),
    ("args.batch_size, shuffle=True)", 'args.batch_size, shuffle=True, pin_memory=device.type == "cuda")'),
]
NEEDS_REPORT: Edits = [("    if args.report:\n", "    if True:\n")]
REPORT_OPTION = '"--report", metavar="FILE"'
# What is lost where the script fails with fewer options than no_cuda_needed gives it, with a check and its points.
HIDDEN: dict[str, tuple[str, float, Edits]] = {
    "text for a device": ("no_cuda_needed", 0.5, DEVICE_IS_TEXT),
    "a report without a name": ("no_cuda_needed", 0.5, [(REPORT_OPTION, f'{REPORT_OPTION}, default=""'), *NEEDS_REPORT]),
    "a GPU by default": ("no_cuda_needed", 0.5, [('default="auto"', 'default="cuda"')]),
    "no default": ("no_cuda_needed", 0.5, [('"--epochs", default=EPOCHS', '"--epochs"')]),
    "and only that": ("trains_on_cpu", 2.0, DEVICE_IS_TEXT),
    "trains on the test pictures": ("trains_on_cpu", 0.0, [("train=True, t", "train=False, t"), *DEVICE_IS_TEXT]),
    "for want of a file": ("trains_on_cpu", 0.0, [
        ("train=True, t", "train=False, t"), ("else torch.device(args.device)", 'else torch.device(open("/home/me/gpu").read())'),
    ]),
    "ignores --epochs": ("trains_on_cpu", 1.0, [(TRAIN, TRAIN.replace("args.epochs", "1")), *NEEDS_REPORT]),
    "ignores --lr": ("trains_on_cpu", 1.5, [(TRAIN, TRAIN.replace(", args.lr", "")), *NEEDS_REPORT]),
    "one epoch alone goes well": ("trains_on_cpu", 1.0, [(TRAIN, f"    [0][args.epochs - 1]\n{TRAIN}")]),
    "text for a rate": ("trains_on_cpu", 0.0, [
        ("default=LEARNING_RATE, type=float", "default=LEARNING_RATE"), ("train=True, t", "train=False, t"),
    ]),
    "tests in training mode": ("eval_mode", 0.5, [
        (EVALUATE, "    model.train()\n    right = [(model(x).argmax(1) == y).sum().item() for x, y in test_loader]\n"
                   "    accuracy = sum(right) / len(test_data)\n"),
        *NEEDS_REPORT,
    ]),
    "reports the last loss": ("returns_mean_loss", 0.5, [('"losses": losses,', '"losses": losses[-1:],'), *DEVICE_IS_TEXT]),
    "ignores get_device()": ("device_agnostic", 1.0, [
        ('get_device() if args.device == "auto" else torch.device(args.device)', 'torch.device("cpu")'), *NEEDS_REPORT,
    ]),
}  # fmt: skip


@pytest.mark.parametrize("name", HIDDEN)
def test_a_crash_for_want_of_an_option_hides_nothing(name: str, tmp_path: Path, box: Box) -> None:
    check, points, edits = HIDDEN[name]
    (exercise,) = graded(changed(tmp_path, *edits), EXERCISE, box, checks=[check]).exercises
    assert [one.points for one in exercise.checks if one.id == check] == [points]


# Scripts that may do without their options, or have what they lack elsewhere.
WITH_FEW_OPTIONS: dict[str, Edits] = {
    "data has to be named": [('"--data", default="data"', '"--data", required=True')],
    "large batches alone": [
        ("default=BATCH_SIZE", "default=512"), ("args.batch_size, shuffle=True)", "args.batch_size, drop_last=True)"),
    ],
    "a report in a folder of one's own": [
        (REPORT_OPTION, f'{REPORT_OPTION}, default="my_reports/fashion.json"'),
        ("        Path(args.report).parent.mkdir(parents=True, exist_ok=True)\n", ""),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", WITH_FEW_OPTIONS)
def test_defaults_may_be_for_larger_data_and_a_folder_of_ones_own(
    name: str, tmp_path: Path, box: Box
) -> None:
    folder = changed(tmp_path, *WITH_FEW_OPTIONS[name])
    (exercise,) = graded(folder, EXERCISE, box, checks=["no_cuda_needed"]).exercises
    (one,) = (one for one in exercise.checks if one.id == "no_cuda_needed")
    assert (one.points, one.message) == (1.0, "")


# What costs nothing, and is told by trains_on_cpu.
TOLD: dict[str, tuple[str, Edits]] = {
    "half": ("on 20 of the 40 training pictures, and makes no use", [
        (LOADER, f"    train_data = torch.utils.data.Subset(train_data, range(len(train_data) // 2))\n{LOADER}"),
    ]),
    "graphs": ("loss.item(), a number", [
        ("loss_sum += loss.item() * len(labels)", "loss_sum += loss * len(labels)"),
        ("losses.append(loss_sum / n_items)", "losses.append(float(loss_sum / n_items))"),
    ]),
}  # fmt: skip


@pytest.mark.parametrize("name", TOLD)
def test_pictures_and_memory_that_are_wasted_are_told(name: str, tmp_path: Path, box: Box) -> None:
    words, edits = TOLD[name]
    (exercise,) = graded(changed(tmp_path, *edits), EXERCISE, box, checks=["trains_on_cpu"]).exercises
    (one,) = (one for one in exercise.checks if one.id == "trains_on_cpu")
    assert one.points == one.max_points
    assert words in one.message


class Told:
    """As much of a check as is asked for here."""

    points = 2.0

    def expect(self, holds: object, message: str, hint: str = "", *, points: float = 0.0) -> None:
        """End as a check does."""
        if not holds:
            raise Failed(message, hint, points)


TRAINED = Call(
    2, "cpu", True, True, True, weights=0, copied=False, modal=True, gradient="gone", stepped=False
)
TESTED = replace(TRAINED, training=False, grad=False, trained=False)


def calls(*noted: Call) -> Calls:
    """These calls, of no pictures in particular."""
    n = sum(call.size for call in noted)
    return Calls(noted, np.zeros((n, 784), np.float32), np.zeros((n, 10), np.float32))


def seen(written: bool | None = False, others: int = 0) -> RankOutcome:
    """What else a probe noted of a script."""
    return RankOutcome(True, {"script/written": written, "other_calls": others}, {})


@pytest.mark.parametrize(
    ("outcome", "found", "is_told"),
    [
        (seen(), calls(*[TRAINED] * 3, TESTED), True),
        (seen(True), calls(*[TRAINED] * 3, TESTED), False),
        (seen(None), calls(*[TRAINED] * 3, TESTED), False),
        (seen(others=1), calls(*[TRAINED] * 3, TESTED), False),
        (seen(), calls(*[TRAINED] * 2, TESTED), False),
        (seen(), calls(*[replace(TRAINED, gradient="kept")] * 9), False),
        (seen(), calls(*[replace(TRAINED, gradient="")] * 9), False),
        (seen(), calls(*[replace(TRAINED, weights=None)] * 9), False),
        (seen(), calls(*[TRAINED] * 3, replace(TESTED, weights=1)), False),
        (seen(), calls(TESTED), False),
    ],
)
def test_only_a_script_that_writes_to_no_weight_learns_nothing(
    outcome: RankOutcome, found: Calls, is_told: bool
) -> None:
    assert fails(lambda check: loops.learns(check, "script", outcome, found)) is is_told


@pytest.mark.parametrize(
    ("kept", "cleared", "unseen", "is_told"),
    [(9, 0, 0, True), (8, 1, 0, True), (3, 2, 0, True), (2, 0, 0, False), (5, 5, 0, False), (0, 0, 9, False)],
)
def test_gradients_that_most_steps_leave_there_are_told(
    kept: int, cleared: int, unseen: int, is_told: bool
) -> None:
    noted = [
        *[replace(TRAINED, stepped=True, gradient="kept")] * kept,
        *[replace(TRAINED, stepped=True)] * cleared,
        *[replace(TRAINED, gradient="kept")] * unseen,
    ]
    assert fails(lambda check: loops.clears_gradients(check, "script", calls(*noted))) is is_told


def fails(judge: Callable[[Check], None]) -> bool:
    """Whether a rule ends a check."""
    try:
        judge(cast(Check, Told()))
    except Failed:
        return True
    return False


# Pictures of noise, which are like no other.
TEST, TRAINING = (np.random.default_rng(seed).integers(0, 256, (6, 784)).astype(np.uint8) for seed in (0, 1))


def shown(pictures: Array, *numbers: int) -> Array:
    """These pictures as rows."""
    return pictures[list(numbers)].astype(np.float32)


def answers(*classes: int) -> Array:
    """Logits for which these classes are the right ones."""
    return np.eye(10, dtype=np.float32)[list(classes)]


def test_passes_end_with_a_batch_of_another_size() -> None:
    sizes = (2, 2, 1, 2, 1)
    noted = [replace(TESTED if i != 3 else TRAINED, size=size) for i, size in enumerate(sizes)]
    rows = np.concatenate([shown(TEST, 0, 1, 2, 3, 4), shown(TRAINING, 0, 1), shown(TEST, 5)])
    found = Calls(tuple(noted), rows, answers(*range(8)))
    assert [one.numbers.tolist() for one in answered.passes(found, TEST, 2)] == [[0, 1, 2, 3, 4], [5]]
    last = answered.since_training(found, TEST)
    assert last is not None
    assert last.numbers.tolist() == [5]
    assert last.right(np.array([0, 0, 0, 0, 0, 7])) == (1, 1)


def test_a_picture_that_got_two_answers_has_none() -> None:
    rows = np.concatenate([shown(TRAINING, 0, 1), shown(TEST, 0, 1), shown(TEST, 1, 0)])
    for again, is_known in ((3, True), (4, False)):
        found = Calls((TRAINED, TESTED, TESTED), rows, answers(0, 0, 2, 3, again, 2))
        assert (answered.since_training(found, TEST) is not None) is is_known


@pytest.mark.parametrize(
    ("noted", "rows", "is_known"),
    [
        ((TRAINED, TESTED), [shown(TRAINING, 0, 1), shown(TEST, 0, 1)], True),
        ((TRAINED, TESTED), [shown(TRAINING, 0, 1), shown(TRAINING, 1, 0)], True),
        ((TRAINED, TESTED), [shown(TRAINING, 0, 1), shown(TRAINING, 1, 2)], False),
        ((TESTED, TRAINED), [shown(TRAINING, 0, 1), shown(TRAINING, 0, 1)], False),
        ((TRAINED, TESTED), [shown(TRAINING, 0, 1), -shown(TEST, 0, 1)], False),
        ((TRAINED, TESTED), [-shown(TRAINING, 0, 1), shown(TEST, 0, 1)], True),
    ],
)
def test_what_was_not_trained_on_before_may_be_for_validation(
    noted: tuple[Call, ...], rows: list[Array], is_known: bool
) -> None:
    found = Calls(noted, np.concatenate(rows), answers(0, 0, 0, 0))
    assert answered.only_known(found, TEST, TRAINING) is is_known
