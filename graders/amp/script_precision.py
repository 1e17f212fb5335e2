"""Whether the script trains in low precision: with --amp, and unless it is told otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from graders.amp import own_step
from graders.amp.batches import Step, first_steps
from graders.amp.script_runs import BOTH_FLAGS, begin_script
from lockstep.check import Check
from lockstep.sandbox.outcome import RankOutcome
from lockstep.verdict import CheckEnded

# How many bits of a number each keeps.
LOW_TYPES = {"torch.bfloat16": 7, "torch.float16": 10}
DEFAULT = f"In the template AMP is on unless --no-amp is given: {BOTH_FLAGS}"


def low_steps(made: Sequence[Step]) -> list[Step]:
    """The steps in which a layer answered in low precision."""
    return [step for step in made if not step.answers.isdisjoint(LOW_TYPES)]


def is_low(check: Check) -> None:
    """End the check where the script trains in fp32, on a CPU and on a GPU: train_step is not all there is."""
    by_default = None if _is_notebook(check) else _trains_low(check, None)
    if by_default is True:
        return
    # Who insists on being told whether to use AMP, or cannot be run at all, trains on nothing without it.
    if_told = _trains_low(check, True)
    check.expect(
        if_told is not False,
        "amp_train.py --amp trained on its first batches in float32, on a CPU and on an emulated GPU, though "
        "train_step(..., amp=True) computes in low precision.",
        "train(args) has to hand args.amp on to train_step, or to call train_step at all.",
        points=check.points / 2,
    )
    check.expect(
        not (if_told is True and by_default is False),
        "amp_train.py with neither --amp nor --no-amp trained on its first batches in float32, on a CPU and on an "
        "emulated GPU. With --amp it trains in low precision, and so it should without.",
        f"{DEFAULT} Of two flags that argparse is given for one `dest`, the first sets the default: with "
        'action="store_true" that is False.',
        points=check.points / 2,
    )


def is_switched_on(check: Check, told: RankOutcome) -> None:
    """End the check where --amp is what switches AMP off; `told` is the script with it, on a GPU."""
    made = first_steps(told)
    if not made or low_steps(made) or _is_notebook(check):
        return
    untold = begin_script(check, gpu=True, amp=None, expect=False)
    check.expect(
        not low_steps(first_steps(untold)),
        f"amp_train.py --amp on an emulated GPU trained on its first {len(made)} batches in float32. Without --amp it "
        "trains in low precision: the flag switches AMP off.",
        f'{DEFAULT} action="store_false" belongs to --no-amp.',
        points=check.points / 2,
    )


def _trains_low(check: Check, amp: bool | None) -> bool | None:
    """Whether the script trains in low precision on a CPU, or else on a GPU; None where it trains on nothing.

    Ends the check where it does so in some of its first batches alone.
    """
    call = "amp_train.py --amp" if amp else "amp_train.py (without --no-amp)"
    for gpu in (False, True):
        try:
            seen = begin_script(check, gpu=gpu, amp=amp)
        except CheckEnded:
            # That the script does not run is for the checks that run it to its end.
            return None
        made = first_steps(seen)
        own_step.is_outside_autocast(check, seen, call)
        low = low_steps(made)
        if not made:
            return None
        if low:
            check.expect(
                len(low) == len(made),
                f"{call}: of its first {len(made)} batches {len(low)} were trained on in low precision, expected all.",
                "train(args) has to hand args.amp on to train_step with every batch.",
                points=check.points / 2,
            )
            return True
    return False


def _is_notebook(check: Check) -> bool:
    """Whether it is one: its constant for AMP is whatever it was last run with."""
    return "amp_train.py" in check.submission.notebooks
