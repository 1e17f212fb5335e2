"""What this machine has room for and is made of, and what follows from it for grading."""

from __future__ import annotations

from collections.abc import Iterator

from lockstep.classroom.commands import default_jobs
from lockstep.doctor import mending
from lockstep.doctor.finding import Finding, Level
from lockstep.doctor.machine import Gpus, Host, Machine, Resources, Software
from lockstep.sandbox.limits import GIB, MIB, Limits

BOX = GIB // 2
"""Bytes that a sandbox holds as long as it is warm, and a little more than that."""

ENGINE = frozenset({"torch", "torchvision", "numpy", "safetensors", "pytest", "rich", "pyseccomp"})
"""Packages without which nothing can be graded; all others are imported by student code alone, or by few judges."""

NAMED = ("torch", "torchvision", "pytest", "pytorch-lightning")
"""Packages that are named when all are as they should be."""

WITHOUT_GPUS = "Emulated ones serve, but `--device cuda` does not work."


def findings(machine: Machine) -> Iterator[Finding]:
    """One for each part."""
    yield _memory(machine.resources)
    yield _shared_memory(machine.resources)
    yield _cores(machine.resources)
    yield _gpus(machine.host, machine.gpus, machine.software)
    yield _software(machine.software)


def _memory(resources: Resources) -> Finding:
    jobs, most = default_jobs(), Limits().memory
    room = resources.available - most
    seen = f"{_gib(resources.available)} free of {_gib(resources.memory)}"
    level, mend = Level.OK, ""
    follows = f"Enough for {jobs} hand-ins at a time."
    if room < BOX:
        level = Level.WEAKER
        follows = (
            f"A run may use {_gib(most)}, and there is less: one that stays within its limit may still fail."
        )
    elif room < jobs * BOX:
        level, mend = Level.WEAKER, _grade(room // BOX)
        follows = (
            f"A run may use {_gib(most)} beside the sandboxes of {jobs} hand-ins at a time: take fewer at a time, or "
            "right ones may run out of memory."
        )
    values = {"bytes": resources.memory, "available_bytes": resources.available}
    return Finding("memory", "memory", level, seen, follows, mend, dict(values))


def _shared_memory(resources: Resources) -> Finding:
    seen = (
        "no /dev/shm" if resources.shared_memory is None else f"{_gib(resources.shared_memory)} in /dev/shm"
    )
    follows = f"Every run has {Limits().shared_memory // MIB} MiB of its own instead."
    values = {"available_bytes": resources.shared_memory}
    return Finding("shared_memory", "shared memory", Level.OK, seen, follows, values=dict(values))


def _cores(resources: Resources) -> Finding:
    values = {"cores": resources.cores, "quota": resources.quota, "jobs": default_jobs()}
    if resources.cores == 1:
        follows = (
            "All ranks of a check take turns on it: right code that is slow comes closer to its time limit."
        )
        return Finding("cores", "cores", Level.WEAKER, "1", follows, values=dict(values))
    if resources.quota is not None and resources.quota < resources.cores:
        return Finding(
            "cores",
            "cores",
            Level.WEAKER,
            f"{resources.cores}, with the time of {resources.quota:.3g}",
            f"`lockstep grade` takes {default_jobs()} hand-ins at a time, for the cores it sees: right code would run "
            "out of time.",
            _grade(int(resources.quota * 1.5)),
            dict(values),
        )
    follows = f"`lockstep grade` takes {default_jobs()} hand-ins at a time."
    return Finding("cores", "cores", Level.OK, str(resources.cores), follows, values=dict(values))


def _gpus(host: Host, gpus: Gpus, software: Software) -> Finding:
    name, title = "gpus", "GPUs"
    values = {"usable": gpus.usable, "driver": gpus.driver or None, "torch_cuda": software.torch_cuda}
    if not gpus.there:
        follows = "`--device cuda` is refused."
        return Finding(name, title, Level.OK, "none; emulated ones serve", follows, values=dict(values))
    models = ", ".join(dict.fromkeys(gpus.models))
    seen = f"{gpus.there}{f' ({models})' if models else ''}"
    seen += f", driver {gpus.driver}" if gpus.driver else ""
    if gpus.usable < gpus.there:
        mend = mending.as_root(host, "chmod a+rw /dev/nvidia*")
        closed = f"{seen}; {gpus.there - gpus.usable} of them closed to this user"
        return Finding(name, title, Level.WEAKER, closed, WITHOUT_GPUS, mend, dict(values))
    if not gpus.memory_file:
        mend = mending.as_root(host, "nvidia-modprobe -u -c=0")
        return Finding(
            name, title, Level.WEAKER, f"{seen}; no /dev/nvidia-uvm", WITHOUT_GPUS, mend, dict(values)
        )
    if software.torch_cuda is None:
        follows = f"{WITHOUT_GPUS} It takes torch's build for CUDA."
        return Finding(name, title, Level.WEAKER, f"{seen}; torch has no CUDA", follows, values=dict(values))
    seen += f"; torch is built for CUDA {software.torch_cuda}"
    return Finding(name, title, Level.OK, seen, "`--device cuda` uses them.", values=dict(values))


def _software(software: Software) -> Finding:
    name, title = "versions", "versions"
    values = {"lockstep": software.lockstep, "python": software.python}
    values |= {package.name: package.found or "" for package in software.packages}
    if not software.packages:
        return Finding(
            name,
            title,
            Level.WEAKER,
            f"Python {software.python}; lockstep is not installed as a package",
            "Nobody can tell whether the releases here are those it is tested with.",
            mending.set_up_again(),
            dict(values),
        )
    missing = [package.name for package in software.packages if package.found is None]
    others = [
        f"{package.name} {package.found} instead of {package.tested}"
        for package in software.packages
        if package.found is not None and package.found.partition("+")[0] != package.tested
    ]
    if missing or others:
        refused = bool(ENGINE & set(missing))
        seen = "; ".join([f"{', '.join(missing)} not installed"] * bool(missing) + others)
        follows = (
            f"Nothing is graded: lockstep cannot work without {', '.join(sorted(ENGINE & set(missing)))}."
            if refused
            else "Student code that imports what is missing fails here, and only here."
            if missing
            else "A grade may differ from that of a machine with the releases lockstep is tested with."
        )
        level = Level.REFUSED if refused else Level.WEAKER
        return Finding(name, title, level, seen, follows, mending.set_up_again(), dict(values))
    named = [f"{package.name} {package.found}" for package in software.packages if package.name in NAMED]
    more = len(software.packages) - len(named)
    seen = f"Python {software.python}, {', '.join(named)}, {more} more"
    return Finding(name, title, Level.OK, seen, "All are as lockstep is tested.", values=dict(values))


def _grade(jobs: int) -> str:
    return f"lockstep grade SUBMISSIONS --out RESULTS --jobs {max(1, jobs)}"


def _gib(size: int) -> str:
    return f"{size / GIB:.1f}".removesuffix(".0") + " GiB"
