"""Runs of the whole script or notebook on a small CINIC-10, and what its training came to."""

from __future__ import annotations

import re
from collections.abc import Mapping

from fixtures import cinic10
from fixtures.tree import Tree
from graders.amp import batches, complaints
from graders.amp.batches import Batch
from graders.amp.record import run_events
from lockstep.check import Check
from lockstep.compare import integer, shown
from lockstep.refusedoptions import refused
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.text import last_lines
from lockstep.verdict import CheckEnded
from lockstep.wire import Json

# Two epochs of five batches, but for the last of them.
FIRST_BATCHES = 8
BATCH_ON_CPU = (
    "A DataLoader's batches are on the CPU: move images and labels to the device that train_step, or evaluate, is "
    "given, where the model is."
)
BY_HAND = (
    "Run the same line in a terminal: python amp_train.py --training-data DIR --arch resnet18 --batch-size 4 "
    "--epochs 1 --amp --logdir runs --wandb disabled"
)
NOT_TRAINED = (
    'The end of the file starts it: of a script train(parse_arguments()) below `if __name__ == "__main__":`, of a '
    "notebook a cell with train(args). That loops over the batches of --training-data and calls train_step for each."
)
BOTH_FLAGS = 'add_argument("--amp", default=True, action=argparse.BooleanOptionalAction).'
# What a script says that does not know one of the two, or wants a value for it.
_OF_AMP = re.compile(r"error: (?:unrecognized arguments: |argument )--(?:no-)?amp\b(?!-)")


def script_options(**chosen: Json) -> dict[str, Json]:
    """The options of a run by their names on the command line: those chosen, and the usual ones.

    What is chosen to be None is left to the script.
    """
    options: dict[str, Json] = {
        "training_data": complaints.DATA,
        "arch": "resnet18",
        "batch_size": 4,
        "epochs": 1,
        "amp": True,
        "logdir": "runs",
        "wandb": "disabled",
        "find_batch_size": False,
        **chosen,
    }
    return {name: value for name, value in options.items() if value is not None}


def run_script(
    check: Check,
    call: str,
    *,
    train: int = 12,
    tree: Tree | None = None,
    values: Mapping[str, Json] | None = None,
    expect: bool = True,
    **options: Json,
) -> Outcome:
    """Run amp_train.py with these options on `tree`, or on a small CINIC-10 with `train` images to train on.

    A whole run has neither 5, 10 nor 20 batches: with so many OneCycleLR, told to warm up for a fifth, a tenth or a
    twentieth of them, divides by 0. `values` is what the probe is told besides. Unless `expect` is False, ends the
    check where the run comes to nothing.
    """
    try:
        return check.run(
            call,
            values={"options": script_options(**options), "factor": 1.0, **(values or {})},
            data={"cinic": tree or cinic10.make_folders(check.rng, train=train, valid=10, test=10)},
            expect=expect,
        )
    except CheckEnded as ended:
        complaints.explain(check, ended)
        raise


def begin_script(
    check: Check, *, gpu: bool = False, amp: bool | None = True, expect: bool = True
) -> RankOutcome:
    """Run amp_train.py until it has trained on its first batches, while its layers are watched.

    With neither --amp nor --no-amp where `amp` is None.
    """
    told: dict[str, Json] = {"gpu": gpu, "losses": FIRST_BATCHES}
    outcome = run_script(check, "until_the_loss", train=24, epochs=2, values=told, expect=expect, amp=amp)
    return outcome.ranks[0]


def comes_to_its_end(check: Check, seen: RankOutcome, call: str, usual: str = BY_HAND) -> None:
    """End the check where the script ended with another status than 0; `usual` is the hint if it refused no option."""
    said = last_lines(seen.output)
    hint = refused(said)
    if _OF_AMP.search(said):
        hint = f"The exercise has two flags that take no value, --amp and --no-amp. One line makes both: {BOTH_FLAGS}"
    check.expect(
        integer(seen.values.get("status")) == 0,
        f"{call} ended with status {shown(seen.values.get('status'))}. Its last lines: {said}",
        hint or usual,
    )


def trained(check: Check, outcome: Outcome, call: str) -> tuple[RankOutcome, list[Batch]]:
    """What a whole run of the script came to; ends the check when it failed or trained on nothing."""
    seen = outcome.ranks[0]
    comes_to_its_end(check, seen, call)
    made = batches.training(seen)
    check.expect(
        bool(made),
        f"{call} came to its end, but no batch was trained on: no cross entropy with a backward was seen.",
        NOT_TRAINED,
    )
    strange = batches.losses_without_forward(run_events(seen), [batch.size for batch in made])
    check.expect(
        strange == 0,
        f"{call.rstrip(',')}: of {len(made)} losses that a backward followed, {strange} came without a call of a model "
        "on as many images before them.",
        "Compute each loss from what the model answers to the batch's images: logits = model(images).",
    )
    return seen, made
