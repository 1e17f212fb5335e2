"""What happens in a step: the logits, the loss, what is logged."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, TypeGuard, cast

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.core.optimizer import LightningOptimizer
from pytorch_lightning.strategies import Strategy
from torch.nn.parameter import is_lazy
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode

from lockstep.sandbox.probing import kind, plain, plain_tensor
from lockstep.wire import Array, Json

from .besides import is_besides
from .logged import Constants
from .multiplied import Multiplied
from .piling import Piling

CLASSES = 10
MAX_SEEN = 32  # tensors of one step that could be the logits
MAX_ROWS = 4_000
MAX_MODES = 10  # first steps of either stage, and last ones
MAX_WEIGHTS = 1 << 20
MAX_SUMS = 100  # first steps before which the weights are summed up
# By whatever name a layer multiplies by its weights.
LAYERS = frozenset(
    "linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d matmul __matmul__ __rmatmul__ mm "
    "bmm addmm addbmm baddbmm einsum tensordot inner".split()
)
MAX_BEFORE_REDUCED = 4  # arguments of LightningModule.log between the value and reduce_fx


class SeenEnough(BaseException):
    """Ends a training once the check has seen what it came for."""


def see_enough() -> NoReturn:
    """Raise it."""
    raise SeenEnough


class Logits(TorchFunctionMode):
    """Keeps what could be the logits of a batch and the gradients that reach it, and in which types is computed."""

    def __init__(self, batch_size: int) -> None:
        super().__init__()
        self.batch_size = batch_size
        self.seen: list[torch.Tensor] = []
        self.gradients: dict[int, torch.Tensor] = {}
        # With gradients and without: an optimizer multiplies as well, Muon in bfloat16.
        self._types: dict[bool, set[str]] = {True: set(), False: set()}
        # Layers that do something else in training, and how many of them did.
        self.moody, self.active = 0, 0

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        self._look_at_mode(getattr(function, "__name__", ""), args, kwargs or {})
        if type(result) is torch.Tensor and result.is_floating_point():
            self._keep(function, result)
        return result

    def _look_at_mode(self, name: str, args: Any, kwargs: Mapping[str, Any]) -> None:
        drops = name == "dropout" and kwargs.get("p", 0) > 0
        # Without statistics of its own a batch norm takes the batch's in either mode.
        normalises = name == "batch_norm" and len(args) > 1 and args[1] is not None
        has_modes = drops or normalises
        self.moody += has_modes
        self.active += has_modes and kwargs.get("training") is True

    def _keep(self, function: Any, result: torch.Tensor) -> None:
        name = getattr(function, "__name__", "")
        if name in LAYERS:
            self._types[torch.is_grad_enabled()].add(str(result.dtype).removeprefix("torch."))
        if result.shape != (self.batch_size, CLASSES) or len(self.seen) >= MAX_SEEN:
            return
        number = len(self.seen)
        # A copy, because code may go on in place.
        self.seen.append(result.detach().float().clone())
        if result.requires_grad:
            result.register_hook(functools.partial(self._gradient, number))

    @property
    def types(self) -> set[str]:
        """Those that layers computed in: with gradients, or without where nothing had any, as in validation."""
        return self._types[True] or self._types[False]

    def _gradient(self, number: int, gradient: torch.Tensor) -> None:
        self.gradients.setdefault(number, gradient.detach().float().clone())


class Recorder:
    """What reached the steps of the module and what they gave back, in order.

    It calls `enough` before step number `stop_before`, counted from 0, and after so many as `stop_after` says.
    """

    def __init__(
        self,
        enough: Callable[[], NoReturn] = see_enough,
        *,
        stop_before: int | None = None,
        stop_after: int | None = None,
        most_epochs: int | None = None,
    ) -> None:
        self.enough, self.most_epochs = enough, most_epochs
        self.stop_before, self.stop_after = stop_before, stop_after
        self.is_rehearsal = False
        self.in_step = False
        # The batch of the step that an optimizer is about to make, until it has made it.
        self.asked: object = None
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
        self.modes: dict[str, list[Json]] = {"train": [], "val": []}
        self.manual: list[str] = []
        self.piling = Piling()
        self.sums: list[str] = []
        self.reached: set[str] = set()
        self.constants = Constants()
        self.multiplied = Multiplied()
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
            if is_besides(module.trainer, stage, len(recorder.counts["val"])) or (
                stage == "train" and recorder._is_asked_again(args)
            ):
                return original(strategy, *args, **kwargs)
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
            recorder._after(stage, module, seen)
            then(output, seen)
            return _with_graph(module, output) if stage == "train" else output

        setattr(Strategy, name, step)

    def _is_asked_again(self, args: Any) -> bool:
        """Whether an optimizer wants the same batch once more for its step, as LBFGS does or one that looks around."""
        again = bool(args) and self.asked is not None and args[0] is self.asked
        self.asked = args[0] if args else None
        return again

    def _arrived(self, stage: str, args: tuple[Any, ...]) -> int:
        images = _images(args[0]) if args else None
        trainer = self.trainer
        if images is None or (trainer is not None and trainer.sanity_checking):
            return -1 if images is None else len(images)
        self.counts[stage].append(len(images))
        if stage == "train" and trainer is not None:
            if self.epochs and self.epochs[-1] != trainer.current_epoch:
                self.piling.forget()
            self.epochs.append(trainer.current_epoch)
        rows = plain_tensor(images)
        if rows is not None and len(self.hashes[stage]) < MAX_ROWS:
            self.hashes[stage] += [_hash(row) for row in np.ascontiguousarray(rows)]
        return len(images)

    def _before(self, module: pl.LightningModule) -> None:
        self.parameter_types |= {str(p.dtype).removeprefix("torch.") for p in module.parameters()}
        if self.is_rehearsal:
            return
        if self.stop_before is not None and len(self.counts["train"]) > self.stop_before:
            self.enough()
        if self.most_epochs is not None and len(set(self.epochs)) > self.most_epochs:
            self.enough()
        if len(self.sums) < MAX_SUMS:
            self.sums.append(sum_of(module.parameters()))

    def _after(self, stage: str, module: pl.LightningModule, seen: Logits) -> None:
        if self.trainer is not None and not self.trainer.sanity_checking:
            modes = self.modes[stage]
            modes.append([module.training is True, seen.moody, seen.active])
            # The first and the last of them.
            if len(modes) > 2 * MAX_MODES:
                del modes[MAX_MODES]
        self.facts["frozen"] = not all(value.requires_grad for value in module.parameters())

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
        self.multiplied.step(loss, seen.batch_size)
        for index, tensor in enumerate(seen.seen):
            self.arrays[f"train{number}/seen{index}"] = tensor
        if self.stop_after is not None and len(self.steps) >= self.stop_after:
            if not seen.gradients and isinstance(loss, torch.Tensor) and loss.grad_fn is not None:
                loss.sum().backward()
            for index, gradient in seen.gradients.items():
                self.arrays[f"train{number}/gradient{index}"] = gradient
            if self.model is not None:
                self._reach()
                self.facts["reached"] = cast(Json, sorted(self.reached))
            self.enough()

    def _reach(self) -> None:
        """Note the parameters that have a gradient now; a loop written by hand may clear it before its step returns."""
        self.reached |= {
            name
            for name, value in (self.model.named_parameters() if self.model is not None else ())
            if value.grad is not None and bool(value.grad.abs().sum() > 0)
        }

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
                if recorder.in_step:
                    recorder.constants.note(name, value)
                    is_told = len(args) > MAX_BEFORE_REDUCED  # by its place
                    reduced_by = None if is_told else kwargs.get("reduce_fx", "mean")
                    recorder.multiplied.note(name, value, reduced_by)
            original(module, name, value, *args, **kwargs)

        pl.LightningModule.log = log  # type: ignore[method-assign, assignment]

    # What a loop written by hand does, and what is left of the gradients in Lightning's own

    def watch_loop(self) -> None:
        """Note backward, step and zero_grad where training_step calls them and Lightning does, too.

        Once noted they do nothing: one check is about them, and all others would only crash.
        """
        for owner in (torch.optim.Optimizer, torch.nn.Module):
            self._note_call(owner, "zero_grad", "zero_grad()")
        self._note_call(torch.Tensor, "backward", "loss.backward()")
        self._note_call(torch.autograd, "backward", "loss.backward()", lambda: self.piling.backward())
        self._note_call(pl.LightningModule, "manual_backward", "self.manual_backward(loss)")
        self._note_call(LightningOptimizer, "step", "optimizer.step()")

        def before_step(optimizer: torch.optim.Optimizer, *_: Any) -> None:
            if self._note("optimizer.step()"):
                optimizer.zero_grad()
            elif self._loops_by_hand():
                self.piling.step(optimizer)
                if self.stop_after is not None:
                    self._reach()

        def after_step(optimizer: torch.optim.Optimizer, *_: Any) -> None:
            self.asked = None
            # Lightning has its backward made within the step, so that what was used is known only now.
            if self._leaves_the_loop():
                self.piling.step(optimizer)

        register_optimizer_step_pre_hook(before_step)
        register_optimizer_step_post_hook(after_step)

    def _note_call(self, owner: Any, name: str, what: str, then: Callable[[], None] | None = None) -> None:
        original = getattr(owner, name)

        @functools.wraps(original)
        def noted(*args: Any, **kwargs: Any) -> Any:
            if self._note(what):
                return None
            if then is not None and (self._loops_by_hand() or self._leaves_the_loop()):
                then()
            return original(*args, **kwargs)

        setattr(owner, name, noted)

    def _loops_by_hand(self) -> bool:
        return self.in_step and self.model is not None and not self.model.automatic_optimization

    def _leaves_the_loop(self) -> bool:
        """Whether this is Lightning's part of a step."""
        return not self.in_step and self.model is not None and self.model.automatic_optimization is True

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
            "modes": cast(Json, dict(self.modes)),
            "manual": cast(Json, self.manual),
            "sums": cast(Json, self.sums),
            "automatic": self.model is None or self.model.automatic_optimization is True,
            "logged": self.logged,
            "metrics": _metrics(trainer),
            **({"stayed": cast(Json, self.piling.stayed)} if any(self.piling.stayed) else {}),
            **({"constants": cast(Json, constants)} if (constants := self.constants.found()) else {}),
            **({"multiplied": cast(Json, multiplied)} if (multiplied := self.multiplied.found()) else {}),
            **self.facts,
        }


def sum_of(parameters: Iterable[torch.nn.Parameter]) -> str:
    """Of all weights, to the last bit: the same where none of them was changed since."""
    sums = (value.detach().sum(dtype=torch.float64).item() for value in parameters if not is_lazy(value))
    return float(sum(sums)).hex()


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


def _is_half(value: object) -> TypeGuard[torch.Tensor]:
    return type(value) is torch.Tensor and value.dtype in (torch.bfloat16, torch.float16)


def _metrics(trainer: pl.Trainer | None) -> dict[str, Json]:
    if trainer is None:
        return {}
    return {str(name)[:100]: plain(value) for name, value in list(trainer.callback_metrics.items())[:100]}
