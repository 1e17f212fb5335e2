"""Epochs that are trained on several ranks, and what each rank is given."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from torch import nn

from lockstep.sandbox.device import home
from lockstep.sandbox.probing import Inputs, Observation, Student, StudentMistake, kind, plain, plain_tensor
from lockstep.wire import Array, Json

from .group import emulated_machine
from .lab import Lab, clean_up, new_optimizer, training_loader
from .nets import InjectedFault, new_model, new_rows, state_of
from .rates import insist_on_a_rate, keep_rate
from .recorder import FIRST_STEPS, Recorder


def start(student: Student, inputs: Inputs) -> Observation:
    """Wrap a model that this rank initialised in its own way; report what it holds then."""
    lab = Lab(student)
    lab.setup()
    model = new_model(inputs)
    wrapped = lab.wrap(model)
    arrays = state_of(wrapped, "held")
    clean_up(lab, inputs)
    return Observation({"own_buffers": getattr(wrapped, "broadcast_buffers", None) is False}, arrays)


def train(student: Student, inputs: Inputs) -> Observation:
    """Whole epochs of train_one_epoch on this rank's data set."""
    with emulated_machine(inputs):
        return _train(student, inputs)


def _train(student: Student, inputs: Inputs) -> Observation:
    torch.manual_seed(cast(int, inputs.values["rank_seed"]))
    lab = Lab(student)
    lab.setup()
    model = new_model(inputs)
    recorder = Recorder(model)
    if inputs.values.get("optimizer_first"):
        # As many scripts do; wrapping keeps the parameters the same objects.
        optimizer = new_optimizer(inputs, model)
        wrapped = lab.wrap(model)
    else:
        wrapped = lab.wrap(model)
        optimizer = new_optimizer(inputs, wrapped)
    recorder.watch(optimizer, wrapped, cast(list[int], inputs.values.get("gradients_of", list(FIRST_STEPS))))
    rates = keep_rate(optimizer) if inputs.values.get("rate_kept") else []
    loader = training_loader(lab, inputs)
    losses, boundaries = [], []
    criterion = nn.CrossEntropyLoss(label_smoothing=cast(float, inputs.values.get("smoothing", 0.0)))
    for epoch in cast(list[int], inputs.values["epochs"]):
        losses.append(train_once(lab, wrapped, loader, optimizer, epoch, criterion))
        boundaries.append(len(recorder.sizes))
        if inputs.values.get("halving"):
            _halve(model)
    insist_on_a_rate(rates)
    arrays = {**recorder.arrays(), **state_of(wrapped, "final")}
    if rates:
        arrays["rates/the learning rate"] = np.array(rates)
    clean_up(lab, inputs)
    return Observation({**recorder.values(), "losses": losses, "boundaries": cast(Json, boundaries)}, arrays)


def _halve(model: nn.Module) -> None:
    """Give the model other weights, the same on every rank, as a training does that goes on."""
    with torch.no_grad():
        for value in model.parameters():
            value.mul_(0.5)


def train_once(
    lab: Lab,
    model: nn.Module,
    loader: Any,
    optimizer: torch.optim.Optimizer,
    epoch: int,
    criterion: nn.Module | None = None,
) -> Json:
    """Train one epoch with the student's function; what it returned. An injected error that it met is noted."""
    try:
        loss = lab.call(
            "train_one_epoch", model, loader, optimizer, criterion or nn.CrossEntropyLoss(), lab.device, epoch,
            shown=f"..., epoch={epoch}",
        )  # fmt: skip
    except Exception as error:
        if _is_of_an_injected(error):
            lab.student.watch.note("met")
        raise
    return plain(home(loss))


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
    loader = training_loader(lab, inputs)
    sizes, rows = one_pass(lab, loader)
    kept = _items_kept(lab, inputs)
    clean_up(lab, inputs)
    return Observation({"sizes": cast(Json, sizes), "kept": kept}, {"rows": rows})


def _items_kept(lab: Lab, inputs: Inputs) -> int | None:
    """How many items a loader made with drop_last=True gives this rank; None where there is no such loader."""
    try:
        loader = lab.loader(new_rows(inputs), cast(int, inputs.values["batch_size"]), drop_last=True)
        return sum(one_pass(lab, loader)[0])
    except Exception:
        return None


def _images_of(batch: object) -> object:
    """What is to be the images: the first of several, or what looks like some in a dict of their own collate_fn."""
    if isinstance(batch, dict):
        return next((v for v in batch.values() if isinstance(v, torch.Tensor) and v.ndim > 1), batch)
    return batch[0] if isinstance(batch, list | tuple) else batch


def one_pass(lab: Lab, loader: Any) -> tuple[list[int], Array]:
    """The sizes of a loader's batches, and their images one after the other."""
    rows: list[Array] = []
    with lab.student.calling("iterating over the loader of make_loader(dataset, batch_size)"):
        for batch in loader:
            images = plain_tensor(_images_of(batch))
            if images is None or images.ndim < 2:
                raise StudentMistake(
                    f"the loader gives {kind(batch)} instead of a batch of images and labels"
                )
            rows.append(images.reshape(len(images), -1))
    return [len(row) for row in rows], np.concatenate(rows) if rows else np.zeros((0, 1), np.float32)
