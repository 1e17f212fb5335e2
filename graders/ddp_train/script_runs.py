"""Runs of ddp_train.py as a script."""

from __future__ import annotations

import re
from typing import cast

from fixtures import cifar10
from lockstep.check import Check
from lockstep.sandbox.limits import MIB, Limits
from lockstep.sandbox.outcome import Outcome, StudentError
from lockstep.wire import Json

SCRIPT_LIMITS = Limits(disk=512 * MIB)  # a checkpoint of ResNet-18 with momentum is 90 MB
RESNET18_BYTES = 44_000_000
# What ddp_train.sh is started for.
EPOCHS, IMAGES, BATCH_SIZE = 2, 24, 4
# Of two processes, in batches of 4. Who trains on them, with the others or alone, comes to no batch of one, which no
# batch norm can be trained on, and hears what is wrong.
TEST_IMAGES = 12
BATCHES = EPOCHS * IMAGES // (2 * BATCH_SIZE)  # of each of two processes
# Who keeps a fifth of the images for validation and leaves out a short last batch has no more; one epoch has less.
LEAST_BATCHES = 4
BATCHES_ALONE = IMAGES // BATCH_SIZE  # of one process, in an epoch
# Larger batches: all of a training that begins anew are fewer than the first run had made.
RESUMING = ("--epochs", str(EPOCHS + 1), "--batch-size", str(3 * BATCH_SIZE), "--resume")
BATCHES_ANEW = (EPOCHS + 1) * IMAGES // (2 * 3 * BATCH_SIZE)
# What a script writes where it is told to.
ITS_FILES = ("--checkpoint", "kept.pt", "--report", "kept.json")
OF_THREE_EPOCHS = 16  # images of each rank where the order of three epochs is looked at
# What was raised behind the place where it was, as last_lines puts it; in front of it may stand which rank said so.
_RAISED = re.compile(
    r"\w\.py, line \d+, in [^|]{0,200} \| (?:\[rank\d+\]: ?)?(?:\w+\.)*(?P<type>\w+)(?:: (?P<message>.*))?"
)


def three_epochs(check: Check, ranks: int = 2) -> Outcome:
    """The script, two batches a rank and epoch: what train_one_epoch leaves out may stand in main, which counts."""
    tree = cifar10.make_batches(check.rng, OF_THREE_EPOCHS * ranks, 10)

    def run(*besides: str) -> Outcome:
        told = ["--training-data", "/data/cifar", "--epochs", "3", "--batch-size", "8", *besides]
        return check.run(
            "orders",
            ranks=ranks,
            values={"arguments": cast(Json, told)},
            data={"cifar": tree},
            files={f"data/{name}": content for name, content in tree.items()},
            limits=SCRIPT_LIMITS,
            shared_files=True,
            seconds=30.0,
            expect=False,
        )

    outcome = run()
    # What comes to no second epoch without a place for its checkpoint, which `cleans_up` tells, is seen with one.
    return run(*ITS_FILES) if any(rank.error for rank in outcome.ranks) else outcome


def hands_on(words: Json) -> bool:
    """Whether what the script is given comes last among the words after torchrun."""
    return isinstance(words, str) and words.rstrip("\n").endswith("\n--help")


def raised_in(printed: str) -> StudentError | None:
    """The exception that ended a run of which these are the last lines, where it came out of a file."""
    found = _RAISED.search(printed)
    return StudentError(found["type"], found["message"] or "", (), "running ddp_train.sh") if found else None
