"""What can be wrong with what a script started: one sentence for each, with what to try next."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from graders.launch.starts import Endpoint, NodeRun, Start, by_node
from lockstep.text import last_lines

TRAINING = "ddp_train.py"
# What everybody is given, and few hand in: the same training in one process.
GIVEN = "train_noddp.py"
CONTINUATION = (
    "A backslash continues a line only as its very last character: nothing may follow it, not even a space or "
    "a comment, and the next line must belong to the command."
)
# Behind the script these are the script's; none of the course's scripts has an option of such a name.
OWN_OPTION = re.compile(
    r"--(nnodes|nproc[-_]per[-_]node|standalone|rdzv[-_]\w+|node[-_]rank|master[-_](addr|port))\b"
)
# Those of torch.distributed.elastic's own; a hand-in that registers another does so under one of these words.
BACKENDS = ("static", "c10d", "etcd", "etcd-v2")
REGISTERS = re.compile(rb"torchrun\.handlers|rendezvous_handler_registry")
# What a script that belongs to a group of processes has in it, by itself or in what does it for it.
GROUP = re.compile(
    rb"(?i:distributed|process_group|all_reduce|nccl|gloo|\bddp\b|lightning|accelerate|deepspeed|horovod|fabric|"
    rb"transformers|ignite|composer|colossal|fairscale|megatron|mpi4py|\bray\b)|RANK\b|\bWORLD_SIZE\b|"
    rb"importlib|__import__|runpy|subprocess|\bexec\b"
)
START_WITH_TORCHRUN = (
    "torchrun --nproc-per-node 2 ... ddp_train.py starts the processes and tells them apart."
)


class Stage(IntEnum):
    """How far a script came; the fault of the furthest way to run it is the one worth telling."""

    ENDLESS = 0
    NOTHING = 1
    NO_TORCHRUN = 2
    UNREADABLE = 3
    NUMBERS = 4
    SCRIPT = 5
    MEETING = 6


@dataclass(frozen=True)
class Fault:
    """A message, a hint, and how far the script came."""

    stage: Stage
    message: str
    hint: str


def single_fault(path: str, way: Sequence[NodeRun], host: str, files: Mapping[str, bytes]) -> Fault | None:
    """What keeps a script from training on the one node that it runs on."""
    call = f"`bash {path}`"
    starts = by_node(way)
    if fault := early_fault(way, starts, call):
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
    if fault := devices_fault(call, start):
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
    if fault := early_fault(way, starts, call):
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
        if fault := script_fault(where, start, files) or devices_fault(where, start):
            return fault
    return meeting_fault(call, team, hosts)


def meeting_fault(call: str, team: Mapping[int, Start], hosts: Sequence[str]) -> Fault | None:
    """Whether the nodes of a team would find one another; each node's only start is given."""
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
            'Hand on the number of the node, --node-rank "$NODE_RANK"; without the option it is 0 everywhere. Or use '
            "--rdzv-backend c10d with --rdzv-endpoint, where nobody needs a number.",
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
            f"{where} meets at {endpoint}, which is no name of a host.",
            "Is something in it that the shell should have filled in? Double quotes let it do so, single ones do not."
            if not endpoint.host.isdigit()
            else "A variable of another meaning? The nodes are in $SLURM_JOB_NODELIST, $PBS_NODEFILE or $LSB_HOSTS.",
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


def _names(endpoint: Endpoint, hosts: Sequence[str], node: int) -> bool:
    return node < len(hosts) and endpoint.host in (hosts[node].lower(), f"10.0.0.{node + 1}")


def _each(values: Mapping[int, object], verb: str = "meets at ") -> str:
    told = [f"node {node} {verb}{value}" for node, value in values.items()]
    return f"{', '.join(told[:-1])} and {told[-1]}" if len(told) > 1 else told[0]


def script_fault(call: str, start: Start, files: Mapping[str, bytes]) -> Fault | None:
    """Whether what torchrun starts is a training script that lies where torchrun looks for it."""
    known = {file.rpartition("/")[2] for file in files if file.endswith(".py")} | {TRAINING}
    # What a script has made itself, a copy or a program out of a notebook, was not handed in and is there.
    if start.script_name not in known and not start.there:
        if not start.script.strip() or start.script.strip().startswith(("-", "#", "\\")):
            return Fault(
                Stage.SCRIPT,
                f"{call} breaks off before the script: torchrun takes `{start.script}` for one.",
                CONTINUATION,
            )
        return Fault(
            Stage.SCRIPT,
            f"{call} starts {start.script} with torchrun, and no such file was handed in.",
            f"Start {TRAINING}; torchrun's own options stand in front of it, the script's behind it.",
        )
    if late := [word for word in start.arguments if OWN_OPTION.match(word)]:
        return Fault(
            Stage.SCRIPT,
            f"{call} writes {late[0]} behind {start.script}: torchrun hands it to the script instead of reading it.",
            "torchrun's own options stand in front of the script, the script's behind it.",
        )
    if not start.there and not start.script.startswith(("/", "~")):
        return Fault(
            Stage.SCRIPT,
            f"{call} starts torchrun in the folder {_folder(start)} with {start.script}, and there is no such file "
            "from there.",
            "A job of PBS and a command over ssh begin in the home folder: change to the folder of the script first."
            if start.folder == "~"
            else 'Change to the folder of the script first: cd "$(dirname "$0")/.." leads from launch/ to the folder '
            "above.",
        )
    return backend_fault(call, start.backend, files) or alone_fault(call, start.script_name, files)


def backend_fault(call: str, backend: str, files: Mapping[str, bytes]) -> Fault | None:
    """Whether torchrun knows no rendezvous backend of this name; a variable may hold any."""
    if backend in BACKENDS or "$" in backend or any(map(REGISTERS.search, files.values())):
        return None
    return Fault(
        Stage.MEETING,
        f"{call} gives torchrun --rdzv-backend {backend}: no rendezvous backend of that name is registered.",
        "It says how nodes find one another: c10d, or static. What they then send data with, nccl or gloo, the "
        "training script tells init_process_group.",
    )


def alone_fault(call: str, name: str, files: Mapping[str, bytes]) -> Fault | None:
    """Whether the script of this name is one of a single process, as far as it was handed in."""
    given = name == GIVEN and not any(path.rpartition("/")[2] == name for path in files)
    if name == TRAINING or not (given or _stays_alone(name, files)):
        return None
    return Fault(
        Stage.SCRIPT,
        f"{call} starts {name}, which knows of no process group: every process trains a model of its own.",
        f"Start {TRAINING}, or what else calls torch.distributed.",
    )


def _stays_alone(name: str, files: Mapping[str, bytes]) -> bool:
    """Whether neither a script nor what it imports of what was handed in has anything of a process group in it."""
    own = [content for path, content in files.items() if path.rpartition("/")[2] == name]
    others = {
        path.rpartition("/")[2].removesuffix(".py").encode()
        for path, content in files.items()
        if path.endswith(".py") and GROUP.search(content)
    }
    imported = {
        word
        for content in own
        for line in content.splitlines()
        if line.lstrip().startswith((b"import ", b"from "))
        for word in re.findall(rb"\w+", line)
    }
    return bool(own) and not any(map(GROUP.search, own)) and not others & imported


def devices_fault(call: str, start: Start) -> Fault | None:
    """Whether CUDA_VISIBLE_DEVICES leaves a GPU to each process of a node.

    Empty it hides all, for a training on CPUs. With --nproc-per-node gpu torchrun counts those that it leaves.
    """
    devices = start.places.get("CUDA_VISIBLE_DEVICES", "").replace(" ", "").split(",")
    count = start.nproc or 0
    on_cpus = any(re.search("cpu|gloo", word) for word in start.arguments)
    if (
        len(devices) >= count
        or on_cpus
        or not all(re.fullmatch(r"\d+|(GPU|MIG)-\S+", name) for name in devices)
    ):
        return None
    return Fault(
        Stage.SCRIPT,  # looked at behind the script
        f"{call} starts {count} processes, and CUDA_VISIBLE_DEVICES={','.join(devices)[:80]} leaves them "
        f"{len(devices)} GPU{plural(len(devices))}: there is none for LOCAL_RANK {len(devices)}.",
        "List one GPU for each process, CUDA_VISIBLE_DEVICES=0,1 for two, or do not set it. srun sets it where it is "
        "told a number of GPUs: by itself it hands on all that the job has.",
    )


def _folder(start: Start) -> str:
    if start.folder == "~":
        return "of the user's home"
    return "that was handed in" if start.folder in ("", ".") else start.folder


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


def plural(count: int) -> str:
    """The ending of a word that is counted."""
    return "" if count == 1 else "s"


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


# Scripts that do not come as far as torchrun


def early_fault(way: Sequence[NodeRun], starts: Mapping[int, Sequence[Start]], call: str) -> Fault | None:
    """What keeps a script from coming as far as a torchrun that takes its command line."""
    for run in way:
        if run.status is None:
            return Fault(
                Stage.ENDLESS,
                f"{call} did not come to an end, though what it starts ends at once here.{printed(run)}",
                "Is there a loop that waits for something, or a question to somebody at the keyboard?",
            )
    if not any(starts.values()):
        return nothing_fault(way[0] if way else NodeRun(0, None, "", ()), call)
    for own in starts.values():
        for start in own:
            if start.kind != "torchrun":
                return no_torchrun_fault(start, call)
            if start.problem:
                return unreadable_fault(start, call)
    return None


def nothing_fault(run: NodeRun, call: str) -> Fault:
    """The script ended, and started nothing on the way."""
    ended = "to its end" if run.status == 0 else f"until it ended with status {run.status}"
    hint = _shell_hint(run.output) or (
        "It prints the command instead of running it: take the echo and the quotes away."
        if re.search(r"torchrun|torch\.distributed", run.output)
        else "Does it leave before that line, or is the line a comment, or in a function that nothing calls?"
        if run.status == 0
        else "Run it in a terminal; `bash -x` shows every line that it comes to."
    )
    return Fault(Stage.NOTHING, f"{call} ran {ended} and started no torchrun.{printed(run)}", hint)


def no_torchrun_fault(start: Start, call: str) -> Fault:
    """The script started something else."""
    if start.kind == "submits":
        return Fault(
            Stage.NO_TORCHRUN,
            f"{call} hands a job to a scheduler with {start.program} and starts no torchrun itself.",
            "This file is what runs on a node. The file for the scheduler is another one, train.slurm, .pbs or .lsf.",
        )
    if start.kind == "other":
        return Fault(
            Stage.NO_TORCHRUN,
            f"{call} starts the processes with {start.program}; the exercise is about torchrun.",
            START_WITH_TORCHRUN,
        )
    return Fault(
        Stage.NO_TORCHRUN,
        f"{call} starts {start.script or 'the script'} with python: that is one process, which knows of no others.",
        START_WITH_TORCHRUN,
    )


def unreadable_fault(start: Start, call: str) -> Fault:
    """Torchrun refuses its command line."""
    hint = "Compare with `torchrun --help`. Its own options stand in front of the script, the script's behind it."
    if "required" in start.problem:
        hint = (
            f"The script, {TRAINING}, is missing at the end, or the line breaks off before it. {CONTINUATION}"
        )
    if "PET_" in start.problem:
        hint = "Variables that begin with PET_ set torchrun's options; flags among them take 0 or 1."
    return Fault(
        Stage.UNREADABLE, f"{call}: torchrun does not take `{start.command}`: {start.problem}.", hint
    )


def printed(run: NodeRun) -> str:
    """The end of what a script printed, as a sentence; nothing where it printed nothing."""
    return f" Its last lines: {last_lines(run.output)}" if run.output.strip() else ""


_UNSET = "Nothing sets {0}. A node is given NODE_RANK, MASTER_ADDR and MASTER_PORT."
_UNASKED = (
    "Slurm sets SLURM_{0} only for a job that asks with the option of that name, such as --gpus-per-node or "
    "--cpus-per-task. SLURM_GPUS_ON_NODE and SLURM_CPUS_ON_NODE are there in every job."
)
# What bash prints, and what it usually means; {0} is the word in brackets.
_SHELL_HINTS: Sequence[tuple[str, str]] = (
    (
        r"\\r'|\r",
        "The file has the line ends of Windows: save it with LF, for example with `sed -i 's/\\r$//' FILE`.",
    ),
    (r"--?[\w-]+\S*: command not found", CONTINUATION),
    (r"SLURM_(GPUS|GPUS_PER_NODE|GPUS_PER_TASK|CPUS_PER_TASK|NTASKS_PER_NODE): unbound variable", _UNASKED),
    (r"(\w+): unbound variable", _UNSET),
    (r"(\w+): parameter (?:null or )?not set", _UNSET),
    (
        r"cd: \S+: No such file",
        'That folder is only on your own machine: begin from the script\'s, "$(dirname "$0")".',
    ),
    (
        r"syntax error|unexpected (?:EOF|end of file)",
        "The shell cannot read the file: look for a quote, an if or a loop that is not closed.",
    ),
    (r"is not written yet", "This part of the template is not filled in yet."),
    (
        r"(\S+): command not found",
        "There is no program {0} where this is graded; torchrun and what schedulers offer are there.",
    ),
)


def _shell_hint(output: str) -> str:
    for pattern, hint in _SHELL_HINTS:
        if match := re.search(pattern, output):
            return hint.replace("{0}", match[1] if match.lastindex else "")
    return ""
