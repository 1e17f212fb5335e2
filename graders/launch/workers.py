"""What the processes of two nodes that really ran said of themselves, and whether that is a group of four."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from graders.launch.early_faults import printed
from graders.launch.fault import Fault, Stage
from graders.launch.starts import NodeRun
from lockstep.compare import elements, integer
from lockstep.text import listed
from lockstep.wire import Json

NODES, PROCESSES = 2, 2
WORLD = NODES * PROCESSES


@dataclass(frozen=True)
class Worker:
    """A process that began to train (its place as torchrun told it), or one that knows the sum of all numbers."""

    node: int | None = None
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    total: int | None = None


def read_workers(value: Json) -> list[Worker]:
    """The processes' own words; what is not a number becomes None."""
    workers = []
    for entry in elements(value):
        said = entry if isinstance(entry, dict) else {}
        if "total" in said:
            total = integer(said.get("total"))
            workers.append(
                Worker(
                    rank=integer(said.get("rank")),
                    world_size=integer(said.get("world_size")),
                    total=-1 if total is None else total,
                )
            )
        else:
            workers.append(
                Worker(
                    node=_number(said.get("EMULATED_NODE")),
                    rank=_number(said.get("RANK")),
                    local_rank=_number(said.get("LOCAL_RANK")),
                    world_size=_number(said.get("WORLD_SIZE")),
                )
            )
    return workers


def _number(value: Json) -> int | None:
    return int(value) if isinstance(value, str) and re.fullmatch(r"\d{1,6}", value) else None


def together_fault(
    path: str, nodes: Sequence[NodeRun], workers: Sequence[Worker], total: int
) -> Fault | None:
    """Whether four processes on two nodes formed one group and added up their numbers."""
    call = f"`bash {path}` on two nodes at once"
    began = [worker for worker in workers if worker.total is None]
    added = [worker for worker in workers if worker.total is not None]
    # Where one ended in an error and the other waits for it, the error says more.
    unlike = sorted((run for run in nodes if run.status != 0), key=lambda run: run.status is None)
    output = unlike[0] if unlike else NodeRun(0, 0, "", ())
    if len(began) != WORLD:
        waits = any(run.status is None for run in nodes)
        return Fault(
            Stage.MEETING,
            f"{call}: {len(began)} of {WORLD} processes came to train"
            + (", and the nodes went on waiting for one another." if waits else ".")
            + printed(output),
            "Start both nodes by hand in two terminals and read what torchrun says; the nodes have to agree on the "
            "endpoint, the id and the number of nodes.",
        )
    places = {(worker.node, worker.local_rank) for worker in began}
    wanted = {(node, local) for node in range(NODES) for local in range(PROCESSES)}
    ranks = sorted(worker.rank if worker.rank is not None else -1 for worker in began)
    sizes = {worker.world_size for worker in began}
    if ranks == list(range(WORLD)) and sizes == {WORLD} and places != wanted:
        told = ", ".join(
            f"{listed([_told(worker.local_rank) for worker in began if worker.node == node])} on node {node}"
            for node in sorted({worker.node for worker in began}, key=str)
        )
        return Fault(
            Stage.MEETING,
            f"{call}: LOCAL_RANK is {told}; 0 and 1 on each node are expected.",
            "LOCAL_RANK counts the processes of one node and is the number of a GPU: nothing but torchrun may set it.",
        )
    if places != wanted or ranks != list(range(WORLD)) or sizes != {WORLD}:
        return Fault(
            Stage.MEETING,
            f"{call}: the processes have the ranks {', '.join(map(str, ranks))} of {_sizes(sizes)}; 0 to "
            f"{WORLD - 1} of {WORLD}, two on each node, are expected.",
            "Nothing but torchrun may set RANK, LOCAL_RANK and WORLD_SIZE, and both nodes belong to one job.",
        )
    # Ranks may begin on either node; on the one that comes second RANK and LOCAL_RANK differ.
    if not any(worker.rank != worker.local_rank for worker in began):
        return Fault(
            Stage.MEETING, f"{call}: RANK and LOCAL_RANK are the same everywhere.", "That is one node."
        )
    good = {worker.rank for worker in added if worker.total == total and worker.world_size == WORLD}
    if good != set(range(WORLD)):
        return Fault(
            Stage.MEETING,
            f"{call}: {WORLD} processes started, but {len(good)} of them added up the numbers of all."
            + printed(output),
            "They could not reach one another: look for MASTER_ADDR, MASTER_PORT or RANK set by hand.",
        )
    return None


def _told(value: int | None) -> str:
    return "nothing" if value is None else str(value)


def _sizes(sizes: set[int | None]) -> str:
    return " and ".join(sorted(str(size) for size in sizes))
