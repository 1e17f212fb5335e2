"""The batches that train_one_epoch was seen to train on; a check that cannot go on without them ends here."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from graders.ddp_train import expected
from graders.ddp_train.expected import Batch, Data
from lockstep.check import Check
from lockstep.compare import integer
from lockstep.sandbox.outcome import Outcome, RankOutcome


def fed(check: Check, rank: RankOutcome, data: Data, number_of_rank: int) -> list[Batch]:
    """The batches that reached a rank's model; ends the check when they are not the data set's."""
    found = expected.batches(rank, data)
    if not found:
        check.fail(
            f"train_one_epoch on rank {number_of_rank}: "
            f"{'no batch' if found is not None else 'something else than batches'} of the data set reached the model.",
            "Loop over the loader and hand its images to the model as they come, on the right device.",
        )
    return found


def fed_by_step(check: Check, outcome: Outcome, data: Sequence[Data]) -> list[list[Batch]]:
    """The ranks' batches, step by step. Every rank must have made as many, one step per batch."""
    own = [fed(check, rank, data[number], number) for number, rank in enumerate(outcome.ranks)]
    counts = [len(batches) for batches in own]
    for number_of_rank, rank in enumerate(outcome.ranks):
        steps = rank.values.get("steps")
        check.expect(
            isinstance(steps, list) and len(steps) == counts[number_of_rank],
            f"train_one_epoch on rank {number_of_rank}: the model was called for {counts[number_of_rank]} batches, but "
            f"optimizer.step() was called {len(steps) if isinstance(steps, list) else 0} times.",
            "One batch, one step: zero_grad, forward, loss, backward, step.",
        )
    return [[batches[step] if step < len(batches) else () for batches in own] for step in range(max(counts))]


def items_by_epoch(batches: Sequence[Batch], rank: RankOutcome) -> list[list[int]]:
    """The items of a rank's batches, epoch by epoch."""
    boundaries = rank.values.get("boundaries")
    ends = [integer(end) or 0 for end in boundaries] if isinstance(boundaries, list) else []
    return [[i for batch in batches[start:end] for i in batch] for start, end in pairwise([0, *ends])]
