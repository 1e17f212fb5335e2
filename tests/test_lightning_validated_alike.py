"""The grader of exercise 5: validation on the same pictures in every epoch, and what tells nothing of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures import build
from graders.lightning_train.validated_alike import changed_pictures
from lockstep.sandbox.box import Box
from lockstep.sandbox.outcome import RankOutcome
from lockstep.verdict import Verdict
from tests.samples import graded

ALONE = "1 2 3 4"


def seen(read: str, shown: str) -> RankOutcome:
    """Pictures of the test part that were read for validation, by number, and what came to the steps."""
    return RankOutcome(
        True,
        {
            "items": {"train": [], "val": [["test", int(number)] for number in read.split()]},
            "hashes": {"train": [], "val": [int(pixels) for pixels in shown.split()]},
        },
    )


@pytest.mark.parametrize(
    ("read", "shown", "told"),
    [
        (f"{ALONE} {ALONE}", "11 12 13 14 11 12 13 14", (0, 4)),
        (f"{ALONE} {ALONE}", "11 12 13 14 11 22 23 14", (2, 4)),
        (f"{ALONE} 4 3 2 1", "11 12 13 14 14 13 12 11", (0, 4)),  # in another order
        (ALONE, "11 12 13 14", (0, 0)),  # once
        (f"{ALONE} {ALONE} {ALONE}", "1 2 3 4 5 6 7 8 9 10 11 12", (0, 0)),
        ("1 1 2 2 1 1 2 2", "1 2 3 4 5 6 7 8", (0, 0)),  # several looks at each
        ("1 2 3 4", "1 2 3 4 1 2 3 4", (0, 0)),  # read into memory once
        ("1 2 3 4 5 6", "1 2 3 4 5 6", (0, 0)),  # others in each epoch
        ("", "", (0, 0)),
    ],
)
def test_pictures_that_changed_are_counted(read: str, shown: str, told: tuple[int, int]) -> None:
    assert changed_pictures(seen(read, shown)) == told


def test_pictures_changed_at_random_for_validation_are_told_and_cost_nothing(
    tmp_path: Path, box: Box
) -> None:
    text = (build.ROOT / "reference" / "lightning_train.py").read_text()
    find = "[transforms.ToTensor(), "
    assert text.count(find) == 1
    flips = "[transforms.RandomHorizontalFlip(), transforms.RandomRotation(10), transforms.ToTensor(), "
    (tmp_path / "lightning_train.py").write_text(text.replace(find, flips))
    (exercise,) = graded(tmp_path, "lightning_train", box, checks=("script",)).exercises
    (check,) = exercise.checks
    assert check.verdict is Verdict.PASSED, check.message
    assert "came to validation_step with other pixels" in check.message
