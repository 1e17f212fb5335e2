"""Calls the functions of `fashion_trainer.py` and records what reaches the model; it knows no right answer.

Where the judge asks for GPUs and there are none, everything happens on emulated ones: `torch.cuda` reports
them, tensors on them hold real values, and mixing devices raises what torch raises.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import torch
from torch import nn
from torch._C import _functorch as functorch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.utils.data import DataLoader, Dataset

from lockstep.sandbox.dataloaders import read_in_this_process
from lockstep.sandbox.gpus import gpus
from lockstep.sandbox.probing import OTHER_PROCESS, Inputs, Observation, Student, kind, plain, plain_tensor
from lockstep.wire import Array, Json

from .graphs import Graphs
from .layers import is_dense
from .weights import Weights
from .wrapped import unwrapped

MODULE = "fashion_trainer"
PIXELS = 28 * 28
MAX_ROWS = 5_000
MAX_CALLS = 2_000
MAX_TRAINED = 8
Home = Callable[[Any], Any]


class Pictures(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """The judge's pictures, (1, 28, 28), and their labels."""

    def __init__(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        self.images, self.labels = images, labels
        self.classes = [f"class {number}" for number in range(10)]

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        # Without this, a loop such as `for item in dataset` would never end.
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self.images[index], self.labels[index]


class Net(nn.Module):
    """One hidden layer, with batch norm and dropout where asked for."""

    def __init__(self, hidden: int, batch_norm: bool, dropout: float) -> None:
        super().__init__()
        self.first = nn.Linear(PIXELS, hidden)
        self.norm = nn.BatchNorm1d(hidden) if batch_norm else nn.Identity()
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()
        self.head = nn.Linear(hidden, 10)
        # Not hooks: model.forward(images) would go past them. A copy of the model tells of its calls, too.
        self.tell: list[Callable[[nn.Module, tuple[object, ...], object], None]] = []

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Pictures to logits, shape (batch, 10)."""
        hidden = torch.tanh(self.norm(self.first(images.flatten(1))))
        logits = cast(torch.Tensor, self.head(self.dropout(hidden)))
        for tell in self.tell:
            tell(self, (images,), logits)
        return logits


def build_model(shape: dict[str, Json], weights: dict[str, Array] | None = None) -> Net:
    """The network that `shape` describes, holding these parameters and buffers, if any."""
    model = Net(
        hidden=cast(int, shape["hidden"]),
        batch_norm=shape["batch_norm"] is True,
        dropout=cast(float, shape["dropout"]),
    )
    if weights is not None:
        model.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()})
    return model


def _model(inputs: Inputs) -> Net:
    return build_model(cast(dict[str, Json], inputs.values["shape"]), inputs.below("model"))


def _loader(inputs: Inputs, part: str) -> DataLoader[Any]:
    """The pictures in their order; the last batch may be a short one."""
    pictures = Pictures(inputs.tensor(f"{part}/images"), inputs.tensor(f"{part}/labels"))
    return DataLoader(pictures, batch_size=cast(int, inputs.values["batch_size"]))


@contextlib.contextmanager
def _machine(inputs: Inputs) -> Iterator[Home]:
    """A machine with as many GPUs as the judge asks for; gives what brings a tensor's values back to the CPU."""
    wanted = cast(int, inputs.values["gpus"])
    if not wanted:
        yield lambda value: value
        return
    from lockstep.sandbox.device import home

    def to_cpu(value: Any) -> Any:
        value = home(value)
        return value.cpu() if isinstance(value, torch.Tensor) else value

    with gpus(wanted):
        yield to_cpu


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
        # A function, not a method: with a copy of the model a method's recorder would be copied, too.
        model.tell.append(lambda module, args, output: self.called(module, args, output))

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


class Lab:
    """The student's functions, called the way their own `main` would."""

    def __init__(self, student: Student, inputs: Inputs, home: Home) -> None:
        self.student, self.inputs, self.home = student, inputs, home
        self.module = student.load(MODULE)
        self.device = torch.device(cast(str, inputs.values["device"]))

    def call(self, name: str, *args: object, shown: str, **kwargs: object) -> Any:
        """Call one of the contract's functions."""
        function = self.student.get(self.module, name)
        with self.student.calling(f"calling {name}({shown})"):
            return function(*args, **kwargs)

    def train(self, model: nn.Module, part: str, epochs: int, lr: Json = None) -> dict[str, Json]:
        """Train, with the judge's learning rate or another, and note what came back."""
        lr = self.inputs.values["lr"] if lr is None else lr
        shown = f"model, loader, {self.device}, epochs={epochs}, lr={lr}"
        loader = _loader(self.inputs, part)
        losses = self.call("train", model, loader, self.device, epochs=epochs, lr=lr, shown=shown)
        return {"losses": _numbers(losses, self.home), "losses_kind": kind(self.home(losses))}

    def evaluate(self, model: nn.Module, part: str) -> dict[str, Json]:
        """Evaluate, and note what came back."""
        shown = f"model, loader, {self.device}"
        value = self.call("evaluate", model, _loader(self.inputs, part), self.device, shown=shown)
        return {"accuracy": plain(self.home(value)), "accuracy_kind": kind(self.home(value))}

    def state(self, model: nn.Module, prefix: str) -> dict[str, Array | torch.Tensor]:
        """Parameters and buffers as they are now."""
        named = [*model.named_parameters(), *model.named_buffers()]
        return {f"{prefix}/{name}": self.home(value.detach()).clone() for name, value in named}


def _numbers(value: object, home: Home) -> Json:
    """The numbers in a list, a tuple, or a one-dimensional array or tensor; None for anything else."""
    if type(value) in (list, tuple):
        return [plain(home(one)) for one in cast(list[object], value)[:200]]
    array = value if type(value) is np.ndarray else plain_tensor(home(value))
    if array is None or array.ndim != 1 or array.dtype.kind not in "fiu":
        return None
    return [plain(float(one)) for one in array[:200]]


def _gradient_of_last_bias(model: Net) -> dict[str, list[Array]]:
    """At every backward pass: the last bias, its gradient of this pass, and what that was added to in `.grad`."""
    seen: dict[str, list[Array]] = {"bias": [], "fresh": [], "before": []}
    bias = model.head.bias
    stood = [np.zeros(10, np.float32)]

    def came(gradient: torch.Tensor) -> None:
        stood[0] = np.zeros(10, np.float32) if bias.grad is None else bias.grad.numpy().copy()
        if len(seen["bias"]) < MAX_CALLS:
            seen["bias"].append(bias.detach().numpy().copy())
            seen["fresh"].append(gradient.detach().numpy().copy())
            seen["before"].append(np.zeros(10, np.float32))

    def was_added(weight: torch.Tensor) -> None:
        # torch.autograd.grad hands the gradient out instead: whoever puts it into .grad replaces what was there.
        if len(seen["bias"]) < MAX_CALLS:
            seen["before"][-1] = stood[0]

    bias.register_hook(came)
    bias.register_post_accumulate_grad_hook(was_added)
    return seen


def train_and_evaluate(student: Student, inputs: Inputs) -> Observation:
    """train() a model that is on the device already, then evaluate() it on other pictures.

    Where the judge asks for it, train() a second one like the first with another learning rate, one epoch; what came
    back of that is noted as well.
    """
    with _machine(inputs) as home:
        lab = Lab(student, inputs, home)
        model = _model(inputs).to(lab.device)
        gradients = {} if inputs.values["gpus"] else _gradient_of_last_bias(model)
        recorder = Recorder(home)
        recorder.watch(model)
        recorder.note_losses()
        values = lab.train(model, "train", cast(int, inputs.values["epochs"]))
        values |= recorder.values("train") | {"graphs": recorder.graphs.most}
        arrays = recorder.arrays("train") | lab.state(model, "trained")
        if "small_lr" in inputs.values:
            # Before the evaluation: what training finds of that is for another check.
            second = _model(inputs).to(lab.device)
            values["losses_again"] = lab.train(second, "train", 1, inputs.values["small_lr"])["losses"]
            arrays |= lab.state(second, "barely")
        recorder.restart()
        values |= lab.evaluate(model, "test") | recorder.values("test")
        arrays |= recorder.arrays("test")
    arrays |= {name: np.stack(steps) for name, steps in gradients.items() if steps}
    return Observation(values, arrays)


def modes(student: Student, inputs: Inputs) -> Observation:
    """Two epochs of train(), evaluate() on a model in training mode, and train() once more after it."""
    with _machine(inputs) as home:
        lab = Lab(student, inputs, home)
        recorder = Recorder(home)
        first, second = _model(inputs).to(lab.device), _model(inputs).to(lab.device)
        recorder.watch(first)
        lab.train(first.train(), "train", 2)
        values = recorder.values("train")
        recorder.restart()
        recorder.watch(second)
        lab.evaluate(second.train(), "test")
        values |= recorder.values("test") | {"grad_after": torch.is_grad_enabled()}
        arrays = recorder.arrays("test") | lab.state(second, "evaluated")
        if torch.is_grad_enabled():
            recorder.restart()
            lab.train(second.eval(), "train", 1)
            values |= recorder.values("again")
    return Observation(values, arrays)


def ask_device(student: Student, inputs: Inputs) -> Observation:
    """What get_device() says on this machine."""
    with _machine(inputs):
        module = student.load(MODULE)
        function = student.get(module, "get_device")
        with student.calling("calling get_device()"):
            device = function()
    if type(device) is torch.device:
        return Observation({"device": str(device), "kind": "a torch.device"})
    return Observation({"device": plain(device), "kind": kind(device)})


def script(student: Student, inputs: Inputs) -> Observation:
    """Run the file as a script, after `--help` where asked for; which pictures reached its network, and how."""
    values: dict[str, Json] = {}
    with _machine(inputs) as home:
        weights = None if inputs.values["gpus"] else Weights()
        recorder = Recorder(home, compares=True, weights=weights)
        _watch_outermost(recorder)
        opened = _watch_opens(student.data)
        read_in_this_process()
        if inputs.values.get("help"):
            values["help"] = student.run_script(f"{MODULE}.py", ["--help"])
        values["status"] = student.run_script(f"{MODULE}.py", cast(list[str], inputs.values["arguments"]))
        values |= recorder.values("script") | {"first_step": recorder.first_step()}
        values |= {"other_calls": recorder.others, "opened": len(opened) > 0}
        if weights is not None:
            values["script/written"] = weights.written()
        arrays = recorder.arrays("script")
    values["report"] = _text_of(cast(str, inputs.values["report"]))
    return Observation(values, arrays)


def _watch_outermost(recorder: Recorder) -> None:
    """Record the calls of modules that no other module calls."""
    depth = [0]

    def before(module: nn.Module, args: object) -> None:
        depth[0] += 1

    def after(module: nn.Module, args: tuple[object, ...], *rest: Any) -> None:
        depth[0] -= 1
        # After a call that raised torch leaves the named arguments out.
        if depth[0] == 0 and len(rest) == 2:
            recorder.called(module, (*args, *rest[0].values()), rest[1])

    nn.modules.module.register_module_forward_pre_hook(before)
    # Also after a call that raises: a script may try whether its network takes a picture.
    nn.modules.module.register_module_forward_hook(after, with_kwargs=True, always_call=True)


def _watch_opens(folder: str) -> list[str]:
    """Grows when a file in `folder` is opened, or another process started, which may do so."""
    opened: list[str] = []
    inside = f"{os.path.realpath(folder)}{os.sep}"

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if opened:
            return
        if event in OTHER_PROCESS:
            opened.append(event)
        elif event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
            # Not every name is one that a file can have.
            with contextlib.suppress(ValueError, OSError):
                path = os.path.realpath(os.fsdecode(arguments[0]))
                if path.startswith(inside):
                    opened.append(path)

    sys.addaudithook(hook)
    return opened


def _text_of(path: str) -> str | None:
    if not os.path.isfile(path) or os.path.getsize(path) > 1 << 20:
        return None
    with open(path, "rb") as file:
        return file.read().decode("utf-8", "replace")
