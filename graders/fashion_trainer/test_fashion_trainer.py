"""Exercise 2: a trainer for any device, judged with hidden networks and pictures.

What the student's functions return is held against what the judge works out itself: from the weights that
came back, or from the logits that were seen to leave the network.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping

import numpy as np

from fixtures import fashion_mnist
from graders.fashion_trainer import expected, losses
from graders.fashion_trainer.expected import Calls, Data, Patterns, Shape
from lockstep.check import Check
from lockstep.compare import difference, integer, number, shown
from lockstep.sandbox.outcome import RankOutcome
from lockstep.text import safe_line
from lockstep.verdict import CheckEnded, Crashed
from lockstep.wire import Array, Json

LR = 0.03
# With a thousandth of it, in a quarter of the epochs, weights move by less than a thousandth; where it is not used, by a
# quarter or more. Between the two are schedules with a floor and optimizers that change their steps themselves.
SMALL_LR, LEAST_RATIO = LR / 1000, 10
# At this rate of the script a step moves weights by 1e-7 or so; Adam's default of 1e-3 moves them by 1e-3.
TINY_LR, MOST_MOVED = "1e-7", 5e-4
BATCH_SIZE = 8
# A `break` that was left in after debugging comes after ten batches, fifty, a hundred, two hundred.
MANY_BATCHES, SMALL_BATCH = 205, 2
# Of the training set some keep half for validation, and a short last batch is left out of the rest.
LEAST_SHARE = 0.4
# Half precision on a GPU is fine, and so are other ways to round an accuracy; the mistakes differ by more.
CLOSE_LOGITS = {"rtol": 0.05, "atol": 0.05}
ACCURACY_ROUNDING = 0.0051
# So much of a script's test pictures is labelled wrongly.
MISLABELLED = 0.75
# What a report says may be the mean of batches, or of classes; one that nobody measured is seldom so close.
ACCURACY_NEAR = 0.1
# Of the first loss Adam leaves 1 %, plain SGD 20 %, the slowest optimizers 65 %: see the tests.
LEAST_FALL = 0.8
# A GPU is told to be missing in many words; all of them name CUDA.
NEEDS_GPU = re.compile(r"cuda|nvidia", re.IGNORECASE)
REPORT = "fashion.json"
# What the given script reports besides: by chance one of them is some share of right answers.
NOT_MEASURED_BY_COUNTING = ("epochs", "batch_size", "lr", "losses", "seconds")

DEVICE_LINE = "return torch.device('cuda' if torch.cuda.is_available() else 'cpu')"
GUARD_HINT = (
    "Ask first: torch.cuda.is_available() says whether there is a GPU. Send things to `device` with .to(device) "
    "instead of .cuda(), and call torch.cuda functions only where device.type is 'cuda'."
)
JSON_HINT = (
    "JSON knows Python's numbers, no tensors and no NumPy: train should return floats and evaluate a float, with "
    ".item() on what torch computes."
)
DEVICE_HINT = (
    "Everything that meets in one operation has to be on one device: model.to(device) before the optimizer is made, "
    "images.to(device) and labels.to(device) for every batch (assign the result), and device=... for a new tensor."
)


def options(shape: Shape, *, epochs: int = 1, **more: Json) -> dict[str, Json]:
    """What the probe's training functions are told; on a machine without a GPU unless `more` says else."""
    return {
        "shape": shape, "lr": LR, "batch_size": BATCH_SIZE, "epochs": epochs, "gpus": 0, "device": "cpu", **more,
    }  # fmt: skip


ON_GPU: dict[str, Json] = {"gpus": 1, "device": "cuda:0"}


def wants_gpu(ended: CheckEnded) -> bool:
    """Whether a run without a GPU ended for want of one."""
    return isinstance(ended, Crashed) and NEEDS_GPU.search(ended.feedback.message) is not None


def look(check: Check, call: str, values: Mapping[str, Json], arrays: Mapping[str, Array]) -> RankOutcome:
    """Run without a GPU, or on one what cannot do without: the check that looks is not about devices."""
    try:
        return check.run(call, values=values, arrays=arrays).ranks[0]
    except CheckEnded as ended:
        if not wants_gpu(ended):
            raise
        try:
            seen = check.run(call, values={**values, **ON_GPU}, arrays=arrays).ranks[0]
        except CheckEnded:
            raise ended from None
        check.note(f"Looked at on a GPU, because without one: {ended.feedback.message}")
        return seen


def calls_of(check: Check, seen: RankOutcome, part: str, function: str) -> Calls:
    """The calls of the network; ends the check when it was never called."""
    found = expected.calls(seen, part)
    if found is None or not found.calls:
        check.fail(
            f"{function}: no batch of pictures reached the model it was given.",
            "Loop over the loader and call the model that is handed in, with the pictures of each batch.",
        )
    return found


def _worded(kind: Json) -> str:
    """The probe's words for what a value is, such as `a tuple`."""
    return safe_line(kind, 80) if isinstance(kind, str) else shown(kind)


# Learning


def test_trains_on_cpu(check: Check) -> None:
    """`train` learns at the rate it is given, `evaluate` counts, and the script trains and tests on the pictures it should."""
    patterns = Patterns(check.rng)
    train = patterns.draw(12 * BATCH_SIZE + int(check.rng.integers(2, BATCH_SIZE)))
    tail = int(check.rng.integers(2, 4))
    test = patterns.draw(5 * BATCH_SIZE + tail, mislabelled=0.3, tail=tail)
    shape = expected.make_shape(check.rng)
    weights = expected.make_weights(check.rng, shape)
    tree = fashion_mnist.make_idx(check.rng, 40, 20)
    try:
        seen = check.run(
            "train_and_evaluate",
            values=options(shape, epochs=4, small_lr=SMALL_LR),
            arrays={**train.arrays("train"), **test.arrays("test"), **expected.as_inputs(weights)},
        ).ranks[0]
    except CheckEnded as ended:
        if not wants_gpu(ended):
            raise
        # Others look at it on a GPU, so this is no reason to leave them out.
        raise Crashed(f"On a machine without a GPU: {ended.feedback.message}", GUARD_HINT) from None
    calls_of(check, seen, "train", "train")
    trained = _learned(check, seen, shape, weights, train)
    _gradients_cleared(check, seen)
    _accuracy(check, seen, shape, trained, train, test)
    _goes_to_the_end(check, patterns, shape, weights)
    script = _parts_kept_apart(check, tree)
    _follows_the_rate(check, seen, weights, trained)
    moved = number(script.values.get("first_step")) if script is not None else None
    check.expect(
        moved is None or moved < MOST_MOVED,
        f"The script with --lr {TINY_LR}: its first step moved a weight by {moved or 0:.1g}, much more than that rate can.",
        "Hand --lr on: train(model, loader, device, args.epochs, args.lr).",
        points=0.75 * check.points,
    )


def _learned(
    check: Check, seen: RankOutcome, shape: Shape, weights: Mapping[str, Array], train: Data
) -> dict[str, Array]:
    """The weights after the training; they must fit the training pictures better than those before."""
    call = f"train(model, loader, device, epochs=4, lr={LR})"
    trained = _finite(check, seen, weights, f"{call} on ten classes that are easily told apart")
    unchanged = all(np.array_equal(trained[name], weights[name]) for name in weights)
    check.expect(
        not unchanged,
        f"{call}: afterwards the model's weights are what they were before.",
        "Each batch needs optimizer.zero_grad(), loss.backward() and optimizer.step(), and the optimizer must "
        "have been given the parameters of the model that train is called with.",
    )
    left = [name for name in weights if np.array_equal(trained[name], weights[name])]
    check.expect(
        not left,
        f"{call}: afterwards {', '.join(left)} of the model are what they were before.",
        "Give the optimizer model.parameters(), all of them.",
    )
    before, after = (
        float(expected.cross_entropy(expected.logits_of(shape, held, train.images), train.labels).mean())
        for held in (weights, trained)
    )
    check.expect(
        after < LEAST_FALL * before,
        f"{call} on ten classes that are easily told apart: the loss went from {before:.2f} to {after:.2f}. "
        f"Expected it below {LEAST_FALL * before:.2f}.",
        "Is there one step for every batch, downhill, on the loss of that batch?",
    )
    return trained


def _finite(check: Check, seen: RankOutcome, weights: Mapping[str, Array], call: str) -> dict[str, Array]:
    """The weights that came back from a training; ends the check where one is not a finite number."""
    trained = expected.state(seen, "trained", weights)
    if trained is None:
        check.fail(
            f"{call}: the model's weights are no longer finite numbers.",
            "Does the optimizer use the lr that train is given?",
        )
    return trained


def _follows_the_rate(
    check: Check, seen: RankOutcome, weights: Mapping[str, Array], trained: Mapping[str, Array]
) -> None:
    """With a much smaller learning rate the weights stay about where they were."""
    barely = expected.state(seen, "barely", weights)
    far, near = (_distance(weights, held) for held in (trained, barely or trained))
    check.expect(
        near * LEAST_RATIO < far,
        f"train(model, loader, device, epochs=4, lr={LR}) moved the weights {far:.3g} away from where they began, "
        f"train(model, loader, device, epochs=1, lr={SMALL_LR:g}) {near:.3g}. Expected far less: it is a thousandth of the rate.",
        "Hand on the lr that train is given: torch.optim.Adam(model.parameters(), lr=lr).",
        points=0.75 * check.points,
    )


def _distance(before: Mapping[str, Array], after: Mapping[str, Array]) -> float:
    return float(
        np.sqrt(sum(np.square(after[name] - before[name], dtype=np.float64).sum() for name in before))
    )


def _gradients_cleared(check: Check, seen: RankOutcome) -> None:
    """After a step no gradient of an earlier batch may be added to."""
    bias, fresh, before = (seen.arrays.get(name) for name in ("bias", "fresh", "before"))
    if bias is None or fresh is None or before is None:
        # The training was done on a copy of the model, or without backward passes; what it learned was seen.
        return
    if not bias.shape == fresh.shape == before.shape or bias.ndim != 2 or bias.shape[1] != 10:
        check.fail(
            "What train did to the gradients of the model cannot be told.", "Train the model as it is."
        )
    stepped = np.any(bias[1:] != bias[:-1], axis=1)
    kept = np.any(before[1:] != 0, axis=1)
    late = np.flatnonzero(stepped & kept)
    check.expect(
        len(late) == 0,
        f"train: {len(late)} of {int(stepped.sum())} steps were made with the gradients of earlier batches still in "
        f"them, first at batch {int(late[0]) + 2 if len(late) else 0}.",
        "backward() adds to what is in .grad: call optimizer.zero_grad() for every step.",
    )


def _accuracy(
    check: Check, seen: RankOutcome, shape: Shape, trained: Mapping[str, Array], train: Data, test: Data
) -> None:
    """What evaluate returned, against the judge's own count."""
    value = number(seen.values.get("accuracy"))
    n = len(test.labels)
    logits = expected.logits_of(shape, trained, test.images)
    least, most = expected.right_answers(logits, test.labels)
    if _between(value, least / n, most / n):
        if seen.values.get("accuracy_kind") not in ("a float", "an int"):
            check.note(
                f"evaluate returned {_worded(seen.values.get('accuracy_kind'))}; the exercise asks for a float: .item()."
            )
        return
    call = f"evaluate on {n} pictures that train has not seen returned {_told(seen, 'accuracy')}"
    if value is not None and _between(value / 100, least / n, most / n):
        check.fail(
            f"{call}, in percent. Expected the same between 0 and 1.",
            "Do not multiply by 100; format with {accuracy:.1%} where it is printed.",
            points=check.points / 2,
        )
    check.fail(
        f"{call}; {_by_hand(least, most, n)}",
        _accuracy_hint(value, logits, shape, trained, train, test),
    )


def _accuracy_hint(
    value: float | None, logits: Array, shape: Shape, trained: Mapping[str, Array], train: Data, test: Data
) -> str:
    n = len(test.labels)
    right = (logits.argmax(axis=1) == test.labels).astype(np.float64)
    batches = np.split(right, range(BATCH_SIZE, n, BATCH_SIZE))
    of_train = expected.logits_of(shape, trained, train.images).argmax(axis=1) == train.labels
    candidates = {
        "That is the accuracy on the training pictures: use the loader that evaluate is given.": of_train.mean(),
        "That is the mean over the batches, in which the pictures of a short last batch count more than the others: "
        "divide the number of right answers by the number of pictures.": np.mean([b.mean() for b in batches]),
        "That is the accuracy on the last batch: add up over all batches.": batches[-1].mean(),
        "That is the number of right answers: divide by the number of pictures.": right.sum(),
        "Divide by the number of pictures (len(loader.dataset)), not of batches (len(loader)).": right.sum()
        / len(batches),
    }
    for hint, candidate in candidates.items():
        if _between(value, float(candidate), float(candidate)):
            return hint
    return "Count where argmax over the logits equals the label, over all batches, and divide by the number of pictures."


def _between(value: float | None, least: float, most: float) -> bool:
    return value is not None and least - ACCURACY_ROUNDING <= value <= most + ACCURACY_ROUNDING


def _by_hand(least: int, most: int, n: int) -> str:
    return f"counted by hand, {least if least == most else f'{least} to {most}'} of {n} are right."


def _told(seen: RankOutcome, name: str) -> str:
    value = number(seen.values.get(name))
    return f"{value:.4g}" if value is not None else _worded(seen.values.get(f"{name}_kind"))


def _goes_to_the_end(check: Check, patterns: Patterns, shape: Shape, weights: Mapping[str, Array]) -> None:
    """Many small batches: train and evaluate leave none out."""
    n = MANY_BATCHES * SMALL_BATCH
    train = patterns.draw(n)
    # All that is wrong comes last: whoever ends early sees less of it.
    test = patterns.draw(n, tail=4 * SMALL_BATCH)
    outcome = check.run(
        "train_and_evaluate",
        values=options(shape, batch_size=SMALL_BATCH),
        arrays={**train.arrays("train"), **test.arrays("test"), **expected.as_inputs(weights)},
    )
    seen, points = outcome.ranks[0], check.points / 2
    calls = calls_of(check, seen, "train", "train").calls
    # Without backward passes none is marked; and a pass for the loss alone, after each epoch, is no training.
    marked = any(call.trained for call in calls)
    learned = sum(call.size for call in calls if call.trained or not marked)
    check.expect(
        learned >= n,
        f"train on {n} pictures in {MANY_BATCHES} batches: the model was {'trained on' if marked else 'called with'} "
        f"{learned} of them.",
        "Every epoch is one pass over the whole loader. Was a `break` left in?",
        points=points,
    )
    trained = _finite(check, seen, weights, f"train on {n} pictures")
    least, most = expected.right_answers(expected.logits_of(shape, trained, test.images), test.labels)
    value = number(seen.values.get("accuracy"))
    check.expect(
        _between(value, least / n, most / n),
        f"evaluate on {n} pictures in {MANY_BATCHES} batches returned {_told(seen, 'accuracy')}; "
        f"{_by_hand(least, most, n)}",
        "Count over all batches of the loader. Was a `break` left in?",
        points=points,
    )


def _parts_kept_apart(check: Check, tree: Mapping[str, bytes]) -> RankOutcome | None:
    """Look at what the script trains on and evaluates on; that it runs at all is another check's business.

    Returns what was seen of it at a tiny learning rate; None where it knows no --lr, or could not be looked at.
    """
    # Two of them: whoever stops early, once nothing gets better, has nothing to compare the first with.
    arguments = ["--data", "/data/fashion", "--epochs", "2", "--batch-size", "16", "--device", "cpu"]
    for more in (["--lr", TINY_LR], []):
        shown_call = " ".join(["fashion_trainer.py", *arguments, *more])
        outcome = check.run(
            "script",
            values={"arguments": [*arguments, *more], "report": REPORT, "gpus": 0},
            data={"fashion": tree},
            expect=False,
        )
        seen = outcome.ranks[0]
        found = expected.calls(seen, "script") if seen.complete and seen.error is None else None
        if (
            integer(seen.values.get("status")) != 2
        ):  # what argparse ends with where it does not know an option
            break
    if found is None or not found.calls:
        check.note("Which pictures the script trains on could not be looked at: see no_cuda_needed.")
        return None
    parts = {part: _pictures(tree, part) for part in ("train", "t10k")}
    learned, judged = (
        {part: expected.recognised(found.only(trained=flag).rows, known) for part, known in parts.items()}
        for flag in (True, False)
    )
    from_test = len(set(learned["t10k"].tolist()) - {-1})
    check.expect(
        from_test == 0,
        f"`{shown_call}` trained on {from_test} of the {len(parts['t10k'])} test pictures.",
        "The training set is FashionMNIST(..., train=True) and the test set train=False, each in a variable of its own.",
    )
    if np.all(judged["t10k"] < 0) and np.any(judged["train"] >= 0):
        check.fail(
            f"`{shown_call}` evaluated on training pictures, and on no test picture.",
            "Give evaluate the loader of the test set: how well the training pictures are known says little.",
        )
    if np.all(judged["t10k"] < 0):
        check.note("The script evaluates on no test picture.")
    if len(learned["train"]):
        _trains_on_the_set(check, shown_call, seen, learned["train"], len(parts["train"]))
    return seen if more else None


def _trains_on_the_set(check: Check, shown_call: str, seen: RankOutcome, learned: Array, n: int) -> None:
    """What is trained on comes from --data, is most of it, and some of it comes again in the second epoch.

    `learned` are the numbers of the pictures. Augmented and mixed ones cannot be told, nor those of a normalisation of
    one's own: where there are such, it is only asked whether any file of --data was opened.
    """
    check.expect(
        np.any(learned >= 0) or seen.values.get("opened") is not False,
        f"`{shown_call}` trained on {len(learned)} pictures, but opened no file of /data/fashion.",
        "Was a stand-in left in, such as FakeData? Train on datasets.FashionMNIST(args.data, train=True, ...).",
        points=check.points / 2,
    )
    if np.any(learned < 0):
        return
    different = len(np.unique(learned))
    check.expect(
        different >= LEAST_SHARE * n,
        f"`{shown_call}` trained on {different} of the {n} training pictures.",
        "Was a Subset left in, to be quick? All of the set belongs in the loader but what is kept apart for validation.",
        points=check.points / 2,
    )
    check.expect(
        len(learned) > different,
        f"`{shown_call}` trained on {len(learned)} pictures, each of them once. Expected twice, once in each of the two epochs.",
        "Hand --epochs on: train(model, loader, device, args.epochs, args.lr).",
        points=check.points / 2,
    )


def _pictures(tree: Mapping[str, bytes], part: str) -> Array:
    """The pictures of an IDX file: 16 bytes of head, then 784 bytes each."""
    content = tree[f"{fashion_mnist.FOLDER}/{part}-images-idx3-ubyte"]
    return np.frombuffer(content, dtype=np.uint8, offset=16).reshape(-1, expected.PIXELS)


def _labels(tree: Mapping[str, bytes], part: str) -> Array:
    """The labels of an IDX file: 8 bytes of head, then one byte each."""
    content = tree[f"{fashion_mnist.FOLDER}/{part}-labels-idx1-ubyte"]
    return np.frombuffer(content, dtype=np.uint8, offset=8).astype(np.int64)


# Devices


def test_device_agnostic(check: Check) -> None:
    """The same code works on a GPU (emulated where there is none) and on the CPU, entirely on the device it is given."""
    patterns = Patterns(check.rng)
    train = patterns.draw(2 * BATCH_SIZE + 3)
    test = patterns.draw(BATCH_SIZE + 3)
    shape = expected.make_shape(check.rng)
    weights = expected.make_weights(check.rng, shape)
    arrays = {**train.arrays("train"), **test.arrays("test"), **expected.as_inputs(weights)}
    tree = fashion_mnist.make_idx(check.rng, 20, 12)
    _asks_for_gpu(check)
    _works_on_gpu(check, shape, weights, arrays)
    _works_on_cpu(check, options(shape), arrays)
    _script_uses_gpu(check, tree)
    _obeys(check, options(shape, gpus=1), arrays)


def _asks_for_gpu(check: Check) -> None:
    seen = check.run("ask_device", values={"gpus": 1}).ranks[0]
    device, kind = seen.values.get("device"), seen.values.get("kind")
    check.expect(
        isinstance(device, str) and device in ("cuda", "cuda:0"),
        f"get_device() on a machine with a GPU returned {_device(device, kind)}, expected torch.device('cuda').",
        DEVICE_LINE,
    )
    if kind != "a torch.device":
        check.note(
            f"get_device() returned {_worded(kind)}; the exercise asks for a torch.device, which has a .type."
        )


def _device(device: Json, kind: Json) -> str:
    return device[:40] if isinstance(device, str) else _worded(kind)


def _works_on_gpu(
    check: Check, shape: Shape, weights: Mapping[str, Array], arrays: Mapping[str, Array]
) -> None:
    """train and evaluate with a model that is on the GPU already: it is the script that may have to move it."""
    try:
        seen = check.run("train_and_evaluate", values=options(shape, **ON_GPU), arrays=arrays).ranks[0]
    except CheckEnded as ended:
        raise _with_device_hint(ended, "On a machine with a GPU") from None
    for part, function in (("train", "train"), ("test", "evaluate")):
        found = calls_of(check, seen, part, f"{function}(model, loader, cuda:0) on a machine with a GPU")
        elsewhere = sorted({call.device for call in found.calls} - {"cuda:0"})
        check.expect(
            not elsewhere,
            f"{function} was given a model on cuda:0 and device cuda:0, but called the model with pictures on "
            f"{', '.join(elsewhere)[:60]}.",
            "Work on the device that is handed in: images.to(device), and no .cpu() around the model.",
        )
    trained = expected.state(seen, "trained", weights)
    if trained is None:
        check.fail(
            "train on a machine with a GPU: the model's weights are no longer finite numbers.",
            "Train the model that is handed in, and make the optimizer for its parameters on the device.",
        )
    evaluated = expected.calls(seen, "test")
    wrong = evaluated is None or difference(
        evaluated.logits,
        expected.logits_of(shape, trained, evaluated.rows).astype(np.float32),
        what="an answer of the model",
        **CLOSE_LOGITS,
    )
    check.expect(
        wrong is None,
        f"evaluate on a machine with a GPU: {wrong}: what was evaluated is not the model that was trained.",
        "Evaluate the model that is handed in.",
    )


def _works_on_cpu(check: Check, values: Mapping[str, Json], arrays: Mapping[str, Array]) -> None:
    """The same on a machine without a GPU: `.cuda()` written out works on the other one only."""
    try:
        check.run("train_and_evaluate", values=values, arrays=arrays)
    except CheckEnded as ended:
        # Imports are for no_cuda_needed to tell, and what has nothing to do with devices for trains_on_cpu.
        if not wants_gpu(ended) or ended.spoils:
            return
        raise Crashed(
            f"With a GPU train and evaluate work; with device cpu on a machine without one: {ended.feedback.message}",
            "Replace .cuda() and device='cuda' by .to(device) and device=device: then the caller decides.",
            points=check.points / 3,
        ) from None


def _script_uses_gpu(check: Check, tree: Mapping[str, bytes]) -> None:
    arguments = ["--data", "/data/fashion", "--epochs", "1", "--batch-size", "16", "--device", "auto"]
    values: dict[str, Json] = {"arguments": arguments, "report": REPORT, "gpus": 1}
    shown_call = " ".join(["fashion_trainer.py", *arguments])
    try:
        seen = check.run("script", values=values, data={"fashion": tree}).ranks[0]
    except CheckEnded as ended:
        if not NEEDS_GPU.search(ended.feedback.message):
            check.note("The script's own run on a GPU could not be looked at: see no_cuda_needed.")
            return
        told = _with_device_hint(
            ended, "Called one by one, train and evaluate work on a GPU, but the script does not"
        )
        told.points = check.points / 3
        raise told from None
    found = expected.calls(seen, "script")
    if found is None or not found.calls:
        return
    # A call of the new network on zeros, to learn a size, may well happen before it is moved.
    pictures = np.concatenate([_pictures(tree, part) for part in ("train", "t10k")])
    known = expected.recognised(found.rows, pictures) >= 0
    shows = np.split(known, np.cumsum([call.size for call in found.calls])[:-1])
    working = [
        call for call, any_known in zip(found.calls, shows, strict=True) if call.trained or any_known.any()
    ]
    on_cpu = sum(call.device == "cpu" for call in working)
    check.expect(
        on_cpu == 0,
        f"`{shown_call}` on a machine with a GPU called the model {on_cpu} of {len(working)} times on the CPU.",
        "With --device auto the script has to hand what get_device() returns to train and evaluate.",
        points=check.points / 3,
    )


def _obeys(check: Check, values: Mapping[str, Json], arrays: Mapping[str, Array]) -> None:
    """Device cpu on a machine that has a GPU; no points are for it, since a guarded `.cuda()` was right once."""
    outcome = check.run("train_and_evaluate", values=values, arrays=arrays, expect=False)
    found = [expected.calls(outcome.ranks[0], part) for part in ("train", "test")]
    if all(one is not None and all(call.device == "cpu" for call in one.calls) for one in found):
        return
    check.note(
        "With device cpu on a machine that has a GPU, train and evaluate do not stay on the CPU. Is there a .cuda()? "
        ".to(device) goes where it is told, to the second GPU as well."
    )


def _with_device_hint(ended: CheckEnded, where: str) -> CheckEnded:
    """The same verdict, with what to do about a tensor on the wrong device."""
    message = f"{where}: {ended.feedback.message}"
    if not isinstance(ended, Crashed) or not NEEDS_GPU.search(ended.feedback.message):
        told = type(ended)(message, ended.feedback.hint)
    elif "numpy" in ended.feedback.message:
        told = Crashed(
            message, "NumPy works on the CPU only: .cpu() before .numpy(), or .item() for one number."
        )
    else:
        told = Crashed(message, DEVICE_HINT)
    told.spoils = ended.spoils
    return told


def test_no_cuda_needed(check: Check) -> None:
    """On a machine without a GPU the file imports, get_device() says so, and the script runs and writes its report."""
    tree = _mislabelled(fashion_mnist.make_idx(check.rng, 24, 12), check.rng)
    arguments = ["--data", "/data/fashion", "--epochs", "1", "--batch-size", "16", "--device", "auto"]
    arguments += ["--report", REPORT]
    try:
        seen = check.run("ask_device", values={"gpus": 0}).ranks[0]
        device, kind = seen.values.get("device"), seen.values.get("kind")
        check.expect(
            isinstance(device, str) and device == "cpu",
            f"get_device() on a machine without a GPU returned {_device(device, kind)}, expected torch.device('cpu').",
            DEVICE_LINE,
        )
        seen = check.run(
            "script",
            values={"arguments": arguments, "report": REPORT, "gpus": 0, "help": True},
            data={"fashion": tree},
        ).ranks[0]
    except CheckEnded as ended:
        if isinstance(ended, Crashed) and "JSON serializable" in ended.feedback.message:
            raise Crashed(ended.feedback.message, JSON_HINT, points=check.points / 2) from None
        if not wants_gpu(ended):
            raise
        raise Crashed(f"On a machine without a GPU: {ended.feedback.message}", GUARD_HINT) from None
    shown_call = " ".join(["fashion_trainer.py", *arguments])
    status, found = seen.values.get("status"), expected.calls(seen, "script")
    check.expect(
        integer(status) == 0,
        f"`{shown_call}` ended with status {shown(status)}. Its last lines: {_tail(seen.output)}",
        "Run the same line in a terminal. Expected are the options --data --epochs --batch-size --lr --device --report.",
    )
    check.expect(
        found is not None and any(call.trained for call in found.calls),
        f"`{shown_call}` ended without an error, but trained on no picture.",
        "With data in DIR/FashionMNIST/raw, as torchvision keeps it, the script has to train a FashionCNN.",
    )
    report = _report(seen.values.get("report"))
    check.expect(
        report is not None,
        f"`{shown_call}` trained, but left no JSON in {REPORT}.",
        "Write losses and accuracy to the file that --report names, with json.dump.",
        points=check.points / 2,
    )
    check.expect(
        len(_numbers_in(report)) > 0,
        f"`{shown_call}` trained, but there is no number in {REPORT}.",
        "Write losses and accuracy to the file that --report names, with json.dump.",
        points=check.points / 2,
    )
    check.expect(
        integer(seen.values.get("help")) == 0,
        f"`fashion_trainer.py --help` ended with status {shown(seen.values.get('help'))}.",
        "argparse answers --help by itself.",
        points=check.points / 2,
    )
    if found is not None and isinstance(report, dict):
        _accuracy_was_measured(check, shown_call, seen, found, report, tree)


def _mislabelled(tree: Mapping[str, bytes], rng: np.random.Generator) -> dict[str, bytes]:
    """The same data, most of its test pictures with a wrong label: nobody's accuracy on them is what is usual."""
    name = f"{fashion_mnist.FOLDER}/t10k-labels-idx1-ubyte"
    labels = _labels(tree, "t10k")
    wrong = rng.permutation(len(labels)) < MISLABELLED * len(labels)
    labels = np.where(wrong, (labels + rng.integers(1, 10, len(labels))) % 10, labels)
    content = tree[name][:8] + labels.astype(np.uint8).tobytes()
    return {**tree, name: content, f"{name}.gz": gzip.compress(content, mtime=0)}


def _accuracy_was_measured(
    check: Check,
    shown_call: str,
    seen: RankOutcome,
    found: Calls,
    report: dict[str, Json],
    tree: Mapping[str, bytes],
) -> None:
    """The accuracy in a report is about what the network answered to the test pictures.

    Nothing is said where it was called on anything else besides, such as a validation set or turned pictures, or more
    than once on a picture, or in a way that is not seen.
    """
    accuracy = report.get("accuracy")
    if not isinstance(accuracy, int | float) or not _numbers_in(accuracy):
        return
    told = float(accuracy)
    judged, hint = found.only(trained=False), "Write down what evaluate(model, test_loader, device) returned."
    # A model's `forward` that is called by name is seen by the calls of the layers in it.
    if not judged.calls and integer(seen.values.get("other_calls")) == 0:
        check.fail(
            f"`{shown_call}` wrote an accuracy of {told:.4g} to {REPORT}, but called the model in training alone, "
            "and on no test picture.",
            hint,
            points=check.points / 2,
        )
    pictures, labels = _pictures(tree, "t10k"), _labels(tree, "t10k")
    which = expected.recognised(judged.rows, pictures)
    if sorted(which.tolist()) != list(range(len(pictures))):
        return
    least, most = (right / len(labels) for right in expected.right_answers(judged.logits, labels[which]))
    # In percent, or the number of right answers: what evaluate has to return is for trains_on_cpu to tell.
    ways = (told, told / 100, told / len(labels)) if told > 1 else (told,)
    near = any(least - ACCURACY_NEAR <= value <= most + ACCURACY_NEAR for value in ways)
    # It may stand elsewhere, and `accuracy` be that of the training.
    rest: Json = [value for name, value in report.items() if name not in NOT_MEASURED_BY_COUNTING]
    near |= any(_between(value / unit, least, most) for value in _numbers_in(rest) for unit in (1, 100))
    right = [round(share * len(labels)) for share in (least, most)]
    check.expect(
        near,
        f"`{shown_call}` wrote an accuracy of {told:.4g} to {REPORT}; {_by_hand(right[0], right[1], len(labels))}",
        hint,
        points=check.points / 2,
    )


def _report(text: Json) -> dict[str, Json] | list[Json] | None:
    """What a report says; None where it is no JSON, or neither an object nor a list."""
    if not isinstance(text, str):
        return None
    try:
        report = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return report if isinstance(report, dict | list) else None


def _numbers_in(report: Json) -> list[float]:
    """The finite numbers in a report, those in its texts as well."""
    found: list[float] = []
    left = [report]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            left += one.values()
        elif isinstance(one, list):
            left += one
        elif isinstance(one, str):
            found += map(float, re.findall(r"[0-9]{1,20}(?:\.[0-9]{1,20})?", one))
        elif isinstance(one, int | float) and not isinstance(one, bool) and abs(one) < 1e300:
            found.append(float(one))
    return found


def _tail(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return " | ".join(line[:160] for line in lines[-3:]) or "(nothing was printed)"


# Modes


def test_eval_mode(check: Check) -> None:
    """`evaluate` switches dropout and batch norm to evaluation, and gradients off."""
    patterns = Patterns(check.rng)
    # No batch of one picture: batch norm refuses it in training.
    train = patterns.draw(2 * BATCH_SIZE + 3)
    test = patterns.draw(2 * BATCH_SIZE + 3)
    shape = expected.make_shape(check.rng, batch_norm=True, dropout=0.5)
    weights = expected.make_weights(check.rng, shape)
    seen = look(
        check,
        "modes",
        options(shape),
        {**train.arrays("train"), **test.arrays("test"), **expected.as_inputs(weights)},
    )
    evaluated = calls_of(check, seen, "test", "evaluate")
    in_training = sum(call.training for call in evaluated.calls)
    with_grad = sum(call.grad for call in evaluated.calls)
    call = f"evaluate on a model that was in training mode, {len(evaluated.calls)} batches"
    no_grad = "Put the loop under `with torch.no_grad():` (or @torch.no_grad() on the function): it saves memory and time."
    check.expect(
        in_training == 0,
        f"{call}: dropout and batch norm were in training mode in {in_training} of them"
        + (", and gradients were recorded." if with_grad else "."),
        f"Call model.eval() first. {no_grad}" if with_grad else "Call model.eval() first.",
        points=0.0 if with_grad else check.points / 2,
    )
    wrong = difference(
        evaluated.logits,
        expected.logits_of(shape, weights, evaluated.rows).astype(np.float32),
        what="an answer of the model",
        **CLOSE_LOGITS,
    )
    held = expected.state(seen, "evaluated", weights)
    moved = held is None or any(not np.array_equal(held[name], weights[name]) for name in weights)
    check.expect(
        wrong is None and not moved,
        f"{call}: {wrong or 'afterwards the weights or the statistics of batch norm are not what they were'}.",
        "evaluate may look at the model, not change it: model.eval(), and no step in there.",
    )
    check.expect(
        with_grad == 0,
        f"{call}: gradients were recorded in {with_grad} of them.",
        no_grad,
        points=check.points / 2,
    )
    check.expect(
        seen.values.get("grad_after") is True,
        f"{call}: afterwards gradients stay switched off, and the next training fails.",
        "Use torch.no_grad() as a block: it switches them on again at its end, torch.set_grad_enabled(False) does not.",
        points=check.points / 2,
    )
    _trains_in_training_mode(check, seen)


def _trains_in_training_mode(check: Check, seen: RankOutcome) -> None:
    calls = expected.noted(seen, "train")
    if not calls:
        check.fail(
            "train, two epochs: the model that was handed in was not called.", "Train the model as it is."
        )
    asleep = [call for call in calls if call.trained and not call.training]
    check.expect(
        not asleep,
        f"train, two epochs: dropout and batch norm were switched off in {len(asleep)} batches that were trained on.",
        "After evaluating within train, switch back with model.train() at the start of every epoch.",
        points=check.points / 2,
    )
    if any(call.trained and not call.training for call in expected.noted(seen, "again") or ()):
        check.note(
            "A model that was evaluated stays in evaluation mode in train: begin each epoch with model.train()."
        )


# The loss


def test_returns_mean_loss(check: Check) -> None:
    """`train` returns a list: for every epoch the mean loss over its pictures."""
    epochs = 3
    patterns = Patterns(check.rng)
    tail = int(check.rng.integers(1, 3))
    train = patterns.draw(6 * BATCH_SIZE + tail)
    shape = expected.make_shape(check.rng)
    weights = expected.make_weights(check.rng, shape)
    # The short last batch has the wrong labels that the untrained network takes for least likely: its loss is far
    # from the others', before the training and after.
    train = expected.mislabelled_last(train, tail, expected.logits_of(shape, weights, train.images[-tail:]))
    test = patterns.draw(BATCH_SIZE)
    seen = look(
        check,
        "train_and_evaluate",
        options(shape, epochs=epochs),
        {**train.arrays("train"), **test.arrays("test"), **expected.as_inputs(weights)},
    )
    found = calls_of(check, seen, "train", "train")
    call = f"train(..., epochs={epochs}) on {len(train.labels)} pictures in batches of {BATCH_SIZE}"
    values = _returned(check, seen, call, epochs)
    ways = losses.passes(found, train, epochs)
    check.expect(
        len(ways) > 0,
        f"{call}: the model was not called with every picture once per epoch "
        f"({sum(one.size for one in found.calls)} pictures in all).",
        "Every epoch is one pass over the whole loader, with one call of the model for each batch.",
    )
    if any(losses.agree(values, own) for own in ways):
        return
    if any(losses.same(values, losses.means(own.softmax)) for own in ways):
        check.note(
            "The loss is computed on softmax(logits). CrossEntropyLoss takes logits and does the softmax itself: with "
            "one too many the loss cannot get near 0, and the training is slower."
        )
        return
    if any(own.backward is not None and losses.same(values, own.backward) for own in ways):
        return
    hints = [(losses.hint(values, own), own) for own in ways]
    hint, own = next((pair for pair in hints if pair[0] != losses.HINT), hints[0])
    source, means = "the cross-entropy of what the model answered", losses.means(own.logits)
    if own.backward is not None:
        source, means = "the losses that backward() was called on", own.backward
    told = ", ".join(f"{value:.4g}" for value in values[:6]) + (", ..." if len(values) > 6 else "")
    check.fail(
        f"{call} returned {len(values)} numbers ({told}). Worked out from {source}, the epochs' means were "
        f"{', '.join(f'{mean:.4g}' for mean in means)}.",
        hint,
    )


def _returned(check: Check, seen: RankOutcome, call: str, epochs: int) -> list[float]:
    """The numbers that train returned; ends the check where it is something else."""
    returned, kind = seen.values.get("losses"), seen.values.get("losses_kind")
    values = [number(one) for one in returned] if isinstance(returned, list) else []
    numbers = [value for value in values if value is not None]
    if not isinstance(returned, list) or len(numbers) < len(values):
        held = (
            next((one for one in returned if number(one) is None), None)
            if isinstance(returned, list)
            else None
        )
        check.fail(
            f"{call} returned {_worded(kind)}{f' that holds {shown(held)}' if isinstance(returned, list) else ''}. "
            f"Expected a list of {epochs} numbers, the mean loss of each epoch.",
            "Append one float per epoch to a list, and return the list.",
        )
    if kind != "a list":
        check.note(f"train returned {_worded(kind)}; the exercise asks for a list of floats.")
    return numbers
