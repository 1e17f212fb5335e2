"""What the script leaves: the table of its metrics, and the report that it is asked for."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Sequence
from pathlib import PurePath

from graders.lightning_train.runs import run_script
from lockstep.check import Check
from lockstep.compare import integer
from lockstep.sandbox.outcome import RankOutcome, StudentError
from lockstep.text import safe, safe_line
from lockstep.verdict import CheckEnded
from lockstep.wire import Json

REPORT = "reports/of_this_run.json"
# Of one's own code, whatever the machine. What else may go wrong with a report, such as a folder that is not there or a
# variable that is not set here, may go well where it was written.
SLIPS = ("AttributeError", "NameError", "UnboundLocalError", "TypeError")
# As do these, of what another version or another machine has.
OF_THE_MACHINE = ("NoneType", "module '", "partially initialized")


def writes_its_report(check: Check) -> None:
    """End the check where a script that knows --report, as the template does, trains and leaves no such file."""
    # Who reads the options elsewhere, or in a notebook, may leave this one out and never say so.
    if b"--report" not in check.submission.files.get("lightning_train.py", b""):
        return
    told = ["--devices", "1", "--max-epochs", "3", "--limit-train-batches", "1.0", "--logger", "csv"]
    call = f"lightning_train.py {' '.join(told)} --report {REPORT}"
    seen = run_script(check, [*told, "--report", REPORT], n=(16, 8), expect=False).ranks[0]
    if seen.error is not None:
        if is_a_slip(seen.error) and _comes_to_its_end(check, told):
            error = seen.error
            check.fail(
                f"{call} ended in {safe(error.type, 40)}: {safe_line(error.message)} "
                f"({safe(str(error.frames[-1]), 120)}), and comes to its end without --report: the times of the "
                "training are lost.",
                "The lines under `if args.report` are reached once all is trained. Those of the template read "
                "data.train_data, clock.runs and trainer: has your code the same names, and the same attributes? Run "
                "the line with --max-epochs 1.",
                points=check.points / 2,
            )
        return
    left = seen.values.get("left")
    # Where its table is not among them either, the files of the script are not seen.
    if not _has_trained(seen) or not isinstance(left, dict):
        return
    check.expect(
        any(PurePath(REPORT).stem in name for name in left),
        f"{call} trained, and left no {REPORT}.",
        "Hand the clock to the Trainer, build_trainer(..., callbacks=[clock]): without it there are no times to write "
        "down. And write them where --report says.",
        points=check.points / 2,
    )


def is_a_slip(error: StudentError) -> bool:
    """Whether it is a name or a kind of value that is wrong on every machine."""
    return (
        error.type in SLIPS
        and bool(error.frames)
        and not any(words in error.message for words in OF_THE_MACHINE)
    )


def _comes_to_its_end(check: Check, arguments: Sequence[str]) -> bool:
    try:
        return _has_trained(run_script(check, arguments, n=(16, 8)).ranks[0])
    except CheckEnded:
        return False


def _has_trained(seen: RankOutcome) -> bool:
    return integer(seen.values.get("status")) == 0 and has_table(seen.values.get("left"))


def has_table(left: Json) -> bool:
    """Whether one of the files that the script left is a table with a number in a column of a metric."""
    for name, text in left.items() if isinstance(left, dict) else ():
        # What is no table, the reader refuses with an error of its own.
        with contextlib.suppress(csv.Error):
            if name.endswith("metrics.csv") and isinstance(text, str) and _has_a_metric(text):
                return True
    return False


def _has_a_metric(text: str) -> bool:
    return any(
        value and column not in ("epoch", "step")
        for row in csv.DictReader(io.StringIO(text))
        for column, value in row.items()
        if column
    )
