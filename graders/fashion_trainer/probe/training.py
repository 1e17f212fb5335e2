"""train(), evaluate() and get_device(), called as the student's own `main` would."""

from __future__ import annotations

from typing import cast

import numpy as np
import torch

from lockstep.sandbox.probing import Inputs, Observation, Student, kind, plain
from lockstep.wire import Array

from .lab import MODULE, Lab, model_of
from .machine import machine_of
from .nets import Net
from .recorder import MAX_CALLS, Recorder


def train_and_evaluate(student: Student, inputs: Inputs) -> Observation:
    """train() a model that is on the device already, then evaluate() it on other pictures.

    Where the judge asks for it, train() a second one like the first with another learning rate, one epoch; what came
    back of that is noted as well.
    """
    with machine_of(inputs) as home:
        lab = Lab(student, inputs, home)
        model = model_of(inputs).to(lab.device)
        gradients = {} if inputs.values["gpus"] else backward_passes(model)
        recorder = Recorder(home)
        recorder.watch(model)
        recorder.note_losses()
        values = lab.train(model, "train", cast(int, inputs.values["epochs"]))
        values |= recorder.values("train") | {"graphs": recorder.graphs.most}
        arrays = recorder.arrays("train") | lab.state(model, "trained")
        if "small_lr" in inputs.values:
            # Before the evaluation: what training finds of that is for another check.
            second = model_of(inputs).to(lab.device)
            values["losses_again"] = lab.train(second, "train", 1, inputs.values["small_lr"])["losses"]
            arrays |= lab.state(second, "barely")
        recorder.restart()
        values |= lab.evaluate(model, "test") | recorder.values("test")
        arrays |= recorder.arrays("test")
    arrays |= {name: np.stack(steps) for name, steps in gradients.items() if steps}
    return Observation(values, arrays)


def backward_passes(model: Net) -> dict[str, list[Array]]:
    """At every backward pass: the last bias, its gradient of this pass, and what that was added to in `.grad`.

    `sums`: the sum of all weights, which is the same where none of them was changed since.
    """
    seen: dict[str, list[Array]] = {"bias": [], "fresh": [], "before": [], "sums": []}
    bias = model.head.bias
    stood = [np.zeros(10, np.float32)]

    def came(gradient: torch.Tensor) -> None:
        stood[0] = np.zeros(10, np.float32) if bias.grad is None else bias.grad.numpy().copy()
        if len(seen["bias"]) < MAX_CALLS:
            seen["bias"].append(bias.detach().numpy().copy())
            seen["fresh"].append(gradient.detach().numpy().copy())
            seen["before"].append(np.zeros(10, np.float32))
            each = [value.detach().sum(dtype=torch.float64) for value in model.parameters()]
            seen["sums"].append(torch.stack(each).sum().numpy())

    def was_added(weight: torch.Tensor) -> None:
        # torch.autograd.grad hands the gradient out instead: whoever puts it into .grad replaces what was there.
        if len(seen["bias"]) < MAX_CALLS:
            seen["before"][-1] = stood[0]

    bias.register_hook(came)
    bias.register_post_accumulate_grad_hook(was_added)
    return seen


def modes(student: Student, inputs: Inputs) -> Observation:
    """Two epochs of train(), evaluate() on a model in training mode, and train() once more after it."""
    with machine_of(inputs) as home:
        lab = Lab(student, inputs, home)
        recorder = Recorder(home)
        first, second = model_of(inputs).to(lab.device), model_of(inputs).to(lab.device)
        recorder.watch(first)
        lab.train(first.train(), "train", 2)
        values = recorder.values("train")
        recorder.restart()
        recorder.watch(second)
        lab.evaluate(second.train(), "test")
        values |= recorder.values("test") | {"grad_after": torch.is_grad_enabled()}
        arrays = recorder.arrays("test") | lab.state(second, "evaluated")
        if torch.is_grad_enabled():
            recorder.restart()
            lab.train(second.eval(), "train", 1)
            values |= recorder.values("again")
    return Observation(values, arrays)


def ask_device(student: Student, inputs: Inputs) -> Observation:
    """What get_device() says on this machine."""
    with machine_of(inputs):
        module = student.load(MODULE)
        function = student.get(module, "get_device")
        with student.calling("calling get_device()"):
            device = function()
    if type(device) is torch.device:
        return Observation({"device": str(device), "kind": "a torch.device"})
    return Observation({"device": plain(device), "kind": kind(device)})
