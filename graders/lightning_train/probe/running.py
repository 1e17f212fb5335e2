"""The script as a student starts it, and the file as it is imported."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn, cast

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.utils.data import DataLoader, DistributedSampler

from lockstep.sandbox.gpus import gpus
from lockstep.sandbox.probing import Inputs, Observation, Student, plain
from lockstep.wire import Array, Json

from .files import Files, small_loaders
from .recorder import MAX_WEIGHTS, Recorder, SeenEnough, see_enough
from .student import MODULE, plain_trainers, steps_schedules_by_hand, tolerate_gpu_calls


def script(student: Student, inputs: Inputs) -> Observation:
    """Run lightning_train.py with the judge's arguments; what it trains on, with what, and what it leaves.

    With `gpus`, on a machine that has so many.
    """
    values = inputs.values
    calls = tolerate_gpu_calls(student)
    files = Files(None)
    there = cast("int | None", values.get("gpus"))
    emulated = contextlib.ExitStack()

    def seen(status: int | None = None) -> Observation:
        emulated.close()
        arrays: dict[str, Array | torch.Tensor] = {}
        facts: dict[str, Json] = {"fits": len(fits.trainers), "rehearsed": len(fits.rehearsed)}
        if fits.trainers:
            trainer = recorder.trainer = fits.trainers[-1]
            model = trainer.lightning_module if recorder.model is None else recorder.model
            facts |= _facts(trainer)
            if model is not None:
                arrays["weights"] = torch.cat([p.detach().float().flatten() for p in model.parameters()])[
                    :MAX_WEIGHTS
                ]
        return Observation(
            {
                **recorder.values(),
                **facts,
                "status": status,
                "items": cast(Json, files.items),
                "downloads": cast(Json, files.downloads),
                "locks": cast(Json, files.locks),
                "gpu_calls": cast(Json, calls[:10]),
                "left": cast(Json, _left(before)),
            },
            arrays,
        )

    def enough() -> NoReturn:
        student.answer(seen())

    recorder = Recorder(
        enough,
        stop_before=cast("int | None", values.get("stop_before")),
        most_epochs=cast("int | None", values.get("most_epochs")),
    )
    recorder.attach()
    recorder.watch_loop()
    small_loaders()
    plain_trainers()
    before = set(_files())
    fits = _note_fits(
        files,
        enough if values.get("at_fit") is True else None,
        recorder,
        one_epoch=values.get("one_epoch") is True,
    )
    with emulated:
        if there:
            emulated.enter_context(gpus(there))
        return seen(student.run_script(f"{MODULE}.py", cast(list[str], values["arguments"])))


@dataclass(frozen=True)
class Fits:
    """The Trainers whose fit was called.

    `rehearsed` are those of them that trained on loaders of made-up pictures, `tried` those that ran their code through
    once, by fast_dev_run.
    """

    trainers: list[pl.Trainer]
    rehearsed: list[pl.Trainer]
    tried: list[pl.Trainer]


def _note_fits(
    files: Files,
    stop: Callable[[], NoReturn] | None,
    recorder: Recorder | None = None,
    *,
    one_epoch: bool = False,
) -> Fits:
    """Note them from now on, and call `stop` where one begins that is no rehearsal.

    With `one_epoch` each takes all batches once, as the script was told: where it hands neither on, what it trains on
    can be judged all the same.

    What was rehearsed is forgotten once the real pictures are opened, what was tried once a Trainer does more: but not
    what it trained on, where it was the same model. After a training nothing is tried that could be forgotten.
    """
    fits = Fits([], [], [])
    original = pl.Trainer.fit

    @functools.wraps(original)
    def fit(self: pl.Trainer, *args: Any, **kwargs: Any) -> None:
        trained = len(fits.trainers) > len(fits.rehearsed) + len(fits.tried)
        tries = recorder is not None and bool(self.fast_dev_run) and not trained  # type: ignore[attr-defined]
        if not tries:
            model = args[0] if args else kwargs.get("model")
            learned = any(trainer.lightning_module is model for trainer in fits.tried)
            tried = files.items["train"] if learned else []
            forget(fits.tried)
            files.items.setdefault("tried", []).extend(tried)
        fits.trainers.append(self)
        files.trainer = self
        # In today's spelling and in the old one, which the original knows.
        named = kwargs.get("train_dataloaders", kwargs.get("train_dataloader"))
        loaders = args[1] if len(args) > 1 else named
        # Loaders are made of pictures that are there already; a data module may open them only now.
        has_module = isinstance(loaders, pl.LightningDataModule)
        rehearses = recorder is not None and not files.is_open and loaders is not None and not has_module
        if stop and not rehearses and not tries:
            stop()
        if rehearses:
            fits.rehearsed.append(self)
        if tries:
            fits.tried.append(self)
        if recorder is not None:
            recorder.is_rehearsal = rehearses or tries
        if one_epoch and not rehearses and not tries:
            # A number of batches, as overfit_batches sets it, is none that the flag could have replaced.
            if isinstance(self.limit_train_batches, float):
                self.limit_train_batches = 1.0
            self.fit_loop.max_epochs = 1
        original(self, *args, **kwargs)

    def forget(those: list[pl.Trainer]) -> None:
        if recorder is not None and those:
            recorder.start()
            files.items = {"train": [], "val": []}
            fits.trainers[:] = [trainer for trainer in fits.trainers if trainer not in those]
            those.clear()

    files.when_opened = functools.partial(forget, fits.rehearsed)
    pl.Trainer.fit = fit  # type: ignore[method-assign]
    return fits


def _facts(trainer: pl.Trainer) -> dict[str, Json]:
    return {
        "world_size": plain(trainer.world_size),
        "precision": plain(trainer.precision),
        "accelerator": type(trainer.accelerator).__name__[:60],
        "strategy": _strategy(trainer.strategy),
        "max_epochs": plain(trainer.max_epochs),
        "limit": plain(trainer.limit_train_batches),
        "limit_val": plain(trainer.limit_val_batches),
        "loggers": [type(logger).__name__[:60] for logger in trainer.loggers],
        "global_step": plain(trainer.global_step),
        "shared_out": _is_shared_out(trainer.train_dataloader),
        **({"monitors": monitors} if (monitors := _monitors(trainer)) else {}),
    }


def _monitors(trainer: pl.Trainer) -> list[Json]:
    """What keeps, stops or slows down by a figure: its class, the figure, and whether small or large is better."""
    found: list[Json] = []
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        # Who keeps every checkpoint, or none, asks of none if it is better.
        chooses = isinstance(callback, ModelCheckpoint) and callback.save_top_k not in (0, -1)
        if chooses or isinstance(callback, EarlyStopping):
            monitor, mode = callback.monitor, callback.mode
            if isinstance(monitor, str):
                found.append([type(callback).__name__[:60], monitor[:100], plain(mode)])
    return [*found, *_slowed_down_by(trainer)][:20]


def _slowed_down_by(trainer: pl.Trainer) -> Iterator[Json]:
    """The plateaus that lower the learning rate by a figure that Lightning hands them as it is."""
    model = trainer.lightning_module
    if model is None or steps_schedules_by_hand(model):
        return
    for config in trainer.lr_scheduler_configs:
        scheduler = config.scheduler
        # One of their own may turn the figure round.
        if type(scheduler) is ReduceLROnPlateau and isinstance(config.monitor, str):
            yield ["ReduceLROnPlateau", config.monitor[:100], plain(scheduler.mode)]


def _strategy(strategy: object) -> str:
    """The class of a strategy; of those that may start their processes in several ways, with the way."""
    way = getattr(strategy, "_start_method", None)
    return type(strategy).__name__[:60] + (f" ({way})" if type(way) is str else "")


def _is_shared_out(loader: object) -> bool | None:
    """Whether a DistributedSampler shares out what a loader reads; None where it is no loader that could tell."""
    if not isinstance(loader, DataLoader):
        return None
    samplers = loader.sampler, getattr(loader.batch_sampler, "sampler", None)
    return any(isinstance(sampler, DistributedSampler) for sampler in samplers)


def _files() -> Iterator[str]:
    """All below the folder of the run, and the tables of loggers that keep theirs elsewhere."""
    for folder, _, names in os.walk("."):
        for name in names:
            yield os.path.relpath(os.path.join(folder, name))
    # What is temporary in a run is its home as well.
    for folder, _, names in os.walk(tempfile.gettempdir()):
        yield from (os.path.join(folder, name) for name in names if name == "metrics.csv")


def _left(before: set[str]) -> dict[str, Json]:
    """New files, and the beginning of tables among them."""
    left: dict[str, Json] = {}
    for name in sorted(set(_files()) - before)[:100]:
        left[name[:200]] = None
        if name.endswith(".csv") and os.path.getsize(name) < 1 << 20:
            with open(name, "rb") as file:
                left[name[:200]] = file.read(4000).decode("utf-8", "replace")
    return left


def imported(student: Student, inputs: Inputs) -> Observation:
    """Import the file as another Python process would; whether that starts a training."""
    tolerate_gpu_calls(student)
    small_loaders()
    files = Files(os.path.join(student.data, "fashion"))
    fits = _note_fits(files, see_enough)
    if student.is_notebook(MODULE):
        return Observation({"fits": 0})  # a notebook is run, never imported
    sys.argv = [f"{MODULE}.py"]
    # Only a training counts here; what else may happen on import is not asked.
    with suppress(SeenEnough, Exception, SystemExit), student.calling(f"running `import {MODULE}`"):
        importlib.import_module(MODULE)
    return Observation({"fits": len(fits.trainers)})
