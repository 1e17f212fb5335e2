"""How a loop over batches is written: as asked, or with slips that have nothing to do with what a check is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Loop:
    """What is done with each batch.

    `softmax` stands before the cross-entropy, as some course texts have it. Without `clears` no gradient is ever set to
    zero. Whoever trains like that is told so by one check, and the others judge the training that there is.
    """

    softmax: bool = False
    clears: bool = True

    def into_the_loss(self, logits: Tensor) -> Tensor:
        """What the cross-entropy is given of a batch, as (batch, classes)."""
        return logits.softmax(1) if self.softmax else logits


PLAIN, SOFTMAX, UNCLEARED = Loop(), Loop(softmax=True), Loop(clears=False)
LOOPS = (PLAIN, SOFTMAX, UNCLEARED, Loop(softmax=True, clears=False))
"""All of them, what is asked for first."""

SOFTMAX_HINT = (
    "Hand the model's output to the criterion as it is. Some course texts show this softmax; nn.CrossEntropyLoss takes "
    "logits and does log_softmax itself."
)
CLEAR_HINT = (
    "Call optimizer.zero_grad() once for each batch, before backward: backward adds to what is in .grad."
)
