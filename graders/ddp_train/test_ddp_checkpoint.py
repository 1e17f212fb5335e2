"""Exercise 4, checkpoints: one rank writes them, every rank goes on from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from fixtures import cifar10
from graders.ddp_train import expected
from graders.ddp_train.batches import fed_by_step
from graders.ddp_train.expected import Batch, Data, Training
from graders.ddp_train.hints import LOOP_FIRST, ORDER_HINT
from graders.ddp_train.probe.checkpoints import CHECKPOINT
from graders.ddp_train.runs import LR, MOMENTUM, on_nodes, options
from graders.ddp_train.script_runs import SCRIPT_LIMITS
from graders.ddp_train.weights import CLOSE, IN_SIXTEEN_BITS, differing, first_unless_any, unlike
from lockstep.batchloop import LOOPS
from lockstep.check import Check, Inputs
from lockstep.compare import difference, elements, integer, shown
from lockstep.sandbox.outcome import Outcome
from lockstep.verdict import CheckEnded
from lockstep.wire import Array, Json

SCRIPT_BATCH, SCRIPT_STEPS = 4, 4  # the steps of an epoch, of one process
EARLY = {
    "missing": "there was no file of that name yet; when it had ended there was.",
    "unread": "there was a file of that name that torch.load does not read; it was written when the run ended.",
    "untrained": "the file of that name held the weights that the network had begun with, which had changed since.",
}


def test_checkpoint(check: Check) -> None:
    """Rank 0 alone writes the checkpoint, and a resumed run goes on as if it had not been interrupted."""
    # What a run on one rank computes does not depend on how gradients are averaged, which has checks of its own.
    for world in (check.world_sizes[0], 1):
        # What a batch norm learns is loaded on every rank; what it makes of a further epoch is not computed here.
        shape = expected.make_shape(check.rng, batch_norm=world > 1)
        weights, other = (expected.make_weights(check.rng, shape) for _ in range(2))
        data = expected.make_data(check.rng, world * 4 * 2)
        epoch = int(check.rng.integers(2, 7))
        told = options(shape, epoch=epoch)
        saved = check.run(
            "save",
            ranks=world,
            # Of several nodes, rank 0 is on one only.
            env=on_nodes(1, world),
            values=told,
            arrays={**data.arrays(), **expected.as_inputs(weights)},
            shared_files=True,
        )
        _written_once(check, saved)
        _written_anew(check, saved)
        resumed = check.run(
            "resume",
            ranks=world,
            # As after --lr was changed: the rate is part of what is resumed.
            values={**told, "lr": 3 * LR},
            arrays={**data.arrays(), **expected.as_inputs(other)},
            files={CHECKPOINT: saved.ranks[0].arrays["checkpoint"].tobytes()},
            shared_files=True,
        )
        unbroken = [Training(shape, weights, lr=LR, momentum=MOMENTUM, loop=loop) for loop in LOOPS]
        names = unbroken[0].state().keys()
        _loaded_everywhere(check, saved, resumed, epoch, names)
    before, after = (fed_by_step(check, outcome, [data]) for outcome in (saved, resumed))
    wrong = first_unless_any(
        differing(resumed.ranks, "final", _resumed(training, data, before, after).state(), "the weight")
        for training in unbroken
    )
    if wrong is not None and not _as_without_a_break(
        check, told, {**data.arrays(), **expected.as_inputs(weights)}, resumed
    ):
        call = "Two epochs, save_checkpoint, a new process, load_checkpoint, another epoch, on one rank"
        check.expect(
            not _stands_still(resumed),
            f"{call}: that last epoch changed no weight, so that what else was saved cannot be seen.",
            f"{ORDER_HINT} {LOOP_FIRST}",
        )
        check.fail(
            f"{call}: the weights are not those of a run without a break ({wrong[1]}).",
            "The file has to hold the weights and optimizer.state_dict() (momentum and learning rate are in there), and "
            "load_checkpoint has to load both, optimizer.load_state_dict(...): what is assigned to the name `optimizer` there is "
            f"forgotten when it returns. {LOOP_FIRST}",
        )
    check.expect(
        saved.ranks[0].values.get("direct") is not True,
        "Saving and resuming work, but save_checkpoint writes straight over the last checkpoint: a run that is stopped "
        "while it writes has none left.",
        "Write to a second name in the same folder, then os.replace(second, path): that happens at once or not at all.",
        points=check.points / 2,
    )
    _script_resumes_everywhere(check)
    _script_keeps_the_optimizer(check)


def _stands_still(resumed: Outcome) -> bool:
    """Whether training after load_checkpoint left every weight as it was loaded."""
    arrays = resumed.ranks[0].arrays
    held = {name.partition("/")[2]: value for name, value in arrays.items() if name.startswith("held/")}
    return bool(held) and all(
        difference(arrays.get(f"final/{name}"), value, what=name) is None for name, value in held.items()
    )


def _as_without_a_break(
    check: Check, told: Mapping[str, Json], arrays: Mapping[str, Array], resumed: Outcome
) -> bool:
    """Whether a training that was resumed ended as their own does in one go: whatever is wrong with that, other checks tell."""
    last = integer(told.get("epoch")) or 0
    try:
        own = check.run(
            "train", ranks=1, values={**told, "epochs": [last - 1, last, last + 1]}, arrays=arrays
        ).ranks[0]
    except CheckEnded:
        return False
    final = {name: value for name, value in own.arrays.items() if name.startswith("final/")}
    begun = {f"final/{name.partition('/')[2]}": value for name, value in arrays.items()}
    # Of one that trains nothing, no optimizer is seen to be lost.
    moves = any(difference(value, final[name]) is not None for name, value in begun.items() if name in final)
    return moves and all(
        difference(resumed.ranks[0].arrays.get(name), value, what=name, **CLOSE) is None
        for name, value in final.items()
    )


def _resumed(
    training: Training, data: Data, before: Sequence[Sequence[Batch]], after: Sequence[Sequence[Batch]]
) -> Training:
    """A training that was ended after some steps, and made the others in a new process."""
    training.run([data], before)
    training.as_a_new_process()
    return training.run([data], after)


def _script_resumes_everywhere(check: Check) -> None:
    """End the check where the script has only rank 0 go on from a checkpoint.

    The file cannot be read: who opens it, or waits for another who does, never comes to train.
    """
    tree = cifar10.make_batches(check.rng, 16, 10)
    outcome = check.run(
        "resumes",
        ranks=2,
        values={
            "arguments": [
                "--training-data", "/data/cifar", "--epochs", "2", "--batch-size", "8", "--checkpoint", CHECKPOINT,
                "--resume",
            ],
        },
        data={"cifar": tree},
        files={CHECKPOINT: b"no checkpoint"},
        limits=SCRIPT_LIMITS,
        shared_files=True,
        expect=False,
    )  # fmt: skip
    first, *others = ({event.get("kind") for event in rank.events} for rank in outcome.ranks)
    for rank, happened in enumerate(others, start=1):
        check.expect(
            "opened" not in first or "opened" in happened or "trained" not in happened,
            "Saving and resuming work, but `ddp_train.py --checkpoint FILE --resume` on 2 ranks, with a file that cannot be read: "
            f"rank 0 opened it, and rank {rank} began to train without having done so, or having waited for rank 0.",
            "Every rank has to call load_checkpoint: `if args.resume:`, not `if args.resume and rank == 0:`. The first epoch, "
            "the weights and the optimizer are each rank's own; ranks that begin at different epochs wait for each other "
            "without end.",
            points=check.points / 2,
        )


def _script_keeps_the_optimizer(check: Check) -> None:
    """End the check where the script goes on with an optimizer that knows nothing of the checkpoint, or wrote it late."""
    told = ["--training-data", "/data/cifar", "--batch-size", str(SCRIPT_BATCH), "--checkpoint", CHECKPOINT]
    outcome = check.run(
        "goes_on",
        ranks=2,
        per_rank=[
            Inputs({"is_first": True, "steps": SCRIPT_STEPS, "arguments": [*told, "--epochs", "2"]}),
            Inputs({"is_first": False, "arguments": [*told, "--epochs", "3", "--resume"]}),
        ],
        # Two jobs of one process each, on one machine.
        env=[
            {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1", "MASTER_PORT": port}
            for port in ("29511", "29533")
        ],
        # Whoever keeps the best checkpoint only has one right from the first epoch on.
        data={"cifar": cifar10.make_batches(check.rng, SCRIPT_STEPS * SCRIPT_BATCH, 10, tests_alike=True)},
        limits=SCRIPT_LIMITS,
        shared_files=True,
        seconds=30.0,
        expect=False,
    )
    before, seen = (rank.values for rank in outcome.ranks)
    held = before.get("held")
    # One without a memory, or made anew for every epoch, has nothing to forget.
    remembers = isinstance(held, list) and len(held) > 4 and all(each is True for each in held[1:])
    check.expect(
        not remembers or seen.get("opened") is not True or seen.get("held") != [False, True],
        "Saving and resuming work, but `ddp_train.py --epochs 2 --checkpoint FILE` and then `--epochs 3 --checkpoint FILE "
        "--resume`: the first step of the second run was made by an optimizer that held nothing of the first, as a new one "
        "does.",
        "load_checkpoint fills the optimizer that it is given, and main has to train with that one: make it before, and no "
        "other after it.",
        points=check.points / 2,
    )
    elsewhere = before.get("elsewhere")
    check.expect(
        not isinstance(elsewhere, str) or not elsewhere,
        "save_checkpoint writes to the path that it is given, but `ddp_train.py --epochs 2 --checkpoint FILE` left no file of "
        f"that name, and wrote {shown(elsewhere)} instead.",
        "save_checkpoint(model, optimizer, epoch, args.checkpoint): which file it is, whoever starts the script decides. The "
        "same goes for load_checkpoint.",
        points=check.points / 2,
    )
    early = before.get("early")
    found = EARLY.get(early) if isinstance(early, str) else None
    check.expect(
        before.get("late") is not True or found is None,
        "Saving and resuming work, but when `ddp_train.py --epochs 2 --checkpoint FILE` came to the last step of its second "
        f"epoch {found}",
        "Call save_checkpoint at the end of every epoch, in the loop: a run of 50 epochs that is stopped in the 49th has "
        "nothing to go on from otherwise.",
        points=check.points / 2,
    )


def _written_once(check: Check, saved: Outcome) -> None:
    check.expect(
        saved.ranks[0].values.get("first") not in (None, ""),
        f"save_checkpoint(model, optimizer, epoch, {CHECKPOINT!r}) returned on rank 0, and there is no file of that name.",
        "Let rank 0 write to the path that the function is given, whatever it is, and have it written before returning.",
    )
    for rank, seen in enumerate(saved.ranks):
        wrote = seen.values.get("wrote")
        check.expect(
            rank == 0 or not wrote,
            f"save_checkpoint: rank {rank} wrote the file, too.",
            "Only rank 0 may write, `if dist.get_rank() == 0:`; LOCAL_RANK is 0 on every node. Ranks that write the same file at "
            "once spoil it.",
        )
        check.expect(
            seen.values.get("first") not in (None, ""),
            f"save_checkpoint returned on rank {rank} before the file was there.",
            "Let the other ranks wait for rank 0: dist.barrier() after writing, on every rank.",
        )
    keys = saved.ranks[0].values.get("keys")
    names = [key for key in elements(keys) if isinstance(key, str)]
    check.expect(
        "checkpoint" in saved.ranks[0].arrays and len(names) > 0,
        "save_checkpoint wrote a file without tensors by name in it.",
        "Write a dict with the model's state_dict, the optimizer's state_dict and the epoch, with torch.save.",
    )
    prefixed = [name for name in names if name.removeprefix("_orig_mod.").startswith("module.")]
    check.expect(
        not prefixed,
        f"The checkpoint's keys are those of the wrapper, with `module.` ({', '.join(prefixed[:2])} ...).",
        "Save model.module.state_dict(): a checkpoint should load into the plain model. One that was wrapped twice has another "
        "wrapper there: wrap it once.",
    )


def _written_anew(check: Check, saved: Outcome) -> None:
    """End the check where the second checkpoint at the same path is none, or not there when a rank goes on."""
    first, second = (saved.ranks[0].values.get(name) for name in ("first", "second"))
    check.expect(
        first != second,
        "save_checkpoint was called after each of two epochs, with the same path: the file is still that of the first.",
        "Write it every time, and put it in the place of the last one: os.replace does not mind that there is one.",
        points=check.points / 2,
    )
    for rank, seen in enumerate(saved.ranks):
        check.expect(
            seen.values.get("second") == second,
            f"save_checkpoint was called for the second time with the same path, and returned on rank {rank} while the file was "
            "still that of the first.",
            "Let the other ranks wait for rank 0 with dist.barrier(): that there is a file says nothing once there was one.",
            points=check.points / 2,
        )


def _loaded_everywhere(check: Check, saved: Outcome, resumed: Outcome, epoch: int, names: Set[str]) -> None:
    held = {n.partition("/")[2]: v for n, v in saved.ranks[0].arrays.items() if n.startswith("held/")}
    wrong = differing(resumed.ranks, "held", held, "")
    rounded = wrong is not None and differing(resumed.ranks, "held", held, "", **IN_SIXTEEN_BITS) is None
    check.expect(
        wrong is None and names <= held.keys(),
        f"load_checkpoint on {len(resumed.ranks)} ranks: rank {wrong[0] if wrong else 0} does not hold the saved weights"
        f"{': ' + wrong[1].strip() if wrong else ''}.",
        "They are nearly the same, as after .half() or .bfloat16(): save the weights as the model has them, in 32 bits."
        if rounded
        else "Save and load the whole state_dict of the model: running_mean and running_var of a batch norm are no parameters, and "
        "without them the network evaluates as another."
        if wrong and "running_" in wrong[1]
        else "load_checkpoint has to put what the file holds into the model that it is given, "
        "model.module.load_state_dict(checkpoint['model']) of a wrapped one. With strict=False names that do not fit, as with "
        "`module.` in front, are passed over without a word."
        if wrong and wrong[0] == 0
        else "Every rank has to read the file: DistributedDataParallel hands weights out only once, when it is made.",
    )
    apart = unlike(resumed.ranks, "momentum")
    check.expect(
        apart is None,
        f"load_checkpoint on {len(resumed.ranks)} ranks: they hold the saved weights, but not the same momentum in their "
        f"optimizers: {apart}. From then on each rank takes steps of its own.",
        "Nobody keeps the optimizers of the ranks equal but you: optimizer.load_state_dict on every rank.",
    )
    for rank, seen in enumerate(resumed.ranks):
        value = seen.values.get("epoch")
        check.expect(
            integer(value) in (epoch, epoch + 1),
            f"load_checkpoint on rank {rank} returned {shown(value)} for a checkpoint saved after epoch {epoch}.",
            f"Save the epoch in the file and return it ({epoch}, or {epoch + 1} as the next to run).",
        )
