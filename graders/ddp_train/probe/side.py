"""What is started beside the run that counts: with a stand-in for torchrun, or for a few seconds."""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass

from lockstep.sandbox.probing import CommandResult, Student

from .lab import SIDE_SECONDS


@dataclass(frozen=True)
class Told:
    """What a stand-in for torchrun was told.

    `words`: those after `torchrun`; None where it was not to be seen in time, nothing where the script ended without.
    `there`: which of them, or what stands behind their `=`, are names of files and folders that were there. `gpus`:
    CUDA_VISIBLE_DEVICES of the first one that was told of a number of processes. `status`: with what the script ended.
    """

    words: str | None
    there: tuple[str, ...] = ()
    gpus: str = ""
    status: int | None = None


def what_torchrun_is_told(
    student: Student, command: list[str], environment: dict[str, str], status: int = 0
) -> Told:
    """What torchrun is told where the script is started with another environment; it trains nothing, and ends so."""
    with tempfile.TemporaryDirectory() as folder:
        names = ("told", "there", "gpus", "torchrun")
        told, there, gpus, stand_in = (os.path.join(folder, name) for name in names)
        with open(stand_in, "w", encoding="utf-8") as file:
            file.write(
                f"#!/bin/sh\nprintf '%s\\n' \"$@\" >> {told}\n"
                f'for word do if [ -e "${{word#*=}}" ]; then printf \'%s\\n\' "${{word#*=}}" >> {there}; fi; done\n'
                f'case "$*" in *nproc*) printf \'%s\\n\' "${{CUDA_VISIBLE_DEVICES-}}" >> {gpus};; esac\nexit {status}\n'
            )
        os.chmod(stand_in, 0o700)
        for name in ("python", "python3"):  # -m torch.distributed.run is torchrun, too
            os.symlink(stand_in, os.path.join(folder, name))
        ended = within_seconds(
            student, [*command, "--help"], {**environment, "PATH": f"{folder}:{os.environ['PATH']}"}
        )
        if not os.path.isfile(told):
            return Told(None if ended is None else "")
        first = next(iter(_read(gpus).splitlines()), "")
        return Told(_read(told), tuple(_read(there).splitlines()), first, ended.status if ended else None)


def _read(path: str) -> str:
    if not os.path.isfile(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read(2000)


def within_seconds(
    student: Student, command: list[str], environment: dict[str, str], seconds: float = SIDE_SECONDS
) -> CommandResult | None:
    """Run a command; None where it takes long: what it was to show is not worth a hang."""
    try:
        return student.run_command(command, environment, seconds)
    except subprocess.TimeoutExpired:
        student.phase = ""
        return None
