"""What a correct training does, computed on the trusted side from inputs the sandbox could not predict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import nn

from graders.ddp_train import accuracies
from graders.ddp_train.probe import build_model
from lockstep.batchloop import PLAIN, Loop
from lockstep.compare import integer
from lockstep.sandbox.outcome import RankOutcome
from lockstep.wire import Array, Json

Shape = dict[str, Json]
BATCH_SIZE = 4  # of a rank, where a check asks for no other
# One rank's batch: the numbers of the items in it.
Batch = tuple[int, ...]


@dataclass(frozen=True)
class Data:
    """A hidden data set: images (n, 3, side, side) float32 and labels (n,) int64."""

    images: Array
    labels: Array

    def find(self, rows: Array) -> list[int] | None:
        """The numbers of the items that these rows are, or None when a row is none of them."""
        flat = np.ascontiguousarray(self.images.reshape(len(self.images), -1))
        if rows.ndim != 2 or rows.dtype != flat.dtype or rows.shape[1] != flat.shape[1]:
            return None
        known = {row.tobytes(): number for number, row in enumerate(flat)}
        found = [known.get(row.tobytes(), -1) for row in np.ascontiguousarray(rows)]
        return None if -1 in found else found

    def arrays(self) -> dict[str, Array]:
        """The data set as the probe is given it."""
        return {"images": self.images, "labels": self.labels}


def make_data(rng: np.random.Generator, n: int) -> Data:
    """`n` images that are all different."""
    images = rng.standard_normal((n, 3, 4, 4)).astype(np.float32)
    return Data(images, rng.integers(0, 10, n))


def make_shape(
    rng: np.random.Generator, *, batch_norm: bool = False, hidden: int | None = None, dropout: float = 0.0
) -> Shape:
    """The measures of a hidden network."""
    return {
        "features": 48,
        "hidden": int(hidden or rng.integers(9, 20)),
        "classes": 10,
        "batch_norm": batch_norm,
        "dropout": dropout,
    }


def make_weights(rng: np.random.Generator, shape: Shape) -> dict[str, Array]:
    """Parameters and buffers of a hidden network; shared weights are shared."""
    model = build_model(shape)
    weights: dict[str, Array] = {}
    for name, value in model.state_dict().items():
        if value.dtype == torch.int64:
            weights[name] = np.array(value.numpy())
            continue
        drawn = rng.standard_normal(tuple(value.shape)) * (0.3 if value.ndim > 1 else 0.1)
        if name.endswith("running_var") or name in ("scale", "norm.weight", "lens"):
            drawn = 1 + np.abs(drawn)
        weights[name] = drawn.astype(np.float32)
    weights["again.weight"] = weights["middle.weight"]
    return weights


def make_weights_of_ranks(rng: np.random.Generator, shape: Shape, world: int) -> list[dict[str, Array]]:
    """Parameters for each rank, and the same buffers for all: not every DistributedDataParallel hands those out."""
    buffers = {name for name, _ in build_model(shape).named_buffers()}
    first, *others = (make_weights(rng, shape) for _ in range(world))
    return [first, *({**own, **{name: first[name] for name in buffers}} for own in others)]


def halved(shape: Shape, weights: Mapping[str, Array]) -> dict[str, Array]:
    """Half of every parameter, and the buffers as they are."""
    buffers = {name for name, _ in build_model(shape).named_buffers()}
    return {name: value if name in buffers else value / 2 for name, value in weights.items()}


def make_labelled_data(
    rng: np.random.Generator, shape: Shape, weights: dict[str, Array], n: int, world: int | None = None
) -> Data:
    """Data with clear answers, of which about two thirds are right, the first ones among them.

    Shared out to `world` ranks, those right answers tell a mean over batches from one over items.
    """
    data = make_data(rng, 40 * n)
    logits = Training(shape, weights, lr=0, momentum=0).logits(data.images)
    ordered = np.sort(logits, axis=1)
    clear = np.argsort(ordered[:, -2] - ordered[:, -1])[:n]
    answers = logits[clear].argmax(1)

    def draw() -> Array:
        return ~np.isin(np.arange(n), rng.permutation(np.arange(min(4, n - 1), n))[: n // 3])

    wrong = ~(draw() if world is None else accuracies.telling(draw, world, BATCH_SIZE))
    labels = answers.copy()
    labels[wrong] = (answers[wrong] + 1 + rng.integers(0, 9, wrong.sum())) % 10
    return Data(data.images[clear], labels.astype(np.int64))


def as_inputs(weights: Mapping[str, Array]) -> dict[str, Array]:
    """Weights under the names the probe looks for."""
    return {f"model/{name}": value for name, value in weights.items()}


def batches(rank: RankOutcome, data: Data) -> list[Batch] | None:
    """The batches that reached this rank's model, or None when something else than its items did."""
    sizes = rank.values.get("sizes")
    rows = rank.arrays.get("rows")
    if not isinstance(sizes, list) or rows is None or rows.ndim == 0:
        return None
    counts = [integer(size) for size in sizes]
    if any(count is None or count <= 0 for count in counts) or sum(filter(None, counts)) != len(rows):
        return None
    found = data.find(rows) if len(rows) else []
    if found is None:
        return None
    result, start = [], 0
    for count in filter(None, counts):
        result.append(tuple(found[start : start + count]))
        start += count
    return result


def is_mixed(seen: Array | None, parts: Sequence[Array], own: int) -> bool:
    """Whether an array is a sum of multiples of `parts`, and each but number `own` weighs a tenth of it or more."""
    if (
        seen is None
        or seen.shape != parts[0].shape
        or seen.dtype != np.float32
        or not np.isfinite(seen).all()
    ):
        return False
    columns = np.stack([part.ravel() for part in parts], axis=1).astype(np.float64)
    wanted = seen.ravel().astype(np.float64)
    if len(wanted) <= 2 * len(parts):
        return False  # anything is a sum of enough parts
    weights = np.linalg.lstsq(columns, wanted, rcond=None)[0]
    size = np.linalg.norm(wanted)
    shares = np.abs(weights) * np.linalg.norm(columns, axis=0)
    others = np.delete(shares, own)
    return bool(np.linalg.norm(columns @ weights - wanted) < 1e-2 * size and (others > 0.1 * size).all())


def mean_over_ranks(local: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """The mean of the arrays that each rank has under one name."""
    return {
        name: np.asarray(np.mean([own[name] for own in local], axis=0, dtype=np.float32)) for name in local[0]
    }


class Training:
    """A training in one process on the batches of all ranks: what DDP promises to be equal to."""

    def __init__(
        self,
        shape: Shape,
        weights: Mapping[str, Array],
        *,
        lr: float,
        momentum: float,
        smoothing: float = 0.0,
        loop: Loop = PLAIN,
    ) -> None:
        self._begun = shape, dict(weights)
        self.model = build_model(*self._begun)
        self.model.train()
        self._loop = loop
        self._kept: dict[str, Array] = {}
        self._lr, self._momentum = lr, momentum
        self._criterion = nn.CrossEntropyLoss(label_smoothing=smoothing)
        self._velocity: dict[str, torch.Tensor] = {}

    def anew(self, loop: Loop) -> Training:
        """A training that begins where this one began, with another loop."""
        return Training(
            *self._begun,
            lr=self._lr,
            momentum=self._momentum,
            smoothing=self._criterion.label_smoothing,
            loop=loop,
        )

    def local_gradients(self, data: Data, batch: Batch) -> dict[str, Array]:
        """The gradient of the mean loss of one batch at the present weights, by parameter."""
        self.model.zero_grad(set_to_none=True)
        outputs = self._outputs(data, batch)
        self._criterion(outputs, torch.from_numpy(data.labels[list(batch)])).backward()
        return {n: np.array(v.grad.numpy()) for n, v in self.model.named_parameters() if v.grad is not None}

    def _outputs(self, data: Data, batch: Batch) -> torch.Tensor:
        """What the loss is given of a batch."""
        return self._loop.into_the_loss(self.model(torch.from_numpy(data.images[list(batch)])))

    def run(self, data: Sequence[Data], steps: Iterable[Sequence[Batch]]) -> Self:
        """Make these steps, and return itself."""
        for ranks in steps:
            self.step(data, ranks)
        return self

    def step(self, data: Sequence[Data], ranks: Sequence[Batch]) -> None:
        """One step on one batch per rank; the gradient is the mean over the ranks."""
        # SGD with momentum by hand: making an optimizer of torch's imports its compiler, a second of nothing.
        parameters: dict[str, torch.Tensor] = dict(self.model.named_parameters())
        gradients = self.gradients(data, ranks)
        with torch.no_grad():
            for name, value in gradients.items():
                gradient = torch.from_numpy(value)
                before = self._velocity.get(name)
                velocity = gradient if before is None else self._momentum * before + gradient
                self._velocity[name] = velocity
                parameters[name] -= self._lr * velocity

    def gradients(self, data: Sequence[Data], ranks: Sequence[Batch]) -> dict[str, Array]:
        """What an optimizer sees of one batch per rank: the mean over the ranks, and what was kept of earlier ones."""
        local = [self.local_gradients(own, batch) for own, batch in zip(data, ranks, strict=True) if batch]
        seen = mean_over_ranks(local)
        if not self._loop.clears:
            seen = {name: value + self._kept.get(name, np.float32(0)) for name, value in seen.items()}
            self._kept = seen
        return seen

    def as_a_new_process(self) -> None:
        """Forget what no checkpoint holds: gradients that were never cleared."""
        self._kept = {}

    def weights(self) -> dict[str, Array]:
        """Parameters, by name."""
        return {name: value.detach().numpy().copy() for name, value in self.model.named_parameters()}

    def buffers(self) -> dict[str, Array]:
        """Buffers, by name."""
        return {name: value.detach().numpy().copy() for name, value in self.model.named_buffers()}

    def state(self) -> dict[str, Array]:
        """Weights and buffers, by name: what a model holds in the end."""
        return {**self.weights(), **self.buffers()}

    def losses(self, data: Data, batch: Batch) -> Array:
        """The loss of each item at the present weights."""
        with torch.no_grad():
            loss = nn.functional.cross_entropy(
                self._outputs(data, batch), torch.from_numpy(data.labels[list(batch)]), reduction="none"
            )
        return np.array(loss.numpy())

    def logits(self, images: Array) -> Array:
        """The network's answers in evaluation mode."""
        self.model.eval()
        with torch.no_grad():
            answers = self.model(torch.from_numpy(images)).numpy()
        self.model.train()
        return np.array(answers)
