"""What keeps a launch script from training on one node, or on two: one sentence, and what to try next."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from graders.launch.early_faults import early_fault, text_of
from graders.launch.fault import Fault, Stage, plural
from graders.launch.meeting_faults import meeting_fault
from graders.launch.script_faults import devices_fault, script_fault
from graders.launch.starts import BY_CORES, NodeRun, Start, by_node


def single_fault(path: str, way: Sequence[NodeRun], host: str, files: Mapping[str, bytes]) -> Fault | None:
    """What keeps a script from training on the one node that it runs on."""
    call = f"`bash {path}`"
    starts = by_node(way)
    if fault := early_fault(way, starts, call, text_of(path, files)):
        return fault
    own = [start for node in starts.values() for start in node]
    start = own[0]
    if len(own) > 1:
        return _twice(call, own)
    if start.nodes[0] > 1:
        return Fault(
            Stage.NUMBERS,
            f"{call} starts torchrun {_range(start)}: it would wait for {start.nodes[0] - 1} more "
            f"node{plural(start.nodes[0] - 1)} that nobody starts.",
            "On one node leave --nnodes out, or write --nnodes 1.",
        )
    if fault := _processes_fault(call, start) or script_fault(call, start, files):
        return fault
    if fault := devices_fault(call, start, files):
        return fault
    endpoint = start.endpoint
    if not endpoint.is_local and endpoint.host not in (host, "10.0.0.1"):
        return Fault(
            Stage.MEETING,
            f"{call} meets at {endpoint}, which is not the node it runs on ({host}).",
            "On one node use --standalone, which makes a meeting place of its own.",
        )
    if start.backend == "static" and start.node_rank != 0:
        return Fault(
            Stage.MEETING,
            f"{call} says that the only node is number {start.node_rank}.",
            "Leave --node-rank out; the first node is number 0.",
        )
    return None


def multi_fault(
    path: str, way: Sequence[NodeRun], hosts: Sequence[str], files: Mapping[str, bytes]
) -> Fault | None:
    """What keeps two nodes that both run a script from training together, two processes on each."""
    call = f"`bash {path}`"
    starts = by_node(way)
    if fault := early_fault(way, starts, call, text_of(path, files)):
        return fault
    for node in (0, 1):
        own = starts.get(node, [])
        if not own:
            return Fault(
                Stage.NO_TORCHRUN,
                f"{call} starts torchrun on node {1 - node} alone; on node {node} it starts nothing.",
                "Every node has to run torchrun: it starts the processes of its own node only.",
            )
        if len(own) > 1:
            return _twice(f"{call} on node {node}", own)
    team = {node: starts[node][0] for node in (0, 1)}
    for node, start in team.items():
        where = f"{call} on node {node}"
        if start.standalone:
            return _standalone(where)
        if start.nodes[1] != 2:
            return Fault(
                Stage.NUMBERS,
                f"{where} starts torchrun {_range(start)}, so it does not wait for the other of the two nodes."
                if start.nodes[1] < 2
                else f"{where} starts torchrun {_range(start)}, but there are 2 nodes.",
                "Write --nnodes 2. Without it torchrun takes 1, and each node trains a model of its own.",
            )
        if start.processes(2) != 2:
            return Fault(
                Stage.NUMBERS,
                f"2 processes on each of 2 nodes are asked for; {where} starts {_count(start)}.",
                "--nproc-per-node counts the processes of one node, not of all: write --nproc-per-node 2.",
            )
    for node, start in team.items():
        where = f"{call} on node {node}"
        if fault := script_fault(where, start, files) or devices_fault(where, start, files):
            return fault
    return meeting_fault(call, team, hosts)


def _processes_fault(call: str, start: Start) -> Fault | None:
    if start.nproc is not None:
        return None
    return Fault(
        Stage.NUMBERS,
        f"{call} starts {_count(start)}.",
        "--nproc-per-node takes a number from 1 on, or gpu for one process for each GPU.",
    )


def _count(start: Start) -> str:
    if start.nproc == 1 and "nproc" not in start.command:
        return "one, because there is no --nproc-per-node"
    if start.nproc == BY_CORES:
        return "a process for each core, however many a node has"
    if start.nproc is None:
        given = re.search(r"--nproc[-_]per[-_]node[= ](\S*)", start.command)
        return (
            f"no countable number of processes (--nproc-per-node {given[1] if given else 'without a number'})"
        )
    return f"{start.nproc} process{'' if start.nproc == 1 else 'es'}"


def _range(start: Start) -> str:
    least, most = start.nodes
    if "nnodes" not in start.command and most == 1:
        return "without --nnodes"
    return f"with --nnodes {most}" if least == most else f"with --nnodes {least}:{most}"


def _twice(call: str, starts: Sequence[Start]) -> Fault:
    return Fault(
        Stage.NUMBERS,
        f"{call} starts torchrun {len(starts)} times on one node.",
        "Once on each node is enough: torchrun starts all processes of its node by itself.",
    )


def _standalone(call: str) -> Fault:
    return Fault(
        Stage.NUMBERS,
        f"{call} starts torchrun with --standalone, which makes a meeting place of its own on every node: the nodes "
        "never meet.",
        'Take --standalone out; write --nnodes 2 and --rdzv-endpoint "$MASTER_ADDR:$MASTER_PORT".',
    )
