"""What every run does first and last: the student's functions, the group, its end."""

from __future__ import annotations

import os
import socket
import time
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import Dataset

from lockstep.sandbox.dataloaders import read_in_this_process
from lockstep.sandbox.probing import Inputs, Student, StudentMistake, kind

from .clipping import clip_nothing
from .compression import send_whole
from .nets import new_rows

MODULE = "ddp_train"
# Of this group alone, as its port is. Looked up before student code can change it. An address that nobody else takes:
# students' ranks meet at 127.0.0.1, and the ports given out for connections are higher.
MEETING = ("127.0.0.2", int(os.environ.get("MASTER_PORT", "29500")) - 9000)
SIDE_SECONDS = 10.0


class Lab:
    """The student's functions, called the way their own `main` would."""

    def __init__(self, student: Student) -> None:
        self.student = student
        clip_nothing()  # before the file takes these functions by name
        send_whole()
        read_in_this_process()
        self.module = student.load(MODULE)
        self.device: Any = None

    def call(self, name: str, *args: object, shown: str = "...", **kwargs: object) -> Any:
        """Call one of the contract's functions."""
        function = self.student.get(self.module, name)
        with self.student.calling(f"calling {name}({shown})"):
            return function(*args, **kwargs)

    def setup(self) -> Any:
        """Join the group."""
        self.device = self.call("setup", shown="")
        return self.device

    def wrap(self, model: nn.Module) -> nn.Module:
        """Wrap a model, and insist on getting a module back."""
        wrapped = self.call("wrap_model", model, self.device, shown="model, device")
        if not isinstance(wrapped, nn.Module):
            self.student.phase = "calling wrap_model(model, device)"
            raise StudentMistake(f"wrap_model returned {kind(wrapped)} instead of the wrapped model")
        return wrapped

    def loader(self, dataset: Dataset[Any], batch_size: int, **options: int) -> Any:
        """Make a loader; what is not among the options is left to its default."""
        shown = ", ".join(
            ["dataset", str(batch_size), *(f"{name}={value}" for name, value in options.items())]
        )
        return self.call("make_loader", dataset, batch_size, shown=shown, **options)


def new_optimizer(inputs: Inputs, model: nn.Module) -> torch.optim.SGD:
    """The optimizer that the judge described."""
    parameters = [value for value in model.parameters() if value.requires_grad]
    lr, momentum = cast(float, inputs.values["lr"]), cast(float, inputs.values["momentum"])
    return torch.optim.SGD(parameters, lr=lr, momentum=momentum)


def seed_of(inputs: Inputs) -> int:
    """The seed that the judge sent."""
    return cast(int, inputs.values["seed"])


def training_loader(lab: Lab, inputs: Inputs) -> Any:
    """The student's loader for training."""
    batch_size = cast(int, inputs.values["batch_size"])
    shuffle = {} if inputs.values.get("by_default") else {"shuffle": True}
    return lab.loader(new_rows(inputs), batch_size, **shuffle, seed=seed_of(inputs))


def clean_up(lab: Lab, inputs: Inputs) -> None:
    """Leave the group in good order; whether cleanup does that is one check's business alone."""
    if dist.is_initialized():
        wait_for_all(lab.student, inputs)
        lab.call("cleanup", shown="")


def wait_for_all(student: Student, inputs: Inputs) -> None:
    """A rank that is through early would close its connections while a slow one still makes them.

    They meet at a socket: a barrier could be mistaken for one that the student's other ranks still wait in.
    """
    with student.calling("waiting for all ranks before cleanup()"), socket.socket() as end:
        if inputs.rank == 0:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            end.bind(MEETING)
            end.listen(inputs.world_size)
            # Held until the last one is here; then all are let go at once.
            others = [end.accept()[0] for _ in range(inputs.world_size - 1)]
            for other in others:
                other.close()
            return
        while end.connect_ex(MEETING):
            time.sleep(0.001)
        end.recv(1)
