"""Whether the launch files of a submission come to the same number of processes.

What has to agree is what the exercise asks for as one job: two nodes by torchrun, the PyTorchJob, and every cluster or
Azure job on more than one machine. A job on one machine is another job, not a contradiction: many have no cluster of
their own, and Azure's free credit starts no machine with several GPUs. So it is compared with nothing, and told.

The same holds for `reports/ddp.json`. Who measured on a laptop measured 1 and 2 processes on one node, and may well
have written launch files for two nodes of two that never ran: the report is right, and so are the files. Only a report
that itself speaks of several nodes says what those files started, and has to have a reading with as many processes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from graders.launch.manifests import Claim, Problem, whole
from lockstep.compare import elements
from lockstep.text import listed
from lockstep.wire import Json

REPORT = "reports/ddp.json"
REPORT_BYTES = 1 << 20


def disagreements(first: Claim, others: Sequence[Claim]) -> tuple[list[Problem], list[str]]:
    """Problems and notes: `first` says how many processes there are, each of the others has to be able to come to "
    "it."""
    problems = [Problem(f"{claim.file}, {odd}", odd.hint) for claim in (first, *others) for odd in claim.odds]
    notes: list[str] = []
    different: list[Claim] = []
    for claim in others:
        if not claim.worlds:
            notes.append(f"How many processes {claim.file} starts only the cluster can tell.")
        elif claim.worlds & first.worlds:
            continue
        elif claim.nodes == 1 and claim.may_be_alone:
            notes.append(f"{_difference([claim], first)}: a job on one machine is one of its own.")
        else:
            different.append(claim)
    if different:
        alike = len(different) > 1 and len({claim.worlds for claim in different}) == 1
        hint = (
            f"{first.file} stands alone with that number. On two nodes with two processes each there are four."
            if alike
            else _hint(different[0], first)
        )
        problems.append(Problem(f"{_difference(different, first)}.", hint))
    return problems, notes


def _difference(different: Sequence[Claim], first: Claim) -> str:
    told = listed([f"{claim.file} starts {_count(claim)}" for claim in different])
    return f"{told}, {'but ' * (len(different) > 1)}{first.file} {_count(first)}"


def _count(claim: Claim) -> str:
    worlds = sorted(claim.worlds)
    number = " or ".join(f"{world}" for world in worlds[:4])
    return f"{number} process{'es' if worlds[-1] > 1 else ''}" + (f" ({claim.how})" if claim.how else "")


def _hint(claim: Claim, first: Claim) -> str:
    return (
        claim.hint
        or f"Give both files the numbers of one job; {first.file} has {first.how or 'another number'}."
    )


def report_disagreements(data: bytes | None, first: Claim) -> tuple[list[Problem], list[str]]:
    """The same for the readings of reports/ddp.json; a report that cannot be read is no business of this check."""
    readings = list(_readings(data)) if data is not None and len(data) <= REPORT_BYTES else []
    worlds = {world for world, _ in readings}
    if not readings or worlds & first.worlds:
        return [], []
    seen = ", ".join(str(world) for world in sorted(worlds)[:6])
    processes = "process" if worlds == {1} else "processes"
    said = f"{REPORT} has readings with {seen} {processes}, {first.file} starts {_count(first)}"
    if all(nodes == 1 for _, nodes in readings):
        return [], [f"{said}; measured on one node, which is another job."]
    hint = "Measure what the launch file starts, or write the launch file for what you measured."
    return [Problem(f"{said}, and the report speaks of several nodes.", hint)], []


def _readings(data: bytes) -> Iterator[tuple[int, int]]:
    """World size and nodes of every run."""
    try:
        report: Json = json.loads(data)
    except (ValueError, RecursionError):
        return
    runs = report.get("runs") if isinstance(report, dict) else None
    for run in elements(runs):
        config = run.get("config") if isinstance(run, dict) else None
        if not isinstance(config, Mapping):
            continue
        world, nodes = whole(config.get("world_size")), whole(config.get("nnodes"))
        if world is not None and world > 0:
            yield world, nodes if nodes is not None and nodes > 0 else 1
