"""The student's functions, given the judge's network and pictures."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

from lockstep.sandbox.probing import Inputs, Student, kind, plain, plain_tensor
from lockstep.wire import Array, Json

from .machine import Home
from .nets import Net, Pictures, build_model

MODULE = "fashion_trainer"


class Lab:
    """The student's functions, called the way their own `main` would."""

    def __init__(self, student: Student, inputs: Inputs, home: Home) -> None:
        self.student, self.inputs, self.home = student, inputs, home
        self.module = student.load(MODULE)
        self.device = torch.device(cast(str, inputs.values["device"]))

    def call(self, name: str, *args: object, shown: str, **kwargs: object) -> Any:
        """Call one of the contract's functions."""
        function = self.student.get(self.module, name)
        with self.student.calling(f"calling {name}({shown})"):
            return function(*args, **kwargs)

    def train(self, model: nn.Module, part: str, epochs: int, lr: Json = None) -> dict[str, Json]:
        """Train, with the judge's learning rate or another, and note what came back."""
        lr = self.inputs.values["lr"] if lr is None else lr
        shown = f"model, loader, {self.device}, epochs={epochs}, lr={lr}"
        loader = _loader(self.inputs, part)
        losses = self.call("train", model, loader, self.device, epochs=epochs, lr=lr, shown=shown)
        return {"losses": _numbers(losses, self.home), "losses_kind": kind(self.home(losses))}

    def evaluate(self, model: nn.Module, part: str) -> dict[str, Json]:
        """Evaluate, and note what came back."""
        shown = f"model, loader, {self.device}"
        value = self.call("evaluate", model, _loader(self.inputs, part), self.device, shown=shown)
        return {"accuracy": plain(self.home(value)), "accuracy_kind": kind(self.home(value))}

    def state(self, model: nn.Module, prefix: str) -> dict[str, Array | torch.Tensor]:
        """Parameters and buffers as they are now."""
        named = [*model.named_parameters(), *model.named_buffers()]
        return {f"{prefix}/{name}": self.home(value.detach()).clone() for name, value in named}


def model_of(inputs: Inputs) -> Net:
    """The network that the judge sent."""
    return build_model(cast(dict[str, Json], inputs.values["shape"]), inputs.below("model"))


def _loader(inputs: Inputs, part: str) -> DataLoader[Any]:
    """The pictures in their order; the last batch may be a short one."""
    pictures = Pictures(inputs.tensor(f"{part}/images"), inputs.tensor(f"{part}/labels"))
    return DataLoader(pictures, batch_size=cast(int, inputs.values["batch_size"]))


def _numbers(value: object, home: Home) -> Json:
    """The numbers in a list, a tuple, or a one-dimensional array or tensor; None for anything else."""
    if type(value) in (list, tuple):
        return [plain(home(one)) for one in cast(list[object], value)[:200]]
    array = value if type(value) is np.ndarray else plain_tensor(home(value))
    if array is None or array.ndim != 1 or array.dtype.kind not in "fiu":
        return None
    return [plain(float(one)) for one in array[:200]]
