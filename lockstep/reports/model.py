"""What there is to know about a model before any physics: measured elsewhere on the CPU, here as numbers.

lockstep.sandbox.modelmeter measures; on a student's own model that happens in the sandbox, on one of torchvision's
in a process of its own, because nothing here may wait for torch to be imported.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import cast

from lockstep.jsontext import Json
from lockstep.reports.document import Report

WINOGRAD = 2.25
"""What Winograd's F(2x2, 3x3) saves in multiplications (Lavin and Gray, arXiv 1509.09308)."""
TRAINING = 3
"""Passes that training costs at most: forward, and for backward the gradients of inputs and of weights."""
KINDS = frozenset({"dp_inference", "ddp_scaling", "amp", "lightning"})
"""The kinds of report in which a model runs."""
CLASSES = 1000, 10, 100
"""Outputs to try where a report does not say how many its model has: ImageNet's, CIFAR-10's, CIFAR-100's."""
SECONDS = 180.0
"""Limit for measuring one of torchvision's models; most of it is importing torch."""

# So that a class name of the student's own ("Net") does not cost an import of torch.
_FAMILY = re.compile(
    r"(alexnet|convnext|densenet|efficientnet|googlenet|inception|maxvit|mnasnet|mobilenet|regnet|resnet|resnext"
    r"|shufflenet|squeezenet|swin|vgg|vit|wide_resnet)[a-z0-9_]{0,30}"
)
_MOST = 1 << 62
_MEASURE = """
import json, sys
sys.path.insert(0, sys.argv[1])
import torch
from torch import nn
from torchvision import models
from lockstep.sandbox.modelmeter import measure
torch.set_num_threads(1)
name, shape, parameters, classes = json.loads(sys.argv[2])
if name not in models.list_models(module=models):
    sys.exit()
for function in [each for each in dir(nn.init) if each.endswith("_")]:
    # Weights without values need no initial ones.
    setattr(nn.init, function, lambda tensor, *args, **kwargs: tensor)
def build(count):
    with torch.device("meta"):
        return models.get_model(name, weights=None, num_classes=count)
for count in classes:
    model = build(count)
    if sum(parameter.numel() for parameter in model.parameters()) == parameters:
        break
else:
    model = build(classes[0])
print(json.dumps(measure(model, shape)))
"""


@dataclass(frozen=True)
class ModelFacts:
    """Figures of one model for one input shape, for one item unless said otherwise."""

    macs: int
    """Multiply-accumulates of a forward pass."""
    macs_3x3: int
    """Those of its 3x3 convolutions of stride 1, one group."""
    parameters: int
    """Elements."""
    saved_bytes: Mapping[str, int]
    """What autograd keeps until backward, by precision: "fp32", "amp"."""
    fixed_bytes: Mapping[str, int] = field(default_factory=dict)
    """What it keeps whatever the batch: under AMP mostly the weights' copies in half precision."""
    classes: int | None = None
    """Outputs, where the model gives one row of them for each item."""
    least: int | None = None
    """Multiply-accumulates of a forward pass with the fastest convolution algorithms; see `least_macs`."""
    least_training: int | None = None
    """The same of a forward and a backward pass; layers that are frozen have none or less of the latter."""

    @property
    def least_macs(self) -> float:
        """Multiplications that a forward pass cannot do without."""
        direct = self.macs - self.macs_3x3 + self.macs_3x3 / WINOGRAD
        return direct if self.least is None else min(direct, self.least)

    @property
    def least_training_macs(self) -> float:
        """Multiplications that a forward and a backward pass cannot do without."""
        thrice = TRAINING * self.least_macs
        return thrice if self.least_training is None else min(thrice, self.least_training)

    @classmethod
    def from_json(cls, values: object) -> ModelFacts | None:
        """What `modelmeter.measure` returned, after its way through a process; None where it has another form.

        The values may be forged: these are numbers of the right kind, and that is all.
        """
        if not isinstance(values, dict):
            return None
        counts = [values.get(key) for key in ("macs", "macs_3x3", "parameters")]
        least = [values.get(key) for key in ("least_macs", "least_training_macs")]
        saved, fixed = _bytes(values.get("saved_bytes")), _bytes(values.get("fixed_bytes"))
        classes = values.get("classes")
        if not all(_is_count(count) for count in (*counts, *least)) or saved is None or fixed is None:
            return None
        if classes is not None and not _is_count(classes):
            return None
        macs, macs_3x3, parameters = cast(list[int], counts)
        forward, training = cast(list[int], least)
        if macs_3x3 > macs:
            return None
        return cls(macs, macs_3x3, parameters, saved, fixed, cast(int | None, classes), forward, training)


def needs_model(report: Report) -> bool:
    """Whether the rules could make use of measurements on the report's model: it has one, and names GPUs."""
    return report.kind in KINDS and bool(report.gpus)


def model_of(report: Report) -> ModelFacts | None:
    """Measure the torchvision model that the report names; None where it names none, or it cannot be measured.

    Takes seconds, for torch is imported in another process.
    """
    workload = report.workload
    name, shape, parameters = (workload.get(key) for key in ("model", "input_shape", "params"))
    if not isinstance(name, str) or not isinstance(shape, list):
        return None
    sizes = [int(size) for size in shape if isinstance(size, int | float)]
    count = workload.get("num_classes")
    return known_model(
        name,
        sizes,
        int(count) if isinstance(count, int | float) else None,
        int(parameters) if isinstance(parameters, int | float) else None,
    )


def known_model(
    name: str, input_shape: Sequence[int], num_classes: int | None = None, parameters: int | None = None
) -> ModelFacts | None:
    """Measure a model of torchvision by its name, in another process; None where there is none or it fails.

    Without `num_classes` the usual numbers are tried, and the one counts that gives as many `parameters`.
    """
    shape = tuple(input_shape)
    classes = CLASSES if num_classes is None else (num_classes,)
    plausible = len(shape) == 3 and shape[0] <= 16 and all(0 < size <= 2048 for size in shape)
    if not _FAMILY.fullmatch(name) or not plausible or not all(0 < count <= 1 << 20 for count in classes):
        return None
    return _torchvision(name, shape, classes, parameters)


@cache
def _torchvision(
    name: str, shape: tuple[int, ...], classes: tuple[int, ...], parameters: int | None
) -> ModelFacts | None:
    root = str(Path(__file__).resolve().parent.parent.parent)
    about = json.dumps([name, shape, parameters, classes])
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _MEASURE, root, about],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            check=True,
        )
        return ModelFacts.from_json(json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST


def _bytes(values: Json) -> dict[str, int] | None:
    if not isinstance(values, dict) or not all(_is_count(values.get(key)) for key in ("fp32", "amp")):
        return None
    return {key: cast(int, values[key]) for key in ("fp32", "amp")}
