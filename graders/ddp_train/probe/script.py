"""The script in this process, with a smaller ResNet."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim import lr_scheduler
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from lockstep.sandbox.dataloaders import read_in_this_process
from lockstep.sandbox.device import home
from lockstep.sandbox.helptexts import note_broken_help
from lockstep.sandbox.probing import Inputs, Observation, Student, plain, plain_tensor
from lockstep.wire import Array, Json

from .checkpoints import CHECKPOINT, digests, tensors_within
from .group import emulated_machine
from .lab import Lab, clean_up, seed_of
from .nets import MAX_ROWS, InjectedFault, new_rows, state_of
from .options import note_data_at_home
from .rates import insist_on_a_rate, keep_rate
from .recorder import FIRST_STEPS, wrapped_model
from .training import train_once
from .written import CHECKPOINTS, versions, written_since

OTHERS_SECONDS = 6.0
WRITTEN_SECONDS = 4.0  # for who writes a checkpoint beside the training
COMPARED = 10  # numbers of each parameter
MAX_GROUPS = 100
MAX_PLANS = 10  # for the learning rate
NARROW = 64


def alone(student: Student, inputs: Inputs) -> Observation:
    """Everything once, in one process that torchrun did not start, with a model as `evaluate` leaves it."""
    with emulated_machine(inputs):
        return _alone(student, inputs)


def _alone(student: Student, inputs: Inputs) -> Observation:
    lab = Lab(student)
    lab.setup()
    recorder, wrapped, optimizer = wrapped_model(lab, inputs)
    recorder.watch(optimizer, wrapped)
    rates = keep_rate(optimizer)
    trains: list[bool] = []
    optimizer.register_step_pre_hook(lambda *_: trains.append(_trains(wrapped)))
    wrapped.eval()
    batch_size = cast(int, inputs.values["batch_size"])
    dataset = new_rows(inputs)
    loader = lab.loader(dataset, batch_size, shuffle=True, seed=seed_of(inputs))
    loss = train_once(lab, wrapped, loader, optimizer, cast(int, inputs.values["epoch"]))
    insist_on_a_rate(rates)
    seen = recorder.values(), recorder.arrays()
    evaluation = lab.loader(dataset, batch_size, shuffle=False, seed=seed_of(inputs))
    result = plain(lab.call("evaluate", wrapped, evaluation, lab.device, shown="model, loader, device"))
    values = {**seen[0], "loss": loss, "accuracy": result, "trains": any(trains)}
    arrays = {**seen[1], **state_of(wrapped, "final")}
    clean_up(lab, inputs)
    return Observation(values, arrays)


def _trains(model: nn.Module) -> bool:
    """Whether any part of it is in training mode: some leave their batch norms out."""
    return any(part.training for part in model.modules())


def run_script(student: Student, inputs: Inputs) -> int:
    """Run the script with the judge's arguments, on a smaller network than it asks for; its exit status."""
    _smaller_resnet()
    read_in_this_process()
    return student.run_script("ddp_train.py", script_arguments(inputs))


def script_arguments(inputs: Inputs) -> list[str]:
    """The arguments that the judge sent, as words."""
    return cast(list[str], inputs.values["arguments"])


def _smaller_resnet() -> None:
    """Let `resnet18()` build one narrow block a stage instead of two: what these checks look at is not its size.

    It is torchvision's own function that is called, which knows `pretrained=False` and other spellings.
    """
    from torchvision.models import resnet

    class Narrow(resnet.BasicBlock):  # type: ignore[misc]
        """A block as narrow inside as those of the first stage, between as many channels as ever."""

        def __init__(self, inplanes: int, planes: int, *args: Any, **kwargs: Any) -> None:
            super().__init__(inplanes, NARROW, *args, **kwargs)
            self.conv2 = resnet.conv3x3(NARROW, planes)
            self.bn2 = norms[-1](planes)

    build: Any = resnet._resnet
    norms: list[Callable[[int], nn.Module]] = []

    def smaller(block: Any, layers: list[int], weights: Any, progress: bool, **kwargs: Any) -> resnet.ResNet:
        if layers == [2, 2, 2, 2]:
            block, layers, weights = Narrow, [1, 1, 1, 1], None
            norms.append(kwargs.get("norm_layer") or nn.BatchNorm2d)
        return cast(resnet.ResNet, build(block, layers, weights, progress, **kwargs))

    resnet._resnet = smaller


def first_lr(student: Student, inputs: Inputs) -> Observation:
    """Run the script for some optimizer steps: the learning rate of the first group of parameters in each of them.

    `lr`: that of the first step. `later`: those of the others. `groups`: those of the other groups in the first step.
    What it does with options that it is not given is noted.
    """
    seen: list[Json] = []
    groups: list[Json] = []
    steps = cast(int, inputs.values["steps"])

    def before_step(optimizer: torch.optim.Optimizer, *_: object) -> None:
        if not seen:
            groups.extend(plain(group["lr"]) for group in optimizer.param_groups[1 : 1 + MAX_GROUPS])
        seen.append(plain(optimizer.param_groups[0]["lr"]))
        if len(seen) == steps:
            student.answer(Observation(told()))

    def told() -> dict[str, Json]:
        return {"lr": seen[:1], "later": seen[1:], "groups": groups}

    register_optimizer_step_pre_hook(cast(Callable[..., None], before_step))
    note_broken_help(student.watch.note)
    note_data_at_home(student)
    run_script(student, inputs)
    return Observation(told())


def places(student: Student, inputs: Inputs) -> Observation:
    """Run the script on a machine with GPUs as far as its first step: on which devices the trained parameters are.

    An optimizer may hold those of another network, which get no gradient: that is a mistake of another kind.
    """

    def before_step(optimizer: torch.optim.Optimizer, *_: object) -> None:
        held = (value for group in optimizer.param_groups for value in group["params"])
        found = sorted({str(value.device) for value in held if value.grad is not None})
        student.answer(Observation({"places": cast(Json, found)}))

    with emulated_machine(inputs):
        register_optimizer_step_pre_hook(cast(Callable[..., None], before_step))
        run_script(student, inputs)
    return Observation({"places": []})


def orders(student: Student, inputs: Inputs) -> Observation:
    """Run the script for some epochs: in which order it reads the training images, in which mode the model learns."""
    from torchvision.models.resnet import ResNet

    order: list[int] = []
    since: list[int] = []
    learned: list[int] = []
    models: list[nn.Module] = []
    trains: list[bool] = []

    def before_forward(module: nn.Module, _: object) -> None:
        if isinstance(module, ResNet):
            models[:] = [module]
            # What an evaluation on training images reads is not learned from.
            if not torch.is_grad_enabled() or not _trains(module):
                since.clear()

    def before_step(*_: object) -> None:
        trains.extend(map(_trains, models))
        learned.extend(since)
        since.clear()

    register_module_forward_pre_hook(before_forward)
    register_optimizer_step_pre_hook(cast(Callable[..., None], before_step))

    def note(index: int) -> None:
        if len(order) < MAX_ROWS:
            order.append(index)
            since.append(index)

    _before_each_image(note)
    run_script(student, inputs)
    return Observation(
        {"order": cast(Json, order), "learned": cast(Json, learned), "trains": cast(Json, trains[-1:])}
    )


def together(student: Student, inputs: Inputs) -> Observation:
    """Run the script: what its steps are made of, and what the network holds after the first and at the end.

    `batches`: the images of its first steps. `rows`: the number of images in each step. `read`: which training images
    it read for each step. `learned`: how many images the last batch of each step had and how many of these were test
    images, nothing where other images were read for it than it had. `late`: what the network that learns holds before
    the last step, and how many steps there were before that. `plans`: see `_note_plans`.
    """
    from torchvision.models.resnet import ResNet

    batches: list[str] = []
    latest: list[str] = []
    gradients: list[bool] = []
    arrays: dict[str, Array | torch.Tensor] = {}
    stepped: list[torch.Tensor] = []
    fed: list[tuple[nn.Module, int, list[int]]] = []
    rows: list[int] = []
    since: list[int] = []
    read: list[list[int]] = []
    are_tests: list[bool] = []  # of the images read since a network was called
    learned: list[list[int]] = []
    steps_before: list[int] = []

    # A step is looked at when the network is called again: whatever belongs to it has been done by then.
    def before_forward(module: nn.Module, args: tuple[object, ...]) -> None:
        if not isinstance(module, ResNet):
            return
        learning = [value for value in module.parameters() if value.requires_grad]
        # Of every one: who averages by hand may have left some out.
        held = torch.cat([_some_of(value) for value in learning]) if learning else None
        if held is not None and len(gradients) <= len(FIRST_STEPS):
            arrays.setdefault(f"after{len(gradients)}", held)
        images = plain_tensor(home(args[0])) if args else None
        just_read = [len(are_tests), sum(are_tests)]
        are_tests.clear()
        if images is not None and torch.is_grad_enabled():
            latest[:] = [hashlib.sha256(images.data).hexdigest()]
        if not torch.is_grad_enabled() or not _trains(module):
            since.clear()
            return
        n = 0 if images is None else len(images)
        # What was read ahead, or only looked at, makes another number.
        fed.append((module, n, just_read if just_read[0] == n else []))
        # Whatever other networks there are, the first step was made with this one.
        if held is not None and any(value is learning[-1] for value in stepped):
            arrays["late"], steps_before[:] = held, [len(gradients)]

    # After the step, because `optimizer.step(closure)` and an optimizer of one's own average within.
    def after_step(optimizer: torch.optim.Optimizer, *_: object) -> None:
        batches.extend(latest if len(gradients) < len(FIRST_STEPS) else [])
        latest.clear()
        held = [value for group in optimizer.param_groups for value in group["params"]]
        stepped.extend(held if not gradients else [])
        known = set(map(id, stepped))
        own = [one for one in fed if any(id(value) in known for value in one[0].parameters())]
        of_step = sum(n for _, n, _ in own)
        # Of two optimizers the second is not fed anew.
        rows.extend([of_step] if of_step and len(rows) < MAX_ROWS else [])
        learned.extend([own[-1][2]] if of_step and len(learned) < MAX_ROWS else [])
        read.extend([since[:]] if since and len(read) < MAX_ROWS else [])
        fed.clear()
        since.clear()
        gradients.append(any(value.grad is not None for value in held))

    def note(index: int) -> None:
        if len(since) < MAX_ROWS:
            since.append(index)
        are_tests.append(False)

    register_module_forward_pre_hook(before_forward)
    register_optimizer_step_post_hook(cast(Callable[..., None], after_step))
    _before_each_image(note)
    _before_each_image(lambda _: are_tests.append(True), of_training=False)
    plans = _note_plans()
    run_script(student, inputs)
    values: dict[str, Json] = {
        "plans": plans(), "batches": cast(Json, batches), "gradients": any(gradients), "rows": cast(Json, rows),
        "read": cast(Json, read), "learned": cast(Json, learned), "late": cast(Json, steps_before),
    }  # fmt: skip
    return Observation(values, arrays)


def _note_plans() -> Callable[[], Json]:
    """Note the schedules of the learning rate: of each, how often it went on, and if its rate is still the first."""
    made: list[Any] = []

    def noting(construct: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(construct)
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            construct(self, *args, **kwargs)
            if len(made) < MAX_PLANS and all(one is not self for one in made):
                made.append(self)

        return init

    for schedule in (lr_scheduler.LRScheduler, lr_scheduler.ReduceLROnPlateau):
        schedule.__init__ = noting(schedule.__init__)  # type: ignore[method-assign]

    def plans() -> Json:
        return [[plain(one.last_epoch), _is_first_rate(one.optimizer)] for one in made]

    return plans


def _is_first_rate(optimizer: torch.optim.Optimizer) -> bool:
    return all(group["lr"] == group.get("initial_lr", group["lr"]) for group in optimizer.param_groups)


def _some_of(parameter: torch.Tensor) -> torch.Tensor:
    """Some of the numbers in a parameter, from its first to its last ones."""
    flat = parameter.detach().flatten()
    return flat[:: max(1, len(flat) // COMPARED)][:COMPARED].float()


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
    # What it says by its status it says to the other rank by its end.
    student.answer(Observation({"status": run_script(student, inputs)}), stays=False)


def resumes(student: Student, inputs: Inputs) -> Observation:
    """Run the script with --resume on a checkpoint that cannot be read; who opens it, and who trains without it."""
    from torchvision.models.resnet import ResNet

    seen: set[str] = set()

    def note(what: str) -> None:
        if what not in seen:
            seen.add(what)
            student.watch.note(what)
            with open(_mark(inputs.rank), "w"):
                pass

    def opened(event: str, args: tuple[Any, ...]) -> None:
        if event != "open" or not isinstance(args[0], str | bytes | os.PathLike) or "opened" in seen:
            return
        if os.path.basename(os.fsdecode(args[0])) == CHECKPOINT:
            note("opened")
            if inputs.rank == 0:
                _await_others(inputs.world_size)

    def before_forward(module: nn.Module, _: object) -> None:
        if (
            isinstance(module, ResNet | nn.parallel.DistributedDataParallel)
            and torch.is_grad_enabled()
            and _trains(module)
        ):
            note("trained")

    register_module_forward_pre_hook(before_forward)
    sys.addaudithook(opened)
    run_script(student, inputs)
    return Observation({})


def goes_on(student: Student, inputs: Inputs) -> Observation:
    """Run the script as two jobs: the first leaves a checkpoint, the second goes on from it when the first has ended.

    `held`: whether the optimizer held anything before each step; of the second job, before its first two. `opened`:
    whether it opened the checkpoint. `elsewhere`: another that the first job wrote, where it wrote none of that name.
    `early`: what the file of that name was when the first job made a step beyond the first `steps`, "missing",
    "unread", "untrained" or "trained", and nothing where it made none. `late`: whether there was one when it ended.
    """
    # By its own word each is rank 0.
    is_first = inputs.values["is_first"] is True
    while not is_first and not os.path.exists(_mark(0)):
        time.sleep(0.01)
    versions_before = versions()
    opened: list[str] = []
    held: list[bool] = []
    elsewhere = ""
    path = os.path.abspath(CHECKPOINT)
    early, late = "", False
    began: frozenset[str] = frozenset()
    trained: list[bool] = []

    def note_open(event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(args[0], str | bytes | os.PathLike) and not opened:
            opened.extend({os.path.basename(os.fsdecode(args[0]))} & {CHECKPOINT})

    # Who loads a state by a step that changes nothing has not trained for it.
    def before_forward(module: nn.Module, _: object) -> None:
        if torch.is_grad_enabled() and _trains(module):
            trained[:] = [True]

    def before_step(optimizer: torch.optim.Optimizer, *_: object) -> None:
        nonlocal began, early
        if trained and len(held) < MAX_ROWS:
            held.append(_holds_something(optimizer))
            trained.clear()
        if not is_first and len(held) == 2:
            student.answer(seen())
        if is_first and held and not began:
            began = _weights_of(optimizer)
        if is_first and len(held) > cast(int, inputs.values["steps"]) and early != "trained":
            early = _written_by_now(path, began, _weights_of(optimizer), 0.0 if early else WRITTEN_SECONDS)

    def seen() -> Observation:
        return Observation(
            {
                "opened": bool(opened),
                "held": cast(Json, held),
                "elsewhere": elsewhere,
                "early": early,
                "late": late,
            }
        )

    register_module_forward_pre_hook(before_forward)
    register_optimizer_step_pre_hook(cast(Callable[..., None], before_step))
    sys.addaudithook(note_open)
    try:
        if run_script(student, inputs) == 0 and is_first:
            elsewhere = checkpoint_elsewhere(written_since(versions_before))
            late = os.path.exists(path)
    finally:
        # However it ended: the other waits for this.
        if is_first:
            with open(_mark(0), "w"):
                pass
    return seen()


def _weights_of(optimizer: torch.optim.Optimizer) -> frozenset[str]:
    return digests(value for group in optimizer.param_groups for value in group["params"])


def _written_by_now(path: str, began: frozenset[str], now: frozenset[str], patience: float) -> str:
    """What a checkpoint is, as in `goes_on`; one that is not written yet has so many seconds to be."""
    until = time.monotonic() + patience
    while (found := _what_is_in(path, began, now)) != "trained" and time.monotonic() < until:
        time.sleep(0.01)
    return found


def _what_is_in(path: str, began: frozenset[str], now: frozenset[str]) -> str:
    if not os.path.exists(path):
        return "missing"
    try:
        tensors = tensors_within(torch.load(path, weights_only=False, map_location="cpu"))
    except Exception:
        return "unread"
    weights = digests(value for _, value in tensors)
    # A rate that rises from 0 may not have changed them yet.
    if began != now and weights <= began:
        return "untrained"
    return "trained"


def checkpoint_elsewhere(written: list[str]) -> str:
    """A checkpoint among the files that were written, where none of them has the name that was given in its own."""
    if any(os.path.splitext(CHECKPOINT)[0] in name for name in written):
        return ""
    return next((name for name in written if name.endswith(CHECKPOINTS)), "")


def _holds_something(optimizer: torch.optim.Optimizer) -> bool:
    """Whether it keeps a number other than 0 from earlier steps, such as a momentum."""
    kept = [value for state in optimizer.state.values() for value in state.values()]
    return any(
        bool(torch.as_tensor(value).any()) for value in kept if isinstance(value, torch.Tensor | int | float)
    )


def _mark(rank: int) -> str:
    """A file that says of a rank, to the others, that it has opened the checkpoint or begun to train."""
    return os.path.join(tempfile.gettempdir(), f".came-by-{rank}")


def _await_others(world_size: int) -> None:
    """Before rank 0 fails, and with it all: the others show what they do, unless they wait for what it reads."""
    until = time.monotonic() + OTHERS_SECONDS
    while time.monotonic() < until and not all(os.path.exists(_mark(rank)) for rank in range(1, world_size)):
        time.sleep(0.01)


def _before_each_image(do: Callable[[int], None], *, of_training: bool = True) -> None:
    """Let something be done with the number of each training or test image before it is read, in this process."""
    from torchvision import datasets

    original = datasets.CIFAR10.__getitem__

    def read(self: datasets.CIFAR10, index: int) -> tuple[Any, Any]:
        if bool(self.train) == of_training:
            do(int(index))
        item: tuple[Any, Any] = original(self, index)
        return item

    datasets.CIFAR10.__getitem__ = read
