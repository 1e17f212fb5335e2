"""`fashion_trainer.py` run as a script."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any, cast

from torch import nn

from lockstep.sandbox.dataloaders import read_in_this_process
from lockstep.sandbox.probing import OTHER_PROCESS, Inputs, Observation, Student, text_of_file
from lockstep.wire import Json

from .lab import MODULE
from .machine import machine_of
from .recorder import Recorder
from .weights import Weights


def script(student: Student, inputs: Inputs) -> Observation:
    """Run the file as a script, after `--help` where asked for; which pictures reached its network, and how."""
    values: dict[str, Json] = {}
    with machine_of(inputs) as home:
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
    values["report"] = text_of_file(cast(str, inputs.values["report"]))
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
