"""Whether the script takes its times as time_inference does: it may have been written and then not used.

What time_inference itself does wrong is for timing_is_sound to tell, and is not told again of the script.
"""

from __future__ import annotations

import numpy as np

from graders.data_parallel import timing
from graders.data_parallel.noted import entries
from graders.data_parallel.timing import Call
from lockstep.check import Check
from lockstep.compare import integer
from lockstep.sandbox.outcome import RankOutcome

N_REPS, ROWS = 3, 4
HINT = "Take the times with your time_inference(model, batch, n_reps), and report what it returns."


def as_time_inference_does(
    check: Check, call: str, seen: RankOutcome, sizes: list[int], n_reps: int, readings: int
) -> None:
    """Enough calls were made in evaluation mode and without gradients, and more than were timed."""
    modes = _modes(seen)
    if modes is None or seen.values.get("by_children") is not False:
        return
    for size in sizes:
        of_size = [(training, grad, count) for rows, training, grad, count in modes if rows == str(size)]
        made = sum(count for *_, count in of_size)
        sound = sum(count for training, grad, count in of_size if not training and not grad)
        if (
            made >= n_reps > sound
            and (calls := _timer(check))
            and not any(c.training or c.grad for c in calls)
        ):
            training, grad = (sum(one[-1] for one in of_size if one[which]) for which in (0, 1))
            check.fail(
                f"{call}: of {made} calls of a model with {size} image{'s' * (size > 1)} {training} were in training "
                f"mode, and for {grad} gradients were recorded. time_inference does neither.",
                HINT,
                points=check.points / 2,
            )
    total = sum(count for *_, count in modes)
    if 0 < total <= readings and (calls := _timer(check)) and len(calls) > N_REPS:
        check.fail(
            f"{call} wrote {readings} readings and called a model {total} times: there was no warm-up. time_inference "
            "has one.",
            HINT,
            points=check.points / 2,
        )


def waits_as_time_inference_does(check: Check, call: str, seen: RankOutcome) -> None:
    """The GPU that models were called on was waited for."""
    if seen.values.get("waited") is True or not entries(seen.values.get("places")):
        return
    if _timer(check, on_gpu=True):
        check.fail(
            f"{call} called a model on a GPU, and never waited for it. time_inference does.",
            HINT,
            points=check.points / 2,
        )


def _modes(seen: RankOutcome) -> list[tuple[str, bool, bool, int]] | None:
    """[images, in training mode, with gradients, how many calls] of each; None when that is not what a probe notes."""
    modes = []
    for entry in entries(seen.values.get("modes")):
        if not isinstance(entry, list) or len(entry) != 4:
            return None
        rows, training, grad, count = entry[0], entry[1], entry[2], integer(entry[3])
        if not isinstance(rows, str) or not isinstance(training, bool) or not isinstance(grad, bool):
            return None
        if count is None:
            return None
        modes.append((rows, training, grad, count))
    return modes


def _timer(check: Check, *, on_gpu: bool = False) -> list[Call]:
    """The calls that time_inference makes; none where it fails or, on a GPU, does not wait."""
    outcome = check.run(
        "time_calls",
        values={"gpus": int(on_gpu), "delays": [0.001], "n_reps": N_REPS, "again": False},
        arrays={"batch": np.zeros((ROWS, 1, 4, 4), np.float32)},
        expect=False,
    )
    session = next(iter(entries(outcome.ranks[0].values.get("sessions"))), None)
    if not isinstance(session, dict) or session.get("waited") is not True:
        return []
    return timing.parse_calls(session.get("calls")) or []
