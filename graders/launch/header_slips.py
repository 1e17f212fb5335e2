"""What the header of a job asks for with which nothing trains to its end, although the scheduler takes it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from graders.launch.fault import LEAST_TO_TRAIN, SHORTEST, Fault, Stage, plural
from graders.launch.schedulers import SLURM, Header

# Words in angle brackets; `mem<100 && ncpus>4` of LSF are no such words.
_PLACEHOLDER = re.compile(r"<[A-Za-z][\w .-]*>|\b(?:TODO|FIXME)\b")
_MEMORY = re.compile(r"(\d{1,12})([KMGT])B?", re.IGNORECASE)


def header_slip(path: str, header: Header) -> Fault | None:
    """A job that is kept back, waits for one of the past, or has too little time or memory."""
    if header.held:
        return Fault(
            Stage.NUMBERS,
            f"{path} asks for `--hold`: Slurm keeps the job back, and starts nothing of it, until somebody releases it "
            "with `scontrol release`.",
            "Take --hold out. To keep one job back write it behind sbatch.",
        )
    if waits := waits_for(header):
        return Fault(
            Stage.NUMBERS,
            f"{path} asks for `--dependency={header.options['dependency'][:60]}`: it starts when job {waits} has ended "
            "well, a number that is given once. When that job is forgotten, Slurm refuses this one or never starts it.",
            "Take --dependency out. To let one job wait for another write it behind sbatch, with the number that the "
            "other was given.",
        )
    return _time_slip(path, header) or _memory_slip(path, header)


def placeholders(header: Header) -> Iterator[str]:
    """A remark on each value that was left for its reader to fill in; which one is right the cluster alone knows."""
    for line in header.directives:
        if found := _PLACEHOLDER.search(line.text):
            yield (
                f"Line {line.number} still holds `{found[0][:60]}`, a place to fill in: {header.scheduler.submit} "
                "takes no such name."
            )


def waits_for(header: Header) -> str:
    """The number of a job without which this one never starts; nothing where there is none, or another way."""
    text = header.options.get("dependency", "") if header.scheduler is SLURM else ""
    found = re.search(r"(?:^|,)after(?:ok|corr):(\d+)", text)
    return found[1] if found and "?" not in text else ""


def _time_slip(path: str, header: Header) -> Fault | None:
    if header.seconds is None or header.seconds >= SHORTEST:
        return None
    option, forms = (
        ("--time", "minutes, minutes:seconds and hours:minutes:seconds")
        if header.scheduler is SLURM
        else ("walltime", "seconds, minutes:seconds and hours:minutes:seconds")
    )
    name = header.scheduler.name
    return Fault(
        Stage.NUMBERS,
        f"{path} asks for `{option}={header.walltime}`, which {name} reads as {header.seconds} "
        f"second{plural(header.seconds)}; no training ends in that time.",
        f"{name} takes {forms}, for example `{header.scheduler.example}`.",
    )


def _memory_slip(path: str, header: Header) -> Fault | None:
    """Too little memory on each node; 0 is all of it, and a number without a unit may be any cluster's own."""
    text = header.options.get("mem", "") if header.scheduler is SLURM else ""
    found = _MEMORY.fullmatch(text)
    amount = int(found[1]) * 1024 ** ("KMGT".index(found[2].upper()) + 1) if found else 0
    if not 0 < amount < LEAST_TO_TRAIN:
        return None
    return Fault(
        Stage.NUMBERS,
        f"{path} asks for `--mem={text}`, the memory of a node for all of its processes: torch and a ResNet-18 find no "
        "room in it, and the job is ended for want of memory.",
        "M is 1024 K, G is 1024 M: a training takes some G, write `#SBATCH --mem=16G`.",
    )
