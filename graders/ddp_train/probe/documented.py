"""`./ddp_train.sh ... --resume`, as the exercise has it, where something speaks against its going on."""

from __future__ import annotations

import contextlib
import os
import re
from typing import cast

from lockstep.sandbox.probing import Inputs, Student
from lockstep.wire import Json

from .checkpoints import counts_batches, tensors_in
from .lab import SIDE_SECONDS
from .script import script_arguments
from .side import Told, what_torchrun_is_told, within_seconds
from .written import may_be_checkpoint, versions, written_since

KEPT = ".kept-by-the-check"
BESIDE = (".py", ".sh", ".json")  # what else stands among the words, and is no checkpoint


def goes_on_as_documented(
    student: Student, inputs: Inputs, command: list[str], checkpoint: str, *, failed: bool
) -> Json:
    """How `./ddp_train.sh ... --resume` ends; None where nothing speaks against its going on, or it takes long.

    Something does where `python ddp_train.py --resume` has `failed`, and where the script names a file for the
    checkpoint that is not there when torchrun is started: `missing` is its name then. `batches`: how many the network
    was trained on, by the checkpoints that were written.
    """
    further = cast(list[str], inputs.values["documented"])
    environment = cast(dict[str, str], inputs.values["environment"])
    with contextlib.suppress(OSError):
        os.link(checkpoint, KEPT)
    missing = missing_checkpoint(what_torchrun_is_told(student, [*command, *further], environment))
    # A script may put its checkpoint elsewhere before it goes on from it, and has not gone on here.
    with contextlib.suppress(OSError):
        if not os.path.exists(checkpoint):
            os.link(KEPT, checkpoint)
        os.remove(KEPT)
    if not failed and not (missing and os.path.exists(checkpoint)):
        return None
    before = versions()
    result = within_seconds(
        student, [*command, *script_arguments(inputs), *further], environment, 2 * SIDE_SECONDS
    )
    if result is None:
        return None
    written = [name for name in written_since(before) if may_be_checkpoint(name)]
    counts = [int(value) for name in written for key, value in tensors_in(name) if counts_batches(key, value)]
    return {
        "missing": "" if failed else missing,
        "batches": max(counts, default=None),
        "status": result.status,
        "output": result.output[-6000:],
    }


def missing_checkpoint(told: Told) -> str:
    """The file behind the last --checkpoint, where neither it nor another that may be a checkpoint is there."""
    named = re.findall(r"(?:^|\n)--checkpoint[=\n]([^\n]+)", told.words or "")
    others = [name for name in told.there if not name.endswith(BESIDE)]
    return named[-1][:200] if named and not others else ""
