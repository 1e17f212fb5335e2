"""A small network of known numbers."""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from torch import nn

from lockstep.sandbox.probing import Inputs
from lockstep.wire import Array, Json


class Net(nn.Module):
    """A small network without kinks, so that a slightly different input gives a slightly different gradient."""

    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.first = nn.Linear(features, hidden)
        self.middle = nn.Linear(hidden, hidden)
        self.head = nn.Linear(hidden, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Images to logits, shape (batch, classes)."""
        hidden = torch.tanh(self.first(images.flatten(1)))
        return cast(torch.Tensor, self.head(torch.tanh(self.middle(hidden))))


def build_net(shape: dict[str, Json], weights: dict[str, Array] | None = None) -> Net:
    """The network that `shape` describes, holding these weights, if any."""
    model = Net(**cast(dict[str, int], shape))
    if weights is not None:
        model.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()})
    return model


def new_model(inputs: Inputs) -> Net:
    """The network that the judge described."""
    return build_net(cast(dict[str, Json], inputs.values["shape"]), inputs.below("model"))
