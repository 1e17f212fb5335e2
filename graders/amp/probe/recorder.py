"""What happens while a loss is computed and derived, and in which precision."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, cast

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from lockstep.sandbox.device import home
from lockstep.sandbox.probing import plain
from lockstep.wire import Json

from .graph import records_in, remember

MAX_EVENTS = 4000


class SeenEnough(BaseException):
    """Ends a script once the check has seen what it came for."""


def _every_call(*_: object, **__: object) -> bool:
    return True


class Recorder:
    """What happened, in order: [kind, details ...]."""

    def __init__(self) -> None:
        self.events: list[list[Json]] = []
        # What is kept of each loss, in the order of their events, and how many of them are past the question whether
        # they were derived.
        self.batches: list[dict[str, Any]] = []
        self._decided = 0
        self._depth: dict[str, int] = {}

    def note(self, *event: Json) -> None:
        """Add an event."""
        if len(self.events) < MAX_EVENTS:
            self.events.append(list(event))

    def note_loss(self, value: object, batch: dict[str, Any], *details: Json) -> None:
        """Add the event of a loss, and what is kept of it."""
        if len(self.batches) >= MAX_EVENTS:
            return
        remember(value, batch)
        self.batches.append(batch)
        self.note("loss", *details)

    def drop_what_is_for_a_log(self) -> None:
        """Forget the losses since the last ones that were derived, where some of them were derived, and they were not.

        Where none is seen to be, as behind loss.requires_grad_(), all are kept. The time for it is when the next loss
        comes, or none comes any more: a backward of several losses may be several calls.
        """
        recent = self.batches[self._decided :]
        if not any(batch["derived"] for batch in recent):
            return
        places = [place for place, event in enumerate(self.events) if event[0] == "loss"][self._decided :]
        for place, batch in reversed(list(zip(places, recent, strict=False))):
            if not batch["derived"]:
                del self.events[place]
        self.batches[self._decided :] = [batch for batch in recent if batch["derived"]]
        self._decided = len(self.batches)

    def forget_losses(self) -> None:
        """Begin anew with the losses; their events go by themselves."""
        self.batches.clear()
        self._decided = 0

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
            self.wrap(owner, name, "backward", self._backward, counts)
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

    def _backward(self, outputs: object = None, *_: object, **kwargs: object) -> tuple[Json, ...]:
        """Whether autocast is on, and the number that is derived; and know which losses are in that."""
        outputs = kwargs.get("tensors", outputs)
        for batch in records_in(outputs):
            batch["derived"] = True
        alone = outputs[0] if isinstance(outputs, list | tuple) and len(outputs) == 1 else outputs
        return autocast_is_on(), scalar(alone)


def autocast_is_on() -> bool:
    """Whether autocast is on, on either kind of device."""
    return torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")


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
    return (scalar(outputs),)


def scalar(value: object) -> Json:
    """A scalar tensor, on an emulated GPU too, or a number."""
    return plain(at_home(value))


def at_home(value: object) -> object:
    """A tensor of an emulated GPU as a plain one; anything else as it is."""
    if not isinstance(value, torch.Tensor) or value.device.type == "cpu":
        return value
    return cast(object, home(value))


def watch_loss(recorder: Recorder) -> None:
    """Note the type of each cross entropy: the criterion calls torch's function, and a train_step may do so itself."""
    original = nn.functional.cross_entropy

    def loss(*args: Any, **kwargs: Any) -> torch.Tensor:
        with recorder.within("loss") as outermost:
            value = original(*args, **kwargs)
        if outermost:
            recorder.drop_what_is_for_a_log()
            recorder.note_loss(value, {"derived": False}, str(value.dtype))
        return value

    nn.functional.cross_entropy = loss
