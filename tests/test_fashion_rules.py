"""The grader of exercise 2: rules about a script's pictures, network and report, which say nothing when in doubt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fixtures import fashion_mnist
from graders.fashion_trainer import idx, network, twins
from graders.fashion_trainer.expected import Call, Calls
from graders.fashion_trainer.probe.layers import is_dense
from graders.fashion_trainer.report import losses_lost
from lockstep.wire import Array, Json
from tests.test_fashion_scripts import TESTED, TRAINED, calls, fails, seen

EPOCHS, N_TRAIN, N_TEST = 2, 8, 20
RANDOM = np.random.default_rng(7)
TREE = twins.with_twins(fashion_mnist.make_idx(RANDOM, N_TRAIN, N_TEST), RANDOM)
PARTS = {part: idx.pictures(TREE, part) for part in ("train", "t10k")}


def mirrored(pictures: Array, which: Array) -> Array:
    """These pictures, those that are marked with left for right."""
    square = pictures.reshape(-1, 28, 28)
    return np.where(which[:, None, None], square[:, :, ::-1], square).reshape(-1, 784).astype(np.float32)


PLAIN = mirrored(PARTS["t10k"], np.zeros(N_TEST, dtype=bool))
AT_RANDOM = mirrored(PARTS["t10k"], RANDOM.random(N_TEST) < 0.5)
BY_BATCH = np.concatenate([batch - batch.mean(axis=0) for batch in np.split(PLAIN, 5)])


def script(*passes: Array, trained: int = EPOCHS * N_TRAIN) -> Calls:
    """A script that trains on so many pictures, and then looks at these."""
    rows = np.concatenate([np.zeros((trained, 784), np.float32), *passes])
    noted = (replace(TRAINED, size=trained), *(replace(TESTED, size=len(one)) for one in passes))
    return Calls(noted, rows, np.zeros((len(rows), 10), np.float32))


@pytest.mark.parametrize(
    ("found", "others", "is_told"),
    [
        (script(AT_RANDOM), 0, True),
        (script(PLAIN), 0, False),
        (script(mirrored(PARTS["t10k"], np.ones(N_TEST, dtype=bool))), 0, False),
        (script(3 - 2 * PLAIN[RANDOM.permutation(N_TEST)]), 0, False),
        (script(BY_BATCH), 0, False),
        # Several looks at each picture, a set for validation, and what is not seen.
        (script(AT_RANDOM, PLAIN), 0, False),
        (script(AT_RANDOM, trained=EPOCHS * N_TRAIN - 1), 0, False),
        (script(AT_RANDOM[1:]), 0, False),
        (script(AT_RANDOM), 1, False),
        (Calls((replace(TESTED, size=N_TEST),), AT_RANDOM, np.zeros((N_TEST, 10), np.float32)), 0, False),
    ],
)
def test_only_test_pictures_that_are_changed_at_random_are_told(
    found: Calls, others: int, is_told: bool
) -> None:
    outcome = seen(others=others)
    assert (
        fails(lambda check: twins.are_shown_alike(check, "script", outcome, found, PARTS, EPOCHS)) is is_told
    )


DENSE = replace(TRAINED, dense=True)


@pytest.mark.parametrize(
    ("noted", "is_told"),
    [
        ([DENSE] * 3, True),
        ([DENSE] * 3 + [TESTED], True),
        ([DENSE] * 2, False),
        ([DENSE] * 9 + [TRAINED], False),
        ([TESTED], False),
    ],
)
def test_only_a_script_that_trains_nothing_but_matrices_is_told(noted: list[Call], is_told: bool) -> None:
    assert fails(lambda check: network.convolves(check, "script", calls(*noted))) is is_told


class ByHand(nn.Module):
    """A convolution as a product with patches, in one of several ways."""

    def __init__(self, way: Callable[[Array, Array], Array]) -> None:
        super().__init__()
        self.way, self.filters, self.head = way, nn.Linear(9, 4), nn.Linear(4 * 26 * 26, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Pictures to logits."""
        patches = nn.functional.unfold(images, 3).transpose(1, 2)
        return self.head(self.way(patches, self.filters.weight).flatten(1))


def head_of(features: nn.Module, n: int) -> nn.Module:
    """Features that do not learn, and what is learned from them."""
    return nn.Sequential(features.requires_grad_(False), nn.Flatten(), nn.Linear(n, 10))


NETWORKS: dict[str, tuple[nn.Module, bool]] = {
    "one matrix": (nn.Sequential(nn.Flatten(), nn.Linear(784, 10)), True),
    "a perceptron": (
        nn.Sequential(
            nn.Flatten(), nn.Linear(784, 9), nn.BatchNorm1d(9), nn.ReLU(), nn.Dropout(), nn.Linear(9, 10)
        ),
        True,
    ),
    "a convolution": (
        nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 26 * 26, 10)),
        False,
    ),
    "one that does not learn": (head_of(nn.Conv2d(1, 4, 3), 4 * 26 * 26), False),
    "pictures made smaller": (head_of(nn.AvgPool2d(2), 196), True),
    "by matmul": (ByHand(lambda patches, filters: patches @ filters.T), False),
    "by einsum": (ByHand(lambda patches, filters: torch.einsum("npk,fk->nfp", patches, filters)), False),
    "by a linear layer": (ByHand(nn.functional.linear), False),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_convolution_by_hand_is_none_of_matrices_alone(name: str) -> None:
    module, expected = NETWORKS[name]
    assert is_dense(module, module(torch.rand(4, 1, 28, 28))) is expected


@pytest.mark.parametrize(
    ("report", "lost"),
    [
        ({"losses": [0.5], "accuracy": 0.9}, [0.5]),
        ({"losses": [0.5, 0.4], "accuracy": 0.9}, None),
        ({"losses": 0.5}, None),
        ({"losses": []}, None),
        ({"losses": {"train": [0.5]}}, None),
        ({"losses": [[0.5, 0.4]]}, None),
        ({"losses": [{"train": 0.5, "test": 0.6}]}, None),
        ({"losses": ["0.5"]}, None),
        ({"train_losses": [0.5]}, None),
        ({"losses": [0.5], "train_losses": [0.6, 0.5]}, None),
        ({"losses": [0.5], "history": {"1": 0.6, "2": 0.5}}, None),
        ([0.5], None),
        (None, None),
    ],
)
def test_losses_are_lost_where_nothing_in_a_report_has_one_for_each_epoch(
    report: Json, lost: list[float] | None
) -> None:
    assert losses_lost(report, 2) == lost
