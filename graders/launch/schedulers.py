"""Slurm, PBS and LSF, and what a job can ask of one of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

LARGEST = 10_000


@dataclass(frozen=True)
class Line:
    """A line of the file, counted from 1."""

    number: int
    text: str


@dataclass(frozen=True)
class Scheduler:
    """How one scheduler reads a job's file. `stops`: what stands below the first command no longer counts."""

    name: str
    prefix: str
    submit: str
    stops: bool
    needs_shebang: bool
    example: str


SLURM = Scheduler("Slurm", "#SBATCH", "sbatch", True, True, "#SBATCH --time=01:00:00")
PBS = Scheduler("PBS", "#PBS", "qsub", True, False, "#PBS -l walltime=01:00:00")
LSF = Scheduler("LSF", "#BSUB", "bsub", False, False, "#BSUB -W 1:00")
SCHEDULERS = (SLURM, PBS, LSF)


@dataclass(frozen=True)
class Header:
    """What a job asks for; None where it does not say. `nodes` is 1 where a scheduler would take that.

    `unread` are directives below the first command, which is `command`. `problems` are sentences about
    directives that the scheduler would refuse, `remarks` about what it takes otherwise than it looks. `whole_nodes`: it
    asks for all that is in nodes of a kind, however many GPUs that are. `held`: nothing starts until somebody releases
    the job. `seconds` is a limit on the time, where it is known. `options` are
    those given, by name, of Slurm also those that a comment would call sbatch with; of PBS by letter.
    """

    scheduler: Scheduler
    directives: tuple[Line, ...]
    unread: tuple[Line, ...]
    command: Line | None
    shebang: bool
    nodes: int = 1
    tasks_per_node: int | None = None
    gpus_per_node: int | None = None
    whole_nodes: bool = False
    walltime: str | None = None
    seconds: int | None = None
    held: bool = False
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)


def integer(text: str) -> int | None:
    """A number as a directive has it; None for what is none, or too large to be meant."""
    return int(text) if re.fullmatch(r"[0-9]{1,6}", text) and int(text) <= LARGEST else None
