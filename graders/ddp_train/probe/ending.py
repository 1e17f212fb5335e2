"""How a run ends: with the group put away."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from typing import cast

import torch.distributed as dist
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_pre_hook

from lockstep.sandbox.probing import Inputs, Observation, Student

from .lab import Lab, wait_for_all
from .nets import new_model
from .script import run_script


def tidy(student: Student, inputs: Inputs) -> Observation:
    """setup(), a little work, cleanup(): what is left?"""
    lab = Lab(student)
    lab.setup()
    was = dist.is_initialized()
    wrapped = lab.wrap(new_model(inputs))
    wrapped(inputs.tensor("images")).sum().backward()
    wait_for_all(student, inputs)
    lab.call("cleanup", shown="")
    return Observation({"was": was, "is": dist.is_initialized()})


def script_ends(student: Student, inputs: Inputs) -> Observation:
    """Run the script to its end; whether it is still in its group then."""
    joined: set[bool] = set()

    def note(*_: object) -> None:
        joined.add(dist.is_initialized())

    register_module_forward_pre_hook(note)
    register_optimizer_step_pre_hook(cast(Callable[..., None], note))
    run_script(student, inputs)
    with student.calling("ending as Python does at its end"):
        atexit._run_exitfuncs()
    return Observation({"was": any(joined), "is": dist.is_initialized()})
