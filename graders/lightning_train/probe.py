"""Trains the student's LightningModule, runs their script, and records what Lightning sees; it knows no right answer.

Recording sits where Lightning calls student code (`Strategy.training_step` and `validation_step`, `Trainer.fit`,
`LightningModule.log`), so that it does not matter how that code is built.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelSummary, ProgressBar, RichModelSummary
from pytorch_lightning.core.optimizer import LightningOptimizer
from pytorch_lightning.loggers.logger import DummyLogger
from pytorch_lightning.strategies import Strategy
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from torchvision import datasets

from lockstep.sandbox.gpus import gpus
from lockstep.sandbox.probing import Inputs, Observation, Student, StudentMistake, kind, plain, plain_tensor
from lockstep.wire import Array, Json

MODULE = "lightning_train"
CLASSES = 10
MAX_SEEN = 12  # tensors of one step that could be the logits
MAX_ROWS = 4_000
MAX_WEIGHTS = 1 << 20
BATCH_SIZE = 8
# How torch says that a network takes rows where it was given images.
OTHER_SHAPE = re.compile(
    r"shapes cannot be multiplied|size mismatch|must match the size|expected .*dim|expected input to be",
    re.IGNORECASE,
)
SHAPES = ((1, 28, 28), (784,), (28, 28))


class SeenEnough(BaseException):
    """Ends a training once the check has seen what it came for."""


class Rows(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """The judge's pictures and labels, in their order."""

    def __init__(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        self.images, self.labels = images, labels

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.images[index], self.labels[index]


class Logits(TorchFunctionMode):
    """Keeps what could be the logits of a batch and the gradients that reach it, and in which types is computed."""

    def __init__(self, batch_size: int) -> None:
        super().__init__()
        self.batch_size = batch_size
        self.seen: list[torch.Tensor] = []
        self.gradients: dict[int, torch.Tensor] = {}
        self.types: set[str] = set()

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if type(result) is torch.Tensor and result.is_floating_point():
            self._keep(function, result)
        return result

    def _keep(self, function: Any, result: torch.Tensor) -> None:
        name = getattr(function, "__name__", "")
        if name in ("linear", "conv2d", "conv1d", "matmul", "mm", "addmm", "bmm", "__matmul__"):
            self.types.add(str(result.dtype).removeprefix("torch."))
        if result.shape != (self.batch_size, CLASSES) or len(self.seen) >= MAX_SEEN:
            return
        number = len(self.seen)
        # A copy, because code may go on in place.
        self.seen.append(result.detach().float().clone())
        if result.requires_grad:
            result.register_hook(functools.partial(self._gradient, number))

    def _gradient(self, number: int, gradient: torch.Tensor) -> None:
        self.gradients.setdefault(number, gradient.detach().float().clone())


class Recorder:
    """What reached the steps of the module and what they gave back, in order."""

    def __init__(self, *, stop_before: int | None = None, stop_after: int | None = None) -> None:
        self.stop_before, self.stop_after = stop_before, stop_after
        self.is_rehearsal = False
        self.in_step = False
        self.trainer: pl.Trainer | None = None
        self.model: pl.LightningModule | None = None
        self.start()

    def start(self) -> None:
        """Nothing has been seen yet."""
        self.steps: list[Json] = []
        self.arrays: dict[str, Array | torch.Tensor] = {}
        self.hashes: dict[str, list[int]] = {"train": [], "val": []}
        self.counts: dict[str, list[int]] = {"train": [], "val": []}
        self.types: set[str] = set()
        self.parameter_types: set[str] = set()
        self.manual: list[str] = []
        self.logged: list[Json] = []
        self.epochs: list[int] = []
        self.facts: dict[str, Json] = {}

    # The steps

    def attach(self) -> None:
        """Record from now on whatever any Trainer of this process does."""
        self._attach_step("training_step", "train", self._training)
        self._attach_step("validation_step", "val", self._validating)
        self._attach_log()

    def _attach_step(self, name: str, stage: str, then: Callable[..., None]) -> None:
        original = getattr(Strategy, name)
        recorder = self

        @functools.wraps(original)
        def step(strategy: Any, *args: Any, **kwargs: Any) -> Any:
            module = strategy.lightning_module
            recorder.model, recorder.trainer = module, module.trainer
            size = recorder._arrived(stage, args)
            if stage == "train":
                recorder._before(module)
            seen = Logits(size)
            recorder.in_step = stage == "train"
            try:
                with seen:
                    output = original(strategy, *args, **kwargs)
            finally:
                recorder.in_step = False
            recorder.types |= seen.types
            then(output, seen)
            return _with_graph(module, output) if stage == "train" else output

        setattr(Strategy, name, step)

    def _arrived(self, stage: str, args: tuple[Any, ...]) -> int:
        images = _images(args[0]) if args else None
        trainer = self.trainer
        if images is None or (trainer is not None and trainer.sanity_checking):
            return -1 if images is None else len(images)
        self.counts[stage].append(len(images))
        if stage == "train" and trainer is not None:
            self.epochs.append(trainer.current_epoch)
        rows = plain_tensor(images)
        if rows is not None and len(self.hashes[stage]) < MAX_ROWS:
            self.hashes[stage] += [_hash(row) for row in np.ascontiguousarray(rows)]
        return len(images)

    def _before(self, module: pl.LightningModule) -> None:
        self.parameter_types |= {str(p.dtype).removeprefix("torch.") for p in module.parameters()}
        if self.is_rehearsal or self.stop_before is None:
            return
        if len(self.counts["train"]) > self.stop_before:
            raise SeenEnough

    def _training(self, output: object, seen: Logits) -> None:
        number = len(self.steps)
        loss = output.get("loss") if isinstance(output, Mapping) else output
        self.steps.append(
            {
                "loss": plain(loss.float() if _is_half(loss) else loss),
                "output": "a dict without 'loss'"
                if isinstance(output, Mapping) and loss is None
                else kind(output),
                "loss_is": kind(loss),
                "graph": isinstance(loss, torch.Tensor) and loss.grad_fn is not None,
                "seen": len(seen.seen),
            }
        )
        for index, tensor in enumerate(seen.seen):
            self.arrays[f"train{number}/seen{index}"] = tensor
        if self.stop_after is not None and len(self.steps) >= self.stop_after:
            if not seen.gradients and isinstance(loss, torch.Tensor) and loss.grad_fn is not None:
                loss.sum().backward()  # type: ignore[no-untyped-call]
            for index, gradient in seen.gradients.items():
                self.arrays[f"train{number}/gradient{index}"] = gradient
            if self.model is not None:
                self.facts["reached"] = [
                    name
                    for name, value in self.model.named_parameters()
                    if value.grad is not None and bool(value.grad.abs().sum() > 0)
                ]
            raise SeenEnough

    def _validating(self, output: object, seen: Logits) -> None:
        if self.trainer is not None and not self.trainer.sanity_checking:
            number = len(self.counts["val"]) - 1
            for index, tensor in enumerate(seen.seen):
                self.arrays[f"val{number}/seen{index}"] = tensor

    # What is logged

    def _attach_log(self) -> None:
        original = pl.LightningModule.log
        recorder = self

        @functools.wraps(original)
        def log(module: pl.LightningModule, name: str, value: Any, *args: Any, **kwargs: Any) -> None:
            stage = module.trainer.state.stage if module._trainer is not None else None
            if type(name) is str and len(recorder.logged) < 2000:
                is_metric = hasattr(value, "compute") and hasattr(value, "update")
                recorder.logged.append([str(stage), name[:100], bool(kwargs.get("sync_dist")), is_metric])
            original(module, name, value, *args, **kwargs)

        pl.LightningModule.log = log  # type: ignore[method-assign]

    # What a loop written by hand does

    def watch_loop(self) -> None:
        """Note backward, step and zero_grad where training_step calls them and Lightning does, too.

        Once noted they do nothing: one check is about them, and all others would only crash.
        """
        for owner in (torch.optim.Optimizer, torch.nn.Module):
            self._note_call(owner, "zero_grad", "zero_grad()")
        for owner in (torch.Tensor, torch.autograd):
            self._note_call(owner, "backward", "loss.backward()")
        self._note_call(pl.LightningModule, "manual_backward", "self.manual_backward(loss)")
        self._note_call(LightningOptimizer, "step", "optimizer.step()")

        def before_step(optimizer: torch.optim.Optimizer, *_: Any) -> None:
            if self._note("optimizer.step()"):
                optimizer.zero_grad()

        register_optimizer_step_pre_hook(before_step)

    def _note_call(self, owner: Any, name: str, what: str) -> None:
        original = getattr(owner, name)

        @functools.wraps(original)
        def noted(*args: Any, **kwargs: Any) -> Any:
            return None if self._note(what) else original(*args, **kwargs)

        setattr(owner, name, noted)

    def _note(self, what: str) -> bool:
        if not self.in_step or self.model is None or not self.model.automatic_optimization:
            return False
        if what not in self.manual:
            self.manual.append(what)
        return True

    # To send

    def values(self) -> dict[str, Json]:
        """Everything that is no array."""
        trainer = self.trainer
        return {
            "steps": self.steps,
            "sizes": cast(Json, dict(self.counts)),
            "hashes": cast(Json, dict(self.hashes)),
            "epochs_from_one": cast(Json, [epoch + 1 for epoch in self.epochs]),
            "types": cast(Json, sorted(self.types)),
            "parameter_types": cast(Json, sorted(self.parameter_types)),
            "manual": cast(Json, self.manual),
            "automatic": self.model is None or self.model.automatic_optimization is True,
            "logged": self.logged,
            "metrics": _metrics(trainer),
            **self.facts,
        }


def _with_graph(module: pl.LightningModule, output: Any) -> Any:
    """What training_step returned, or a loss that changes nothing where no gradient could flow from it.

    One check is about the loss; all others would only see that Lightning does not go on.
    """
    loss = output.get("loss") if isinstance(output, Mapping) else output
    parameters = [value for value in module.parameters() if value.requires_grad]
    if not module.automatic_optimization or not parameters:
        return output
    if isinstance(loss, torch.Tensor) and loss.requires_grad:
        return output
    return torch.stack([(0 * value).sum() for value in parameters]).sum()


def _images(batch: object) -> torch.Tensor | None:
    items = (
        batch.values()
        if isinstance(batch, Mapping)
        else batch
        if isinstance(batch, list | tuple)
        else [batch]
    )
    for item in items:
        if isinstance(item, torch.Tensor) and item.ndim >= 2:
            return item
    return None


def _hash(row: Array) -> int:
    return int.from_bytes(hashlib.blake2b(row.tobytes(), digest_size=6).digest(), "big")


def _is_half(value: object) -> bool:
    return type(value) is torch.Tensor and value.dtype in (torch.bfloat16, torch.float16)


def _metrics(trainer: pl.Trainer | None) -> dict[str, Json]:
    if trainer is None:
        return {}
    return {str(name)[:100]: plain(value) for name, value in list(trainer.callback_metrics.items())[:100]}


# Making the student's things


def _module(student: Student) -> Any:
    """Their file, on a machine where Lightning's slow decorations are off."""
    _plain_trainers()
    return student.load(MODULE)


def _model(student: Student, module: Any) -> pl.LightningModule:
    cls = student.get(module, "LitFashion")
    with student.calling("making LitFashion()"):
        model = cls()
    if not isinstance(model, pl.LightningModule):
        student.phase = "making LitFashion()"
        raise StudentMistake(f"LitFashion() is {kind(model)}, not a LightningModule")
    return model


def _plain_trainers() -> None:
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


def _tolerate_gpu_calls(student: Student) -> list[str]:
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
        owner.cuda = cuda  # type: ignore[assignment]
        owner.to = without(owner.to, '.to("cuda")')  # type: ignore[method-assign,assignment]
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


class Files:
    """Which pictures of Fashion-MNIST are read in which part of the training, and who asks for a download.

    A process that holds a lock on a file while it asks, as with FileLock, gets in nobody's way: that is not counted.
    """

    def __init__(self, offered: str | None) -> None:
        self.items: dict[str, list[Json]] = {"train": [], "val": []}
        self.downloads = 0
        self.trainer: pl.Trainer | None = None
        self.is_open = False
        self.when_opened: Callable[[], None] = lambda: None
        self._note_opening()
        self._note_items()
        self._note_downloads()
        if offered is not None:
            _offer(offered)

    def _note_opening(self) -> None:
        original = datasets.FashionMNIST.__init__

        def opened() -> None:
            if not self.is_open:
                self.is_open = True
                self.when_opened()

        @functools.wraps(original)
        def noted(dataset: datasets.FashionMNIST, *args: Any, **kwargs: Any) -> None:
            original(dataset, *args, **kwargs)
            opened()

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            # Who reads the files without torchvision: train-images-idx3-ubyte and the like.
            if not self.is_open and event == "open" and "-ubyte" in str(arguments[0]):
                opened()

        datasets.FashionMNIST.__init__ = noted  # type: ignore[method-assign]
        sys.addaudithook(hook)

    def _note_items(self) -> None:
        original = datasets.FashionMNIST.__getitem__

        def noted(dataset: datasets.FashionMNIST, index: int) -> tuple[Any, Any]:
            trainer = self.trainer
            if trainer is not None and not trainer.sanity_checking:
                stage = "train" if trainer.training else "val"
                if len(self.items[stage]) < MAX_ROWS:
                    self.items[stage].append(["train" if dataset.train else "test", int(index)])
            return original(dataset, index)

        datasets.FashionMNIST.__getitem__ = noted  # type: ignore[method-assign]

    def _note_downloads(self) -> None:
        original = datasets.FashionMNIST.download

        def noted(dataset: datasets.FashionMNIST) -> None:
            self.downloads += not _holds_a_lock()
            original(dataset)

        datasets.FashionMNIST.download = noted  # type: ignore[method-assign]


def _holds_a_lock() -> bool:
    """Whether this process holds a lock on a file for itself alone, by flock or by fcntl."""
    for descriptor in os.listdir("/proc/self/fdinfo"):
        with contextlib.suppress(OSError), open(f"/proc/self/fdinfo/{descriptor}") as file:
            if any(line.startswith("lock:") and " WRITE " in line for line in file):
                return True
    return False


def _offer(offered: str) -> None:
    """Where code opens Fashion-MNIST at a place that is not there, open this one instead."""
    original = datasets.FashionMNIST.__init__

    @functools.wraps(original)
    def init(self: datasets.FashionMNIST, root: Any, *args: Any, **kwargs: Any) -> None:
        there = os.path.isdir(os.path.join(os.fspath(root), "FashionMNIST", "raw"))
        original(self, root if there else offered, *args, **kwargs)

    datasets.FashionMNIST.__init__ = init  # type: ignore[method-assign]


def _small_loaders() -> None:
    """Read in this process, where reading can be noted, and in small batches, so that little data makes several."""
    original = DataLoader.__init__

    @functools.wraps(original)
    def init(self: Any, dataset: Any, *args: Any, **kwargs: Any) -> None:
        for name in ("num_workers", "persistent_workers", "prefetch_factor", "multiprocessing_context"):
            kwargs.pop(name, None)
        args = (min(args[0] or BATCH_SIZE, BATCH_SIZE), *args[1:]) if args and args[0] else args
        if not args and kwargs.get("batch_size"):
            kwargs["batch_size"] = min(kwargs["batch_size"], BATCH_SIZE)
        original(self, dataset, *args, **kwargs)

    DataLoader.__init__ = init  # type: ignore[method-assign]


# The module, trained by the probe


def found(student: Student, inputs: Inputs) -> Observation:
    """Import the file and look for its class."""
    cls = student.get(_module(student), "LitFashion")
    return Observation({"is_class": isinstance(cls, type) and issubclass(cls, pl.LightningModule)})


def train(student: Student, inputs: Inputs) -> Observation:
    """Fit LitFashion with a Trainer of the probe's on the judge's data; stop where the judge says."""
    values = inputs.values
    calls = _tolerate_gpu_calls(student)
    recorder = Recorder(
        stop_before=cast("int | None", values.get("stop_before")),
        stop_after=cast("int | None", values.get("stop_after")),
    )
    recorder.attach()
    recorder.watch_loop()
    Files(os.path.join(student.data, "fashion"))
    module = _module(student)
    _in_some_shape(recorder, lambda shape: _fit(student, inputs, recorder, _model(student, module), shape))
    return Observation(
        {**recorder.values(), "gpu_calls": cast(Json, calls[:10]), **_optimizers(recorder)}, recorder.arrays
    )


def on_gpu(student: Student, inputs: Inputs) -> Observation:
    """Fit LitFashion where there is a GPU: Lightning moves the module and each batch, all else has to follow."""
    accelerator = cast(str, inputs.values["accelerator"])
    with gpus(1):
        Files(os.path.join(student.data, "fashion"))
        module = _module(student)
        recorder = Recorder()
        _in_some_shape(
            recorder,
            lambda shape: _fit(student, inputs, recorder, _model(student, module), shape, accelerator),
        )
    return Observation({})


def _in_some_shape(recorder: Recorder, attempt: Callable[[tuple[int, ...]], None]) -> None:
    """Networks that take pictures as rows or planes are as good as others: their own data comes that way."""
    first: Exception | None = None
    for shape in SHAPES:
        recorder.start()
        try:
            return attempt(shape)
        except (RuntimeError, ValueError) as error:
            if recorder.steps or not OTHER_SHAPE.search(str(error)):
                raise
            first = first or error
    assert first is not None
    raise first


def _fit(
    student: Student,
    inputs: Inputs,
    recorder: Recorder,
    model: pl.LightningModule,
    shape: tuple[int, ...],
    accelerator: str = "cpu",
) -> None:
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
        logger=DummyLogger(),
        enable_checkpointing=False,
        num_sanity_val_steps=0,
    )
    recorder.trainer = trainer
    call = "training LitFashion() with trainer.fit(model, train_loader, val_loader)"
    with student.calling(call), suppress(SeenEnough):
        trainer.fit(model, loaders[0], loaders[1])


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
    }


# The Trainer


def flags(student: Student, inputs: Inputs) -> Observation:
    """What build_trainer() makes by default, and how many batches the Trainers that it makes really take."""
    _tolerate_gpu_calls(student)
    recorder = Recorder()
    recorder.attach()
    recorder.watch_loop()
    Files(os.path.join(student.data, "fashion"))
    module = _module(student)
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
    model = _model(student, module)
    labels = inputs.tensor("labels")
    for name in ("limited", "dev"):
        overrides = cast(dict[str, Any], inputs.values[name])
        shown = ", ".join(f"{key}={value!r}" for key, value in overrides.items())
        always = {"accelerator": "cpu", "devices": 1, "logger": DummyLogger(), "num_sanity_val_steps": 0}
        trainer = _built(student, build, shown, **always, **overrides)
        values[f"{name}_precision"] = plain(trainer.precision)
        values[f"{name}_epochs"] = plain(trainer.max_epochs)

        def fit(
            shape: tuple[int, ...], trainer: pl.Trainer = trainer, call: str = f"build_trainer({shown})"
        ) -> None:
            loader = DataLoader(Rows(inputs.tensor("images").reshape(-1, *shape), labels), 2)
            with student.calling(f"training with {call}"):
                trainer.fit(model, loader, loader)

        _in_some_shape(recorder, fit)
        values[f"{name}_batches"] = cast(Json, dict(recorder.counts))
    again = _built(student, build, "")
    values["again"] = [plain(again.max_epochs), plain(again.limit_train_batches)]
    # Who sets callbacks by themselves may have no room for others.
    with suppress(Exception):
        trainer = build(callbacks=[_Given()])
        if isinstance(trainer, pl.Trainer):
            values["callbacks"] = any(isinstance(callback, _Given) for callback in trainer.callbacks)
    return Observation(values)


class _Given(pl.Callback):
    """One that build_trainer is given."""


def _built(student: Student, build: Callable[..., object], shown: str, **overrides: Any) -> pl.Trainer:
    with student.calling(f"calling build_trainer({shown})"):
        trainer = build(**overrides)
    if not isinstance(trainer, pl.Trainer):
        student.phase = f"calling build_trainer({shown})"
        raise StudentMistake(f"build_trainer({shown}) returned {kind(trainer)}, not a Trainer")
    return trainer


# The script


def script(student: Student, inputs: Inputs) -> Observation:
    """Run lightning_train.py with the judge's arguments; what it trains on, with what, and what it leaves.

    With `gpus`, on a machine that has so many.
    """
    values = inputs.values
    calls = _tolerate_gpu_calls(student)
    recorder = Recorder(stop_before=cast("int | None", values.get("stop_before")))
    recorder.attach()
    recorder.watch_loop()
    files = Files(None)
    _small_loaders()
    _plain_trainers()
    before = set(_files())
    fits = _note_fits(files, stop=values.get("at_fit") is True, recorder=recorder)
    status: int | None = None
    there = cast("int | None", values.get("gpus"))
    try:
        with gpus(there) if there else contextlib.nullcontext():
            status = student.run_script(f"{MODULE}.py", cast(list[str], values["arguments"]))
    except SeenEnough:
        student.phase = ""
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
            "downloads": files.downloads,
            "gpu_calls": cast(Json, calls[:10]),
            "left": cast(Json, _left(before)),
        },
        arrays,
    )


@dataclass(frozen=True)
class Fits:
    """The Trainers whose fit was called, and those of them that only rehearsed: on loaders of made-up pictures."""

    trainers: list[pl.Trainer]
    rehearsed: list[pl.Trainer]


def _note_fits(files: Files, *, stop: bool, recorder: Recorder | None = None) -> Fits:
    """Note them from now on. What was rehearsed is forgotten once the real pictures are opened."""
    fits = Fits([], [])
    original = pl.Trainer.fit

    @functools.wraps(original)
    def fit(self: pl.Trainer, *args: Any, **kwargs: Any) -> None:
        fits.trainers.append(self)
        files.trainer = self
        # In today's spelling and in the old one, which the original knows.
        named = kwargs.get("train_dataloaders", kwargs.get("train_dataloader"))
        loaders = args[1] if len(args) > 1 else named
        # Loaders are made of pictures that are there already; a data module may open them only now.
        has_module = isinstance(loaders, pl.LightningDataModule)
        rehearses = recorder is not None and not files.is_open and loaders is not None and not has_module
        if stop and not rehearses:
            raise SeenEnough
        if rehearses:
            fits.rehearsed.append(self)
        if recorder is not None:
            recorder.is_rehearsal = rehearses
        original(self, *args, **kwargs)

    def forget() -> None:
        if recorder is not None and fits.rehearsed:
            recorder.start()
            files.items = {"train": [], "val": []}
            fits.trainers[:] = [trainer for trainer in fits.trainers if trainer not in fits.rehearsed]
            fits.rehearsed.clear()

    files.when_opened = forget
    pl.Trainer.fit = fit  # type: ignore[method-assign]
    return fits


def _facts(trainer: pl.Trainer) -> dict[str, Json]:
    return {
        "world_size": plain(trainer.world_size),
        "precision": plain(trainer.precision),
        "accelerator": type(trainer.accelerator).__name__[:60],
        "max_epochs": plain(trainer.max_epochs),
        "limit": plain(trainer.limit_train_batches),
        "loggers": [type(logger).__name__[:60] for logger in trainer.loggers],
        "global_step": plain(trainer.global_step),
        "shared_out": _is_shared_out(trainer.train_dataloader),
    }


def _is_shared_out(loader: object) -> bool | None:
    """Whether a DistributedSampler shares out what a loader reads; None where it is no loader that could tell."""
    if not isinstance(loader, DataLoader):
        return None
    samplers = loader.sampler, getattr(loader.batch_sampler, "sampler", None)
    return any(isinstance(sampler, DistributedSampler) for sampler in samplers)


def _files() -> Iterator[str]:
    for folder, _, names in os.walk("."):
        for name in names:
            yield os.path.relpath(os.path.join(folder, name))


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
    _tolerate_gpu_calls(student)
    _small_loaders()
    files = Files(os.path.join(student.data, "fashion"))
    fits = _note_fits(files, stop=True)
    if student.is_notebook(MODULE):
        return Observation({"fits": 0})  # a notebook is run, never imported
    sys.argv = [f"{MODULE}.py"]
    # Only a training counts here; what else may happen on import is not asked.
    with suppress(SeenEnough, Exception, SystemExit), student.calling(f"running `import {MODULE}`"):
        importlib.import_module(MODULE)
    return Observation({"fits": len(fits.trainers)})
