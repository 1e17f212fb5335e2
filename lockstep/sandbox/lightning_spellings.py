"""Old spellings of Lightning, brought up to date as they are used.

Courses and blog posts teach Lightning from 0.7 to 2.x. What can be translated runs, and is noted as an event
`{"kind": "shim", "name": "lightning", "spelling": key}`; `EXPLAINED[key]` is the sentence for the student. What
cannot be translated fails with an error that says what to write instead.

Source: Lightning's own upgrade guide to 2.0 and the change logs of its releases.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from lockstep.sandbox import after_import
from lockstep.sandbox.after_import import Tell, answer, teller
from lockstep.sandbox.lightning_names import PACKAGE, Names

Note = Callable[..., None]

EXPLAINED: Mapping[str, str] = {
    "gpus": (
        "Trainer(gpus=N) was removed in Lightning 2.0: write accelerator='gpu', devices=N, or leave both at "
        "'auto'."
    ),
    "tpu_cores": "Trainer(tpu_cores=N) was removed in Lightning 2.0: write accelerator='tpu', devices=N.",
    "num_processes": "Trainer(num_processes=N) was removed in Lightning 2.0: write accelerator='cpu', devices=N.",
    "accelerator": (
        "Trainer(accelerator='ddp') was the spelling before Lightning 1.5: accelerator now names the hardware"
        " ('cpu', 'gpu', 'auto') and strategy='ddp' how processes work together."
    ),
    "strategy_dp": (
        "The strategies 'dp' and 'ddp2' were removed in Lightning 2.0: write strategy='ddp'. It ran without "
        "one."
    ),
    "distributed_backend": "Trainer(distributed_backend='ddp') was removed in Lightning 1.5: write strategy='ddp'.",
    "precision": (
        "Trainer(precision=16) is written precision='16-mixed' since Lightning 2.0, and 'bf16' is written "
        "'bf16-mixed'. On a CPU both mean 'bf16-mixed'."
    ),
    "progress_bar": (
        "Trainer(progress_bar_refresh_rate=N) was removed in Lightning 2.0: write enable_progress_bar=True or"
        " False, or callbacks=[TQDMProgressBar(refresh_rate=N)]."
    ),
    "checkpoint_callback": (
        "Trainer(checkpoint_callback=...) was removed in Lightning 2.0: write enable_checkpointing=True or "
        "False, and put a ModelCheckpoint among the callbacks."
    ),
    "checkpoint": (
        "ModelCheckpoint(filepath=..., prefix=..., period=...) was removed between Lightning 1.2 and 1.7: write "
        "dirpath=..., filename=..., every_n_epochs=..."
    ),
    "weights_summary": (
        "Trainer(weights_summary=...) was removed in Lightning 2.0: write enable_model_summary=True or False."
    ),
    "renamed": (
        "A Trainer argument has another name since Lightning 1.0 or 2.0 (train_percent_check is "
        "limit_train_batches, max_nb_epochs is max_epochs, replace_sampler_ddp is use_distributed_sampler, "
        "row_log_interval is log_every_n_steps)."
    ),
    "dropped": (
        "A Trainer argument that Lightning 2.0 no longer has was left out (resume_from_checkpoint is "
        "fit(ckpt_path=...) now, auto_lr_find and auto_scale_batch_size belong to "
        "lightning.pytorch.tuner.Tuner)."
    ),
    "argparse": (
        "Trainer.add_argparse_args and Trainer.from_argparse_args were removed in Lightning 2.0: add the "
        "arguments you need with argparse, or use LightningCLI."
    ),
    "train_dataloader": (
        "fit(train_dataloader=...) is written fit(train_dataloaders=...) since Lightning 1.4; test and "
        "validate take dataloaders=..."
    ),
    "epoch_end": (
        "training_epoch_end(outputs), validation_epoch_end(outputs) and test_epoch_end(outputs) were removed "
        "in Lightning 2.0: keep what you need in a list on self and use on_train_epoch_end(self), "
        "on_validation_epoch_end(self)."
    ),
    "metrics": "pytorch_lightning.metrics was removed in Lightning 1.5: import torchmetrics.",
    "task": (
        "Since torchmetrics 0.11, Accuracy and functional.accuracy need to be told the task: "
        "Accuracy(task='multiclass', num_classes=10)."
    ),
    "result": (
        "pl.TrainResult and pl.EvalResult were removed in Lightning 1.0: return the loss and call "
        "self.log(name, value)."
    ),
    "hparams": "self.hparams = ... cannot be assigned since Lightning 1.3: call self.save_hyperparameters().",
    "moved": (
        "An import path of Lightning 1.x has moved: `from lightning.pytorch import LightningModule, Trainer` "
        "has what is needed most, and Trainer(strategy='ddp') takes the place of DDPPlugin."
    ),
}

RENAMED = {
    "max_nb_epochs": "max_epochs",
    "min_nb_epochs": "min_epochs",
    "nb_gpu_nodes": "num_nodes",
    "train_percent_check": "limit_train_batches",
    "val_percent_check": "limit_val_batches",
    "test_percent_check": "limit_test_batches",
    "overfit_pct": "overfit_batches",
    "row_log_interval": "log_every_n_steps",
    "default_save_path": "default_root_dir",
    "weights_save_path": "default_root_dir",
    "replace_sampler_ddp": "use_distributed_sampler",
    "reload_dataloaders_every_epoch": "reload_dataloaders_every_n_epochs",
    "show_progress_bar": "enable_progress_bar",
}
DROPPED = frozenset(
    (
        "amp_backend amp_level auto_lr_find auto_scale_batch_size auto_select_gpus automatic_optimization "
        "early_stop_callback enable_pl_optimizer "
        "flush_logs_every_n_steps log_gpu_memory log_save_interval move_metrics_to_cpu multiple_trainloader_mode "
        "prepare_data_per_node print_nan_grads process_position resume_from_checkpoint stochastic_weight_avg "
        "terminate_on_nan track_grad_norm truncated_bptt_steps ipus"
    ).split()
)
OF_CHECKPOINTS = frozenset(("filepath", "prefix", "period", "every_n_val_epochs"))
HOW_PROCESSES_WORK = frozenset(("ddp", "ddp_spawn", "ddp_cpu", "ddp_sharded", "dp", "ddp2", "horovod"))
NO_LONGER = frozenset(("dp", "ddp2", "horovod", "ddp_sharded"))
OLD_PRECISIONS = (16, "16", "bf16")
RANK_ZERO = "lightning_utilities.core.rank_zero"


def install(note: Note) -> None:
    """Make both names importable, and translate old spellings once Lightning is imported; costs nothing before."""
    tell = teller(note, "lightning")
    sys.meta_path.insert(0, Names(tell))
    if PACKAGE in sys.modules:
        # Lightning reads it when it is imported, which was before this process had one.
        sys.modules[RANK_ZERO].rank_zero_only.rank = int(os.environ.get("RANK", "0"))
    after_import.change(PACKAGE, lambda package: _modernise(package, tell))


def _modernise(package: ModuleType, tell: Tell) -> None:
    _trainer(package, tell)
    _module(package, tell)
    _metrics(tell)
    _package(package, tell)
    _checkpoints(package, tell)
    _parts(package, tell)


# Trainer


def _trainer(package: ModuleType, tell: Tell) -> None:
    cls: Any = package.Trainer
    construct = cls.__init__
    known = set(inspect.signature(construct).parameters)

    @functools.wraps(construct)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        construct(self, *args, **_today(kwargs, tell))

    cls.__init__ = init

    def from_argparse_args(cls: Any, /, args: Any, **kwargs: Any) -> Any:
        tell("argparse")
        old = RENAMED.keys() | DROPPED | {"gpus", "tpu_cores", "num_processes", "distributed_backend"}
        given = {
            name: value for name, value in vars(args).items() if name in known | old and value is not None
        }
        return cls(**{**given, **kwargs})

    def add_argparse_args(cls: Any, /, parser: Any, **_: Any) -> Any:
        tell("argparse")
        # The ones that the old parser had and that people type.
        for name, kind in (
            ("max_epochs", int), ("gpus", int), ("devices", _number_or_text), ("precision", _number_or_text),
            ("limit_train_batches", _number_or_text), ("limit_val_batches", _number_or_text), ("strategy", str),
            ("accelerator", str), ("fast_dev_run", int), ("default_root_dir", str), ("num_nodes", int),
        ):  # fmt: skip
            if f"--{name}" not in parser._option_string_actions:
                parser.add_argument(f"--{name}", type=kind, default=None)
        return parser

    cls.from_argparse_args = classmethod(from_argparse_args)
    cls.add_argparse_args = classmethod(add_argparse_args)
    for name, new in (("fit", "train_dataloaders"), ("validate", "dataloaders"), ("test", "dataloaders")):
        setattr(cls, name, _entry(getattr(cls, name), new, tell))


def _number_or_text(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _entry(original: Callable[..., Any], loaders: str, tell: Tell) -> Callable[..., Any]:
    """fit, validate or test, with its old names for loaders, and old hooks of the model put to use."""

    @functools.wraps(original)
    def call(self: Any, model: Any = None, *args: Any, **kwargs: Any) -> Any:
        for old in ("train_dataloader", "test_dataloaders", "val_dataloaders"):
            if old in kwargs and old not in inspect.signature(original).parameters:
                tell("train_dataloader")
                kwargs.setdefault(loaders, kwargs.pop(old))
        if model is not None:
            _epoch_ends(model, tell)
        return original(self, model, *args, **kwargs)

    return call


def _today(kwargs: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """Trainer arguments in today's spelling. What is given in today's spelling already wins."""
    now = {name: value for name, value in kwargs.items() if name not in RENAMED and name not in DROPPED}
    for name, value in kwargs.items():
        if name in RENAMED:
            tell("renamed")
            now.setdefault(RENAMED[name], value)
        elif name in DROPPED:
            tell("dropped")
    if now.get("max_steps", -1) is None:
        tell("dropped")
        del now["max_steps"]
    _strategy(now, tell)
    _devices(now, tell)
    if "progress_bar_refresh_rate" in now:
        tell("progress_bar")
        now.setdefault("enable_progress_bar", now.pop("progress_bar_refresh_rate") != 0)
    if "weights_summary" in now:
        tell("weights_summary")
        now.setdefault("enable_model_summary", now.pop("weights_summary") is not None)
    if "checkpoint_callback" in now:
        tell("checkpoint_callback")
        wanted = now.pop("checkpoint_callback")
        now.setdefault("enable_checkpointing", bool(wanted))
        if wanted is not None and not isinstance(wanted, bool):
            given = now.get("callbacks") or []
            now["callbacks"] = [*(given if isinstance(given, list | tuple) else [given]), wanted]
    if now.get("precision") in OLD_PRECISIONS:
        tell("precision")
    return now


def _strategy(now: dict[str, Any], tell: Tell) -> None:
    """How processes work together, which `accelerator` and `distributed_backend` used to say."""
    for name in ("accelerator", "distributed_backend"):
        how = now.get(name)
        if name == "accelerator" and how not in HOW_PROCESSES_WORK:
            continue
        if now.pop(name, None) is not None:
            tell(name)
            now.setdefault("strategy", "ddp" if how == "ddp_cpu" else how)
        if how == "ddp_cpu":
            now["accelerator"] = "cpu"
    if isinstance(now.get("strategy"), str) and now["strategy"] in NO_LONGER:
        tell("strategy_dp")
        now["strategy"] = "auto"


def _devices(now: dict[str, Any], tell: Tell) -> None:
    """Numbers of devices by kind of device; where there is none of the kind, what there is."""
    import torch

    for name in ("gpus", "tpu_cores", "num_processes"):
        if name not in now:
            continue
        tell(name)
        count = now.pop(name)
        if count is None or "devices" in now:
            continue
        if name == "gpus" and torch.cuda.is_available() and count not in (0, "0", []):
            now["accelerator"], now["devices"] = "gpu", count
        else:
            now["accelerator"] = "cpu"
            now["devices"] = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


# LightningModule


def _epoch_ends(model: Any, tell: Tell) -> None:
    """Call the hooks that took all outputs of an epoch from those that replaced them."""
    for step, old, hook in (
        ("training_step", "training_epoch_end", "on_train_epoch_end"),
        ("validation_step", "validation_epoch_end", "on_validation_epoch_end"),
        ("test_step", "test_epoch_end", "on_test_epoch_end"),
    ):
        if callable(getattr(model, old, None)):
            tell("epoch_end")
            _collect(model, step, old, hook)


def _collect(model: Any, step: str, old: str, hook: str) -> None:
    outputs: list[Any] = []
    make, end, after = getattr(model, step), getattr(model, old), getattr(model, hook)

    @functools.wraps(make)
    def collecting(*args: Any, **kwargs: Any) -> Any:
        output = make(*args, **kwargs)
        if output is not None:
            whole = (
                {"loss": output} if step == "training_step" and not isinstance(output, Mapping) else output
            )
            outputs.append(_detached(whole))
        return output

    def at_end() -> Any:
        end(list(outputs))
        outputs.clear()
        return after()

    setattr(model, step, collecting)
    setattr(model, hook, at_end)
    setattr(model, old, None)  # Lightning refuses a model that has it


def _detached(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _detached(item) for name, item in value.items()}
    return value.detach() if hasattr(value, "detach") else value


def _module(package: ModuleType, tell: Tell) -> None:
    cls: Any = package.LightningModule
    hparams = next(vars(base)["hparams"] for base in cls.__mro__ if "hparams" in vars(base))

    def assign(self: Any, value: Any) -> None:
        tell("hparams")
        self._set_hparams(vars(value) if type(value).__name__ == "Namespace" else value)

    cls.hparams = property(hparams.fget, assign, None, hparams.__doc__)


class Result(dict[str, Any]):
    """TrainResult and EvalResult of Lightning 0.9: a dict with the loss, and `log` as on the module today."""

    def __init__(
        self, minimize: Any = None, early_stop_on: Any = None, checkpoint_on: Any = None, **_: Any
    ) -> None:
        super().__init__({} if minimize is None else {"loss": minimize})

    def log(
        self, name: str, value: Any, *args: Any, sync_dist: bool = False, prog_bar: bool = False, **_: Any
    ) -> None:
        """Log with the module in whose step this was called."""
        module: Any = sys._getframe(1).f_locals.get("self")
        if hasattr(module, "log_dict"):
            module.log(name, value, sync_dist=sync_dist, prog_bar=prog_bar)

    def log_dict(self, values: Mapping[str, Any], **kwargs: Any) -> None:
        """Log several values."""
        module: Any = sys._getframe(1).f_locals.get("self")
        if hasattr(module, "log_dict"):
            module.log_dict(
                dict(values), **{k: v for k, v in kwargs.items() if k in ("sync_dist", "prog_bar")}
            )


def _package(package: ModuleType, tell: Tell) -> None:
    """Names that the package itself had."""

    def lookup(name: str) -> Any:
        if name in ("TrainResult", "EvalResult"):
            tell("result")
            return Result
        if name == "metrics":
            return importlib.import_module(f"{PACKAGE}.metrics")
        raise AttributeError(f"module {PACKAGE!r} has no attribute {name!r}")

    package.__getattr__ = lookup  # type: ignore[method-assign]
    plugins: Any = sys.modules.get(f"{PACKAGE}.plugins")

    def plugin(name: str) -> Any:
        if name in ("DDPPlugin", "DDPSpawnPlugin", "DDPShardedPlugin", "DDP2Plugin"):
            # Not an AttributeError: `from ... import` would put a text of its own in its place.
            raise ImportError(f"{name} was removed in Lightning 2.0: write Trainer(strategy='ddp') instead")
        raise AttributeError(f"module '{PACKAGE}.plugins' has no attribute {name!r}")

    if plugins is not None:
        plugins.__getattr__ = plugin


def _checkpoints(package: ModuleType, tell: Tell) -> None:
    """What ModelCheckpoint took before."""
    cls: Any = package.callbacks.ModelCheckpoint
    construct = cls.__init__

    @functools.wraps(construct)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        now = {name: value for name, value in kwargs.items() if name not in OF_CHECKPOINTS}
        if len(now) < len(kwargs):
            tell("checkpoint")
        for old in ("period", "every_n_val_epochs"):
            if old in kwargs:
                now.setdefault("every_n_epochs", kwargs[old])
        if kwargs.get("filepath"):
            folder, _, name = str(kwargs["filepath"]).rpartition("/")
            now = {"dirpath": folder or None, "filename": name or None, **now}
        construct(self, *args, **now)

    cls.__init__ = init


def _parts(package: ModuleType, tell: Tell) -> None:
    """Names that parts of the package had."""

    def watch(*_: Any, **__: Any) -> Any:
        return package.callbacks.DeviceStatsMonitor()

    for part, names in (
        (
            "callbacks",
            {"GPUStatsMonitor": watch, "LearningRateLogger": package.callbacks.LearningRateMonitor},
        ),
        ("loggers", {"LightningLoggerBase": package.loggers.Logger}),
        ("loggers.logger", {"LightningLoggerBase": package.loggers.Logger}),
        ("utilities.seed", {"seed_everything": package.seed_everything}),
        ("utilities.types", {"EPOCH_OUTPUT": list}),
    ):
        add = functools.partial(answer, old=names, tell=lambda: tell("moved"))
        after_import.change(f"{PACKAGE}.{part}", add)


# torchmetrics


def _metrics(tell: Tell) -> None:
    """Accuracy as it was before it asked for the task: several classes, every item counts the same."""
    import torchmetrics
    from torchmetrics.classification import MulticlassAccuracy
    from torchmetrics.functional import classification

    original = torchmetrics.Accuracy.__new__
    original_function = torchmetrics.functional.accuracy

    def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(args[0] if args else kwargs.get("task"), str):
            return original(cls, *args, **kwargs)
        tell("task")
        kept = {
            name: kwargs[name] for name in ("top_k", "ignore_index", "dist_sync_on_step") if name in kwargs
        }
        # How many classes there are plays no part in the share of right answers.
        classes = kwargs.get("num_classes") or 10
        average: Any = kwargs.get("average") or "micro"
        return MulticlassAccuracy(num_classes=classes, average=average, validate_args=False, **kept)

    @functools.wraps(original_function)
    def accuracy(preds: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(args[0] if args else kwargs.get("task"), str):
            return original_function(preds, target, *args, **kwargs)
        tell("task")
        classes = kwargs.get("num_classes") or (preds.shape[1] if preds.ndim > 1 else 10)
        average: Any = kwargs.get("average") or "micro"
        return classification.multiclass_accuracy(
            preds,
            target,
            num_classes=classes,
            average=average,
            top_k=kwargs.get("top_k", 1),
            validate_args=False,
        )

    torchmetrics.Accuracy.__new__ = staticmethod(new)  # type: ignore[method-assign]
    torchmetrics.functional.accuracy = accuracy
    classification.accuracy = accuracy
