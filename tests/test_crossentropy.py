"""The cross-entropy that judges work out is torch's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from lockstep.crossentropy import row_losses, softmax

ROWS, CLASSES = 40, 10


@pytest.mark.parametrize("scale", [0.1, 3.0, 1000.0])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
def test_the_losses_of_rows_are_those_of_torch(scale: float, smoothing: float) -> None:
    rng = np.random.default_rng(1)
    logits = (scale * rng.normal(size=(ROWS, CLASSES))).astype(np.float32)
    labels = rng.integers(0, CLASSES, ROWS)
    wanted = functional.cross_entropy(
        torch.from_numpy(logits).double(),
        torch.from_numpy(labels),
        reduction="none",
        label_smoothing=smoothing,
    )
    assert np.allclose(row_losses(logits, labels, smoothing), wanted.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("scale", [0.1, 1000.0])
def test_softmax_is_that_of_torch(scale: float) -> None:
    logits = (scale * np.random.default_rng(2).normal(size=(ROWS, CLASSES))).astype(np.float32)
    wanted = torch.from_numpy(logits).double().softmax(dim=1)
    assert np.allclose(softmax(logits), wanted.numpy(), rtol=1e-12, atol=1e-12)
