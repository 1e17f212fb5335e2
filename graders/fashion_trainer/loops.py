"""What a script's own loops do, where it does not use train and evaluate: modes, steps, gradients that are cleared."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from graders.fashion_trainer import expected
from graders.fashion_trainer.expected import Calls
from lockstep.check import Check
from lockstep.compare import integer
from lockstep.sandbox.outcome import RankOutcome
from lockstep.wire import Array

# Somebody may run a batch or two before the training, to see whether the code works.
LEAST_BATCHES = 3


def learns(check: Check, shown_call: str, seen: RankOutcome, found: Calls) -> None:
    """Somebody wrote to the weights between the first backward pass and the end of the run.

    Nothing is said where gradients were kept from batch to batch: they may have been summed up for a step that was to
    come later. Nor where the network was called with other weights than its own, as functional code does.
    """
    trained = [call for call in found.calls if call.trained]
    began = next((i for i, call in enumerate(found.calls) if call.trained), len(found.calls))
    states = {call.weights for call in found.calls[began:]}
    if seen.values.get("script/written") is not False or not _all_seen(seen) or None in states:
        return
    check.expect(
        len(states) != 1 or sum(call.gradient == "gone" for call in trained) < LEAST_BATCHES,
        f"`{shown_call}` ran {len(trained)} batches forward and backward, and wrote to no weight of the network: it "
        "knows as little as at the start.",
        "After loss.backward() comes optimizer.step(), for every batch: only that changes the weights.",
        points=check.points / 2,
    )


def tests_what_learned(
    check: Check, shown_call: str, seen: RankOutcome, found: Calls, parts: Mapping[str, Array]
) -> None:
    """It is not a copy that was trained while the network it was made from is tested, untrained.

    A best checkpoint or an average of weights may be what the training began with, too: there the copy is tested.
    """
    test, known = _shows(found, parts)
    began = next((i for i, call in enumerate(found.calls) if call.trained), None)
    if began is None or not _all_seen(seen):
        return
    trained = [call for call in found.calls if call.trained]
    later = [i for i, call in enumerate(found.calls) if i > began and not call.trained]
    first = found.calls[began].weights
    if not later or first is None or not all(known[i].all() for i in later):
        return
    untouched = all(found.calls[i].weights == first and found.calls[i].copied is False for i in later)
    moved = all(call.copied is True for call in trained) and any(call.weights != first for call in trained)
    check.expect(
        not (untouched and moved and any(test[i].any() for i in later)),
        f"`{shown_call}` trained a copy of the network, and evaluated the one it was copied from on the test pictures: "
        "every weight of that is what it was before the training.",
        "Hand the same network to both: train(model, ...), then evaluate(model, ...).",
        points=check.points / 2,
    )


def in_their_modes(
    check: Check, shown_call: str, seen: RankOutcome, found: Calls, parts: Mapping[str, Array]
) -> None:
    """A script trains in training mode, and a pass over test pictures is in evaluation mode or without gradients."""
    if not _all_seen(seen):
        return
    trained = [call for call in found.calls if call.trained]
    asleep = [call for call in trained if call.modal and not call.training]
    check.expect(
        len(trained) < LEAST_BATCHES or len(asleep) < len(trained),
        f"`{shown_call}` trained in evaluation mode, in all of its {len(trained)} batches: dropout was off, and batch "
        "norm learned nothing.",
        "Call model.train() at the start of every epoch: evaluate() leaves the model in evaluation mode.",
        points=check.points / 2,
    )
    test, known = _shows(found, parts)
    untrained = [i for i, call in enumerate(found.calls) if not call.trained]
    tests = [i for i in untrained if test[i].any()]
    numbers = expected.recognised(found.rows, parts["t10k"])
    whole = len(np.unique(numbers[numbers >= 0])) == len(parts["t10k"])
    if not trained or not tests or not whole or not all(known[i].all() for i in untrained):
        return
    check.expect(
        not all(found.calls[i].modal and found.calls[i].training and found.calls[i].grad for i in tests),
        f"`{shown_call}` called the network on the test pictures in training mode alone, with dropout on and batch "
        "norm as in training, and not under torch.no_grad().",
        "Let the script use evaluate(model, test_loader, device), or begin its own loop with model.eval() and "
        "`with torch.no_grad():`.",
        points=check.points / 2,
    )


def clears_gradients(check: Check, shown_call: str, found: Calls) -> None:
    """After most steps the gradients that they were made with are gone before the next ones are added."""
    stepped = [call for call in found.calls if call.stepped]
    late = sum(call.gradient == "kept" for call in stepped)
    check.expect(
        late < LEAST_BATCHES or 2 * late <= len(stepped),
        f"`{shown_call}`: after {late} of {len(stepped)} steps the gradients that they were made with were still "
        "there, and those of the next batch were added to them.",
        "backward() adds to what is in .grad: call optimizer.zero_grad() for every step.",
        points=check.points / 2,
    )


def _all_seen(seen: RankOutcome) -> bool:
    """Whether every call of a network was noted; that of a `forward` by name is seen by those of the layers in it."""
    return integer(seen.values.get("other_calls")) == 0


def _shows(found: Calls, parts: Mapping[str, Array]) -> tuple[list[Array], list[Array]]:
    """Of each call's pictures, which are test pictures, and which are of either set."""
    ends = np.cumsum([call.size for call in found.calls])[:-1]
    test, train = (expected.recognised(found.rows, parts[part]) >= 0 for part in ("t10k", "train"))
    return np.split(test, ends), np.split(test | train, ends)
