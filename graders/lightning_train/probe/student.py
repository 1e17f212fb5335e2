"""The student's module and model, and what is tolerated of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelSummary, ProgressBar, RichModelSummary
from torch.utils.data import Dataset

from lockstep.sandbox.probing import Student, StudentMistake, kind

MODULE = "lightning_train"


class Rows(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """The judge's pictures and labels, in their order."""

    def __init__(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        self.images, self.labels = images, labels

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
        construct(self, *args, **kwargs)

    pl.Trainer.__init__ = init  # type: ignore[method-assign]


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
