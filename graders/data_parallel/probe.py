"""Calls the functions of `data_parallel.py` on a CPU and on emulated GPUs; it knows no right answer.

What is sent back is what happened: what kind of wrapper came back, which device saw how many rows, what the
outputs were, when each call of a model began and when its work was done, and which seconds were reported.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from lockstep.sandbox.device import Machine, emulated_gpus, home
from lockstep.sandbox.helptexts import note_broken_help
from lockstep.sandbox.probing import Inputs, Observation, Student, kind, plain
from lockstep.sandbox.slowed import hold_up_calls
from lockstep.wire import Array, Json

MODULE = "data_parallel"
USUAL_REPORT = "reports/data_parallel.json"
MAX_CALLS = 1000
MAX_REPORT = 2 << 20

# The clock and the sleep of this file stay what they are, whatever the student's file does to `time`.
_now, _sleep = time.perf_counter, time.sleep


class Net(nn.Module):
    """A small smooth network: pictures (n, channels, side, side) in, (n, classes) out."""

    def __init__(self, channels: int, side: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.filters = nn.Conv2d(channels, hidden, kernel_size=3)
        self.middle = nn.Linear(hidden * (side - 2) ** 2, hidden)
        self.head = nn.Linear(hidden, classes)
        self.scale = nn.Buffer(torch.ones(hidden))
        # Replicas share what they do not replace, so that their parts of a batch end up in one list.
        self.parts: list[list[Json]] = []

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The logits of a batch, or of a part of it."""
        if len(self.parts) < MAX_CALLS:
            self.parts.append([str(images.device), len(images)])
        hidden = torch.tanh(self.filters(images)).flatten(1)
        hidden = torch.tanh(self.middle(hidden)) * self.scale
        return cast(torch.Tensor, self.head(hidden))


def build_model(shape: dict[str, Json], weights: dict[str, Array] | None = None) -> Net:
    """The network that `shape` describes, in evaluation mode, holding these weights, if any."""
    model = Net(**cast(dict[str, int], shape))
    if weights is not None:
        model.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()})
    return model.eval()


def _model(inputs: Inputs) -> Net:
    return build_model(cast(dict[str, Json], inputs.values["shape"]), inputs.below("model"))


@contextlib.contextmanager
def _gpus(inputs: Inputs) -> Iterator[Machine | None]:
    """As many emulated GPUs as the judge wants; with none the machine stays as it is."""
    count = cast(int, inputs.values["gpus"])
    if count == 0:
        yield None
        return
    with emulated_gpus(count) as machine:
        yield machine


def wrap(student: Student, inputs: Inputs) -> Observation:
    """make_data_parallel around a model, once for each of the device lists; what came back each time."""
    with _gpus(inputs) as gpus:
        make = student.get(student.load(MODULE), "make_data_parallel")
        described = []
        for device_ids in cast(list[Json], inputs.values["device_ids"]):
            model = _model(inputs)
            described.append(_described(_wrapped(student, make, model, gpus, device_ids), model))
    return Observation({"wrapped": cast(Json, described)})


def _wrapped(
    student: Student, make: Any, model: nn.Module, gpus: Machine | None, device_ids: Json = None
) -> Any:
    arguments = [] if device_ids is None else [device_ids]
    shown = "".join(f", {argument}" for argument in arguments)
    with student.calling(f"calling make_data_parallel(model{shown}) {_on(gpus)}"):
        return make(model, *arguments)


def forward(student: Student, inputs: Inputs) -> Observation:
    """What a wrapped model makes of some batches, and which device saw how many rows of each."""
    with _gpus(inputs) as gpus:
        make = student.get(student.load(MODULE), "make_data_parallel")
        model = _model(inputs)
        wrapped = _wrapped(student, make, model, gpus)
        values = _described(wrapped, model)
        if values["parallel"] is not True:
            return Observation(values)
        if gpus is not None:
            # Whether the function moves the weights to the first device is its own business.
            wrapped.to(f"cuda:{(wrapped.device_ids or [0])[0]}")
        kinds: dict[str, Json] = {}
        parts: dict[str, Json] = {}
        arrays: dict[str, torch.Tensor] = {}
        for name in [name for name in inputs.arrays if name.startswith("batch/")]:
            model.parts.clear()
            batch = inputs.tensor(name)
            what = f"calling the wrapped model {_on(gpus)} for a batch of {len(batch)}"
            with student.calling(what), torch.no_grad():
                output = _called(wrapped, batch)
            kinds[name] = kind(output)
            parts[name] = cast(Json, sorted(model.parts, key=str))
            if isinstance(output, torch.Tensor):
                arrays[name] = home(output)
    return Observation({**values, "kinds": kinds, "parts": parts}, arrays)


def _called(wrapped: nn.DataParallel[nn.Module], batch: torch.Tensor) -> Any:
    """The outputs. What is raised in a replica's thread comes with that thread's traceback in its message."""
    try:
        return wrapped(batch)
    except Exception as error:
        caught, found, original = str(error).partition("Original Traceback (most recent call last):")
        if not found:
            raise
        raised = original.strip().splitlines()[-1]
        raise ReplicaError(f"{caught.strip().rstrip('.')}: {raised}") from None


class ReplicaError(Exception):
    """What was raised in the thread of one replica."""


def _on(gpus: Machine | None) -> str:
    if gpus is None:
        return "on a machine without a GPU"
    return f"on a machine with {gpus.count} GPU{'s' * (gpus.count > 1)}"


def _described(wrapped: object, model: nn.Module) -> dict[str, Json]:
    """Whether this is a DataParallel, of what, over which devices."""
    wrapped = getattr(wrapped, "_orig_mod", wrapped)  # of torch.compile
    if isinstance(wrapped, DistributedDataParallel):
        return {"parallel": False, "kind": "a DistributedDataParallel"}
    if wrapped is model:
        return {"parallel": False, "kind": "the bare model"}
    if not isinstance(wrapped, nn.DataParallel):
        return {"parallel": False, "kind": kind(wrapped)}
    inner = wrapped.module
    if inner is model:
        what = "the model"
    elif isinstance(inner, type):
        what = "a class"
    elif isinstance(inner, nn.DataParallel):
        what = "a DataParallel"
    else:
        what = "another model of the same class" if type(inner) is type(model) else kind(inner)
    devices = wrapped.device_ids
    numbers = [plain(number) for number in devices[:16]] if isinstance(devices, list | tuple) else []
    places = sorted({str(weight.device) for weight in model.parameters()})
    return {"parallel": True, "inner": what, "device_ids": cast(Json, numbers), "weights": cast(Json, places)}


class Slow(nn.Module):
    """A model whose calls take as long as the judge says, each another time."""

    def __init__(self, features: int, delays: list[float], gpus: Machine | None) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(1)
        self.linear = nn.Linear(features, 2)
        self.drop = nn.Dropout()
        self._delays, self._gpus = delays, gpus
        self.calls: list[list[Json]] = []
        self.is_full = True

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Something quick, and then the delay: slept through on a CPU, queued on a GPU."""
        start = _now()
        result = cast(torch.Tensor, self.drop(self.linear(self.norm(images).flatten(1))))
        self.is_full &= result.dtype not in (torch.float16, torch.bfloat16)
        seconds = self._delays[len(self.calls) % len(self._delays)]
        if self._gpus is None:
            _sleep(seconds)
            done = _now()
        else:
            done = self._gpus.enqueue(seconds, images.device)
        if len(self.calls) < MAX_CALLS:
            # With frozen weights there is nothing to record, whatever the mode says. Layers have a mode of their own.
            training = any(module.training for module in self.modules())
            self.calls.append([start, done, training, result.requires_grad, len(images)])
        return result


def time_calls(student: Student, inputs: Inputs) -> Observation:
    """time_inference with a model whose calls take known times; the readings, and when the calls really were.

    Where the judge asks for it, then the same once more, and with another model.
    """
    with _gpus(inputs) as gpus:
        function = student.get(student.load(MODULE), "time_inference")
        delays, batch = cast(list[float], inputs.values["delays"]), inputs.tensor("batch")
        models = [Slow(batch[0].numel(), delays, gpus) for _ in range(2)]
        if gpus is not None:
            models, batch = [model.to("cuda") for model in models], batch.to("cuda")
        sessions = [_session(student, inputs, function, models[0], batch, gpus)]
        if inputs.values["again"] is True:
            sessions += [_session(student, inputs, function, model, batch, gpus) for model in models]
    return Observation({"sessions": cast(Json, sessions)})


def _session(
    student: Student, inputs: Inputs, function: Any, model: Slow, batch: torch.Tensor, gpus: Machine | None
) -> dict[str, Json]:
    """One call of time_inference."""
    model.calls, model.is_full = [], True
    model.train()
    n_reps = cast(int, inputs.values["n_reps"])
    before = gpus.asked if gpus is not None else 0
    had_grad, statistics = torch.is_grad_enabled(), _statistics(model)
    learned = [value.requires_grad for value in model.parameters()]
    with student.calling(f"calling time_inference(model, batch, {n_reps}) {_on(gpus)}"):
        readings = function(model, batch, n_reps)
    returned = _now()
    waited = gpus is None or gpus.asked > before
    return {
        "returned": returned,
        **_readings(readings),
        "calls": cast(Json, model.calls),
        "waited": waited,
        "statistics_kept": _statistics(model) == statistics,
        "grad_kept": torch.is_grad_enabled() is had_grad,
        "in_full_precision": model.is_full,
        "learns_as_before": [value.requires_grad for value in model.parameters()] == learned,
    }


def _statistics(model: nn.Module) -> list[list[float]]:
    """What batch norm knows of the batches that it saw in training mode."""
    return [home(buffer).flatten().tolist() for buffer in model.buffers()]


def _readings(value: object) -> dict[str, Json]:
    """The kind of what time_inference returned, and the numbers in it."""
    values: dict[str, Json] = {"kind": kind(value)}
    if isinstance(value, torch.Tensor | np.ndarray) and value.ndim == 1 and len(value) <= MAX_CALLS:
        value = value.tolist()
    if isinstance(value, list | tuple):
        values["readings"] = [plain(item) for item in value[:MAX_CALLS]]
    return values


def script(student: Student, inputs: Inputs) -> Observation:
    """Run the script; its exit status, the report it leaves, and how often models were called with how many images.

    Each call takes `delay` seconds more than it would. Also in which modes that was, of how many parameters, whether a
    GPU was waited for, on which GPUs modules were called, how many images the largest part of a batch had, and whether
    anything was put on another GPU than the first.
    """
    calls = hold_up_calls([cast(float, inputs.values["delay"])])
    modes, networks, sizes_seen = _watch_modes()
    places, parts = _watch_places()
    note_broken_help(student.watch.note)
    with _gpus(inputs) as gpus:
        status = student.run_script(f"{MODULE}.py", cast(list[str], inputs.values["arguments"]))
    arrays: dict[str, Any] = {}
    asked = cast(str, inputs.values["report"])
    written = next((path for path in (asked, USUAL_REPORT) if os.path.isfile(path)), None)
    if written is not None:
        with open(written, "rb") as file:
            arrays["report"] = np.frombuffer(file.read(MAX_REPORT), dtype=np.uint8)
    sizes = Counter(cast(list[int], event)[3] for event in calls.events())
    used = os.times()
    values: dict[str, Json] = {
        "calls": [[str(size), count] for size, count in sizes.most_common(MAX_CALLS)],
        "most_parameters": max(sizes_seen),
        "modes": [[*mode, count] for mode, count in modes.most_common(MAX_CALLS)],
        "networks": [[*network, count] for network, count in networks.most_common(MAX_CALLS)],
        "waited": gpus is None or gpus.asked > 0,
        "as_asked": written == asked,
        "by_children": used.children_user + used.children_system > 0,
        "places": cast(Json, sorted(places)),
        "largest_part": max(parts),
        "second_used": gpus is not None and any(gpus.memory.peak[1:]),
        "asks_elsewhere": _asks_elsewhere(),
    }
    return Observation({"status": status, **values}, arrays)


def _watch_places() -> tuple[set[str], set[int]]:
    """The GPUs on which modules are called from now on, by what they are given and by their weights, and how many rows.

    An nn.DataParallel itself is given the rows of all its parts, which do not count.
    """
    places: set[str] = set()
    rows = {0}

    def before(module: nn.Module, args: tuple[object, ...]) -> None:
        # Where nn.DataParallel keeps the weights of a replica.
        weights = getattr(module, "_former_parameters", {}).values()
        found = [value.device for value in (*args, *weights) if isinstance(value, torch.Tensor)]
        places.update(str(device) for device in found if device.type == "cuda")
        if not isinstance(module, nn.DataParallel):
            rows.update(len(value) for value in args if isinstance(value, torch.Tensor) and value.ndim)

    nn.modules.module.register_module_forward_pre_hook(before)
    return places, rows


def _watch_modes() -> tuple[Counter[tuple[str, bool, bool]], Counter[tuple[str, int]], set[int]]:
    """Calls of models from now on: how many images, whether in training mode, whether results need gradients.

    Then how many images and of how many parameters, and how many of these what was called has together with all that
    was called before.
    """
    modes: Counter[tuple[str, bool, bool]] = Counter()
    networks: Counter[tuple[str, int]] = Counter()
    # By id: model.forward(batch) calls the layers one by one. What is gone may count as well.
    parameters: dict[int, int] = {}
    sizes = {0}
    # Replicas of a model run in threads of their own.
    thread = threading.local()

    def before(module: nn.Module, args: tuple[object, ...]) -> None:
        thread.depth = getattr(thread, "depth", 0) + 1

    def after(module: nn.Module, args: tuple[object, ...], output: object) -> None:
        thread.depth -= 1
        batch = args[0] if args else None
        if thread.depth or not isinstance(batch, torch.Tensor) or not batch.ndim:
            return
        training = any(m.training for m in module.modules() if isinstance(m, nn.Dropout | _BatchNorm))
        if any(True for _ in module.parameters()):
            grad = isinstance(output, torch.Tensor) and output.requires_grad
            modes[str(len(batch)), training, grad] += 1
            networks[str(len(batch)), sum(value.numel() for value in module.parameters())] += 1
            parameters.update((id(value), value.numel()) for value in module.parameters())
            sizes.add(sum(parameters.values()))

    nn.modules.module.register_module_forward_pre_hook(before)
    nn.modules.module.register_module_forward_hook(after, always_call=True)
    return modes, networks, sizes


def _asks_elsewhere() -> bool:
    """Whether the source looks as if it learnt of GPUs from elsewhere: only torch knows of emulated ones."""
    texts = []
    for path in (f"{MODULE}.py", f"{MODULE}.ipynb"):
        with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
            texts.append(file.read(MAX_REPORT).lower())
    words = ("nvidia", "nvml", "gputil", "visible_devices", "slurm", "/proc/")
    return any(word in text for text in texts for word in words)
