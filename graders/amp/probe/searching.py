"""The script, or its function, as it looks for the largest batch."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any, cast

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from lockstep.sandbox.gpus import gpus
from lockstep.sandbox.probing import Inputs, Observation, Student, plain, text_of_file
from lockstep.sandbox.shims import cuda_calls_stay
from lockstep.wire import Json

from .recorder import MAX_EVENTS, SeenEnough, autocast_is_on
from .script import MODULE, run_script, small_resnets
from .stepping import as_in_template, chosen_device
from .training import REPORT, Training, watch_answers

# Of a search among a few dozen images.
MAX_TRIALS = 500
FEW_IMAGES = 4
EXAMPLE = torch.zeros(3, 32, 32)
# How torch words it where a batch norm has one value for each channel.
TOO_FEW = "Expected more than 1 value per channel when training"
FIND_BATCH_SIZE = ("arch", "example", "device", "amp", "largest")


class Search(Training):
    """A run in which so many images fit into memory at once, and no more."""

    def __init__(self, fits: int, takes_one: bool) -> None:
        super().__init__()
        self.fits = fits
        # Whether a ResNet learns from one small image, as torchvision's cannot; and whether one was asked to.
        self.takes_one, self.was_one = takes_one, False
        # How many numbers the example has, and whether an image of a trial had fewer.
        self.numbers, self.are_smaller = 0, False
        # How many images, whether they fit, and whether a backward followed.
        self.tried: list[list[Json]] = []
        self.most: float = math.inf
        # Whether one of them went forward under autocast.
        self.any_low = False

    def note(self, *event: Json) -> None:
        """Add an event; a backward belongs to the images that came last."""
        super().note(*event)
        if event[0] == "backward" and self.tried:
            self.tried[-1][2] = True

    def install(self) -> None:
        """As for a training; and ResNets mind one image as those that they stand for do."""
        from torchvision.models.resnet import ResNet

        original = ResNet.forward

        def forward(module: ResNet, images: torch.Tensor) -> Any:
            norm = module.bn1
            # By then 32 x 32 pixels have become one number for each channel.
            if (
                isinstance(norm, _BatchNorm)
                and norm.training
                and len(images) == 1
                and max(images.shape[2:]) <= 32
            ):
                self.was_one = True
                if not self.takes_one:
                    raise ValueError(f"{TOO_FEW}, got input size torch.Size([1, 512, 1, 1])")
            return original(module, images)

        ResNet.forward = forward
        super().install()

    def forward(self, module: nn.Module, images: torch.Tensor) -> None:
        """Run out of memory, in torch's words, where there are more images than fit."""
        if len(self.tried) >= self.most:
            raise SeenEnough
        fits = len(images) <= self.fits
        self.are_smaller |= images[0].numel() < self.numbers
        if torch.is_grad_enabled() and len(self.tried) < MAX_EVENTS:
            self.tried.append([len(images), fits, False])
            self.any_low |= autocast_is_on()
        if not fits:
            # Its figures are those of no search: what is to be found is not to be read in them.
            raise torch.OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {len(images) / 8:.2f} MiB. GPU 0 has a total capacity of "
                "79.11 GiB of which 0.19 MiB is free."
            )


def search(student: Student, inputs: Inputs) -> Observation:
    """Run the script with --find-batch-size where only so many images fit into memory at once.

    Before that, so that what it prints is not the last that is read, the template's `find_batch_size` answers for
    each of `ends`: [largest, fits]; and once more for the first with amp=False. `listed`, which is one, comes first:
    there it is asked which trials the function returns.
    """
    cuda_calls_stay(student.watch.note)
    training = Search(cast(int, inputs.values["fits"]), inputs.values["takes_one"] is True)
    with chosen_device(inputs) as device:
        training.install()
        listed, ends = (cast(list[Any], inputs.values[name]) for name in ("listed", "ends"))
        values = _ends(student, training, listed, ends, device)
        status = run_script(student, inputs)[0]
    return Observation(
        {
            "status": status,
            "tried": cast(Json, training.tried),
            "was_one": training.was_one,
            "are_smaller": training.are_smaller,
            "report": text_of_file(REPORT),
            **values,
        }
    )


def search_on_gpu(student: Student, inputs: Inputs) -> Observation:
    """Let the template's `find_batch_size` look up to a few images on a GPU, where there is room for all of them.

    What is seen are the types of _types.
    """
    types: dict[str, Json] = {}
    with gpus(1):
        small_resnets()
        device = torch.device("cuda", 0)
        module = student.load(MODULE)
        find = as_in_template(module, "find_batch_size", FIND_BATCH_SIZE)
        if find is not None:
            answers = _answers()
            with student.calling("calling find_batch_size(...) for a GPU"):
                find("resnet18", EXAMPLE.clone(), device, True, FEW_IMAGES)
            types = _types(student, module, device, answers)
    return Observation(types)


def _answers() -> set[torch.dtype]:
    """Grows with every type that a layer answers in, from now on, while it is trained."""
    types: set[torch.dtype] = set()
    watch_answers(types)
    return types


def _types(
    student: Student, module: ModuleType, device: torch.device, answers: set[torch.dtype]
) -> dict[str, Json]:
    """The types that layers answered in until now, in a search, and those of a step of train_step's own with AMP."""
    from torchvision.models import resnet18

    searched = sorted(map(str, answers))
    answers.clear()
    model = resnet18(num_classes=10).to(device)
    images = torch.zeros(FEW_IMAGES, *EXAMPLE.shape)
    batch = images.to(device), torch.zeros(FEW_IMAGES, dtype=torch.int64).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(device.type)
    try:
        train_step = student.get(module, "train_step")
        with student.calling("calling train_step(..., amp=True)"):
            train_step(model, batch, nn.CrossEntropyLoss(), optimizer, scaler, device, amp=True)
    except (Exception, SystemExit, SeenEnough):
        # How it steps is for other checks to say.
        student.phase = ""
    return {"search_types": cast(Json, searched), "step_types": cast(Json, sorted(map(str, answers)))}


def _ends(
    student: Student, training: Search, listed: list[int], ends: list[list[int]], device: torch.device
) -> dict[str, Json]:
    """`listed`: what the template's function returns, and what it tried for that, None for one that returns no trials.

    `ends`: the sizes that the template's function finds, None for one that it ends without; None without it.

    `low`: whether it tried a step under autocast, asked for amp=False. With `search_types` and `step_types`, of _types.
    """
    small_resnets()
    script = training.fits, training.tried, training.most
    found: list[Json] = []
    trials: Json = None
    low: Json = None
    types: dict[str, Json] = {}
    try:
        module = student.load(MODULE)
        find = as_in_template(module, "find_batch_size", FIND_BATCH_SIZE)
        if find is not None:
            training.numbers = EXAMPLE.numel()
            answers = _answers()

            def returned(largest: int, fits: int) -> object:
                training.fits, training.tried, training.most = fits, [], MAX_TRIALS
                return _returned(student, find, device, True, largest)

            trials = _listed(returned(*listed), training.tried)
            found = [_size(returned(*end)) for end in ends]
            largest, training.fits = ends[0]
            training.tried = []
            types = _types(student, module, device, answers)
            training.tried, training.any_low = [], False
            _returned(student, find, device, False, largest)
            low = training.any_low
    except Exception:
        # What cannot be imported is for other checks to say.
        student.phase = ""
    training.fits, training.tried, training.most = script
    training.numbers = 0
    return {"listed": trials, "ends": found or None, "low": low, **types}


def _returned(
    student: Student, find: Callable[..., object], device: torch.device, amp: bool, largest: int
) -> object:
    try:
        with student.calling(f"calling find_batch_size(..., amp={amp}, largest={largest})"):
            return find("resnet18", EXAMPLE.clone(), device, amp, largest)
    except (Exception, SystemExit, SeenEnough):
        student.phase = ""
        return None


def _listed(result: object, tried: list[list[Json]]) -> Json:
    """The size and the trials of a result, each with its size and whether it fitted, and what was tried for it."""
    if type(result) not in (tuple, list) or len(cast(list[object], result)) != 2:
        return None
    size, trials = cast(list[Any], result)
    if type(trials) not in (list, tuple):
        return None
    told = [
        [plain(trial.get("batch_size")), plain(trial.get("ok"))] if type(trial) is dict else None
        for trial in trials[:MAX_TRIALS]
    ]
    return {"size": plain(size), "trials": cast(Json, told), "tried": cast(Json, tried)}


def _size(result: object) -> Json:
    size = result[0] if isinstance(result, tuple | list) and result else result
    return plain(size)
