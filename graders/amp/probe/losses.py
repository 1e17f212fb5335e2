"""Of which logits and labels a loss was computed: by torch's cross-entropy, or by arithmetic of the student's own."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from lockstep.crossentropy import row_losses
from lockstep.sandbox.probing import plain_tensor
from lockstep.wire import Array, Json

from .recorder import MAX_EVENTS, Recorder, at_home, scalar

# Where a loss by hand takes its logits, and where labels come into it.
_OF_LOGITS = "softmax log_softmax logsumexp binary_cross_entropy_with_logits".split()
_OF_LABELS: tuple[tuple[Any, str], ...] = (
    (torch.Tensor, "__getitem__"),
    (torch.Tensor, "gather"),
    (torch, "gather"),
    (torch.Tensor, "scatter_"),
    (torch.Tensor, "scatter"),
    (nn.functional, "one_hot"),
)


class LossRecorder(Recorder):
    """Keeps of every loss the batch it is about, and notes ["loss", value, mean].

    `value` is the scalar it came to, None where it is a number for each item; `mean` the mean cross-entropy of the
    batch. One that is computed for a log beside another that is derived is no loss. What is computed by hand is noted
    when it is scaled or derived, as a guess: guesses count in a run that derives no cross-entropy of torch's, so that a
    softmax for another purpose is not taken for a second loss.
    """

    def __init__(self) -> None:
        super().__init__()
        # In which types layers have answered since the last loss, where they are watched.
        self.answers: set[torch.dtype] = set()
        self._guessed: list[dict[str, Any]] = []
        self._logits: torch.Tensor | None = None
        self._labels: torch.Tensor | None = None

    def install(self) -> None:
        """As for one step, and the losses besides."""
        super().install()
        for name in ("cross_entropy", "nll_loss"):
            self._watch_loss(name)
        for owner in (torch, torch.Tensor, nn.functional):
            for name in _OF_LOGITS:
                if hasattr(owner, name):
                    self._watch_logits(owner, name)
        for owner, name in _OF_LABELS:
            self._watch_labels(owner, name)

    def note(self, *event: Json) -> None:
        """Add an event, and before it the loss by hand that is scaled or derived with it."""
        if event[0] in ("scale", "backward") and self._logits is not None and self._labels is not None:
            logits, self._logits = self._logits, None
            batch = self._batch(logits, self._labels, event[-1])
            if batch is not None and batch["mean"] is not None and len(self._guessed) < MAX_EVENTS:
                self._guessed.append(batch)
                super().note("guess", batch["loss"], batch["mean"])
        super().note(*event)

    def forget_losses(self) -> None:
        """Begin anew."""
        super().forget_losses()
        self._guessed.clear()
        self._logits = self._labels = None
        self.answers.clear()

    def settle(self) -> None:
        """Take the guesses where nothing else was derived, and drop them where something was."""
        self.drop_what_is_for_a_log()
        if not self._guessed or any(batch["derived"] for batch in self.batches):
            self.events[:] = [event for event in self.events if event[0] != "guess"]
        else:
            self.batches, self._guessed = self._guessed, []
            kept = [event for event in self.events if event[0] != "loss"]
            self.events[:] = [["loss", *event[1:]] if event[0] == "guess" else event for event in kept]

    def _watch_loss(self, name: str) -> None:
        original = getattr(nn.functional, name)

        def loss(input: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
            with self.within("loss") as outermost:
                value = original(input, target, *args, **kwargs)
                if outermost and torch.is_grad_enabled() and len(self.batches) < MAX_EVENTS:
                    self.drop_what_is_for_a_log()
                    batch = self._batch(input, target, scalar(value))
                    if batch is not None:
                        self.note_loss(value, batch, batch["loss"], batch["mean"])
                return value

        setattr(nn.functional, name, loss)

    def _watch_logits(self, owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def of_logits(input: Any, *args: Any, **kwargs: Any) -> Any:
            # In the forward of a torch.autograd.Function nothing requires a gradient.
            if isinstance(input, torch.Tensor) and input.dim() == 2:
                self._logits = input
            return original(input, *args, **kwargs)

        setattr(owner, name, of_logits)

    def _watch_labels(self, owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def of_labels(*args: Any, **kwargs: Any) -> Any:
            for value in (*args, *kwargs.values()):
                for part in value if isinstance(value, tuple) else (value,):
                    if _may_be_labels(part):
                        self._labels = part.reshape(-1)
            return original(*args, **kwargs)

        setattr(owner, name, of_labels)

    def _batch(self, logits: Any, labels: Any, value: Json) -> dict[str, Any] | None:
        """What is kept of a batch; None where these are no logits with a label for each."""
        rows, own = plain_tensor(at_home(logits)), plain_tensor(at_home(labels))
        if rows is None or own is None or rows.ndim != 2:
            return None
        if own.shape == rows.shape and own.dtype.kind == "f":
            own = own.argmax(axis=1)  # one-hot
        if own.shape != rows.shape[:1]:
            return None
        answers = sorted(map(str, self.answers))
        self.answers.clear()
        if not answers and self.batches and not self.batches[-1]["derived"]:
            # Of the same forward as the loss before it.
            answers = self.batches[-1]["answers"]
        return {
            "type": str(logits.dtype),
            "loss": value,
            "mean": _mean_cross_entropy(rows, own),
            "logits": rows,
            "labels": own,
            "answers": answers,
            "derived": False,
        }


def _may_be_labels(value: object) -> bool:
    if not isinstance(value, torch.Tensor) or value.dtype not in (torch.int64, torch.int32):
        return False
    return value.dim() == 1 or (value.dim() == 2 and value.shape[1] == 1)


def _mean_cross_entropy(logits: Array, labels: Array) -> float | None:
    """That of rows of logits; None where a label is of no class, as one that is to be ignored."""
    if (
        not len(labels)
        or labels.dtype.kind not in "iu"
        or labels.min() < 0
        or labels.max() >= logits.shape[1]
    ):
        return None
    mean = float(row_losses(logits, labels).mean())
    return mean if math.isfinite(mean) else None
