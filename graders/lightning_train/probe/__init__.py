"""Trains the student's LightningModule, runs their script, and records what Lightning sees; it knows no right answer.

Recording sits where Lightning calls student code (`Strategy.training_step` and `validation_step`, `Trainer.fit`,
`LightningModule.log`), so that it does not matter how that code is built.
"""

from __future__ import annotations

from .fitting import found, on_gpu, train
from .running import imported, script
from .trainer import flags

__all__ = ["flags", "found", "imported", "on_gpu", "script", "train"]
