"""Whether validation is given a picture as it was in the epoch before: what is changed at random is for training."""

from __future__ import annotations

from collections import defaultdict

from graders.lightning_train import expected
from lockstep.check import Check
from lockstep.sandbox.outcome import RankOutcome

# What is done to every picture in the same way changes none from one epoch to the next.
MOST_CHANGED = 2


def tells_of_changed_pictures(check: Check, seen: RankOutcome) -> None:
    """Say so where pictures that were validated on in two epochs were others in the second; no exercise asks for more.

    Those are meant of which each was read once in either epoch: who averages over several looks may change them.
    """
    changed, n = changed_pictures(seen)
    if changed > MOST_CHANGED:
        check.note(
            f"Of {n} pictures that were validated on in both epochs, {changed} came to validation_step with other "
            "pixels in the second: they are changed at random, and so are val_loss and val_acc. RandomHorizontalFlip "
            "and its like are for training; a part that random_split takes from the training set has its transform."
        )


def changed_pictures(seen: RankOutcome) -> tuple[int, int]:
    """How many of so many pictures had other pixels in the second of two epochs; none where that cannot be told."""
    read = expected.items(seen.values.get("items"), "val")
    shown = expected.hashes(seen.values.get("hashes"), "val")
    half, rest = divmod(len(read), 2)
    # Where a picture is read ahead, or from memory, it is not known which came to the step.
    if rest or len(read) != len(shown) or sorted(read[:half]) != sorted(read[half:]):
        return 0, 0
    looks: defaultdict[expected.Item, list[expected.Item]] = defaultdict(list)
    for picture, pixels in zip(read, shown, strict=True):
        looks[picture].append(pixels)
    if any(len(each) != 2 for each in looks.values()):
        return 0, 0
    return sum(first != second for first, second in looks.values()), len(looks)
