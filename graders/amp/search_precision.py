"""Whether the search for the largest batch computes with AMP where train_step does."""

from __future__ import annotations

from graders.amp.expected import Scenario
from graders.amp.record import strings, told
from graders.amp.script_precision import LOW_TYPES
from graders.amp.steps import Case
from lockstep.check import Check
from lockstep.sandbox.outcome import RankOutcome
from lockstep.verdict import CheckEnded


def is_that_of_the_steps(check: Check, on_cpu: RankOutcome, on_gpu: RankOutcome | None) -> None:
    """End the check where find_batch_size, asked for AMP, tries all its steps without."""
    low = low_steps_alone(on_cpu, on_gpu)
    check.expect(
        low == "",
        "find_batch_size(..., amp=True, ...) tried its steps in float32, on a CPU and on an emulated GPU, while "
        f"train_step(..., amp=True) computes in {low}: what it found is the largest batch without AMP.",
        "Let each trial be a call of train_step(model, batch, criterion, optimizer, scaler, device, amp).",
        points=check.points / 2,
    )


def steps_are_always_low(check: Check) -> bool:
    """Whether train_step itself computes in low precision with amp=False, which off_is_fp32 tells of."""
    case = Case(check, Scenario((8,), amp=False))
    try:
        seen = case.run(forward_only=True)
    except CheckEnded:
        return False
    return not LOW_TYPES.keys().isdisjoint(strings(told(seen).get("types")))


def low_steps_alone(on_cpu: RankOutcome, on_gpu: RankOutcome | None) -> str:
    """The low precision of train_step, where the search computed in fp32 wherever it was looked at; "" otherwise.

    Autocast of GPUs alone is none on a CPU, and of a search of another form, or that did not end, nothing is known.
    """
    seen = [] if on_gpu is None else [on_cpu, on_gpu]
    searched = [strings(one.values.get("search_types")) for one in seen]
    if not seen or any(types != ["torch.float32"] for types in searched):
        return ""
    types = {name for one in seen for name in strings(one.values.get("step_types"))}
    return " and ".join(name.removeprefix("torch.") for name in sorted(types & LOW_TYPES.keys()))
