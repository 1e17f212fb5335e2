"""The module, trained by the probe."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from contextlib import suppress
from typing import cast

import numpy as np
import pytorch_lightning as pl
import torch
from torch.nn.parameter import is_lazy
from torch.optim.lr_scheduler import CosineAnnealingLR, OneCycleLR
from torch.utils.data import DataLoader

from lockstep.sandbox.gpus import gpus
from lockstep.sandbox.probing import Inputs, Observation, Student, plain
from lockstep.wire import Json

from .files import Files
from .recorder import Recorder, SeenEnough
from .student import Rows, steps_schedules_by_hand, students_model, students_module, tolerate_gpu_calls
from .surroundings import Checkpoints, JudgesData, QuietLogger

# How torch and Python say that a network takes rows or planes where it was given images, or the other way round: what
# is told in the end is what it made of images, not of a shape that was merely tried.
OTHER_SHAPE = re.compile(
    r"shapes cannot be multiplied|size mismatch|must match the size|expected .*dim|expected input to be|"
    r"expected \dD|to have \d+ channels|is invalid for input of size|values to unpack|too many indices|"
    r"dimension out of range",
    re.IGNORECASE,
)
# In which attribute a schedule keeps how many steps it was made for.
LENGTHS: dict[type, str] = {OneCycleLR: "total_steps", CosineAnnealingLR: "T_max"}
SHAPES = ((1, 28, 28), (784,), (28, 28))


def found(student: Student, inputs: Inputs) -> Observation:
    """Import the file and look for its class."""
    cls = student.get(students_module(student), "LitFashion")
    return Observation({"is_class": isinstance(cls, type) and issubclass(cls, pl.LightningModule)})


def train(student: Student, inputs: Inputs) -> Observation:
    """Fit LitFashion with a Trainer of the probe's on the judge's data; stop where the judge says.

    `opened`: whether Fashion-MNIST was, whose length there is another than that of the judge's data.
    """
    values = inputs.values
    calls = tolerate_gpu_calls(student)
    recorder = Recorder(
        stop_before=cast("int | None", values.get("stop_before")),
        stop_after=cast("int | None", values.get("stop_after")),
    )
    recorder.attach()
    recorder.watch_loop()
    files = Files(os.path.join(student.data, "fashion"))
    module = students_module(student)
    in_some_shape(recorder, lambda shape: _fit(student, inputs, recorder, module, shape))
    values = {**recorder.values(), **_optimizers(recorder)}
    return Observation(
        {**values, "gpu_calls": cast(Json, calls[:10]), "opened": files.is_open}, recorder.arrays
    )


def on_gpu(student: Student, inputs: Inputs) -> Observation:
    """Fit LitFashion where there is a GPU: Lightning moves the module and each batch, all else has to follow."""
    accelerator = cast(str, inputs.values["accelerator"])
    with gpus(1):
        Files(os.path.join(student.data, "fashion"))
        module = students_module(student)
        recorder = Recorder()
        in_some_shape(recorder, lambda shape: _fit(student, inputs, recorder, module, shape, accelerator))
    return Observation({})


def in_some_shape(recorder: Recorder, attempt: Callable[[tuple[int, ...]], None]) -> None:
    """Networks that take pictures as rows or planes are as good as others: their own data comes that way."""
    first: Exception | None = None
    for shape in SHAPES:
        recorder.start()
        try:
            return attempt(shape)
        except (RuntimeError, ValueError, IndexError) as error:
            if recorder.steps or not OTHER_SHAPE.search(str(error)):
                raise
            first = first or error
    assert first is not None
    raise first


def _fit(
    student: Student,
    inputs: Inputs,
    recorder: Recorder,
    module: object,
    shape: tuple[int, ...],
    accelerator: str = "cpu",
) -> None:
    model = students_model(student, module)
    values = inputs.values
    images = inputs.tensor("images").reshape(-1, *shape)
    labels = inputs.tensor("labels")
    batch_size, split = cast(int, values["batch_size"]), cast(int, values["split"])
    loaders = [
        DataLoader(Rows(images[part], labels[part]), batch_size)
        for part in (slice(None, split), slice(split, None))
    ]
    trainer = pl.Trainer(
        max_epochs=cast(int, values["epochs"]),
        limit_train_batches=cast("int | float", values.get("limit", 1.0)),
        accelerator=accelerator,
        devices=inputs.world_size,
        strategy="ddp" if inputs.world_size > 1 else "auto",
        logger=QuietLogger(),
        num_sanity_val_steps=0,
        callbacks=[Checkpoints(), *([SameDraws()] if values.get("same_draws") is True else [])],
    )
    recorder.trainer = trainer
    if inputs.world_size > 1:
        _initialize(model, images[:2])
    call = "training LitFashion() with trainer.fit(model, datamodule=data)"
    with student.calling(call), suppress(SeenEnough):
        trainer.fit(model, datamodule=JudgesData(module, *loaders))


def _initialize(model: pl.LightningModule, images: torch.Tensor) -> None:
    """Give lazy layers their shapes, without which DistributedDataParallel takes no module.

    That the script has to do so itself on several processes, a check of its own says.
    """
    if any(map(is_lazy, model.parameters())):
        model.eval()
        with torch.no_grad(), suppress(Exception):
            model(images)
        model.train()


class SameDraws(pl.Callback):
    """Lets every epoch draw the same numbers in the same batch: dropout and augmentations are no noise then."""

    def on_train_epoch_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Before anything is made of the first batch."""
        _seed(0)

    def on_train_batch_start(
        self, trainer: pl.Trainer, module: pl.LightningModule, batch: object, batch_idx: int
    ) -> None:
        """Before a step, and what is made of the batch that follows."""
        _seed(1 + batch_idx)


def _seed(number: int) -> None:
    random.seed(number)
    np.random.seed(number)
    torch.manual_seed(number)


def _optimizers(recorder: Recorder) -> dict[str, Json]:
    """Which parameters the optimizers hold, by name, and how often."""
    trainer, model = recorder.trainer, recorder.model
    if trainer is None or model is None:
        return {}
    names = {id(value): name for name, value in model.named_parameters()}
    held: list[Json] = []
    rates: list[Json] = []
    for optimizer in trainer.optimizers:
        for group in optimizer.param_groups:
            held += [names.get(id(value), "?") for value in group["params"]]
            # A warm-up begins at 0 and says where it goes.
            rates.append(plain(group.get("initial_lr", group.get("lr"))))
    trainable: list[Json] = [name for name, value in model.named_parameters() if value.requires_grad]
    return {
        "held": held[:2000],
        "rates": rates[:50],
        "trainable": trainable[:2000],
        "schedulers": len(trainer.lr_scheduler_configs),
        **(
            {"stepped_by_epoch": cast(Json, stepped)}
            if (stepped := _stepped_by_epoch(trainer, model))
            else {}
        ),
    }


def _stepped_by_epoch(trainer: pl.Trainer, model: pl.LightningModule) -> list[list[Json]]:
    """The schedules that Lightning steps once an epoch: the class, the steps that it was made for and those it made."""
    if steps_schedules_by_hand(model):
        return []
    return [
        [
            type(config.scheduler).__name__,
            plain(getattr(config.scheduler, length)),
            plain(config.scheduler.last_epoch),
        ]
        for config in trainer.lr_scheduler_configs
        if config.interval == "epoch" and (length := LENGTHS.get(type(config.scheduler)))
    ]
