"""Runs launch scripts in the sandbox, in the ways in which a course, a scheduler or a person would."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from numpy.random import Generator

from graders.launch.fault import TRAINING, Fault, Stage
from graders.launch.faults import multi_fault, single_fault
from graders.launch.schedulers import PBS, SLURM, Header
from graders.launch.starts import NodeRun, read_ways
from lockstep.check import Check
from lockstep.compare import elements
from lockstep.sandbox.machines import NUMBERS, STEMS
from lockstep.sandbox.starvation import LONGEST
from lockstep.submission import misnamed
from lockstep.verdict import CheckEnded, Failed, Hung
from lockstep.wire import Json

SINGLE, MULTI = "torchrun_single.sh", "torchrun_multi.sh"
# A script that only starts stand-ins takes a tenth of a second; this is for one that waits.
SCRIPT_SECONDS = 10.0
GPUS = 2
MOST_NODES = 16
# Where a job was handed in, which is none of its nodes.
LOGIN = "login"
# A script may look for something that only exists where it will run.
PLACEHOLDER = b'raise SystemExit("only the launch files are looked at here")\n'
READS_ARGUMENTS = re.compile(r"\$\{?[1-9]\b|\bgetopts?\b|\bshift\b")

Way = list[dict[str, Json]]
Judge = Callable[[Sequence[NodeRun]], Fault | None]


@dataclass(frozen=True)
class Lab:
    """The machines that exist for one check: their names, a port, the number of a job, its tasks and GPUs on each."""

    hosts: tuple[str, ...]
    port: int
    job: int
    slots: int = 1
    gpus: int = GPUS

    @staticmethod
    def draw(rng: Generator, nodes: int = 2) -> Lab:
        """Names and numbers that no script can know beforehand."""
        stem = rng.choice(STEMS)
        hosts = tuple(f"{stem}{number}" for number in rng.choice(NUMBERS, size=nodes, replace=False))
        return Lab(hosts, int(rng.integers(20_000, 45_000)), int(rng.integers(100_000, 1_000_000)))

    def values(self, ways: Sequence[Way]) -> dict[str, Json]:
        """What the probe is told."""
        cluster: Json = {"hosts": list(self.hosts), "gpus": self.gpus, "slots": self.slots}
        return {"ways": cast(Json, list(ways)), "cluster": cluster, "seconds": SCRIPT_SECONDS}

    def node(self, node: int) -> dict[str, str]:
        """The environment that the template says a node has."""
        return {"NODE_RANK": str(node), "MASTER_ADDR": self.hosts[0], "MASTER_PORT": str(self.port)}

    def data(self) -> dict[str, dict[str, bytes]]:
        """The file of hosts that PBS and LSF write, with a line for each task, and Torque's of GPUs."""
        hosts = "".join(f"{host}\n" * self.slots for host in self.hosts)
        gpus = "".join(f"{host}-gpu{number}\n" for host in self.hosts for number in range(self.gpus))
        return {"job": {"hosts": hosts.encode(), "gpus": gpus.encode()}}


@dataclass(frozen=True)
class Chosen:
    """The best way to run a script: how, what came of it, and what was wrong with it, if anything."""

    way: Way
    runs: list[NodeRun]
    fault: Fault | None


def tree(check: Check) -> Mapping[str, bytes]:
    """What was handed in; where there is no folder `launch`, all of it is taken for that folder."""
    if any(path.startswith("launch/") for path in check.submission.files):
        return check.submission.files
    return {f"launch/{path}": content for path, content in check.submission.files.items()}


def launch_text(check: Check) -> str:
    """All launch files, one behind the other."""
    files = tree(check).items()
    return "\n".join(data.decode("utf-8", "replace") for path, data in files if path.startswith("launch/"))


def insist_on(check: Check, name: str) -> str:
    """The path of a launch file. Raises Failed when there is none."""
    files, path = tree(check), f"launch/{name}"
    if path in files:
        return path
    elsewhere = next((path for path in sorted(check.submission.files) if path.endswith(f"/{name}")), None)
    near = misnamed(check.submission, path)
    there = f" There is {elsewhere}; move it there." if elsewhere else f" {near}." if near else ""
    raise Failed(
        f"There is no launch/{name} in what you handed in.{there}", "The template has a place for it."
    )


def choose(check: Check, lab: Lab, ways: Sequence[Way], judge: Judge) -> Chosen:
    """Run the first way, and only if something is wrong with it the others; the first without a fault, or the
    one that came furthest.
    """
    tried: list[Chosen] = []
    for group in (ways[:1], ways[1:]):
        if not group:
            continue
        seen = check.run(
            "record",
            values=lab.values(group),
            data=lab.data(),
            files=missing_files(check),
            seconds=check_seconds(group),
        )
        for way, runs in zip(group, read_ways(seen.ranks[0].values.get("ways")), strict=False):
            tried.append(Chosen(way, runs, judge(runs)))
            if tried[-1].fault is None:
                return tried[-1]
        if not tried or (tried[-1].fault and tried[-1].fault.stage is Stage.ENDLESS):
            break
    if not tried:
        raise Failed(
            "What the script started could not be recorded.", "Does it write to files that are not its own?"
        )
    return max(tried, key=lambda chosen: chosen.fault.stage if chosen.fault else -1)


def check_seconds(ways: Sequence[Way]) -> float:
    """A wall limit above the scripts' own, the sum of which only a submission of endless ones could need.

    Theirs are stretched on a busy machine, by what this one may not see.
    """
    return LONGEST * (2 * SCRIPT_SECONDS + sum(len(way) for way in ways)) + 5.0


def missing_files(check: Check) -> dict[str, bytes]:
    """What is laid beside what was handed in: the folder `launch`, and a training script, which is another exercise."""
    laid = {path: content for path, content in tree(check).items() if path not in check.submission.files}
    return laid if TRAINING in check.submission.files else {**laid, TRAINING: PLACEHOLDER}


def end(fault: Fault) -> None:
    """End the check with a fault."""
    raise (Hung if fault.stage is Stage.ENDLESS else Failed)(fault.message, fault.hint)


def run_single(check: Check, path: str) -> Chosen:
    """Run torchrun_single.sh as the only node."""
    lab = Lab.draw(check.rng, 1)
    ways = [[single_run(path, folder)] for folder in _folders(path)]
    if READS_ARGUMENTS.search(source(check, path)):
        ways += [[single_run(path, "", arguments=[word])] for word in (str(GPUS), TRAINING)]
    return choose(
        check, lab, ways, lambda runs: single_fault(path, runs, lab.hosts[0], check.submission.files)
    )


def run_multi(check: Check, path: str) -> tuple[Chosen, Lab]:
    """Run torchrun_multi.sh as both of two nodes, and tell it in several ways which of them it is."""
    lab = Lab.draw(check.rng)

    def judge(runs: Sequence[NodeRun]) -> Fault | None:
        return multi_fault(path, runs, lab.hosts, check.submission.files)

    plain = [_both(lab, path, folder) for folder in _folders(path)]
    ways = [*plain, _both(lab, path, "", scheduler=True)]
    if READS_ARGUMENTS.search(source(check, path)):
        ways += [_both(lab, path, "", arguments=arguments) for arguments in _arguments(lab)]
    chosen = choose(check, lab, ways, judge)
    if chosen.fault is None or chosen.fault.stage is Stage.ENDLESS:
        return chosen, lab
    # A script may compare the name of its node with the one that all shall meet at.
    named = {
        start.endpoint.host for run in chosen.runs for start in run.starts if not start.endpoint.is_local
    }
    host = next(
        (name for name in sorted(named) if name not in lab.hosts and re.fullmatch(r"[\w.-]+", name)), None
    )
    if host is not None:
        renamed = Lab((host, lab.hosts[1]), lab.port, lab.job)
        other = choose(check, renamed, [_both(renamed, path, "")], judge)
        if other.fault is None:
            return other, renamed
    return chosen, lab


def _both(
    lab: Lab,
    path: str,
    folder: str,
    *,
    scheduler: bool = False,
    arguments: Callable[[int], list[str]] | None = None,
) -> Way:
    way = []
    for node in range(len(lab.hosts)):
        environment = lab.node(node)
        if scheduler:
            environment |= any_scheduler(lab, node)
        way.append(single_run(path, folder, environment, arguments(node) if arguments else [], node))
    return way


def single_run(
    path: str,
    folder: str,
    environment: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
    node: int = 0,
) -> dict[str, Json]:
    """One run of a script as one node, as the probe is told of it."""
    return {
        "script": path,
        "folder": folder,
        "node": node,
        "environment": dict(environment or {}),
        "arguments": list(arguments),
    }


def arguments_of(run: Mapping[str, Json]) -> list[str]:
    """What the script was told in one run of a way."""
    words = run["arguments"]
    return [str(word) for word in elements(words)]


def _folders(path: str) -> list[str]:
    """Where a person might stand who starts the script: in the folder handed in, or in the script's own."""
    own = path.rpartition("/")[0]
    return ["", own] if own else [""]


def _arguments(lab: Lab) -> list[Callable[[int], list[str]]]:
    address, port = lab.hosts[0], str(lab.port)
    return [
        lambda node: [str(node)],
        lambda node: [address],
        lambda node: [str(node), address],
        lambda node: [address, str(node)],
        lambda node: [str(node), address, port],
        lambda node: [address, port, str(node)],
        lambda node: [address, port],
        lambda node: [address, TRAINING],
        lambda node: [f"{address}:{port}", str(node)],
        lambda node: ["2", str(node), address, port],
        lambda node: ["--node-rank", str(node), "--master-addr", address, "--master-port", port],
        lambda node: ["-r", str(node), "-a", address, "-p", port],
    ]


def source(check: Check, path: str) -> str:
    """The text of a launch file."""
    return tree(check)[path].decode("utf-8", "replace")


# What schedulers tell a job


def any_scheduler(lab: Lab, node: int) -> dict[str, str]:
    """The variables of every scheduler at once, one task on each node."""
    count = len(lab.hosts)
    header = Header(
        SLURM, (), (), None, True, nodes=count, tasks_per_node=1, gpus_per_node=GPUS,
        options=dict.fromkeys(("cpus-per-task", "gpus", "gpus-per-node", "gpus-per-task", "ntasks-per-node"), ""),
    )  # fmt: skip
    told = {**_slurm(lab, header, node), **_pbs(lab, header, node), **_lsf(lab, header)}
    more = {
        "NNODES": count,
        "NUM_NODES": count,
        "GROUP_RANK": node,
        "RANK": node,
        "OMPI_COMM_WORLD_RANK": node,
    }
    return {**told, **{name: str(value) for name, value in more.items()}}


def batch(lab: Lab, header: Header) -> dict[str, str]:
    """The variables of a job's own script, which runs on the first node."""
    if header.scheduler is SLURM:
        return _slurm(lab, header, 0)
    return _pbs(lab, header, 0) if header.scheduler is PBS else _lsf(lab, header)


# As the option has it.
_SLURM_AS_ASKED = {
    "mem": "SLURM_MEM_PER_NODE", "mem-per-cpu": "SLURM_MEM_PER_CPU", "mem-per-gpu": "SLURM_MEM_PER_GPU",
    "cpus-per-gpu": "SLURM_CPUS_PER_GPU", "ntasks-per-gpu": "SLURM_NTASKS_PER_GPU",
    "reservation": "SLURM_JOB_RESERVATION",
}  # fmt: skip


def _slurm(lab: Lab, header: Header, node: int) -> dict[str, str]:
    """What sbatch(1) promises under OUTPUT ENVIRONMENT VARIABLES; some only where their option is given."""
    nodes, per_node, gpus = str(len(lab.hosts)), header.tasks_per_node, header.gpus_per_node
    asked = header.options.keys()
    letters = lab.hosts[0].rstrip("0123456789")
    numbers = ",".join(host.removeprefix(letters) for host in lab.hosts)
    hosts = f"{letters}[{numbers}]" if len(lab.hosts) > 1 else lab.hosts[0]
    tasks = str(len(lab.hosts) * (per_node or 1))
    told = {
        "SLURM_JOB_ID": str(lab.job), "SLURM_JOBID": str(lab.job), "SLURM_JOB_NAME": "job",
        "SLURM_JOB_NODELIST": hosts, "SLURM_NODELIST": hosts, "SLURM_JOB_NUM_NODES": nodes, "SLURM_NNODES": nodes,
        "SLURM_NODEID": str(node), "SLURM_PROCID": str(node), "SLURM_LOCALID": "0", "SLURM_CPUS_ON_NODE": "8",
        "SLURM_SUBMIT_DIR": "@WORK", "SLURM_SUBMIT_HOST": LOGIN, "SLURM_JOB_PARTITION": "gpu",
        "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.1", "SLURMD_NODENAME": lab.hosts[node],
        "SLURM_RESTART_COUNT": "0", "SLURM_TMPDIR": "/tmp", "SLURM_CLUSTER_NAME": "cluster", "SLURM_JOB_QOS": "normal",
        "SLURM_JOB_ACCOUNT": "course", "SLURM_JOB_USER": "student", "SLURM_JOB_UID": "1000", "SLURM_JOB_GID": "1000",
        "SLURM_JOB_START_TIME": "1760000000", "SLURM_JOB_END_TIME": "1760003600", "SLURM_TASK_PID": "1000",
        "SLURM_GTIDS": str(node), "SLURM_TOPOLOGY_ADDR": lab.hosts[node], "SLURM_TOPOLOGY_ADDR_PATTERN": "node",
        "SLURM_TASKS_PER_NODE": _on_each(per_node or 1, lab), "SLURM_JOB_CPUS_PER_NODE": _on_each(8, lab),
    }  # fmt: skip
    if per_node:
        told |= {"SLURM_NTASKS": tasks, "SLURM_NPROCS": tasks}
        told |= {"SLURM_NTASKS_PER_NODE": str(per_node)} if "ntasks-per-node" in asked else {}
    if asked & {"cpus-per-task", "tres-per-task"}:
        told["SLURM_CPUS_PER_TASK"] = "8"
    for option, name in _SLURM_AS_ASKED.items():
        told |= {name: header.options[option]} if option in asked else {}
    if "array" in asked:
        told |= dict.fromkeys(("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN"), "1")
        told |= {"SLURM_ARRAY_TASK_MAX": "1", "SLURM_ARRAY_JOB_ID": str(lab.job)}
    if gpus:
        told |= {"SLURM_GPUS_ON_NODE": str(gpus), "SLURM_JOB_GPUS": ",".join(map(str, range(gpus)))}
        told |= {"SLURM_GPUS_PER_NODE": str(gpus)} if "gpus-per-node" in asked else {}
        told |= {"SLURM_GPUS": str(gpus * len(lab.hosts))} if "gpus" in asked else {}
        if asked & {"gpus-per-task", "tres-per-task"}:
            told["SLURM_GPUS_PER_TASK"] = str(max(1, gpus // (per_node or 1)))
    return told


def _on_each(count: int, lab: Lab) -> str:
    return f"{count}(x{len(lab.hosts)})" if len(lab.hosts) > 1 else str(count)


def _pbs(lab: Lab, header: Header, node: int) -> dict[str, str]:
    told = {
        "PBS_JOBID": f"{lab.job}.server", "PBS_JOBNAME": "job", "PBS_O_WORKDIR": "@WORK", "PBS_O_HOST": LOGIN,
        "PBS_NODEFILE": "/data/job/hosts", "PBS_NODENUM": str(node), "PBS_TASKNUM": str(node + 1),
        "PBS_NUM_NODES": str(len(lab.hosts)), "PBS_ENVIRONMENT": "PBS_BATCH", "NCPUS": "8", "PBS_QUEUE": "gpu",
        "PBS_JOBDIR": "@WORK", "PBS_NGPUS": str(header.gpus_per_node or 0), "PBS_O_HOME": "/home/student",
        "PBS_O_LOGNAME": "student", "PBS_O_QUEUE": "gpu", "PBS_O_SHELL": "/bin/bash", "PBS_O_PATH": "/usr/bin:/bin",
        "PBS_O_SYSTEM": "Linux", "PBS_O_LANG": "C.UTF-8", "PBS_O_MAIL": "/var/mail/student",
    }  # fmt: skip
    if re.search(r"\bnodes=", " ".join(line.text for line in header.directives)):
        # Torque's own.
        told |= {
            "PBS_GPUFILE": "/data/job/gpus", "PBS_NUM_PPN": str(lab.slots), "PBS_NP": str(lab.slots * len(lab.hosts)),
            "PBS_WALLTIME": str(header.seconds or 0), "PBS_SERVER": "server", "PBS_O_SERVER": "server",
            "PBS_VNODENUM": "0", "PBS_VERSION": "TORQUE-6.1.2", "PBS_MOMPORT": "15003",
        }  # fmt: skip
    return told


def _lsf(lab: Lab, header: Header) -> dict[str, str]:
    slots = header.tasks_per_node or 1
    return {
        "LSB_JOBID": str(lab.job), "LSB_SUB_HOST": LOGIN, "LSB_JOBNAME": "job",
        "LS_SUBCWD": "@WORK", "LSB_SUBCWD": "@WORK",
        "LSB_HOSTS": " ".join(host for host in lab.hosts for _ in range(slots)),
        "LSB_MCPU_HOSTS": " ".join(f"{host} {slots}" for host in lab.hosts),
        "LSB_DJOB_HOSTFILE": "/data/job/hosts", "LSB_DJOB_RANKFILE": "/data/job/hosts", "LSB_JOBINDEX": "0",
        "LSB_BATCH_JID": str(lab.job), "LSB_PROJECT_NAME": "default", "LSFUSER": "student", "LS_EXECCWD": "@WORK",
        "LS_JOBPID": "1000", "LSB_DJOB_NUMPROC": str(slots * len(lab.hosts)),
        "LSB_MAX_NUM_PROCESSORS": str(slots * len(lab.hosts)), "LSB_QUEUE": "gpu",
    }  # fmt: skip


# For what compares the launch files with one another


def multi_size(check: Check) -> tuple[int, int] | None:
    """Nodes and processes on each, as torchrun_multi.sh starts them; None when that cannot be told."""
    try:
        chosen, _ = run_multi(check, insist_on(check, MULTI))
    except CheckEnded:
        return None
    starts = [
        start for run in chosen.runs for start in run.starts if start.kind == "torchrun" and not start.problem
    ]
    each = starts[0].processes(GPUS) if starts else None
    return None if each is None else (starts[0].nodes[1], each)
