"""The judge of exercise 5, the Trainer: what build_trainer() makes of its defaults and of what it is given."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fixtures import fashion_mnist
from graders.lightning_train import expected
from graders.lightning_train.runs import LIMITS
from lockstep.check import Check
from lockstep.compare import close, integer, shown
from lockstep.wire import Json


def test_trainer_flags(check: Check) -> None:
    """build_trainer(): at most 10 epochs, 20 % of the batches, a logger; what it is given takes precedence."""
    batches = int(check.rng.integers(11, 25))
    data = expected.make_data(check.rng, 2 * batches)
    epochs = int(check.rng.integers(2, 9))
    outcome = check.run(
        "flags",
        values={
            "limited": {"max_epochs": 1, "precision": "bf16-mixed"},
            "dev": {"max_epochs": epochs, "limit_train_batches": 1.0, "fast_dev_run": True},
        },
        arrays=data.arrays(),
        data={"fashion": fashion_mnist.make_idx(np.random.default_rng(0), 20, 20)},
        limits=LIMITS,
    )
    seen = outcome.ranks[0].values
    _defaults(check, seen)
    made = integer(seen.get("limited_epochs"))
    check.expect(
        made is not None and 1 <= made <= 10,
        f"build_trainer(max_epochs=1) made a Trainer with max_epochs={shown(seen.get('limited_epochs'))}.",
        "Hand the overrides on: pl.Trainer(**{**defaults, **overrides}).",
    )
    wanted = batches // 5
    taken = len(expected.counts(seen.get("limited_batches"), "train"))
    check.expect(
        taken == wanted,
        f"build_trainer(max_epochs=1).fit over {batches} batches made {taken} training steps, expected {wanted}, "
        "which is 20 %.",
        "What it is given comes last: pl.Trainer(**{**defaults, **overrides})."
        if wanted and taken in (wanted * epochs for epochs in range(2, 11))
        else "limit_train_batches=0.2 rounds down. Is it given to the Trainer, and are gradients of several batches not "
        "counted as one step?",
    )
    check.expect(
        seen.get("limited_precision") == "bf16-mixed",
        f"build_trainer(precision='bf16-mixed') made a Trainer with precision {shown(seen.get('limited_precision'))}.",
        "Hand the overrides on: pl.Trainer(**{**defaults, **overrides}).",
    )
    taken = len(expected.counts(seen.get("dev_batches"), "train"))
    check.expect(
        taken == 1,
        f"build_trainer(fast_dev_run=True).fit made {taken} training steps, expected 1.",
        "Hand the overrides on: pl.Trainer(**{**defaults, **overrides}).",
    )
    again, first = seen.get("again"), [seen.get("max_epochs"), seen.get("limit")]
    check.expect(
        again == first,
        f"build_trainer() made a Trainer with max_epochs and limit_train_batches {_both(first)}, and after a call with "
        f"max_epochs={epochs}, limit_train_batches=1.0 another with {_both(again)}: what one call is given stays for the "
        "next.",
        "Leave the defaults as they are: pl.Trainer(**{**DEFAULTS, **overrides}) makes a new dict, DEFAULTS.update does "
        "not.",
        points=check.points / 2,
    )
    check.expect(
        seen.get("callbacks") is not False,
        "build_trainer hands on max_epochs, precision and other flags, but build_trainer(callbacks=[...]) made a Trainer "
        "without that callback.",
        "Hand on whatever is given: pl.Trainer(**{**defaults, **overrides}). Without callbacks=[clock] the script has no times "
        "to report.",
        points=check.points / 2,
    )
    # How much of the pictures is enough for validation is everybody's own choice, but for this.
    check.expect(
        integer(seen.get("limit_val")) != 1,
        "build_trainer() makes a Trainer with limit_val_batches=1: a whole number is a number of batches, so that val_loss and "
        "val_acc are those of the first batch alone.",
        "Leave it out: Lightning validates on all batches. As a share that is limit_val_batches=1.0.",
        points=check.points / 2,
    )


def _both(values: Json) -> str:
    return " and ".join(map(shown, values if isinstance(values, list) else [values]))


def _defaults(check: Check, seen: Mapping[str, Json]) -> None:
    epochs = integer(seen.get("max_epochs"))
    check.expect(
        epochs is not None and 1 <= epochs <= 10,
        f"build_trainer() makes a Trainer with max_epochs={shown(seen.get('max_epochs'))}, expected 1 to 10."
        + (
            " Without max_epochs Lightning goes on for 1000 epochs."
            if epochs is None or epochs == 1000
            else ""
        ),
        "pl.Trainer(max_epochs=3, ...)",
    )
    limit = seen.get("limit")
    if integer(limit) is not None:
        check.fail(
            f"build_trainer() makes a Trainer with limit_train_batches={shown(limit)}: a whole number is a number of "
            "batches, not a percentage.",
            "Write 20 % as a float: limit_train_batches=0.2.",
        )
    check.expect(
        close(limit, 0.2, rtol=1e-6),
        f"build_trainer() makes a Trainer with limit_train_batches={shown(limit)}, expected 0.2, that is 20 % of the "
        "batches.",
        "pl.Trainer(limit_train_batches=0.2, ...)",
    )
    check.expect(
        len(expected.strings(seen.get("loggers"))) > 0,
        "build_trainer() makes a Trainer without a logger.",
        "logger=True, or one of TensorBoardLogger, CSVLogger, WandbLogger.",
    )
