"""The student's step and evaluation, each called on a scenario of the judge's."""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.utils.data import DataLoader, TensorDataset

from lockstep.sandbox.gpus import gpus
from lockstep.sandbox.probing import Inputs, Observation, Student, StudentMistake, kind, plain, plain_tensor
from lockstep.sandbox.shims import cuda_calls_stay
from lockstep.wire import Array, Json

from .nets import Net, new_model
from .recorder import BACKWARDS, Recorder, SeenEnough, at_home, scalar, watch_loss
from .script import MODULE, small_resnets

# The template's arguments of what is no function of its own in many right files.
EVALUATE = ("model", "loader", "criterion", "device", "amp")


@contextlib.contextmanager
def chosen_device(inputs: Inputs) -> Iterator[torch.device]:
    """The CPU, or a GPU, which is emulated where there is none."""
    if inputs.values.get("gpu") is not True:
        yield torch.device("cpu")
        return
    with gpus(1):
        yield torch.device("cuda", 0)


def steps(student: Student, inputs: Inputs) -> Observation:
    """Some calls of train_step for each scenario, each scenario from the same weights; what came of each call."""
    cuda_calls_stay(student.watch.note)
    recorder = Recorder()
    values: dict[str, Json] = {}
    arrays: dict[str, Array | torch.Tensor] = {}
    with chosen_device(inputs) as device:
        recorder.install()
        watch_loss(recorder)
        if inputs.values.get("forward_only") is True:
            _stop_after_backward()
        module = student.load(MODULE)
        train_step = student.get(module, "train_step")
        for number, scenario in enumerate(cast(list[dict[str, Any]], inputs.values["scenarios"])):
            recorder.events = []
            recorder.forget_losses()
            told, kept = _scenario(student, inputs, train_step, scenario, device, recorder)
            values[str(number)] = told
            arrays |= {f"{number}/{name}": value for name, value in kept.items()}
        if "evaluate_by" in inputs.values:
            values["evaluated"], values["evaluated_types"] = _evaluated(student, inputs, module, device)
    return Observation(values, arrays)


def fetch(student: Student, inputs: Inputs) -> Observation:
    """A call of train_step on a GPU with a batch that is on the CPU, as a DataLoader makes it."""
    return steps(student, inputs)


def _evaluated(
    student: Student, inputs: Inputs, module: object, device: torch.device
) -> tuple[Json, list[Json]]:
    """What the template's `evaluate` returns for all images, and the types of its layers.

    None and no types where there is none, or it needs more than this.
    """
    evaluate = as_in_template(module, "evaluate", EVALUATE)
    if evaluate is None:
        return None, []
    model = new_model(inputs).to(device)
    seen = _watch_layers(model)
    data = TensorDataset(inputs.tensor("images"), inputs.tensor("labels"))
    loader = DataLoader(data, cast(int, inputs.values["evaluate_by"]))
    try:
        with student.calling("calling evaluate(..., amp=False)"):
            result = evaluate(model, loader, nn.CrossEntropyLoss(), device, amp=False)
    except Exception:
        student.phase = ""
        return None, []
    return _returned(result), sorted(set(seen["types"]))


def as_in_template(module: object, name: str, arguments: Sequence[str]) -> Callable[..., object] | None:
    """A function of the template's name and arguments, or None."""
    function = getattr(module, name, None)
    if not inspect.isfunction(function) or tuple(inspect.signature(function).parameters) != arguments:
        return None
    return cast(Callable[..., object], function)


def _scenario(
    student: Student,
    inputs: Inputs,
    train_step: Any,
    scenario: dict[str, Any],
    device: torch.device,
    recorder: Recorder,
) -> tuple[Json, dict[str, Array | torch.Tensor]]:
    model = new_model(inputs).to(device).train()
    # Two groups: a norm of all gradients together is not that of the first group.
    weights = list(model.parameters())
    groups = [{"params": weights[:2]}, {"params": weights[2:]}]
    optimizer = torch.optim.SGD(groups, lr=scenario["lr"], momentum=scenario["momentum"])
    amp, grad_clip = scenario["amp"], scenario["grad_clip"]
    scaler = torch.amp.GradScaler(
        device.type,
        init_scale=scenario["scale"],
        growth_interval=scenario["growth_interval"],
        enabled=amp is not False,
    )
    seen = _watch_layers(model)
    returned: list[Json] = []
    scales: list[Json] = []
    kept: dict[str, Array | torch.Tensor] = {}
    switch = {} if amp is None else {"amp": amp}
    shown = ", ".join(["...", *(f"amp={value}" for value in switch.values())])
    shown += f", grad_clip={grad_clip:.4g}" if grad_clip is not None else ""
    for number, batch in enumerate(_batches(inputs, scenario)):
        recorder.note("call")
        if inputs.values.get("moved") is True:
            batch = (batch[0].to(device), batch[1].to(device))
        poison = _poison(model) if number == scenario["overflow"] else None
        result: object = None
        try:
            with student.calling(f"calling train_step({shown}), call {number + 1}"):
                result = train_step(
                    model,
                    batch,
                    nn.CrossEntropyLoss(),
                    optimizer,
                    scaler,
                    device,
                    grad_clip=grad_clip,
                    **switch,
                )
        except SeenEnough:
            student.phase = ""
        if poison is not None:
            poison.remove()
        returned.append(_returned(result))
        scales.append(plain(scaler.get_scale()))
        for name, value in model.named_parameters():
            weight = at_home(value.detach().clone())
            if isinstance(weight, torch.Tensor):
                kept[f"step{number}/{name}"] = weight
    recorder.drop_what_is_for_a_log()
    logits = seen["logits"]
    if logits:
        kept["logits"] = logits[0]
    told: dict[str, Json] = {
        "returned": returned,
        "scales": scales,
        "events": cast(Json, list(recorder.events)),
        "types": sorted(set(seen["types"])),
        "parameters": cast(Json, sorted({str(value.dtype) for value in model.parameters()})),
    }
    return told, kept


def _stop_after_backward() -> None:
    """What a scaler or an optimizer does afterwards is not looked at, nor may it get in the way."""

    def ending(original: Callable[..., Any], counts: Callable[..., bool]) -> Callable[..., Any]:
        def derive(*args: Any, **kwargs: Any) -> Any:
            gradients = original(*args, **kwargs)
            if counts(*args, **kwargs):
                raise SeenEnough
            return gradients

        return derive

    for owner, name, counts in BACKWARDS:
        setattr(owner, name, ending(getattr(owner, name), counts))


# What a network and its layers answer, whoever watches them.
answer = Net.forward
layer_answer = nn.Linear.forward


def _watch_layers(model: Net) -> dict[str, list[Any]]:
    """Note the `types` that its layers answer in, and its first `logits`, in what is returned."""
    seen: dict[str, list[Any]] = {"types": [], "logits": []}

    def layer(self: nn.Linear, input: torch.Tensor) -> torch.Tensor:
        output = layer_answer(self, input)
        if any(self is one for one in (model.first, model.middle, model.head)):
            seen["types"].append(str(output.dtype))
        return output

    def forward(self: Net, images: torch.Tensor) -> torch.Tensor:
        output = answer(self, images)
        value = at_home(output)
        if isinstance(value, torch.Tensor) and not seen["logits"]:
            seen["logits"].append(value.detach().clone())
        return output

    # No hooks: model.forward(images) would go past them, and a train_step could look whether there are any.
    nn.Linear.forward = layer  # type: ignore[method-assign]
    Net.forward = forward  # type: ignore[method-assign]
    return seen


def _batches(inputs: Inputs, scenario: dict[str, Any]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    images, labels = inputs.tensor("images"), inputs.tensor("labels")
    start = 0
    for size in scenario["sizes"]:
        yield images[start : start + size].clone(), labels[start : start + size].clone()
        start += size


def _poison(model: Net) -> Any:
    """Let the next gradient of one weight overflow, as in fp16 when the scale is too large."""
    return model.middle.weight.register_hook(lambda gradient: gradient * math.inf)


def _returned(result: object) -> Json:
    if not isinstance(result, dict):
        return {"type": kind(result)}
    return {name: scalar(result[name]) for name in ("loss", "acc1", "acc5") if name in result}


def built(student: Student, inputs: Inputs) -> Observation:
    """build_model with another number of classes: its parameters and their types, the shape of its answer."""
    cuda_calls_stay(student.watch.note)
    small_resnets()
    module = student.load(MODULE)
    build_model = student.get(module, "build_model")
    arch, classes = cast(str, inputs.values["arch"]), cast(int, inputs.values["classes"])
    with student.calling(f"calling build_model({arch!r}, num_classes={classes})"):
        model = build_model(arch, num_classes=classes)
    if not isinstance(model, nn.Module):
        raise StudentMistake(f"build_model returned {kind(model)} instead of a model")
    types = sorted({str(value.dtype) for value in model.parameters()})
    logits = None
    if types == ["torch.float32"]:
        with student.calling("calling the model of build_model on two images"), torch.no_grad():
            logits = plain_tensor(model.eval()(torch.zeros(2, 3, 32, 32)))
    return Observation(
        {
            "types": cast(Json, types),
            "parameters": sum(value.numel() for value in model.parameters()),
            "filters": filters_of(model),
            "shape": None if logits is None else list(logits.shape),
        }
    )


def filters_of(model: nn.Module) -> int:
    """How many weights the convolutions have, which is the same for any number of classes."""
    return sum(value.numel() for value in model.parameters() if not is_lazy(value) and value.dim() == 4)
