"""The grader of exercise 5: old spellings, every reading of accuracy, and forged answers."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest import mock

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from torchmetrics import MeanMetric
from torchmetrics.functional.classification import multiclass_accuracy

from fixtures import build
from graders.lightning_train import expected, figures, modes, runs
from graders.lightning_train.learning import comes_down, piles_up, share_left
from graders.lightning_train.probe.logged import Constants
from graders.lightning_train.probe.multiplied import Multiplied
from graders.lightning_train.probe.piling import Piling
from lockstep.check import Check
from lockstep.crossentropy import softmax
from lockstep.result import CheckResult
from lockstep.sandbox.box import Box
from lockstep.sandbox.lightning_spellings import EXPLAINED
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.sandbox.spec import RunSpec
from lockstep.verdict import CheckEnded, Verdict
from lockstep.wire import Array, Json
from tests.forging import forgery, taken_in
from tests.made_up import end_of
from tests.samples import edited, graded

EXERCISE = "lightning_train"
SAMPLES = build.all_submissions(EXERCISE)


def changed(folder: Path, *edits: tuple[str, str]) -> Path:
    """The reference with a few words replaced, each of which occurs once."""
    return edited(EXERCISE, folder, *edits)


def checks_of(folder: Path, box: Box, *names: str) -> dict[str, CheckResult]:
    """The checks of one submission, by id."""
    (exercise,) = graded(folder, EXERCISE, box, checks=names).exercises
    return {check.id: check for check in exercise.checks}


def test_old_spellings_are_explained_and_cost_nothing(tmp_path: Path, box: Box) -> None:
    (sample,) = (sample for sample in SAMPLES if sample.name == "old_spellings")
    checks = checks_of(build.build(sample, tmp_path), box)
    assert [check.id for check in checks.values() if check.points < check.max_points] == []
    told = " ".join(check.message for check in checks.values())
    for key in (
        "gpus accelerator precision progress_bar checkpoint_callback weights_summary train_dataloader epoch_end "
        "metrics task hparams moved checkpoint"
    ).split():
        assert told.count(EXPLAINED[key].split(":")[0]) == 1, key


DROPOUT = ("            nn.Flatten(),", "            nn.Dropout(0.2), nn.BatchNorm2d(32), nn.Flatten(),")
ONE_CALL = "        loss = F.cross_entropy(self(images), labels)\n        self.log"
MODES = {
    "several passes, each with other units dropped": (
        "        logits = self(images)\n",
        "        self.train()\n        logits = torch.stack([self(images) for _ in range(3)]).mean(dim=0)\n",
    ),
    "a look at the accuracy on the way": (
        ONE_CALL,
        f"        self.eval()\n        sure = self(images).detach().max()\n        self.train()\n"
        f"        self.log('sure', sure)\n{ONE_CALL}",
    ),
    "a part that is frozen": (
        ONE_CALL,
        f"        self.eval()\n        self.network[0].requires_grad_(False)\n{ONE_CALL}",
    ),
}


@pytest.mark.parametrize("edit", MODES.values(), ids=MODES)
def test_who_has_a_reason_for_the_other_mode_loses_nothing(
    edit: tuple[str, str], tmp_path: Path, box: Box
) -> None:
    checks = checks_of(changed(tmp_path, DROPOUT, edit), box, "validation_logged", "learns")
    assert [check.message for check in checks.values() if check.points < check.max_points] == []


def test_one_mistake_more_earns_no_more(tmp_path: Path, box: Box) -> None:
    find = '{"val_loss": F.cross_entropy(logits, labels), "val_acc": accuracy}'
    logged = (find, '{"val_loss": 0.5}')
    mode = ("        logits = self(images)\n", "        self.train()\n        logits = self(images)\n")
    checks = checks_of(changed(tmp_path, DROPOUT, logged, mode), box, "validation_logged")
    assert [check.points for check in checks.values()] == [0.0]


def test_noise_on_pictures_that_are_shared_out_costs_nothing(tmp_path: Path, box: Box) -> None:
    (sample,) = (sample for sample in SAMPLES if sample.name == "noise_on_every_picture")
    file = build.build(sample, tmp_path) / "lightning_train.py"
    file.write_text(file.read_text().replace('"use_distributed_sampler": False, ', ""))
    checks = checks_of(tmp_path, box, "data", "two_ranks")
    assert {(check.verdict, check.message) for check in checks.values()} == {(Verdict.PASSED, "")}


def test_pictures_that_are_kept_in_memory_for_validation_may_be_of_the_training_part(
    tmp_path: Path, box: Box
) -> None:
    find = "        self.val_data = datasets.FashionMNIST(self.data, train=False, transform=transform)\n"
    replace = """
        n = len(self.train_data) * 4 // 5
        self.val_data = [self.train_data[i] for i in range(n, len(self.train_data))]
        self.train_data = torch.utils.data.Subset(self.train_data, range(n))
"""
    checks = checks_of(changed(tmp_path, (find, replace)), box, "data", "two_ranks")
    assert {(check.verdict, check.message) for check in checks.values()} == {(Verdict.PASSED, "")}


def test_pictures_that_are_kept_as_tensors_may_be_shuffled(tmp_path: Path, box: Box) -> None:
    opened = "        self.train_data = datasets.FashionMNIST(self.data, train=True, transform=transform)\n"
    kept = f"""{opened}        self.train_data = torch.utils.data.TensorDataset(
            torch.stack([image for image, _ in self.train_data]), torch.tensor([label for _, label in self.train_data])
        )
"""
    checks = checks_of(changed(tmp_path, (opened, kept)), box, "data", "two_ranks", "script")
    assert {(check.verdict, check.message) for check in checks.values()} == {(Verdict.PASSED, "")}


def test_the_likelihood_of_probabilities_is_a_loss(tmp_path: Path, box: Box) -> None:
    folder = changed(
        tmp_path,
        ("        logits = self(images)\n", "        logits = self(images).softmax(dim=1)\n"),
        ("F.cross_entropy(logits, labels)", "F.nll_loss(logits.log(), labels)"),
    )
    checks = checks_of(folder, box, "validation_logged")
    assert checks["validation_logged"].verdict is Verdict.PASSED


@pytest.mark.parametrize(
    ("argument", "spelling"),
    [
        ('"tpu_cores": 8', "tpu_cores"),
        ('"num_processes": 2', "num_processes"),
        ('"distributed_backend": "ddp"', "distributed_backend"),
        ('"auto_lr_find": True, "resume_from_checkpoint": None', "dropped"),
        ('"replace_sampler_ddp": True', "renamed"),
    ],
)
def test_arguments_of_old_trainers_are_explained(
    argument: str, spelling: str, tmp_path: Path, box: Box
) -> None:
    checks = checks_of(
        changed(tmp_path, ("    settings = {", "    settings = {" + argument + ", ")), box, "trainer_flags"
    )
    assert checks["trainer_flags"].verdict is Verdict.PASSED
    assert EXPLAINED[spelling] in checks["trainer_flags"].message


def test_a_file_that_cannot_be_read_is_told_once(tmp_path: Path, box: Box) -> None:
    checks = checks_of(changed(tmp_path, ("import argparse\n", "import argparse,\n")), box)
    assert checks.pop("training_step_loss").verdict is Verdict.CRASHED
    assert {check.verdict for check in checks.values()} == {Verdict.NOT_CHECKED}


def test_a_class_that_is_no_module_is_told_once(tmp_path: Path, box: Box) -> None:
    edit = ("class LitFashion(pl.LightningModule):", "class LitFashion(nn.Module):")
    checks = checks_of(changed(tmp_path, edit), box)
    first = checks.pop("training_step_loss")
    assert first.verdict is Verdict.FAILED
    assert "derived from LightningModule" in first.message
    assert {check.verdict for check in checks.values()} == {Verdict.NOT_CHECKED}


@pytest.mark.parametrize(
    ("odd", "odd_array"),
    [
        ("{'train': [[None]], 'val': ['x'], 'limited': 1}", "torch.full((8, 10), 1e38)"),
        pytest.param(
            "[{'loss': 2.302585, 'output': 'a float32 tensor', 'loss_is': 'a tensor', 'graph': True}]",
            "torch.ones(8, 10)",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_forged_answers_earn_nothing_and_break_nothing(
    odd: str, odd_array: str, tmp_path: Path, box: Box
) -> None:
    forged = forgery(odd, odd_array, spared="is_class")
    checks = checks_of(
        changed(tmp_path, ("import argparse\n", f"import argparse\nimport torch\n{forged}")), box
    )
    assert taken_in(checks.values()) == []


def logits(seed: int, n: int = 8) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 10)), rng.integers(0, 10, n)


def test_the_loss_is_recognised_in_what_it_was_computed_from() -> None:
    for seed in range(30):
        values, labels = logits(seed)
        right = float(cross_entropy(torch.from_numpy(values), torch.from_numpy(labels)))
        logs = np.log(softmax(values))
        for seen in ({0: values}, {0: values, 1: logs}, {0: logs, 3: softmax(logs)}):
            found = expected.find(seen, labels, right)
            assert 0 in found.matching
            assert not found.summed
        assert expected.find({0: values}, labels, 8 * right).summed
        for wrong in (right / 8, right + 0.05, 0.0, -right):
            assert not expected.find({0: values}, labels, wrong).matching


def test_the_judge_repeats_the_numbers_of_the_probe() -> None:
    # Read and not imported: they lie in several of its files.
    files = (build.ROOT / "graders" / EXERCISE / "probe").glob("*.py")
    probe = "\n".join(file.read_text() for file in files)
    numbers = dict(re.findall(r"^([A-Z_]+) = (\d+)\b", probe, re.MULTILINE))
    assert {name: int(numbers[name]) for name in ("BATCH_SIZE", "CLASSES", "MAX_MODES", "MAX_SEEN")} == {
        "BATCH_SIZE": runs.LOADED_BY,
        "CLASSES": expected.CLASSES,
        "MAX_MODES": modes.MAX_MODES,
        "MAX_SEEN": expected.MAX_SEEN,
    }


def test_the_gradient_is_torch_s() -> None:
    values, labels = logits(0)
    leaf = torch.from_numpy(values).requires_grad_()
    cross_entropy(leaf, torch.from_numpy(labels)).backward()  # type: ignore[no-untyped-call]
    assert leaf.grad is not None
    np.testing.assert_allclose(expected.gradient(values, labels), leaf.grad.numpy(), atol=1e-12)


def test_the_mean_over_classes_is_torchmetrics() -> None:
    for seed in range(20):
        values, labels = logits(seed, 16)
        own = multiclass_accuracy(torch.from_numpy(values), torch.from_numpy(labels), num_classes=10)
        assert expected.mean_of_classes([values.argmax(axis=1)], [labels]) == pytest.approx(float(own))


def losses_of(seed: int, dropout: float, optimizer: Callable[..., torch.optim.Optimizer]) -> list[float]:
    """The losses of two epochs in which a small network drops the same units in the same batch."""
    data = expected.make_data(np.random.default_rng(seed), 160)
    images, labels = torch.from_numpy(data.images).flatten(1).split(8), torch.from_numpy(data.labels).split(8)
    torch.manual_seed(1000 + seed)
    layers = torch.nn.Linear(784, 32), torch.nn.ReLU(), torch.nn.Dropout(dropout), torch.nn.Linear(32, 10)
    network = torch.nn.Sequential(*layers)
    steps = optimizer(network.parameters())
    losses = []
    for _ in range(2):
        for number, (rows, wanted) in enumerate(zip(images, labels, strict=True)):
            torch.manual_seed(number)
            loss = cross_entropy(network(rows), wanted)
            steps.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            steps.step()
            losses.append(float(loss.detach()))
    return losses


@pytest.mark.parametrize(
    ("optimizer", "learns"),
    [
        (lambda weights: torch.optim.SGD(weights, lr=1e-3), True),
        (lambda weights: torch.optim.SGD(weights, lr=1e-4), True),
        (lambda weights: torch.optim.SGD(weights, lr=1e-3, momentum=0.9, weight_decay=5e-4), True),
        (lambda weights: torch.optim.Adam(weights, lr=1e-5), True),
        (lambda weights: torch.optim.Adam(weights, lr=1e-2), True),
        (lambda weights: torch.optim.Adam(weights, lr=1e-9), False),
        (lambda weights: torch.optim.SGD(weights, lr=1e-9, momentum=0.9), False),
        (lambda weights: torch.optim.SGD(weights, lr=0.0), False),
        (lambda weights: torch.optim.SGD(weights, lr=1e-3, maximize=True), False),
        (lambda weights: torch.optim.SGD(weights, lr=1e6), False),
    ],
)
def test_whatever_goes_downhill_learns_and_nothing_else(
    optimizer: Callable[..., torch.optim.Optimizer], learns: bool
) -> None:
    for seed in range(12):
        assert comes_down(losses_of(seed, 0.5, optimizer), 2) is learns, seed


@pytest.mark.parametrize(
    ("means", "learns"),
    [
        ((2.0, 1.9), True),
        ((1.7, 2.2, 1.0, 0.3), True),  # uphill first
        ((2.0, 2.0), False),
        ((2.0, 2.1, 2.05), False),
        ((2.0, 2.0 - 3e-5, 2.0 - 6e-5), False),
        ((2.0, 2.0 - 5e-5), True),
        ((2.0, float("nan")), False),
    ],
)
def test_a_later_epoch_has_a_lower_loss(means: tuple[float, ...], learns: bool) -> None:
    assert comes_down([mean for mean in means for _ in range(4)], len(means)) is learns


def test_what_has_blown_up_and_falls_again_does_not_learn() -> None:
    assert not comes_down([2.3, 900.0, 400.0, 400.0], 2)


def stayed(clear: Callable[[torch.optim.Optimizer, int], None], *, at_last: bool = False) -> list[bool]:
    """What is noted of twelve steps of a loop written by hand that clears gradients before each backward, or after it."""
    piling = Piling()
    network = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for number in range(12):
        if not at_last:
            clear(optimizer, number)
        piling.backward()
        network(torch.randn(4, 3)).square().mean().backward()
        piling.step(optimizer)
        optimizer.step()
        if at_last:
            clear(optimizer, number)
    return piling.stayed


def by_data(optimizer: torch.optim.Optimizer, number: int) -> None:
    for value in optimizer.param_groups[0]["params"]:
        if value.grad is not None:
            value.grad.data.zero_()


def by_a_tenth(optimizer: torch.optim.Optimizer, number: int) -> None:
    for value in optimizer.param_groups[0]["params"]:
        if value.grad is not None:
            value.grad.mul_(0.1)


def after_three(optimizer: torch.optim.Optimizer, number: int) -> None:
    if number % 3 == 2:
        optimizer.zero_grad()


def never(optimizer: torch.optim.Optimizer, number: int) -> None:
    pass


def piled(noted: list[bool]) -> bool:
    return piles_up(RankOutcome(True, {"stayed": list[Json](noted)}, {}))


@pytest.mark.parametrize(
    "clear",
    [lambda optimizer, number: optimizer.zero_grad(set_to_none=False), by_data, by_a_tenth, after_three],
)
@pytest.mark.parametrize("at_last", [False, True])
def test_whatever_clears_gradients_now_and_then_is_fine(
    clear: Callable[[torch.optim.Optimizer, int], None], at_last: bool
) -> None:
    assert not piled(stayed(clear, at_last=at_last))


def test_gradients_that_nothing_clears_pile_up() -> None:
    assert stayed(never) == 11 * [True]
    assert piled(stayed(never))


def test_two_optimizers_that_take_turns_are_fine() -> None:
    piling = Piling()
    networks = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    optimizers = [torch.optim.SGD(network.parameters(), lr=0.1) for network in networks]
    for _ in range(12):
        for network, optimizer in zip(networks, optimizers, strict=True):
            optimizer.zero_grad()
            piling.backward()
            network(torch.randn(4, 3)).square().mean().backward()
            piling.step(optimizer)
            optimizer.step()
    assert len(piling.stayed) == 22
    assert not any(piling.stayed)


def left(noted: list[bool], *, automatic: bool = True) -> tuple[int, int] | None:
    return share_left(RankOutcome(True, {"stayed": list[Json](noted), "automatic": automatic}, {}))


def by_lightning(
    clears: Callable[[int], bool], steps: Callable[[int], bool] = lambda number: True
) -> list[bool]:
    """What is noted of forty batches of Lightning's loop, where hooks say in which batches it clears and steps."""
    piling = Piling()
    network = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for number in range(40):
        if clears(number):
            optimizer.zero_grad()
        piling.backward()
        network(torch.randn(4, 3)).square().mean().backward()
        if steps(number):
            optimizer.step()
            piling.step(optimizer)
    return piling.stayed


def test_gradients_that_a_hook_clears_too_rarely_are_left() -> None:
    assert left(by_lightning(lambda number: number % 4 == 0)) == (30, 39)
    assert left(by_lightning(lambda number: False)) == (39, 39)


@pytest.mark.parametrize("late", [0, 1])
def test_who_adds_up_batches_for_one_step_leaves_nothing(late: int) -> None:
    noted = by_lightning(lambda number: number % 4 == late, lambda number: number % 4 == 3)
    assert noted == 9 * [False]


def test_few_gradients_that_are_left_say_nothing() -> None:
    assert left([True] * 5) is None
    assert left([True] * 6 + [False] * 7) is None
    assert left([True] * 20, automatic=False) is None
    assert share_left(RankOutcome(True, {"stayed": "True", "automatic": True}, {})) is None


def test_gradients_that_the_probe_keeps_from_being_cleared_say_nothing() -> None:
    values: dict[str, Json] = {"stayed": [True] * 20, "automatic": True, "manual": ["zero_grad()"]}
    assert share_left(RankOutcome(True, values, {})) is None


def logged(name: str, values: list[object]) -> dict[str, Json]:
    constants = Constants()
    for value in values:
        constants.note(name, value)
    return constants.found()


@pytest.mark.parametrize("value", [0.01, 1, torch.tensor(0.01), torch.tensor([0.01], requires_grad=True)])
def test_one_number_in_every_step_is_noted(value: object) -> None:
    assert set(logged("train_loss", 20 * [value])) == {"train_loss"}


@pytest.mark.parametrize(
    "values",
    [[0.01] * 5, [0.01] * 19 + [0.02], [float("nan")] * 20, [MeanMetric()] * 20, [torch.zeros(2)] * 20, [True] * 20],
)  # fmt: skip
def test_what_is_not_clearly_constant_is_not_noted(values: list[object]) -> None:
    assert logged("train_loss", values) == {}


def multiplied(
    value: Callable[[float, int], object], *, times: int = 20, reduced_by: object = "mean", every: int = 1
) -> dict[str, Json]:
    """What is noted of losses that fall, of batches of 8 and of 4 in turn, where every so many steps log one figure."""
    noted = Multiplied()
    for number in range(times):
        loss, size = 2.3 - 0.1 * number, (8, 4)[number % 2]
        if number % every == 0:
            noted.note("train_loss", value(loss, size), reduced_by)
        noted.step(torch.tensor(loss), size)
    return noted.found()


def test_a_sum_over_the_batch_is_noted() -> None:
    assert list(multiplied(lambda loss, size: torch.tensor(loss * size))) == ["train_loss"]
    assert list(multiplied(lambda loss, size: loss * size, times=22, every=2)) == ["train_loss"]


@pytest.mark.parametrize(
    "value",
    [
        lambda loss, size: loss,
        lambda loss, size: loss * 8,
        lambda loss, size: loss * size + 0.1,
        lambda loss, size: loss * size / 64,
        lambda loss, size: float("nan"),
        lambda loss, size: MeanMetric(),
    ],
)
def test_other_figures_are_no_sums_over_the_batch(value: Callable[[float, int], object]) -> None:
    assert multiplied(value) == {}


def test_sums_that_are_to_be_added_up_or_that_are_few_are_not_noted() -> None:
    assert multiplied(lambda loss, size: loss * size, reduced_by="sum") == {}
    assert multiplied(lambda loss, size: loss * size, times=10) == {}


@pytest.mark.parametrize(
    ("name", "returned", "told", "costs"),
    [
        ("train_loss", 2.3, [18.4, 2.3, 8], True),
        ("train_loss_sum", 2.3, [18.4, 2.3, 8], False),
        # The mean over as many batches, which make a step together.
        ("train_loss", 0.29, [2.3, 0.2875, 8], False),
        ("train_loss", 2.3, [18.4, 2.3], False),
        ("train_loss", 2.3, "18.4", False),
        ("train_loss", 2.3, [18.4, None, 8], False),
    ],
)
def test_a_training_loss_is_no_sum(name: str, returned: float, told: Json, costs: bool) -> None:
    seen = RankOutcome(True, {"multiplied": {name: told}, "steps": [{"loss": returned}]}, {})
    check = SimpleNamespace(points=1.0, fail=mock.Mock())
    figures.logs_no_sum(cast(Check, check), seen, "the script")
    assert check.fail.called is costs


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("train_loss", True), ("loss", True), ("Loss/train", True), ("train/loss_step", True), ("training_loss", True),
        ("val_loss", False), ("loss_scale", False), ("aux_loss", False), ("train_loss_weight", False), ("best_loss", False),
    ],
)  # fmt: skip
def test_a_training_loss_is_known_by_its_name(name: str, is_one: bool) -> None:
    assert (figures.TRAINING_LOSS.fullmatch(name) is not None) is is_one


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("train_loss", True), ("Loss/train", True), ("training_loss_epoch", True),
        # What both parts of a training may log.
        ("loss", False), ("loss_epoch", False), ("batch_loss", False), ("train_val_gap", False), ("val_loss", False),
    ],
)  # fmt: skip
def test_a_loss_is_of_training_where_its_name_says_so(name: str, is_one: bool) -> None:
    assert figures.is_of_training(name) is is_one


@pytest.mark.parametrize(
    ("name", "mode", "said"),
    [
        ("val_acc", "min", "smallest accuracy"),
        ("val/accuracy", "min", "smallest accuracy"),
        ("val_loss", "max", "largest loss"),
        ("Loss/val", "max", "largest loss"),
        ("val_acc", "max", ""),
        ("val_loss", "min", ""),
        ("val_acc_error", "min", ""),
        ("val_acc_gap", "min", ""),
        ("val_neg_loss", "max", ""),
        ("epoch", "max", ""),
    ],
)
def test_a_callback_is_told_which_way_is_better(name: str, mode: str, said: str) -> None:
    seen = RankOutcome(True, {"monitors": [["ModelCheckpoint", name, mode]]}, {})
    check = SimpleNamespace(points=1.0, fail=mock.Mock())
    figures.watches_the_right_way(cast(Check, check), seen, "the script")
    assert [said in call.args[0] for call in check.fail.call_args_list] == ([True] if said else [])


PLATEAU = """optimizer = torch.optim.Adam(self.parameters(), lr=self.hparams.lr)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "monitor": "val_acc"}}

    def lr_scheduler_step(self, scheduler: Any, metric: Any) -> None:
        scheduler.step(1 - metric)"""


def test_a_hook_may_turn_what_a_scheduler_watches(tmp_path: Path, box: Box) -> None:
    edit = ("return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)", PLATEAU)
    assert checks_of(changed(tmp_path, edit), box, "script")["script"].verdict is Verdict.PASSED


Figure = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def validated(spec: RunSpec, name: str, figure: Figure) -> Outcome:
    """A validation on two processes, of a network that guesses, with one figure beside the loss.

    `figure` is given logits (6, 8, 10) and labels (6, 8) of the batches, those of rank 0 first. In training, of a batch
    on each, it has answered all.
    """
    given = spec.ranks[0]
    trained, labels = np.split(given.arrays["labels"], [given.values["split"]])
    hashes: list[Json] = [expected.hash_of(image) for image in given.arrays["images"][: len(trained)]]
    shared = np.concatenate([labels[rank::2] for rank in (0, 1)]).reshape(6, 8)
    values = (
        np.random.default_rng(int(labels @ np.arange(len(labels)))).normal(size=(6, 8, 10)).astype(np.float32)
    )
    both = torch.from_numpy(values), torch.from_numpy(shared)
    metrics: dict[str, Json] = {
        "val_loss": float(cross_entropy(both[0].flatten(0, 1), both[1].flatten())),
        name: float(figure(*both)),
    }
    logged: list[Json] = [["validating", each, True, False] for each in metrics]
    ranks = [
        RankOutcome(
            complete=True,
            values={"metrics": metrics, "logged": logged, "hashes": {"train": hashes[rank::2]}},
            arrays={
                "train0/seen0": np.eye(10, dtype=np.float32)[trained[rank::2]],
                **{f"val{batch}/seen0": values[3 * rank + batch] for batch in range(3)},
            },
        )
        for rank in (0, 1)
    ]
    return Outcome(tuple(ranks), elapsed=1.0)


LOSS = """        self.log("train_loss", loss, prog_bar=True)
        return loss
"""
BY_HAND = (
    "        self.save_hyperparameters()\n",
    "        self.save_hyperparameters()\n        self.automatic_optimization = False\n",
)
OPTIMIZER = "    def configure_optimizers(self)"
FIT = "    trainer.fit(model, datamodule=data)\n"
MUON = (
    "        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)\n",
    """\
        matrices = [p for p in self.parameters() if p.ndim == 2]
        others = [p for p in self.parameters() if p.ndim != 2]
        return [torch.optim.Muon(matrices, lr=2e-3), torch.optim.Adam(others, lr=self.hparams.lr)]
""",
)
STEPS = """\
        self.zero_grad()
        self.manual_backward(loss)
        for optimizer in self.optimizers():
            optimizer.step()
        return loss
"""
CLOSURES = """\
        def closure():
            self.zero_grad()
            loss = F.cross_entropy(self(images), labels)
            self.manual_backward(loss)
            return loss

        for optimizer in self.optimizers():
            optimizer.step(closure)
        return loss.detach()
"""


@pytest.mark.parametrize("steps", [STEPS, CLOSURES], ids=["steps", "closures"])
def test_an_optimizer_may_compute_in_bfloat16(steps: str, tmp_path: Path, box: Box) -> None:
    check = checks_of(changed(tmp_path, BY_HAND, (LOSS, steps), MUON), box, "precision")["precision"]
    assert (check.verdict, check.message) == (Verdict.PASSED, "")


@pytest.mark.parametrize(
    ("checks", "edits"),
    [
        pytest.param(["training_step_loss", "learns"], [BY_HAND, (LOSS, """        self.manual_backward(loss)
        self.optimizers().step()
        self.optimizers().zero_grad()
        return loss.detach()
""")], id="cleared behind the step"),
        pytest.param(["training_step_loss", "learns"], [BY_HAND, (LOSS, """        self.manual_backward(loss / 2)
        if batch_idx % 2 == 1:
            self.optimizers().step()
            self.optimizers().zero_grad()
        return loss
""")], id="two batches for a step"),
        pytest.param(["learns"], [(OPTIMIZER, f"""    def optimizer_zero_grad(self, epoch, batch_idx, optimizer):
        if batch_idx % 2 == 0:
            optimizer.zero_grad()

    def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure=None):
        if batch_idx % 2 == 1:
            optimizer.step(closure=optimizer_closure)
        else:
            optimizer_closure()

{OPTIMIZER}""")], id="two batches for a step, by hooks"),
        pytest.param(["data", "script"], [(FIT, f"""    from pytorch_lightning.tuner import Tuner
    if args.strategy == "auto":
        Tuner(trainer).lr_find(model, datamodule=data, num_training=9)
{FIT}""")], id="a search for the learning rate"),
        pytest.param(["data", "two_ranks", "script"], [(FIT, f"""    pl.Trainer(
        fast_dev_run=True, accelerator=args.accelerator, devices=args.devices, strategy=args.strategy
    ).fit(LitFashion(), datamodule=data)
{FIT}""")], id="a try before the training"),
        pytest.param(["data", "script"], [(FIT, f"""    if str(args.devices) == "1":
        pl.Trainer(fast_dev_run=50, accelerator=args.accelerator, devices=1).fit(model, datamodule=data)
{FIT}""")], id="a long try of the model that is trained"),
        pytest.param(["data", "script"], [(FIT, f"""    if str(args.devices) == "1":
        data.setup("fit")
        pl.Trainer(fast_dev_run=2, accelerator=args.accelerator, devices=1).fit(LitFashion(), data.val_dataloader())
{FIT}""")], id="a try of another model, on what is at hand"),
        pytest.param(["data", "script"], [(FIT, f"""{FIT}    if args.strategy == "auto":
        trainer.validate(model, dataloaders=data.train_dataloader(), verbose=False)
""")], id="a look at the accuracy of training"),
        pytest.param(["learns", "trainer_flags", "data", "script"], [
            ("torch.optim.Adam(self.parameters(), lr=self.hparams.lr)",
             "torch.optim.LBFGS(self.parameters(), lr=0.1, max_iter=3)"),
        ], id="an optimizer that asks for a batch several times"),
        pytest.param(["data", "script"], [
            ("nn.Conv2d(1, 16, kernel_size=3, padding=1),", "nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16),"),
            ("callbacks=[clock],", "callbacks=[clock, pl.callbacks.StochasticWeightAveraging(swa_lrs=1e-3)],"),
        ], id="an epoch for the batch norm of averaged weights"),
        pytest.param(["validation_logged"], [
            ('{"val_loss":', '{"val_loss_epoch":'), ('"val_acc": accuracy', '"val_acc_epoch": accuracy'),
        ], id="figures whose names end as those of epochs do"),
        pytest.param(["training_step_loss", "validation_logged"], [
            ("        return self.network(images)\n", """        hidden = self.network[:-1](images)
        return sum(self.network[-1](F.dropout(hidden, 0.5, self.training)) for _ in range(8)) / 8
"""),
        ], id="the mean of many logits"),
        pytest.param(["precision"], [
            ("nn.Linear(32 * 7 * 7, 10),", "nn.Identity(),"),
            ("            nn.Conv2d(1, 16, kernel_size=3, padding=1),\n", ""),
            ("            nn.Conv2d(16, 32, kernel_size=3, padding=1),\n", ""),
            ("        self.network = nn", "        self.matrix = nn.Parameter(torch.randn(49, 10) / 7)\n        self.network = nn"),
            ("return self.network(images)", 'return torch.einsum("np,pc->nc", self.network(images), self.matrix)'),
        ], id="a network of one einsum"),
        pytest.param(["learns", "script"], [
            ("return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)",
             "optimizer = torch.optim.Adam(self.parameters(), lr=self.hparams.lr)\n"
             "        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=40)]"),
        ], id="a schedule of forty epochs, as many as a check has batches"),
        pytest.param(["learns"], [
            ("return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)", """optimizer = torch.optim.Adam(self.parameters())
        steps = self.trainer.estimated_stepping_batches
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)]

    def on_train_batch_end(self, *_: Any) -> None:
        self.lr_schedulers().step()
"""),
        ], id="a schedule of batches that a hook steps"),
        pytest.param(["script"], [
            ('add_argument("--precision", ', 'add_argument("--precision", choices=["32-true", "16-mixed", "bf16-mixed"], '),
            ('"--logger", default="tensorboard", choices=["tensorboard", "wandb", "csv"]', '"--logger", default="wandb"'),
        ], id="choices, and a logger of W&B by default"),
        pytest.param(["script"], [
            ('        "lightning_logs", name="lightning_train"', '        os.path.expanduser("~/logs"), name="lightning_train"'),
            ("import argparse\n", "import argparse\nimport os\n"),
        ], id="logs in the home folder"),
    ],
)  # fmt: skip
def test_who_trains_by_hand_or_looks_around_loses_nothing(
    checks: list[str], edits: list[tuple[str, str]], tmp_path: Path, box: Box
) -> None:
    source = (build.ROOT / "reference" / "lightning_train.py").read_text()
    for old, new in edits:
        assert source.count(old) == 1
        source = source.replace(old, new)
    (tmp_path / "lightning_train.py").write_text(source)
    shutil.copy(build.ROOT / "reference" / "perf_report.py", tmp_path)
    (exercise,) = graded(tmp_path, EXERCISE, box, checks=checks).exercises
    assert [
        (c.id, c.message) for c in exercise.checks if c.id in checks and c.verdict is not Verdict.PASSED
    ] == []


@pytest.mark.parametrize("factor", ["2", "0.75"])
def test_a_factor_that_is_no_part_costs_points_by_hand_as_well(factor: str, tmp_path: Path, box: Box) -> None:
    source = (build.ROOT / "reference" / "lightning_train.py").read_text().replace(*BY_HAND)
    loop = f"        self.manual_backward(loss * {factor})\n        self.optimizers().step()\n        self.optimizers().zero_grad()\n"
    (tmp_path / "lightning_train.py").write_text(source.replace(LOSS, loop + LOSS))
    (exercise,) = graded(tmp_path, EXERCISE, box, checks=["training_step_loss"]).exercises
    (check,) = (each for each in exercise.checks if each.id == "training_step_loss")
    assert (check.verdict, check.points) == (Verdict.FAILED, 0)
    assert "but with another gradient" in check.message


def validation(name: str, figure: Figure) -> CheckEnded | None:
    """How the judge ends that is shown a figure of this name."""
    return end_of(EXERCISE, "validation_logged", lambda spec: validated(spec, name, figure))


def rights(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return (logits.argmax(dim=-1) == labels).float()


def losses(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")


def flat(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return (logits.flatten(1).argmax(dim=1)[:, None] == labels).float()


def of_classes(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return multiclass_accuracy(logits, labels, num_classes=10)


N_OF_CLASSES = torch.arange(64).remainder(10).bincount()  # balanced, of all 64 pictures


def with_training(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """By class, of a metric that holds the batches of training as well: the labels that they have left, all answered."""
    left = N_OF_CLASSES - labels.flatten().bincount(minlength=10)
    trained = torch.arange(10).repeat_interleave(left)
    answers = torch.cat([logits.argmax(dim=-1).flatten(), trained])
    return multiclass_accuracy(answers, torch.cat([labels.flatten(), trained]), num_classes=10)


@pytest.mark.parametrize(
    ("name", "figure"),
    [
        ("val_acc", lambda logits, labels: rights(logits, labels).mean()),
        ("val/acc", lambda logits, labels: 100 * rights(logits, labels).mean()),
        ("val_acc", lambda logits, labels: (logits.topk(5).indices == labels[..., None]).any(dim=-1).float().mean()),
        ("val_acc", lambda logits, labels: of_classes(logits.flatten(0, 1), labels.flatten())),
        ("val_acc", lambda logits, labels: torch.stack(list(map(of_classes, logits, labels))).mean()),
        # What nothing explains may have a reason, and a name tells what it is the name of.
        ("val_acc", lambda logits, labels: rights(logits, labels).mean() * 0.9 + 0.0377),
        ("val_acc_error", lambda logits, labels: 1 - rights(logits, labels).mean()),
        ("val_error", lambda logits, labels: 1 - rights(logits, labels).mean()),
        ("val_acc", lambda logits, labels: rights(logits, labels).mean().round(decimals=1)),
        ("val_acc", lambda logits, labels: (100 * rights(logits, labels).mean()).round(decimals=-1)),
        ("val_acc", lambda logits, labels: (rights(logits, labels).mean() - 0.1) / 0.9),
        ("val_acc", lambda logits, labels: rights(logits, labels).mean().square()),
        ("val_top5", lambda logits, labels: torch.tensor(0.5)),
        ("val_acc_per_64", lambda logits, labels: rights(logits, labels).mean() / 8),
        ("val_loss_std", lambda logits, labels: losses(logits, labels).std()),
        ("max_loss/val", lambda logits, labels: losses(logits, labels).max()),
        ("loss_gap", lambda logits, labels: losses(logits, labels).mean() - 2),
    ],
)  # fmt: skip
def test_every_reading_of_accuracy_is_one_and_so_are_other_figures(name: str, figure: Figure) -> None:
    assert validation(name, figure) is None


def test_beside_a_loss_others_have_names_of_their_own() -> None:
    right, same = (
        {"val_loss": 2.3, "val_acc": 0.2},
        {"valLoss": 2.3, "val_ce_loss": 2.3, "val_loss_epoch/0": 2.3},
    )
    others = {"val_hinge_loss": 0.9, "brier_loss": 0.8}
    assert figures.mean_losses({**right, **same, **others}) == {"val_loss": 2.3, **same}
    assert figures.mean_losses({**others, "val_loss_std": 0.1}) == others


@pytest.mark.parametrize("name", ["val_loss_epoch_mean", "val_ce_loss", "loss/minibatch"])
def test_what_is_called_a_loss_is_its_mean(name: str) -> None:
    ended = validation(name, lambda logits, labels: losses(logits, labels).std())
    assert ended is not None
    assert f"{name} " in ended.feedback.message


@pytest.mark.parametrize(
    ("name", "figure", "said"),
    [
        ("val_acc", lambda logits, labels: 1 - rights(logits, labels).mean(), "the share of wrong answers"),
        ("Accuracy/val", lambda logits, labels: 100 - 100 * rights(logits, labels).mean(), "the share of wrong answers"),
        ("val_accuracy", lambda logits, labels: rights(-logits, labels).mean(), "the smallest of the ten logits"),
        ("val_acc", lambda logits, labels: rights(logits, labels).sum(dim=-1).mean(), "the number of right answers"),
        ("val_acc", lambda logits, labels: rights(logits, labels).sum(), "the number of right answers"),
        ("val_acc", lambda logits, labels: torch.tensor(0.87), "val_acc is 0.87 every time"),
        ("val_acc", lambda logits, labels: rights(logits, labels).mean() / 8, "0.125 times the share of right answers"),
        ("val_acc", lambda logits, labels: 200 * rights(logits, labels).mean(), "200 times the share of right answers"),
        ("val_acc", lambda logits, labels: flat(logits, labels).mean(), "the largest of all logits of their batch"),
        ("val_acc", lambda logits, labels: rights(logits, labels)[[2, 5]].mean(), "in the last batch of every process"),
        ("val_acc", lambda logits, labels: (rights(logits, labels).sum() + 16) / 64, "training and of validation together"),
        ("val_acc", lambda logits, labels: with_training(logits, labels), "training and of validation together"),
    ],
)  # fmt: skip
def test_wrong_answers_are_no_accuracy(name: str, figure: Figure, said: str) -> None:
    ended = validation(name, figure)
    assert ended is not None
    assert ended.points == 0.5
    assert f"{name} is" in ended.feedback.message
    assert said in ended.feedback.message


@pytest.mark.parametrize(
    "odd",
    [
        np.zeros((8, 9), np.float32),
        np.zeros(80, np.float32),
        np.zeros((8, 10)),
        np.zeros((8, 10), np.int64),
        np.full((8, 10), np.inf, np.float32),
    ],
)
def test_forged_arrays_are_no_logits(odd: Array) -> None:
    good = np.zeros((8, 10), np.float32)
    rank = RankOutcome(True, {}, {"train0/seen0": good, "train0/seen1": odd})
    assert list(expected.seen_in(rank, "train0", 8)) == [0]


@pytest.mark.parametrize(
    "odd", [None, 1, "x", [], {}, {"train": None}, {"train": [None, "x", True, -1, 0, 2.5]}]
)
def test_forged_sizes_and_pictures_are_none(odd: Json) -> None:
    assert expected.counts(odd, "train") == []
    assert expected.items(odd, "train") == []
    rank = RankOutcome(True, {"items": odd, "sizes": odd, "hashes": None, "steps": odd}, {})
    assert expected.pictures(rank, "train") == []
    assert all(loss is None for loss in expected.step_losses(rank))


def test_pictures_go_by_number_or_by_content() -> None:
    rank = RankOutcome(
        True,
        {
            "sizes": {"train": [2]},
            "items": {"train": [["train", 0], ["test", 1]]},
            "hashes": {"train": [7, 8]},
        },
        {},
    )
    assert expected.pictures(rank, "train") == [("train", 0), ("test", 1)]
    again = RankOutcome(True, {**rank.values, "items": {"train": [["train", 0]]}}, {})
    assert expected.pictures(again, "train") == [("?", 7), ("?", 8)]
