"""Where nodes are told to meet, and whether all of them can."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from graders.launch.fault import Fault, Stage
from graders.launch.starts import Endpoint, Start
from lockstep.text import listed

# Where a node is told to meet; the second is looked at by the static backend alone.
_PLACE = re.compile(r"--rdzv[-_]endpoint\b")
_STATIC_PLACE = re.compile(r"--(?:rdzv[-_]endpoint|master[-_]addr)\b")


def meeting_fault(
    call: str, team: Mapping[int, Start], hosts: Sequence[str], is_job: bool = False
) -> Fault | None:
    """Whether the nodes of a team would find one another; each node's only start is given.

    `is_job`: one script has started them all, and not each node its own.
    """
    nodes = sorted(team)
    first = team[nodes[0]]
    for node in nodes:
        if fault := place_fault(f"{call} on node {node}", team[node]):
            return fault
    endpoints = {node: team[node].endpoint for node in nodes}
    if len({endpoint.host for endpoint in endpoints.values()}) > 1:
        own = all(_names(endpoints[node], hosts, node) for node in nodes)
        return Fault(
            Stage.MEETING,
            f"{call}: {_each(endpoints)}. Nodes that go to different places never meet.",
            "Each node names itself: hostname and $HOSTNAME are different on each. Hand all of them the first node's."
            if own
            else "The rendezvous endpoint must be the same on all nodes, for example $MASTER_ADDR:$MASTER_PORT.",
        )
    if len({endpoint.port for endpoint in endpoints.values()}) > 1:
        return Fault(
            Stage.MEETING,
            f"{call}: {_each(endpoints)}. The host is the same but the ports differ, so the nodes never meet.",
            "Use one port for all nodes, $MASTER_PORT for example, not one that is drawn or computed on each.",
        )
    if len({team[node].backend for node in nodes}) > 1:
        return Fault(
            Stage.MEETING,
            f"{call}: the nodes use different rendezvous backends, "
            f"{' and '.join(team[node].backend for node in nodes)}.",
            "Give every node the same --rdzv-backend, c10d.",
        )
    if first.backend != "static" and len({team[node].rdzv_id for node in nodes}) > 1:
        ids = _each({node: team[node].rdzv_id for node in nodes}, "has the id ")
        return Fault(
            Stage.MEETING,
            f"{call}: {ids}. Nodes with different ids take one another for other jobs and never meet.",
            "Use one --rdzv-id for all: a fixed word or the job's number, not $RANDOM, $$, a time or a node's name.",
        )
    ranks = [team[node].node_rank for node in nodes]
    if first.backend == "static" and sorted(ranks) != list(range(len(nodes))):
        told = _each({node: str(team[node].node_rank) for node in nodes}, "is --node-rank ")
        return Fault(
            Stage.MEETING,
            f"{call}: {told}. Without --rdzv-backend c10d torchrun goes by --node-rank, and the nodes have to be 0 to "
            f"{len(nodes) - 1}.",
            (
                "The shell of the job's file fills in a variable once, on the first node, before anything starts on "
                "others: let a shell on each do so, srun bash -c 'torchrun ... --node-rank \"$SLURM_NODEID\" ...'. "
                if is_job and len(set(ranks)) == 1 and all("rank" in team[node].command for node in nodes)
                else 'Hand on the number of the node, --node-rank "$NODE_RANK"; without the option it is 0 everywhere. '
            )
            + "Or use --rdzv-backend c10d with --rdzv-endpoint, where nobody needs a number.",
        )
    host = next((node for node in nodes if _names(first.endpoint, hosts, node)), None)
    if first.backend == "static" and host is not None and team[host].node_rank != 0:
        return Fault(
            Stage.MEETING,
            f"{call}: all meet at {first.endpoint}, but the node of that name is given the number "
            f"{team[host].node_rank}. With --node-rank it is number 0 that waits there for the others.",
            'Number the nodes so that MASTER_ADDR is number 0: --node-rank "$NODE_RANK".',
        )
    scripts = {team[node].script_name for node in nodes}
    if len(scripts) > 1:
        return Fault(
            Stage.SCRIPT,
            f"{call}: the nodes start different scripts, {' and '.join(sorted(scripts))}.",
            "All nodes run the same script.",
        )
    return None


def place_fault(where: str, start: Start) -> Fault | None:
    """What is wrong with the place that one node was told to meet at."""
    endpoint = start.endpoint
    place = _STATIC_PLACE if start.backend == "static" else _PLACE
    if not endpoint.host and (told := place.search(start.command)):
        return Fault(
            Stage.MEETING,
            f"{where} names no place to meet: {told[0]} has no host, so torchrun takes localhost, which every node "
            "takes for itself.",
            "A variable is empty there. Is it one that nothing sets, or in braces with a colon, which cut a part out "
            "of it? A shell of its own, as of `bash -c '...'`, knows what was exported and no more.",
        )
    if endpoint.is_local:
        said = f"{where} meets at {endpoint}" if endpoint.host else f"{where} names no place to meet"
        return Fault(
            Stage.MEETING,
            f"{said}, which every node takes for itself, so the nodes never meet."
            if endpoint.host
            else f"{said}, so torchrun takes localhost, which every node takes for itself.",
            'Name a host that all nodes can reach, the first of them: --rdzv-endpoint "$MASTER_ADDR:$MASTER_PORT".'
            + (
                " With --rdzv-backend c10d torchrun does not look at --master-addr."
                if start.backend != "static" and "--master" in start.command
                else ""
            ),
        )
    if not re.fullmatch(r"[\w.:-]+", endpoint.host) or endpoint.host.isdigit() or "$" in endpoint.port:
        return Fault(
            Stage.MEETING,
            f"{where} meets at {' '.join(str(endpoint).split())}, which is no name of a host.",
            _no_host_hint(endpoint.host),
        )
    if not endpoint.port or not (endpoint.port.isdigit() and 0 < int(endpoint.port) < 65536):
        return Fault(
            Stage.MEETING,
            f"{where} meets at {endpoint}, "
            + (
                "without a port."
                if not endpoint.port
                else f"but {endpoint.port} is no port that nodes can agree on."
            ),
            "Write HOST:PORT with one free port above 1023 for all nodes, for example 29500.",
        )
    return None


def _no_host_hint(host: str) -> str:
    """What may have been meant by what is no name of a host."""
    if host.isdigit():
        return "A variable of another meaning? The nodes are in $SLURM_JOB_NODELIST, $PBS_NODEFILE or $LSB_HOSTS."
    if "://" in host:
        return "Write HOST:PORT alone, without a protocol in front."
    if "[" in host and "$" not in host:
        return (
            'That is a list of nodes, as Slurm shortens it: scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1 '
            "is the first of them."
        )
    if re.fullmatch(r"\S+\s+\d+", host):
        return "Between the host and its port stands a colon: HOST:PORT."
    if re.search(r"\s", host):
        return "Those are several: all nodes meet at one, for example the first, as `head -n 1` gives it."
    return "Is something in it that the shell should have filled in? Double quotes let it do so, single ones do not."


def _names(endpoint: Endpoint, hosts: Sequence[str], node: int) -> bool:
    return node < len(hosts) and endpoint.host in (hosts[node].lower(), f"10.0.0.{node + 1}")


def _each(values: Mapping[int, object], verb: str = "meets at ") -> str:
    told = [f"node {node} {verb}{value}" for node, value in values.items()]
    return listed(told)
