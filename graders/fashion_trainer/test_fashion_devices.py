"""The judge of exercise 2, devices: the same code on a GPU, emulated where there is none, and on the CPU.

What get_device() and the script do without a GPU has a judge of its own, test_fashion_without_gpu.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from fixtures import fashion_mnist
from graders.fashion_trainer import expected, idx, scripts
from graders.fashion_trainer.devices import DEVICE_LINE, NEEDS_GPU, wants_gpu
from graders.fashion_trainer.expected import Patterns, Shape
from graders.fashion_trainer.runs import BATCH_SIZE, ON_GPU, REPORT, calls_of, options
from graders.fashion_trainer.wording import told_device, within, worded
from lockstep.check import Check
from lockstep.compare import difference
from lockstep.devicefault import is_device_fault
from lockstep.verdict import CheckEnded, Crashed
from lockstep.wire import Array, Json

DEVICE_HINT = (
    "Everything that meets in one operation has to be on one device: model.to(device) before the optimizer is made, "
    "images.to(device) and labels.to(device) for every batch (assign the result), and device=... for a new tensor."
)
# More of torch's words for it.
_PLACES = re.compile(
    r"two devices|at the same device|on devices\[0\]|1D CPU int64|(?:of|for|associated with) device type"
)


def test_device_agnostic(check: Check) -> None:
    """The same code works on a GPU (emulated where there is none) and on the CPU, entirely on the device it is given."""
    patterns = Patterns(check.rng)
    train = patterns.draw(2 * BATCH_SIZE + 3)
    test = patterns.draw(BATCH_SIZE + 3)
    shape = expected.make_shape(check.rng)
    weights = expected.make_weights(check.rng, shape)
    arrays = {**train.arrays("train"), **test.arrays("test"), **expected.as_inputs(weights)}
    tree = fashion_mnist.make_idx(check.rng, 20, 12)
    _asks_for_gpu(check)
    _works_on_gpu(check, shape, weights, arrays)
    _works_on_cpu(check, options(shape), arrays)
    _script_uses_gpu(check, tree)
    _obeys(check, options(shape, gpus=1), arrays)


def _asks_for_gpu(check: Check) -> None:
    seen = check.run("ask_device", values={"gpus": 1}).ranks[0]
    device, kind = seen.values.get("device"), seen.values.get("kind")
    check.expect(
        isinstance(device, str) and device in ("cuda", "cuda:0"),
        f"get_device() on a machine with a GPU returned {told_device(device, kind)}, expected torch.device('cuda').",
        DEVICE_LINE,
    )
    if kind != "a torch.device":
        check.note(
            f"get_device() returned {worded(kind)}; the exercise asks for a torch.device, which has a .type."
        )


def _works_on_gpu(
    check: Check, shape: Shape, weights: Mapping[str, Array], arrays: Mapping[str, Array]
) -> None:
    """train and evaluate with a model that is on the GPU already: it is the script that may have to move it."""
    try:
        seen = check.run("train_and_evaluate", values={**options(shape), **ON_GPU}, arrays=arrays).ranks[0]
    except CheckEnded as ended:
        if isinstance(ended, Crashed) and not _is_out_of_place(ended.feedback.message):
            # As without a GPU: the other checks say the same, and it is read once.
            raise
        raise _with_device_hint(ended, "On a machine with a GPU") from None
    for part, function in (("train", "train"), ("test", "evaluate")):
        found = calls_of(check, seen, part, f"{function}(model, loader, cuda:0) on a machine with a GPU")
        elsewhere = sorted({call.device for call in found.calls} - {"cuda:0"})
        check.expect(
            not elsewhere,
            f"{function} was given a model on cuda:0 and device cuda:0, but called the model with pictures on "
            f"{', '.join(elsewhere)[:60]}.",
            "Work on the device that is handed in: images.to(device), and no .cpu() around the model.",
        )
        losses = [call.loss_device for call in found.calls if call.loss_device]
        on_others = sorted({*losses} - {"cuda:0"})
        check.expect(
            not on_others,
            f"{function} was given a model on cuda:0 and device cuda:0, but worked out the loss of {len(losses)} batches "
            f"on {', '.join(on_others)[:60]}.",
            "labels.to(device) for every batch, and no .cpu() around what the model answers: then the loss is worked out "
            "where the model is, and no batch has to wait until it was copied.",
            points=check.points / 2,
        )
    trained = expected.state(seen, "trained", weights)
    if trained is None:
        check.fail(
            "train on a machine with a GPU: the model's weights are no longer finite numbers.",
            "Train the model that is handed in, and make the optimizer for its parameters on the device.",
        )
    evaluated = expected.calls(seen, "test")
    wrong = evaluated is None or difference(
        evaluated.logits,
        expected.logits_of(shape, trained, evaluated.rows).astype(np.float32),
        what="an answer of the model",
        **expected.CLOSE_LOGITS,
    )
    check.expect(
        wrong is None,
        f"evaluate on a machine with a GPU: {wrong}: what was evaluated is not the model that was trained.",
        "Evaluate the model that is handed in.",
    )


def _works_on_cpu(check: Check, values: Mapping[str, Json], arrays: Mapping[str, Array]) -> None:
    """The same on a machine without a GPU: `.cuda()` written out works on the other one only."""
    try:
        check.run("train_and_evaluate", values=values, arrays=arrays)
    except CheckEnded as ended:
        # Imports are for no_cuda_needed to tell, and what has nothing to do with devices for trains_on_cpu.
        if not wants_gpu(ended) or ended.spoils:
            return
        raise Crashed(
            f"With a GPU train and evaluate work; with device cpu on a machine without one: {within(ended.feedback.message)}",
            "Replace .cuda() and device='cuda' by .to(device) and device=device: then the caller decides.",
            points=check.points / 3,
        ) from None


def _script_uses_gpu(check: Check, tree: Mapping[str, bytes]) -> None:
    arguments = ["--data", "/data/fashion", "--epochs", "1", "--batch-size", "16", *scripts.FULLY_TOLD]
    values: dict[str, Json] = {"arguments": [*arguments], "report": REPORT, "gpus": 1}
    shown_call = " ".join(["fashion_trainer.py", *arguments])
    try:
        seen = check.run("script", values=values, data={"fashion": tree}).ranks[0]
    except CheckEnded as ended:
        if not NEEDS_GPU.search(ended.feedback.message):
            check.note("The script's own run on a GPU could not be looked at: see no_cuda_needed.")
            return
        told = _with_device_hint(
            ended, "Called one by one, train and evaluate work on a GPU, but the script does not"
        )
        told.points = check.points / 3
        raise told from None
    found = expected.calls(seen, "script")
    if found is None or not found.calls:
        return
    # A call of the new network may well happen before it is moved: on zeros to learn a size, on a batch to see how it
    # guesses.
    began = next((place for place, call in enumerate(found.calls) if call.trained), 0)
    pictures = np.concatenate([idx.pictures(tree, part) for part in ("train", "t10k")])
    known = expected.recognised(found.rows, pictures) >= 0
    shows = np.split(known, np.cumsum([call.size for call in found.calls])[:-1])
    working = [
        call
        for call, any_known in list(zip(found.calls, shows, strict=True))[began:]
        if call.trained or any_known.any()
    ]
    on_cpu = sum(call.device == "cpu" for call in working)
    check.expect(
        on_cpu == 0,
        f"`{shown_call}` on a machine with a GPU called the model {on_cpu} of {len(working)} times on the CPU.",
        "With --device auto the script has to hand what get_device() returns to train and evaluate.",
        points=check.points / 3,
    )


def _obeys(check: Check, values: Mapping[str, Json], arrays: Mapping[str, Array]) -> None:
    """Device cpu on a machine that has a GPU; no points are for it, since a guarded `.cuda()` was right once."""
    outcome = check.run("train_and_evaluate", values=values, arrays=arrays, expect=False)
    found = [expected.calls(outcome.ranks[0], part) for part in ("train", "test")]
    if all(one is not None and all(call.device == "cpu" for call in one.calls) for one in found):
        return
    check.note(
        "With device cpu on a machine that has a GPU, train and evaluate do not stay on the CPU. Is there a .cuda()? "
        ".to(device) goes where it is told, to the second GPU as well."
    )


def _with_device_hint(ended: CheckEnded, where: str) -> CheckEnded:
    """The same verdict; where it is about a tensor on the wrong device with what to do about that."""
    message = f"{where}: {within(ended.feedback.message)}"
    if not isinstance(ended, Crashed) or not _is_out_of_place(ended.feedback.message):
        told = type(ended)(message, ended.feedback.hint)
    elif "numpy" in ended.feedback.message:
        told = Crashed(
            message, "NumPy works on the CPU only: .cpu() before .numpy(), or .item() for one number."
        )
    else:
        told = Crashed(message, DEVICE_HINT)
    told.spoils = ended.spoils
    return told


def _is_out_of_place(message: str) -> bool:
    """Whether an error is about a tensor on the wrong device; others name a GPU, too: the call that was made does."""
    return is_device_fault(message) or _PLACES.search(message) is not None
