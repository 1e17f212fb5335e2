"""What the judges of this exercise have run: a fit on hidden pictures, and the script on a hidden data set."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fixtures import fashion_mnist
from graders.lightning_train.expected import Data
from lockstep.check import Check
from lockstep.compare import integer, shown
from lockstep.sandbox.limits import MIB, Limits
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.text import last_lines
from lockstep.wire import Json

LIMITS = Limits(disk=768 * MIB)  # two checkpoints of a ResNet-18 with what Adam keeps are 270 MB
LOADED_BY = 8  # pictures in a batch of the script at the most: probe.BATCH_SIZE
FEW = 8  # items that drop_last may leave out, and the padding of a sampler


def train(check: Check, data: Data, *, split: int, **values: Json) -> Outcome:
    """Fit LitFashion on the first `split` items, with the others for validation."""
    ranks = values.pop("ranks", None)
    return check.run(
        "train",
        ranks=ranks if isinstance(ranks, int) else None,
        values={"batch_size": 8, "epochs": 1, "split": split, **values},
        arrays=data.arrays(),
        data={"fashion": fashion_mnist.make_idx(np.random.default_rng(0), 20, 20)},
    )


def run_script(
    check: Check,
    arguments: Sequence[str],
    *,
    ranks: int | None = None,
    n: tuple[int, int],
    expect: bool = True,
    **values: Json,
) -> Outcome:
    """Run lightning_train.py on a small Fashion-MNIST with `n` pictures to train on and to test on.

    Unless `expect` is False, ends the check where it crashes or hangs.
    """
    tree = fashion_mnist.make_idx(check.rng, *n)
    own: list[Json] = ["--data", "/data/fashion", "--accelerator", "cpu", *arguments]
    return check.run(
        "script",
        ranks=ranks,
        values={"arguments": own, **values},
        data={"fashion": tree},
        limits=LIMITS,
        shared_files=True,  # what prepare_data downloads on one rank, the others look for
        expect=expect,
    )


def fitted(check: Check, seen: RankOutcome, call: str) -> None:
    """End the check unless the script came to a Trainer's fit and to its end."""
    status = seen.values.get("status")
    fits = (integer(seen.values.get("fits")) or 0) > 0
    check.expect(
        status is None or integer(status) == 0,
        f"{call} ended with status {shown(status)}: {last_lines(seen.output)}",
        "Run the same line in a terminal."
        if fits
        else "argparse ends a script so where it does not know an option or cannot read its value. The exercise "
        "lists the options: --limit-train-batches is a float, --devices a whole number.",
    )
    check.expect(
        fits,
        f"{call}: no Trainer's fit was called.",
        "main() has to build the Trainer with build_trainer(...) and call trainer.fit(model, ...).",
    )


def drawn_size(check: Check, low: int, high: int) -> int:
    """How many pictures a process trains on; no last batch has one alone, for which batch norm has no variance."""
    return int(check.rng.choice([n for n in range(low, high) if n % LOADED_BY != 1]))
