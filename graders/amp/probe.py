"""Calls `train_step` and runs `amp_train.py`, and records what they do; it knows no right answer.

What is recorded: the types that reached the layers, the order of the scaler's calls, the weights after each
step, what every training batch came to, and the log files as they are on the disk.
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import glob
import inspect
import math
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.data import DataLoader, TensorDataset

from lockstep.sandbox.cells import read_cells
from lockstep.sandbox.device import home
from lockstep.sandbox.gpus import gpus
from lockstep.sandbox.probing import Inputs, Observation, Student, StudentMistake, kind, plain, plain_tensor
from lockstep.wire import Array, Json

MODULE = "amp_train"
MAX_EVENTS = 4000
MAX_LOG_BYTES = 4 << 20
# add_scalars writes a file for every curve.
MAX_LOG_FILES = 24
MAX_MODELS = 8
# Of a search among a few dozen images.
MAX_TRIALS = 500
# The template's arguments of what is no function of its own in many right files.
EVALUATE = ("model", "loader", "criterion", "device", "amp")
MODEL_WORDS = (
    "model", "modelname", "network", "modell", "modellname", "netz", "netzwerk", "modelo", "red", "modele", "reseau",
)  # fmt: skip
FIND_BATCH_SIZE = ("arch", "example", "device", "amp", "largest")


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


# One training step


class SeenEnough(BaseException):
    """Ends a script once the check has seen what it came for."""


def _every_call(*_: object, **__: object) -> bool:
    return True


class Recorder:
    """What happened, in order: [kind, details ...]."""

    def __init__(self) -> None:
        self.events: list[list[Json]] = []
        self._depth: dict[str, int] = {}

    def note(self, *event: Json) -> None:
        """Add an event."""
        if len(self.events) < MAX_EVENTS:
            self.events.append(list(event))

    @contextlib.contextmanager
    def within(self, name: str) -> Iterator[bool]:
        """Tells whether this is the outermost call of that name."""
        self._depth[name] = self._depth.get(name, 0) + 1
        try:
            yield self._depth[name] == 1
        finally:
            self._depth[name] -= 1

    def inside(self, name: str) -> bool:
        """Whether a call of that name is under way."""
        return self._depth.get(name, 0) > 0

    def wrap(
        self,
        owner: Any,
        name: str,
        event: str,
        details: Callable[..., tuple[Json, ...]] | None = None,
        counts: Callable[..., bool] = _every_call,
    ) -> None:
        """Let `owner.name` add an event before it does its work, where that call `counts`.

        What it calls under the same name does not count.
        """
        original = getattr(owner, name)
        recorder = self

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if not counts(*args, **kwargs):
                return original(*args, **kwargs)
            with recorder.within(event) as outermost:
                # What GradScaler.step does by itself is not the student's call.
                if outermost and not (event == "unscale_" and recorder.inside("step")):
                    recorder.note(event, *(details(*args, **kwargs) if details else ()))
                return original(*args, **kwargs)

        setattr(owner, name, wrapped)

    def install(self) -> None:
        """Record backward, clipping, the scaler's calls and the optimizer's steps from now on, before any import."""
        for owner, name, counts in BACKWARDS:
            self.wrap(owner, name, "backward", _backward, counts)
        for module in (nn.utils, nn.utils.clip_grad):
            for name in ("clip_grad_norm_", "clip_grad_value_"):
                self.wrap(module, name, "clip")
        for name in ("scale", "unscale_", "step", "update"):
            self.wrap(torch.amp.GradScaler, name, name, _value if name == "scale" else None)
        for owner in (torch.optim.Optimizer, nn.Module):
            self.wrap(owner, "zero_grad", "zero_grad")

        def stepped(optimizer: torch.optim.Optimizer, *_: object) -> None:
            rate = plain(optimizer.param_groups[0]["lr"])
            self.note("optimizer", self.inside("step"), rate)

        register_optimizer_step_pre_hook(cast(Callable[..., None], stepped))


def _autocast_is_on() -> bool:
    return torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")


def _backward(outputs: object = None, *_: object, **kwargs: object) -> tuple[Json, ...]:
    """Whether autocast is on, and the number that is derived."""
    outputs = kwargs.get("tensors", outputs)
    alone = outputs[0] if isinstance(outputs, list | tuple) and len(outputs) == 1 else outputs
    return _autocast_is_on(), _number(alone)


def _gives_gradients(outputs: object, inputs: object, *args: object, **kwargs: object) -> bool:
    """Whether a call of torch.autograd.grad is a backward pass for the weights, and no gradient penalty."""
    create_graph = args[2] if len(args) > 2 else kwargs.get("create_graph")
    wanted = inputs if isinstance(inputs, list | tuple) else [inputs]
    return create_graph is not True and any(isinstance(value, nn.Parameter) for value in wanted)


# What derives a loss: where it is, its name, and which of its calls do.
BACKWARDS: tuple[tuple[Any, str, Callable[..., bool]], ...] = (
    (torch.Tensor, "backward", _every_call),
    (torch.autograd, "backward", _every_call),
    (torch.autograd, "grad", _gives_gradients),
)


def _value(_: object, outputs: object, *__: object, **___: object) -> tuple[Json, ...]:
    """The number that is to be scaled."""
    return (_number(outputs),)


def _number(value: object) -> Json:
    """A scalar tensor, on an emulated GPU too, or a number."""
    return plain(_home(value))


def _home(value: object) -> object:
    """A tensor of an emulated GPU as a plain one; anything else as it is."""
    if not isinstance(value, torch.Tensor) or value.device.type == "cpu":
        return value
    return cast(object, home(value))


def _watch_loss(recorder: Recorder) -> None:
    """Note the type of each cross entropy: the criterion calls torch's function, and a train_step may do so itself."""
    original = nn.functional.cross_entropy

    def loss(*args: Any, **kwargs: Any) -> torch.Tensor:
        with recorder.within("loss") as outermost:
            value = original(*args, **kwargs)
        if outermost:
            recorder.note("loss", str(value.dtype))
        return value

    nn.functional.cross_entropy = loss


@contextlib.contextmanager
def _device(inputs: Inputs) -> Iterator[torch.device]:
    """The CPU, or a GPU, which is emulated where there is none."""
    if inputs.values.get("gpu") is not True:
        yield torch.device("cpu")
        return
    with gpus(1):
        yield torch.device("cuda", 0)


def steps(student: Student, inputs: Inputs) -> Observation:
    """Some calls of train_step for each scenario, each scenario from the same weights; what came of each call."""
    recorder = Recorder()
    values: dict[str, Json] = {}
    arrays: dict[str, Array | torch.Tensor] = {}
    with _device(inputs) as device:
        recorder.install()
        _watch_loss(recorder)
        if inputs.values.get("forward_only") is True:
            _stop_after_backward()
        module = student.load(MODULE)
        train_step = student.get(module, "train_step")
        for number, scenario in enumerate(cast(list[dict[str, Any]], inputs.values["scenarios"])):
            recorder.events = []
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
    evaluate = _templates(module, "evaluate", EVALUATE)
    if evaluate is None:
        return None, []
    model = _model(inputs).to(device)
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


def _templates(module: object, name: str, arguments: Sequence[str]) -> Callable[..., object] | None:
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
    model = _model(inputs).to(device).train()
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
            weight = _home(value.detach().clone())
            if isinstance(weight, torch.Tensor):
                kept[f"step{number}/{name}"] = weight
    logits = seen["logits"]
    if logits:
        kept["logits"] = logits[0]
    told: dict[str, Json] = {
        "returned": returned,
        "scales": scales,
        "events": cast(Json, list(recorder.events)),
        "types": sorted(set(seen["types"])),
        "parameters": sorted({str(value.dtype) for value in model.parameters()}),
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


def _model(inputs: Inputs) -> Net:
    prefix = "model/"
    weights = {name[len(prefix) :]: a for name, a in inputs.arrays.items() if name.startswith(prefix)}
    return build_net(cast(dict[str, Json], inputs.values["shape"]), weights)


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
        value = _home(output)
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
    return {name: _number(result[name]) for name in ("loss", "acc1", "acc5") if name in result}


def built(student: Student, inputs: Inputs) -> Observation:
    """build_model with another number of classes: its parameters and their types, the shape of its answer."""
    _small_resnets()
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
            "filters": _filters(model),
            "shape": None if logits is None else list(logits.shape),
        }
    )


def _filters(model: nn.Module) -> int:
    """How many weights the convolutions have, which is the same for any number of classes."""
    return sum(value.numel() for value in model.parameters() if value.dim() == 4)


# The script


class Training(Recorder):
    """What a whole run of the script does: its batches, and what each came to."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[dict[str, Any]] = []
        self._models: list[tuple[nn.Module, list[torch.Tensor]]] = []
        self.has_begun = False
        # In which types layers have answered since the last loss, where they are watched.
        self.answers: set[torch.dtype] = set()

    def begin_with(self, folder: str, forget: Callable[[], None] = lambda: None) -> None:
        """Forget what was trained on before a file in `folder` is opened: a step that is tried on made-up images."""

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            if self.has_begun or event != "open" or not isinstance(arguments[0], str | bytes):
                return
            if os.path.abspath(os.fsdecode(arguments[0])).startswith(f"{folder}{os.sep}"):
                self.has_begun = True
                self.events[:] = [noted for noted in self.events if noted[0] == "scheduler made"]
                self.batches.clear()
                self._models.clear()
                self.answers.clear()
                forget()

        sys.addaudithook(hook)

    def install(self) -> None:
        """As for one step, and the model's forward, the loss, and the scheduler's steps besides."""
        super().install()
        self._watch_loss("cross_entropy")
        self._watch_loss("nll_loss")
        self._watch_forward()
        # A scheduler makes its first step while it is made.
        made = torch.optim.lr_scheduler.LRScheduler._initial_step

        def initial(scheduler: Any) -> None:
            with self.within("making a scheduler"):
                made(scheduler)
            self.note("scheduler made")

        torch.optim.lr_scheduler.LRScheduler._initial_step = initial  # type: ignore[method-assign]

    def watch_scheduler(self, factor: float) -> None:
        """Note each step of any scheduler, and let it change the rate a little more than it would."""
        recorder = self

        def watched(original: Any) -> Any:
            def step(scheduler: Any, *args: Any, **kwargs: Any) -> None:
                with recorder.within("scheduler") as outermost:
                    original(scheduler, *args, **kwargs)
                    if outermost and not recorder.inside("making a scheduler"):
                        recorder.note("scheduler")
                        for group in scheduler.optimizer.param_groups:
                            group["lr"] *= factor
                        scheduler._last_lr = [group["lr"] for group in scheduler.optimizer.param_groups]

            return step

        schedulers = torch.optim.lr_scheduler
        for value in vars(schedulers).values():
            if (
                isinstance(value, type)
                and issubclass(value, schedulers.LRScheduler)
                and "step" in vars(value)
            ):
                value.step = watched(value.step)  # type: ignore[method-assign]

    def _watch_loss(self, name: str) -> None:
        original = getattr(nn.functional, name)

        def loss(input: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
            with self.within("loss") as outermost:
                value = original(input, target, *args, **kwargs)
                if outermost and torch.is_grad_enabled() and len(self.batches) < MAX_EVENTS:
                    self._batch(input, target, value)
                return value

        setattr(nn.functional, name, loss)

    def _batch(self, logits: Any, labels: Any, loss: Any) -> None:
        arrays = plain_tensor(_home(logits)), plain_tensor(_home(labels))
        if (
            arrays[0] is None
            or arrays[1] is None
            or arrays[0].ndim != 2
            or arrays[1].shape != arrays[0].shape[:1]
        ):
            return
        value = _number(loss)
        answers = sorted(map(str, self.answers))
        self.answers.clear()
        self.batches.append(
            {
                "type": str(logits.dtype),
                "loss": value,
                "logits": arrays[0],
                "labels": arrays[1],
                "answers": answers,
            }
        )
        self.note("loss", value)

    def _watch_forward(self) -> None:
        from torchvision.models.resnet import ResNet

        recorder = self

        def watched(original: Any) -> Any:
            def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
                image = next(iter((*args, *kwargs.values())), None)
                is_image = isinstance(image, torch.Tensor) and image.dim() == 4 and not torch.jit.is_tracing()
                if not is_image or recorder.inside("forward"):
                    return original(module, *args, **kwargs)
                with recorder.within("forward"):
                    recorder.forward(module, cast(torch.Tensor, image))
                    return original(module, *args, **kwargs)

            return call

        nn.Module.__call__ = watched(nn.Module.__call__)  # type: ignore[method-assign]
        # model.forward(images) instead of model(images) would otherwise look like a call of every layer.
        ResNet.forward = watched(ResNet.forward)  # type: ignore[method-assign]

    def forward(self, module: nn.Module, images: torch.Tensor) -> None:
        """A model is about to be called with a batch of images."""
        self.note("forward", len(images), torch.is_grad_enabled(), module.training)
        known = any(module is model for model, _ in self._models)
        if torch.is_grad_enabled() and not known and len(self._models) < MAX_MODELS:
            self._models.append((module, [value.detach().clone() for value in module.parameters()]))

    def _moved(self) -> bool:
        """Whether any weight of a model is another one than when it was first called."""
        return any(
            not torch.equal(before, value.to(before.device))
            for model, weights in self._models
            for before, value in zip(weights, model.parameters(), strict=False)
        )

    def observation(self, status: int, **values: Json) -> Observation:
        """The batches that were trained on, one after the other, and the events."""
        arrays: dict[str, Array | torch.Tensor] = {}
        if self.batches:
            arrays["logits"] = np.concatenate([b["logits"].astype(np.float64) for b in self.batches])
            arrays["labels"] = np.concatenate([b["labels"] for b in self.batches])
        return Observation(
            {
                "status": status,
                "events": cast(Json, self.events),
                "losses": [b["loss"] for b in self.batches],
                "types": cast(Json, sorted({b["type"] for b in self.batches})),
                "sizes": [len(b["logits"]) for b in self.batches],
                "moved": self._moved(),
                **values,
            },
            arrays,
        )


def train(student: Student, inputs: Inputs) -> Observation:
    """Run the script or notebook to its end; the batches, the events and the log files it leaves."""
    training = Training()
    training.install()
    training.begin_with(student.data)
    training.watch_scheduler(cast(float, inputs.values["factor"]))
    status, used = _run(student, inputs)
    # Before what Python does at its end: a log must not depend on it, a notebook's kernel stays alive.
    events = _log_files("events.out.tfevents.*")
    if cast(dict[str, Json], inputs.values["options"]).get("wandb") == "offline":
        with student.calling("ending the W&B run as Python does at its end"):
            atexit._run_exitfuncs()
    runs = _log_files("*.wandb")
    report: str | None = None
    if os.path.isfile("amp-report.json") and os.path.getsize("amp-report.json") < 1 << 20:
        with open("amp-report.json", encoding="utf-8", errors="replace") as file:
            report = file.read()
    seen = training.observation(
        status, event_files=list(events), wandb_files=list(runs), report=report, **used
    )
    files = {f"event/{i}": data for i, data in enumerate(events.values())}
    files |= {f"wandb/{i}": data for i, data in enumerate(runs.values())}
    return Observation(seen.values, {**seen.arrays, **files})


def _log_files(pattern: str) -> dict[str, Array]:
    """The newest files of that name below the folder, by path."""
    found = [
        name
        for name in glob.glob(f"**/{pattern}", recursive=True, include_hidden=True)
        if os.path.isfile(name)
    ]
    found.sort(key=os.path.getmtime)
    files: dict[str, Array] = {}
    for name in found[-MAX_LOG_FILES:]:
        with open(name, "rb") as file:
            files[name[:300]] = np.frombuffer(file.read(MAX_LOG_BYTES), dtype=np.uint8)
    return files


def until_the_loss(student: Student, inputs: Inputs) -> Observation:
    """Run the script until its first training loss, or the one of that number.

    What is seen: the types that reached the losses, those of the parameters, and those that layers answered in; how
    many filters the model has; how many scalers scaled a loss; and where, told which GPU to use, images and weights
    were.
    """
    training = Training()
    training.install()
    types: list[str] = []
    filters: list[int] = []
    places: set[str] = set()
    scalers = _watch_scalers()

    def forget() -> None:
        for kept in (types, filters, places, scalers):
            kept.clear()

    training.begin_with(student.data, forget)
    for layer in (nn.Linear, nn.Conv2d):
        _watch_answers(layer, training.answers)

    def forward(module: nn.Module, images: torch.Tensor) -> None:
        types.extend(sorted({str(value.dtype) for value in module.parameters()}))
        filters.append(_filters(module))
        # A model may move its images itself, as nn.DataParallel does.
        places.update(value.device.type for value in (images, *module.parameters()))
        if training.has_begun and inputs.values.get("stop") == "forward":
            raise SeenEnough

    training.forward = forward  # type: ignore[method-assign]
    note = training.note
    number = cast(int, inputs.values.get("losses", 1))

    def stop_at_loss(*event: Json) -> None:
        note(*event)
        if training.has_begun and event[0] == "loss" and len(training.batches) >= number:
            raise SeenEnough

    training.note = stop_at_loss  # type: ignore[method-assign]
    status = 0
    try:
        with _device(inputs):
            status = _run(student, inputs)[0]
    except SeenEnough:
        student.phase = ""
    # What opens no file that is seen, as torchvision.io.read_image, has the script run to its end.
    parameters = cast(Json, sorted(set(types))[:10])
    answers = cast(Json, [batch["answers"] for batch in training.batches])
    return training.observation(
        status,
        parameters=parameters,
        answers=answers,
        filters=filters[0] if filters else None,
        scalers=len(scalers),
        places=cast(Json, sorted(places) if _can_choose_gpu(student, inputs) else []),
        notebook=student.is_notebook(MODULE),
    )


def _watch_scalers() -> list[torch.amp.GradScaler]:
    """Grows with every scaler that is on and scales a loss from now on."""
    seen: list[torch.amp.GradScaler] = []
    original = torch.amp.GradScaler.scale

    def scale(scaler: torch.amp.GradScaler, outputs: Any) -> Any:
        if scaler.is_enabled() and not any(scaler is one for one in seen):
            seen.append(scaler)
        return original(scaler, outputs)

    torch.amp.GradScaler.scale = scale  # type: ignore[method-assign]
    return seen


def _can_choose_gpu(student: Student, inputs: Inputs) -> bool:
    """Whether this is a script on a machine with a GPU, and one that can be told which to use."""
    if inputs.values.get("gpu") is not True or student.is_notebook(MODULE):
        return False
    with open(os.path.join(student.work, f"{MODULE}.py"), encoding="utf-8", errors="replace") as file:
        return re.search(r"""["']--gpu["']""", file.read()) is not None


def _watch_answers(layer: type[nn.Module], types: set[torch.dtype]) -> None:
    """Note the types in which layers answer while they are trained."""
    original = layer.forward

    def forward(module: nn.Module, input: torch.Tensor) -> torch.Tensor:
        output = original(module, input)
        if torch.is_grad_enabled():
            types.add(output.dtype)
        return output

    layer.forward = forward  # type: ignore[method-assign]


class Search(Training):
    """A run in which so many images fit into memory at once, and no more."""

    def __init__(self, fits: int) -> None:
        super().__init__()
        self.fits = fits
        # How many images, whether they fit, and whether a backward followed.
        self.tried: list[list[Json]] = []
        self.most: float = math.inf
        # Whether one of them went forward under autocast.
        self.any_low = False

    def note(self, *event: Json) -> None:
        """Add an event; a backward belongs to the images that came last."""
        super().note(*event)
        if event[0] == "backward" and self.tried:
            self.tried[-1][2] = True

    def forward(self, module: nn.Module, images: torch.Tensor) -> None:
        """Run out of memory, in torch's words, where there are more images than fit."""
        if len(self.tried) >= self.most:
            raise SeenEnough
        fits = len(images) <= self.fits
        if torch.is_grad_enabled() and len(self.tried) < MAX_EVENTS:
            self.tried.append([len(images), fits, False])
            self.any_low |= _autocast_is_on()
        if not fits:
            raise torch.OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {len(images) / 8:.2f} MiB. GPU 0 has a total capacity of "
                f"{self.fits / 8:.2f} MiB of which 0.00 MiB is free."
            )


def search(student: Student, inputs: Inputs) -> Observation:
    """Run the script with --find-batch-size where only so many images fit into memory at once.

    Before that, so that what it prints is not the last that is read, the template's `find_batch_size` answers for
    each of `ends`: [largest, fits]; and once more for the first with amp=False.
    """
    training = Search(cast(int, inputs.values["fits"]))
    with _device(inputs) as device:
        training.install()
        values = _ends(student, training, cast(list[list[int]], inputs.values["ends"]), device)
        status = _run(student, inputs)[0]
    return Observation({"status": status, "tried": cast(Json, training.tried), **values})


def _ends(student: Student, training: Search, ends: list[list[int]], device: torch.device) -> dict[str, Json]:
    """`ends`: the sizes that the template's function finds, None for one that it ends without; None without it.

    `low`: whether it tried a step under autocast, asked for amp=False.
    """
    _small_resnets()
    script = training.fits, training.tried, training.most
    found: list[Json] = []
    low: Json = None
    try:
        find = _templates(student.load(MODULE), "find_batch_size", FIND_BATCH_SIZE)
        if find is not None:
            for largest, fits in ends:
                training.fits, training.tried, training.most = fits, [], MAX_TRIALS
                found.append(_found(student, find, device, True, largest))
            largest, training.fits = ends[0]
            training.tried, training.any_low = [], False
            _found(student, find, device, False, largest)
            low = training.any_low
    except Exception:
        # What cannot be imported is for other checks to say.
        student.phase = ""
    training.fits, training.tried, training.most = script
    return {"ends": found or None, "low": low}


def _found(
    student: Student, find: Callable[..., object], device: torch.device, amp: bool, largest: int
) -> Json:
    try:
        with student.calling(f"calling find_batch_size(..., amp={amp}, largest={largest})"):
            result = find("resnet18", torch.zeros(3, 32, 32), device, amp, largest)
    except (Exception, SystemExit, SeenEnough):
        student.phase = ""
        return None
    size = result[0] if isinstance(result, tuple | list) and result else result
    return plain(size)


def _run(student: Student, inputs: Inputs) -> tuple[int, dict[str, Json]]:
    """Run the script with the judge's options, on its command line or in the constants of a notebook.

    Returns its exit status, and whether it was a notebook and could be told to accumulate gradients.
    """
    _small_resnets()
    _hold_events_back()
    DataLoader.__init__ = _without_workers(DataLoader.__init__)  # type: ignore[method-assign]
    os.environ.update(
        {
            "WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_CONSOLE": "off", "WANDB__DISABLE_STATS": "true",
            "WANDB_DISABLE_GIT": "true", "WANDB_DISABLE_CODE": "true", "WANDB_ERROR_REPORTING": "false",
        }
    )  # fmt: skip
    options = cast(dict[str, Json], inputs.values["options"])
    accumulation = inputs.values.get("accumulation")
    path = os.path.join(student.work, f"{MODULE}.py")
    if not os.path.exists(path):
        student.load(MODULE)  # says what is missing
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    if student.is_notebook(MODULE):
        if accumulation is not None:
            options = {**options, "accumulation": accumulation}
        with student.calling("reading the constants of amp_train.ipynb"):
            tagged = any(cell.is_parameters for cell in read_cells(text) or ())
            if not tagged:
                text = _tagged(text, options)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            chosen = constants(text, options)
        run = student.run_notebook(
            MODULE, chosen, arguments=command_line(_left_to_flags(text, options, chosen))
        )
        if run.error is not None:
            raise run.error
        can = any(_option(name) == "accumulation" for name in chosen)
        return 0, {"notebook": True, "accumulates": can, "tagged": tagged}
    words = command_line(options)
    flag = None if accumulation is None else re.search(r"""["'](--[\w-]*accum[\w-]*)["']""", text)
    if flag is not None:
        words += [flag[1], str(accumulation)]
    if _can_choose_gpu(student, inputs):
        words += ["--gpu", "0"]
    return student.run_script(f"{MODULE}.py", words), {"notebook": False, "accumulates": flag is not None}


def _left_to_flags(text: str, options: dict[str, Json], chosen: Mapping[str, Any]) -> dict[str, Json]:
    """Options that no constant of a notebook stands for, but a flag or a field that flags are made of does."""
    if not re.search(r"\bparse_(known_)?args\(", text):
        return {}
    left = options.keys() - {_option(name) for name in chosen}
    flags = {name: rf"--{name.replace('_', '-')}\b|^ +{name} *[:=]" for name in left}
    return {name: options[name] for name in options if name in left and re.search(flags[name], text, re.M)}


def command_line(options: dict[str, Json]) -> list[str]:
    """Options as the words of a command line: False means `--no-amp` for amp, and otherwise no flag."""
    words: list[str] = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif value is False:
            words += ["--no-amp"] if name == "amp" else []
        else:
            words += [flag, str(value)]
    return words


def constants(source: str, options: dict[str, Json]) -> dict[str, Any]:
    """The judge's values for the constants that a notebook's `parameters` cell defines, by their names there."""
    found: dict[str, Any] = {}
    lines = source.split("\n")
    for cell in read_cells(source) or ():
        if not cell.is_parameters:
            continue
        for statement in ast.parse("\n".join(cell.of(lines))).body:
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            if isinstance(statement, ast.AnnAssign):
                targets = [statement.target]
            for target in (name for whole in targets for name in ast.walk(whole)):
                if isinstance(target, ast.Name) and _option(target.id) in options:
                    value = options[_option(target.id)]
                    is_path = "Path(" in ast.unparse(statement)
                    found[target.id] = Path(value) if is_path and isinstance(value, str) else value
    return found


def _tagged(source: str, options: dict[str, Json]) -> str:
    """A notebook's source with the tag `parameters` at the first cell that looks like it."""
    for cell in read_cells(source) or ():
        lines = source.split("\n")
        lines[cell.first_line - 2] = lines[cell.first_line - 2].replace(" lines)", " lines) [parameters]", 1)
        candidate = "\n".join(lines)
        if len(constants(candidate, options)) >= 3:
            return candidate
    return source


def _option(name: str) -> str:
    """The option that a constant of this name stands for, by the command line's name; "" for none.

    Names may be German, Spanish or French: a clear name is clear in its language.
    """
    word = re.sub(r"[^a-z0-9]", "", unicodedata.normalize("NFKD", name.lower()))
    if re.search("accum|akkum|acum", word):
        return "accumulation"
    if re.search("batch|stapel|(?<![ip])lote", word):
        return "find_batch_size" if re.search("find|search|such|busca|cherche", word) else "batch_size"
    if re.search("epo(ch|ca|que)", word):
        return "epochs"
    if "wandb" in word:
        return "wandb" if word in ("wandb", "wandbmode", "wandbmodus", "usewandb") else ""
    if re.search("report|bericht|informe|rapport", word):
        return "report"
    if re.search("(?<!se)arch(?!iv)", word) or word in MODEL_WORDS:
        return "arch"
    if word in (
        "amp",
        "useamp",
        "withamp",
        "mixedprecision",
        "gemischt",
        "gemischtegenauigkeit",
        "precisionmixta",
    ):
        return "amp"
    if (
        "log" in word
        or re.match("protokoll|registro|journal", word)
        or word in ("runs", "runsdir", "tensorboarddir", "tbdir")
    ):
        return "logdir"
    return (
        "training_data"
        if re.search("data|daten|datos|donnees", word) or word in ("root", "cinic", "cinic10")
        else ""
    )


def _hold_events_back() -> None:
    """Write no event before flush or close: TensorBoard may leave them in its queue for as long as two minutes."""
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    add_event = EventFileWriter.add_event

    def hold(writer: Any, event: Any) -> None:
        writer.__dict__.setdefault("held_back", []).append(event)

    def first_writing(original: Callable[[Any], None]) -> Callable[[Any], None]:
        def release(writer: Any) -> None:
            for event in writer.__dict__.pop("held_back", []):
                add_event(writer, event)
            original(writer)

        return release

    EventFileWriter.add_event = hold
    EventFileWriter.flush = first_writing(EventFileWriter.flush)
    EventFileWriter.close = first_writing(EventFileWriter.close)


def _without_workers(original: Callable[..., None]) -> Callable[..., None]:
    """Read in this process: starting workers takes longer than reading so few images."""

    def init(self: object, *args: Any, **kwargs: Any) -> None:
        for name in ("num_workers", "persistent_workers", "prefetch_factor", "multiprocessing_context"):
            kwargs.pop(name, None)
        original(self, *args, **kwargs)

    return init


def _small_resnets() -> None:
    """Let every ResNet of torchvision have one small layer a stage: what is looked at here is not its size."""
    from torchvision.models import resnet

    def init(
        self: resnet.ResNet, block: Any, layers: object, num_classes: int = 1000, *_: object, **__: object
    ) -> None:
        nn.Module.__init__(self)
        self.conv1 = nn.Conv2d(3, 64, kernel_size=7, stride=16, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        widths = (64, 64, 128, 256, 512 * block.expansion)
        for stage in range(1, 5):
            layer = nn.Conv2d(widths[stage - 1], widths[stage], kernel_size=1, stride=1 if stage == 1 else 2)
            setattr(self, f"layer{stage}", nn.Sequential(layer))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(widths[4], num_classes)

    resnet.ResNet.__init__ = init  # type: ignore[method-assign, assignment]
