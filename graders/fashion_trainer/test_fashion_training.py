"""The judge of exercise 2, training: `train` learns, `evaluate` counts, and the script does both on the right pictures.

What the student's functions return is held against what the judge works out itself from the weights that came back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from fixtures import fashion_mnist
from graders.fashion_trainer import accuracy, expected, idx, loops, network, scripts, steps, tested, twins
from graders.fashion_trainer.accuracy import between, by_hand
from graders.fashion_trainer.devices import GUARD_HINT, wants_gpu
from graders.fashion_trainer.expected import Calls, Data, Patterns, Shape
from graders.fashion_trainer.runs import BATCH_SIZE, LR, RANGE_HINT, SCRIPT_EPOCHS, calls_of, options
from graders.fashion_trainer.wording import within, worded
from lockstep.check import Check
from lockstep.compare import integer, number
from lockstep.crossentropy import row_losses
from lockstep.sandbox.outcome import RankOutcome
from lockstep.verdict import CheckEnded, Crashed
from lockstep.wire import Array

# With a thousandth of LR, in a quarter of the epochs, weights move by less than a thousandth; where it is not used, by a
# quarter or more. Between the two are schedules with a floor and optimizers that change their steps themselves.
SMALL_LR, LEAST_RATIO = LR / 1000, 10
# At this rate of the script a step moves weights by 1e-7 or so; Adam's default of 1e-3 moves them by 1e-3.
TINY_LR, MOST_MOVED = "1e-7", 5e-4
# A `break` that was left in after debugging comes after ten batches, fifty, a hundred, two hundred.
MANY_BATCHES, SMALL_BATCH = 205, 2
# Of these so many graphs are held by whoever adds up losses as tensors; the last one or two by everybody.
MANY_GRAPHS = 100
# Of the training set some keep half for validation, and a short last batch is left out of the rest.
LEAST_SHARE = 0.4
# More than that is what is left when some are drawn with replacement.
MANY = 0.6
# Of the script. Two epochs: whoever stops early, once nothing gets better, has nothing to compare the first with.
SCRIPT_BATCH, MOST_LARGER = 8, 3
# Of the first loss Adam leaves 1 %, plain SGD 20 %, the slowest optimizers 65 %: see the tests.
LEAST_FALL = 0.8


def test_trains_on_cpu(check: Check) -> None:
    """`train` learns at the rate it is given, `evaluate` counts, and the script trains and tests on the pictures it should."""
    patterns = Patterns(check.rng)
    train = patterns.draw(12 * BATCH_SIZE + int(check.rng.integers(2, BATCH_SIZE)))
    tail = int(check.rng.integers(2, 4))
    test = patterns.draw(5 * BATCH_SIZE + tail, mislabelled=0.3, tail=tail)
    shape = expected.make_shape(check.rng)
    weights = expected.make_weights(check.rng, shape)
    tree = twins.with_twins(fashion_mnist.make_idx(check.rng, 40, 20), check.rng)
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
        raise Crashed(f"On a machine without a GPU: {within(ended.feedback.message)}", GUARD_HINT) from None
    calls_of(check, seen, "train", "train")
    trained = _learned(check, seen, shape, weights, train)
    steps.clear_gradients(check, seen)
    steps.go_on(check, seen, n_batches=math.ceil(len(train.labels) / BATCH_SIZE))
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
        float(row_losses(expected.logits_of(shape, held, train.images), train.labels).mean())
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


def _accuracy(
    check: Check, seen: RankOutcome, shape: Shape, trained: Mapping[str, Array], train: Data, test: Data
) -> None:
    """What evaluate returned, against the judge's own count."""
    value = number(seen.values.get("accuracy"))
    n = len(test.labels)
    logits = expected.logits_of(shape, trained, test.images)
    least, most = expected.right_answers(logits, test.labels)
    if between(value, least / n, most / n):
        if seen.values.get("accuracy_kind") not in ("a float", "an int"):
            check.note(
                f"evaluate returned {worded(seen.values.get('accuracy_kind'))}; the exercise asks for a float: .item()."
            )
        return
    call = f"evaluate on {n} pictures that train has not seen returned {_told(seen, 'accuracy')}"
    if value is not None and between(value / 100, least / n, most / n):
        check.fail(
            f"{call}, in percent. Expected the same between 0 and 1.",
            "Do not multiply by 100; format with {accuracy:.1%} where it is printed.",
            points=check.points / 2,
        )
    check.fail(
        f"{call}; {by_hand(least, most, n)}",
        accuracy.hint(value, logits, shape, trained, train, test),
    )


def _told(seen: RankOutcome, name: str) -> str:
    value = number(seen.values.get(name))
    return f"{value:.4g}" if value is not None else worded(seen.values.get(f"{name}_kind"))


def _goes_to_the_end(check: Check, patterns: Patterns, shape: Shape, weights: Mapping[str, Array]) -> None:
    """Many small batches: train and evaluate leave none out."""
    n = MANY_BATCHES * SMALL_BATCH
    train = patterns.draw(n)
    # All that is wrong comes last: whoever ends early sees less of it. The last batch is a single picture.
    n_test = n - SMALL_BATCH + 1
    test = patterns.draw(n_test, tail=4 * SMALL_BATCH)
    points = check.points / 2
    try:
        outcome = check.run(
            "train_and_evaluate",
            values=options(shape, epochs=1, batch_size=SMALL_BATCH),
            arrays={**train.arrays("train"), **test.arrays("test"), **expected.as_inputs(weights)},
        )
    except Crashed as crashed:
        raise Crashed(
            f"With {MANY_BATCHES} small batches, of which the last that evaluate gets is a single picture: "
            f"{within(crashed.feedback.message)}",
            "A batch may have any size. squeeze() takes away the dimension of a batch of one as well: leave it out, or name "
            "the dimension that is too many.",
            points=points,
        ) from None
    seen = outcome.ranks[0]
    calls = calls_of(check, seen, "train", "train, one epoch", hint=RANGE_HINT, points=points).calls
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
    asleep = [i for i, call in enumerate(calls) if call.trained and not call.training]
    check.expect(
        not asleep,
        f"train on {n} pictures in {MANY_BATCHES} batches: {len(asleep)} batches were trained on in evaluation mode, "
        f"beginning with call {asleep[0] + 1 if asleep else 0} of the model. Dropout is off then, and batch norm learns nothing more.",
        "Call model.train() where an epoch begins."
        if asleep[:1] == [0]
        else "evaluate() calls model.eval(): after a look at the accuracy within an epoch, call model.train() again.",
        points=points,
    )
    graphs = integer(seen.values.get("graphs")) or 0
    if graphs >= MANY_GRAPHS:
        check.note(
            f"train holds on to every batch: of {graphs} that backward() was through with, the graph was still in memory. "
            "Add up loss.item(), a number, instead of loss: a GPU's memory fills up otherwise."
        )
    trained = _finite(check, seen, weights, f"train on {n} pictures")
    least, most = expected.right_answers(expected.logits_of(shape, trained, test.images), test.labels)
    value = number(seen.values.get("accuracy"))
    check.expect(
        between(value, least / n_test, most / n_test),
        f"evaluate on {n_test} pictures in {MANY_BATCHES} batches returned {_told(seen, 'accuracy')}; "
        f"{by_hand(least, most, n_test)}",
        "Count over all batches of the loader. Was a `break` left in?",
        points=points,
    )


def _parts_kept_apart(check: Check, tree: Mapping[str, bytes]) -> RankOutcome | None:
    """Look at what the script trains on and evaluates on; that it runs at all is another check's business.

    Returns what was seen of it at a tiny learning rate; None where it knows no --lr, or could not be looked at.
    """
    batches = ("--batch-size", str(SCRIPT_BATCH))
    with_rate = scripts.on_cpu(check, tree, "--epochs", str(SCRIPT_EPOCHS), *batches, "--lr", TINY_LR)
    script = with_rate
    # With 2 argparse ends where it does not know an option.
    if with_rate.failed and (with_rate.seen is None or integer(with_rate.seen.values.get("status")) == 2):
        script = scripts.on_cpu(check, tree, "--epochs", str(SCRIPT_EPOCHS), *batches)
    seen, shown_call = script.seen, script.call
    found = expected.calls(seen, "script") if seen is not None else None
    if seen is None or found is None or not found.calls:
        if (
            script.failed
            and scripts.start(check, tree, "--epochs", "1", *batches, *scripts.FULLY_TOLD).fault is None
        ):
            script.blame(check, "With --epochs 1 the script runs", "Run the same line in a terminal.")
        check.note("Which pictures the script trains on could not be looked at: see no_cuda_needed.")
        return None
    parts = {part: idx.pictures(tree, part) for part in ("train", "t10k")}
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
    elif integer(seen.values.get("other_calls")) == 0:
        # A model's `forward` that is called by name would be seen by the calls of the layers in it alone.
        tested.after_training(check, shown_call, found, parts)
        _nothing_left_out(check, judged["t10k"], len(parts["t10k"]))
    loops.learns(check, shown_call, seen, found)
    loops.tests_what_learned(check, shown_call, seen, found, parts)
    if len(learned["train"]):
        _others_looked_at(check, seen, learned["train"], judged, len(parts["train"]))
        _trains_on_the_set(check, shown_call, seen, learned["train"], len(parts["train"]))
        _batches_as_asked(check, shown_call, found.only(trained=True), learned["train"])
        loops.clears_gradients(check, shown_call, found)
    twins.are_shown_alike(check, shown_call, seen, found, parts, SCRIPT_EPOCHS)
    network.convolves(check, shown_call, found)
    if script is with_rate:
        return seen
    if with_rate.seen is None or "argument --lr" in with_rate.seen.output:
        with_rate.blame(
            check, "Without --lr the script runs", 'Is it a number? add_argument("--lr", type=float, ...).'
        )
    return None


def _others_looked_at(
    check: Check, seen: RankOutcome, learned: Array, judged: Mapping[str, Array], n: int
) -> None:
    """Say how many training pictures the script leaves out, where it does not even validate on them."""
    different = len(np.unique(learned))
    recognised = np.all(learned >= 0) and np.all(np.maximum(judged["train"], judged["t10k"]) >= 0)
    if not recognised or different > MANY * n or integer(seen.values.get("other_calls")) != 0:
        return
    if not set(judged["train"].tolist()) - {-1} - set(learned.tolist()):
        check.note(
            f"The script trains on {different} of the {n} training pictures, and makes no use of the others."
        )


def _nothing_left_out(check: Check, judged: Array, n: int) -> None:
    """Say how many test pictures the script left out; where there are others that are not recognised they may be these."""
    different = len(np.unique(judged[judged >= 0]))
    if different < n and np.all(judged >= 0):
        check.note(f"The script evaluates on {different} of the {n} test pictures.")


def _batches_as_asked(check: Check, shown_call: str, trained: Calls, learned: Array) -> None:
    """Batches are about as large as --batch-size says; some split them, and some see each picture twice."""
    large = [call.size for call in trained.calls if call.size > MOST_LARGER * SCRIPT_BATCH]
    # Besides larger batches there may be a short last one in each epoch.
    ignored = len(large) > 0 and len(trained.calls) - len(large) <= SCRIPT_EPOCHS
    check.expect(
        np.any(learned < 0) or not ignored,
        f"`{shown_call}` trained on batches of {max(large, default=0)} pictures.",
        "Hand --batch-size on: DataLoader(train_data, args.batch_size, shuffle=True).",
        points=0.75 * check.points,
    )


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
