"""Whether readings of a clock can be those of the calls that were made.

The judge draws how long each call of the model takes, so that a sound reading follows it from call to call. No
reading is held against a duration that a busy machine might stretch: a call took at least its own delay, and
at most the time from the end of the call before it to the beginning of the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lockstep.compare import integer, number
from lockstep.wire import Json

# Two clocks of one machine, and readings that were rounded to milliseconds; the delays are 10 ms and more.
SLACK, RATIO = 1e-3, 0.02

WARM_UP = (
    "Call the model a few times before the first timed call: the first calls load kernels and take memory."
)


@dataclass(frozen=True)
class Complaint:
    """What is wrong with a timer, and the share of the points that it costs."""

    message: str
    hint: str
    share: float = 1.0


@dataclass(frozen=True)
class Call:
    """One call of the model: when it began and when its work was done, in seconds of one clock, and how."""

    start: float
    done: float
    training: bool
    grad: bool
    rows: int


@dataclass(frozen=True)
class Session:
    """One call of time_inference: what was asked for, and what the model saw of it."""

    n_reps: int
    rows: int
    delays: Sequence[float]
    on_gpu: bool
    calls: Sequence[Call]
    returned: float
    waited: bool = True
    statistics_kept: bool = True
    grad_kept: bool = True
    learns_as_before: bool = True
    in_full_precision: bool = True

    @property
    def where(self) -> str:
        """The machine, in words."""
        return "on a GPU" if self.on_gpu else "on a machine without a GPU"

    def delay(self, number_of_call: int) -> float:
        """How long a call takes at least."""
        return self.delays[number_of_call % len(self.delays)]


def parse_calls(value: Json) -> list[Call] | None:
    """What the probe noted; None when that is not what a probe notes."""
    if not isinstance(value, list):
        return None
    calls = []
    for entry in value:
        if not isinstance(entry, list) or len(entry) != 5:
            return None
        start, done, rows = number(entry[0]), number(entry[1]), integer(entry[4])
        training, grad = entry[2], entry[3]
        if start is None or done is None or rows is None or done < start:
            return None
        if not isinstance(training, bool) or not isinstance(grad, bool):
            return None
        calls.append(Call(start, done, training, grad, rows))
    return calls


def parse_readings(kind: Json, value: Json, n_reps: int) -> list[float] | Complaint:
    """The readings, or why there are not `n_reps` of them."""
    what = kind[:80] if isinstance(kind, str) else "something else"
    asked = f"time_inference(model, batch, {n_reps})"
    hint = (
        "Return a list with one float, in seconds, for each of the calls: what is made of them, a mean or an error "
        "bar, is decided later."
    )
    if not isinstance(value, list):
        return Complaint(f"{asked} returned {what}, expected a list of {n_reps} floats.", hint)
    readings = [number(item) for item in value]
    numbers = [reading for reading in readings if reading is not None]
    if len(numbers) != len(readings):
        return Complaint(
            f"{asked} returned {what} that holds something else than numbers, expected {n_reps} floats.", hint
        )
    if len(numbers) != n_reps:
        return Complaint(
            f"{asked} returned {what} of {len(numbers)} numbers, expected {n_reps} floats.", hint
        )
    return numbers


def complaints(session: Session, readings: Sequence[float]) -> list[Complaint]:
    """What is wrong with these readings and with how the model was called for them."""
    calls, n_reps = session.calls, session.n_reps
    if len(calls) < n_reps:
        return [
            Complaint(
                f"time_inference returned {n_reps} readings {session.where}, but called the model {len(calls)} times.",
                "Call `model(batch)` once for every reading, between two readings of the clock.",
            )
        ]
    chosen = _timed(session, readings)
    timed = [calls[number_of_call] for number_of_call in chosen]
    unsound = _unsound(session, readings, chosen)
    found = [] if unsound is None else [unsound]
    if unsound is None and not session.waited:
        found.append(
            Complaint(
                f"time_inference {session.where} returned readings that are long enough, but never asked the GPU "
                "whether it was done.",
                "Wait with torch.cuda.synchronize() each time before the clock is read. A sleep is as long as it is, "
                "whatever the GPU does meanwhile: that is what is timed then.",
            )
        )
    if any(call.rows != session.rows for call in timed):
        found.append(
            Complaint(
                f"The timed calls saw {min(call.rows for call in timed)} of the {session.rows} images of the batch.",
                "Time the batch as it is given: what it holds decides how long a call takes.",
            )
        )
    if 0 in chosen:
        found.append(
            Complaint(
                f"The model was called {n_reps} times for {n_reps} readings: the first call, which takes longer "
                f"than the others ({session.delay(0):.3f} s here), is one of them.",
                WARM_UP,
                1 / 3,
            )
        )
    if any(call.training for call in timed):
        found.append(
            Complaint(
                "The model was given in training mode, and in the timed calls it, or a layer inside it, still was.",
                "model.eval() before the first call reaches every layer: dropout and batch norm work otherwise in "
                "training.",
                1 / 3,
            )
        )
    elif not session.statistics_kept:
        found.append(
            Complaint(
                "The timed calls were in evaluation mode, but afterwards the statistics of batch norm are not what "
                "they were: the model was called in training mode before.",
                "Call model.eval() before the warm-up: in training mode every call changes what batch norm learned.",
                1 / 6,
            )
        )
    if any(call.grad for call in timed):
        found.append(
            Complaint(
                "In the timed calls gradients were enabled.",
                "Time inside `with torch.no_grad():` (or torch.inference_mode()): to keep what backward needs takes "
                "time and memory.",
                1 / 3,
            )
        )
    elif not session.grad_kept:
        found.append(
            Complaint(
                "After time_inference gradients stay switched off, and the next training fails.",
                "Use torch.no_grad() as a block: it switches them on again at its end, "
                "torch.set_grad_enabled(False) does not.",
                1 / 6,
            )
        )
    elif not session.learns_as_before:
        found.append(
            Complaint(
                "After time_inference weights of the model that asked for gradients do not any more, and its next "
                "training fails.",
                "Use torch.no_grad() as a block and leave requires_grad alone, or give each weight back what it had.",
                1 / 6,
            )
        )
    if not session.in_full_precision:
        found.append(
            Complaint(
                "Model and batch hold float32, and what the timed calls computed has fewer bits.",
                "Time `model(batch)` as it is: within torch.autocast, or after .half(), another calculation is timed.",
                1 / 3,
            )
        )
    return found


def _timed(session: Session, readings: Sequence[float]) -> Sequence[int]:
    """The calls that were timed, as their readings are ordered: the last ones, where no others fit.

    Each may have a warm-up of its own, there may be calls after the timed ones, and the readings may be sorted.
    """
    last, n_reps = len(session.calls) - 1, session.n_reps
    span = max(n_reps - 1, 1)
    chosen: list[Sequence[int]] = [
        range(start, start + n_reps * step, step)
        for step in range(1, max(last // span, 1) + 1)
        for start in range(last - (n_reps - 1) * step, -1, -1)
    ]
    rising = list(readings) == sorted(readings)
    if rising or list(readings) == sorted(readings, reverse=True):
        sorted_calls = [_by_reading(session, sorted(readings), calls) for calls in chosen]
        chosen += [calls if rising else calls[::-1] for calls in sorted_calls]
    # How long the first call took at most is not known: it fits readings of others, too.
    chosen.sort(key=lambda calls: 0 in calls)
    return next((calls for calls in chosen if _unsound(session, readings, calls) is None), chosen[0])


def _by_reading(session: Session, readings: Sequence[float], chosen: Sequence[int]) -> Sequence[int]:
    """The chosen calls in an order in which they fit rising readings, if there is one."""
    left, ordered = list(chosen), []
    for reading in readings:
        long_enough = [call for call in left if _at_most(session.delay(call), reading)]
        if not long_enough:
            return chosen
        # The others leave more room for the readings that follow.
        ordered.append(min(long_enough, key=lambda call: _most(session, call)))
        left.remove(ordered[-1])
    return ordered


def _unsound(session: Session, readings: Sequence[float], chosen: Sequence[int]) -> Complaint | None:
    """Why the readings cannot be those of the chosen calls."""
    n_reps = session.n_reps
    least = [session.delay(number_of_call) for number_of_call in chosen]
    most = [_most(session, number_of_call) for number_of_call in chosen]
    short = [i for i in range(n_reps) if not _at_most(least[i], readings[i])]
    long = [i for i in range(n_reps) if not _at_most(readings[i], most[i])]
    if not short and not long:
        return None
    one = f"time_inference {session.where}, with a model whose calls each take another time: "
    if np.ptp(readings) < SLACK < np.ptp(least) and readings[0] > min(least) / 2:
        return Complaint(
            f"{one}all {n_reps} readings are {readings[0]:.4f} s, but the calls took from {min(least):.4f} to "
            f"{max(least):.4f} s.",
            "Read the clock before and after every single call. A total divided by n_reps hides what the spread tells.",
        )
    if min(readings) < 0:
        return Complaint(
            f"{one}a reading is {min(readings):.4f} s, less than nothing.",
            "The later time comes first: time.perf_counter() - start.",
        )
    for factor, told in ((n_reps, "n_reps"), (session.rows, "the number of images")):
        if _fit([factor * reading for reading in readings], least, most):
            return Complaint(
                f"{one}the readings are the times of the calls, divided by {factor}, {told}.",
                "Each reading is the time of one call, as the clock says it: divide by nothing.",
            )
    if short:
        i = short[0]
        return Complaint(
            f"{one}reading {i + 1} of {n_reps} is {readings[i]:.4f} s, but that call "
            f"{'kept the GPU busy for' if session.on_gpu else 'took'} {least[i]:.4f} s.",
            "A call on a GPU returns before the work is done. Wait with torch.cuda.synchronize() each time before the "
            "clock is read, at the start and at the end."
            if session.on_gpu
            else "Return what the clock says, in seconds, from time.perf_counter(): time.process_time() does not count "
            "waiting.",
        )
    i = long[0]
    return Complaint(
        f"{one}reading {i + 1} of {n_reps} is {readings[i]:.4f}, but that call can have taken at most {most[i]:.4f} s.",
        _why_long(session, readings, least, most, long),
    )


def _fit(readings: Sequence[float], least: Sequence[float], most: Sequence[float]) -> bool:
    """Whether each reading lies between what its call took and what it can have taken."""
    return all(
        _at_most(low, reading) and _at_most(reading, high)
        for low, reading, high in zip(least, readings, most, strict=True)
    )


def _most(session: Session, number_of_call: int) -> float:
    """From the end of the work before a call to the beginning of the next call."""
    calls = session.calls
    after = calls[number_of_call + 1].start if number_of_call + 1 < len(calls) else session.returned
    if number_of_call == 0:
        return float("inf")
    # Where events take the time on the device itself, the next call may be queued before this one is done.
    return max(after, calls[number_of_call].done) - calls[number_of_call - 1].done


def _why_long(
    session: Session,
    readings: Sequence[float],
    least: Sequence[float],
    most: Sequence[float],
    long: Sequence[int],
) -> str:
    seconds = [reading / 1000 for reading in readings]
    if all(_at_most(*pair) for pair in [*zip(least, seconds, strict=True), *zip(seconds, most, strict=True)]):
        return "These look like milliseconds; seconds are asked for (torch.cuda.Event.elapsed_time gives milliseconds)."
    if long == [0]:
        return (
            "The first reading holds work of the warm-up that the GPU had not done: call torch.cuda.synchronize() "
            "before the clock is read at the start, too."
            if session.on_gpu
            else "Start the clock after the warm-up, right before the call."
        )
    if readings[long[0]] > session.returned - session.calls[0].start:
        return "That is longer than all calls together: a reading is time.perf_counter() - start, in seconds."
    if list(readings) == sorted(readings):
        return "Each reading holds the ones before it: read the start of the clock anew for every call."
    return "Start the clock right before the call and read it right after the device is done, with nothing in between."


def _at_most(smaller: float, larger: float) -> bool:
    # Written so that anything incomparable is not.
    return bool(smaller <= larger * (1 + RATIO) + SLACK)


def of_kind(kind: Json, n_reps: int) -> list[Complaint]:
    """What costs a part of the points: the right numbers in something that is no list."""
    if kind in ("a list", "a tuple"):
        return []
    what = kind[:80] if isinstance(kind, str) else "something else"
    return [
        Complaint(
            f"time_inference(model, batch, {n_reps}) returned {what}, expected a list of {n_reps} floats.",
            "Return a list: arrays and tensors cannot be written to a JSON report.",
            1 / 3,
        )
    ]


def later(
    sessions: Sequence[Session], read: Sequence[list[float] | Complaint], known: Sequence[str]
) -> list[Complaint]:
    """What is wrong with further calls of time_inference: first with the model of the first one, then with another.

    What was already said of the first call, by its hint, is not said again. Whoever keeps in mind which models are
    warm need not warm them up again.
    """
    for which, (session, readings) in enumerate(zip(sessions, read, strict=True)):
        what = "with the same model and batch" if which == 0 else "with another model"
        found = [readings] if isinstance(readings, Complaint) else complaints(session, readings)
        for complaint in found:
            if complaint.hint not in known and not (which == 0 and complaint.hint == WARM_UP):
                return [
                    replace(
                        complaint, message=f"When time_inference was called again {what}: {complaint.message}"
                    )
                ]
    return []


def outside(
    sessions: Sequence[Session], read: Sequence[list[float] | Complaint], elapsed: float
) -> list[Complaint]:
    """What a stopwatch outside of the process has against readings that look sound from inside."""
    readings: list[float] = []
    delays: list[float] = []
    for session, found in zip(sessions, read, strict=True):
        if not isinstance(found, Complaint):
            readings += found
            delays += map(session.delay, _waited_for(session, found))
    if _at_most(sum(readings), elapsed) and _at_most(sum(delays), elapsed):
        return []
    return [
        Complaint(
            f"{len(delays)} calls of the model take {sum(delays):.3f} s at least, the readings add up to "
            f"{sum(readings):.3f} s, and the whole process ran for {elapsed:.3f} s by a clock outside of it.",
            "Return what the clock says, and leave the clock and time.sleep as they are.",
        )
    ]


def _waited_for(session: Session, readings: Sequence[float]) -> Sequence[int]:
    """The calls that were done when time_inference returned: on a GPU those after the timed ones need not have been."""
    if not session.on_gpu or len(session.calls) < session.n_reps:
        return range(len(session.calls))
    return range(max(_timed(session, readings)) + 1)
