"""Exercise 4, the script: whether it goes on from the checkpoint that it left."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from graders.ddp_train.script_runs import (
    BATCHES,
    BATCHES_ALONE,
    BATCHES_ANEW,
    EPOCHS,
    RESNET18_BYTES,
    RESUMING,
    hands_on,
    raised_in,
)
from lockstep.causes import usual_cause
from lockstep.check import Check
from lockstep.compare import integer
from lockstep.text import last_lines, safe, safe_line
from lockstep.wire import Json

# What nobody raises on purpose, nor a machine that is full or busy.
SLIPS = (
    "NameError",
    "UnboundLocalError",
    "TypeError",
    "AttributeError",
    "KeyError",
    "IndexError",
    "UnpicklingError",
)
_OF_TORCHRUN = r"((?:LOCAL_)?(?:RANK|WORLD_SIZE)|MASTER_(?:ADDR|PORT))\b"
_MISSED = re.compile(rf"\n(?:KeyError: '|ValueError: .*environment variable ){_OF_TORCHRUN}.*\Z")
# Without a default that is None: the line, perhaps what Python underlines in it, and what it raised.
_IS_NONE = re.compile(
    rf"\n[^\n]*\bint\((?:os\.)?(?:getenv|environ\.get)\(\s*[\"']{_OF_TORCHRUN}[\"']\s*\)\)[^\n]*"
    r"(?:\n[ ~^]+)?\nTypeError: int\(\) argument must be [^\n]* not 'NoneType'\Z"
)


def goes_on(
    check: Check, values: Mapping[str, Json], arguments: Sequence[str], loopback_bytes: int | None
) -> None:
    """End the check where the script does not go on, or does otherwise than it should.

    One that takes no such arguments, or starts its processes in another way, is not asked.
    """
    raised = _not_loaded(values.get("resumed"))
    check.expect(
        not raised,
        "ddp_train.sh works, but `python ddp_train.py --checkpoint FILE --resume` does not go on from the "
        f"checkpoint that it left: {raised}",
        "The names in the file have no `module.`. Load them into model.module where the model is wrapped already, "
        "or call load_checkpoint before wrap_model.",
        points=check.points / 2,
    )
    missing = _needs_torchrun(values.get("resumed"))
    check.expect(
        not missing,
        "ddp_train.sh works, but `python ddp_train.py`, one process without torchrun, ends because there is no "
        f"environment variable {missing}.",
        "Ask setup and torch for what torchrun says: dist.get_rank() and dist.get_world_size() after setup; or "
        "give each "
        'variable a default, int(os.environ.get("LOCAL_RANK", 0)).',
        points=check.points / 2,
    )
    _as_documented(check, values.get("as_documented"), values.get("batches"), arguments)
    _goes_on(check, values.get("went_on"), values.get("asked"), arguments, loopback_bytes)


def _as_documented(check: Check, seen: Json, batches: Json, arguments: Sequence[str]) -> None:
    """End the check where `./ddp_train.sh --resume` fails by a slip of the pen, or for want of a checkpoint."""
    if not isinstance(seen, dict):
        return
    output, missing, status = seen.get("output"), seen.get("missing"), integer(seen.get("status"))
    printed = last_lines(output if isinstance(output, str) else "")
    call = (
        f"`NPROC=2 ./ddp_train.sh {' '.join(arguments)}` works and leaves a checkpoint. The same with "
        f"`{' '.join(RESUMING)}` should go on from it, but"
    )
    if isinstance(missing, str) and missing:
        # Who finds the checkpoint by itself goes on from more batches, unless it keeps that of the best epoch only.
        anew = status == 0 and integer(batches) == BATCHES and integer(seen.get("batches")) == BATCHES_ANEW
        not_found = status not in (None, 0) and "FileNotFoundError" in printed
        check.expect(
            not anew and not not_found,
            f"{call} starts ddp_train.py with `--checkpoint {safe_line(missing, 80)}`, and there is no such file by "
            "then. It " + (f"ended with: {printed}" if not_found else "began anew, without a word."),
            "Every call has to name the same file, as `--checkpoint checkpoint.pt` does: a name made from the time "
            "of day is another one each time. Nor may ddp_train.sh remove the file that an earlier run left: "
            "save_checkpoint writes over it.",
            points=check.points / 2,
        )
        return
    if status in (None, 0):
        return
    raised = raised_in(printed)
    check.expect(
        raised is None or raised.type not in SLIPS,
        f"{call} ended with: {printed}",
        "Only a run that resumes comes by that line: mend it, then run both lines in a terminal, one after the "
        "other. " + (usual_cause(raised, check.submission) if raised else ""),
        points=check.points / 2,
    )


def _goes_on(
    check: Check, went_on: Json, asked: Json, arguments: Sequence[str], loopback_bytes: int | None
) -> None:
    """End the check where a run that resumes trains no epoch more, or more than is left, or learns nothing."""
    if not isinstance(went_on, dict):
        return
    call = (
        f"ddp_train.sh works, but after `{' '.join(arguments)}` the same with `--epochs {EPOCHS + 1} --resume` "
        "should train one epoch more, on one process here, and"
    )
    check.expect(
        went_on.get("wrote") is not False,
        f"{call} it ended without having written any file, as one that has nothing left to train.",
        "load_checkpoint returns the epoch after which was saved, and main goes on with the one after it: one of "
        "the two adds 1, not both."
        if hands_on(asked)
        else 'Does "$@" stand behind ddp_train.py and its arguments in ddp_train.sh? Without it the first run '
        "does not hear of --epochs. Otherwise see what load_checkpoint returns: one of it and main adds 1, not "
        "both.",
        points=check.points / 2,
    )
    before, after = integer(went_on.get("before")), integer(went_on.get("after"))
    # A rate may have come down to 0 where the first run ended; that run has sent gradients.
    idle = went_on.get("moved") is False and before is not None and after is not None and before < after
    check.expect(
        not idle or loopback_bytes is None or loopback_bytes >= 2 * RESNET18_BYTES,
        f"{call} num_batches_tracked in its checkpoint went from {before} to {after}, but none of its weights "
        "changed; nor did the two processes before exchange more than it takes to wrap the network, "
        f"{(loopback_bytes or 0) / 1e6:.1f} MB. It saw the images, and learned nothing from them.",
        "main calls train_one_epoch in each epoch, which for every batch takes the loss, loss.backward() and "
        "optimizer.step() with the parameters of the network that is saved.",
    )
    # A script may count --epochs from where it goes on: that is as many epochs on top of those before.
    anew = (EPOCHS + 1) * BATCHES_ALONE
    check.expect(
        before != BATCHES or after != anew,
        f"{call} num_batches_tracked in its checkpoint went from {before} to {after}, expected "
        f"{BATCHES + BATCHES_ALONE}: the training began anew, or the last epoch was trained once more.",
        "first_epoch = load_checkpoint(model, optimizer, args.checkpoint) + 1, where load_checkpoint returns the "
        "epoch after which was saved; then range(first_epoch, args.epochs).",
        points=check.points / 2,
    )
    first, last = integer(went_on.get("epoch_before")), integer(went_on.get("epoch_after"))
    # Who goes on so many epochs, and tells save_checkpoint of them, has counted as many.
    check.expect(
        before != BATCHES or after != before + anew or first is None or last != first + 1,
        f"{call} num_batches_tracked in its checkpoint went from {before} to {after}, expected "
        f"{BATCHES + BATCHES_ALONE}, while the epoch in it went from {first} to {last}: weights were loaded, and "
        "the epochs counted from the first again.",
        "first_epoch = load_checkpoint(model, optimizer, args.checkpoint) + 1; then range(first_epoch, "
        "args.epochs).",
        points=check.points / 2,
    )
    # Who trained what was left has numbers that go up; who keeps the best checkpoint only has the same one again.
    check.expect(
        before != BATCHES
        or after != before + BATCHES_ALONE
        or first is None
        or last is None
        or first <= last,
        f"{call} did, but the checkpoint, which told of epoch {first} before, tells of epoch {last} now: whoever "
        "resumes once more trains epochs again that have been trained already.",
        "Number the epochs that are left as in one training: for epoch in range(first_epoch, args.epochs), and not "
        "range(args.epochs - first_epoch).",
        points=check.points / 2,
    )
    # Who keeps the best checkpoint only keeps its epoch with it.
    stale = went_on.get("moved") is False and first is not None and last is not None and first < last
    check.expect(
        not before or before != after or not stale,
        f"{call} its checkpoint tells of epoch {last}, before it was {first}, but holds the weights that it held "
        f"before: num_batches_tracked is still {before}. What that epoch learned is lost to whoever resumes.",
        "Call save_checkpoint after the epoch, with the model that was trained in it.",
        points=check.points / 2,
    )
    check.expect(
        went_on.get("reported") is not False,
        "ddp_train.sh works, but `python ddp_train.py ... --report reports/resumed.json` wrote no such file, and "
        "wrote reports/ddp.json instead.",
        "write_report(args.report, ...): which file it is, whoever starts the script decides; ddp_train.sh asks "
        "for reports/ddp.json.",
        points=check.points / 2,
    )


def _not_loaded(output: Json) -> str:
    """What torch said where the names in a checkpoint were not those of the model; nothing where it did not."""
    text = output if isinstance(output, str) else ""
    found = re.search(r"RuntimeError: Error\(s\) in loading state_dict.*(?:\n.*)?", text)
    return safe(" ".join(found[0].split())[:160]) + " ..." if found else ""


def _needs_torchrun(output: Json) -> str:
    """Which variable of torchrun's a script ended for; nothing where that was in setup."""
    text = output.rstrip() if isinstance(output, str) else ""
    found = _MISSED.search(text) or _IS_NONE.search(text)
    # single_process tells it of setup.
    return found[1] if found and not re.search(r", in (?:\w+\.)?setup\b", text) else ""
