"""Calls `train_step` and runs `amp_train.py`, and records what they do; it knows no right answer.

What is recorded: the types that reached the layers, the order of the scaler's calls, the weights after each
step, what every training batch came to, and the log files as they are on the disk.
"""

from __future__ import annotations

from .nets import build_net
from .searching import search, search_on_gpu
from .stepping import built, fetch, steps
from .training import train, until_the_loss

__all__ = ["build_net", "built", "fetch", "search", "search_on_gpu", "steps", "train", "until_the_loss"]
