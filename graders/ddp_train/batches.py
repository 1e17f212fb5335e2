"""The batches that train_one_epoch was seen to train on; a check that cannot go on without them ends here."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise

from graders.ddp_train import expected
from graders.ddp_train.expected import BATCH_SIZE, Batch, Data
from lockstep.check import Check
from lockstep.compare import elements, integer
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


def fed_by_step(
    check: Check, outcome: Outcome, data: Sequence[Data], batch_size: int = BATCH_SIZE
) -> list[list[Batch]]:
    """The ranks' batches, step by step. Every rank must have made one step per batch of the loader, of `batch_size`."""
    own = [
        _by_step(check, rank, fed(check, rank, data[number], number), number, batch_size)
        for number, rank in enumerate(outcome.ranks)
    ]
    return [
        [batches[step] if step < len(batches) else () for batches in own]
        for step in range(max(map(len, own)))
    ]


def _by_step(
    check: Check, rank: RankOutcome, batches: list[Batch], number_of_rank: int, batch_size: int
) -> list[Batch]:
    """A rank's batches, one for each step. One that goes through the model in parts comes to what a whole one does."""
    steps = elements(rank.values.get("steps"))
    if len(steps) == len(batches):
        return batches
    ends = [integer(end) or 0 for end in steps]
    parts = [batches[begin:end] for begin, end in pairwise([0, *ends])]
    whole = [tuple(chain(*part)) for part in parts]
    check.expect(
        ends[-1:] == [len(batches)]
        and sum(map(len, parts)) == len(batches)
        and all(0 < len(b) <= batch_size for b in whole),
        f"train_one_epoch on rank {number_of_rank}: the model was called {len(batches)} times, but optimizer.step() "
        f"{'once' if len(steps) == 1 else f'{len(steps)} times'}.",
        "One batch of the loader, one step: zero_grad, forward, loss, backward, step, all in the loop and called, each "
        "with its brackets.",
    )
    return whole


def items_by_epoch(batches: Sequence[Batch], rank: RankOutcome) -> list[list[int]]:
    """The items of a rank's batches, epoch by epoch."""
    boundaries = rank.values.get("boundaries")
    ends = [integer(end) or 0 for end in elements(boundaries)]
    return [[i for batch in batches[start:end] for i in batch] for start, end in pairwise([0, *ends])]
