"""What a Trainer does beside its training, which no check is about."""

from __future__ import annotations

import pytorch_lightning as pl
from pytorch_lightning.trainer.states import TrainerFn
from pytorch_lightning.tuner.lr_finder import _LRCallback


def is_besides(trainer: pl.Trainer, stage: str, seen: int) -> bool:
    """Whether this is a search for a learning rate, or a look at the accuracy after a fit that has validated.

    Or an epoch without a backward, in which batch norm takes the statistics of averaged weights, as Lightning's
    StochasticWeightAveraging adds one. `seen` counts what was validated before.
    """
    if stage == "train" and trainer.fit_loop._skip_backward:
        return True
    looks = stage == "val" and trainer.state.fn is not TrainerFn.FITTING and seen > 0
    return looks or any(isinstance(each, _LRCallback) for each in trainer.callbacks)  # type: ignore[attr-defined]
