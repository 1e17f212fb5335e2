"""Runs of ddp_train.py as a script."""

from __future__ import annotations

from fixtures import cifar10
from lockstep.check import Check
from lockstep.sandbox.limits import MIB, Limits
from lockstep.sandbox.outcome import Outcome

SCRIPT_LIMITS = Limits(disk=512 * MIB)  # a checkpoint of ResNet-18 with momentum is 90 MB


def three_epochs(check: Check, ranks: int = 2) -> Outcome:
    """The script, eight images a rank: what train_one_epoch leaves out may stand in main, which counts the epochs."""
    tree = cifar10.make_batches(check.rng, 8 * ranks, 10)
    return check.run(
        "orders",
        ranks=ranks,
        values={"arguments": ["--training-data", "/data/cifar", "--epochs", "3", "--batch-size", "8"]},
        data={"cifar": tree},
        files={f"data/{name}": content for name, content in tree.items()},
        limits=SCRIPT_LIMITS,
        shared_files=True,
        seconds=30.0,
        expect=False,
    )
