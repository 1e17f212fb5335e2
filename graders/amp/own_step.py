"""Whether the script steps as train_step does: it may have been written, and then a loop of its own makes the steps.

What train_step itself does wrong is told before, and is not told again of the script.
"""

from __future__ import annotations

from collections.abc import Sequence

from graders.amp.batches import by_loss, first_steps
from graders.amp.record import named, run_events
from graders.amp.script_runs import run_script
from lockstep.check import Check
from lockstep.compare import elements, number
from lockstep.sandbox.outcome import RankOutcome
from lockstep.wire import Json

# So many steps, all of them wrong in the same way, are no accident.
ENOUGH = 3
# Which of the first losses overflows, and how many are looked at.
OVERFLOW, LOSSES = 3, 6
# Clipped before the scale is taken out, a gradient is smaller by that scale than it may be. One that is clipped rightly
# holds values below the norm by the root of their number at most, which is far from this.
LARGE_SCALE, ROUNDED = 2.0**12, 1.5
HINT = "Call your train_step with every batch, or do in the loop what it does."


def is_outside_autocast(check: Check, seen: RankOutcome, call: str) -> None:
    """End the check where every backward of the script is within autocast."""
    events = run_events(seen)
    within = [events[place][1:2] == [True] for place in named(events, "backward")]
    check.expect(
        len(within) < ENOUGH or not all(within),
        f"{call}: in each of its first {len(within)} steps backward() was called within autocast. "
        "train_step calls it outside.",
        f"{HINT} Only the forward and the loss belong under autocast.",
        points=check.points / 2,
    )


def sets_gradients_to_zero(check: Check, seen: RankOutcome) -> None:
    """End the check where every backward of the script adds to what is left of the step before."""
    left = elements(seen.values.get("left_over"))
    check.expect(
        len(left) < ENOUGH or not all(one is True for one in left),
        f"amp_train.py without AMP (--no-amp): {len(left)} times the backward after a step began, and each time the "
        "gradients of that step were still there. train_step sets them to zero.",
        f"{HINT} backward adds to the gradients that are there: optimizer.zero_grad() in every step.",
        points=check.points / 2,
    )


def leaves_out_what_overflows(check: Check, seen: RankOutcome) -> None:
    """End the check where the optimizer steps by itself after unscale_, also with a gradient that is infinite."""
    groups = [group for group in by_loss(run_events(seen)) if named(group, "optimizer")]
    if len(groups) < ENOUGH or not all(_steps_itself(group) for group in groups):
        return
    told: dict[str, Json] = {"gpu": True, "losses": LOSSES, "overflow": OVERFLOW}
    after = run_script(check, "until_the_loss", train=24, epochs=2, values=told, expect=False).ranks[0]
    check.expect(
        seen.values.get("finite") is not True or after.values.get("finite") is not False,
        f"amp_train.py --amp on an emulated GPU: when the gradient of batch {OVERFLOW} was infinite, the optimizer "
        "stepped all the same, and the weights are NaN or infinite afterwards. train_step leaves such a step out.",
        f"{HINT} scaler.step(optimizer) looks whether the gradients are finite; optimizer.step() does not.",
        points=check.points / 2,
    )


def _steps_itself(group: list[list[Json]]) -> bool:
    """Whether the scale was taken out of the gradients, and then the optimizer, not the scaler, made the step."""
    steps = [group[place][1:2] == [False] for place in named(group, "optimizer")]
    return (
        all(steps) and bool(named(group, "scale") and named(group, "unscale_")) and not named(group, "step")
    )


def gradients(seen: RankOutcome) -> list[float]:
    """The largest value of the gradient of each step, where they were looked at."""
    found = seen.values.get("gradients")
    largest = [number(one) for one in elements(found)]
    return [one for one in largest if one is not None]


def clips_what_is_unscaled(check: Check, seen: RankOutcome, limit: str) -> None:
    """End the check where every gradient of the script was clipped with the scale in it, and divided by it then."""
    sizes = gradients(seen)
    factors = [step.factor for step in first_steps(seen)]
    scale = min((abs(factor) for factor in factors if factor is not None), default=0.0)
    largest = max(sizes, default=0.0)
    check.expect(
        not (clips_before_unscale(seen) and are_tiny(sizes, float(limit), scale)),
        f"amp_train.py --grad-clip {limit}: the gradients that its first {len(sizes)} steps used held values up to "
        f"{largest:.2g}. They were clipped while they were still multiplied by the scale, {scale:g}, and divided by it "
        "afterwards: almost nothing is left. train_step takes the scale out first.",
        f"{HINT} scaler.unscale_(optimizer) stands between backward and clip_grad_norm_.",
        points=check.points / 2,
    )


def are_tiny(sizes: Sequence[float], limit: float, scale: float) -> bool:
    """Whether the largest values of some gradients are what is left of a limit that was divided by a scale."""
    return len(sizes) >= ENOUGH and scale >= LARGE_SCALE and 0 < max(sizes) <= ROUNDED * limit / scale


def clips_before_unscale(seen: RankOutcome) -> bool:
    """Whether every step clips right after backward, with nothing that takes the scale out in between."""
    groups = [group for group in by_loss(run_events(seen)) if named(group, "optimizer")]
    return len(groups) >= ENOUGH and all(_clips_scaled(group) for group in groups)


def _clips_scaled(group: list[list[Json]]) -> bool:
    names = [event[0] for event in group]
    if not {"scale", "backward", "clip", "step"} <= set(names) or "unscale_" in names:
        return False
    return names.index("scale") < names.index("backward") < names.index("clip") < names.index("step")
