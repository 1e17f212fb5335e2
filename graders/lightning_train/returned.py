"""What training_step returned: one number for the batch, with its graph, or else what is said of it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from lockstep.check import Check
from lockstep.text import safe
from lockstep.wire import Json

LOSS_HINT = (
    "training_step has to return the mean cross-entropy of the batch, with its graph: "
    "`return F.cross_entropy(self(images), labels)`. An accuracy is no loss: nothing can be derived of it."
)


def is_one_number(check: Check, step: Mapping[str, Json]) -> None:
    """End the check where what came of a step as its loss is no tensor of one number."""
    what, output = step.get("loss_is"), step.get("output")
    returned = safe(output, 80) if isinstance(output, str) else "something else"
    loss = safe(what, 80) if isinstance(what, str) else "something else"
    check.expect(
        what != "None",
        f"training_step returned {returned}. Without a loss Lightning skips the batch: nothing is trained, and no "
        "error tells of it.",
        "End training_step with `return loss`, or with a dict that has the key 'loss'.",
    )
    check.expect(
        isinstance(what, str) and "tensor" in what,
        f"training_step returned {loss} as the loss, expected a tensor.",
        "Return the loss itself: loss.item() and float(loss) are numbers without a graph, good for printing only.",
    )
    shape = re.search(r"of shape (\d+(?:x\d+)*)", loss)
    check.expect(
        shape is None or set(shape[1].split("x")) == {"1"},
        f"training_step returned {loss} as the loss, expected one number for the batch.",
        "Return the mean: leave out reduction='none', or write `return loss.mean()`.",
    )
