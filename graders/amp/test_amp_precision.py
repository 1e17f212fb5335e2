"""The judge of exercise 6, its precision: what is computed in low precision, what in fp32, and what comes of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from graders.amp import expected, own_step, script_precision
from graders.amp.batches import first_steps
from graders.amp.expected import Scenario
from graders.amp.record import calls, insist_on_dicts, returned, strings, told
from graders.amp.script_precision import LOW_TYPES
from graders.amp.script_runs import BATCH_ON_CPU, NOT_TRAINED, begin_script, comes_to_its_end, run_script
from graders.amp.steps import EVALUATED_BY, LOW, LOW_LOSS, NO_STEP, Case, distance
from lockstep.batchloop import CLEAR_HINT, LOOPS, PLAIN, SOFTMAX, SOFTMAX_HINT, Loop
from lockstep.check import Check
from lockstep.compare import close, integer, number, shown
from lockstep.devicefault import is_device_fault
from lockstep.sandbox.outcome import RankOutcome
from lockstep.verdict import CheckEnded
from lockstep.wire import Json

SLIPS = tuple(loop for loop in LOOPS if loop is not PLAIN)
CPU, GPU = "on a CPU", "on a GPU"
# Over the networks that LOW was measured with, two fp32 trainings are 1e-6 apart.
FULL, FULL_LOSS = 1e-4, 1e-5


def test_autocast_on(check: Check) -> None:
    """With amp=True the layers compute in low precision, the loss in fp32, and the backward is outside autocast."""
    case = Case(check, Scenario((16,), scale=1.0))
    try:
        seen = case.run(forward_only=True)
    except CheckEnded as ended:
        # Where not even one training step comes back, every other check would only say so again.
        ended.spoils = ended.spoils or "there is no amp_train.py" in ended.feedback.message
        raise
    where = CPU
    if not any(name in LOW_TYPES for name in strings(told(seen).get("types"))):
        seen = case.run(gpu=True, forward_only=True)
        where = GPU
        if any(name in LOW_TYPES for name in strings(told(seen).get("types"))):
            check.note(
                "On a CPU nothing is computed in low precision: `torch.autocast(device.type)` works on both, while "
                'torch.cuda.amp.autocast and autocast("cuda") are for GPUs alone.'
            )
    types = strings(told(seen).get("types"))
    if where == CPU and "torch.float16" in types:
        check.note(
            "On a CPU train_step computes in float16. What autocast takes there unless it is told, and what the exercise "
            "means, is bfloat16: precision_name of the template says bf16-amp, which is not what a report measured then."
        )
    call = f"train_step(..., amp=True) {where}"
    check.expect(
        bool(types) and all(name in LOW_TYPES for name in types),
        f"train_step(..., amp=True) {where if where == CPU else f'{CPU} and {GPU}'}: the linear layers computed in "
        f"{_short(types)}, expected bfloat16 or float16.",
        "Put the model's forward and the loss into `with torch.autocast(device.type, enabled=amp):`, without a dtype, which "
        "it chooses itself.",
    )
    logits = seen.arrays.get("0/logits")
    values = None if logits is None else logits.astype(np.float32)
    right = expected.logits(case.shape, case.weights, case.data.images)
    check.expect(
        values is not None
        and values.shape == right.shape
        and expected.is_low_precision(values, max(LOW_TYPES[name] for name in types))
        and distance({"": values}, {"": right}) < LOW,
        f"{call}: what came out of the model are not its answers in {_short(types)}.",
        "Hand the batch's images to the model as they are and all at once, within autocast.",
    )
    made = calls(seen)
    check.expect(len(made) == 1, "train_step was not called once: the record is incomplete.")
    for events in made:
        losses = [event for event in events if event[0] == "loss"]
        check.expect(
            bool(losses) and all(event[1:2] == ["torch.float32"] for event in losses),
            f"{call}: the loss was computed in {_short(sorted({str(event[1]) for event in losses if len(event) > 1}))}, "
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
    fetched, needs_moved_batches = case.fetch()
    if needs_moved_batches:
        _script_moves_them(check)
    on_gpu = [] if fetched is None else strings(told(fetched).get("types"))
    check.expect(
        where == GPU or on_gpu != ["torch.float32"],
        f"train_step(..., amp=True) on a GPU: the linear layers computed in float32; {CPU} they do in {_short(types)}.",
        'torch.autocast(device.type, enabled=amp) goes where train_step is told to. autocast("cpu") changes nothing on a GPU.',
        points=check.points / 2,
    )
    script_precision.is_low(check)
    _is_on_by_default(check, case, where)


def _is_on_by_default(check: Check, case: Case, where: str) -> None:
    """End the check where train_step computes in fp32 unless it is told."""
    try:
        seen = case.run(replace(case.scenario, amp=None), gpu=where == GPU, forward_only=True)
    except CheckEnded:
        # Without a default of its own every call says what it wants.
        return
    types = strings(told(seen).get("types"))
    check.expect(
        types != ["torch.float32"],
        f"train_step(...) {where} without `amp`: the linear layers computed in float32, expected what they do with amp=True.",
        "amp=True is the default: def train_step(..., device, amp=True, grad_clip=None).",
        points=check.points / 2,
    )


def _script_moves_them(check: Check) -> None:
    """End the check where the script does not train on a GPU either, because something of it is still on the CPU."""
    try:
        run_script(check, "until_the_loss", values={"gpu": True})
    except CheckEnded as ended:
        if is_device_fault(ended.feedback.message):
            check.fail(
                f"On a machine with a GPU: {ended.feedback.message}",
                BATCH_ON_CPU,
                points=check.points / 2,
            )


def test_params_fp32(check: Check) -> None:
    """The parameters are fp32 before, during and after training with AMP: only copies are cast."""
    case = Case(check, Scenario((8, 8), scale=1.0))
    seen = case.run()
    types = strings(told(seen).get("parameters"))
    check.expect(
        types == ["torch.float32"],
        f"After train_step(..., amp=True) the model's parameters are {_short(types)}.",
        "No model.half(), no model.to(torch.bfloat16): small updates would vanish in such weights. Autocast casts a "
        "copy of each weight where it is used.",
    )
    ways = [expected.norm(case.moved(case.steps(loop)[1].weights)) for loop in (PLAIN, SOFTMAX)]
    check.expect(
        expected.norm(case.moved(case.held(seen, 1))) > 0.3 * min(ways),
        "train_step(..., amp=True) leaves the parameters in fp32, but hardly moves them.",
        "backward, scaler.step(optimizer) and scaler.update() have to follow in every call.",
    )
    classes = int(check.rng.integers(11, 30))
    made = check.run("built", values={"arch": "resnet18", "classes": classes}).ranks[0].values
    types = strings(made.get("types"))
    check.expect(
        types == ["torch.float32"],
        f"build_model('resnet18', num_classes={classes}) has parameters in {_short(types)}.",
        "Leave the model in fp32: autocast casts what it needs.",
    )
    check.expect(
        made.get("shape") == [2, classes],
        f"build_model('resnet18', num_classes={classes}) answers two images with something of the shape {shown(made.get('shape'))}, "
        f"expected 2 x {classes}.",
        "The last layer needs num_classes outputs.",
    )
    begun = run_script(check, "until_the_loss", values={"stop": "forward"}).ranks[0]
    script = begun.values
    types = strings(script.get("parameters"))
    if not types:
        comes_to_its_end(check, begun, "amp_train.py with AMP")
    check.expect(
        types == ["torch.float32"],
        f"When amp_train.py with AMP called its model for the first time, the parameters were {_short(types)}."
        if types
        else "amp_train.py with AMP computed a loss, or ended, without calling a model on a batch of images.",
        "Look for .half(), .bfloat16() or .to(dtype) between build_model and the training loop."
        if types
        else f"logits = model(images) of the batch's images, in train_step. {NOT_TRAINED}",
    )
    _builds_another(check, classes, made, script)


def _builds_another(check: Check, classes: int, made: Mapping[str, Json], script: Mapping[str, Json]) -> None:
    """End the check where a network of another name has exactly as many parameters, or is what the script trains."""
    try:
        another = check.run("built", values={"arch": "resnet152", "classes": classes}).ranks[0].values
    except CheckEnded:
        # Which other networks there are is not asked, nor what they need.
        return
    counts = integer(another.get("parameters")), integer(made.get("parameters"))
    check.expect(
        None not in counts and counts[0] != counts[1],
        f"build_model('resnet152', num_classes={classes}) and build_model('resnet18', num_classes={classes}) make networks of "
        "equally many parameters: it is one network under both names.",
        "Hand arch on: models.get_model(arch, weights=None, num_classes=num_classes).",
        points=check.points / 2,
    )
    # Whatever the number of classes. A notebook need not have a constant for it.
    own, wanted, other = (integer(values.get("filters")) for values in (script, made, another))
    check.expect(
        script.get("notebook") is True or not own or own == wanted or own != other,
        f"amp_train.py --arch resnet18 trains a network whose filters have {own} weights, as many as those of "
        f"build_model('resnet152'); those of build_model('resnet18') have {wanted}.",
        "Hand --arch on: model = build_model(args.arch).",
        points=check.points / 2,
    )


def test_matches_fp32(check: Check) -> None:
    """Twenty steps with AMP follow the fp32 training: its losses and its weights, to low precision."""
    # A large scale would divide what an earlier step left in the gradients until nothing is left of it.
    case = Case(check, Scenario((16,) * 20, momentum=0.9, scale=2.0))
    seen = case.run()
    right = case.steps()
    call = "Twenty calls of train_step(..., amp=True)"
    insist_on_dicts(check, seen)
    count = len(returned(seen))
    check.expect(count == 20, f"{call}: {count} of them came back.", "train_step ends with a return.")
    if not _follows(case, seen, PLAIN):
        _tell_of_slips(check, case, seen)
    check.expect(
        not case.stands_still(seen, 19), f"{call}: the weights are those that it began with.", NO_STEP
    )
    usual = (
        "Is optimizer.zero_grad() called in every step, and the gradient divided by the scale exactly once?"
    )
    for step, (loss, wanted) in enumerate(zip(_losses(seen), right, strict=True), 1):
        if close(loss, wanted.loss, rtol=LOW_LOSS, atol=0.01):
            continue
        value = number(loss)
        hint = "Return the mean loss of the batch as a number: loss.item()."
        if loss is None:
            hint = "Return the mean loss of the batch under the key 'loss', as a number: loss.item()."
        elif value is not None and close(value, wanted.loss * case.scenario.scale, rtol=LOW_LOSS):
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


def _comes_to(case: Case, seen: RankOutcome, loop: Loop, rtol: float, atol: float, apart: float) -> bool:
    """Whether losses and weights of all steps are those of a loop in fp32, as far as these tolerances tell."""
    steps, losses = case.steps(loop), _losses(seen)
    last = len(steps) - 1
    return (
        len(losses) == len(steps)
        and all(close(loss, own.loss, rtol=rtol, atol=atol) for loss, own in zip(losses, steps, strict=True))
        and distance(case.moved(case.held(seen, last)), case.moved(steps[last].weights)) < apart
    )


def _follows(case: Case, seen: RankOutcome, loop: Loop) -> bool:
    return _comes_to(case, seen, loop, LOW_LOSS, 0.01, LOW)


def _is_in_full(case: Case, seen: RankOutcome, loop: Loop) -> bool:
    return _comes_to(case, seen, loop, FULL_LOSS, 1e-6, FULL)


def _tell_of_slips(check: Check, case: Case, seen: RankOutcome) -> None:
    """End the check where the steps are those of a loop with a slip that has nothing to do with AMP."""
    loop = next((loop for loop in SLIPS if _follows(case, seen, loop)), PLAIN)
    check.expect(
        not loop.softmax,
        "train_step puts a softmax between the model and CrossEntropyLoss: losses and weights of twenty steps are those of a "
        "softmax done twice. Training then still works, but much more slowly.",
        SOFTMAX_HINT,
    )
    check.expect(
        loop.clears,
        "train_step never clears the gradients: losses and weights of twenty steps are those of steps that were made with the "
        "gradients of all earlier batches as well.",
        CLEAR_HINT,
    )


def test_off_is_fp32(check: Check) -> None:
    """amp=False is plain fp32 training, and --no-amp turns autocast off in the script."""
    case = Case(check, Scenario((16,) * 4, momentum=0.9, amp=False))
    seen = case.run(evaluate_by=EVALUATED_BY)
    call = "train_step(..., amp=False)"
    types = strings(told(seen).get("types"))
    check.expect(
        types == ["torch.float32"],
        f"{call}: the layers computed in {_short(types)}, expected float32.",
        "Hand the switch on: torch.autocast(device.type, enabled=amp).",
    )
    insist_on_dicts(check, seen)
    check.expect(
        not case.stands_still(seen, 3),
        f"{call}: after four steps the weights are those that it began with.",
        NO_STEP,
    )
    loop = next((loop for loop in LOOPS if _is_in_full(case, seen, loop)), None)
    check.expect(
        loop is not None,
        f"{call}: four steps do not give what the same four steps without any AMP give.",
        "With amp=False the scaler is disabled and passes everything through: nothing else may differ.",
    )
    begun = begin_script(check, amp=False)
    types = strings(begun.values.get("types"))
    if not types:
        comes_to_its_end(check, begun, "amp_train.py --no-amp")
        check.fail("amp_train.py without AMP (--no-amp) computed no loss of a training batch.", NOT_TRAINED)
    check.expect(
        types == ["torch.float32"],
        f"amp_train.py without AMP (--no-amp): the logits of the first batches are {_short(types)}.",
        "Hand args.amp on to train_step, and let it reach torch.autocast(..., enabled=...).",
    )
    low = script_precision.low_steps(first_steps(begun))
    check.expect(
        not low,
        f"amp_train.py without AMP (--no-amp): in {len(low)} of the first batches layers computed in "
        f"{_short(sorted(LOW_TYPES.keys() & low[0].answers) if low else [])}.",
        "Hand args.amp on to train_step, and let it reach torch.autocast(..., enabled=...).",
    )
    if loop is not None and loop.clears:
        own_step.sets_gradients_to_zero(check, begun)
    types = strings(seen.values.get("evaluated_types"))
    if not set(types) <= {"torch.float32"}:
        check.fail(
            f"evaluate(..., amp=False): the layers computed in {_short(types)}, expected float32.",
            "evaluate has the switch too: torch.autocast(device.type, enabled=amp).",
            points=check.points / 2,
        )


def _losses(seen: RankOutcome) -> list[Json]:
    return [result.get("loss") if isinstance(result, dict) else None for result in returned(seen)]


def _short(types: Sequence[str]) -> str:
    """Names of dtypes for a message."""
    return ", ".join(name.removeprefix("torch.")[:20] for name in types) or "none at all"
