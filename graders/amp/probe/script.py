"""Starts the script, or the notebook with other constants."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from torch import nn

from lockstep.sandbox.cells import read_cells
from lockstep.sandbox.dataloaders import read_in_this_process
from lockstep.sandbox.helptexts import note_broken_help
from lockstep.sandbox.probing import Inputs, Student
from lockstep.sandbox.shims import cuda_calls_stay
from lockstep.wire import Json

from .constants import constants, option_of
from .entries import with_entries, with_parameters

MODULE = "amp_train"


def can_choose_gpu(student: Student, inputs: Inputs) -> bool:
    """Whether this is a script on a machine with a GPU, and one that can be told which to use."""
    return inputs.values.get("gpu") is True and _has_flag(student, "--gpu")


def can_clip(student: Student) -> bool:
    """Whether this is a script, and one that can be told to clip."""
    return _has_flag(student, "--grad-clip")


def _has_flag(student: Student, flag: str) -> bool:
    """Whether this is a script, and one with that flag."""
    if student.is_notebook(MODULE):
        return False
    with open(os.path.join(student.work, f"{MODULE}.py"), encoding="utf-8", errors="replace") as file:
        return re.search(rf"""["']{flag}["']""", file.read()) is not None


def run_script(student: Student, inputs: Inputs) -> tuple[int, dict[str, Json]]:
    """Run the script with the judge's options, on its command line or in the constants of a notebook.

    Returns its exit status, and whether it was a notebook and could be told to accumulate gradients.
    """
    cuda_calls_stay(student.watch.note)
    small_resnets()
    _hold_events_back()
    read_in_this_process()
    options = cast(dict[str, Json], inputs.values["options"])
    accumulation = inputs.values.get("accumulation")
    path = os.path.join(student.work, f"{MODULE}.py")
    if not os.path.exists(path):
        student.load(MODULE)  # says what is missing
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    if student.is_notebook(MODULE):
        if accumulation is not None:
            options = {**options, "accumulation": accumulation}
        with student.calling("reading the constants of amp_train.ipynb"):
            handed_in = text
            tagged = any(cell.is_parameters for cell in read_cells(text) or ())
            if not tagged:
                text = with_parameters(text, options)
            chosen = constants(text, options)
            text, others = with_entries(text, options, set(map(option_of, chosen)))
            if text != handed_in:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
        run = student.run_notebook(
            MODULE, chosen, arguments=command_line(_left_to_flags(text, options, chosen))
        )
        if run.error is not None:
            raise run.error
        can = "accumulation" in others or any(option_of(name) == "accumulation" for name in chosen)
        return 0, {"notebook": True, "accumulates": can, "tagged": tagged}
    note_broken_help(student.watch.note)
    words = command_line(options)
    flag = None if accumulation is None else re.search(r"""["'](--[\w-]*accum[\w-]*)["']""", text)
    if flag is not None:
        words += [flag[1], str(accumulation)]
    if can_choose_gpu(student, inputs):
        words += ["--gpu", "0"]
    if inputs.values.get("clip") is not None:
        words += ["--grad-clip", str(inputs.values["clip"])]
    return student.run_script(f"{MODULE}.py", words), {"notebook": False, "accumulates": flag is not None}


def _left_to_flags(text: str, options: dict[str, Json], chosen: Mapping[str, Any]) -> dict[str, Json]:
    """Options that no constant of a notebook stands for, but a flag or a field that flags are made of does."""
    if not re.search(r"\bparse_(known_)?args\(", text):
        return {}
    left = options.keys() - {option_of(name) for name in chosen}
    flags = {name: rf"--{name.replace('_', '-')}\b|^ +{name} *[:=]" for name in left}
    return {name: options[name] for name in options if name in left and re.search(flags[name], text, re.M)}


def command_line(options: dict[str, Json]) -> list[str]:
    """Options as the words of a command line: False means `--no-amp` for amp, and otherwise no flag."""
    words: list[str] = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif value is False:
            words += ["--no-amp"] if name == "amp" else []
        else:
            words += [flag, str(value)]
    return words


def _hold_events_back() -> None:
    """Write no event before flush or close: TensorBoard may leave them in its queue for as long as two minutes."""
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    add_event = EventFileWriter.add_event

    def hold(writer: Any, event: Any) -> None:
        writer.__dict__.setdefault("held_back", []).append(event)

    def first_writing(original: Callable[[Any], None]) -> Callable[[Any], None]:
        def release(writer: Any) -> None:
            for event in writer.__dict__.pop("held_back", []):
                add_event(writer, event)
            original(writer)

        return release

    EventFileWriter.add_event = hold
    EventFileWriter.flush = first_writing(EventFileWriter.flush)
    EventFileWriter.close = first_writing(EventFileWriter.close)


def small_resnets() -> None:
    """Let every ResNet of torchvision have one small layer a stage: what is looked at here is not its size."""
    from torchvision.models import resnet

    def init(
        self: resnet.ResNet,
        block: Any,
        layers: object,
        num_classes: int = 1000,
        *_: object,
        norm_layer: Any = None,
        **__: object,
    ) -> None:
        nn.Module.__init__(self)
        self.conv1 = nn.Conv2d(3, 64, kernel_size=7, stride=16, padding=3, bias=False)
        self.bn1 = (norm_layer or nn.BatchNorm2d)(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        widths = (64, 64, 128, 256, 512 * block.expansion)
        for stage in range(1, 5):
            layer = nn.Conv2d(widths[stage - 1], widths[stage], kernel_size=1, stride=1 if stage == 1 else 2)
            setattr(self, f"layer{stage}", nn.Sequential(layer))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(widths[4], num_classes)

    resnet.ResNet.__init__ = init
