"""Hidden networks and batches, and what the bare network makes of them, computed on the trusted side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np
import torch

from graders.data_parallel.probe import build_model
from lockstep.wire import Array, Json

Shape = dict[str, Json]


def make_shape(rng: np.random.Generator) -> Shape:
    """The measures of a hidden network."""
    return {
        "channels": int(rng.integers(1, 4)),
        "side": int(rng.integers(5, 8)),
        "hidden": int(rng.integers(6, 13)),
        "classes": int(rng.integers(5, 12)),
    }


def make_weights(rng: np.random.Generator, shape: Shape) -> dict[str, Array]:
    """Weights small enough that no tanh saturates: a wrong output must show."""
    weights = {}
    for name, value in build_model(shape).state_dict().items():
        fan_in = value[0].numel() if value.ndim > 1 else 1
        drawn = rng.standard_normal(tuple(value.shape)) / np.sqrt(fan_in)
        weights[name] = drawn.astype(np.float32)
    return weights


def make_batches(rng: np.random.Generator, shape: Shape, sizes: list[int]) -> dict[str, Array]:
    """Batches of so many pictures each, under the names the probe looks for."""
    side, channels = cast(int, shape["side"]), cast(int, shape["channels"])
    return {
        f"batch/{number}": rng.standard_normal((size, channels, side, side)).astype(np.float32)
        for number, size in enumerate(sizes)
    }


def outputs(shape: Shape, weights: Mapping[str, Array], batch: Array) -> Array:
    """The bare network's logits."""
    with torch.no_grad():
        result: Array = build_model(shape, dict(weights))(torch.from_numpy(batch)).numpy()
    return result


def as_inputs(weights: Mapping[str, Array]) -> dict[str, Array]:
    """Weights under the names the probe looks for."""
    return {f"model/{name}": value for name, value in weights.items()}
