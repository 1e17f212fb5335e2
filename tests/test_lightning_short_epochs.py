"""The grader of exercise 5: who validates every so many batches or epochs of the whole data validates in short epochs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graders.lightning_train.probe.student import validated_in_every_epoch
from lockstep.sandbox.box import Box
from lockstep.verdict import Verdict
from tests.test_lightning_grader import changed, checks_of

CHECKS = ("trainer_flags", "data", "two_ranks", "script")
DEFAULTS = '"limit_train_batches": LIMIT_TRAIN_BATCHES, '


@pytest.mark.parametrize(
    "given",
    [
        '"val_check_interval": 50',
        '"check_val_every_n_epoch": 2',
        '"val_check_interval": 100, "check_val_every_n_epoch": None',
    ],
)
def test_who_validates_seldom_does_so_in_the_epochs_of_a_check(given: str, tmp_path: Path, box: Box) -> None:
    checks = checks_of(changed(tmp_path, (DEFAULTS, f"{DEFAULTS}{given}, ")), box, *CHECKS)
    assert {(check.verdict, check.message) for check in checks.values()} == {(Verdict.PASSED, "")}


def test_who_never_validates_is_told_why(tmp_path: Path, box: Box) -> None:
    never = '"check_val_every_n_epoch": 100, '
    checks = checks_of(changed(tmp_path, (DEFAULTS, f"{DEFAULTS}{never}")), box, "data")
    assert checks["data"].points == 0
    assert "check_val_every_n_epoch larger than max_epochs" in checks["data"].hint


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"val_check_interval": 1},
        {"val_check_interval": 0.25, "check_val_every_n_epoch": 1},
        {"val_check_interval": 5_000},  # more than a fifth of the pictures has: Lightning refuses it anywhere
        {"check_val_every_n_epoch": 11},  # no training of at most ten epochs comes there
        {"val_check_interval": True},
    ],
)
def test_what_is_the_same_in_short_epochs_stays(arguments: dict[str, Any]) -> None:
    assert validated_in_every_epoch(arguments) == {}
