"""The judge of exercise 2, a machine without a GPU: get_device(), and the script with the report that it writes."""

from __future__ import annotations

import gzip
from collections.abc import Mapping

import numpy as np

from fixtures import fashion_mnist
from graders.fashion_trainer import answered, expected, idx, scripts
from graders.fashion_trainer.accuracy import between, by_hand
from graders.fashion_trainer.devices import DEVICE_LINE, GUARD_HINT, wants_gpu
from graders.fashion_trainer.expected import Calls
from graders.fashion_trainer.report import numbers_in, read
from graders.fashion_trainer.runs import RANGE_HINT, REPORT
from graders.fashion_trainer.wording import told_device, within
from lockstep.check import Check
from lockstep.compare import integer, is_cpu, number, shown
from lockstep.sandbox.outcome import RankOutcome
from lockstep.text import last_lines
from lockstep.verdict import CheckEnded, Crashed
from lockstep.wire import Json

# Enough batches to know the training pictures better than the test pictures, which are a single one.
TRAIN, TEST, BATCH = 96, 12, 16
# As large as the batches of a default.
MANY = 1024
# So much of a script's test pictures is labelled wrongly.
MISLABELLED = 0.75
# What a report says may be the mean of batches, or of classes; one that nobody measured is seldom so close.
ACCURACY_NEAR = 0.1
# What the given script reports besides: by chance one of them is some share of right answers.
NOT_MEASURED_BY_COUNTING = ("epochs", "batch_size", "lr", "losses", "seconds")

JSON_HINT = (
    "JSON knows Python's numbers, no tensors and no NumPy: train should return floats and evaluate a float, with "
    ".item() on what torch computes."
)


def test_no_cuda_needed(check: Check) -> None:
    """On a machine without a GPU the file imports, get_device() says so, and the script runs and writes its report."""
    tree = _mislabelled(fashion_mnist.make_idx(check.rng, TRAIN, TEST), check.rng)
    arguments = ["--data", "/data/fashion", "--epochs", "1", "--batch-size", str(BATCH), *scripts.FULLY_TOLD]
    try:
        seen = check.run("ask_device", values={"gpus": 0}).ranks[0]
        device, kind = seen.values.get("device"), seen.values.get("kind")
        check.expect(
            is_cpu(device),
            f"get_device() on a machine without a GPU returned {told_device(device, kind)}, expected torch.device('cpu').",
            DEVICE_LINE,
        )
        outcome = check.run(
            "script",
            values={"arguments": [*arguments], "report": REPORT, "gpus": 0, "help": True},
            data={"fashion": tree},
        )
    except CheckEnded as ended:
        if isinstance(ended, Crashed) and "JSON serializable" in ended.feedback.message:
            raise Crashed(ended.feedback.message, JSON_HINT, points=check.points / 2) from None
        if not wants_gpu(ended):
            raise
        raise Crashed(f"On a machine without a GPU: {within(ended.feedback.message)}", GUARD_HINT) from None
    seen, shown_call = outcome.ranks[0], " ".join(["fashion_trainer.py", *arguments])
    status, found = seen.values.get("status"), expected.calls(seen, "script")
    check.expect(
        integer(status) == 0,
        f"`{shown_call}` ended with status {shown(status)}. Its last lines: {last_lines(seen.output)}",
        "Run the same line in a terminal. Expected are the options --data --epochs --batch-size --lr --device --report.",
    )
    check.expect(
        found is not None and (any(call.trained for call in found.calls) or _others(seen) > 0),
        f"`{shown_call}` ended without an error, but trained on no picture.",
        f"With data in DIR/FashionMNIST/raw, as torchvision keeps it, the script has to train a FashionCNN. {RANGE_HINT}",
    )
    report = read(seen.values.get("report"))
    check.expect(
        report is not None,
        f"`{shown_call}` trained, but left no JSON in {REPORT}.",
        "Write losses and accuracy to the file that --report names, with json.dump.",
        points=check.points / 2,
    )
    check.expect(
        len(numbers_in(report)) > 0,
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
    seconds = number(report.get("seconds")) if isinstance(report, dict) else None
    # Some round up. Written so that NaN fails.
    check.expect(
        seconds is None or seconds <= outcome.elapsed + 1,
        f"`{shown_call}` wrote {seconds} seconds to {REPORT}; by an outside clock all of it took {outcome.elapsed:.3g} s.",
        "Take the time of this very run, in seconds: start = time.perf_counter() before, time.perf_counter() - start after.",
        points=check.points / 2,
    )
    _needs_no_options(check, tree)


def _needs_no_options(check: Check, tree: Mapping[str, bytes]) -> None:
    """The script runs without its options, but for --data, and with --device cpu."""
    plain = scripts.start(check, tree)
    on_cpu = scripts.start(check, tree, "--epochs", "1", "--batch-size", str(BATCH), "--device", "cpu")
    if plain.failed:
        on_cpu.blame(
            check,
            "With --report the script runs",
            "Is a report written even where none is asked for? Write it under `if args.report:`.",
        )
    on_cpu.blame(
        check,
        "With --device auto the script runs",
        "args.device is text: torch.device(args.device) is the device that get_device() returns otherwise.",
    )
    if plain.failed:
        # Of few pictures a loader with drop_last may make no batch of the size that is the script's own.
        plain = scripts.start(check, fashion_mnist.make_idx(check.rng, MANY, TEST))
    if plain.failed:
        plain.blame(
            check,
            "With all of its options the script runs",
            "Every option but --data needs a default that works, on a machine without a GPU as well.",
        )


def _mislabelled(tree: Mapping[str, bytes], rng: np.random.Generator) -> dict[str, bytes]:
    """The same data, most of its test pictures with a wrong label: nobody's accuracy on them is what is usual."""
    name = f"{fashion_mnist.FOLDER}/t10k-labels-idx1-ubyte"
    labels = idx.labels(tree, "t10k")
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

    Nothing is said where it was called on anything else besides, such as a validation set or turned pictures, but for
    those that it was trained on before; or gave several answers to one picture; or in a way that is not seen, or on a
    few of them, which may be for a look.
    """
    accuracy = report.get("accuracy")
    if not isinstance(accuracy, int | float) or not numbers_in(accuracy):
        return
    told = float(accuracy)
    judged, hint = found.only(trained=False), "Write down what evaluate(model, test_loader, device) returned."
    # A model's `forward` that is called by name is seen by the calls of the layers in it.
    if not judged.calls and _others(seen) == 0:
        check.fail(
            f"`{shown_call}` wrote an accuracy of {told:.4g} to {REPORT}, but called the model in training alone, "
            "and on no test picture.",
            hint,
            points=check.points / 2,
        )
    pictures, labels = idx.pictures(tree, "t10k"), idx.labels(tree, "t10k")
    last = answered.since_training(found, pictures)
    if last is None or not answered.only_known(found, pictures, idx.pictures(tree, "train")):
        return
    n = len(last.numbers)
    if 2 * n < len(pictures) or (n < len(pictures) and _others(seen) != 0):
        return
    fewest, greatest = last.right(labels)
    # Where test pictures were left out, the share may be that of all.
    least, most = fewest / len(labels), greatest / n
    # What is told may be that of a pass before the training, if it was the best, or of one over a part of the pictures.
    for one in answered.passes(found, pictures, BATCH):
        right = one.right(labels)
        least, most = min(least, right[0] / len(one.numbers)), max(most, right[1] / len(one.numbers))
    # In percent, or the number of right answers: what evaluate has to return is for trains_on_cpu to tell.
    ways = (told, told / 100, told / len(labels)) if told > 1 else (told,)
    near = any(least - ACCURACY_NEAR <= value <= most + ACCURACY_NEAR for value in ways)
    # It may stand elsewhere, and `accuracy` be that of the training.
    rest: Json = [value for name, value in report.items() if name not in NOT_MEASURED_BY_COUNTING]
    near |= any(between(value / unit, least, most) for value in numbers_in(rest) for unit in (1, 100))
    check.expect(
        near,
        f"`{shown_call}` wrote an accuracy of {told:.4g} to {REPORT}; {by_hand(fewest, greatest, n)}",
        hint,
        points=check.points / 2,
    )


def _others(seen: RankOutcome) -> int:
    """How many calls may be of a network that was not called as one: by a keyword, or its `forward` by name."""
    return integer(seen.values.get("other_calls")) or 0
