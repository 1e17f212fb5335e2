"""ddp_train.sh as a student starts it."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from typing import Any, cast

import torch

from lockstep.sandbox.probing import Inputs, Observation, Student, StudentMistake, text_of_file
from lockstep.wire import Json

from .checkpoints import counts_batches, digests, tensors_in, tensors_within
from .documented import goes_on_as_documented
from .script import script_arguments
from .side import what_torchrun_is_told, within_seconds
from .written import files, may_be_checkpoint, versions, written_since

# As in epochs_left and epochs_since_best, which become fewer.
_COUNTS_DOWN = re.compile(r"since|left|remain|without|until|to_go|patience|bad|wait|stale|no_")

RESUMED_REPORT = "reports/resumed.json"
FAILS = 3  # the status of a torchrun that fails


def launch(student: Student, inputs: Inputs) -> Observation:
    """`./ddp_train.sh` with two processes; what it leaves behind."""
    # One that was handed in tells of another run.
    with contextlib.suppress(OSError):
        os.remove("reports/ddp.json")
    before = set(files())
    executable = os.access("ddp_train.sh", os.X_OK)
    if not os.path.exists("ddp_train.sh"):
        student.phase = "looking for ddp_train.sh"
        raise StudentMistake("there is no ddp_train.sh in the submission")
    command = ["./ddp_train.sh"] if executable else ["bash", "ddp_train.sh"]
    result = student.run_command(
        [*command, *script_arguments(inputs)],
        cast(dict[str, str], inputs.values["environment"]),
    )
    new = sorted(set(files()) - before)[:200]
    report = text_of_file("reports/ddp.json")
    kept = {name: tensors_in(name) for name in new if may_be_checkpoint(name)}
    # Beside the network there may be the state of a scheduler or of random numbers; of epochs the last counts.
    resuming = max(kept, key=lambda name: (len(dict(kept[name])), os.path.getmtime(name)), default=None)
    tensors = kept[resuming] if resuming else []
    counts = [int(value) for named in kept.values() for name, value in named if counts_batches(name, value)]
    asked = unasked = gpus = failed_with = resumed = None
    went_on: Json = None
    as_documented: Json = None
    if result.status == 0:
        # First, because a script may begin with a clean folder, if it is not told to resume.
        if resuming:
            before_resuming = versions()
            resumed, went_on = _resumed(student, inputs, resuming)
            # One that has trained in vain has nothing left to train.
            failed = resumed is not None and resuming not in written_since(before_resuming)
            as_documented = goes_on_as_documented(student, inputs, command, resuming, failed=failed)
        words = cast(list[str], inputs.values["words"])
        asked = what_torchrun_is_told(
            student, [*command, *words], cast(dict[str, str], inputs.values["other"])
        ).words
        told = what_torchrun_is_told(student, command, {})
        unasked, gpus = told.words, told.gpus
        failed_with = what_torchrun_is_told(student, command, {}, FAILS).status
    return Observation(
        {
            "asked": asked,
            "unasked": unasked,
            "gpus": gpus,
            "failed_with": failed_with,
            "resumed": resumed,
            "went_on": went_on,
            "as_documented": as_documented,
            "executable": executable,
            "status": result.status,
            "output": result.output[-6000:],
            "report": report,
            "keys": [name for name, _ in tensors[:500]],
            "outputs": cast(Json, sorted({len(value) for _, value in tensors if value.ndim == 2})[:500]),
            "batches": max(counts, default=None),
        }
    )


def _resumed(student: Student, inputs: Inputs, checkpoint: str) -> tuple[str | None, Json]:
    """Run `python ddp_train.py --resume` for one epoch more: how it ends where it fails, and what came of it elsewhere.

    That is whether a file was written, and the report where it was asked for, what is in that, how many batches the
    checkpoint tells of before and after, and which epoch, and whether any of its weights moved.
    """
    further = cast(list[str], inputs.values["further"])
    command = [
        "python", "ddp_train.py", *script_arguments(inputs), *further, "--checkpoint", checkpoint, "--resume",
        # Whoever keeps the best checkpoint only writes this one at least.
        "--report", RESUMED_REPORT,
    ]  # fmt: skip
    versions_before, before = versions(), _progress_in(checkpoint)
    result = within_seconds(student, command, {})
    if result is None:
        return None, None
    if result.status != 0:
        # torch lists every name that it misses, on one line.
        return "\n".join(line[:200] for line in result.output.splitlines()[-20:]), None
    written, after = written_since(versions_before), _progress_in(checkpoint)
    return None, {
        "wrote": versions() != versions_before,
        # Only where it was seen to write another one.
        "reported": "reports/ddp.json" not in written or any("resumed" in name for name in written),
        "report": text_of_file(RESUMED_REPORT),
        "before": before.batches,
        "after": after.batches,
        "epoch_before": before.epoch,
        "epoch_after": after.epoch,
        "moved": after.weights != before.weights,
    }


@dataclass(frozen=True)
class _Progress:
    """How far a checkpoint has come.

    `batches`: how many the network was trained on, by what its BatchNorms count, if there are any. `epoch`: a number
    under that name, if there is one and no other. `weights`: what tells its matrices and filters, which only steps
    change, from others.
    """

    batches: int | None
    epoch: int | None
    weights: frozenset[str]


def _progress_in(checkpoint: str) -> _Progress:
    try:
        kept = torch.load(checkpoint, weights_only=False, map_location="cpu")
        tensors = tensors_within(kept)
    except Exception:
        return _Progress(None, None, frozenset())
    return _Progress(
        max((int(value) for name, value in tensors if counts_batches(name, value)), default=None),
        epoch_of(kept),
        digests(value for _, value in tensors),
    )


def epoch_of(kept: Any) -> int | None:
    """The whole number under the only name with `epoch` in a checkpoint; None where there is no such, or several."""
    try:
        named = {name.lower(): value for name, value in kept.items() if isinstance(name, str)}
        found = [v for name, v in named.items() if "epoch" in name and not _COUNTS_DOWN.search(name)]
    except Exception:
        return None
    return found[0] if len(found) == 1 and type(found[0]) is int else None
