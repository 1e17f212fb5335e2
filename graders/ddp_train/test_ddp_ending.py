"""Exercise 4, the end: nothing is left running, and what one rank raises ends them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fixtures import cifar10
from graders.ddp_train import expected
from graders.ddp_train.runs import options
from graders.ddp_train.script_runs import ITS_FILES, SCRIPT_LIMITS
from lockstep import explain
from lockstep.check import Check
from lockstep.compare import integer
from lockstep.sandbox.limits import Limits
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.text import listed
from lockstep.verdict import CheckEnded, Hung
from lockstep.wire import Json

SCRIPT_ENDS_SECONDS = 20.0
SCRIPT_TIDIES_SECONDS = 10.0
_BY_STATUS = "torchrun and everybody who waits for the job go by the status."


def test_cleans_up(check: Check) -> None:
    """cleanup() leaves the process group and nothing running."""
    world = check.world_sizes[0]
    shape = expected.make_shape(check.rng)
    data = expected.make_data(check.rng, 4)
    outcome = check.run(
        "tidy",
        ranks=world,
        values=options(shape),
        arrays={"images": data.images, **expected.as_inputs(expected.make_weights(check.rng, shape))},
        counts_left=True,
    )
    for rank, seen in enumerate(outcome.ranks):
        check.expect(
            seen.values.get("was") is True and seen.values.get("is") is False,
            f"After cleanup() rank {rank} is still in its process group.",
            "cleanup has to call torch.distributed.destroy_process_group().",
        )
    left = check.left_running(outcome)
    check.expect(
        left == 0,
        f"After cleanup() {left} processes that your code started are still running.",
        "End what was started: join processes, and let DataLoader workers end with their loader.",
    )
    _script_cleans_up(check)


def _script_cleans_up(check: Check) -> None:
    """End the check where cleanup works, but the script around it ends without having called it on every rank.

    Or where that script works only if it is told where to write a checkpoint and a report.
    """
    arguments = ["--training-data", "/data/cifar", "--epochs", "1", "--batch-size", "8"]
    tree = cifar10.make_batches(check.rng, 16, 10)

    def run(ranks: int, *besides: str, expect: bool = True) -> Outcome:
        return check.run(
            "script_ends",
            ranks=ranks,
            values={"arguments": [*arguments, *besides]},
            data={"cifar": tree},
            limits=limits,
            shared_files=True,
            expect=expect,
        )

    limits = replace(SCRIPT_LIMITS, seconds=SCRIPT_TIDIES_SECONDS)
    untold: CheckEnded | None = None
    try:
        outcome = run(2)
    except CheckEnded as ended:
        untold = ended
        outcome = run(2, *ITS_FILES, expect=False)
        if explain.problem(outcome, limits, check.submission):
            # What else may go wrong in a script on several ranks, `script` tells.
            untold = None
            outcome = run(1, expect=False)
            if any(map(_fails_before_cleanup, outcome.ranks)):
                return
            if problem := explain.problem(outcome, limits, check.submission):
                raise problem from None
    world = len(outcome.ranks)
    still = [
        rank
        for rank, seen in enumerate(outcome.ranks)
        if seen.values.get("is") is not False and seen.values.get("was") is not False
    ]
    check.expect(
        len(still) < world,
        "cleanup() works, but ddp_train.py, run as a script, ends without having called it.",
        "Call cleanup() as the last line of main().",
    )
    check.expect(
        not still,
        f"cleanup() works, but ddp_train.py, run as a script on {world} ranks, ends without having called it on {_named(still)}, "
        "which never leaves the process group.",
        "Every rank joined the group in setup, and each has to leave it: call cleanup() as the last line of main(), outside of "
        "`if rank == 0:`.",
        points=check.points / 2,
    )
    if untold is not None:
        check.fail(
            f"cleanup() works, and so does ddp_train.py on 2 ranks with {' '.join(ITS_FILES)}. Without these, on the same data: "
            f"{untold.feedback.message}",
            "Whoever starts the script without them wants no such files: `if args.checkpoint:` before save_checkpoint, `if "
            "args.report and rank == 0:` before the report.",
            points=check.points / 2,
        )


def _fails_before_cleanup(rank: RankOutcome) -> bool:
    """Whether the script raised something on its way: that it never came to cleanup says nothing of it."""
    error = rank.error
    return (
        error is not None
        and error.phase.startswith("running ")
        and bool(error.frames)
        and all(frame.function != "cleanup" for frame in error.frames)
    )


def test_fails_fast(check: Check) -> None:
    """An exception on one rank ends all ranks, with its traceback."""
    world = check.world_sizes[0]
    shape = expected.make_shape(check.rng)
    data = expected.make_data(check.rng, world * 4 * 2)
    broken = len(data.images) - 1
    outcome = check.run(
        "train",
        ranks=world,
        # The item is somebody's in the first epoch, whatever the order.
        values=options(shape, broken=broken),
        arrays={**data.arrays(), **expected.as_inputs(expected.make_weights(check.rng, shape))},
        expect=False,
    )
    raised = [r for r, rank in enumerate(outcome.ranks) if _is_injected(rank)]
    call = f"train_one_epoch on {world} ranks, with one item that raises InjectedFault when it is read"
    if outcome.timed_out:
        hung = [r for r, rank in enumerate(outcome.ranks) if not rank.complete]
        check.fail(
            f"{call}: {_named(hung)} still waited after {outcome.elapsed:.0f} s.",
            "Do not catch the exception and go on, nor lose it in a thread of your own: the other ranks wait for this one in "
            "their next collective. Let it end the process; torchrun then ends the others.",
        )
    if not raised:
        if elsewhere := explain.problem(outcome, Limits(), check.submission):
            raise elsewhere
        check.fail(
            f"{call}: the exception came out of no rank.",
            "Something catches it (`except: pass`, `except Exception: print(...)`): let it go through, or raise it again. Or the "
            "item was never read: go through the whole loader, without a `break` or `return` in the loop.",
        )
    _script_fails_fast(check)


def _named(ranks: Sequence[int]) -> str:
    """Ranks in a sentence."""
    return f"rank{'s' * (len(ranks) > 1)} {listed([str(rank) for rank in ranks])}" if ranks else "no rank"


def _is_injected(rank: RankOutcome) -> bool:
    if rank.error is None:
        return False
    # Another exception that was raised because of it is as good.
    because = _happened(rank, "met")
    return because or rank.error.type == "InjectedFault" or "put there by the check" in rank.error.message


def _script_fails_fast(check: Check) -> None:
    """End the check where train_one_epoch lets an exception through, but the script around it waits for ever."""
    arguments: Json = ["--training-data", "/data/cifar", "--epochs", "1", "--batch-size", "4"]
    outcome = check.run(
        "broken",
        ranks=2,
        values={"arguments": arguments, "broken": int(check.rng.integers(16))},
        data={"cifar": cifar10.make_batches(check.rng, 16, 8)},
        limits=SCRIPT_LIMITS,
        shared_files=True,
        seconds=SCRIPT_ENDS_SECONDS,
        expect=False,
    )
    limits = replace(SCRIPT_LIMITS, seconds=SCRIPT_ENDS_SECONDS)
    problem = explain.problem(outcome, limits, check.submission)
    if isinstance(problem, Hung):
        check.fail(
            "train_one_epoch lets an exception through, but ddp_train.py on two ranks, with a training image that cannot be "
            f"read, does not end. {problem.feedback.message}",
            "What stands in `finally` is done after an exception as well: a barrier there waits for ranks that wait "
            "elsewhere. dist.destroy_process_group() alone is safe.",
            points=check.points / 2,
        )
    check.expect(
        not any(map(_hides_a_fault, outcome.ranks)),
        "train_one_epoch lets an exception through, but the process of ddp_train.py that came to a training image that cannot "
        "be read ended early with exit status 0, as if all had gone well.",
        f"{_BY_STATUS} Whoever catches an exception in main has to raise it again after printing it; without any `except` "
        "Python prints it and ends with status 1.",
        points=check.points / 2,
    )
    # Who passes over what cannot be read, on all ranks alike, may mean it.
    check.expect(
        all(map(_is_done, outcome.ranks)) or not any(map(_passes_over, outcome.ranks)),
        "train_one_epoch lets an exception through, but the process of ddp_train.py that came to a training image that cannot "
        "be read passed over it and ended with exit status 0, as if all had gone well; the other one, which made a step more, "
        "ended for the lost connection alone.",
        f"{_BY_STATUS} Let the exception through: a rank that leaves out a batch makes fewer collectives than the others, which "
        "then wait for it or fail.",
        points=check.points / 2,
    )


def _hides_a_fault(rank: RankOutcome) -> bool:
    """Whether a rank's script met what cannot be read, trained no further, and ended as one that is done."""
    return _happened(rank, "met") and not _happened(rank, "went_on") and _is_done(rank)


def _passes_over(rank: RankOutcome) -> bool:
    """Whether a rank's script met what cannot be read, trained on, and ended as one that is done."""
    return _happened(rank, "met") and _happened(rank, "went_on") and _is_done(rank)


def _happened(rank: RankOutcome, kind: str) -> bool:
    return any(event.get("kind") == kind for event in rank.events)


def _is_done(rank: RankOutcome) -> bool:
    return rank.error is None and integer(rank.values.get("status") if rank.complete else rank.status) == 0
