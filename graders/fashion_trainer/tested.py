"""Whether the network that a script evaluates on the test pictures is the one that it trained, and after it did."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from graders.fashion_trainer import expected
from graders.fashion_trainer.expected import Calls
from lockstep.check import Check
from lockstep.wire import Array

# Between two networks that began apart it is next to 0; of averages, copies and checkpoints it stays near 1.
LEAST_LIKENESS = 0.2


def after_training(check: Check, shown_call: str, found: Calls, parts: Mapping[str, Array]) -> None:
    """Test pictures went through a trained network.

    Nothing is said where pictures that are not recognised, turned ones for example, may be the test.
    """
    ends = np.cumsum([call.size for call in found.calls])[:-1]
    test, train = (
        np.split(expected.recognised(found.rows, parts[part]) >= 0, ends) for part in ("t10k", "train")
    )
    began = next((i for i, call in enumerate(found.calls) if call.trained), None)
    untrained = [i for i, call in enumerate(found.calls) if not call.trained]
    tests = [i for i in untrained if test[i].any()]
    if began is None or not tests:
        return
    later = [i for i in untrained if i > began]
    if not all((test[i] | train[i]).all() for i in later):
        return
    check.expect(
        tests[-1] > began,
        f"`{shown_call}` evaluated on the test pictures before it trained, and not again afterwards.",
        "First losses = train(model, ...), then accuracy = evaluate(model, ...).",
        points=check.points / 2,
    )
    likeness = [found.calls[i].likeness for i in tests if i > began]
    check.expect(
        any(one is None or one > LEAST_LIKENESS for one in likeness),
        f"`{shown_call}` evaluated another network on the test pictures than it trained: their weights have nothing in "
        "common.",
        "Make one FashionCNN() and hand it to both: train(model, ...), then evaluate(model, ...).",
        points=check.points / 2,
    )
