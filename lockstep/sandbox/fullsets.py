"""Sizes of the whole data set that a script has written out, where a run has a small part of it.

`random_split(train_data, [45000, 5000])` and `Subset(train_data, range(45000))` keep images of CIFAR-10 for validation,
and would fail on the few that a check hands out. They take the same shares of those few; whatever would fail on the
whole data set fails here as well.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.utils import data
from torch.utils.data import dataset
from torchvision import datasets

# Images for training and for testing.
_SIZES: dict[type, tuple[int, int]] = {datasets.CIFAR10: (50_000, 10_000), datasets.MNIST: (60_000, 10_000)}
# Labeled Faces in the Wild, and each part of CINIC-10, are read by classes that say nothing of their size.
_KNOWN = sorted({13_233, 90_000, *(size for sizes in _SIZES.values() for size in sizes)})
_LARGE = 1_000  # an index that no check's data set has
# What a part of a small data set would have of the whole one, in its attributes.
_WHOLE = "_whole_size"


def install() -> None:
    """Replace both for this process and its forks."""
    data.random_split = dataset.random_split = _splitting(dataset.random_split)
    dataset.Subset.__init__ = _taking(dataset.Subset.__init__)  # type: ignore[method-assign]


def _splitting(split: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(split)
    def random_split(
        dataset: data.Dataset[Any], lengths: Sequence[int | float], generator: torch.Generator | None = None
    ) -> Any:
        kwargs = {} if generator is None else {"generator": generator}
        wanted = _of_the_whole(dataset, lengths)
        if wanted is None:
            return split(dataset, lengths, **kwargs)
        parts = split(dataset, shares(wanted, len(dataset)), **kwargs)  # type: ignore[arg-type]
        for part, length in zip(parts, wanted, strict=True):
            setattr(part, _WHOLE, length)
        return parts

    return random_split


def _of_the_whole(dataset: data.Dataset[Any], lengths: Iterable[Any]) -> list[int] | None:
    """The lengths, where they are of the whole data set and this is less; None where there is nothing to change."""
    try:
        wanted, n = [operator.index(length) for length in lengths], len(dataset)  # type: ignore[arg-type]
    except TypeError:  # shares, or no lengths at all
        return None
    sizes = [size for size in _sizes_of(dataset) if size > n]
    if sum(wanted) == n and min(wanted, default=0) < 0:
        # The last is what the others leave of it, as len(train_data) - 45000.
        others = [length for length in wanted if length >= 0]
        whole = next((size for size in sizes if size > sum(others)), None)
        rest = None if whole is None or len(others) != len(wanted) - 1 else whole - sum(others)
        return None if rest is None else [rest if length < 0 else length for length in wanted]
    return wanted if sum(wanted) in sizes and min(wanted) >= 0 else None


def shares(lengths: Sequence[int], n: int) -> list[int]:
    """So many of `n` as `lengths` are of their sum, one at least where there is room and any are wanted."""
    whole = sum(lengths)
    taken = [length * n // whole for length in lengths]
    by_rest = sorted(range(len(taken)), key=lambda part: -(lengths[part] * n % whole))
    for part in by_rest[: n - sum(taken)]:
        taken[part] += 1
    for part, length in enumerate(lengths):
        largest = max(range(len(taken)), key=taken.__getitem__)
        if length > 0 and taken[part] == 0 and taken[largest] > 1:
            taken[part], taken[largest] = 1, taken[largest] - 1
    return taken


def _taking(construct: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(construct)
    def init(self: Any, dataset: data.Dataset[Any], indices: Any) -> None:
        taken, whole = _here(dataset, indices)
        construct(self, dataset, indices if taken is None else taken)
        if whole is not None:
            setattr(self, _WHOLE, whole)

    return init


def _here(dataset: data.Dataset[Any], indices: Any) -> tuple[list[int] | None, int | None]:
    """Which items these are of a part of the whole data set, and how many they are of that; None: as they are."""
    try:
        numbers = [operator.index(number) for number in indices]
        most = max(numbers, default=-1)
        # Their data set may not know its length yet, and is only asked where it matters.
        n = len(dataset) if most >= _LARGE else most + 1  # type: ignore[arg-type]
    except Exception:
        return None, None
    whole = next((size for size in _sizes_of(dataset) if size > max(most, n)), None)
    if most < n or n == 0 or whole is None:
        return None, None
    wanted = set(numbers)
    # A part that falls between two of the few has one all the same.
    taken = [item for item in range(n) if item * whole // n in wanted] or [most * n // whole]
    return taken, len(numbers)


def _sizes_of(dataset: object) -> list[int]:
    """How large the data set would be as a whole; what is not known by its class is one of those that are known."""
    if isinstance(whole := getattr(dataset, _WHOLE, None), int):
        return [whole]
    for cls, (train, test) in _SIZES.items():
        if isinstance(dataset, cls):
            return [train if getattr(dataset, "train", True) else test]
    return _KNOWN
