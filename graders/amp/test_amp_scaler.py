"""The judge of exercise 6, its scaler: the order of its calls, gradients that are clipped, and those that overflow."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from graders.amp import expected, own_step, script_clipping, script_precision
from graders.amp.batches import first_steps
from graders.amp.expected import Scenario
from graders.amp.record import calls, named, strings, told
from graders.amp.script_runs import BATCH_ON_CPU, begin_script, run_script
from graders.amp.steps import LOW, NO_STEP, Case, distance
from lockstep.batchloop import LOOPS, PLAIN, SOFTMAX
from lockstep.check import Check
from lockstep.compare import close, elements, integer, number, shown
from lockstep.devicefault import is_device_fault
from lockstep.sandbox.outcome import RankOutcome
from lockstep.slips import slip
from lockstep.text import safe_line
from lockstep.verdict import CheckEnded, Verdict
from lockstep.wire import Array, Json

CPU, GPU = "on a CPU", "on a GPU"
# What a loss that is not scaled is multiplied by at the most: less, where a mean is taken over several batches.
UNSCALED = 1.5
# So many steps, each with a scaler of its own, are no accident.
ENOUGH = 4


def test_scaler_order(check: Check) -> None:
    """Every step goes: scale the loss, backward, scaler.step, scaler.update."""
    scale = 2.0 ** int(check.rng.integers(6, 12))
    case = Case(check, Scenario((8, 8, 8), scale=scale, growth_interval=1))
    seen, where = _run_with_scaler(case)
    if where == GPU and _scaled_any(seen):
        check.note("On a CPU train_step does without the scaler, which bf16 allows.")
    made = calls(seen)
    check.expect(len(made) == 3, "train_step was not called three times: the record is incomplete.")
    for which, events in enumerate(made, 1):
        _one_right_step(check, f"Call {which} of train_step(..., amp=True) {where}", events)
    scales = told(seen).get("scales")
    final = scales[-1] if isinstance(scales, list) and scales else None
    check.expect(
        close(final, scale * 8),
        f"Three steps {where} with a scaler that doubles after each good step: its scale went from {scale:g} to "
        f"{shown(final)}, expected {scale * 8:g}.",
        "scaler.step(optimizer) and scaler.update() have to be called with the scaler that train_step is given.",
    )
    check.expect(
        case.far(case.held(seen, 2), 2, *LOOPS) < 0.5,
        f"The scaler's calls are in order, but the weights did not move as they should in three steps {where}: what was "
        "scaled before backward and what was divided by the scale afterwards do not fit together.",
        "scaler.scale(loss).backward() makes the gradients too large by the scale, and scaler.step(optimizer) divides "
        "them by it: neither may be left out or done twice.",
    )
    _script_scales(check)


def _script_scales(check: Check) -> None:
    """End the check where the script trains in fp16 with a scaler of its own that is switched off, or with none."""
    seen = begin_script(check, gpu=True, expect=False)
    written_wrong = slip(check, seen.error)
    if written_wrong is not None and begin_script(check, expect=False).error is None:
        check.fail(
            f"amp_train.py --amp on a machine with a GPU, an emulated one, ended with {written_wrong.message}. Without a GPU "
            "it trains.",
            written_wrong.hint,
            points=check.points / 2,
        )
    _is_all_on_the_gpu(check, seen)
    # That the script does not run otherwise is for the checks that run it to its end.
    script_precision.is_switched_on(check, seen)
    factors = [step.factor for step in first_steps(seen) if "torch.float16" in step.answers]
    unscaled = [factor for factor in factors if factor is not None and factor < UNSCALED]
    check.expect(
        not factors or len(unscaled) < len(factors),
        f"amp_train.py --amp on an emulated GPU: layers computed in float16 in its first {len(factors)} training steps, and "
        "backward began at the loss itself each time, not at the loss times a scale. train_step scales it where it is given "
        "a scaler that does.",
        'The scaler of train(args) has to be enabled when AMP is: torch.amp.GradScaler("cuda", enabled=args.amp).',
        points=check.points / 2,
    )
    own_step.leaves_out_what_overflows(check, seen)
    scalers = integer(seen.values.get("scalers"))
    check.expect(
        len(factors) < ENOUGH or scalers != len(factors),
        f"amp_train.py --amp on an emulated GPU: its first {len(factors)} training steps used {scalers} scalers, a new one "
        "each time. What a scaler lowers after an overflow is lost then: the next step overflows again.",
        "Make one torch.amp.GradScaler in train(args), before the epochs, and hand it to every train_step.",
        points=check.points / 2,
    )
    places = strings(seen.values.get("places"))
    check.expect(
        places != ["cpu"],
        "amp_train.py --amp --gpu 0 on a machine with a GPU, an emulated one, trained on the CPU alone: its model and "
        "its images were there.",
        'device = torch.device("cuda", args.gpu) if torch.cuda.is_available() else torch.device("cpu"), for the model and '
        "for train_step.",
        points=check.points / 2,
    )


def _is_all_on_the_gpu(check: Check, seen: RankOutcome) -> None:
    """End the check where a script that trains on a GPU leaves something on the CPU later, as in its validation."""
    if seen.error is None or not is_device_fault(seen.error.message):
        return
    try:
        run_script(check, "until_the_loss", values={"gpu": True})
        begin_script(check)
    except CheckEnded:
        # Of what does not begin to train either other checks tell.
        return
    frame = seen.error.frames[-1] if seen.error.frames else None
    check.fail(
        "amp_train.py --amp on a machine with a GPU, an emulated one, trained on its first batches and then ended with "
        f"{safe_line(seen.error.type, 60)}: {safe_line(seen.error.message, 200)}"
        + (f" ({safe_line(str(frame), 120)}, in {safe_line(frame.function, 60)})." if frame else "."),
        BATCH_ON_CPU,
        points=check.points / 2,
    )


def _run_with_scaler(case: Case) -> tuple[RankOutcome, str]:
    """The case's steps on a CPU; on a GPU where none of them scales its loss there, which bf16 does not need."""
    seen = case.run()
    return (seen, CPU) if _scaled_any(seen) else (case.run(gpu=True), GPU)


def _scaled_any(seen: RankOutcome) -> bool:
    return any(named(events, "scale") for events in calls(seen))


def _one_right_step(check: Check, call: str, events: list[list[Json]]) -> None:
    order = " -> ".join(
        str(event[0]) if event[0] != "optimizer" else "optimizer.step"
        for event in events
        if event[0] != "loss"
    )[:300]
    places = {
        name: named(events, name)
        for name in ("scale", "backward", "step", "optimizer", "update", "zero_grad")
    }
    for name, meant in (("scale", "scaler.scale(loss)"), ("backward", ".backward()"), ("step", "scaler.step(optimizer)"), ("update", "scaler.update()")):  # fmt: skip
        check.expect(
            len(places[name]) == 1,
            f"{call}: {meant} was called {len(places[name])} times, expected once. What happened: {order or 'nothing'}.",
            "scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update() - once each, in every step. bf16 on a "
            "CPU may do without; on a GPU the exercise asks for the scaler it hands you, with bf16 as well.",
        )
    inside = [event[1:2] == [True] for event in events if event[0] == "optimizer"]
    check.expect(
        inside == [True],
        f"{call}: optimizer.step() ran {len(inside)} times, {sum(inside)} of them by scaler.step(optimizer). "
        f"What happened: {order}.",
        "Leave optimizer.step() to scaler.step(optimizer): it divides the gradients by the scale first, and does "
        "nothing when they overflowed.",
    )
    first = [places[name][0] for name in ("scale", "backward", "step", "update")]
    check.expect(
        first == sorted(first) and not any(first[1] < place < first[2] for place in places["zero_grad"]),
        f"{call}: the calls came in another order than scale, backward, step, update, with zero_grad before or after. "
        f"What happened: {order}.",
        "optimizer.zero_grad(); scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update().",
    )


def test_clip_is_unscaled(check: Check) -> None:
    """grad_clip limits the gradient itself, not the gradient times the scale."""
    scale = 2.0 ** int(check.rng.integers(10, 15))
    case = Case(check, Scenario((16,), scale=scale))
    gradient = case.steps()[0].gradient
    # Small enough to tell whether the norm is clipped or each value.
    largest = max(float(np.abs(value).max()) for value in gradient.values())
    clipping = largest * float(check.rng.uniform(0.1, 0.2))
    idle = expected.norm(gradient) * float(check.rng.uniform(2.0, 4.0))
    ways = [
        Scenario((16,), scale=scale, grad_clip=clipping),
        Scenario((16,), scale=scale, grad_clip=idle),
        Scenario((16,), amp=False, grad_clip=clipping),
    ]
    seen = case.run(*ways)
    twice = case.steps(SOFTMAX)[0].gradient
    for which, way in enumerate(ways):
        _clipped(check, case, seen, which, way, gradient, twice)
    script_clipping.clips(check)


def _clipped(
    check: Check,
    case: Case,
    seen: RankOutcome,
    which: int,
    way: Scenario,
    gradient: dict[str, Array],
    twice: dict[str, Array],
) -> None:
    """End the check where the gradient was not clipped; `twice` is the one of a softmax that is done twice."""
    limit, length = way.grad_clip or 0.0, expected.norm(gradient)
    used = {name: value / -way.lr for name, value in case.moved(case.held(seen, 0, which)).items()}
    by_norm = {name: value * min(1.0, limit / length) for name, value in gradient.items()}
    by_value = {name: np.clip(value, -limit, limit) for name, value in gradient.items()}
    if distance(used, by_norm) < LOW:
        return
    if expected.norm(used) == 0 and case.stands_still(case.run(replace(way, grad_clip=None)), 0):
        check.expect(
            not way.amp,
            "train_step(..., amp=True), with grad_clip and without, left every weight as it was.",
            NO_STEP,
        )
        return  # of what does not train without AMP off_is_fp32 tells
    other = expected.norm(twice)
    shrunk = {name: value * min(1.0, limit / other) for name, value in twice.items()}
    # Of one that is too small to be clipped nothing can be told.
    if (limit < other) is (limit < length) and distance(used, shrunk) < LOW:
        return
    if distance(used, by_value) < LOW and not distance(used, gradient) < 2 * LOW:
        check.note("grad_clip limits each value; the exercise means the norm of all gradients together.")
        return
    call = f"train_step(..., amp={way.amp}, grad_clip={limit:.3g}) with a gradient of norm {length:.3g}" + (
        f" and a scale of {way.scale:g}" if way.amp else ""
    )
    length_used = expected.norm(used)
    if not math.isfinite(length_used):
        check.fail(
            f"{call}: the weights are not finite afterwards.", "Does unscale_ come before the clipping?"
        )
    if way.amp and 0.05 * limit / way.scale < length_used < 20 * limit / way.scale:
        check.fail(
            f"{call}: the optimizer used a gradient of norm {length_used:.3g}. It was clipped while it was still "
            f"multiplied by the scale, and divided by {way.scale:g} afterwards: almost nothing is left.",
            "Call scaler.unscale_(optimizer) between scaler.scale(loss).backward() and clip_grad_norm_. The clipping "
            "without it is a slip that many examples copy.",
        )
    hint = (
        "torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip) stands between backward (with AMP: between "
        "scaler.unscale_(optimizer)) and the optimizer's step."
    )
    # A gradient whose norm happens to be near the limit that somebody wrote down looks the same clipped to it.
    unclipped = (
        ", as if it had not been clipped" if distance(used, gradient) < LOW else " in the same direction"
    )
    check.fail(
        f"{call}: the optimizer used a gradient of norm {length_used:.3g}, expected {min(limit, length):.3g}{unclipped}.",
        hint,
    )


def test_overflow_skipped(check: Check) -> None:
    """A gradient that overflows changes no weight and lowers the scale; the next step trains on."""
    scale = 2.0 ** int(check.rng.integers(8, 13))
    case = Case(check, Scenario((8, 8, 8), momentum=0.9, scale=scale, overflow=1))
    seen, where = _run_with_scaler(case)
    before, after, last = (case.held(seen, step) for step in range(3))
    call = f"train_step(..., amp=True) {where} on a batch whose gradient is infinite"
    check.expect(
        not case.stands_still(seen, 0),
        f"train_step(..., amp=True) {where}: the weights are those that it began with already where the gradient is finite.",
        NO_STEP,
    )
    check.expect(
        all(np.isfinite(value).all() for value in after.values()),
        f"{call}: the weights are NaN or infinite afterwards.",
        "scaler.step(optimizer) leaves such a step out. optimizer.step() of its own does not, and without a scaler "
        "nobody looks.",
    )
    check.expect(
        all(np.array_equal(before[name], after[name]) for name in before),
        f"{call}: the weights changed.",
        "Leave it to scaler.step(optimizer), which does nothing when a gradient is not finite. Replacing infinities by "
        "numbers and stepping all the same trains on noise.",
    )
    _scale_is_halved(check, seen, scale, call, points=0.0)
    check.expect(
        case.far(last, 2, PLAIN, SOFTMAX) < LOW,
        f"{call}, and then one whose gradient is not: that next step did not train as it should.",
        "Nothing of the step that overflowed may stay: zero_grad in every step.",
    )
    _skipped_where_clipped(check, case, gpu=where == GPU)


def _scale_is_halved(check: Check, seen: RankOutcome, scale: float, call: str, *, points: float) -> None:
    """By the second of three steps, the one that overflows, and not before."""
    scales = told(seen).get("scales")
    factors = [number(value) for value in elements(scales)]
    check.expect(
        len(factors) == 3 and factors[0] == scale and factors[1] == scale / 2,
        f"{call}: the scale was {shown(factors[1] if len(factors) > 1 else None)} afterwards, expected {scale / 2:g}, half "
        "of what it was.",
        "scaler.step(optimizer) and scaler.update() also belong to a step that overflows: a step that is left out by "
        "hand keeps a scale that overflows again.",
        points=points,
    )


def _trains_where_clipped(case: Case, clipped: Scenario, *, gpu: bool) -> bool:
    """Whether train_step comes back where nothing overflows; clip_is_unscaled tells if it does not."""
    try:
        case.run(replace(clipped, overflow=None), gpu=gpu)
    except CheckEnded:
        return False
    return True


def _skipped_where_clipped(check: Check, case: Case, *, gpu: bool) -> None:
    """The same with grad_clip, whose norm is infinite then."""
    clipped = replace(case.scenario, grad_clip=float(check.rng.uniform(0.5, 2.0)))
    call = (
        f"train_step(..., amp=True, grad_clip={clipped.grad_clip:.3g}) on a batch whose gradient is infinite"
    )
    half = check.points / 2
    try:
        seen = case.run(clipped, gpu=gpu)
    except CheckEnded as ended:
        # A complaint of the scaler's comes as a failure, with a hint of its own.
        if ended.verdict not in (Verdict.CRASHED, Verdict.FAILED):
            raise
        if not _trains_where_clipped(case, clipped, gpu=gpu):
            return
        check.fail(
            f"{call}, and then on one whose gradient is not: {ended.feedback.message} Without grad_clip the step is "
            "left out and the next one trains, as it should be.",
            "scaler.step(optimizer) leaves the step out: clip with error_if_nonfinite=False, as is the default, and go on "
            "to scaler.step(optimizer) and scaler.update() whatever the norm is.",
            points=half,
        )
    before, after, last = (case.held(seen, step) for step in range(3))
    check.expect(
        all(np.array_equal(before[name], after[name]) for name in before),
        f"{call}: the weights changed. Without grad_clip they did not.",
        "scaler.unscale_(optimizer) notes that the gradient is infinite; it has to come before the clipping.",
        points=half,
    )
    _scale_is_halved(check, seen, clipped.scale, call, points=half)
    # How it is clipped is for clip_is_unscaled to judge.
    check.expect(
        all(np.isfinite(value).all() for value in last.values())
        and not all(np.array_equal(last[name], after[name]) for name in after),
        f"{call}, and then one whose gradient is not: that next step did not train. Without grad_clip it did.",
        "A norm that is infinite once must not stay in what the next step uses.",
        points=half,
    )
