"""The judge's network and pictures."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset

from lockstep.wire import Array, Json

PIXELS = 28 * 28


class Pictures(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """The judge's pictures, (1, 28, 28), and their labels."""

    def __init__(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        self.images, self.labels = images, labels
        # As torchvision's data set has them.
        self.classes = [f"class {number}" for number in range(10)]
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        self.targets = labels

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        # Without this, a loop such as `for item in dataset` would never end.
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self.images[index], self.labels[index]


class Listeners(list[Callable[[nn.Module, tuple[object, ...], object], None]]):
    """Who is told of a network's calls. One that is copied, or saved and read again, tells the same ones."""

    def __deepcopy__(self, memo: object) -> Listeners:
        return self

    def __reduce__(self) -> tuple[Callable[[int], Listeners], tuple[int]]:
        _listeners[id(self)] = self
        return _listening, (id(self),)


_listeners: dict[int, Listeners] = {}


def _listening(number: int) -> Listeners:
    """Those of that number; none in a process that has never heard of them."""
    return _listeners.get(number, Listeners())


class Net(nn.Module):
    """One hidden layer, with batch norm and dropout where asked for."""

    def __init__(self, hidden: int, batch_norm: bool, dropout: float) -> None:
        super().__init__()
        self.first = nn.Linear(PIXELS, hidden)
        self.norm = nn.BatchNorm1d(hidden) if batch_norm else nn.Identity()
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()
        self.head = nn.Linear(hidden, 10)
        # Not hooks: model.forward(images) would go past them. A copy of the model tells of its calls, too.
        self.tell = Listeners()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Pictures to logits, shape (batch, 10)."""
        hidden = torch.tanh(self.norm(self.first(images.flatten(1))))
        logits = cast(torch.Tensor, self.head(self.dropout(hidden)))
        for tell in self.tell:
            tell(self, (images,), logits)
        return logits


def build_model(shape: dict[str, Json], weights: dict[str, Array] | None = None) -> Net:
    """The network that `shape` describes, holding these parameters and buffers, if any."""
    model = Net(
        hidden=cast(int, shape["hidden"]),
        batch_norm=shape["batch_norm"] is True,
        dropout=cast(float, shape["dropout"]),
    )
    if weights is not None:
        model.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()})
    return model
