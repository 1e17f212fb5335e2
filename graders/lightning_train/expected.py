"""What a right step of LitFashion computes, worked out on the trusted side from the logits that were seen in it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fixtures.pictures import balanced_labels, class_shapes
from lockstep.compare import elements, number
from lockstep.crossentropy import row_losses, softmax
from lockstep.sandbox.outcome import RankOutcome
from lockstep.wire import Array, Json

CLASSES = 10
MAX_SEEN = 32
SIDE = 28


@dataclass(frozen=True)
class Data:
    """Hidden pictures (n, 1, 28, 28) float32 from 0 to 1, as ToTensor makes them, and labels (n,) int64."""

    images: Array
    labels: Array

    def arrays(self) -> dict[str, Array]:
        """The data set as the probe is given it."""
        return {"images": self.images, "labels": self.labels}


def make_data(rng: np.random.Generator, n: int) -> Data:
    """`n` pictures of ten classes that are easily told apart."""
    labels = balanced_labels(rng, n)
    images = class_shapes(rng, labels)[:, None].astype(np.float32) / np.float32(255)
    return Data(images, labels.astype(np.int64))


def seen_in(rank: RankOutcome, step: str, size: int) -> dict[int, Array]:
    """What could be the logits in one step, by number; anything of another shape or not finite is left out."""
    found = {}
    for index in range(MAX_SEEN):
        array = rank.arrays.get(f"{step}/seen{index}")
        if array is not None and array.shape == (size, CLASSES) and array.dtype == np.float32:
            values = array.astype(np.float64)
            if np.isfinite(values).all():
                found[index] = values
    return found


def is_probabilities(values: Array) -> bool:
    """Whether every row is a distribution, as softmax makes one."""
    return bool((values >= 0).all() and np.allclose(values.sum(axis=1), 1, atol=1e-4))


def gradient(logits: Array, labels: Array, smoothing: float = 0.0) -> Array:
    """The gradient of the mean cross-entropy by the logits, with label smoothing as torch does it."""
    slope = softmax(logits) - smoothing / CLASSES
    slope[np.arange(len(labels)), labels] -= 1 - smoothing
    return np.asarray(slope / len(labels))


@dataclass(frozen=True)
class Found:
    """Which of the tensors seen in a step have the loss that was returned as their cross-entropy."""

    matching: tuple[int, ...]
    summed: bool


def find(seen: Mapping[int, Array], labels: Array, loss: float) -> Found:
    """Look for the logits that a loss may have been computed from; `summed`: it is a sum over the batch."""
    own = {index: row_losses(values, labels) for index, values in seen.items()}
    matching = tuple(index for index, each in own.items() if same_loss(loss, each.mean()))
    summed = any(same_loss(loss, each.sum()) for each in own.values())
    return Found(matching, summed)


def same_loss(loss: float, wanted: float) -> bool:
    """Whether a loss is the one that is wanted; low precision is off by as much."""
    return bool(abs(loss - wanted) <= 1e-4 + 1e-3 * abs(wanted))


def step_losses(rank: RankOutcome) -> list[float | None]:
    """The loss that each training step returned, None for what is no finite number."""
    steps = rank.values.get("steps")
    if not isinstance(steps, list):
        return []
    return [number(step.get("loss")) if isinstance(step, dict) else None for step in steps]


def strings(value: Json) -> list[str]:
    """The strings of a JSON list."""
    return [item for item in elements(value) if isinstance(item, str)]


def counts(value: Json, stage: str) -> list[int]:
    """The sizes of the batches of a stage; nothing when they are no sizes."""
    sizes = value.get(stage) if isinstance(value, dict) else None
    if not isinstance(sizes, list):
        return []
    return [size for size in sizes if isinstance(size, int) and not isinstance(size, bool) and size > 0]


Item = tuple[str, int]


def items(value: Json, stage: str) -> list[Item]:
    """Which pictures were read in a stage: the part of Fashion-MNIST and the number in it."""
    listed = value.get(stage) if isinstance(value, dict) else None
    found: list[Item] = []
    for entry in elements(listed):
        if isinstance(entry, list) and len(entry) == 2:
            part, index = entry
            if isinstance(part, str) and isinstance(index, int) and not isinstance(index, bool):
                found.append((part, index))
    return found


def hashes(value: Json, stage: str) -> list[Item]:
    """Pictures known by their content alone."""
    listed = value.get(stage) if isinstance(value, dict) else None
    return [("?", code) for code in elements(listed) if isinstance(code, int)]


def hash_of(picture: Array) -> int:
    """By what the probe knows a picture."""
    return int.from_bytes(hashlib.blake2b(picture.tobytes(), digest_size=6).digest(), "big")


def pictures(rank: RankOutcome, stage: str) -> list[Item]:
    """The pictures that reached a stage's steps: by their number where each was read for its step, else by content."""
    read = items(rank.values.get("items"), stage)
    if len(read) == sum(counts(rank.values.get("sizes"), stage)):
        return read
    return hashes(rank.values.get("hashes"), stage)


def mean_over(values: Sequence[Array]) -> float:
    """The mean of all values of several arrays."""
    return float(np.concatenate(list(values)).mean())


def mean_of_classes(answers: Sequence[Array], labels: Sequence[Array]) -> float:
    """The accuracy as torchmetrics' MulticlassAccuracy takes it by default: of each class, then their mean."""
    given, wanted = np.concatenate(list(answers)), np.concatenate(list(labels))
    met = np.union1d(given, wanted)
    right = [(given[wanted == label] == label).mean() if (wanted == label).any() else 0.0 for label in met]
    return float(np.mean(right))
