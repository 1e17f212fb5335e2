"""Exercise 4, the learning rate: what --lr and --scale-lr of ddp_train.py come to."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile
from typing import NoReturn

from fixtures import cifar10
from graders.ddp_train.command_line import finds_data
from graders.ddp_train.hints import NOT_CALLED
from graders.ddp_train.runs import on_nodes
from graders.ddp_train.script_runs import SCRIPT_LIMITS
from lockstep.check import Check
from lockstep.compare import close, elements, number, shown
from lockstep.helptexts import answers_help
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.text import last_lines
from lockstep.wire import Json

STEPS = 2  # of a rank in an epoch
SECOND_EPOCH = STEPS + 1  # the number of its first step
TOLD_FOLDER = ("--training-data", "/data/cifar")
WARM_UP_STEPS = 2 * STEPS  # a rate that goes up by the epoch has gone up once
LONG_WARM_UP = 6 * STEPS  # torch's ConstantLR goes up after five epochs


def test_lr_scaling(check: Check) -> None:
    """--scale-lr multiplies the learning rate by the number of ranks."""
    # On two ranks alone a 2 written out would do, and with one rate for both calls the rate itself.
    fewest, more = check.world_sizes[0], check.world_sizes[:2][-1]
    scaled, plain = (
        round(float(check.rng.uniform(*bounds)), 5) for bounds in ((0.001, 0.004), (0.005, 0.009))
    )
    calls: tuple[tuple[int, float, list[str], float], ...] = (
        (more, scaled, ["--scale-lr"], scaled * more),
        (fewest, plain, [], plain),
    )
    with_flag = _run(check, *calls[0][:3], steps=SECOND_EPOCH, expect=False)
    seen_with_flag = _rates_in(with_flag)
    # What went wrong behind the first step, other checks tell.
    if not all(seen_with_flag):
        seen_with_flag = _rates(check, *calls[0][:3])
    # There are images in its default folder as well.
    without_folder = _run(check, *calls[1][:3], expect=False, folder=())
    seen_without_flag = _rates_in(without_folder)
    needs_folder = not all(seen_without_flag)
    if needs_folder:
        seen_without_flag = _rates(check, *calls[1][:3])
    groups = [elements(rank.values.get("groups")) for rank in with_flag.ranks]
    in_another = all(any(close(rate, scaled * more, rtol=1e-6, atol=0) for rate in own) for own in groups)
    _is_scaled(check, calls, seen_with_flag, seen_without_flag, in_another_group=in_another)
    _all_groups_are_scaled(check, with_flag, *calls[0][:2])
    for rank in without_folder.ranks:
        answers_help(check, rank, "ddp_train.py")
    # One that has looked in several places may have found some.
    if needs_folder:
        finds_data(check, without_folder)


def _is_scaled(
    check: Check,
    calls: Sequence[tuple[int, float, list[str], float]],
    seen_with_flag: list[list[Json]],
    seen_without_flag: list[list[Json]],
    *,
    in_another_group: bool,
) -> None:
    """End the check where the rates of a call with --scale-lr and of one without are not what they should be.

    Those of the first group of parameters are looked at. They may be the same part of what they should be in both where
    another group has the scaled rate: of layers that are to change less, say.
    """
    (more, scaled, *_), (_, plain, *_) = calls
    first = [[rates[:1] for rates in found] for found in (seen_with_flag, seen_without_flag)]
    parts = [_part(rates, wanted) for rates, (*_, wanted) in zip(first, calls, strict=True)]
    is_less_for_some = in_another_group and _is_same(*parts)
    if _may_warm_up(*parts) and (
        is_less_for_some or _rises(_rates(check, more, scaled, ["--scale-lr"], steps=LONG_WARM_UP))
    ):
        return
    if parts[0] == 0:
        _warms_up_from_zero(check, more, scaled, plain)
        return
    for (world, lr, flags, wanted), rates in zip(calls, first, strict=True):
        shown_call = " ".join(["ddp_train.py --lr", str(lr), *flags])
        for rank, seen in enumerate(rates):
            if not seen:
                _came_to_no_step(
                    check, _run(check, world, lr, flags, expect=False).ranks[rank], rank, shown_call
                )
            check.expect(
                all(close(rate, wanted, rtol=1e-6, atol=0) for rate in seen),
                f"`{shown_call}` on {world} ranks, each on a node of its own: the first step on rank {rank} had the learning "
                f"rate {shown(seen[0])}, expected {wanted:.6g}.",
                "With --scale-lr the rate is args.lr * world_size, since a step sees world_size times as many items; "
                "the batch size of one rank plays no part, and without the flag nothing is multiplied. The optimizer is made with "
                "that rate: of what is multiplied after it is made it never hears.",
            )
    _stays_scaled(check, more, scaled, seen_with_flag)


def _came_to_no_step(check: Check, ended: RankOutcome, rank: int, call: str) -> NoReturn:
    """End the check where a rank trained nothing: `ended` is how it ended when it was run once more."""
    printed = last_lines(ended.output)
    check.fail(
        f"`{call}` with --training-data, --epochs and --batch-size: rank {rank} came to no step of an optimizer. "
        f"Its last lines: {printed}",
        NOT_CALLED
        if ended.error is None and not ended.output.strip()
        else 'An option without a value is made with action="store_true": type=bool wants a value, and takes any text for true.'
        if "--scale-lr: expected" in printed
        else "Run such a line in a terminal: does the script take every option that the exercise lists, and train with an "
        "optimizer of torch.optim?",
    )


def _stays_scaled(check: Check, world: int, lr: float, rates: list[list[Json]]) -> None:
    """End the check where rates that --scale-lr multiplied in the first step are --lr itself in the second epoch."""

    def is_lr(found: list[list[Json]]) -> bool:
        return all(len(seen) == SECOND_EPOCH and close(seen[-1], lr, rtol=1e-6, atol=0) for seen in found)

    check.expect(
        # Whose rate comes down by as much as there are ranks does so without the flag as well.
        not is_lr(rates) or not is_lr(_rates(check, world, lr, [], steps=SECOND_EPOCH, expect=False)),
        f"`ddp_train.py --lr {lr} --scale-lr` on {world} ranks, each on a node of its own: the first step had the learning rate "
        f"{lr * world:.6g}, as expected, but that of the second epoch has {lr}, as without the flag.",
        "Whatever sets the rate in later epochs, as an adjust_learning_rate or a scheduler, has to start from the rate that "
        "was scaled.",
        points=check.points / 2,
    )


def _all_groups_are_scaled(check: Check, outcome: Outcome, world: int, lr: float) -> None:
    """End the check where a group of parameters has --lr itself while that of the first one was multiplied.

    A rate of a group's own, which is neither, is the author's business.
    """
    for rank in outcome.ranks:
        first, others = (elements(rank.values.get(name)) for name in ("lr", "groups"))
        left = sum(close(rate, lr, rtol=1e-6, atol=0) for rate in others)
        check.expect(
            not left or not first or not close(first[0], lr * world, rtol=1e-6, atol=0),
            f"`ddp_train.py --lr {lr} --scale-lr` on {world} ranks, each on a node of its own: the optimizer has "
            f"{1 + len(others)} groups of parameters. The learning rate of the first was {lr * world:.6g}, as expected, but that "
            f"of {left} other{'s' * (left > 1)} was {lr}, as without the flag.",
            "Work the rate out once, lr = args.lr * world_size, and give every group that one.",
            points=check.points / 2,
        )


def _warms_up_from_zero(check: Check, world: int, scaled: float, plain: float) -> None:
    """End the check where rates that begin at 0 stay there, or go up to others than they should."""
    # On as many ranks with the flag as without: how long it goes up may depend on their number.
    with_flag, without = (
        _rates(check, world, lr, flags, steps=WARM_UP_STEPS)
        for lr, flags in ((scaled, ["--scale-lr"]), (plain, []))
    )
    # Who takes a step for several batches has made fewer of them, and may still be at 0.
    if any(len(seen) < WARM_UP_STEPS and not any(map(number, seen)) for seen in with_flag):
        return
    part, other = _part(_above_zero(with_flag), scaled * world), _part(_above_zero(without), plain)
    call = f"`ddp_train.py --lr {scaled} --scale-lr` on {world} ranks, each on a node of its own: the learning rate begins at 0"
    check.expect(
        all(_above_zero(with_flag)),
        f"{call} and is 0 in each of the first {WARM_UP_STEPS} steps, which are two epochs: nothing is learned.",
        "A warm-up goes up from step to step: is the step of its scheduler called?",
    )
    # Without the flag there may be no warm-up.
    may_differ = _part(without, plain) != 0 and _may_warm_up(part, other)
    check.expect(
        may_differ or _is_same(part, other),
        f"{call}, and the first one above that is {_as_part(part)} of {scaled} * {world}. Without the flag `--lr {plain}` comes "
        f"first to {_as_part(other)} of {plain}; expected the same part of both.",
        "With --scale-lr a warm-up leads to args.lr * world_size, and without it to args.lr.",
    )


def _as_part(part: float | None) -> str:
    return "another part on every rank, or none," if part is None else f"{part:.6g}"


def _rates(
    check: Check, world: int, lr: float, flags: list[str], *, steps: int = 1, expect: bool = True
) -> list[list[Json]]:
    """The learning rates of the script's first steps on each rank; none of one that fails where nothing is expected."""
    return _rates_in(_run(check, world, lr, flags, steps=steps, expect=expect))


def _run(
    check: Check,
    world: int,
    lr: float,
    flags: list[str],
    *,
    steps: int = 1,
    expect: bool = True,
    folder: Sequence[str] = TOLD_FOLDER,
) -> Outcome:
    """The script's first steps on some ranks, with images where it is told and in its default folder."""
    tree = cifar10.make_batches(check.rng, 8 * STEPS * world, 10)
    epochs = str(max(2, steps // STEPS))
    return check.run(
        "first_lr",
        ranks=world,
        env=on_nodes(1, world),
        values={
            "arguments": [*folder, "--epochs", epochs, "--batch-size", "8", "--lr", str(lr), *flags],
            "steps": steps,
        },
        data={"cifar": tree},
        files={f"data/{name}": content for name, content in tree.items()},
        limits=SCRIPT_LIMITS,
        shared_files=True,
        expect=expect,
    )


def _rates_in(outcome: Outcome) -> list[list[Json]]:
    found = [[rank.values.get(name) for name in ("lr", "later")] for rank in outcome.ranks]
    # Without a first step there is no later one.
    return [
        [*first, *later] if isinstance(first, list) and first and isinstance(later, list) else []
        for first, later in found
    ]


def _above_zero(rates: list[list[Json]]) -> list[list[Json]]:
    """Each rank's learning rates from the first on that is not 0."""
    return [list(dropwhile(lambda rate: number(rate) == 0, seen)) for seen in rates]


def _part(rates: list[list[Json]], wanted: float) -> float | None:
    """Which part of a rate every rank begins with; None where they differ, or one has no rate."""
    first = [number(seen[0]) if seen else None for seen in rates]
    return first[0] / wanted if first[0] is not None and len(set(first)) == 1 else None


def _is_same(part: float | None, other: float | None) -> bool:
    return part is not None and other is not None and close(part, other, rtol=1e-6, atol=0)


def _may_warm_up(scaled: float | None, plain: float | None) -> bool:
    """Whether a script that begins with these parts of its rates, with --scale-lr and without, may go up to them.

    It may begin with the same part of both, or go up with --scale-lr only (Goyal et al., Accurate, Large Minibatch SGD,
    section 2.2).
    """
    if scaled is None or plain is None or not 0 < scaled < 1 - 1e-6:
        return False
    return _is_same(scaled, plain) or close(plain, 1.0, rtol=1e-6, atol=0)


def _rises(rates: list[list[Json]]) -> bool:
    """Whether the learning rate of every rank is higher in a later step than in the first."""
    found = [[rate for value in seen if (rate := number(value)) is not None] for seen in rates]
    return all(any(later > seen[0] for later in seen[1:]) for seen in found)
