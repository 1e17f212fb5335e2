"""The Trainer that `build_trainer` makes."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import pytorch_lightning as pl
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers.logger import DummyLogger
from torch.utils.data import DataLoader

from lockstep.sandbox.probing import Inputs, Observation, Student, StudentMistake, kind, plain
from lockstep.wire import Json

from .files import Files
from .fitting import in_some_shape
from .recorder import Recorder
from .student import MOST_EPOCHS, Rows, students_model, students_module, tolerate_gpu_calls
from .surroundings import Checkpoints, JudgesData, QuietLogger

SHARE = 0.2
# What every Trainer of the probe's is told besides, as it is shown.
ALWAYS = "accelerator='cpu', devices=1, logger=..., num_sanity_val_steps=0"


def flags(student: Student, inputs: Inputs) -> Observation:
    """What build_trainer() makes by default, and how many batches the Trainers that it makes really take."""
    tolerate_gpu_calls(student)
    recorder = Recorder()
    recorder.attach()
    recorder.watch_loop()
    Files(os.path.join(student.data, "fashion"))
    module = students_module(student)
    build = student.get(module, "build_trainer")
    default = _built(student, build, "")
    values: dict[str, Json] = {
        "max_epochs": plain(default.max_epochs),
        "max_steps": plain(default.max_steps),
        "limit": plain(default.limit_train_batches),
        # Lightning takes a name for a list of loggers, its letters, and fails only when it trains.
        "loggers": [
            type(logger).__name__[:60]
            for logger in default.loggers
            if not isinstance(logger, (DummyLogger, str))
        ],
    }
    if type(default.limit_val_batches) is int:
        values["limit_val"] = default.limit_val_batches
    # Where the share is another, that is told, and not how many batches it makes of a few.
    if abs(float(default.limit_train_batches or 0) - SHARE) > 1e-3:
        return Observation(values)
    model = students_model(student, module)
    labels = inputs.tensor("labels")
    for name in ("limited", "dev"):
        overrides = cast(dict[str, Any], inputs.values[name])
        shown = ", ".join(f"{key}={value!r}" for key, value in overrides.items())
        logger = QuietLogger()
        always = {"accelerator": "cpu", "devices": 1, "logger": logger, "num_sanity_val_steps": 0}
        trainer = _built(student, build, f"{ALWAYS}, {shown}", **always, **overrides)
        # The script may hand it another one.
        trainer.callbacks = [Checkpoints() if _is_default(one) else one for one in trainer.callbacks]  # type: ignore[attr-defined]
        if trainer.fast_dev_run:  # type: ignore[attr-defined]
            trainer.logger = logger  # Lightning has put in one of its own, which has no folder
        values[f"{name}_precision"] = plain(trainer.precision)
        values[f"{name}_epochs"] = plain(trainer.max_epochs)

        def fit(
            shape: tuple[int, ...], trainer: pl.Trainer = trainer, call: str = f"build_trainer({shown})"
        ) -> None:
            loader = DataLoader(Rows(inputs.tensor("images").reshape(-1, *shape), labels), 2)
            with student.calling(f"training with {call}"):
                trainer.fit(model, datamodule=JudgesData(module, loader, loader))

        # Without max_epochs it would go on for a thousand: that is told without waiting for it.
        if trainer.max_epochs in range(1, MOST_EPOCHS + 1):
            in_some_shape(recorder, fit)
        values[f"{name}_batches"] = cast(Json, dict(recorder.counts))
    again = _built(student, build, "")
    values["again"] = [plain(again.max_epochs), plain(again.limit_train_batches)]
    # Who sets callbacks by themselves may have no room for others.
    with suppress(Exception):
        trainer = build(callbacks=[_Given()])
        if isinstance(trainer, pl.Trainer):
            values["callbacks"] = any(isinstance(callback, _Given) for callback in trainer.callbacks)  # type: ignore[attr-defined]
    return Observation(values)


def _is_default(callback: pl.Callback) -> bool:
    """Whether it is the one that Lightning adds where there is none that keeps checkpoints."""
    return type(callback) is ModelCheckpoint and callback.monitor is None


class _Given(pl.Callback):
    """One that build_trainer is given."""


def _built(student: Student, build: Callable[..., object], shown: str, **overrides: Any) -> pl.Trainer:
    with student.calling(f"calling build_trainer({shown})"):
        trainer = build(**overrides)
    if not isinstance(trainer, pl.Trainer):
        student.phase = f"calling build_trainer({shown})"
        raise StudentMistake(f"build_trainer({shown}) returned {kind(trainer)}, not a Trainer")
    return trainer
