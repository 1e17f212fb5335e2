"""The judge of exercise 5, the script in two processes: whether they share out the data and keep equal weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graders.lightning_train import expected
from graders.lightning_train.expected import Item
from graders.lightning_train.runs import FEW, LOADED_BY, drawn_size, fitted, run_script
from lockstep.check import Check
from lockstep.compare import difference, elements, integer, shown
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.text import few_names
from lockstep.verdict import Crashed, Failed

BATCH_SIZE = "--batch-size"
BY_HAND_HINT = (
    "With automatic_optimization = False say self.manual_backward(loss), not loss.backward(): only so does "
    "DistributedDataParallel take the mean of the gradients over the processes."
)


def test_two_ranks(check: Check) -> None:
    """With --devices 2 --strategy ddp two processes share out the data and keep equal weights."""
    n_train, n_test = 2 * drawn_size(check, 31, 46) - 1, 24
    arguments = [
        "--devices", "2", "--strategy", "ddp", "--max-epochs", "1", "--limit-train-batches", "1.0", "--logger", "csv",
    ]  # fmt: skip
    outcome, has_size = _run(check, arguments, (n_train, n_test))
    call = "lightning_train.py --accelerator cpu --devices 2 --strategy ddp under torchrun with two processes"
    for rank, seen in enumerate(outcome.ranks):
        fitted(check, seen, f"{call}, rank {rank}")
        check.expect(
            integer(seen.values.get("world_size")) == 2,
            f"{call}: the Trainer of rank {rank} has world size {shown(seen.values.get('world_size'))}, expected 2. Each "
            "process would train a model of its own.",
            "Hand --devices and --strategy on to build_trainer(devices=..., strategy=...).",
        )
    own = [expected.pictures(seen, "train") for seen in outcome.ranks]
    check.expect(
        all(own),
        f"{call}: training_step of rank {0 if not own[0] else 1} was given no picture.",
        "Both processes have to train.",
    )
    _shared(check, outcome, own, n_train, call)
    _same_weights(check, outcome, call)
    check.expect(
        not asks_at_once(outcome),
        "Training on two processes works, but rank 1 called for the download of the data as well. Started by torchrun or "
        "Slurm where the data are not on disk yet, both would write the same files at once.",
        "Put FashionMNIST(..., download=True) into prepare_data of the module or the LightningDataModule, which Lightning "
        "calls in one process of each node while the others wait, and make the data sets in setup, or in the loaders, without "
        "download. Where they are made before fit, download under a lock.",
        points=check.points / 2,
    )
    apart = locked_apart(outcome)
    check.expect(
        apart is None,
        "Training on two processes works, but both called for the download of the data, and each under a lock on a file of its "
        f"own: {few_names(apart or ())}. Neither waits for the other.",
        "Lock a file that has the same name in every process, without its rank or its number.",
        points=check.points / 2,
    )
    check.expect(
        not has_size or not is_divided(outcome) or not _is_whole_alone(check),
        f"Training on two processes works, but with --devices 2 --batch-size {LOADED_BY} each makes batches of "
        f"{LOADED_BY // 2}, and of {LOADED_BY} with --devices 1: the size is divided by the number of devices. There are twice "
        "as many steps, and a report has another size than was trained with.",
        "In the template --batch-size is of one process: FashionData(args.data, args.batch_size). Lightning divides nothing "
        "either, so that two processes take steps on twice as many pictures.",
        points=check.points / 2,
    )


def _run(check: Check, arguments: Sequence[str], n: tuple[int, int]) -> tuple[Outcome, bool]:
    """An epoch of the script on two processes; whether it was told the size of its batches, which it need not know."""
    if BATCH_SIZE.encode() in check.submission.files.get("lightning_train.py", b""):
        # As large as without it, because the probe makes none larger.
        told = [*arguments, BATCH_SIZE, str(LOADED_BY)]
        try:
            outcome = run_script(check, told, ranks=2, n=n, one_epoch=True)
        except (Failed, Crashed):
            outcome = None  # it may be another's option
        if outcome and not any(integer(seen.values.get("status")) for seen in outcome.ranks):
            return outcome, True
    return run_script(check, arguments, ranks=2, n=n, one_epoch=True), False


def is_divided(outcome: Outcome) -> bool:
    """Whether both processes began with a batch of half the size that they were told."""
    return all(_first_batch(seen) == LOADED_BY // 2 for seen in outcome.ranks)


def _is_whole_alone(check: Check) -> bool:
    """Whether one process makes batches of the size that it is told."""
    told = ["--devices", "1", "--limit-train-batches", "1.0", "--logger", "csv", BATCH_SIZE, str(LOADED_BY)]
    seen = run_script(check, told, n=(4 * LOADED_BY, 2 * LOADED_BY), stop_before=0, expect=False).ranks[0]
    return _first_batch(seen) == LOADED_BY


def _first_batch(seen: RankOutcome) -> int:
    return next(iter(expected.counts(seen.values.get("sizes"), "train")), 0)


def asks_at_once(outcome: Outcome) -> bool:
    """Whether rank 1 asked for a download that rank 0 may have been busy with: no lock, and no barrier in between."""
    if not isinstance(outcome.ranks[1].values.get("downloads"), dict):
        return True
    for part in ("train", "test"):
        first, second = (_downloads(seen, part) for seen in outcome.ranks)
        done = min((barriers for barriers, _ in first), default=None)
        for barriers, is_locked in second:
            if not is_locked and (done is None or barriers <= done):
                return True
    return False


def _downloads(seen: RankOutcome, part: str) -> list[tuple[int, bool]]:
    """Of each call for a download: the barriers that lie behind it, and whether it was made under a lock."""
    asked = seen.values.get("downloads")
    found: list[tuple[int, bool]] = []
    for entry in elements(asked.get(part) if isinstance(asked, dict) else None):
        match entry:
            case [int() as barriers, bool() as is_locked]:
                found.append((int(barriers), is_locked))
    return found


def locked_apart(outcome: Outcome) -> tuple[str, str] | None:
    """The files of both processes where they asked for one part of the data under locks that are not the same."""
    for part in ("train", "test"):
        held = [_locks(seen, part) for seen in outcome.ranks]
        # Who comes second may find the data and ask no more.
        if all(held) and not set(held[0]) & set(held[1]):
            return held[0][0], held[1][0]
    return None


def _locks(seen: RankOutcome, part: str) -> list[str]:
    locks = seen.values.get("locks")
    return expected.strings(locks.get(part)) if isinstance(locks, dict) else []


def _shared(check: Check, outcome: Outcome, own: Sequence[Sequence[Item]], n: int, call: str) -> None:
    sets = [set(items) for items in own]
    both = len(sets[0] & sets[1])
    sampler = (
        "Leave use_distributed_sampler=True, the default of Trainer: Lightning then gives every loader a "
        "DistributedSampler. A sampler or a batch_sampler of your own it leaves alone."
    )
    # Splits that were drawn apart share half of what each process trains on, more or less.
    if both > FEW and both > 0.8 * len(sets[0]):
        check.fail(f"{call}: both processes trained on the same {both} pictures.", sampler)
    # Noise or a random crop makes every picture another one, where it is known by content alone: then they are counted.
    if all(_reads_all(seen, items) for seen, items in zip(outcome.ranks, own, strict=True)):
        given = [_given(seen) for seen in outcome.ranks]
        check.expect(
            any(size <= (n + 1) // 2 + batch for size, batch in given),
            f"{call}: of {n} pictures {' and '.join(str(size) for size, _ in given)} were given to training_step in an epoch "
            "on the two processes, expected half of them on each, and no DistributedSampler shares them out.",
            sampler,
        )
    check.expect(
        both <= 1,
        f"{call}: {both} pictures were trained on by both processes, expected at most 1, the sampler's padding.",
        "Both processes have to shuffle or split the data alike: pl.seed_everything(...), or a generator with a fixed seed.",
    )
    # A part of the training pictures may be kept for validation. What is known by content alone could be of that part.
    trained = sets[0] | sets[1]
    validated = {item for seen in outcome.ranks for item in expected.pictures(seen, "val")}
    kept = {item for item in validated if item[0] != "test"} - trained
    # With drop_last a loader leaves out less than a batch, in each process.
    stages = ("train", "val") if kept else ("train",)
    left_out = sum(
        max(FEW, *expected.counts(seen.values.get("sizes"), stage))
        for seen in outcome.ranks
        for stage in stages
    )
    is_whole = len(trained) + len(kept) >= n - left_out
    check.expect(
        # Without any validation nobody knows what was kept for it.
        len(trained) >= n // 2 and (is_whole or not validated),
        f"{call}: together they trained on {len(trained)} of {n} pictures"
        + (f", with {len(kept)} kept for validation." if kept else "."),
        f"{sampler} To share out by rank as well, with a Subset(data, range(rank, n, world_size)) for example, halves the "
        "pictures twice.",
    )


def _given(seen: RankOutcome) -> tuple[int, int]:
    """How many pictures a process trained on in its first epoch, and the largest batch of them."""
    sizes = expected.counts(seen.values.get("sizes"), "train")
    epochs = expected.counts({"train": seen.values.get("epochs_from_one")}, "train")
    first = [size for size, epoch in zip(sizes, epochs, strict=False) if epoch == epochs[0]]
    return sum(first), max(first, default=0)


def _reads_all(seen: RankOutcome, items: Sequence[Item]) -> bool:
    """Whether a process that trained once read pictures of its own by a loader that nothing shares out."""
    by_content = all(part == "?" for part, _ in items)
    return by_content and seen.values.get("shared_out") is False and integer(seen.values.get("fits")) == 1


def _same_weights(check: Check, outcome: Outcome, call: str) -> None:
    weights = [seen.arrays.get("weights") for seen in outcome.ranks]
    first = weights[0]
    if first is None or first.size == 0 or first.dtype != np.float32:
        check.fail(
            f"{call}: the model has no weights to compare.", "Make the network in LitFashion.__init__."
        )
    problem = difference(weights[1], first, rtol=1e-5, atol=1e-6, what="what rank 1 holds")
    if problem is not None:
        check.fail(
            f"{call}: after an epoch the processes hold different models: {problem} from rank 0.",
            BY_HAND_HINT
            if outcome.ranks[0].values.get("automatic") is False
            else "Train with trainer.fit and let Lightning do the steps: it wraps the module in DistributedDataParallel.",
        )
