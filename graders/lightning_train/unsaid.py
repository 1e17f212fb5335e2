"""A script that is not told how many devices to take, nor where to log, as the first line of the exercise has it."""

from __future__ import annotations

from collections.abc import Sequence

from graders.lightning_train.runs import run_script
from lockstep.check import Check
from lockstep.compare import integer, shown
from lockstep.sandbox.outcome import RankOutcome
from lockstep.text import last_lines, safe, safe_line
from lockstep.verdict import Feedback

# What comes of a value that is not what it was taken for. What Lightning says of devices that this machine lacks, such
# as all of its GPUs, is no mistake of the script's.
KINDS = ("ValueError", "TypeError", "AttributeError", "UnboundLocalError")
OF_THE_MACHINE = "CPUAccelerator"
CALLED_SO = "The exercise calls the script so: `python lightning_train.py --max-epochs 3`. "


def without_devices(
    check: Check, arguments: Sequence[str], n: tuple[int, int]
) -> tuple[RankOutcome, Feedback | None]:
    """The script where it calls fit, and what to say of one that gets there with --devices 1 alone."""
    outcome = run_script(check, arguments, n=n, at_fit=True, expect=False)
    seen = outcome.ranks[0]
    why = stumbled_over(seen)
    if seen.complete and seen.error is None and outcome.limit is None and not why:
        return seen, None
    told = run_script(check, ["--devices", "1", *arguments], n=n, at_fit=True).ranks[0]
    if not why or not integer(told.values.get("fits")):
        return told, None
    return told, Feedback(
        f"lightning_train.py --accelerator cpu {' '.join(arguments)} ends before its training: {why} It trains with "
        "--devices 1 besides, expected without it, too.",
        f"{CALLED_SO}Where nothing is said, "
        '--devices is the "auto" of the template, and no number: hand it on as it is, '
        'build_trainer(devices=args.devices). Lightning knows "auto" and "2", and makes numbers of both.',
    )


def goes_without_logger(check: Check, n: tuple[int, int]) -> None:
    """End the check where a script that has come to fit with --devices 1 --logger wandb does not without the logger."""
    seen = run_script(check, ["--devices", "1"], n=n, at_fit=True, expect=False).ranks[0]
    why = stumbled_over(seen)
    check.expect(
        not why,
        f"lightning_train.py --accelerator cpu --devices 1 ends before its training: {why} It comes to it with "
        "--logger wandb besides, expected without it, too.",
        f'{CALLED_SO}Give --logger a default: parser.add_argument("--logger", default="tensorboard", ...).',
        points=check.points / 2,
    )


def stumbled_over(seen: RankOutcome) -> str:
    """In what a script ended before its training for want of an option, as it seems; else nothing."""
    status, error = seen.values.get("status"), seen.error
    if error is None:
        failed = seen.complete and status is not None and integer(status) != 0
        return f"it ended with status {shown(status)}: {last_lines(seen.output)}" if failed else ""
    # What is looked up by an option that nobody gave. By another name it may be the machine's, as a variable is.
    is_none = error.type == "KeyError" and error.message == "None"
    if not (error.type in KINDS or is_none) or not error.frames or OF_THE_MACHINE in error.message:
        return ""
    frame = error.frames[-1]
    return f"{safe(error.type, 40)}: {safe_line(error.message)} ({safe(str(frame), 120)})."
