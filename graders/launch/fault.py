"""What is wrong with what a script started, as a sentence and a next step, and how far the script came."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

TRAINING = "ddp_train.py"
# Seconds; a limit below is one that was read otherwise than it was meant.
SHORTEST = 60
# Bytes; what torch does not fit into with a ResNet-18, its gradients and its optimizer.
LEAST_TO_TRAIN = 128 << 20
CONTINUATION = (
    "A backslash continues a line only as its very last character: nothing may follow it, not even a space or "
    "a comment, and the next line must belong to the command."
)


class Stage(IntEnum):
    """How far a script came; the fault of the furthest way to run it is the one worth telling."""

    ENDLESS = 0
    NOTHING = 1
    NO_TORCHRUN = 2
    UNREADABLE = 3
    NUMBERS = 4
    SCRIPT = 5
    MEETING = 6


@dataclass(frozen=True)
class Fault:
    """A message, a hint, and how far the script came."""

    stage: Stage
    message: str
    hint: str


def plural(count: int) -> str:
    """The ending of a word that is counted."""
    return "" if count == 1 else "s"
