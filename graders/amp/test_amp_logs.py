"""The judge of exercise 6, its logs: the curves in TensorBoard and W&B, and the learning rate in them."""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import pairwise

import numpy as np

from graders.amp import curves, returned_values
from graders.amp.batches import Batch
from graders.amp.curves import Series
from graders.amp.record import named, run_events, strings
from graders.amp.script_runs import run_script, trained
from graders.amp.steps import NO_STEP
from lockstep.check import Check
from lockstep.compare import integer
from lockstep.sandbox.outcome import RankOutcome
from lockstep.text import safe
from lockstep.wire import Json

EPOCHS = 2


def test_tensorboard(check: Check) -> None:
    """TensorBoard's event file has loss, acc1, acc5 and lr of every training batch, at steps that rise."""
    call = "amp_train.py, two epochs of seven batches,"
    folder = f"curves{check.rng.integers(100, 1000)}"
    outcome = run_script(check, "train", train=26, epochs=EPOCHS, logdir=folder)
    seen, batches = trained(check, outcome, call)
    files = _log_files(seen, "event")
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
    # A folder named after a date below it or beside it is one of its own. A notebook need not have a constant for it.
    check.expect(
        seen.values.get("notebook") is True or any(folder in path for path in files),
        f"amp_train.py --logdir {folder} left its event files elsewhere: {safe(', '.join(sorted(files)[:2]), 200)}.",
        "SummaryWriter(args.logdir), or a folder below it.",
        points=check.points / 2,
    )


def _curves(check: Check, call: str, log: str, series: list[Series], batches: list[Batch]) -> None:
    wrong: Set[str] | None = None
    for name in curves.METRICS:
        found = curves.problem(name, series, batches, epochs=EPOCHS)
        # Where train_step returns wrong values, a check of its own tells of them: a log that shows them is right.
        if (
            found is not None
            and curves.problem(name, series, batches, epochs=EPOCHS, any_values=True) is None
        ):
            wrong = returned_values.wrong(check) if wrong is None else wrong
            if name in wrong:
                check.note(
                    f"The {log} log was not compared with the {name} of the batches: train_step returns another, which "
                    f"{'matches_fp32' if name == 'loss' else 'accuracy_topk'} tells of."
                )
                continue
        if found is not None:
            check.fail(f"{call} in the {log} log: {found.message}.", found.hint)
    if curves.is_thinned("loss", series, batches):
        check.note(f"The {log} log shows only some of the batches; the course logs each one.")


def test_wandb(check: Check) -> None:
    """An offline W&B run has the same curves."""
    call = "amp_train.py --wandb offline, two epochs of seven batches,"
    outcome = run_script(check, "train", train=26, epochs=EPOCHS, wandb="offline")
    seen, batches = trained(check, outcome, call)
    files = _log_files(seen, "wandb")
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
    written = curves.tensorboard(_log_files(seen, "event"))[0]
    found = curves.rates(series, batches) if curves.rates(written, batches) is None else None
    if found is not None:
        check.fail(f"{call} in the W&B log: {found.message}.", found.hint, points=check.points / 2)
    if seen.values.get("notebook") is not True:
        _can_be_disabled(check)


def _can_be_disabled(check: Check) -> None:
    """Whether `--wandb` reaches W&B: without a mode it asks for a login wherever WANDB_MODE is not set."""
    outcome = run_script(check, "train")
    trained(check, outcome, "amp_train.py --wandb disabled")
    check.expect(
        not _log_files(outcome.ranks[0], "wandb"),
        "amp_train.py --wandb disabled left an offline run all the same: the flag does not reach W&B.",
        "wandb.init(..., mode=args.wandb). Without a mode it asks for a login on any machine where nobody has logged in.",
        points=check.points / 2,
    )


def test_lr_logged(check: Check) -> None:
    """The logged learning rate is the one each step was made with, and the scheduler steps after the optimizer."""
    call = "amp_train.py, two epochs of seven batches,"
    factor = float(check.rng.uniform(0.9, 0.96))
    outcome = run_script(check, "train", train=26, epochs=EPOCHS, values={"factor": factor})
    seen, batches = trained(check, outcome, call)
    names = [str(event[0]) for event in run_events(seen)]
    if "scheduler" not in names:
        check.expect(
            "scheduler made" not in names or len({batch.lr for batch in batches}) > 1,
            f"{call} a scheduler was made, but its step() never called: every step had the same learning rate.",
            "Call scheduler.step() once after each train_step, when the rate has been logged.",
        )
        if len({batch.lr for batch in batches}) < 2:
            check.note("No learning-rate scheduler was seen: the rate stayed the same in this run.")
    elif "optimizer" in names:
        check.expect(
            names.index("optimizer") < names.index("scheduler"),
            f"{call} scheduler.step() was called before the first optimizer.step(): the first learning rate is never used.",
            "First scaler.step(optimizer), then scheduler.step().",
        )
    check.expect(
        any(batch.lr is not None for batch in batches),
        f"{call} made no step of an optimizer: there is no learning rate that the log could be compared with.",
        NO_STEP,
    )
    series, _ = curves.tensorboard(_log_files(seen, "event"))
    found = curves.rates(series, batches)
    if found is not None:
        check.fail(f"{call} in the TensorBoard log: {found.message}.", found.hint)
    _goes_as_planned(check, call, run_events(seen), batches)


def _goes_as_planned(check: Check, call: str, events: list[list[Json]], batches: list[Batch]) -> None:
    """A scheduler that was made for as many steps as there are batches steps after each, one for the epochs does not.

    A rate that falls all the same was told where it is, as by scheduler.step(epoch + part).
    """
    plans = {integer(event[1]) for event in events if event[0] == "scheduler made" and len(event) > 1}
    made, n = len(named(events, "scheduler")), len(batches)
    check.expect(
        plans != {n} or not 0 < made <= EPOCHS,
        f"{call} the scheduler was made for {n} steps, one for each batch, and its step() was called {made} times. "
        "The learning rate hardly leaves where it began.",
        "Call scheduler.step() within the loop over the batches, right after the step is logged. One step for each epoch "
        "is right for a scheduler that is made for args.epochs steps.",
        points=check.points / 2,
    )
    rates = [batch.lr for batch in batches if batch.lr is not None]
    often = steps_too_often(events, rates, n)
    check.expect(
        often is None,
        f"{call} the scheduler was made for {n} steps, one for each batch, and its step() was called {often} times. The "
        "learning rate came to its end before the training did, and rose again.",
        "Call scheduler.step() once for each batch. Does it stand in the loop, and in a function that the loop calls as well?",
        points=check.points / 2,
    )
    check.expect(
        plans != {EPOCHS} or made < n - 1 or all(later <= earlier for earlier, later in pairwise(rates)),
        f"{call} the scheduler was made for {EPOCHS} steps, one for each epoch, and its step() was called {made} times. "
        "The learning rate fell to its end within the first batches, and rose again.",
        "One step for each batch is right for a scheduler that is made for args.epochs * len(train_loader) steps.",
        points=check.points / 2,
    )


def steps_too_often(events: Sequence[list[Json]], rates: Sequence[float], n: int) -> int | None:
    """How often the only scheduler stepped, where it was made for `n` steps, went past them and the rate rose again.

    One step more in each epoch is let pass. Of several schedulers each has its own steps.
    """
    plans = [integer(event[1]) for event in events if event[0] == "scheduler made" and len(event) > 1]
    made = len(named(events, "scheduler"))
    rises = any(later > earlier for earlier, later in pairwise(rates))
    return made if plans == [n] and made > n + EPOCHS and rises else None


def _log_files(seen: RankOutcome, kind: str) -> dict[str, bytes]:
    """The log files of one kind, by path."""
    names = strings(seen.values.get(f"{kind}_files"))
    arrays = [seen.arrays.get(f"{kind}/{number}") for number in range(len(names))]
    return {
        name: array.tobytes()
        for name, array in zip(names, arrays, strict=True)
        if array is not None and array.dtype == np.uint8
    }
