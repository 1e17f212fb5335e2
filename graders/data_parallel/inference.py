"""Whether the script takes its times as time_inference does: it may have been written and then not used.

What time_inference itself does wrong is for timing_is_sound to tell, and is not told again of the script.
"""

from __future__ import annotations

import numpy as np

from graders.data_parallel import timing
from graders.data_parallel.noted import totals
from lockstep.check import Check
from lockstep.compare import elements, number
from lockstep.reports.document import Report
from lockstep.sandbox.outcome import RankOutcome
from lockstep.wire import Json

N_REPS, ROWS = 3, 4
SHORT = 0.001
# What each call of a model takes at least, in seconds: with two decimals it is not rounded to nothing.
DELAY, MOST = 0.006, 0.9
# So many readings of so many digits are not the same by chance.
MANY, DIGITS = 10, 7
HINT = "Take the times with your time_inference(model, batch, n_reps), and report what it returns."


def as_time_inference_does(
    check: Check, call: str, seen: RankOutcome, sizes: list[int], n_reps: int, readings: int
) -> None:
    """Enough calls were made in evaluation mode and without gradients, and not only those that were timed.

    Those in processes of the script's own are not seen, nor is the size of a batch that is no tensor.
    """
    made = totals(seen.values.get("calls"))
    if seen.values.get("by_children") is True or "0" in made:
        return
    modes = [mode for mode in elements(seen.values.get("modes")) if isinstance(mode, list) and len(mode) == 4]
    sound = totals([[rows, count] for rows, training, grad, count in modes if not training and not grad])
    size = next((size for size in sizes if sound.get(str(size), 0) < n_reps), None)
    if size is not None and not _is_unsound(_timer(check)):
        check.fail(
            f"{call} called a model {made.get(str(size), 0)} times with {size} image{'s' * (size > 1)}, but only "
            f"{sound.get(str(size), 0)} times in evaluation mode and without gradients. time_inference sees to both.",
            HINT,
            points=check.points / 2,
        )
    total = sum(made.values())
    # Where there are fewer calls than readings something else is wrong.
    if total == readings and not _has_no_warm_up(_timer(check)):
        check.fail(
            f"{call} wrote {readings} readings and called a model {total} times: there was no warm-up. time_inference "
            "has one.",
            HINT,
            points=check.points / 2,
        )


def waits_as_time_inference_does(check: Check, call: str, seen: RankOutcome) -> None:
    """The GPU that models were called on was waited for."""
    if seen.values.get("waited") is True or not elements(seen.values.get("places")):
        return
    if _timer(check, on_gpu=True).get("waited") is not False:
        check.fail(
            f"{call} called a model on a GPU, and never waited for it. time_inference does, where its batch lies on "
            "the GPU.",
            f"{HINT} If the script does so: the batch that `measure` makes lies on the CPU, and nn.DataParallel takes "
            "it to the GPUs. Wait for the device of the model, next(model.parameters()).device, not for that of the "
            "batch.",
            points=check.points / 2,
        )


def readings_are_long_enough(check: Check, call: str, seen: RankOutcome, report: Report) -> None:
    """No reading is shorter than every call of a model was; those in processes of the script's own are not seen."""
    if seen.values.get("by_children") is True:
        return
    shortest = min(reading.value for run in report.runs for reading in (run.wall, *run.step_seconds))
    if shortest < MOST * DELAY and not _is_short(_timer(check)):
        check.fail(
            f"{call} wrote a reading of {shortest:.2g} s, but each call of a model took {DELAY:g} s or longer. What "
            "time_inference returns is long enough.",
            f"{HINT} A reading is the seconds of one call of the model in this very run: not divided by the images of "
            "the batch, and not kept from an earlier measurement.",
            points=check.points / 2,
        )


def readings_are_read_each(check: Check, call: str, report: Report) -> None:
    """The readings of a run are not one number, written down again and again."""
    repeated = one_number(report)
    if repeated is not None and not _is_repeated(_timer(check)):
        check.fail(
            f"{call} wrote readings that are all alike within each run, to the last of their digits: {repeated} s, "
            "again and again. No clock says that of one call after the other; time_inference returns different ones.",
            f"{HINT} Put each of them into step_s: a mean hides what the spread tells.",
            points=check.points / 2,
        )


def one_number(report: Report) -> str | None:
    """What all readings of a run are, in the first run, where that is so in every run with many.

    Of few digits, as after rounding, they may well be equal.
    """
    many = [run.step_seconds for run in report.runs if len(run.step_seconds) >= MANY]
    if not many or any(len({reading.value for reading in readings}) > 1 for readings in many):
        return None
    digits = min(reading.digits for readings in many for reading in readings)
    return many[0][0].text[:20] if digits >= DIGITS else None


def calls_each_time(check: Check) -> bool:
    """Whether time_inference calls a model for each of its readings, also when it is called again."""
    made = [timing.parse_calls(session.get("calls")) for session in _sessions(check, again=True)[:2]]
    return len(made) == 2 and all(calls is not None and len(calls) >= N_REPS for calls in made)


def _timer(check: Check, *, on_gpu: bool = False) -> dict[str, Json]:
    """What a model sees of time_inference."""
    return next(iter(_sessions(check, on_gpu=on_gpu)), {})


def _sessions(check: Check, *, on_gpu: bool = False, again: bool = False) -> list[dict[str, Json]]:
    """What a model sees of each call of time_inference."""
    outcome = check.run(
        "time_calls",
        values={"gpus": int(on_gpu), "delays": [SHORT], "n_reps": N_REPS, "again": again},
        arrays={"batch": np.zeros((ROWS, 1, 4, 4), np.float32)},
        expect=False,
    )
    sessions = elements(outcome.ranks[0].values.get("sessions"))
    return [session for session in sessions if isinstance(session, dict)]


def _is_short(session: dict[str, Json]) -> bool:
    readings = [number(reading) for reading in elements(session.get("readings"))]
    return any(reading is not None and reading < MOST * SHORT for reading in readings)


def _is_repeated(session: dict[str, Json]) -> bool:
    readings = [number(reading) for reading in elements(session.get("readings"))]
    return len(set(readings)) < max(len(readings), 2)


def _is_unsound(session: dict[str, Json]) -> bool:
    return any(call.training or call.grad for call in timing.parse_calls(session.get("calls")) or ())


def _has_no_warm_up(session: dict[str, Json]) -> bool:
    calls = timing.parse_calls(session.get("calls"))
    return calls is not None and len(calls) <= N_REPS
