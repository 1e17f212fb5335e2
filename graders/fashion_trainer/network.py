"""Whether the network that a script trains is the convolutional one that the exercise hands out."""

from __future__ import annotations

from graders.fashion_trainer.expected import Calls
from graders.fashion_trainer.loops import LEAST_BATCHES
from lockstep.check import Check


def convolves(check: Check, shown_call: str, found: Calls) -> None:
    """Not all that was trained is matrices alone. Of a network that is made of other things nothing is said."""
    trained = [call for call in found.calls if call.trained]
    check.expect(
        len(trained) < LEAST_BATCHES or not all(call.dense for call in trained),
        f"`{shown_call}` trained a network without any convolution: to it each picture is a row of numbers, in which "
        "no pixel has neighbours.",
        "Train FashionCNN() as it is handed out, with its two convolutional blocks.",
        points=0.75 * check.points,
    )
