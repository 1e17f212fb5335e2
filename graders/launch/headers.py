"""What a cluster job asks for in the comments at its top: Slurm's `#SBATCH`, PBS's `#PBS`, LSF's `#BSUB`.

Each scheduler has rules of its own for where such lines count, and for what they say: slurm_header.py, pbs_header.py,
lsf_header.py.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from graders.launch.lsf_header import read_lsf
from graders.launch.pbs_header import read_pbs
from graders.launch.schedulers import LSF, PBS, SCHEDULERS, SLURM, Header, Line, Scheduler
from graders.launch.slurm_header import SLURM_SHORT, read_slurm, slurm_name

_READERS: Mapping[Scheduler, Callable[[Header, Sequence[str]], Header]] = {
    SLURM: read_slurm,
    PBS: read_pbs,
    LSF: read_lsf,
}


def scheduler_of(path: str, text: str) -> Scheduler | None:
    """Whose job this is, by the file's name or else by the directives in it."""
    suffix = path.rpartition(".")[2].lower()
    by_suffix = {
        "slurm": SLURM, "sbatch": SLURM, "pbs": PBS, "qsub": PBS, "lsf": LSF, "bsub": LSF,
    }  # fmt: skip
    if suffix in by_suffix:
        return by_suffix[suffix]
    for scheduler in SCHEDULERS:
        if re.search(rf"^{scheduler.prefix}\s", text, re.MULTILINE):
            return scheduler
    return None


def read_header(scheduler: Scheduler, text: str) -> Header:
    """The header of a job's file, by its scheduler's rules."""
    directives: list[Line] = []
    unread: list[Line] = []
    command: Line | None = None
    for number, raw in enumerate(text.splitlines(), start=1):
        line = Line(number, raw.strip())
        # A directive begins in the first column; `# SBATCH` and `##SBATCH` are comments like any other. sbatch
        # needs no blank behind its prefix: it takes `#SBATCH--nodes=2`, and refuses `#SBATCHES`.
        rest = raw[len(scheduler.prefix) :][:1]
        if raw.startswith(scheduler.prefix) and (scheduler is SLURM or rest in ("", " ", "\t")):
            (unread if command and scheduler.stops else directives).append(line)
        elif line.text and not line.text.startswith("#") and command is None:
            command = line
    header = Header(
        scheduler,
        directives=tuple(directives),
        unread=tuple(unread),
        command=command,
        shebang=text.startswith("#!"),
    )
    words: list[str] = []
    problems: list[str] = []
    if scheduler is SLURM and "\r\n" in text:
        problems.append("it has the line ends of Windows, with which sbatch takes no file: save it with LF")
    for line in directives:
        try:
            # A backslash does not join lines here; sbatch drops one at the end.
            words += shlex.split(line.text[len(scheduler.prefix) :].rstrip("\\"), comments=True)
        except ValueError:
            problems.append(
                f"line {line.number}, `{line.text[:80]}`, has a quotation mark that is not closed"
            )
    read = _READERS[scheduler](header, words)
    options = {**(_said_of_sbatch(text) if scheduler is SLURM else {}), **read.options}
    return replace(read, problems=(*problems, *read.problems), options=options)


def _said_of_sbatch(text: str) -> dict[str, str]:
    """Options in a comment such as `# sbatch --cpus-per-task 8 train.slurm`, which whoever follows it would give."""
    said = (line.partition("sbatch ")[2] for line in text.splitlines() if line.lstrip().startswith("#"))
    words = [word.partition("=")[0] for rest in said for word in rest.split() if word.startswith("-")]
    names = (slurm_name(word[2:]) if word[1:2] == "-" else SLURM_SHORT.get(word[1:2]) for word in words)
    return {name: "" for name in names if name}
