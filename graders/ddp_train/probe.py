"""Calls the functions of `ddp_train.py` on every rank and records what they do; it knows no right answer.

What a rank records is its own: which rows reached the model, which gradients the optimizer saw, which
values came back. The judge compares the ranks with one another and with a training of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import copy
import hashlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Container
from typing import Any, cast

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import DataLoader, Dataset

from lockstep.sandbox.device import Machine, home
from lockstep.sandbox.gpus import gpus
from lockstep.sandbox.probing import (
    CommandResult,
    Inputs,
    Observation,
    Student,
    StudentMistake,
    kind,
    plain,
    plain_tensor,
)
from lockstep.wire import Array, Json

MODULE = "ddp_train"
CHECKPOINT = "checkpoint-of-a-check.pt"  # a name that nobody writes out
FIRST_STEPS = range(4)
# Of this group alone, as its port is. Looked up before student code can change it. An address that nobody else takes:
# students' ranks meet at 127.0.0.1, and the ports given out for connections are higher.
MEETING = ("127.0.0.2", int(os.environ.get("MASTER_PORT", "29500")) - 9000)
MAX_ROWS = 20_000
SIDE_SECONDS = 10.0


class Rows(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """The judge's images and labels; item number `broken` cannot be read."""

    def __init__(self, images: torch.Tensor, labels: torch.Tensor, broken: int | None = None) -> None:
        self.images, self.labels, self.broken = images, labels, broken
        self.classes = [f"class {number}" for number in range(10)]

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        if index == self.broken:
            raise InjectedFault("this item cannot be read (put there by the check)")
        # Without this, a loop such as `for item in dataset` would never end.
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self.images[index], self.labels[index]


class InjectedFault(Exception):
    """What the check puts in the way of one rank."""


class Net(nn.Module):
    """Two shared weights, a frozen layer, a buffer, and batch norm and dropout where asked for."""

    def __init__(self, features: int, hidden: int, classes: int, batch_norm: bool, dropout: float) -> None:
        super().__init__()
        self.first = nn.Linear(features, hidden)
        self.middle = nn.Linear(hidden, hidden)
        self.again = nn.Linear(hidden, hidden, bias=False)
        self.again.weight = self.middle.weight
        self.frozen = nn.Linear(hidden, hidden)
        self.frozen.requires_grad_(False)
        self.norm = nn.BatchNorm1d(hidden) if batch_norm else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(hidden, classes)
        self.scale = nn.Buffer(torch.ones(hidden))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Images to logits, shape (batch, classes)."""
        hidden = torch.tanh(self.first(images.flatten(1)))
        hidden = torch.tanh(self.middle(hidden)) * self.scale
        hidden = self.norm(torch.tanh(self.again(hidden)) + self.frozen(hidden))
        return cast(torch.Tensor, self.head(self.dropout(hidden)))


def build_model(shape: dict[str, Json], weights: dict[str, Array] | None = None) -> Net:
    """The network that `shape` describes, holding these parameters and buffers, if any."""
    model = Net(
        features=cast(int, shape["features"]),
        hidden=cast(int, shape["hidden"]),
        classes=cast(int, shape["classes"]),
        batch_norm=shape["batch_norm"] is True,
        dropout=cast(float, shape["dropout"]),
    )
    if weights is not None:
        model.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()})
    return model


def _model(inputs: Inputs) -> Net:
    prefix = "model/"
    weights = {name[len(prefix) :]: a for name, a in inputs.arrays.items() if name.startswith(prefix)}
    return build_model(cast(dict[str, Json], inputs.values["shape"]), weights)


def _data(inputs: Inputs) -> Rows:
    broken = inputs.values.get("broken")
    return Rows(inputs.tensor("images"), inputs.tensor("labels"), broken if isinstance(broken, int) else None)


class Lab:
    """The student's functions, called the way their own `main` would."""

    def __init__(self, student: Student) -> None:
        self.student = student
        self.module = student.load(MODULE)
        self.device: Any = None

    def call(self, name: str, *args: object, shown: str = "...", **kwargs: object) -> Any:
        """Call one of the contract's functions."""
        function = self.student.get(self.module, name)
        with self.student.calling(f"calling {name}({shown})"):
            return function(*args, **kwargs)

    def setup(self) -> Any:
        """Join the group."""
        self.device = self.call("setup", shown="")
        return self.device

    def wrap(self, model: nn.Module) -> nn.Module:
        """Wrap a model, and insist on getting a module back."""
        wrapped = self.call("wrap_model", model, self.device, shown="model, device")
        if not isinstance(wrapped, nn.Module):
            self.student.phase = "calling wrap_model(model, device)"
            raise StudentMistake(f"wrap_model returned {kind(wrapped)} instead of the wrapped model")
        return wrapped

    def loader(self, dataset: Dataset[Any], batch_size: int, **options: int) -> Any:
        """Make a loader; what is not among the options is left to its default."""
        shown = ", ".join(
            ["dataset", str(batch_size), *(f"{name}={value}" for name, value in options.items())]
        )
        return self.call("make_loader", dataset, batch_size, shown=shown, **options)


def _named(model: nn.Module) -> list[tuple[str, torch.Tensor]]:
    return [(name.removeprefix("module."), value) for name, value in model.named_parameters()]


def _state(model: nn.Module, prefix: str) -> dict[str, Array | torch.Tensor]:
    values = {f"{prefix}/{name}": value for name, value in _named(model)}
    values |= {f"{prefix}/{name.removeprefix('module.')}": value for name, value in model.named_buffers()}
    return {name: value.detach().clone() for name, value in values.items()}


class Recorder:
    """What reached the model and the optimizer on this rank, in order."""

    def __init__(self, model: nn.Module) -> None:
        self.rows: list[Array] = []
        self.sizes: list[int] = []
        self.steps: list[int] = []
        self.gradients: dict[str, torch.Tensor] = {}
        # A function, not a method: with a copy of the model a method's recorder would be copied, too.
        model.register_forward_pre_hook(lambda _, args: self._fed(args))

    def _fed(self, args: tuple[object, ...]) -> None:
        batch = plain_tensor(home(args[0])) if args else None
        if batch is not None and batch.ndim >= 2 and sum(self.sizes) < MAX_ROWS:
            self.rows.append(batch.reshape(len(batch), -1))
            self.sizes.append(len(batch))

    def watch(
        self, optimizer: torch.optim.Optimizer, model: nn.Module, gradients_of: Container[int] = FIRST_STEPS
    ) -> None:
        """Note, at each step of the optimizer, how many batches came before it, and at some the gradients it used."""
        named = [(name, value) for name, value in _named(model) if value.requires_grad]

        # After the step, because `optimizer.step(closure)` computes the gradients within.
        def after_step(*_: object) -> None:
            if len(self.steps) in gradients_of:
                for name, value in named:
                    if value.grad is not None:
                        self.gradients[f"grad{len(self.steps)}/{name}"] = home(value.grad.detach().clone())
            self.steps.append(len(self.sizes))

        optimizer.register_step_post_hook(after_step)

    def arrays(self) -> dict[str, Array | torch.Tensor]:
        """The rows, one after the other, and the gradients."""
        rows = np.concatenate(self.rows) if self.rows else np.zeros((0, 1), np.float32)
        return {"rows": rows, **self.gradients}

    def values(self) -> dict[str, Json]:
        """The sizes of the batches, and how many batches came before each step."""
        return {"sizes": list(self.sizes), "steps": list(self.steps)}


def _optimizer(inputs: Inputs, model: nn.Module) -> torch.optim.SGD:
    parameters = [value for value in model.parameters() if value.requires_grad]
    lr, momentum = cast(float, inputs.values["lr"]), cast(float, inputs.values["momentum"])
    return torch.optim.SGD(parameters, lr=lr, momentum=momentum)


def _seed(inputs: Inputs) -> int:
    return cast(int, inputs.values["seed"])


def _training_loader(lab: Lab, inputs: Inputs) -> Any:
    batch_size = cast(int, inputs.values["batch_size"])
    shuffle = {} if inputs.values.get("by_default") else {"shuffle": True}
    return lab.loader(_data(inputs), batch_size, **shuffle, seed=_seed(inputs))


def _cleanup(lab: Lab, inputs: Inputs) -> None:
    """Leave the group in good order; whether cleanup does that is one check's business alone."""
    if dist.is_initialized():
        _wait_for_all(lab.student, inputs)
        lab.call("cleanup", shown="")


def _wait_for_all(student: Student, inputs: Inputs) -> None:
    """A rank that is through early would close its connections while a slow one still makes them.

    They meet at a socket: a barrier could be mistaken for one that the student's other ranks still wait in.
    """
    with student.calling("waiting for all ranks before cleanup()"), socket.socket() as end:
        if inputs.rank == 0:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            end.bind(MEETING)
            end.listen(inputs.world_size)
            # Held until the last one is here; then all are let go at once.
            others = [end.accept()[0] for _ in range(inputs.world_size - 1)]
            for other in others:
                other.close()
            return
        while end.connect_ex(MEETING):
            time.sleep(0.001)
        end.recv(1)


def join(student: Student, inputs: Inputs) -> Observation:
    """setup(), then one collective of each rank's own number: only a group that works can add them up."""
    with _machine(inputs) as machine:
        return _join(student, inputs, machine)


def _machine(inputs: Inputs) -> contextlib.AbstractContextManager[Machine | None]:
    """The GPUs that the judge wants this process to have, if any."""
    count = inputs.values.get("gpus")
    return gpus(cast(int, count)) if count else contextlib.nullcontext()


def _join(student: Student, inputs: Inputs, machine: Machine | None) -> Observation:
    lab = Lab(student)
    chosen: dict[str, str] = {}
    if "meeting" in inputs.values:
        # A file of this run alone: what an earlier one left in it would be taken for its ranks.
        meeting = os.path.join(tempfile.gettempdir(), str(inputs.values["meeting"]))
        chosen["init_method"] = f"file://{meeting}"
    if "backend" in inputs.values:
        chosen["backend"] = str(inputs.values["backend"])
    shown = ", ".join(f"{name}={value!r}" for name, value in chosen.items())
    device = lab.call("setup", shown=shown, **chosen)
    values: dict[str, Json] = {"device": _device(device), "initialized": dist.is_initialized()}
    if dist.is_initialized():
        total = inputs.tensor("number")
        if _backend() == "nccl":
            total = total.cuda()
        with student.calling("adding up one number of each rank after setup()"):
            dist.all_reduce(total)
        values |= {
            "rank": dist.get_rank(),
            "world_size": dist.get_world_size(),
            # gloo stands in for nccl on emulated GPUs.
            "backend": "nccl" if machine is not None and machine.nccl_asked_for else _backend(),
        }
        return Observation(values, {"total": total.cpu()})
    return Observation(values)


def _backend() -> str:
    """The backend of the group; where it was left to torch, the one that torch took for this machine."""
    name = str(dist.get_backend())
    if name != dist.Backend.UNDEFINED:
        return name
    chosen = dict(pair.split(":") for pair in str(dist.get_backend_config()).split(","))
    return chosen.get("cuda" if torch.cuda.is_available() else "cpu", name)


def _device(device: object) -> Json:
    """`cuda:1` for a device or its name; a plain `cuda` means the one that was made the current one."""
    if type(device) is torch.device:
        device = str(device)
    if type(device) is not str:
        return {"type": kind(device)}
    if device == "cuda":
        return f"cuda:{torch.cuda.current_device()}"
    return device


def start(student: Student, inputs: Inputs) -> Observation:
    """Wrap a model that this rank initialised in its own way; report what it holds then."""
    lab = Lab(student)
    lab.setup()
    model = _model(inputs)
    wrapped = lab.wrap(model)
    arrays = _state(wrapped, "held")
    _cleanup(lab, inputs)
    return Observation({"own_buffers": getattr(wrapped, "broadcast_buffers", None) is False}, arrays)


def train(student: Student, inputs: Inputs) -> Observation:
    """Whole epochs of train_one_epoch on this rank's data set."""
    torch.manual_seed(cast(int, inputs.values["rank_seed"]))
    lab = Lab(student)
    lab.setup()
    model = _model(inputs)
    recorder = Recorder(model)
    if inputs.values.get("optimizer_first"):
        # As many scripts do; wrapping keeps the parameters the same objects.
        optimizer = _optimizer(inputs, model)
        wrapped = lab.wrap(model)
    else:
        wrapped = lab.wrap(model)
        optimizer = _optimizer(inputs, wrapped)
    recorder.watch(optimizer, wrapped, cast(list[int], inputs.values.get("gradients_of", list(FIRST_STEPS))))
    loader = _training_loader(lab, inputs)
    losses, boundaries = [], []
    criterion = nn.CrossEntropyLoss(label_smoothing=cast(float, inputs.values.get("smoothing", 0.0)))
    for epoch in cast(list[int], inputs.values["epochs"]):
        losses.append(_epoch(lab, wrapped, loader, optimizer, epoch, criterion))
        boundaries.append(len(recorder.sizes))
        if inputs.values.get("halving"):
            _halve(model)
    arrays = {**recorder.arrays(), **_state(wrapped, "final")}
    _cleanup(lab, inputs)
    return Observation({**recorder.values(), "losses": losses, "boundaries": cast(Json, boundaries)}, arrays)


def _halve(model: nn.Module) -> None:
    """Give the model other weights, the same on every rank, as a training does that goes on."""
    with torch.no_grad():
        for value in model.parameters():
            value.mul_(0.5)


def _epoch(
    lab: Lab,
    model: nn.Module,
    loader: Any,
    optimizer: torch.optim.Optimizer,
    epoch: int,
    criterion: nn.Module | None = None,
) -> Json:
    try:
        loss = lab.call(
            "train_one_epoch", model, loader, optimizer, criterion or nn.CrossEntropyLoss(), lab.device, epoch,
            shown=f"..., epoch={epoch}",
        )  # fmt: skip
    except Exception as error:
        if _is_of_an_injected(error):
            lab.student.watch.note("met")
        raise
    return plain(loss)


def _is_of_an_injected(error: BaseException) -> bool:
    """Whether an exception is what the check put in the way, or another that was raised because of it."""
    chain: BaseException | None = error
    for _ in range(10):
        if chain is None or isinstance(chain, InjectedFault):
            break
        chain = chain.__cause__ or chain.__context__
    return isinstance(chain, InjectedFault)


def shares(student: Student, inputs: Inputs) -> Observation:
    """Every item that one pass over make_loader's loader gives this rank."""
    torch.manual_seed(cast(int, inputs.values["rank_seed"]))
    lab = Lab(student)
    lab.setup()
    loader = _training_loader(lab, inputs)
    sizes, rows = _pass(lab, loader)
    kept = _items_kept(lab, inputs)
    _cleanup(lab, inputs)
    return Observation({"sizes": cast(Json, sizes), "kept": kept}, {"rows": rows})


def _items_kept(lab: Lab, inputs: Inputs) -> int | None:
    """How many items a loader made with drop_last=True gives this rank; None where there is no such loader."""
    try:
        loader = lab.loader(_data(inputs), cast(int, inputs.values["batch_size"]), drop_last=True)
        return sum(_pass(lab, loader)[0])
    except Exception:
        return None


def _pass(lab: Lab, loader: Any) -> tuple[list[int], Array]:
    """The sizes of a loader's batches, and their images one after the other."""
    rows: list[Array] = []
    with lab.student.calling("iterating over the loader of make_loader(dataset, batch_size)"):
        for batch in loader:
            images = plain_tensor(batch[0] if isinstance(batch, list | tuple) else batch)
            if images is None or images.ndim < 2:
                raise StudentMistake(
                    f"the loader gives {kind(batch)} instead of a batch of images and labels"
                )
            rows.append(images.reshape(len(images), -1))
    return [len(row) for row in rows], np.concatenate(rows) if rows else np.zeros((0, 1), np.float32)


def accuracy(student: Student, inputs: Inputs) -> Observation:
    """evaluate() over loaders of make_loader(shuffle=False), of a model that was just being trained.

    The second has the first of the images, with other labels.
    """
    with _machine(inputs):
        return _accuracy(student, inputs)


def _accuracy(student: Student, inputs: Inputs) -> Observation:
    lab = Lab(student)
    lab.setup()
    wrapped = lab.wrap(_model(inputs))
    wrapped.train()
    batch_size = cast(int, inputs.values["batch_size"])
    results = []
    images = inputs.tensor("images")
    for labels in (inputs.tensor("labels"), inputs.tensor("again")):
        dataset = Rows(images[: len(labels)], labels)
        loader = lab.loader(dataset, batch_size, shuffle=False, seed=_seed(inputs))
        seen = lab.call("evaluate", wrapped, loader, lab.device, shown="model, loader, device")
        results.append(plain(home(seen)))
    orders = [
        _pass(lab, lab.loader(_data(inputs), batch_size, shuffle=False, seed=_seed(inputs) + more))[1]
        for more in (0, 1)
    ]
    _cleanup(lab, inputs)
    return Observation(
        {"accuracy": results[0], "again": results[1]}, {"order0": orders[0], "order1": orders[1]}
    )


def save(student: Student, inputs: Inputs) -> Observation:
    """Twice an epoch of training and save_checkpoint; who opened the file to write, and what is in it then."""
    lab = Lab(student)
    lab.setup()
    model = _model(inputs)
    recorder = Recorder(model)
    wrapped = lab.wrap(model)
    optimizer = _optimizer(inputs, wrapped)
    recorder.watch(optimizer, wrapped)
    loader = _training_loader(lab, inputs)
    last = cast(int, inputs.values["epoch"])
    _slow_down_saving(inputs)

    def saved(epoch: int) -> str:
        lab.call("save_checkpoint", wrapped, optimizer, epoch, CHECKPOINT, shown=f"..., epoch={epoch}, path")
        return _fingerprint(CHECKPOINT)

    _epoch(lab, wrapped, loader, optimizer, last - 1)
    first = saved(last - 1)
    _epoch(lab, wrapped, loader, optimizer, last)
    written, renamed = _note_writes()
    second = saved(last)
    wrote = [
        name for name in written if os.path.basename(name).startswith(("checkpoint", ".checkpoint", "tmp"))
    ]
    wrote += [name for name in renamed if name == CHECKPOINT]
    values: dict[str, Json] = {
        **recorder.values(), "first": first, "second": second, "wrote": cast(Json, wrote[:10]),
        "direct": CHECKPOINT in written,
    }  # fmt: skip
    arrays = {**recorder.arrays(), **_state(wrapped, "held")}
    if inputs.rank == 0 and second:
        with open(CHECKPOINT, "rb") as file:
            arrays["checkpoint"] = np.frombuffer(file.read(), dtype=np.uint8)
        with student.calling("reading the checkpoint back"):
            tensors = _named_tensors(torch.load(CHECKPOINT, weights_only=False))
        values["keys"] = [name for name, _ in tensors[:1000]]
    _cleanup(lab, inputs)
    return Observation(values, arrays)


def _fingerprint(path: str) -> str:
    """What tells a file from one with another content; nothing where there is none."""
    if not os.path.isfile(path):
        return ""
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def _note_writes() -> tuple[list[str], list[str]]:
    """Files this process opens for writing from now on, and those that it renames another to.

    They are named relative to the folder where they are in it.
    """
    written: list[str] = []
    renamed: list[str] = []
    work = os.getcwd()

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(args[0], str | bytes | os.PathLike) and len(written) < 100:
            mode, flags = args[1], args[2]
            writes = (
                any(c in mode for c in "wax+") if isinstance(mode, str) else flags & (os.O_WRONLY | os.O_RDWR)
            )
            if writes:
                written.append(os.path.relpath(os.path.join(work, os.fsdecode(args[0])), work))
        elif event == "os.rename" and len(renamed) < 100:
            renamed.append(os.path.relpath(os.path.join(work, os.fsdecode(args[1])), work))

    sys.addaudithook(hook)
    # torch.save opens its file in C++, which no audit hook sees; by whatever name it was imported, it comes by here.
    original = torch.serialization._open_zipfile_writer

    def open_noted(name_or_buffer: Any) -> Any:
        if isinstance(name_or_buffer, str):
            written.append(os.path.relpath(os.path.join(work, name_or_buffer), work))
        return original(name_or_buffer)

    torch.serialization._open_zipfile_writer = open_noted
    return written, renamed


def _slow_down_saving(inputs: Inputs) -> None:
    """Give the ranks that do not wait for rank 0's file time to show it."""
    if inputs.rank != 0 or inputs.world_size == 1:
        return
    for name in ("_open_zipfile_writer", "_legacy_save"):
        setattr(torch.serialization, name, _late(getattr(torch.serialization, name)))


def _late(original: Callable[..., Any]) -> Callable[..., Any]:
    def late(*args: Any, **kwargs: Any) -> Any:
        time.sleep(0.25)
        return original(*args, **kwargs)

    return late


def _named_tensors(value: object, depth: int = 0) -> list[tuple[str, torch.Tensor]]:
    """Tensors and arrays in a checkpoint by name, but not those of the optimizer's state whose names are numbers."""
    if isinstance(value, list | tuple):
        named = bool(value) and all(
            isinstance(item, list | tuple) and len(item) == 2 and isinstance(item[0], str) for item in value
        )
        value = dict(value if named else enumerate(value))
    if not isinstance(value, dict) or depth > 4:
        return []
    found: list[tuple[str, torch.Tensor]] = []
    for name, item in value.items():
        if isinstance(item, np.ndarray) and item.dtype.kind in "iuf":
            item = torch.from_numpy(item)
        if isinstance(item, torch.Tensor) and isinstance(name, str):
            found.append((name[:200], item))
        found += _named_tensors(item, depth + 1)
    return found


def resume(student: Student, inputs: Inputs) -> Observation:
    """load_checkpoint into a fresh model and optimizer, then train on."""
    lab = Lab(student)
    lab.setup()
    model = _model(inputs)
    recorder = Recorder(model)
    wrapped = lab.wrap(model)
    optimizer = _optimizer(inputs, wrapped)
    before = copy.deepcopy(optimizer.state_dict())

    def load(model: nn.Module) -> Any:
        return lab.call("load_checkpoint", model, optimizer, CHECKPOINT, shown="model, optimizer, path")

    try:
        epoch = load(wrapped)
    except RuntimeError:
        # Loading before wrapping is as good; a file with plain keys then fits the inner model alone.
        optimizer.load_state_dict(before)
        epoch = load(getattr(wrapped, "module", wrapped))
    # From here on: to load a state, torch.distributed.checkpoint makes one first, by a step that changes nothing.
    recorder.watch(optimizer, wrapped)
    held = _state(wrapped, "held")
    if inputs.world_size > 1:
        held |= _momentum(optimizer, wrapped)
    loader = _training_loader(lab, inputs)
    _epoch(lab, wrapped, loader, optimizer, cast(int, inputs.values["epoch"]) + 1)
    arrays = {**recorder.arrays(), **held, **_state(wrapped, "final")}
    _cleanup(lab, inputs)
    return Observation({**recorder.values(), "epoch": plain(epoch)}, arrays)


def _momentum(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Array | torch.Tensor]:
    states = {name: optimizer.state.get(value, {}) for name, value in _named(model)}
    kept = {name: state.get("momentum_buffer") for name, state in states.items()}
    return {f"momentum/{name}": v.detach().clone() for name, v in kept.items() if isinstance(v, torch.Tensor)}


def tidy(student: Student, inputs: Inputs) -> Observation:
    """setup(), a little work, cleanup(): what is left?"""
    lab = Lab(student)
    lab.setup()
    was = dist.is_initialized()
    wrapped = lab.wrap(_model(inputs))
    wrapped(inputs.tensor("images")).sum().backward()
    _wait_for_all(student, inputs)
    lab.call("cleanup", shown="")
    return Observation({"was": was, "is": dist.is_initialized()})


def script_ends(student: Student, inputs: Inputs) -> Observation:
    """Run the script to its end; whether it is still in its group then."""
    joined: set[bool] = set()

    def note(*_: object) -> None:
        joined.add(dist.is_initialized())

    register_module_forward_pre_hook(note)
    register_optimizer_step_pre_hook(cast(Callable[..., None], note))
    _run_script(student, inputs)
    with student.calling("ending as Python does at its end"):
        atexit._run_exitfuncs()
    return Observation({"was": any(joined), "is": dist.is_initialized()})


def alone(student: Student, inputs: Inputs) -> Observation:
    """Everything once, in one process that torchrun did not start, with a model as `evaluate` leaves it."""
    with _machine(inputs):
        return _alone(student, inputs)


def _alone(student: Student, inputs: Inputs) -> Observation:
    lab = Lab(student)
    lab.setup()
    model = _model(inputs)
    recorder = Recorder(model)
    wrapped = lab.wrap(model)
    optimizer = _optimizer(inputs, wrapped)
    recorder.watch(optimizer, wrapped)
    trains: list[bool] = []
    optimizer.register_step_pre_hook(lambda *_: trains.append(_trains(wrapped)))
    wrapped.eval()
    batch_size = cast(int, inputs.values["batch_size"])
    dataset = _data(inputs)
    loader = lab.loader(dataset, batch_size, shuffle=True, seed=_seed(inputs))
    loss = _epoch(lab, wrapped, loader, optimizer, cast(int, inputs.values["epoch"]))
    seen = recorder.values(), recorder.arrays()
    evaluation = lab.loader(dataset, batch_size, shuffle=False, seed=_seed(inputs))
    result = plain(lab.call("evaluate", wrapped, evaluation, lab.device, shown="model, loader, device"))
    values = {**seen[0], "loss": loss, "accuracy": result, "trains": any(trains)}
    arrays = {**seen[1], **_state(wrapped, "final")}
    _cleanup(lab, inputs)
    return Observation(values, arrays)


def _trains(model: nn.Module) -> bool:
    """Whether any part of it is in training mode: some leave their batch norms out."""
    return any(part.training for part in model.modules())


def _run_script(student: Student, inputs: Inputs) -> int:
    """Run the script with the judge's arguments, on a smaller network than it asks for; its exit status."""
    _smaller_resnet()
    return student.run_script("ddp_train.py", _arguments(inputs))


def _arguments(inputs: Inputs) -> list[str]:
    return cast(list[str], inputs.values["arguments"])


def _smaller_resnet() -> None:
    """Let `resnet18()` build one block a stage instead of two: what these checks look at is not its size."""
    from torchvision import models
    from torchvision.models import resnet

    def smaller(*, weights: object = None, progress: bool = True, **kwargs: Any) -> resnet.ResNet:
        return resnet.ResNet(resnet.BasicBlock, [1, 1, 1, 1], **kwargs)

    models.resnet18 = resnet.resnet18 = smaller


class _SeenEnough(BaseException):
    """Ends a script once the check has seen what it came for."""


def first_lr(student: Student, inputs: Inputs) -> Observation:
    """Run the script for some optimizer steps; the learning rate of the first group of parameters in each of them."""
    seen: list[Json] = []
    steps = cast(int, inputs.values["steps"])

    def before_step(optimizer: torch.optim.Optimizer, *_: object) -> None:
        seen.append(plain(optimizer.param_groups[0]["lr"]))
        if len(seen) == steps:
            raise _SeenEnough

    register_optimizer_step_pre_hook(cast(Callable[..., None], before_step))
    try:
        _run_script(student, inputs)
    except _SeenEnough:
        student.phase = ""
    return Observation({"lr": cast(Json, seen)})


def orders(student: Student, inputs: Inputs) -> Observation:
    """Run the script for some epochs: in which order it reads the training images, in which mode the model learns."""
    from torchvision.models.resnet import ResNet

    order: list[int] = []
    models: list[nn.Module] = []
    trains: list[bool] = []

    def before_forward(module: nn.Module, _: object) -> None:
        if isinstance(module, ResNet):
            models[:] = [module]

    def before_step(*_: object) -> None:
        trains.extend(map(_trains, models))

    register_module_forward_pre_hook(before_forward)
    register_optimizer_step_pre_hook(cast(Callable[..., None], before_step))

    def note(index: int) -> None:
        if len(order) < MAX_ROWS:
            order.append(index)

    _before_each_image(note)
    _run_script(student, inputs)
    return Observation({"order": cast(Json, order), "trains": cast(Json, trains[-1:])})


def together(student: Student, inputs: Inputs) -> Observation:
    """Run the script: which batches its first steps are made of, and what a layer of the network holds after each."""
    from torchvision.models.resnet import ResNet

    batches: list[str] = []
    latest: list[str] = []
    gradients: list[bool] = []
    arrays: dict[str, Array | torch.Tensor] = {}

    # A step is looked at when the network is called again: whatever belongs to it has been done by then.
    def before_forward(module: nn.Module, args: tuple[object, ...]) -> None:
        if not isinstance(module, ResNet) or len(gradients) > len(FIRST_STEPS):
            return
        layer = [value for value in module.parameters() if value.requires_grad][-1:]
        if layer:
            arrays.setdefault(f"after{len(gradients)}", layer[0].detach().flatten()[:100].clone())
        images = plain_tensor(home(args[0])) if args else None
        if images is not None and torch.is_grad_enabled():
            latest[:] = [hashlib.sha256(images.tobytes()).hexdigest()]

    # After the step, because `optimizer.step(closure)` and an optimizer of one's own average within.
    def after_step(optimizer: torch.optim.Optimizer, *_: object) -> None:
        batches.extend(latest if len(gradients) < len(FIRST_STEPS) else [])
        latest.clear()
        gradients.append(any(v.grad is not None for group in optimizer.param_groups for v in group["params"]))

    register_module_forward_pre_hook(before_forward)
    register_optimizer_step_post_hook(cast(Callable[..., None], after_step))
    _run_script(student, inputs)
    return Observation({"batches": cast(Json, batches), "gradients": any(gradients)}, arrays)


def broken(student: Student, inputs: Inputs) -> Observation:
    """Run the script on training images of which one cannot be read, by whichever rank comes to it."""
    met: list[int] = []

    def fail(index: int) -> None:
        if index == inputs.values["broken"]:
            met.append(index)
            student.watch.note("met")
            raise InjectedFault("this image cannot be read (put there by the check)")

    def after_step(*_: object) -> None:
        if met:
            student.watch.note("went_on")

    _before_each_image(fail)
    register_optimizer_step_post_hook(cast(Callable[..., None], after_step))
    status = _run_script(student, inputs)
    return Observation({"status": status})


def _before_each_image(do: Callable[[int], None]) -> None:
    """Let something be done with the number of each training image before it is read, in this process."""
    from torchvision import datasets

    original = datasets.CIFAR10.__getitem__

    def read(self: datasets.CIFAR10, index: int) -> tuple[Any, Any]:
        if self.train:
            do(int(index))
        return original(self, index)

    datasets.CIFAR10.__getitem__ = read  # type: ignore[method-assign]
    DataLoader.__init__ = _without_workers(DataLoader.__init__)  # type: ignore[method-assign]


def _without_workers(original: Callable[..., None]) -> Callable[..., None]:
    """Read in this process, where reading can be noted; which items are read does not depend on it."""

    def init(self: object, *args: Any, **kwargs: Any) -> None:
        for name in ("num_workers", "persistent_workers", "prefetch_factor", "multiprocessing_context"):
            kwargs.pop(name, None)
        original(self, *args, **kwargs)

    return init


def launch(student: Student, inputs: Inputs) -> Observation:
    """`./ddp_train.sh` with two processes; what it leaves behind."""
    # One that was handed in tells of another run.
    with contextlib.suppress(OSError):
        os.remove("reports/ddp.json")
    before = set(_files())
    executable = os.access("ddp_train.sh", os.X_OK)
    if not os.path.exists("ddp_train.sh"):
        student.phase = "looking for ddp_train.sh"
        raise StudentMistake("there is no ddp_train.sh in the submission")
    command = ["./ddp_train.sh"] if executable else ["bash", "ddp_train.sh"]
    result = student.run_command(
        [*command, *_arguments(inputs)],
        cast(dict[str, str], inputs.values["environment"]),
    )
    new = sorted(set(_files()) - before)[:200]
    report: str | None = None
    if os.path.isfile("reports/ddp.json") and os.path.getsize("reports/ddp.json") < 1 << 20:
        with open("reports/ddp.json", "rb") as file:
            report = file.read().decode("utf-8", "replace")
    files = {name: _tensors_in(name) for name in new if name.endswith((".pt", ".pth", ".ckpt", ".tar"))}
    # Beside the network there may be the state of a scheduler or of random numbers; of epochs the last counts.
    resuming = max(files, key=lambda name: (len(dict(files[name])), os.path.getmtime(name)), default=None)
    tensors = files[resuming] if resuming else []
    counts = [int(value) for named in files.values() for name, value in named if _counts_batches(name, value)]
    asked = unasked = resumed = None
    went_on: Json = None
    if result.status == 0:
        # First, because a script may begin with a clean folder.
        if resuming:
            resumed, went_on = _resumed(student, inputs, resuming)
        words = cast(list[str], inputs.values["words"])
        asked = _what_torchrun_is_told(
            student, [*command, *words], cast(dict[str, str], inputs.values["other"])
        )
        unasked = _what_torchrun_is_told(student, command, {})
    return Observation(
        {
            "asked": asked,
            "unasked": unasked,
            "resumed": resumed,
            "went_on": went_on,
            "executable": executable,
            "status": result.status,
            "output": result.output[-6000:],
            "report": report,
            "keys": [name for name, _ in tensors[:500]],
            "outputs": cast(Json, sorted({len(value) for _, value in tensors if value.ndim == 2})[:500]),
            "batches": max(counts, default=None),
        }
    )


def _tensors_in(name: str) -> list[tuple[str, torch.Tensor]]:
    """The tensors in a file by name; none where torch does not read it."""
    try:
        return _named_tensors(torch.load(name, weights_only=False, map_location="cpu"))
    except Exception:
        return []


def _counts_batches(name: str, value: torch.Tensor) -> bool:
    """Whether it is where a BatchNorm counts the batches that it was trained on."""
    return name.endswith("num_batches_tracked") and value.ndim == 0 and not value.is_floating_point()


def _resumed(student: Student, inputs: Inputs, checkpoint: str) -> tuple[str | None, Json]:
    """Run `python ddp_train.py --resume` for one epoch more: how it ends where it fails, and what came of it elsewhere.

    That is whether a file was written, and how many batches the checkpoint tells of before and after.
    """
    further = cast(list[str], inputs.values["further"])
    command = [
        "python", "ddp_train.py", *_arguments(inputs), *further, "--checkpoint", checkpoint, "--resume",
        # Whoever keeps the best checkpoint only writes this one at least.
        "--report", "reports/resumed.json",
    ]  # fmt: skip
    files, before = _versions(), _batches_in(checkpoint)
    result = _within_seconds(student, command, {})
    if result is None:
        return None, None
    if result.status != 0:
        # torch lists every name that it misses, on one line.
        return "\n".join(line[:200] for line in result.output.splitlines()[-20:]), None
    return None, {"wrote": _versions() != files, "before": before, "after": _batches_in(checkpoint)}


def _versions() -> dict[str, tuple[int, int]]:
    """When each file was written, and how large it is; what Python compiles is left out."""
    found = {}
    for name in _files():
        with contextlib.suppress(OSError):
            if not name.endswith(".pyc"):
                found[name] = (os.stat(name).st_mtime_ns, os.path.getsize(name))
    return found


def _batches_in(checkpoint: str) -> int | None:
    """How many batches the network in a checkpoint was trained on by what its BatchNorms count, if there are any."""
    return max(
        (int(value) for name, value in _tensors_in(checkpoint) if _counts_batches(name, value)), default=None
    )


def _what_torchrun_is_told(student: Student, command: list[str], environment: dict[str, str]) -> str | None:
    """The words after `torchrun` where the script is started with another environment; nothing is trained.

    None where it was not to be seen in time; nothing where the script ended without it.
    """
    with tempfile.TemporaryDirectory() as folder:
        told, stand_in = os.path.join(folder, "told"), os.path.join(folder, "torchrun")
        with open(stand_in, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\nprintf '%s\\n' \"$@\" >> {told}\n")
        os.chmod(stand_in, 0o700)
        for name in ("python", "python3"):  # -m torch.distributed.run is torchrun, too
            os.symlink(stand_in, os.path.join(folder, name))
        ended = _within_seconds(
            student, [*command, "--help"], {**environment, "PATH": f"{folder}:{os.environ['PATH']}"}
        )
        if not os.path.isfile(told):
            return None if ended is None else ""
        with open(told, encoding="utf-8", errors="replace") as file:
            return file.read(2000)


def _within_seconds(
    student: Student, command: list[str], environment: dict[str, str]
) -> CommandResult | None:
    """Run a command; None where it takes long: what it was to show is not worth a hang."""
    try:
        return student.run_command(command, environment, SIDE_SECONDS)
    except subprocess.TimeoutExpired:
        student.phase = ""
        return None


def _files() -> list[str]:
    return [
        os.path.relpath(os.path.join(folder, name)) for folder, _, names in os.walk(".") for name in names
    ]
