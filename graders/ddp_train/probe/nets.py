"""Small networks and data of known numbers, and what a network holds."""

from __future__ import annotations

import re
from typing import cast

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset

from lockstep.sandbox.probing import Inputs
from lockstep.wire import Array, Json

MAX_ROWS = 20_000
# What the wrappers put before a name, each as often as it was used.
_WRAPPERS = re.compile(r"^(?:module\.|_orig_mod\.)+|(?<=\.)_orig_mod\.")


class Rows(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """The judge's images and labels; item number `broken` cannot be read."""

    def __init__(self, images: torch.Tensor, labels: torch.Tensor, broken: int | None = None) -> None:
        self.images, self.labels, self.broken = images, labels, broken
        self.classes = [f"class {number}" for number in range(10)]

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        if index == self.broken:
            raise InjectedFault("this item cannot be read (put there by the check)")
        # Without this, a loop such as `for item in dataset` would never end.
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self.images[index], self.labels[index]


class InjectedFault(Exception):
    """What the check puts in the way of one rank."""


class Norm(nn.BatchNorm1d):
    """A batch norm that can train on one row, as one of images can: each channel holds its value twice."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Of the same shape, (batch, channels)."""
        return super().forward(input.unsqueeze(2).expand(-1, -1, 2))[..., 0]


class Net(nn.Module):
    """A weight of four dimensions, two that are one, a frozen layer, a buffer; batch norm and dropout on demand."""

    def __init__(self, features: int, hidden: int, classes: int, batch_norm: bool, dropout: float) -> None:
        super().__init__()
        # As many dimensions as filters have, and easier to compute.
        self.lens = nn.Parameter(torch.ones(1, features, 1, 1))
        self.first = nn.Linear(features, hidden)
        self.middle = nn.Linear(hidden, hidden)
        self.again = nn.Linear(hidden, hidden, bias=False)
        self.again.weight = self.middle.weight
        self.frozen = nn.Linear(hidden, hidden)
        self.frozen.requires_grad_(False)
        self.norm = Norm(hidden) if batch_norm else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(hidden, classes)
        self.scale = nn.Buffer(torch.ones(hidden))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Images to logits, shape (batch, classes)."""
        hidden = torch.tanh(self.first(images.flatten(1) * self.lens.flatten()))
        hidden = torch.tanh(self.middle(hidden)) * self.scale
        hidden = self.norm(torch.tanh(self.again(hidden)) + self.frozen(hidden))
        return cast(torch.Tensor, self.head(self.dropout(hidden)))


def build_model(shape: dict[str, Json], weights: dict[str, Array] | None = None) -> Net:
    """The network that `shape` describes, holding these parameters and buffers, if any."""
    model = Net(
        features=cast(int, shape["features"]),
        hidden=cast(int, shape["hidden"]),
        classes=cast(int, shape["classes"]),
        batch_norm=shape["batch_norm"] is True,
        dropout=cast(float, shape["dropout"]),
    )
    if weights is not None:
        model.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()})
    return model


def new_model(inputs: Inputs) -> Net:
    """The network that the judge described."""
    return build_model(cast(dict[str, Json], inputs.values["shape"]), inputs.below("model"))


def new_rows(inputs: Inputs) -> Rows:
    """The rows that the judge sent."""
    broken = inputs.values.get("broken")
    return Rows(inputs.tensor("images"), inputs.tensor("labels"), broken if isinstance(broken, int) else None)


def named_tensors(model: nn.Module) -> list[tuple[str, torch.Tensor]]:
    """A network's parameters by the names that they have without DistributedDataParallel and torch.compile."""
    return [(_WRAPPERS.sub("", name), value) for name, value in model.named_parameters()]


def state_of(model: nn.Module, prefix: str) -> dict[str, Array | torch.Tensor]:
    """What a network holds, to be sent."""
    values = {f"{prefix}/{name}": value for name, value in named_tensors(model)}
    values |= {f"{prefix}/{_WRAPPERS.sub('', name)}": value for name, value in model.named_buffers()}
    return {name: value.detach().clone() for name, value in values.items()}
