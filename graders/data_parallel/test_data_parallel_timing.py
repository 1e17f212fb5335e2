"""The judge of exercise 3, the clock: a timer that is given calls of known durations.

Whether readings can be those of the calls is worked out in timing.py.
"""

from __future__ import annotations

import numpy as np

from graders.data_parallel import timing
from graders.data_parallel.crashes import observe
from graders.data_parallel.timing import Complaint, Session
from lockstep.check import Check
from lockstep.compare import elements, number
from lockstep.verdict import CheckEnded


def test_timing_is_sound(check: Check) -> None:
    """time_inference returns the seconds of each call: after a warm-up, in eval mode, without gradients, synchronised."""
    found = _timed(check, on_gpu=True, first=(0.15, 0.2), others=(0.02, 0.06))
    try:
        found += _timed(check, on_gpu=False, first=(0.04, 0.06), others=(0.01, 0.03))
    except CheckEnded as ended:
        found.append(
            Complaint(
                f"On a GPU time_inference works. On a machine without one: {ended.feedback.message}",
                'Wait for a GPU only where there is one: `if device.type == "cuda": torch.cuda.synchronize()`.',
                1 / 3,
            )
        )
    # The same slip on both machines is one slip, told of the first.
    slips = {complaint.hint: complaint for complaint in reversed(found)}
    if slips:
        told = [slips[hint] for hint in dict.fromkeys(complaint.hint for complaint in found)]
        check.fail(
            "\n".join(complaint.message for complaint in told),
            "\n".join(complaint.hint for complaint in told),
            points=round(check.points * max(0.0, 1 - sum(complaint.share for complaint in told)), 2),
        )


def _timed(
    check: Check, *, on_gpu: bool, first: tuple[float, float], others: tuple[float, float]
) -> list[Complaint]:
    """What is wrong with time_inference where each call takes a time that is drawn here, the first a longer one."""
    n_reps, rows = int(check.rng.integers(5, 8)), int(check.rng.integers(3, 9))
    delays = [float(check.rng.uniform(*first)), *map(float, check.rng.uniform(*others, 63))]
    batch = check.rng.standard_normal((rows, 1, 4, 4)).astype(np.float32)
    outcome = observe(
        check,
        "time_calls",
        values={"gpus": int(on_gpu), "delays": delays, "n_reps": n_reps, "again": not on_gpu},
        arrays={"batch": batch},
    )
    noted = elements(outcome.ranks[0].values.get("sessions"))
    sessions, read, kinds = [], [], []
    for entry in noted:
        values = entry if isinstance(entry, dict) else {}
        calls, returned = timing.parse_calls(values.get("calls")), number(values.get("returned"))
        if calls is None or returned is None:
            break
        flags = [
            values.get(name) is True
            for name in ("waited", "statistics_kept", "grad_kept", "learns_as_before", "in_full_precision")
        ]
        sessions.append(Session(n_reps, rows, delays, on_gpu, calls, returned, *flags))
        read.append(timing.parse_readings(values.get("kind"), values.get("readings"), n_reps))
        kinds += timing.of_kind(values.get("kind"), n_reps)
    if len(sessions) != (1 if on_gpu else 3):
        return [
            Complaint(
                "What the model saw did not come back as it was noted.", "Leave the grader's objects alone."
            )
        ]
    if isinstance(read[0], Complaint):
        return [read[0]]
    found = timing.complaints(sessions[0], read[0]) + kinds[:1]
    if not any(complaint.share == 1 for complaint in found):
        found += timing.later(sessions[1:], read[1:], [complaint.hint for complaint in found])
    if not any(complaint.share == 1 for complaint in found):
        found += timing.outside(sessions, read, outcome.elapsed)
    return found
