"""Exercise 6: automatic mixed precision, judged by what reaches the weights and by what stands in the logs.

The first checks call train_step with hidden networks and batches; the others run the whole script on a small
ResNet and hold its logs against what every training batch came to.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from fixtures import cinic10
from fixtures.pictures import CLASSES
from fixtures.tree import Tree
from graders.amp import curves, expected
from graders.amp.curves import Problem, Series
from graders.amp.expected import Data, Scenario, Step
from lockstep.check import Check
from lockstep.compare import close, integer, number, shown
from lockstep.devicefault import is_device_fault
from lockstep.reports import format as perf_report
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.verdict import CheckEnded, Verdict
from lockstep.wire import Array, Json

# Measured over 60 networks: bf16 moves 20 steps' way by 0.7 % and their losses by 0.1 %; fp32 by 1e-6.
LOW, LOW_LOSS = 0.05, 0.02
FULL, FULL_LOSS = 1e-4, 1e-5
EVALUATED_BY = 9
# Of ten: two epochs that leave out their last two images see eight of them at least, two batches of four hardly seven.
LEAST_CLASSES = 7
LOW_TYPES = {"torch.bfloat16": 7, "torch.float16": 10}

# What GradScaler itself says when its calls are in the wrong order, and what is then missing.
COMPLAINTS = {
    "since the last update()": "scaler.update() has to follow scaler.step(optimizer) in every training step.",
    "No inf checks were recorded": "scaler.update() goes by what scaler.step(optimizer) found: call step first, then update; "
    "and the optimizer must hold the parameters of the very model that is trained.",
    "_scale is None": "The loss has to be scaled before backward: scaler.scale(loss).backward().",
    "unscale FP16 gradients": "The parameters are fp16 themselves. Leave the model in fp32: autocast casts what it needs.",
}


def _explain(check: Check, ended: CheckEnded) -> None:
    """End the check with a better hint, where it ended with one of GradScaler's complaints."""
    for words, hint in COMPLAINTS.items():
        if words in ended.feedback.message:
            check.fail(ended.feedback.message, hint)


class Case:
    """A hidden network with its batches, and the steps that a right training makes of them."""

    def __init__(self, check: Check, scenario: Scenario) -> None:
        self.check = check
        self.scenario = scenario
        self.shape = expected.make_shape(check.rng)
        self.weights = expected.make_weights(check.rng, self.shape)
        self.data = expected.make_data(check.rng, sum(scenario.sizes))

    def run(
        self, *scenarios: Scenario, gpu: bool = False, forward_only: bool = False, **values: Json
    ) -> RankOutcome:
        """Let train_step make the steps of these scenarios, or of the case's own, or stop after the backward."""
        told = {**self._told(*scenarios, gpu=gpu, forward_only=forward_only), **values}
        try:
            return self._run("steps", told)
        except CheckEnded as ended:
            if not gpu or not is_device_fault(ended.feedback.message):
                raise
        # The loop that calls train_step may move the batches.
        return self._run("steps", {**told, "moved": True})

    def needs_moved_batches(self) -> bool:
        """Whether train_step fails on a GPU with a batch that is not there yet."""
        try:
            self._run("fetch", self._told(gpu=True, forward_only=True))
        except CheckEnded as ended:
            return is_device_fault(ended.feedback.message)
        return False

    def _told(self, *scenarios: Scenario, gpu: bool, forward_only: bool) -> dict[str, Json]:
        return {
            "shape": self.shape,
            "scenarios": [scenario.told() for scenario in scenarios or [self.scenario]],
            "gpu": gpu,
            "forward_only": forward_only,
        }

    def _run(self, call: str, told: dict[str, Json]) -> RankOutcome:
        arrays = {**self.data.arrays(), **expected.as_inputs(self.weights)}
        try:
            return self.check.run(call, values=told, arrays=arrays).ranks[0]
        except CheckEnded as ended:
            _explain(self.check, ended)
            raise

    def steps(self, scenario: Scenario | None = None) -> list[Step]:
        """What is right, in fp32."""
        return expected.train(self.shape, self.weights, self.data, scenario or self.scenario)

    def moved(self, weights: dict[str, Array]) -> dict[str, Array]:
        """How far weights are from where they started."""
        return {name: value - self.weights[name] for name, value in weights.items()}

    def held(self, seen: RankOutcome, step: int, scenario: int = 0) -> dict[str, Array]:
        """The weights after a call of train_step; ends the check when they are not what a network holds."""
        held = {name: seen.arrays.get(f"{scenario}/step{step}/{name}") for name in self.weights}
        right = {
            name: value
            for name, value in held.items()
            if value is not None and value.shape == self.weights[name].shape and value.dtype.kind == "f"
        }
        self.check.expect(
            len(right) == len(held),
            f"After call {step + 1} of train_step the model does not hold its weights any more.",
            "train_step trains the model it is given, in place.",
        )
        return {name: value.astype(np.float64) for name, value in right.items()}


def told(seen: RankOutcome, scenario: int = 0) -> dict[str, Json]:
    """What the probe says of one scenario."""
    values = seen.values.get(str(scenario))
    return values if isinstance(values, dict) else {}


def calls(seen: RankOutcome, scenario: int = 0) -> list[list[list[Json]]]:
    """The events of every call of train_step."""
    events = told(seen, scenario).get("events")
    result: list[list[list[Json]]] = []
    for event in events if isinstance(events, list) else []:
        if isinstance(event, list) and event and event[0] == "call":
            result.append([])
        elif isinstance(event, list) and event and result:
            result[-1].append(event)
    return result


def named(events: Sequence[list[Json]], name: str) -> list[int]:
    """Where events of that name stand."""
    return [place for place, event in enumerate(events) if event[0] == name]


def strings(value: Json) -> list[str]:
    """The strings of a list that may be anything."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def short(types: Sequence[str]) -> str:
    """Names of dtypes for a message."""
    return ", ".join(name.removeprefix("torch.")[:20] for name in types) or "none at all"


def distance(seen: dict[str, Array], wanted: dict[str, Array]) -> float:
    """The length of a difference as a part of the length of what it should be; infinite when not finite."""
    with np.errstate(all="ignore"):
        apart = expected.norm({name: seen[name] - wanted[name] for name in wanted})
    return apart / expected.norm(wanted) if math.isfinite(apart) else math.inf


# One training step


def test_autocast_on(check: Check) -> None:
    """With amp=True the layers compute in low precision, the loss in fp32, and the backward is outside autocast."""
    case = Case(check, Scenario((16,), scale=1.0))
    try:
        seen = case.run(forward_only=True)
    except CheckEnded as ended:
        # Where not even one training step comes back, every other check would only say so again.
        ended.spoils = ended.spoils or "there is no amp_train.py" in ended.feedback.message
        raise
    where = "on a CPU"
    if not any(name in LOW_TYPES for name in strings(told(seen).get("types"))):
        seen = case.run(gpu=True, forward_only=True)
        where = "on a GPU"
        if any(name in LOW_TYPES for name in strings(told(seen).get("types"))):
            check.note(
                "On a CPU nothing is computed in low precision: `torch.autocast(device.type)` works on both, while "
                'torch.cuda.amp.autocast and autocast("cuda") are for GPUs alone.'
            )
    types = strings(told(seen).get("types"))
    call = f"train_step(..., amp=True) {where}"
    check.expect(
        bool(types) and all(name in LOW_TYPES for name in types),
        f"{call}: the linear layers computed in {short(types)}, expected bfloat16 or float16.",
        "Put the model's forward and the loss into `with torch.autocast(device.type, enabled=amp):`.",
    )
    logits = seen.arrays.get("0/logits")
    values = None if logits is None else logits.astype(np.float32)
    right = expected.logits(case.shape, case.weights, case.data.images)
    check.expect(
        values is not None
        and values.shape == right.shape
        and expected.is_low_precision(values, max(LOW_TYPES[name] for name in types))
        and distance({"": values}, {"": right}) < LOW,
        f"{call}: what came out of the model are not its answers in {short(types)}.",
        "Hand the batch's images to the model as they are, within autocast.",
    )
    made = calls(seen)
    check.expect(len(made) == 1, "train_step was not called once: the record is incomplete.")
    for events in made:
        losses = [event for event in events if event[0] == "loss"]
        check.expect(
            bool(losses) and all(event[2:3] == ["torch.float32"] for event in losses),
            f"{call}: the loss was computed in {short(sorted({str(event[2]) for event in losses if len(event) > 2}))}, "
            "expected float32.",
            "Compute the loss within autocast as well, which does that in fp32, or of logits.float().",
        )
        backwards = [event for event in events if event[0] == "backward"]
        check.expect(
            bool(backwards) and all(event[1:2] == [False] for event in backwards),
            f"{call}: backward() was called {'within autocast' if backwards else 'not at all'}.",
            "Only the forward and the loss belong under autocast. Backward computes each operation in the type that its "
            "forward had; torch advises against running it within.",
        )
    if case.needs_moved_batches():
        _script_moves_them(check)


def _script_moves_them(check: Check) -> None:
    """End the check where the script does not train on a GPU either, because something of it is still on the CPU."""
    try:
        script(check, "until_the_loss", gpu=True)
    except CheckEnded as ended:
        if is_device_fault(ended.feedback.message):
            check.fail(
                f"On a machine with a GPU: {ended.feedback.message}",
                "A DataLoader's batches are on the CPU: move images and labels to the device that train_step is given, "
                "where the model is.",
                points=check.points / 2,
            )


def test_params_fp32(check: Check) -> None:
    """The parameters are fp32 before, during and after training with AMP: only copies are cast."""
    case = Case(check, Scenario((8, 8), scale=1.0))
    seen = case.run()
    types = strings(told(seen).get("parameters"))
    check.expect(
        types == ["torch.float32"],
        f"After train_step(..., amp=True) the model's parameters are {short(types)}.",
        "No model.half(), no model.to(torch.bfloat16): small updates would vanish in such weights. Autocast casts a "
        "copy of each weight where it is used.",
    )
    moved, right = (case.moved(weights) for weights in (case.held(seen, 1), case.steps()[1].weights))
    check.expect(
        expected.norm(moved) > 0.3 * expected.norm(right),
        "train_step(..., amp=True) leaves the parameters in fp32, but hardly moves them.",
        "backward, scaler.step(optimizer) and scaler.update() have to follow in every call.",
    )
    classes = int(check.rng.integers(11, 30))
    made = check.run("built", values={"classes": classes}).ranks[0].values
    types = strings(made.get("types"))
    check.expect(
        types == ["torch.float32"],
        f"build_model('resnet18', num_classes={classes}) has parameters in {short(types)}.",
        "Leave the model in fp32: autocast casts what it needs.",
    )
    check.expect(
        made.get("shape") == [2, classes],
        f"build_model('resnet18', num_classes={classes}) answers two images with something of another shape than 2 x {classes}.",
        "The last layer needs num_classes outputs.",
    )
    values = script(check, "until_the_loss", stop="forward").ranks[0].values
    types = strings(values.get("parameters"))
    check.expect(
        types == ["torch.float32"],
        f"When amp_train.py with AMP called its model for the first time, the parameters were {short(types)}."
        if types
        else "amp_train.py with AMP computed a loss, or ended, without calling a model on a batch of images.",
        "Look for .half(), .bfloat16() or .to(dtype) between build_model and the training loop."
        if types
        else "logits = model(images) of the batch's images, in train_step.",
    )


def test_scaler_order(check: Check) -> None:
    """Every step goes: scale the loss, backward, scaler.step, scaler.update."""
    scale = 2.0 ** int(check.rng.integers(6, 12))
    case = Case(check, Scenario((8, 8, 8), scale=scale, growth_interval=1))
    seen = case.run()
    where = "on a CPU"
    if not any(named(events, "scale") for events in calls(seen)):
        # bf16 needs no scaler; what is done on a GPU is another matter.
        seen = case.run(gpu=True)
        where = "on a GPU"
        if any(named(events, "scale") for events in calls(seen)):
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
    problem = distance(case.moved(case.held(seen, 2)), case.moved(case.steps()[2].weights))
    check.expect(
        problem < 0.5,
        f"The scaler's calls are in order, but the weights did not move as they should in three steps {where}: what was "
        "scaled before backward and what was divided by the scale afterwards do not fit together.",
        "scaler.scale(loss).backward() makes the gradients too large by the scale, and scaler.step(optimizer) divides "
        "them by it: neither may be left out or done twice.",
    )


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
    for which, way in enumerate(ways):
        _clipped(check, case, seen, which, way, gradient)


def _clipped(
    check: Check, case: Case, seen: RankOutcome, which: int, way: Scenario, gradient: dict[str, Array]
) -> None:
    limit, length = way.grad_clip or 0.0, expected.norm(gradient)
    used = {name: value / -way.lr for name, value in case.moved(case.held(seen, 0, which)).items()}
    by_norm = {name: value * min(1.0, limit / length) for name, value in gradient.items()}
    by_value = {name: np.clip(value, -limit, limit) for name, value in gradient.items()}
    if distance(used, by_norm) < LOW:
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
    if distance(used, gradient) < LOW:
        check.fail(f"{call}: the gradient was not clipped; its norm was still {length_used:.3g}.", hint)
    check.fail(
        f"{call}: the optimizer used a gradient of norm {length_used:.3g}, expected {min(limit, length):.3g} in the same "
        "direction.",
        hint,
    )


def test_overflow_skipped(check: Check) -> None:
    """A gradient that overflows changes no weight and lowers the scale; the next step trains on."""
    scale = 2.0 ** int(check.rng.integers(8, 13))
    case = Case(check, Scenario((8, 8, 8), momentum=0.9, scale=scale, overflow=1))
    seen = case.run()
    where = "on a CPU"
    if not any(named(events, "scale") for events in calls(seen)):
        seen = case.run(gpu=True)
        where = "on a GPU"
    right = case.steps()
    before, after, last = (case.held(seen, step) for step in range(3))
    call = f"train_step(..., amp=True) {where} on a batch whose gradient is infinite"
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
        distance(case.moved(last), case.moved(right[2].weights)) < LOW,
        f"{call}, and then one whose gradient is not: that next step did not train as it should.",
        "Nothing of the step that overflowed may stay: zero_grad in every step.",
    )
    _skipped_where_clipped(check, case, gpu=where == "on a GPU")


def _scale_is_halved(check: Check, seen: RankOutcome, scale: float, call: str, *, points: float) -> None:
    """By the second of three steps, the one that overflows, and not before."""
    scales = told(seen).get("scales")
    factors = [number(value) for value in scales] if isinstance(scales, list) else []
    check.expect(
        len(factors) == 3 and factors[0] == scale and factors[1] == scale / 2,
        f"{call}: the scale was {shown(factors[1] if len(factors) > 1 else None)} afterwards, expected {scale / 2:g}, half "
        "of what it was.",
        "scaler.step(optimizer) and scaler.update() also belong to a step that overflows: a step that is left out by "
        "hand keeps a scale that overflows again.",
        points=points,
    )


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


def test_matches_fp32(check: Check) -> None:
    """Twenty steps with AMP follow the fp32 training: its losses and its weights, to low precision."""
    # A large scale would divide what an earlier step left in the gradients until nothing is left of it.
    case = Case(check, Scenario((16,) * 20, momentum=0.9, scale=2.0))
    seen = case.run()
    right = case.steps()
    call = "Twenty calls of train_step(..., amp=True)"
    returned = told(seen).get("returned")
    losses = (
        [item.get("loss") if isinstance(item, dict) else None for item in returned]
        if isinstance(returned, list)
        else []
    )
    check.expect(
        len(losses) == 20 and isinstance(returned, list) and all(isinstance(item, dict) for item in returned),
        f"train_step returned {shown(returned[0] if isinstance(returned, list) and returned else None)}, expected a dict.",
        "Return {'loss': ..., 'acc1': ..., 'acc5': ...} of the batch.",
    )
    usual = (
        "Is optimizer.zero_grad() called in every step, and the gradient divided by the scale exactly once?"
    )
    for step, (loss, wanted) in enumerate(zip(losses, right, strict=True), 1):
        if close(loss, wanted.loss, rtol=LOW_LOSS, atol=0.01):
            continue
        value = number(loss)
        hint = "Return the mean loss of the batch as a number: loss.item()."
        if value is not None and close(value, wanted.loss * case.scenario.scale, rtol=LOW_LOSS):
            hint = "That is the loss times the scale: return loss.item(), not what scaler.scale made of it."
        elif step > 1:
            hint = f"The first losses are right: the steps are not. {usual}"
        check.fail(
            f"{call}: the loss of step {step} is {shown(loss)}; in fp32 it is {wanted.loss:.4f}.", hint
        )
    apart = distance(case.moved(case.held(seen, 19)), case.moved(right[19].weights))
    check.expect(
        apart < LOW,
        f"{call}: the weights are {apart:.0%} off the way that an fp32 training takes, expected less than {LOW:.0%}."
        if math.isfinite(apart)
        else f"{call}: the weights are not finite.",
        f"The losses are right: the steps are not. {usual}",
    )


def test_off_is_fp32(check: Check) -> None:
    """amp=False is plain fp32 training, and --no-amp turns autocast off in the script."""
    case = Case(check, Scenario((16,) * 4, momentum=0.9, amp=False))
    seen = case.run(evaluate_by=EVALUATED_BY)
    call = "train_step(..., amp=False)"
    types = strings(told(seen).get("types"))
    check.expect(
        types == ["torch.float32"],
        f"{call}: the layers computed in {short(types)}, expected float32.",
        "Hand the switch on: torch.autocast(device.type, enabled=amp).",
    )
    right = case.steps()
    returned = told(seen).get("returned")
    losses = (
        [item.get("loss") if isinstance(item, dict) else None for item in returned]
        if isinstance(returned, list)
        else []
    )
    apart = distance(case.moved(case.held(seen, 3)), case.moved(right[3].weights))
    same = len(losses) == 4 and all(
        close(loss, wanted.loss, rtol=FULL_LOSS) for loss, wanted in zip(losses, right, strict=True)
    )
    check.expect(
        same and apart < FULL,
        f"{call}: four steps do not give what the same four steps without any AMP give.",
        "With amp=False the scaler is disabled and passes everything through: nothing else may differ.",
    )
    values = script(check, "until_the_loss", amp=False).ranks[0].values
    types = strings(values.get("types"))
    check.expect(
        types == ["torch.float32"],
        f"amp_train.py without AMP (--no-amp): the logits of the first batch are {short(types)}.",
        "Hand args.amp on to train_step, and let it reach torch.autocast(..., enabled=...).",
    )
    types = strings(seen.values.get("evaluated_types"))
    if not set(types) <= {"torch.float32"}:
        check.fail(
            f"evaluate(..., amp=False): the layers computed in {short(types)}, expected float32.",
            "evaluate has the switch too: torch.autocast(device.type, enabled=amp).",
            points=check.points / 2,
        )


def test_accuracy_topk(check: Check) -> None:
    """acc1 and acc5 are the parts of the items whose label is the first, or among the first five, of the logits."""
    sizes = (20, 7, 1)
    case = Case(check, Scenario(sizes, lr=0.0))
    case.data = _clear_cut(case, sizes)
    seen = case.run(evaluate_by=EVALUATED_BY)
    _accurate_steps(check, case, seen, sizes)
    found = _evaluation_problem(seen.values.get("evaluated"), *_answers(case, case.data))
    if found is not None:
        check.fail(found.message, found.hint, points=check.points / 2)


def _accurate_steps(check: Check, case: Case, seen: RankOutcome, sizes: Sequence[int]) -> None:
    returned = told(seen).get("returned")
    results = returned if isinstance(returned, list) else []
    wanted = [curves.accuracies(*_answers(case, batch)) for batch in case.data.batches(sizes)]
    for unit in (100.0, 1.0):
        if len(results) == len(wanted) and all(
            isinstance(result, dict)
            and all(
                close(result.get(f"acc{k}"), share * unit, rtol=1e-4, atol=1e-4)
                for k, share in zip((1, 5), right, strict=True)
            )
            for result, right in zip(results, wanted, strict=True)
        ):
            return
    for size, result, (first, five) in zip(sizes, results, wanted, strict=False):
        pair = result if isinstance(result, dict) else {}
        acc1, acc5 = pair.get("acc1"), pair.get("acc5")
        if any(
            close(acc1, first * u, rtol=1e-4, atol=1e-4) and close(acc5, five * u, rtol=1e-4, atol=1e-4)
            for u in (1, 100)
        ):
            continue
        check.fail(
            f"A batch of {size}: {round(first * size)} labels are the largest logit and {round(five * size)} among the five "
            f"largest, so acc1 is {first:.2%} and acc5 {five:.2%}. train_step returned {shown(acc1)} and {shown(acc5)}.",
            _accuracy_hint(number(acc1), number(acc5), first, five, size),
        )
    check.fail(
        "train_step did not return acc1 and acc5 for every batch, in one unit.",
        "Return a dict with acc1 and acc5, both in percent.",
    )


def _evaluation_problem(evaluated: Json, logits: Array, labels: Array) -> Problem | None:
    """What is wrong with what the template's `evaluate` returns; a validation of another form may return what it likes."""
    if not isinstance(evaluated, dict):
        return None
    shares = [number(evaluated.get(name)) or 0.0 for name in ("acc1", "acc5")]
    unit = 100.0 if max(shares) > 1 else 1.0
    right = _figures(logits, labels, unit)
    wrong = [name for name in right if name in evaluated and not _agrees(evaluated, right, name)]
    if not wrong:
        return None
    name = wrong[0]
    ends = range(EVALUATED_BY, len(labels), EVALUATED_BY)
    batches = list(zip(np.split(logits, ends), np.split(labels, ends), strict=True))
    each = [_figures(*batch, unit) for batch in batches]
    hint = "Add up value * len(labels) of every batch, and after the loop divide by the number of all items."
    unweighed = {own: float(np.mean([figures[own] for figures in each])) for own in wrong}
    for meant, figures in (
        ("the mean of the batches' values, as if all were equally large", unweighed),
        ("the value of the first batch alone", each[0]),
        ("the value of the last batch alone", each[-1]),
    ):
        if all(_agrees(evaluated, figures, own) for own in wrong):
            hint = f"That is {meant}. {hint}"
    value = number(evaluated[name])
    return Problem(
        f"evaluate(..., amp=False) on {len(labels)} items in batches of {', '.join(str(len(own)) for _, own in batches)} "
        f"returned {name} = {shown(evaluated[name]) if value is None else f'{value:.5g}'}; over all items it is {right[name]:.5g}.",
        hint,
    )


def _figures(logits: Array, labels: Array, unit: float) -> dict[str, float]:
    acc1, acc5 = curves.accuracies(logits, labels)
    return {"acc1": unit * acc1, "acc5": unit * acc5, "loss": expected.mean_loss(logits, labels)}


def _agrees(evaluated: dict[str, Json], right: dict[str, float], name: str) -> bool:
    return close(evaluated[name], right[name], rtol=LOW_LOSS if name == "loss" else 1e-4, atol=1e-4)


def _answers(case: Case, batch: Data) -> tuple[Array, Array]:
    return expected.logits(case.shape, case.weights, batch.images), batch.labels


def _clear_cut(case: Case, sizes: Sequence[int]) -> Data:
    """Batches whose labels are the first, the third and the eighth of logits that low precision keeps in order."""
    n = sum(sizes)
    many = expected.make_data(case.check.rng, 60 * n)
    logits = expected.logits(case.shape, case.weights, many.images)
    ordered = np.sort(logits, axis=1)[:, ::-1]
    margin = np.minimum(ordered[:, 0] - ordered[:, 1], ordered[:, 4] - ordered[:, 5])
    chosen = np.argsort(-margin)[:n]
    places = np.concatenate([_places(size) for size in sizes])
    ranked = np.argsort(-logits[chosen], axis=1)
    mixed = case.check.rng.permutation(n - sizes[-1] - sizes[-2])
    order = np.concatenate([mixed, np.arange(len(mixed), n)])
    labels = ranked[np.arange(n), places][order]
    return Data(many.images[chosen][order], labels.astype(np.int64))


def _places(size: int) -> Array:
    """Which of the logits the labels are: about a third first, a third second to fifth, a third further down."""
    return np.resize(np.array([0, 2, 7, 0, 3, 9, 2, 8, 1]), size)


def _accuracy_hint(acc1: float | None, acc5: float | None, first: float, five: float, size: int) -> str:
    if acc1 is not None and acc5 is not None:
        if acc5 < acc1:
            return "acc5 is less than acc1, which cannot be: the first logit is among the first five. Are they mixed up?"
        if (acc1, acc5) == (round(first * size), round(five * size)):
            return "Those are counts: divide by the number of items in the batch."
    return (
        "logits.topk(5, dim=1).indices are five classes a row; an item counts for acc5 when its label is one of them. "
        "Divide by the size of this batch: the last one is smaller."
    )


# The script


def script(
    check: Check,
    call: str,
    *,
    amp: bool = True,
    wandb: str = "disabled",
    epochs: int = 1,
    train: int = 12,
    tree: Tree | None = None,
    options: dict[str, Json] | None = None,
    **values: Json,
) -> Outcome:
    """Run amp_train.py on a small CINIC-10, with the judge's options."""
    try:
        return check.run(
            call,
            values={
                "options": {
                    "training_data": "/data/cinic",
                    "arch": "resnet18",
                    "batch_size": 4,
                    "epochs": epochs,
                    "amp": amp,
                    "logdir": "runs",
                    "wandb": wandb,
                    "find_batch_size": False,
                    **(options or {}),
                },
                "factor": 1.0,
                **values,
            },
            data={"cinic": tree or cinic10.make_folders(check.rng, train=train, valid=10, test=10)},
        )
    except CheckEnded as ended:
        _explain(check, ended)
        raise


def trained(check: Check, outcome: Outcome, call: str) -> tuple[RankOutcome, list[curves.Batch]]:
    """What a whole run of the script came to; ends the check when it failed or trained on nothing."""
    seen = outcome.ranks[0]
    check.expect(
        integer(seen.values.get("status")) == 0,
        f"{call} ended with status {shown(seen.values.get('status'))}. Its last lines: {_tail(seen.output)}",
        "Run the same line in a terminal: python amp_train.py --training-data DIR --arch resnet18 --batch-size 4 --epochs "
        "1 --amp --logdir runs --wandb disabled",
    )
    batches = curves.training(seen)
    check.expect(
        bool(batches),
        f"{call} came to its end, but no batch was trained on: no cross entropy with a backward was seen.",
        "train(args) loops over the batches of --training-data and calls train_step for each.",
    )
    strange = curves.losses_without_forward(events_of(seen), [batch.size for batch in batches or []])
    check.expect(
        strange == 0,
        f"{call.rstrip(',')}: of {len(batches or [])} losses that a backward followed, {strange} came without a call of a model on as "
        "many images before them.",
        "Compute each loss from what the model answers to the batch's images: logits = model(images).",
    )
    return seen, batches or []


def weights_moved(check: Check, seen: RankOutcome, call: str) -> None:
    """One check's business: curves can be logged rightly of a training that does not train."""
    check.expect(
        seen.values.get("moved") is True,
        f"{call} called its model and made its steps, but no weight of that model changed.",
        "The optimizer needs the parameters of the very model that is trained: "
        "torch.optim.SGD(model.parameters(), ...), made after build_model. Is there a step for every batch?",
    )


def _tail(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return " | ".join(line[:160] for line in lines[-4:]) or "(nothing was printed)"


def events_of(seen: RankOutcome) -> list[list[Json]]:
    """What happened in a run, in order."""
    events = seen.values.get("events")
    return (
        [event for event in events if isinstance(event, list) and event] if isinstance(events, list) else []
    )


def log_files(seen: RankOutcome, kind: str) -> dict[str, bytes]:
    """The log files of one kind, by path."""
    names = strings(seen.values.get(f"{kind}_files"))
    arrays = [seen.arrays.get(f"{kind}/{number}") for number in range(len(names))]
    return {
        name: array.tobytes()
        for name, array in zip(names, arrays, strict=True)
        if array is not None and array.dtype == np.uint8
    }


def test_accumulation(check: Check) -> None:
    """Where gradients are accumulated, each batch counts once and by its share, and the scale holds until the step."""
    outcome = script(check, "train", train=20, accumulation=2)
    call = "amp_train.py" + (
        " with an accumulation of 2" if outcome.ranks[0].values.get("accumulates") is True else ""
    )
    seen, _ = trained(check, outcome, call)
    groups = _groups(events_of(seen))
    sizes = [len(named(group, "backward")) for group in groups]
    most = max(sizes, default=0)
    if most <= 1:
        check.expect(
            seen.values.get("accumulates") is not True,
            f"{call}: the optimizer stepped after every single batch.",
            "Step only after that many batches, and call zero_grad only then.",
        )
        check.note("No gradients are accumulated here, so that there is nothing to look at.")
        return
    for group in groups:
        if len(named(group, "backward")) == most:
            _accumulated(check, call, group, most)


def _groups(events: Sequence[list[Json]]) -> list[list[list[Json]]]:
    """The events up to each step of the optimizer."""
    groups: list[list[list[Json]]] = [[]]
    for event in events:
        groups[-1].append(event)
        if event[0] == "optimizer":
            groups.append([])
    return groups[:-1]


def _accumulated(check: Check, call: str, group: list[list[Json]], size: int) -> None:
    backward = named(group, "backward")
    scales = named(group, "scale")
    check.expect(
        len(scales) in (0, size),
        f"{call}: {size} batches were accumulated for one step, and scaler.scale was called {len(scales)} times for them.",
        "Each batch's loss is scaled once: scaler.scale(loss / n).backward().",
    )
    check.expect(
        not any(backward[0] < place < backward[-1] for place in named(group, "zero_grad")),
        f"{call}: the gradients were set to zero between the batches of one step, so that only the last of {size} counts.",
        "Call optimizer.zero_grad() only after scaler.step(optimizer).",
    )
    check.expect(
        not any(
            place < backward[-1] and place > backward[0]
            for name in ("unscale_", "update")
            for place in named(group, name)
        ),
        f"{call}: between the batches of one step the scale was changed or taken out of the gradients.",
        "unscale_, step and update come once, after the last batch: what is added up must all have the same scale.",
    )
    losses = [number(group[place][1]) if len(group[place]) > 1 else None for place in named(group, "loss")]
    given = [number(group[place][1]) if len(group[place]) > 1 else None for place in scales]
    if not given:
        given = [number(group[place][2]) if len(group[place]) > 2 else None for place in backward]
    parts = [value / loss for value, loss in zip(given, losses, strict=False) if value is not None and loss]
    check.expect(
        len(parts) == size and all(math.isclose(part, 1 / size, rel_tol=0.01) for part in parts),
        f"{call}: {size} batches were accumulated for one step, and each loss was multiplied by "
        f"{', '.join(f'{part:.3g}' for part in parts[:4]) or 'nothing'} before backward, expected {1 / size:.3g}.",
        "Gradients add up: divide each loss by the number of batches, or the step is that many times too large.",
    )


def test_find_batch(check: Check) -> None:
    """--find-batch-size survives running out of memory and finds the largest batch that fits."""
    fits = int(check.rng.integers(160, 240))
    # All fit, where doubling ends beside the largest size and where it ends at it; not even one does.
    beside = int(check.rng.integers(9, 16))
    ends = [(beside, 8 * beside), (8, 64), (beside, 0)]
    outcome, unreported = _search_and_report(check, fits, ends)
    tried = _tried(outcome)
    if not any(not ok for _, ok in tried):
        again = _search(check, fits, ends, gpu=True)
        if any(not ok for _, ok in _tried(again)):
            outcome, tried = again, _tried(again)
            check.note("On a CPU nothing was searched; this is judged on an emulated GPU.")
    seen = outcome.ranks[0]
    call = f"amp_train.py --find-batch-size, where up to {fits} images fit into memory at once,"
    check.expect(
        integer(seen.values.get("status")) == 0,
        f"{call} ended with status {shown(seen.values.get('status'))}. Its last lines: {_tail(seen.output)}",
        "Catch torch.OutOfMemoryError around the step, and go on with a smaller batch.",
    )
    check.expect(
        any(not ok for _, ok in tried),
        f"{call} tried no batch that does not fit; the largest was {max((size for size, _ in tried), default=0)}.",
        "Double the batch until a training step runs out of memory, then bisect.",
    )
    best = max((size for size, ok in tried if ok), default=0)
    printed = _answers_printed(seen.output)
    check.expect(
        best in printed or not printed & {size for size, ok in tried if not ok},
        f"{call} tried batches of up to {best} images that fit, but did not print that number as its answer. Its last "
        f"lines: {_tail(seen.output)}",
        "Print the largest batch size that fitted, not the one after it.",
    )
    half = check.points / 2
    check.expect(
        best >= 0.85 * fits,
        f"{call} came to {best}.",
        "After doubling, bisect between the last size that fitted and the first that did not: the largest batch may be "
        "almost twice as large.",
        points=half if best > fits / 2 else 0.0,
    )
    check.expect(
        _was_a_step(outcome, best),
        f"{call} called a model with {best} images, and no backward followed: that they fit was never tried out.",
        "A step needs more memory than the model's answers alone: let each trial be a call of train_step.",
        points=half,
    )
    check.expect(
        not unreported,
        f"{call} found {best}. With --report FILE besides it did not come to its end, though it writes a report without a "
        f"search: {unreported}",
        "In the template, write_amp_report reads precision, batch_size and ok of each trial that find_batch_size returns.",
        points=half,
    )
    check.expect(
        best in printed,
        f"{call} found {best}, and did not print it. Its last lines: {_tail(seen.output)}",
        "Whoever asks for the largest batch wants to read it: the template prints what find_batch_size returns.",
        points=half,
    )
    check.expect(
        seen.values.get("low") is not True,
        "find_batch_size(..., amp=False, ...) tried steps under autocast, expected fp32: there, a batch takes more memory "
        "than it found.",
        "Hand amp on to the steps of the search: train_step(model, batch, criterion, optimizer, scaler, device, amp).",
        points=half,
    )
    # A search that ends a few images short, which is near enough, does so at the ends as well.
    if (fits, True) in tried and (fits + 1, False) in tried:
        found = _problem_at_the_ends(ends, seen.values.get("ends"))
        if found is not None:
            check.fail(found.message, found.hint, points=half)


def _search_and_report(check: Check, fits: int, ends: Sequence[tuple[int, int]]) -> tuple[Outcome, str]:
    """A search, and what went wrong with a report besides, where only both in one call fail."""
    try:
        outcome = _search(check, fits, ends, report="amp-report.json")
        if integer(outcome.ranks[0].values.get("status")) == 0:
            return outcome, ""
        problem = ""
    except CheckEnded as ended:
        if ended.verdict is not Verdict.CRASHED:
            raise
        problem = ended.feedback.message
    outcome = _search(check, fits, ends)
    if problem:
        try:
            script(check, "train", options={"report": "amp-report.json"})
        except CheckEnded:
            # Without a search no report is written either: `notebook` tells that.
            problem = ""
    return outcome, problem


def _problem_at_the_ends(ends: Sequence[tuple[int, int]], found: Json) -> Problem | None:
    """What is wrong with what the template's `find_batch_size` returns; a search of another form need not know of ends.

    `ends` are the largest size that is asked for and how many images fit; where none does, an exception says so as well.
    """
    sizes = [integer(size) for size in found] if isinstance(found, list) else []
    for (largest, fits), size in zip(ends, sizes, strict=False):
        call = f"find_batch_size(..., largest={largest}), where"
        if fits == 0 and size not in (None, 0):
            return Problem(
                f"{call} not even one image fits into memory, found {size}, expected 0.",
                "Only a size with which a step was made counts as one that fits: begin with 0, which needs no trial.",
            )
        if fits and size not in (None, largest):
            return Problem(
                f"{call} {fits} images fit into memory at once, found {size}, expected {largest}.",
                "`largest` may be tried and found, and nothing above it: when doubling goes past it, bisect between the last "
                "size that fitted and largest + 1.",
            )
    return None


def _search(
    check: Check, fits: int, ends: Sequence[tuple[int, int]], *, gpu: bool = False, **options: Json
) -> Outcome:
    tree = cinic10.make_folders(check.rng, train=20, valid=10, test=10)
    # As many images as any search will need; to read them is all that they are for.
    more = {
        f"{name.removesuffix('.png')}-{copy}.png": data
        for name, data in tree.items()
        if name.startswith("train/")
        for copy in range(12)
    }
    return check.run(
        "search",
        values={
            "options": {
                "training_data": "/data/cinic", "arch": "resnet18", "batch_size": 4, "epochs": 1, "amp": True,
                "logdir": "runs", "wandb": "disabled", "find_batch_size": True, **options,
            },
            "fits": fits,
            "ends": [list(end) for end in ends],
            "gpu": gpu,
        },
        data={"cinic": {**tree, **more}},
    )  # fmt: skip


def _trials(outcome: Outcome) -> list[list[Json]]:
    tried = outcome.ranks[0].values.get("tried")
    trials = tried if isinstance(tried, list) else []
    return [trial for trial in trials if isinstance(trial, list) and len(trial) == 3]


def _tried(outcome: Outcome) -> list[tuple[int, bool]]:
    return [(size, trial[1] is True) for trial in _trials(outcome) if (size := integer(trial[0])) is not None]


def _was_a_step(outcome: Outcome, size: int) -> bool:
    """Whether a backward followed the first calls of a model with so many images: the training comes later."""
    runs = groupby(_trials(outcome), key=lambda trial: integer(trial[0]))
    return next((any(trial[2] is True for trial in run) for tried, run in runs if tried == size), False)


def _speaks_of_a_failure(line: str) -> bool:
    """Whether this is "a batch of 165 does not fit", and says nothing of another batch."""
    failed = re.search(r"\bnot\b|n't\b|out of memory|\bOOM\b", line, re.IGNORECASE)
    return failed is not None and len(re.findall(r"\d+", line)) == 1


def _answers_printed(output: str) -> set[int]:
    """The numbers in the last line with one, and in the last that has no other, speaks of a result, of a batch size."""
    # A warning and the line of source below it are not the script's own words.
    said = [line for line in output.splitlines() if "Warning" not in line and not line.startswith("  ")]
    # Nor is the time that a log puts in front.
    said = [re.sub(r"\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d([.,]\d+)?", "", line) for line in said]
    lines = [line for line in said if re.search(r"\d", line) and not _speaks_of_a_failure(line)]
    speaking = [
        line
        for line in lines
        if re.search(r"larg|max|best|bigg|fit|found|optim|final|result", line, re.IGNORECASE)
    ]
    sizes = [line for line in lines if re.search(r"batch.?size|\bbs\b", line, re.IGNORECASE)]
    # Whatever the language of its words.
    alone = [line for line in lines if len(re.findall(r"\d+(?:\.\d+)?", line)) == 1]
    # A line with many numbers is a list of what was tried, or of guesses.
    found = [line[-400:] for line in (*lines[-1:], *alone[-1:], *speaking[-1:], *sizes[-1:])]
    return {
        int(word)
        for line in found
        if len(re.findall(r"\d+", line)) <= 12
        for word in re.findall(r"(?<![\d.])\d{1,9}(?![\d.]*\d)", line)
    }


def test_tensorboard(check: Check) -> None:
    """TensorBoard's event file has loss, acc1, acc5 and lr of every training batch, at steps that rise."""
    call = "amp_train.py, two epochs of seven batches,"
    outcome = script(check, "train", epochs=2, train=26)
    seen, batches = trained(check, outcome, call)
    files = log_files(seen, "event")
    check.expect(
        bool(files),
        f"{call} left no event file (events.out.tfevents...).",
        "SummaryWriter(args.logdir), writer.add_scalar(...) for each value, writer.close().",
    )
    series, problems = curves.tensorboard(files)
    check.expect(
        not problems,
        f"{call} left a damaged event file: {'; '.join(problems[:2])}.",
        "Close the writer; write with SummaryWriter only.",
    )
    check.expect(
        bool(series),
        f"{call} left an event file without a single value.",
        "Call writer.close() at the end (or use `with SummaryWriter(...)`): values wait in a buffer until then, and in a "
        "notebook nothing else writes them.",
    )
    _curves(check, call, "TensorBoard", series, batches)


def _curves(check: Check, call: str, log: str, series: list[Series], batches: list[curves.Batch]) -> None:
    for name in curves.METRICS:
        found = curves.problem(name, series, batches, epochs=2)
        if found is not None:
            check.fail(f"{call} in the {log} log: {found.message}.", found.hint)
    if curves.is_thinned("loss", series, batches):
        check.note(f"The {log} log shows only some of the batches; the course logs each one.")


def test_wandb(check: Check) -> None:
    """An offline W&B run has the same curves."""
    call = "amp_train.py --wandb offline, two epochs of seven batches,"
    outcome = script(check, "train", epochs=2, train=26, wandb="offline")
    seen, batches = trained(check, outcome, call)
    files = log_files(seen, "wandb")
    check.expect(
        bool(files),
        f"{call} left no offline run (wandb/offline-run-.../run-....wandb).",
        'wandb.init(project=..., mode="offline") needs neither a key nor a network; then run.log({...}, step=global_step).',
    )
    series, problems = curves.wandb(files)
    check.expect(
        not problems,
        f"{call} left a damaged W&B file: {'; '.join(problems[:2])}.",
        "Call run.finish() at the end.",
    )
    _curves(check, call, "W&B", series, batches)
    # Where the other log has it wrong as well, lr_logged says so.
    written = curves.tensorboard(log_files(seen, "event"))[0]
    found = curves.rates(series, batches) if curves.rates(written, batches) is None else None
    if found is not None:
        check.fail(f"{call} in the W&B log: {found.message}.", found.hint, points=check.points / 2)
    if seen.values.get("notebook") is not True:
        _can_be_disabled(check)


def _can_be_disabled(check: Check) -> None:
    """Whether `--wandb` reaches W&B: without a mode it asks for a login wherever WANDB_MODE is not set."""
    outcome = script(check, "train", train=8)
    trained(check, outcome, "amp_train.py --wandb disabled")
    check.expect(
        not log_files(outcome.ranks[0], "wandb"),
        "amp_train.py --wandb disabled left an offline run all the same: the flag does not reach W&B.",
        "wandb.init(..., mode=args.wandb). Without a mode it asks for a login on any machine where nobody has logged in.",
        points=check.points / 2,
    )


def test_lr_logged(check: Check) -> None:
    """The logged learning rate is the one each step was made with, and the scheduler steps after the optimizer."""
    call = "amp_train.py, two epochs of seven batches,"
    factor = float(check.rng.uniform(0.9, 0.96))
    outcome = script(check, "train", epochs=2, train=26, factor=factor)
    seen, batches = trained(check, outcome, call)
    names = [str(event[0]) for event in events_of(seen)]
    if "scheduler" not in names:
        check.expect(
            "scheduler made" not in names or len({batch.lr for batch in batches}) > 1,
            f"{call} a scheduler was made, but its step() never called: every step had the same learning rate.",
            "Call scheduler.step() once after each train_step, when the rate has been logged.",
        )
        check.note("No learning-rate scheduler was seen: the rate stays the same.")
    elif "optimizer" in names:
        check.expect(
            names.index("optimizer") < names.index("scheduler"),
            f"{call} scheduler.step() was called before the first optimizer.step(): the first learning rate is never used.",
            "First scaler.step(optimizer), then scheduler.step().",
        )
    series, _ = curves.tensorboard(log_files(seen, "event"))
    found = curves.rates(series, batches)
    if found is not None:
        check.fail(f"{call} in the TensorBoard log: {found.message}.", found.hint)


def test_eval_no_grad(check: Check) -> None:
    """Validation runs in evaluation mode and without gradients, and training in training mode again."""
    outcome = script(check, "train", epochs=2)
    call = "amp_train.py"
    seen, _ = trained(check, outcome, call)
    made = _calls(events_of(seen))
    forwards = [event for event, derived in made if not derived]
    if len(forwards) < 2:
        check.note(
            "No validation was seen. It is not asked for, but it is how you know what the model has learnt."
        )
        return
    check.expect(
        sum(event[2:3] == [True] for event in forwards) < 2,
        f"{call}: the model was called for {len(forwards)} batches that no backward followed, "
        f"{sum(event[2:3] == [True] for event in forwards)} of them with gradients switched on.",
        "Validate within `with torch.no_grad():` or under @torch.no_grad(): without it every activation is kept in vain, "
        "and a smaller batch fits.",
    )
    check.expect(
        sum(event[3:4] == [True] for event in forwards) < 2,
        f"{call}: the model was in training mode while it was validated: batch norm then goes by the batch and learns from "
        "the validation images.",
        "model.eval() before validation, model.train() before the next epoch.",
    )
    first = next(place for place, (_, derived) in enumerate(made) if not derived)
    after = [event for event, derived in made[first:] if derived]
    resumed = [event for (_, before), (event, derived) in pairwise(made) if derived and not before]
    check.expect(
        not after or any(event[3:4] == [True] for event in after),
        f"{call}: after the first validation the model was trained on in evaluation mode: dropout is off then, and batch "
        "norm learns nothing more.",
        "model.train() at the beginning of every epoch, not once before the first: evaluate() has called model.eval().",
        points=check.points / 2,
    )
    wrong = sum(event[3:4] == [False] for event in resumed)
    check.expect(
        wrong < 2,
        f"{call} validates within an epoch, and {wrong} of {len(resumed)} times the model was trained on in evaluation mode "
        "afterwards: dropout is off then, and batch norm learns nothing more, until the epoch ends.",
        "model.train() right after every validation, or before every batch: evaluate() has called model.eval().",
        points=check.points / 2,
    )


def _calls(events: Sequence[list[Json]]) -> list[tuple[list[Json], bool]]:
    """The calls of a model, and whether a backward followed before the next one."""
    found: list[tuple[list[Json], bool]] = []
    for event in events:
        if event[0] == "forward":
            found.append((event, False))
        elif event[0] == "backward" and found:
            found[-1] = (found[-1][0], True)
    return found


def test_notebook(check: Check) -> None:
    """The whole file runs from top to bottom, and its report fits an outside clock."""
    tree = _lopsided(check, 26)
    outcome = script(check, "train", epochs=2, tree=tree, options={"report": "amp-report.json"})
    seen = outcome.ranks[0]
    is_notebook = seen.values.get("notebook") is True
    call = "amp_train.ipynb, run from top to bottom," if is_notebook else "amp_train.py --report FILE"
    seen, batches = trained(check, outcome, call)
    weights_moved(check, seen, call)
    steps = len(batches)
    check.expect(
        steps in (12, 14),
        f"{call} trained on {steps} batches; two epochs over 26 images in batches of 4 are 14.",
        "Let the constants or options decide: epochs, batch size, data.",
    )
    labels = seen.arrays.get("labels")
    share = 0.0 if labels is None else float(np.bincount(labels.astype(np.int64)).max() / len(labels))
    check.expect(
        0.25 < share < 0.85,
        f"{call} was given a folder in which more than half of the images are of one class, and trained on labels of which "
        f"the most frequent is {share:.0%}.",
        "Train on the images in --training-data DIR (DIR/train/CLASS/*.png), not on others or on random ones.",
    )
    known = 0 if labels is None else len(np.unique(labels))
    check.expect(
        known >= LEAST_CLASSES,
        f"{call} was given images of {len(CLASSES)} classes and trained on {known} of them.",
        "Take every batch of the loader: `for images, labels in loader`. next(iter(loader)) starts anew each time, and one "
        "batch again and again is a try-out.",
        points=check.points / 2,
    )
    if seen.values.get("tagged") is False:
        check.note("No cell has the tag `parameters`; the one that holds the constants was taken for it.")
    report = seen.values.get("report")
    if is_notebook and not isinstance(report, str):
        return
    check.expect(
        isinstance(report, str),
        f"{call} wrote no report.",
        "Write it with write_report of perf_report.py, of kind amp.",
    )
    found = perf_report.problems(report if isinstance(report, str) else "")
    check.expect(
        not found,
        f"{call}: the report is not a perf-report/1. {' '.join(found[:2])}",
        "Use write_report of perf_report.py.",
    )
    walls = _walls(report)
    check.expect(
        0 < sum(walls) <= outcome.elapsed,
        f"{call}: its timings add up to {sum(walls):.3g} s, an outside clock saw {outcome.elapsed:.3g} s for everything.",
        "Take the time with time.perf_counter() around each epoch, in this very run.",
    )


def _lopsided(check: Check, train: int) -> Tree:
    """A CINIC-10 whose training images are for the most part of one class, which tells it from any other data."""
    tree = cinic10.make_folders(check.rng, train=train // 2, valid=10, test=10)
    copied = str(check.rng.choice([name for name in tree if name.startswith("train/")]))
    more = {
        f"{copied.removesuffix('.png')}-{number}.png": tree[copied] for number in range(train - train // 2)
    }
    return {**tree, **more}


def _walls(report: Json) -> list[float]:
    """The seconds of all runs of a report of kind amp; none where it is of another kind."""
    value: Any = json.loads(report) if isinstance(report, str) else {}
    return [float(run["wall_s"]) for run in value["runs"]] if value.get("report") == "amp" else []
