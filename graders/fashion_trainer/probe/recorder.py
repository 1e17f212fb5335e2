"""What reaches a network and what comes of it."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import torch
from torch import nn
from torch._C import _functorch as functorch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

from lockstep.sandbox.probing import plain, plain_tensor
from lockstep.wire import Array, Json

from .graphs import Graphs
from .layers import is_dense
from .machine import Home
from .nets import PIXELS, Net
from .weights import Weights
from .wrapped import unwrapped

MAX_ROWS = 5_000
MAX_CALLS = 2_000
MAX_TRAINED = 8


class Recorder:
    """Every call of a network: what went in and came out, on which device, in which mode, and to what end."""

    def __init__(self, home: Home, *, compares: bool = False, weights: Weights | None = None) -> None:
        self._home, self._compares, self._watcher = home, compares, weights
        self.rows: list[Array] = []
        self.logits: list[Array] = []
        self.calls: list[dict[str, Json]] = []
        self.others, self.graphs = 0, Graphs()
        self._kept = 0
        # By id, since a student's model need not be hashable; with the model, whose id is another's once it is gone.
        self._trained: dict[int, tuple[nn.Module, list[list[Array]]]] = {}

    def watch(self, model: Net) -> None:
        """Record the calls of one model."""
        model.tell.append(self.called)

    def called(self, module: nn.Module, args: tuple[object, ...], output: object) -> None:
        """Note one call; a network is what turns pictures into ten numbers each."""
        # In a gradient of torch.func everything is wrapped, and whatever is done with it is part of it.
        with temporarily_clear_interpreter_stack():
            images = plain_tensor(self._home(unwrapped(args[0]))) if args else None
            logits = plain_tensor(self._home(unwrapped(output)))
        if images is None or logits is None or images.ndim < 2 or logits.shape != (len(images), 10):
            self._count_other(module)
            return
        if images.size != len(images) * PIXELS or len(self.calls) >= MAX_CALLS:
            self._count_other(module)
            return
        # There it comes without a backward pass.
        in_a_gradient = functorch.is_gradtrackingtensor(cast(torch.Tensor, output))
        call: dict[str, Json] = {
            "size": len(images),
            "device": str(cast(torch.Tensor, args[0]).device),
            "training": _is_training(module),
            # Of weights that ask for none, as those of a frozen copy, nothing is recorded.
            "grad": torch.is_grad_enabled() and (in_a_gradient or cast(torch.Tensor, output).requires_grad),
            "trained": in_a_gradient,
        }
        if self._compares:
            call["likeness"] = self._likeness(module)
        if self._watcher is not None:
            # Of what torch.func hands to a model the mode may have to be this one: batch norm writes to its buffers.
            call["modal"] = not call["trained"] and len(_modal(module)) > 0
            with temporarily_clear_interpreter_stack():
                self._watcher.note(call, module)
            call["dense"] = is_dense(module, cast(torch.Tensor, output))
        self.calls.append(call)
        if self._kept + len(images) <= MAX_ROWS:
            self._kept += len(images)
            self.rows.append(images.reshape(len(images), -1).astype(np.float32))
            self.logits.append(logits.astype(np.float32))
        if not call["trained"] and cast(torch.Tensor, output).requires_grad:
            self.graphs.expect(cast(torch.Tensor, output), lambda: self._passed_back(call, module))

    def _count_other(self, module: nn.Module) -> None:
        """Count a call that is not noted, unless it is of a loss or a metric: these have nothing to learn."""
        self.others += any(True for _ in module.parameters())

    def _passed_back(self, call: dict[str, Json], module: nn.Module) -> None:
        """Note that backward came through a call, and keep the weights that a model's first two were made with."""
        call["trained"] = True
        if self._watcher is not None:
            self._watcher.passed_back(call, module)
        if id(module) not in self._trained and len(self._trained) == MAX_TRAINED:
            return
        _, kept = self._trained.setdefault(id(module), (module, []))
        if len(kept) < 2:
            kept.append(self._weights(module))

    def _weights(self, module: nn.Module) -> list[Array]:
        found = [plain_tensor(self._home(unwrapped(weight.detach()))) for weight in module.parameters()]
        return [weight for weight in found if weight is not None]

    def _likeness(self, module: nn.Module) -> float | None:
        """The cosine between a network's weights and those of the trained one they are most like, before or now.

        None where no network of these shapes was trained, or more than are kept.
        """
        if not self._trained or len(self._trained) == MAX_TRAINED:
            return None
        if id(module) in self._trained:
            return 1.0  # itself
        own = self._weights(module)
        held = [one for model, kept in self._trained.values() for one in (kept[0], self._weights(model))]
        cosines = [_cosine(own, one) for one in held]
        return max((cosine for cosine in cosines if cosine is not None), default=None)

    def first_step(self) -> float | None:
        """The most that a weight moved from the first backward pass to the second; None where there were not two.

        Of several models, the one that moved least: others may be there to show how it is done.
        """
        moved = [
            max(float(np.abs(after - before).max()) for before, after in zip(*kept, strict=True))
            for _, kept in self._trained.values()
            if len(kept) == 2 and kept[0]
        ]
        return min(moved, default=None)

    def note_losses(self) -> None:
        """From now on note, at each call that a backward pass comes through, the loss that pass began at."""
        real = torch.autograd.backward

        def backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
            before = [call for call in self.calls if not call["trained"]]
            real(tensors, *args, **kwargs)
            for call in before:
                if call["trained"]:
                    call["loss"] = plain(self._home(tensors))
                    call["loss_device"] = _device_of_entropy(tensors)

        torch.autograd.backward = backward

    def values(self, prefix: str) -> dict[str, Json]:
        """The calls since the last time this was asked, with `arrays`."""
        return {f"{prefix}/calls": cast(Json, [dict(call) for call in self.calls])}

    def arrays(self, prefix: str) -> dict[str, Array | torch.Tensor]:
        """The rows and logits of the same calls."""
        rows = np.concatenate(self.rows) if self.rows else np.zeros((0, PIXELS), np.float32)
        logits = np.concatenate(self.logits) if self.logits else np.zeros((0, 10), np.float32)
        return {f"{prefix}/rows": rows, f"{prefix}/logits": logits}

    def restart(self) -> None:
        """Forget everything up to now."""
        self.rows, self.logits, self.calls, self._kept = [], [], [], 0


def _device_of_entropy(loss: object) -> str:
    """Where a cross-entropy was worked out; of what was made of it since, such as a copy elsewhere, nothing."""
    made_by = loss.grad_fn if isinstance(loss, torch.Tensor) else None
    is_entropy = made_by is not None and made_by.name().startswith("NllLoss")
    return str(cast(torch.Tensor, loss).device) if is_entropy else ""


def _is_training(model: nn.Module) -> bool:
    """Whether the layers for which it matters are in training mode; the model itself where it has none."""
    return any(layer.training for layer in _modal(model) or [model])


def _modal(model: nn.Module) -> list[nn.Module]:
    """The layers for which it matters."""
    return [m for m in model.modules() if isinstance(m, nn.Dropout | nn.modules.batchnorm._BatchNorm)]


def _cosine(own: list[Array], others: list[Array]) -> float | None:
    """Between two networks' matrices and filters: biases and norms begin alike in all networks."""
    if [weight.shape for weight in own] != [weight.shape for weight in others]:
        return None
    pairs = [(one.ravel(), other.ravel()) for one, other in zip(own, others, strict=True) if one.ndim > 1]
    product, square, other_square = (
        sum(float(np.dot(one, other)) for one, other in chosen)
        for chosen in (pairs, [(one, one) for one, _ in pairs], [(other, other) for _, other in pairs])
    )
    length = math.sqrt(square * other_square)
    return product / length if 0 < length < math.inf else None
