"""The script as it trains, to its end or to the first loss."""

from __future__ import annotations

import atexit
import contextlib
import glob
import math
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim import swa_utils
from torch.optim.optimizer import register_optimizer_step_post_hook

from lockstep.sandbox.probing import Inputs, Observation, Student, plain, text_of_file
from lockstep.wire import Array, Json

from .losses import LossRecorder
from .recorder import MAX_EVENTS
from .script import MODULE, can_choose_gpu, can_clip, run_script
from .stepping import chosen_device, filters_of

MAX_LOG_BYTES = 4 << 20
# add_scalars writes a file for every curve.
MAX_LOG_FILES = 24
MAX_MODELS = 8
# Where the judge has it written to.
REPORT = "amp-report.json"


class Training(LossRecorder):
    """What a whole run of the script does: its batches, and what each came to."""

    def __init__(self) -> None:
        super().__init__()
        self._models: list[tuple[nn.Module, list[torch.Tensor]]] = []
        # Each event of a forward in training, and whose it was.
        self._learning: list[tuple[list[Json], nn.Module]] = []
        # When the last forward in training began, and how long each took up to the step behind it: in seconds of this
        # thread, which do not grow with what others compute meanwhile.
        self._began: float | None = None
        self._step_seconds: list[float] = []
        self.has_begun = False

    def begin_with(self, folder: str, forget: Callable[[], None] = lambda: None) -> None:
        """Forget what was trained on before a file in `folder` is opened: a step that is tried on made-up images."""

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            if self.has_begun or event != "open" or not isinstance(arguments[0], str | bytes):
                return
            if os.path.abspath(os.fsdecode(arguments[0])).startswith(f"{folder}{os.sep}"):
                self.has_begun = True
                self.events[:] = [noted for noted in self.events if noted[0] == "scheduler made"]
                self.forget_losses()
                self._models.clear()
                self._learning.clear()
                self._step_seconds.clear()
                forget()

        sys.addaudithook(hook)

    def note(self, *event: Json) -> None:
        """Add an event, and how long a step took where it ends one."""
        super().note(*event)
        if event[0] == "optimizer" and self._began is not None:
            self._step_seconds.append(time.thread_time() - self._began)
            self._began = None

    def install(self) -> None:
        """As for one step, and the losses, the model's forward and the scheduler's steps besides."""
        super().install()
        self._watch_forward()
        self._pass_over_update_bn()
        # A scheduler makes its first step while it is made.
        made = torch.optim.lr_scheduler.LRScheduler._initial_step

        def initial(scheduler: Any) -> None:
            with self.within("making a scheduler"):
                made(scheduler)
            self.note("scheduler made", plain(_planned_steps(scheduler)))

        torch.optim.lr_scheduler.LRScheduler._initial_step = initial  # type: ignore[method-assign, assignment]

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

    def _watch_forward(self) -> None:
        from torchvision.models.resnet import ResNet

        recorder = self

        def watched(original: Any) -> Any:
            def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
                image = next(iter((*args, *kwargs.values())), None)
                is_image = isinstance(image, torch.Tensor) and image.dim() == 4 and not torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
                if not is_image or recorder.inside("forward") or not _has_weights(module):
                    return original(module, *args, **kwargs)
                with recorder.within("forward"):
                    recorder.forward(module, cast(torch.Tensor, image))
                    return original(module, *args, **kwargs)

            return call

        nn.Module.__call__ = watched(nn.Module.__call__)  # type: ignore[method-assign]
        # model.forward(images) instead of model(images) would otherwise look like a call of every layer.
        ResNet.forward = watched(ResNet.forward)

    def _pass_over_update_bn(self) -> None:
        """Let what torch does for a batch norm of averaged weights be no validation: it needs training mode."""
        original = swa_utils.update_bn

        def update_bn(*args: Any, **kwargs: Any) -> None:
            with self.within("forward"):
                original(*args, **kwargs)

        swa_utils.update_bn = update_bn

    def forward(self, module: nn.Module, images: torch.Tensor) -> None:
        """A model is about to be called with a batch of images."""
        # Of weights that ask for no gradient, as those of a frozen copy, nothing is recorded.
        learns = torch.is_grad_enabled() and any(value.requires_grad for value in module.parameters())
        event: list[Json] = ["forward", len(images), learns, module.training]
        self.note(*event)
        if learns and module.training and self.events[-1] == event:
            self._learning.append((self.events[-1], module))
            self._began = time.thread_time()
        known = any(module is model for model, _ in self._models)
        if torch.is_grad_enabled() and not known and len(self._models) < MAX_MODELS:
            weights = list(module.parameters())
            # A lazy weight has no values before the first call.
            if not any(map(is_lazy, weights)):
                self._models.append((module, [value.detach().clone() for value in weights]))

    def _forget_warm_up(self) -> None:
        """Forget the first batches if they were for another model than all later ones, which are more: for a copy."""
        models = [model for _, model in self._learning]
        first = next((at for at, model in enumerate(models) if model is models[-1]), 0)
        if first == 0 or any(model is not models[-1] for model in models[first:]) or 2 * first >= len(models):
            return
        began = next(at for at, event in enumerate(self.events) if event is self._learning[first][0])
        del self.batches[: sum(event[0] == "loss" for event in self.events[:began])]
        # A copy has no scheduler: its steps, right before the first batch, are of the training.
        self.events[:began] = [
            event for event in self.events[:began] if event[0] in ("scheduler made", "scheduler")
        ]

    def _moved(self) -> bool:
        """Whether any weight of a model is another one than when it was first called."""
        return any(
            not torch.equal(before, value.to(before.device))
            for model, weights in self._models
            for before, value in zip(weights, model.parameters(), strict=False)
        )

    def step_seconds(self) -> float | None:
        """What one step took, from its forward to the optimizer's step, by the median; None where there was none."""
        return statistics.median(self._step_seconds) if self._step_seconds else None

    def observation(self, status: int, **values: Json) -> Observation:
        """The batches that were trained on, one after the other, and the events."""
        self.settle()
        self._forget_warm_up()
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


def _has_weights(module: nn.Module) -> bool:
    """Whether a module can be the model: a transform is one, too, and may be called on a whole batch of images."""
    return next(module.parameters(), None) is not None


def _planned_steps(scheduler: Any) -> object:
    """How many steps a scheduler was made for, where it is told."""
    return getattr(scheduler, "T_max", getattr(scheduler, "total_steps", None))


def train(student: Student, inputs: Inputs) -> Observation:
    """Run the script or notebook to its end; the batches, the events and the log files it leaves."""
    training = Training()
    training.install()
    training.begin_with(student.data)
    training.watch_scheduler(cast(float, inputs.values["factor"]))
    status, used = run_script(student, inputs)
    if used["notebook"] is False:
        _end_as_python_does(student)
    # A notebook's kernel stays alive: its log must not depend on what Python does at its end.
    events = _log_files("events.out.tfevents.*")
    offline = cast(dict[str, Json], inputs.values["options"]).get("wandb") == "offline"
    if used["notebook"] is True and offline:
        _end_as_python_does(student)
    runs = _log_files("*.wandb")
    seen = training.observation(
        status,
        event_files=list(events),
        wandb_files=list(runs),
        report=text_of_file(REPORT),
        step_s=training.step_seconds(),
        **used,
    )
    files = {f"event/{i}": data for i, data in enumerate(events.values())}
    files |= {f"wandb/{i}": data for i, data in enumerate(runs.values())}
    return Observation(seen.values, {**seen.arrays, **files})


def _end_as_python_does(student: Student) -> None:
    """Call what was registered for the end of Python: W&B's own end, or a writer's `close`."""
    with student.calling("ending as Python does at its end"):
        atexit._run_exitfuncs()


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
    many filters the model has; how many scalers scaled a loss; how large the gradients of the steps were, told to clip;
    where, told which GPU to use, images and weights were; what was left of the gradients of each step when the next
    backward came; and whether all weights are finite at the end. One that is to clip and cannot be told so is not run.
    Of the loss of number `overflow`, if there is one, the gradient overflows.
    """
    is_to_clip = inputs.values.get("clip") is not None
    if is_to_clip and not can_clip(student):
        return Observation({"gradients": []})
    training = Training()
    training.install()
    types: list[str] = []
    filters: list[int] = []
    places: set[str] = set()
    scalers = _watch_scalers()
    gradients = _watch_gradients() if is_to_clip else []
    left_over = _watch_left_over()
    models: list[nn.Module] = []
    hooks: list[Any] = []

    def forget() -> None:
        for kept in (types, filters, places, scalers, gradients, left_over, models):
            kept.clear()

    training.begin_with(student.data, forget)
    watch_answers(training.answers)

    def forward(module: nn.Module, images: torch.Tensor) -> None:
        if len(models) < MAX_MODELS and not any(module is one for one in models):
            models.append(module)
        types.extend(sorted({str(value.dtype) for value in module.parameters()}))
        filters.append(filters_of(module))
        # A model may move its images itself, as nn.DataParallel does.
        places.update(value.device.type for value in (images, *module.parameters()))
        if training.has_begun and inputs.values.get("stop") == "forward":
            student.answer(seen(0))

    training.forward = forward  # type: ignore[method-assign]
    note = training.note
    number = cast(int, inputs.values.get("losses", 1))

    def stop_at_loss(*event: Json) -> None:
        note(*event)
        if not training.has_begun or event[0] != "loss":
            return
        if len(training.batches) >= number:
            student.answer(seen(0))
        while hooks:
            hooks.pop().remove()
        if len(training.batches) == inputs.values.get("overflow"):
            weights = [weight for model in models for weight in model.parameters() if weight.requires_grad]
            hooks.extend(weight.register_hook(lambda gradient: gradient * math.inf) for weight in weights)

    training.note = stop_at_loss  # type: ignore[method-assign]
    chosen = contextlib.ExitStack()

    def seen(status: int) -> Observation:
        chosen.close()
        training.settle()
        return training.observation(
            status,
            parameters=cast(Json, sorted(set(types))[:10]),
            answers=cast(Json, [batch["answers"] for batch in training.batches]),
            filters=filters[0] if filters else None,
            scalers=len(scalers),
            gradients=cast(Json, gradients),
            left_over=cast(Json, left_over),
            finite=all(_is_finite(weight) for model in models for weight in model.parameters()),
            places=cast(Json, sorted(places) if can_choose_gpu(student, inputs) else []),
            notebook=student.is_notebook(MODULE),
        )

    with chosen:
        chosen.enter_context(chosen_device(inputs))
        # What opens no file that is seen, as torchvision.io.read_image, has the script run to its end.
        return seen(run_script(student, inputs)[0])


def _watch_scalers() -> list[torch.amp.GradScaler]:
    """Grows with every scaler that is on and scales a loss from now on."""
    seen: list[torch.amp.GradScaler] = []
    original = torch.amp.GradScaler.scale

    def scale(scaler: torch.amp.GradScaler, outputs: Any) -> Any:
        if scaler.is_enabled() and not any(scaler is one for one in seen):
            seen.append(scaler)
        return original(scaler, outputs)

    torch.amp.GradScaler.scale = scale  # type: ignore[method-assign, assignment]
    return seen


def _watch_gradients() -> list[float]:
    """Grows with every step of an optimizer from now on, by the largest value of the gradient that it was made with."""
    seen: list[float] = []

    def stepped(optimizer: torch.optim.Optimizer, *_: object) -> None:
        weights = [weight for group in optimizer.param_groups for weight in group["params"]]
        sizes = [float(w.grad.abs().max()) for w in weights if w.grad is not None and w.grad.numel()]
        if sizes and math.isfinite(max(sizes)):
            seen.append(max(sizes))

    # After the step: a hook of the student's own may clip right before it.
    register_optimizer_step_post_hook(cast(Callable[..., None], stepped))
    return seen


def _is_finite(weight: torch.Tensor) -> bool:
    return is_lazy(weight) or bool(torch.isfinite(weight.detach()).all())


def _watch_left_over() -> list[bool]:
    """Grows with every backward that comes after a step: whether all gradients which that step used are still there.

    torch.autograd.grad adds to none, so that it does not matter there.
    """
    seen: list[bool] = []
    stepped: list[torch.Tensor] = []

    def after(optimizer: torch.optim.Optimizer, *_: object) -> None:
        weights = [weight for group in optimizer.param_groups for weight in group["params"]]
        stepped[:] = [weight for weight in weights if weight.grad is not None]

    def watched(original: Callable[..., Any]) -> Callable[..., Any]:
        def backward(*args: Any, **kwargs: Any) -> Any:
            if stepped and len(seen) < MAX_EVENTS:
                seen.append(all(w.grad is not None and bool(w.grad.any()) for w in stepped))
            stepped.clear()
            return original(*args, **kwargs)

        return backward

    owners: tuple[Any, ...] = (torch.Tensor, torch.autograd)
    for owner in owners:
        owner.backward = watched(owner.backward)
    register_optimizer_step_post_hook(cast(Callable[..., None], after))
    return seen


def watch_answers(types: set[torch.dtype]) -> None:
    """Note the types in which layers answer while they are trained."""
    for layer in (nn.Linear, nn.Conv2d):
        _watch_answers_of(layer, types)


def _watch_answers_of(layer: type[nn.Module], types: set[torch.dtype]) -> None:
    original = layer.forward

    def forward(module: nn.Module, input: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = original(module, input)
        if torch.is_grad_enabled():
            types.add(output.dtype)
        return output

    layer.forward = forward
