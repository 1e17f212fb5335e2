"""Scripts that write out the sizes of the whole data set keep the same shares of the few images that a check has."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from lockstep.sandbox.box import Box
from lockstep.sandbox.fullsets import shares
from tests.samples import edited, messages_of_losses
from tests.sandboxed import run, seen

SPLIT = (
    "    train_data, _ = torch.utils.data.random_split(train_data, [{}], torch.Generator().manual_seed(3))\n"
)
OPENED = "train_data = datasets.{}(args.{}, train=True, transform=transform)\n"
CIFAR, FASHION = OPENED.format("CIFAR10", "training_data"), OPENED.format("FashionMNIST", "data")
LIT = "self.train_data = datasets.FashionMNIST(self.data, train=True, transform=transform)\n"
LIT_PARTS = "        self.train_data, _ = torch.utils.data.random_split(self.train_data, [55000, 5000])\n"
# What the file is, which line is followed by what, and the checks that run it.
SCRIPTS: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "CIFAR-10": (
        "ddp_train",
        CIFAR,
        SPLIT.format("45000, 5000"),
        ("script", "lr_scaling", "really_communicates"),
    ),
    "Fashion-MNIST": (
        "fashion_trainer",
        FASHION,
        SPLIT.format("50000, 10000"),
        ("trains_on_cpu", "no_cuda_needed"),
    ),
    "the rest of it": (
        "fashion_trainer",
        FASHION,
        SPLIT.format("50000, len(train_data) - 50000"),
        ("no_cuda_needed",),
    ),
    "a data module": ("lightning_train", LIT, LIT_PARTS, ("data", "two_ranks", "precision", "script")),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_part_for_validation_by_its_size_costs_nothing(name: str, tmp_path: Path, box: Box) -> None:
    exercise, line, then, checks = SCRIPTS[name]
    # A part of a data set does not know its classes.
    classes = [("train_data.classes", "train_data.dataset.classes")] if exercise == "ddp_train" else []
    folder = edited(exercise, tmp_path, (line, f"{line}{then}"), *classes)
    assert messages_of_losses(folder, exercise, box, checks) == []


MADE = """
    import numpy as np
    import torch
    from torch.utils.data import Subset, random_split
    from torchvision import datasets

    class Few(datasets.CIFAR10):
        def __init__(self, n, train=True):
            self.data, self.targets, self.train = list(range(n)), [0] * n, train
        def __getitem__(self, index):
            return self.data[index]

    fashion = type("Fashion", (datasets.FashionMNIST,), {"__init__": Few.__init__, "__getitem__": Few.__getitem__})
    own = list(range(24))

    def items(part):
        return sorted(part[i] for i in range(len(part)))
"""


@pytest.mark.parametrize(
    ("asked", "sizes"),
    [
        ("random_split(Few(24), [45000, 5000])", [22, 2]),
        ("random_split(Few(24), [49990, 10])", [23, 1]),
        ("random_split(Few(24), (np.int64(40000), np.int64(10000)))", [19, 5]),
        ("random_split(Few(24), [45000, 24 - 45000])", [22, 2]),
        ("random_split(Few(24), lengths=[45000, 5000], generator=torch.Generator())", [22, 2]),
        ("random_split(Few(24, train=False), [8000, 2000])", [19, 5]),
        ("random_split(fashion(24), [55000, 5000])", [22, 2]),
        ("random_split(own, [55000, 5000])", [22, 2]),
        ("random_split(own, [80000, 10000])", [21, 3]),
        ("random_split(random_split(Few(24), [40000, 10000])[0], [30000, 10000])", [14, 5]),
        ("random_split(Subset(Few(24), range(40000)), [30000, 10000])", [15, 5]),
        ("[Subset(Few(24), range(45000)), Subset(Few(24), np.arange(45000, 50000))]", [22, 2]),
        ("[Subset(Few(24), []), Subset(Few(24), [49999])]", [0, 1]),
        # As ever.
        ("random_split(Few(24), [20, 4])", [20, 4]),
        ("random_split(Few(24), [0.75, 0.25])", [18, 6]),
        ("random_split(Few(50000), [45000, 5000])", [45000, 5000]),
        ("[Subset(Few(24), range(20)), Subset(Few(24), [23])]", [20, 1]),
    ],
)
def test_parts_have_their_shares(asked: str, sizes: list[int], box: Box) -> None:
    assert seen(box, f"{MADE}\n    def main(): return [len(part) for part in {asked}]") == sizes


@pytest.mark.parametrize(
    "asked",
    [
        "random_split(Few(24), [45000, 10000])",  # of 50,000 images that is none, nor is the next
        "random_split(Few(24), [50000, 10000])",
        "random_split(Few(24), [20, 5])",
        "random_split(fashion(24), [45000, 5000])",
        "[Subset(Few(24), [50000])[0]]",
        "[Subset(Few(50000), [50000])[0]]",
        "[Subset(Few(24), range(1, 25))[23]]",
    ],
)
def test_what_fails_on_the_whole_data_set_fails(asked: str, box: Box) -> None:
    outcome = run(box, f"{MADE}\n    def main(): return len({asked})")
    assert outcome.ranks[0].error is not None
    assert outcome.ranks[0].error.type in ("ValueError", "IndexError")


def test_two_parts_have_no_image_in_common(box: Box) -> None:
    source = f"""{MADE}
    def main():
        parts = random_split(Few(24), [45000, 5000])
        numbers = torch.randperm(50000, generator=torch.Generator().manual_seed(1)).tolist()
        taken = Subset(Few(24), numbers[:40000]), Subset(Few(24), numbers[40000:])
        return [[items(part) for part in both] for both in (parts, taken)]
    """
    for first, second in cast(list[list[list[int]]], seen(box, source)):
        assert sorted([*first, *second]) == list(range(24))


def test_a_data_set_is_not_asked_for_its_length_before_it_matters(box: Box) -> None:
    source = """
        from torch.utils.data import Subset

        class Lazy:
            def __len__(self): raise AttributeError("not read yet")
            def __getitem__(self, index): return index

        def main():
            return [len(Subset(Lazy(), range(20))), len(Subset(Lazy(), range(45000)))]
    """
    assert seen(box, source) == [20, 45000]


def test_shares_add_up() -> None:
    assert shares([45_000, 5_000], 10) == [9, 1]
    assert shares([1, 1, 1], 2) == [1, 1, 0]
    assert shares([59_999, 1], 3) == [2, 1]
    assert shares([50_000, 0], 3) == [3, 0]
    assert shares([2, 1], 0) == [0, 0]
