"""Calls the functions of `ddp_train.py` on every rank and records what they do; it knows no right answer.

What a rank records is its own: which rows reached the model, which gradients the optimizer saw, which
values came back. The judge compares the ranks with one another and with a training of its own.
"""

from __future__ import annotations

from .checkpoints import resume, save
from .ending import script_ends, tidy
from .evaluation import accuracy
from .group import join
from .launched import launch
from .losses import into_the_loss
from .nets import build_model
from .script import alone, broken, first_lr, goes_on, orders, places, resumes, together
from .training import shares, start, train

__all__ = [
    "accuracy",
    "alone",
    "broken",
    "build_model",
    "first_lr",
    "goes_on",
    "into_the_loss",
    "join",
    "launch",
    "orders",
    "places",
    "resume",
    "resumes",
    "save",
    "script_ends",
    "shares",
    "start",
    "tidy",
    "together",
    "train",
]
