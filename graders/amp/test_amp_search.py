"""The judge of exercise 6, its search for the largest batch that fits into memory."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from itertools import chain, groupby

from fixtures import cinic10
from graders.amp import complaints, search_precision, search_report
from graders.amp.probe.searching import TOO_FEW
from graders.amp.script_runs import BATCH_ON_CPU, NOT_TRAINED, comes_to_its_end, run_script, script_options
from lockstep.check import Check
from lockstep.compare import elements, integer
from lockstep.devicefault import is_device_fault
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.text import last_lines, without_escapes
from lockstep.verdict import CheckEnded, Feedback, Verdict
from lockstep.wire import Json

# How torch words it where the loss is given labels that were not moved; the model's own tensors have other names.
LABELS_ON_CPU = "target is on cpu"
MODEL_ON_CPU = (
    "The model of a trial belongs on the device that find_batch_size is given: build_model(arch).to(device). train_step "
    "moves the batch, and what is on the CPU takes none of the GPU's memory."
)

# "The largest batch without running out of memory": words that name a failure, and the answer all the same. "Too large"
# and "no longer fits" do not.
LIMIT = re.compile(
    r"largest|biggest|best|max(?!\w*[ _]mem)|without|before|(?<!longer )\bfits\b|größte|groesste|ohne|plus grand|mayor|maior",
    re.IGNORECASE,
)


def test_find_batch(check: Check) -> None:
    """--find-batch-size survives running out of memory and finds the largest batch that fits."""
    fits = int(check.rng.integers(160, 240))
    # All fit, where doubling ends beside the largest size and where it ends at it; not even one does.
    beside = int(check.rng.integers(9, 16))
    ends = [(beside, 8 * beside), (8, 64), (beside, 0)]
    outcome, unreported, stumbles = _search_from_one(check, fits, ends)
    tried = _tried(outcome)
    if not any(not ok for _, ok in tried):
        again = _search(check, fits, ends, gpu=True, takes_one=stumbles)
        if any(not ok for _, ok in _tried(again)):
            outcome, tried = again, _tried(again)
            check.note("On a CPU nothing was searched; this is judged on an emulated GPU.")
    seen = outcome.ranks[0]
    call = f"amp_train.py --find-batch-size, where up to {fits} images fit into memory at once,"
    best = max((size for size, ok in tried if ok), default=0)
    comes_to_its_end(
        check,
        seen,
        call,
        f"Batches of up to {best} images were tried and fitted: does the search get to know what each trial came to, and "
        "return the largest?"
        if best
        else "Catch torch.OutOfMemoryError around the step, and go on with a smaller batch.",
    )
    check.expect(
        bool(tried),
        f"{call} called no model to be trained.",
        f"Each trial is a call of train_step. {NOT_TRAINED}",
    )
    check.expect(
        any(not ok for _, ok in tried),
        f"{call} tried no batch that does not fit; the largest was {max((size for size, _ in tried), default=0)}.",
        "Double the batch until a training step runs out of memory, then bisect.",
    )
    printed = answers_printed(seen.output)
    check.expect(
        best in printed or not printed & {size for size, ok in tried if not ok},
        f"{call} tried batches of up to {best} images that fit, but did not print that number as its answer. Its last "
        f"lines: {last_lines(seen.output)}",
        "Print the largest batch size that fitted, not the one after it.",
    )
    half = check.points / 2
    check.expect(
        not stumbles,
        "amp_train.py --find-batch-size tries a training step with one image of 32 x 32, which no ResNet of torchvision makes: "
        f"its last batch norm has one value for each channel then, and torch says {TOO_FEW!r}. On a real machine the search "
        "ends there.",
        "Begin with two images. Where not even two fit, the answer is 0.",
        points=half,
    )
    check.expect(
        best >= 0.85 * fits,
        f"{call} came to {best}.",
        "After doubling, bisect between the last size that fitted and the first that did not: the largest batch may be "
        "almost twice as large.",
        points=half if best > fits / 2 else 0.0,
    )
    check.expect(
        seen.values.get("are_smaller") is not True,
        "find_batch_size(arch, example, ...) tried its steps with images that are smaller than the example: a batch of those "
        "that are trained on takes more memory than it found.",
        "Repeat the example as it is: example.expand(batch_size, *example.shape), or torch.randn(batch_size, *example.shape).",
        points=half,
    )
    check.expect(
        was_a_step(outcome, best),
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
    smaller = smaller_answer(tried, printed)
    check.expect(
        smaller is None,
        f"{call} tried {best} images, which fit, and came to {smaller}. Its last lines: {last_lines(seen.output)}",
        "Of the two sizes that close in, the one that fits moves up to a middle that fits, the other down to one that does "
        "not.",
        points=half,
    )
    check.expect(
        best in printed,
        f"{call} found {best}, and did not print it. Its last lines: {last_lines(seen.output)}",
        "Whoever asks for the largest batch wants to read it: the template prints what find_batch_size returns.",
        points=half,
    )
    if "amp-report.json" not in check.submission.files:
        told = search_report.larger_than_fits(seen.values.get("report"), fits)
        check.expect(
            told is None,
            f"amp_train.py --find-batch-size --report FILE, where up to {fits} images fit into memory at once: {told}",
            'A trial is "ok": True only once its step came back: change it to False, or note the trial, where '
            "torch.OutOfMemoryError is caught. The claim is the largest trial that is ok.",
            points=half,
        )
    untold = search_report.problem_of_trials(seen.values.get("listed"))
    if untold is not None:
        check.fail(untold.message, untold.hint, points=half)
    check.expect(
        seen.values.get("low") is not True or search_precision.steps_are_always_low(check),
        "find_batch_size(..., amp=False, ...) tried steps under autocast, expected fp32: there, a batch takes more memory "
        "than it found.",
        "Hand amp on to the steps of the search: train_step(model, batch, criterion, optimizer, scaler, device, amp).",
        points=half,
    )
    # A search that ends a few images short, which is near enough, does so at the ends as well.
    if (fits, True) in tried and (fits + 1, False) in tried:
        found = problem_at_the_ends(ends, seen.values.get("ends"))
        if found is not None:
            check.fail(found.message, found.hint, points=half)
    search_precision.is_that_of_the_steps(check, seen, _searches_on_gpu(check))


def _searches_on_gpu(check: Check) -> RankOutcome | None:
    """What the template's function does on a GPU, None where it does not come to its end.

    Ends the check where it tries its steps with a model that is not on the GPU it was given.
    """
    try:
        return check.run("search_on_gpu").ranks[0]
    except CheckEnded as ended:
        # What else may go wrong on an emulated GPU did not go wrong without it.
        if is_device_fault(ended.feedback.message):
            check.fail(
                f"On a machine with a GPU: {ended.feedback.message}",
                BATCH_ON_CPU if LABELS_ON_CPU in ended.feedback.message else MODEL_ON_CPU,
                points=check.points / 2,
            )
        return None


def _search_from_one(check: Check, fits: int, ends: Sequence[tuple[int, int]]) -> tuple[Outcome, str, bool]:
    """A search, what went wrong with a report besides, and whether it gave up over a batch of one image.

    torchvision's ResNets do not learn from one small image. Whoever tries it all the same is looked at with some that do.
    """
    try:
        outcome, unreported = _search_and_report(check, fits, ends)
    except CheckEnded as ended:
        if TOO_FEW not in ended.feedback.message:
            raise
    else:
        # A script that catches everything takes it for a batch that does not fit.
        went_on = any(size > 1 and ok for size, ok in _tried(outcome))
        if outcome.ranks[0].values.get("was_one") is not True or went_on:
            return outcome, unreported, False
    return *_search_and_report(check, fits, ends, takes_one=True), True


def _search_and_report(
    check: Check, fits: int, ends: Sequence[tuple[int, int]], *, takes_one: bool = False
) -> tuple[Outcome, str]:
    """A search, and what went wrong with a report besides, where only both in one call fail."""
    try:
        outcome = _search(check, fits, ends, takes_one=takes_one, report="amp-report.json")
        if integer(outcome.ranks[0].values.get("status")) == 0:
            return outcome, ""
        problem = ""
    except CheckEnded as ended:
        if ended.verdict is not Verdict.CRASHED:
            raise
        problem = ended.feedback.message
    outcome = _search(check, fits, ends, takes_one=takes_one)
    if problem:
        try:
            run_script(check, "train", report="amp-report.json")
        except CheckEnded:
            # Without a search no report is written either: `notebook` tells that.
            problem = ""
    return outcome, problem


def _search(
    check: Check,
    fits: int,
    ends: Sequence[tuple[int, int]],
    *,
    takes_one: bool,
    gpu: bool = False,
    **options: Json,
) -> Outcome:
    tree = cinic10.make_folders(check.rng, train=20, valid=10, test=10)
    # As many images as any search will need; to read them is all that they are for.
    more = {
        f"{name.removesuffix('.png')}-{copy}.png": data
        for name, data in tree.items()
        if name.startswith("train/")
        for copy in range(12)
    }
    try:
        return check.run(
            "search",
            values={
                "options": script_options(find_batch_size=True, **options),
                "fits": fits,
                # Some of these fit, and others do not.
                "listed": [4 * ends[0][0], ends[0][0]],
                "ends": [list(end) for end in ends],
                "gpu": gpu,
                "takes_one": takes_one,
            },
            data={"cinic": {**tree, **more}},
        )
    except CheckEnded as ended:
        complaints.explain(check, ended)
        raise


def _tried(outcome: Outcome) -> list[tuple[int, bool]]:
    return [(size, trial[1] is True) for trial in _trials(outcome) if (size := integer(trial[0])) is not None]


def _trials(outcome: Outcome) -> list[list[Json]]:
    tried = elements(outcome.ranks[0].values.get("tried"))
    return [trial for trial in tried if isinstance(trial, list) and len(trial) == 3]


def smaller_answer(tried: Sequence[tuple[int, bool]], printed: Set[int]) -> int | None:
    """The size that was printed in the place of the largest one that fitted; None where that one was, or none of them.

    What is smaller by far may stand there by chance, as an accuracy or seconds.
    """
    fitted = {size for size, ok in tried if ok}
    best = max(fitted, default=0)
    others = {size for size in fitted & printed if 2 * size >= best}
    return None if best in printed else max(others, default=None)


def was_a_step(outcome: Outcome, size: int) -> bool:
    """Whether a backward followed the first calls of a model with so many images: the training comes later."""
    runs = groupby(_trials(outcome), key=lambda trial: integer(trial[0]))
    return next((any(trial[2] is True for trial in run) for tried, run in runs if tried == size), False)


def answers_printed(output: str) -> set[int]:
    """The numbers in the last line with one, and in the last that has no other, speaks of a result, a batch size, both."""
    # A warning and the line of source below it are not the script's own words.
    said = [
        line
        for line in without_escapes(output).splitlines()
        if "Warning" not in line and not line.startswith("  ")
    ]
    # Nor is the time that a log puts in front.
    said = [re.sub(r"\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d([.,]\d+)?", "", line) for line in said]
    numbered = [line for line in said if re.search(r"\d", line)]
    lines = [line for line in numbered if not _speaks_of_a_failure(line)]
    speaking = [
        line
        for line in lines
        if re.search(r"larg|max|best|bigg|fit|found|optim|final|result", line, re.IGNORECASE)
    ]
    sizes = [line for line in lines if re.search(r"batch.?size|\bbs\b", line, re.IGNORECASE)]
    # Behind it a training may be told, which has a batch size and a best epoch as well.
    both = [line for line in speaking if line in sizes]
    # Whatever the language of its words.
    alone = [line for line in lines if len(re.findall(r"\d+(?:\.\d+)?", line)) == 1]
    limits = [line for line in numbered if _speaks_of_a_failure(line) and LIMIT.search(line)]
    # A line with many numbers is a list of what was tried, or of guesses.
    last = (listed[-1:] for listed in (lines, alone, speaking, sizes, both, limits))
    found = [line[-400:] for line in chain.from_iterable(last)]
    return {
        int(word)
        for line in found
        if len(re.findall(r"\d+", line)) <= 12
        for word in re.findall(r"(?<![\d.])\d{1,9}(?![\d.]*\d)", line)
    }


def _speaks_of_a_failure(line: str) -> bool:
    """Whether this is "a batch of 165 does not fit", and says nothing of another batch."""
    failed = re.search(r"\bnot\b|n't\b|out of memory|\bOOM\b", line, re.IGNORECASE)
    return failed is not None and len(re.findall(r"\d+", line)) == 1


def problem_at_the_ends(ends: Sequence[tuple[int, int]], found: Json) -> Feedback | None:
    """What is wrong with what the template's `find_batch_size` returns; a search of another form need not know of ends.

    `ends` are the largest size that is asked for and how many images fit; where none does, an exception says so as well.
    """
    sizes = [integer(size) for size in elements(found)]
    for (largest, fits), size in zip(ends, sizes, strict=False):
        call = f"find_batch_size(..., largest={largest}), where"
        if fits == 0 and size not in (None, 0):
            return Feedback(
                f"{call} not even one image fits into memory, found {size}, expected 0.",
                "Only a size with which a step was made counts as one that fits: begin with 0, which needs no trial.",
            )
        if fits and size not in (None, largest):
            return Feedback(
                f"{call} {fits} images fit into memory at once, found {size}, expected {largest}.",
                "`largest` may be tried and found, and nothing above it: when doubling goes past it, bisect between the last "
                "size that fitted and largest + 1.",
            )
    return None
