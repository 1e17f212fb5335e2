"""What the judges of this exercise have run: trainings of a hidden network, and the calls of it that were seen."""

from __future__ import annotations

from collections.abc import Mapping

from graders.fashion_trainer import expected
from graders.fashion_trainer.devices import wants_gpu
from graders.fashion_trainer.expected import Calls, Shape
from lockstep.check import Check
from lockstep.sandbox.outcome import RankOutcome
from lockstep.verdict import CheckEnded
from lockstep.wire import Array, Json

LR = 0.03
BATCH_SIZE = 8
ON_GPU: dict[str, Json] = {"gpus": 1, "device": "cuda:0"}
SCRIPT_EPOCHS = 2  # where it is asked for more than one
# What the script is told to write.
REPORT = "fashion.json"
RANGE_HINT = (
    "`range(1, epochs)` is one epoch too few, and no epoch where one is asked for: write range(epochs)."
)


def options(shape: Shape, *, epochs: int = 2, **more: Json) -> dict[str, Json]:
    """What the probe's training functions are told; on a machine without a GPU unless `more` says else.

    Two epochs, so that one who makes an epoch less is seen to train by checks that are about something else.
    """
    return {
        "shape": shape, "lr": LR, "batch_size": BATCH_SIZE, "epochs": epochs, "gpus": 0, "device": "cpu", **more,
    }  # fmt: skip


def look(check: Check, call: str, values: Mapping[str, Json], arrays: Mapping[str, Array]) -> RankOutcome:
    """Run without a GPU, or on one what cannot do without: the check that looks is not about devices."""
    try:
        return check.run(call, values=values, arrays=arrays).ranks[0]
    except CheckEnded as ended:
        if not wants_gpu(ended):
            raise
        try:
            seen = check.run(call, values={**values, **ON_GPU}, arrays=arrays).ranks[0]
        except CheckEnded:
            raise ended from None
        check.note("Looked at on a GPU: without one the code stops, of which device_agnostic tells.")
        return seen


def calls_of(
    check: Check, seen: RankOutcome, part: str, function: str, *, hint: str = "", points: float = 0.0
) -> Calls:
    """The calls of the network; where it was never called ends the check, with a `hint` more and `points` left."""
    found = expected.calls(seen, part)
    if found is None or not found.calls:
        check.fail(
            f"{function}: no batch of pictures reached the model it was given.",
            "Loop over the loader and call the model that is handed in, with the pictures of each batch."
            f" {hint}".rstrip(),
            points=points,
        )
    return found
