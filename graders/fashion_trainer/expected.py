"""What a correct trainer does, computed on the trusted side from inputs the sandbox could not predict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from graders.fashion_trainer.probe import PIXELS, build_model
from lockstep.compare import integer, number
from lockstep.sandbox.outcome import RankOutcome
from lockstep.wire import Array, Json

Shape = dict[str, Json]
# Pixels of this size make plain SGD learn as quickly as Adam, so that the choice of optimizer stays free.
SCALE = 0.7
# Half precision on a GPU is fine; the mistakes differ by more.
CLOSE_LOGITS = {"rtol": 0.05, "atol": 0.05}


@dataclass(frozen=True)
class Data:
    """Hidden pictures: images (n, 1, 28, 28) float32 and labels (n,) int64."""

    images: Array
    labels: Array

    def arrays(self, part: str) -> dict[str, Array]:
        """The data as the probe is given it."""
        return {f"{part}/images": self.images, f"{part}/labels": self.labels}

    def labels_of(self, rows: Array) -> Array | None:
        """The labels of the pictures that these rows are, or None when a row is none of them."""
        flat = np.ascontiguousarray(self.images.reshape(len(self.images), -1))
        known = {row.tobytes(): label for row, label in zip(flat, self.labels, strict=True)}
        found = [known.get(row.tobytes(), -1) for row in np.ascontiguousarray(rows)]
        return None if -1 in found else np.array(found, dtype=np.int64)


@dataclass(frozen=True)
class Call:
    """One call of the network: how many pictures, where, in which mode, and whether backward came through it.

    `loss` is what that backward pass began at, where it was seen, and `loss_device` where it was worked out, if by
    torch's cross-entropy. `likeness` is the cosine between the network's weights and those of the trained one they are
    most like, where there is one to compare them with.

    Of a script only: `weights` is a number for the values that the network's weights had, `copied` whether they are
    a copy's; `modal` whether a layer is in it for which the mode matters, `dense` whether it is matrices alone.
    `gradient` says what stood where backward added: nothing at the `first` pass, later what the one before had left
    (`kept`), something else (`changed`), or nothing (`gone`); `stepped` whether an optimizer's step lay between.
    """

    size: int
    device: str
    training: bool
    grad: bool
    trained: bool
    loss: float | None = None
    loss_device: str = ""
    likeness: float | None = None
    weights: int | None = None
    copied: bool | None = None
    modal: bool = False
    dense: bool = False
    gradient: str = ""
    stepped: bool = False


@dataclass(frozen=True)
class Calls:
    """The calls of a network in their order; rows and logits of all of them, one after the other."""

    calls: tuple[Call, ...]
    rows: Array
    logits: Array

    def only(self, *, trained: bool) -> Calls:
        """The calls that backward came through, or the others."""
        keep = np.repeat([call.trained is trained for call in self.calls], [c.size for c in self.calls])
        mask = keep.astype(bool)
        kept = tuple(call for call in self.calls if call.trained is trained)
        return Calls(kept, self.rows[mask], self.logits[mask])


class Patterns:
    """Ten classes that a small network tells apart: each a pattern of its own, under noise."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._patterns = rng.standard_normal((10, PIXELS)) * SCALE

    def draw(self, n: int, *, mislabelled: float = 0.0, tail: int = 0) -> Data:
        """`n` pictures; a share `mislabelled` of them, and the last `tail`, carry another class's label."""
        classes = self._rng.permutation(np.arange(n) % 10)
        images = self._patterns[classes] + SCALE * self._rng.standard_normal((n, PIXELS))
        wrong = self._rng.random(n) < mislabelled
        wrong[n - tail :] = True
        labels = np.where(wrong, (classes + self._rng.integers(1, 10, n)) % 10, classes)
        return Data(images.reshape(n, 1, 28, 28).astype(np.float32), labels)


def make_shape(rng: np.random.Generator, *, batch_norm: bool = False, dropout: float = 0.0) -> Shape:
    """The measures of a hidden network."""
    return {"hidden": int(rng.integers(14, 24)), "batch_norm": batch_norm, "dropout": dropout}


def make_weights(rng: np.random.Generator, shape: Shape) -> dict[str, Array]:
    """Parameters and buffers of a hidden network."""
    weights: dict[str, Array] = {}
    for name, value in build_model(shape).state_dict().items():
        if value.dtype == torch.int64:
            weights[name] = np.array(value.numpy())
            continue
        # So that no tanh is saturated from the start: the inputs' length is about SCALE * sqrt(2 * PIXELS).
        size = 0.5 / (SCALE * np.sqrt(2 * PIXELS)) if name == "first.weight" else 0.3
        drawn = rng.standard_normal(tuple(value.shape)) * size
        if name in ("norm.weight", "norm.running_var"):
            drawn = 1 + np.abs(drawn)
        weights[name] = drawn.astype(np.float32)
    return weights


def as_inputs(weights: Mapping[str, Array]) -> dict[str, Array]:
    """Weights under the names the probe looks for."""
    return {f"model/{name}": value for name, value in weights.items()}


def state(seen: RankOutcome, prefix: str, like: Mapping[str, Array]) -> dict[str, Array] | None:
    """Weights that came back, or None when one is missing or no finite array of the right shape."""
    found: dict[str, Array] = {}
    for name, wanted in like.items():
        value = seen.arrays.get(f"{prefix}/{name}")
        if value is None or value.shape != wanted.shape or value.dtype != wanted.dtype:
            return None
        if not np.all(np.isfinite(value)):
            return None
        found[name] = value
    return found


def noted(seen: RankOutcome, prefix: str) -> tuple[Call, ...] | None:
    """The calls of a network as the probe noted them, or None when that is no such note."""
    notes = seen.values.get(f"{prefix}/calls")
    if not isinstance(notes, list):
        return None
    found = [_call(one) for one in notes]
    good = tuple(call for call in found if call is not None)
    return good if len(good) == len(found) else None


def calls(seen: RankOutcome, prefix: str) -> Calls | None:
    """The same with what went in and came out, or None when the two do not belong together."""
    good = noted(seen, prefix)
    rows, logits = seen.arrays.get(f"{prefix}/rows"), seen.arrays.get(f"{prefix}/logits")
    if good is None or rows is None or logits is None:
        return None
    total = sum(call.size for call in good)
    if rows.shape != (total, PIXELS) or logits.shape != (total, 10):
        return None
    if rows.dtype != np.float32 or logits.dtype != np.float32 or not np.all(np.isfinite(logits)):
        return None
    return Calls(good, rows, logits)


def _call(note: Json) -> Call | None:
    if not isinstance(note, dict):
        return None
    size, device = integer(note.get("size")), note.get("device")
    flags = [note.get(name) for name in ("training", "grad", "trained")]
    if size is None or not 0 < size <= 1 << 20 or not isinstance(device, str):
        return None
    if not all(isinstance(flag, bool) for flag in flags):
        return None
    loss, likeness = number(note.get("loss")), number(note.get("likeness"))
    copied, gradient, loss_device = (note.get(name) for name in ("copied", "gradient", "loss_device"))
    return Call(
        size,
        device,
        training=flags[0] is True,
        grad=flags[1] is True,
        trained=flags[2] is True,
        loss=loss,
        loss_device=loss_device if isinstance(loss_device, str) else "",
        likeness=likeness,
        weights=integer(note.get("weights")),
        copied=copied if isinstance(copied, bool) else None,
        modal=note.get("modal") is True,
        dense=note.get("dense") is True,
        gradient=gradient if isinstance(gradient, str) else "",
        stepped=note.get("stepped") is True,
    )


def logits_of(shape: Shape, weights: Mapping[str, Array], rows: Array) -> Array:
    """The network's answers in evaluation mode, in double precision."""
    model = build_model(shape, dict(weights)).double().eval()
    with torch.no_grad():
        answers = model(torch.from_numpy(rows.astype(np.float64).reshape(len(rows), -1)))
    return np.array(answers.numpy())


def mislabelled_last(data: Data, count: int, logits: Array) -> Data:
    """The same pictures; the last `count` get the wrong label that these logits of theirs rank last."""
    wrong, labels = logits.copy(), data.labels.copy()
    wrong[np.arange(count), labels[-count:]] = np.inf
    labels[-count:] = wrong.argmin(axis=1)
    return Data(data.images, labels)


def right_answers(logits: Array, labels: Array) -> tuple[int, int]:
    """The least and the most right answers: two logits within rounding may be ordered either way."""
    own = logits[np.arange(len(labels)), labels]
    others = logits.copy()
    others[np.arange(len(labels)), labels] = -np.inf
    ahead = own - others.max(axis=1)
    return int(np.count_nonzero(ahead > 1e-4)), int(np.count_nonzero(ahead > -1e-4))


def recognised(rows: Array, pictures: Array) -> Array:
    """For each row, the number of the picture (uint8) that it shows, or -1; brightness and contrast are free."""
    if not len(rows):
        return np.zeros(0, dtype=np.int64)
    like = likeness(rows, pictures.reshape(len(pictures), -1))
    best = like.argmax(axis=1)
    return np.where(like[np.arange(len(rows)), best] > 0.995, best, -1)


def likeness(rows: Array, others: Array) -> Array:
    """The correlation of each row with each of the others: 1 where they differ in brightness and contrast alone."""
    return np.array(_standardised(rows) @ _standardised(others).T / PIXELS)


def _standardised(rows: Array) -> Array:
    values = np.nan_to_num(rows.astype(np.float64), posinf=0.0, neginf=0.0)
    centred = values - values.mean(axis=1, keepdims=True)
    return np.array(centred / np.maximum(centred.std(axis=1, keepdims=True), 1e-12))
