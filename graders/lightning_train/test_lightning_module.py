"""The judge of exercise 5, the module: its training step and its optimizer. Whether it learns has a judge of its own.

Where a loss is judged, what was seen are the tensors that could be the logits, and what is right is worked out here
from them and from the labels. How the student's code is built plays no part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from fixtures import fashion_mnist
from graders.lightning_train import expected, smoothing
from graders.lightning_train.expected import Data
from graders.lightning_train.returned import LOSS_HINT, is_one_number
from graders.lightning_train.runs import train
from lockstep.check import Check
from lockstep.compare import elements, number
from lockstep.devicefault import is_device_fault
from lockstep.text import few_names, safe
from lockstep.verdict import CheckEnded, Crashed
from lockstep.wire import Array, Json

MOST_BATCHES = 32  # for one step, where gradients are added up
LOOPED, SMALL_BATCH = 16, 4  # batches that no_manual_loop looks at, and pictures in each


def test_training_step_loss(check: Check) -> None:
    """training_step returns the cross-entropy of the batch, and gradients flow from it."""
    try:
        found = check.run("found").ranks[0]
        check.expect(
            found.values.get("is_class") is True,
            "LitFashion is not a class derived from LightningModule.",
            "class LitFashion(pl.LightningModule): ...",
        )
    except CheckEnded as ended:
        # Without the class every other check would only say the same.
        ended.spoils = True
        raise
    # As large as batches are: every picture of one counts.
    size = int(check.rng.integers(40, 65))
    data = expected.make_data(check.rng, size + 8)
    outcome = train(check, data, split=size, batch_size=size, stop_after=1)
    seen = outcome.ranks[0]
    first = _first(check, seen.values.get("steps"))
    is_one_number(check, first)
    reached = expected.strings(seen.values.get("reached"))
    # In a loop written by hand the backward is through when the loss is returned.
    check.expect(
        first.get("graph") is True or (seen.values.get("automatic") is False and len(reached) > 0),
        "training_step returned a loss without a graph: no gradient can flow from it back to the network.",
        "Do not use detach(), .data, .item() or torch.no_grad() on the way to the loss.",
    )
    labels = data.labels[:size]
    tensors = expected.seen_in(seen, "train0", size)
    loss = expected.step_losses(seen)[0]
    call = f"training_step on a batch of {size} pictures"
    check.expect(loss is not None, f"{call} returned a loss that is no finite number.", LOSS_HINT)
    assert loss is not None
    match = expected.find(tensors, labels, loss)
    # It could be that of a tensor by chance, through which it was not computed.
    used = smoothing.of_first_step(seen, tensors, labels, loss)
    check.expect(
        not any(expected.is_probabilities(tensors[index]) for index in used),
        f"{call}: the loss was computed from probabilities, as if they were logits. Cross-entropy does a softmax "
        "itself, so that it is done twice: training still works, but slowly, and the loss cannot fall below 1.46.",
        "Hand the network's output to cross_entropy as it is, without softmax. Some course texts show this softmax. "
        "log_softmax with nll_loss is right, too.",
    )
    check.expect(
        not match.summed or bool(match.matching or used),
        f"{call}: the loss is the sum over the batch, not the mean.",
        "Leave out reduction='sum': with the mean, the learning rate does not depend on the batch size.",
    )
    smoothed = min(used.values(), default=0.0)
    check.expect(
        smoothing.is_usual(smoothed),
        f"{call}: the loss is the cross-entropy with label_smoothing={smoothed:.2g}, expected at most {smoothing.MOST}.",
        "Leave label_smoothing out, or say 0.1, which is usual.",
    )
    check.expect(
        bool(match.matching or used),
        f"{call} returned {loss:.4g}, which is not the mean cross-entropy between any output of the network, of shape "
        f"({size}, 10), and the labels of the batch."
        + ("" if tensors else " No tensor of that shape was computed."),
        LOSS_HINT,
    )
    check.expect(
        len(reached) > 0,
        "loss.backward() after training_step gave no parameter of LitFashion a gradient.",
        "Something cuts the graph between the network and the loss: detach(), .data, torch.tensor(loss) or "
        "torch.no_grad(). Or is the network not an attribute of the module?",
    )
    if not used:
        index = match.matching[0]
        gradient = seen.arrays.get(f"train0/gradient{index}")
        differs = smoothing.how_it_differs(gradient, tensors[index], labels)
        by_hand = seen.values.get("automatic") is False
        if by_hand and gradient is not None and _is_a_part(gradient, tensors[index], labels):
            return
        check.fail(
            f"{call} returned {loss:.4g}, as the mean cross-entropy of the batch is, but with another gradient by the network's "
            f"output: {differs}. Expected softmax(logits) - one_hot(labels), divided by {size}.",
            "Return the loss as cross_entropy gives it: no factor, no detached part. Of label smoothing there may be some.",
        )


def _is_a_part(gradient: Array, logits: Array, labels: Array) -> bool:
    """Whether it is a half, a third and so on, as where a loop by hand adds up several batches for one step."""
    parts = (gradient * np.float32(number) for number in range(2, MOST_BATCHES + 1))
    return any(smoothing.how_it_differs(part, logits, labels) is None for part in parts)


def _first(check: Check, steps: Json) -> Mapping[str, Json]:
    step = steps[0] if isinstance(steps, list) and steps else None
    if not isinstance(step, dict):
        check.fail(
            "trainer.fit(model, datamodule=data): training_step was never called.",
            "LitFashion needs a method training_step(self, batch, batch_idx).",
        )
    return step


def test_configure_optimizers(check: Check) -> None:
    """configure_optimizers covers every parameter of the module, each once."""
    data = expected.make_data(check.rng, 16)
    outcome = train(check, data, split=8, stop_before=0)
    seen = outcome.ranks[0].values
    trainable, held = expected.strings(seen.get("trainable")), Counter(expected.strings(seen.get("held")))
    check.expect(
        len(trainable) > 0,
        "LitFashion has no parameters to train when training begins.",
        "Make the network in __init__ and keep it as an attribute: self.network = nn.Sequential(...).",
    )
    check.expect(
        bool(held),
        "configure_optimizers returned no optimizer: Lightning then trains nothing.",
        "return torch.optim.Adam(self.parameters(), lr=...)",
    )
    missing = [name for name in trainable if name not in held]
    check.expect(
        not missing,
        f"The optimizer holds {len(trainable) - len(missing)} of the module's {len(trainable)} parameters; "
        f"{few_names(missing)} would stay as initialised."
        + (f" It holds {held['?']} that are not the module's." if held["?"] else ""),
        "Give it self.parameters(): those of this module, all layers of it.",
    )
    twice = [name for name, count in held.items() if count > 1 and name != "?"]
    check.expect(
        not twice,
        f"{few_names(twice)} stand in the optimizers more than once, and would be stepped more than once per batch.",
        "Put every parameter into one group of one optimizer.",
    )
    rates = seen.get("rates")
    values = [number(rate) for rate in elements(rates)]
    check.expect(
        any(rate is not None and rate > 0 for rate in values),
        "The learning rate of the optimizer is 0.",
        "Give it a learning rate above 0, for example lr=1e-3.",
    )


def test_no_device_calls(check: Check) -> None:
    """The module works on whatever device Lightning puts it, without `.cuda()` or `.to("cuda")` of its own."""
    data = expected.make_data(check.rng, 16)
    seen = train(check, data, split=8).ranks[0]
    _first(check, seen.values.get("steps"))
    calls = expected.strings(seen.values.get("gpu_calls"))
    check.expect(
        seen.values.get("gpu_calls") == [],
        f"On a machine without a GPU, LitFashion called {safe(check.placed('; '.join(calls[:2])), 200)}.",
        "Leave the call out: Lightning moves the module and every batch to its device. For a tensor that you make "
        "yourself, say device=self.device.",
    )
    fault = _device_fault(check, data, "gpu")
    if fault:
        raise Crashed(
            f"On a machine with a GPU: {fault}",
            "Lightning moves the module's parameters and buffers, and every batch. A tensor that you make yourself needs "
            "device=self.device, or self.register_buffer in __init__; .cpu() stands before .numpy().",
        )
    fault = _device_fault(check, data, "cpu")
    if fault:
        check.fail(
            f'On a machine with a GPU, with a Trainer that is told accelerator="cpu": {fault}',
            "Which device it is, Lightning decides, and not whether torch.cuda.is_available(). Leave out .to(device) with a "
            "device of your own; for a tensor that you make yourself, say device=self.device.",
            points=check.points / 2,
        )


def _device_fault(check: Check, data: Data, accelerator: str) -> str:
    """How a training on a machine with a GPU ended, if that was because something was on another device; else nothing."""
    try:
        check.run(
            "on_gpu",
            values={"batch_size": 8, "epochs": 1, "split": 8, "accelerator": accelerator},
            arrays=data.arrays(),
            data={"fashion": fashion_mnist.make_idx(np.random.default_rng(0), 20, 20)},
        )
    except CheckEnded as ended:
        # What else may go wrong on an emulated GPU did not go wrong without it, and is no fault of this code.
        return ended.feedback.message if is_device_fault(ended.feedback.message) else ""
    return ""


def test_no_manual_loop(check: Check) -> None:
    """Lightning runs the loop: training_step calls neither backward nor step nor zero_grad."""
    # Who adds up batches by hand makes a step in every second, fourth or eighth of them.
    n = LOOPED * SMALL_BATCH
    data = expected.make_data(check.rng, n + SMALL_BATCH)
    seen = train(check, data, split=n, batch_size=SMALL_BATCH, stop_before=LOOPED).ranks[0].values
    _first(check, seen.get("steps"))
    if seen.get("automatic") is False:
        check.note(
            "self.automatic_optimization is False, so the loop in training_step is yours, and was left alone."
        )
        return
    manual = expected.strings(seen.get("manual"))
    check.expect(
        seen.get("manual") == [],
        f"training_step called {safe(', '.join(manual[:4]), 120)}. Under automatic optimization Lightning calls them "
        "after training_step: they would be done twice.",
        "Return the loss and leave the rest to Lightning. Who wants to do it all sets self.automatic_optimization = False.",
    )
