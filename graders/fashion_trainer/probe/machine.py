"""The machine that everything happens on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, cast

import torch

from lockstep.sandbox.gpus import gpus
from lockstep.sandbox.probing import Inputs

Home = Callable[[Any], Any]


@contextlib.contextmanager
def machine_of(inputs: Inputs) -> Iterator[Home]:
    """A machine with as many GPUs as the judge asks for; gives what brings a tensor's values back to the CPU."""
    wanted = cast(int, inputs.values["gpus"])
    if not wanted:
        yield lambda value: value
        return
    from lockstep.sandbox.device import home

    def to_cpu(value: Any) -> Any:
        value = home(value)
        return value.cpu() if isinstance(value, torch.Tensor) else value

    with gpus(wanted):
        yield to_cpu
