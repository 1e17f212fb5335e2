"""What a right training step does, computed on the trusted side from inputs the sandbox could not predict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from graders.amp.probe import build_net
from lockstep.batchloop import PLAIN, Loop
from lockstep.wire import Array, Json

SIDE = 6
CLASSES = 10


@dataclass(frozen=True)
class Data:
    """Hidden batches, one after the other: images (n, 3, SIDE, SIDE) float32 and labels (n,) int64."""

    images: Array
    labels: Array

    def arrays(self) -> dict[str, Array]:
        """The data as the probe is given them."""
        return {"images": self.images, "labels": self.labels}

    def batches(self, sizes: Sequence[int]) -> list[Data]:
        """Consecutive parts of these sizes."""
        ends = np.cumsum(sizes)
        return [
            Data(self.images[end - size : end], self.labels[end - size : end])
            for size, end in zip(sizes, ends, strict=True)
        ]


@dataclass(frozen=True)
class Scenario:
    """Some calls of train_step on batches of `sizes`: with which optimizer, which scaler, and what goes wrong.

    Without `amp`, train_step is left to its default.
    """

    sizes: tuple[int, ...]
    lr: float = 0.05
    momentum: float = 0.0
    amp: bool | None = True
    grad_clip: float | None = None
    scale: float = 2.0**10
    growth_interval: int = 2000
    overflow: int | None = None

    def told(self) -> dict[str, Json]:
        """The scenario as the probe is told of it."""
        return {
            "sizes": list(self.sizes), "lr": self.lr, "momentum": self.momentum, "amp": self.amp,
            "grad_clip": self.grad_clip, "scale": self.scale, "growth_interval": self.growth_interval,
            "overflow": self.overflow,
        }  # fmt: skip


def make_data(rng: np.random.Generator, n: int) -> Data:
    """Random images and labels."""
    images = rng.standard_normal((n, 3, SIDE, SIDE)).astype(np.float32)
    return Data(images, rng.integers(0, CLASSES, n))


def make_shape(rng: np.random.Generator) -> dict[str, Json]:
    """The measures of a hidden network."""
    return {"features": 3 * SIDE * SIDE, "hidden": int(rng.integers(12, 25)), "classes": CLASSES}


def make_weights(rng: np.random.Generator, shape: Mapping[str, Json]) -> dict[str, Array]:
    """Weights of a hidden network, of a size that keeps tanh away from its ends."""
    return {
        name: (rng.standard_normal(value.shape) / np.sqrt(value.shape[-1] if value.ndim > 1 else 25)).astype(
            np.float32
        )
        for name, value in build_net(dict(shape)).state_dict().items()
    }


def as_inputs(weights: Mapping[str, Array]) -> dict[str, Array]:
    """Weights under the names the probe looks for."""
    return {f"model/{name}": value for name, value in weights.items()}


@dataclass(frozen=True)
class Step:
    """What one right step comes to: the loss before it, the gradient it used (unclipped), the weights after it."""

    loss: float
    gradient: dict[str, Array]
    weights: dict[str, Array]


def train(
    shape: Mapping[str, Json],
    weights: Mapping[str, Array],
    data: Data,
    scenario: Scenario,
    loop: Loop = PLAIN,
) -> list[Step]:
    """The scenario's steps in fp32; the one whose gradient overflows leaves everything as it was."""
    model = build_net(dict(shape), dict(weights))
    parameters: dict[str, torch.Tensor] = dict(model.named_parameters())
    velocity: dict[str, torch.Tensor] = {}
    steps = []
    for number, batch in enumerate(data.batches(scenario.sizes)):
        if loop.clears:
            model.zero_grad(set_to_none=True)
        logits = model(torch.from_numpy(batch.images))
        loss = nn.functional.cross_entropy(loop.into_the_loss(logits), torch.from_numpy(batch.labels))
        loss.backward()
        gradients = {name: value.grad.clone() for name, value in parameters.items() if value.grad is not None}
        plain = {name: np.array(value.numpy()) for name, value in gradients.items()}
        factor = 1.0 if scenario.grad_clip is None else min(1.0, scenario.grad_clip / (norm(plain) + 1e-6))
        # SGD with momentum by hand: making an optimizer of torch's imports its compiler, a second of nothing.
        if number != scenario.overflow:
            with torch.no_grad():
                for name, gradient in gradients.items():
                    before = velocity.get(name)
                    own = gradient * factor
                    velocity[name] = own if before is None else scenario.momentum * before + own
                    parameters[name] -= scenario.lr * velocity[name]
        steps.append(
            Step(loss.item(), plain, {n: value.detach().numpy().copy() for n, value in parameters.items()})
        )
    return steps


def norm(gradient: Mapping[str, Array]) -> float:
    """The length of a gradient over all parameters."""
    return float(np.sqrt(sum(float(np.square(value, dtype=np.float64).sum()) for value in gradient.values())))


def logits(shape: Mapping[str, Json], weights: Mapping[str, Array], images: Array) -> Array:
    """The network's answers in fp32."""
    with torch.no_grad():
        return np.array(build_net(dict(shape), dict(weights))(torch.from_numpy(images)).numpy())


def mean_loss(logits: Array, labels: Array, loop: Loop = PLAIN) -> float:
    """The mean cross entropy over all items."""
    outputs = loop.into_the_loss(torch.from_numpy(logits))
    return float(nn.functional.cross_entropy(outputs, torch.from_numpy(labels)))


def is_low_precision(values: Array, bits: int) -> bool:
    """Whether float32 values have only `bits` bits after the point of their mantissa: 7 in bf16, 10 in fp16."""
    if values.dtype != np.float32 or values.size == 0 or not np.isfinite(values).all():
        return False
    rest = np.ascontiguousarray(values).view(np.uint32) & np.uint32((1 << (23 - bits)) - 1)
    return not rest.any()
