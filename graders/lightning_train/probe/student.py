"""The student's module and model, and what is tolerated of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelSummary, ProgressBar, RichModelSummary
from pytorch_lightning.utilities.model_helpers import is_overridden
from torch.utils.data import Dataset

from lockstep.sandbox.probing import Student, StudentMistake, kind

MODULE = "lightning_train"
MOST_EPOCHS = 10  # of a Trainer that build_trainer makes by itself
# Between two validations: a fifth of the real pictures has fewer, in batches of 16 and more.
MOST_BATCHES = 1_000


class Rows(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """The judge's pictures and labels, in their order."""

    def __init__(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        self.images, self.labels = images, labels
        # As torchvision's data set has them.
        self.classes = [f"class {number}" for number in range(10)]
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        self.targets = labels

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.images[index], self.labels[index]


def students_module(student: Student) -> Any:
    """Their file, on a machine where Lightning's slow decorations are off."""
    plain_trainers()
    return student.load(MODULE)


def students_model(student: Student, module: Any) -> pl.LightningModule:
    """A new network of the student's."""
    cls = student.get(module, "LitFashion")
    with student.calling("making LitFashion()"):
        model = cls()
    if not isinstance(model, pl.LightningModule):
        student.phase = "making LitFashion()"
        raise StudentMistake(f"LitFashion() is {kind(model)}, not a LightningModule")
    return model


def steps_schedules_by_hand(model: pl.LightningModule) -> bool:
    """Whether a loop written by hand, or a hook, steps the schedules: when it likes, and by what it likes."""
    return not model.automatic_optimization or is_overridden("lr_scheduler_step", model)


def plain_trainers() -> None:
    """Without progress bars and tables of layers, and fit for the small trainings here."""
    construct = pl.Trainer.__init__

    @functools.wraps(construct)
    def init(self: pl.Trainer, *args: Any, **kwargs: Any) -> None:
        given = kwargs.get("callbacks") or []
        callbacks = given if isinstance(given, list | tuple) else [given]
        if not any(isinstance(callback, ProgressBar) for callback in callbacks):
            kwargs["enable_progress_bar"] = False
        if not any(isinstance(callback, ModelSummary | RichModelSummary) for callback in callbacks):
            kwargs["enable_model_summary"] = False
        kwargs["log_every_n_steps"] = 1
        share = kwargs.get("limit_val_batches")
        # A share of so little could be less than one batch; a share of 0 is none, here as elsewhere.
        if isinstance(share, float) and 0 < share <= 1:
            kwargs["limit_val_batches"] = 1.0
        kwargs |= validated_in_every_epoch(kwargs)
        construct(self, *args, **kwargs)

    pl.Trainer.__init__ = init  # type: ignore[method-assign]


def validated_in_every_epoch(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """What of a Trainer's arguments changes so that it validates in epochs of a few batches, if it did in whole ones.

    Lightning refuses an epoch of fewer batches than val_check_interval, and one epoch may be all that a check asks for.
    """
    changed: dict[str, Any] = {}
    batches, epochs = kwargs.get("val_check_interval"), kwargs.get("check_val_every_n_epoch", 1)
    # Some seconds, or a number of batches that the real pictures have.
    if isinstance(batches, str | dict | timedelta) or (type(batches) is int and 1 < batches <= MOST_BATCHES):
        changed["val_check_interval"] = 1.0
        if epochs is None:  # counted over all epochs
            changed["check_val_every_n_epoch"] = 1
    if type(epochs) is int and 1 < epochs <= MOST_EPOCHS:
        changed["check_val_every_n_epoch"] = 1
    return changed


def tolerate_gpu_calls(student: Student) -> list[str]:
    """Let `.cuda()` and `.to("cuda")` do nothing where there is no GPU; where they were called."""
    calls: list[str] = []
    if torch.cuda.is_available():
        return calls

    def note(what: str) -> None:
        place = f"{what} at {student.watch.where()}"
        if place not in calls:
            calls.append(place)

    def names_gpu(value: object) -> bool:
        if isinstance(value, torch.device):
            return value.type == "cuda"
        if isinstance(value, int) and not isinstance(value, bool):
            return True  # the number of a GPU
        return isinstance(value, str) and value.split(":")[0] == "cuda"

    def without(original: Callable[..., Any], name: str) -> Callable[..., Any]:
        @functools.wraps(original)
        def to(self: Any, *args: Any, **kwargs: Any) -> Any:
            kept = [value for value in args if not names_gpu(value)]
            if len(kept) < len(args) or names_gpu(kwargs.get("device")):
                note(name)
                kwargs.pop("device", None) if names_gpu(kwargs.get("device")) else None
                if not kept and not kwargs.keys() - {"non_blocking"}:
                    return self
            return original(self, *kept, **kwargs)

        return to

    def cuda(self: Any, *_: Any, **__: Any) -> Any:
        note(".cuda()")
        return self

    for owner in (torch.Tensor, torch.nn.Module):
        owner.cuda = cuda  # type: ignore[method-assign]
        owner.to = without(owner.to, '.to("cuda")')  # type: ignore[method-assign]
    for base in pl.LightningModule.__mro__:
        # Lightning's own versions of both stand before those of nn.Module.
        if "cuda" in vars(base) and base is not torch.nn.Module:
            base.cuda = cuda  # type: ignore[attr-defined]
            base.to = without(base.to, '.to("cuda")')  # type: ignore[attr-defined]
    for name in ("zeros", "ones", "tensor", "randn", "rand", "empty", "full", "arange", "eye"):
        factory = getattr(torch, name)

        def make(*args: Any, factory: Any = factory, **kwargs: Any) -> Any:
            if names_gpu(kwargs.get("device")):
                note('device="cuda"')
                del kwargs["device"]
            return factory(*args, **kwargs)

        setattr(torch, name, make)
    return calls
