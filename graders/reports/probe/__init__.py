"""Runs the scripts that wrote reports once more, held up by known times; looks at a picture, reads sources.

It holds nothing against anybody: what is sent back is what happened.
"""

from __future__ import annotations

import ast
import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from typing import cast

import matplotlib
import numpy as np
from matplotlib import pyplot as plt
from PIL import Image
from torch import nn
from torchvision import models

from lockstep.sandbox import reading
from lockstep.sandbox.modelmeter import measure
from lockstep.sandbox.probing import Inputs, Observation, Student
from lockstep.sandbox.slowed import hold_up_batches, hold_up_calls, watch_loaders, watch_workers
from lockstep.wire import Json

from .drawing import Bars

REPORTS = "reports"
MAX_REPORT = 2 << 20
MAX_NUMBERS = 5000
SIDE = 480

_now = time.perf_counter

# Right scripts ask for windows, which cannot be opened here.
plt.switch_backend("agg")
matplotlib.use = plt.switch_backend = lambda *args, **kwargs: None  # type: ignore[assignment]


def picture(student: Student, inputs: Inputs) -> Observation:
    """A picture, small; no code of the student's has run here."""
    path = cast(str, inputs.values["path"])
    try:
        with Image.open(path) as image:
            size = list(image.size)
            # Over white: what is transparent shows the page behind it.
            ground = Image.new("RGBA", image.size, "white")
            ground.alpha_composite(image.convert("RGBA"))
    except Exception as error:
        return Observation({"problem": f"{type(error).__name__}: {error}"[:200]})
    shown = ground.convert("RGB")
    shown.thumbnail((SIDE, SIDE), Image.Resampling.BOX)
    return Observation({"size": cast(Json, size)}, {"pixels": np.asarray(shown).copy()})


def rerun(student: Student, inputs: Inputs) -> Observation:
    """Run a script; its exit status, the report that it leaves, and when what was held up began and was done.

    A report may lie where it was asked for, or where it usually does.
    """
    script, reports = cast(str, inputs.values["script"]), cast(list[str], inputs.values["reports"])
    seconds = cast(list[float], inputs.values["seconds"])
    # A script that adds to the report it finds starts with none.
    shutil.rmtree(REPORTS, ignore_errors=True)
    workers, loaders = watch_workers(), watch_loaders()
    hold_up = hold_up_batches if inputs.values["hold_up"] == "batches" else hold_up_calls
    holdups, bars = hold_up(seconds), Bars()
    start = _now()
    status = student.run_script(script, cast(list[str], inputs.values["arguments"]))
    end = _now()
    used = os.times()
    arrays = {}
    for name, path in zip(("report", "usual"), reports, strict=True):
        if os.path.isfile(path):
            with open(path, "rb") as file:
                arrays[name] = np.frombuffer(file.read(MAX_REPORT), dtype=np.uint8)
    values: dict[str, Json] = {
        "status": status,
        "start": start,
        "end": end,
        "events": holdups.events(),
        "workers": workers,
        "loaders": loaders.read(),
        "bars_unseen": bars.are_unseen(),
        "by_children": used.children_user + used.children_system > 0,
    }
    return Observation(values, arrays)


def model(student: Student, inputs: Inputs) -> Observation:
    """What the model of a report costs: torchvision's own of that name and size, otherwise the script's."""
    name, parameters = cast(str, inputs.values["name"]), cast(int | None, inputs.values["parameters"])
    classes, shape = cast(int, inputs.values["classes"]), cast(list[int], inputs.values["shape"])
    found: nn.Module | None = None
    if name in models.list_models(models):
        found = models.get_model(name, weights=None, num_classes=classes)
    if found is None or _size(found) != parameters:
        found = _own_model(student, cast(str, inputs.values["module"]), name, classes)
    with student.calling(f"measuring the model {name[:40]}"):
        return Observation({"size": _size(found), "figures": measure(found, shape)})


def _own_model(student: Student, module_name: str, name: str, classes: int) -> nn.Module:
    """What `build_model` makes of the name, where the script has one, otherwise the class of that name."""
    module = student.load(module_name)
    if hasattr(module, "build_model"):
        build = student.get(module, "build_model")
        with student.calling(f"calling build_model({name[:40]!r}, {classes})"):
            return cast(nn.Module, build(name, classes))
    cls = student.get(module, name)
    with student.calling(f"making a {name[:40]}"):
        return cast(nn.Module, cls())


def _size(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


CLOCKS = {
    "perf_counter",
    "time",
    "monotonic",
    "process_time",
    "time_ns",
    "perf_counter_ns",
    "monotonic_ns",
    "sleep",
    "elapsed_time",
}
CLOCKS |= {"synchronize", "default_timer"}


def source(student: Student, inputs: Inputs) -> Observation:
    """What stands in the script about clocks, GPUs and samplers, and which clocks it or files beside it replace.

    The sources are read, not run.
    """
    script, beside = cast(str, inputs.values["script"]), cast(list[str], inputs.values["beside"])
    trees = {path: ast.parse(reading.read_source(path)) for path in (script, *beside)}
    reassigned: list[Json] = [
        [name, f"{path}:{line}"]
        for path, tree in trees.items()
        for node in ast.walk(tree)
        for name, line in _reassigned(node)
    ]
    own = list(ast.walk(trees[script]))
    numbers = {number for node in own if isinstance(node, ast.Constant) for number in _number(node.value)}
    return Observation(
        {
            "names": cast(Json, sorted(INTERESTING & _names(own) | WAITS & _names_in_helpers(own))),
            "numbers": cast(Json, sorted(numbers)[:MAX_NUMBERS]),
            "reassigned": reassigned[:50],
            "softmax_before_loss": any(map(_is_softmax_into_loss, own)),
        }
    )


INTERESTING = CLOCKS | {"cuda", "Event", "Timer", "DistributedSampler", "set_epoch"}
WAITS = {"synchronize", ".item", ".tolist", ".cpu"}
INTERESTING |= WAITS


def _names_in_helpers(nodes: list[ast.AST]) -> set[str]:
    """What stands in the submission's own modules that are imported; the wait for the GPU may be a helper's."""
    modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    names: set[str] = set()
    for module in sorted(modules - {"perf_report"}):
        path = module.replace(".", "/") + ".py"
        if os.path.isfile(path):
            with contextlib.suppress(SyntaxError, ValueError):
                names |= _names(list(ast.walk(ast.parse(reading.read_source(path)))))
    return names


def _names(nodes: list[ast.AST]) -> set[str]:
    """Every name, attribute and imported module, and short texts such as "cuda"."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.update((node.attr, f".{node.attr}"))
        elif isinstance(node, ast.alias):
            names.update(node.name.split("."))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value[:40])
    return names


def _number(value: object) -> Iterator[float]:
    """A number with decimals, also one that is written as text."""
    if isinstance(value, float) and value - value == 0:
        yield value
    elif isinstance(value, str) and len(value) < 40 and "." in value:
        try:
            number = float(value)
        except ValueError:
            return
        if number - number == 0:
            yield number


def _reassigned(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Assignments to an attribute of that name: `time.sleep = ...`, `setattr(time, "sleep", ...)`."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        targets = [node.target]
    for target in targets:
        for inner in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
            if isinstance(inner, ast.Attribute) and inner.attr in CLOCKS and _is_of_a_library(inner.value):
                yield f"{ast.unparse(inner)[:60]}", inner.lineno
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
        words = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
        if node.args and _is_of_a_library(node.args[0]) and any(word in CLOCKS for word in words):
            yield ast.unparse(node)[:60], node.lineno


LIBRARIES = {"time", "timeit", "cuda", "Event", "perf_report", "torch"}


def _is_of_a_library(node: ast.expr) -> bool:
    """Whether `node` is `time`, `torch.cuda`, `torch.cuda.Event`: not an object of the student's own."""
    return (isinstance(node, ast.Name) and node.id in LIBRARIES) or (
        isinstance(node, ast.Attribute) and node.attr in LIBRARIES
    )


def _is_softmax_into_loss(node: ast.AST) -> bool:
    """`criterion(softmax(...), ...)` in one expression, with any of the usual names."""
    if not isinstance(node, ast.Call) or not node.args:
        return False
    called, given = _called(node), node.args[0]
    return (
        called in {"criterion", "cross_entropy", "loss_fn", "loss_function"} and _called(given) == "softmax"
    )


def _called(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""
