"""Jobs for a cluster: what the top of the file asks for, and whether what it then starts fits that."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from graders.launch.early_faults import early_fault, text_of
from graders.launch.fault import Fault, Stage, plural
from graders.launch.header_slips import header_slip
from graders.launch.headers import read_header, scheduler_of
from graders.launch.meeting_faults import meeting_fault, place_fault
from graders.launch.reach import reach_fault
from graders.launch.schedulers import LSF, PBS, SLURM, Header
from graders.launch.script_faults import devices_fault, late_options, script_fault
from graders.launch.script_options import option_fault
from graders.launch.scripts import (
    GPUS,
    LOGIN,
    MOST_NODES,
    Chosen,
    Lab,
    batch,
    choose,
    launch_text,
    single_run,
    source,
    tree,
)
from graders.launch.starts import Endpoint, NodeRun, Start, by_node
from graders.launch.timeouts import started_fault
from lockstep.check import Check
from lockstep.wire import Json

# What tells a task its place in a job without torchrun.
_PLACES = {
    SLURM.name: "SLURM_PROCID, SLURM_LOCALID and SLURM_NTASKS",
    PBS.name: "PMI_RANK, PMI_LOCAL_RANK and PMI_SIZE, or Open MPI's OMPI_COMM_WORLD_RANK and the like",
    LSF.name: "OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_LOCAL_RANK and OMPI_COMM_WORLD_SIZE",
}
MOST_TASKS = 16  # of a node, that are emulated
# `train.slurm` and so on; the suffixes that people use besides.
SUFFIXES = (".slurm", ".sbatch", ".pbs", ".qsub", ".lsf", ".bsub", ".sh")
# `#SBATCH --export=ALL,NAME=value`, `#PBS -v NAME=value`, `#BSUB -env "all, NAME=value"`.
EXPORTS = {SLURM.name: "export", PBS.name: "v", LSF.name: "env"}


def find_jobs(check: Check) -> list[tuple[str, Header]]:
    """Every file of a job and its header, those with the exercise's own name first."""
    found = []
    for path, content in sorted(tree(check).items()):
        folder, _, name = path.rpartition("/")
        if folder != "launch" or not name.lower().endswith(SUFFIXES):
            continue
        text = content.decode("utf-8", "replace")
        scheduler = scheduler_of(path, text)
        if scheduler is not None and not name.startswith("torchrun_"):
            found.append((path, read_header(scheduler, text)))
    return sorted(found, key=lambda job: not job[0].rpartition("/")[2].startswith("train."))


def header_fault(path: str, header: Header) -> Fault | None:
    """What is wrong with the directives themselves."""
    scheduler = header.scheduler
    if scheduler.needs_shebang and not header.shebang:
        return Fault(
            Stage.NOTHING,
            f"{scheduler.submit} refuses {path}: its first line is not `#!/bin/bash`.",
            "The first two characters of the file have to be #!, with nothing in front, not even an empty line.",
        )
    if header.unread and header.command:
        late = header.unread[0]
        return Fault(
            Stage.UNREADABLE,
            f"{path}: {scheduler.submit} does not read line {late.number}, `{late.text[:80]}`. The first command, in "
            f"line {header.command.number}, `{header.command.text[:60]}`, ends the part that it reads.",
            f"Move all {scheduler.prefix} lines above the first command.",
        )
    if not header.directives:
        return Fault(
            Stage.NOTHING,
            f"{path} asks {scheduler.name} for nothing: no line begins with {scheduler.prefix}.",
            f"Such a line begins in the first column with {scheduler.prefix}, for example `{scheduler.example}`.",
        )
    if header.problems:
        more = f" ({len(header.problems) - 1} more like this)" if len(header.problems) > 1 else ""
        return Fault(
            Stage.UNREADABLE,
            f"{path}: {header.problems[0]}{more}" + ("" if header.problems[0].endswith("?") else "."),
            f"Compare with the manual page of {scheduler.submit}.",
        )
    if header.walltime is None:
        return Fault(
            Stage.NUMBERS,
            f"{path} asks for no limit on the time (walltime): the queue's own applies, minutes on many clusters.",
            f"Add the longest time that the training may take, for example `{scheduler.example}`.",
        )
    if not header.gpus_per_node and not header.whole_nodes:
        return Fault(Stage.NUMBERS, f"{path} asks for no GPU.", f"Add {_gpu_example(header)}.")
    return None


def _gpu_example(header: Header) -> str:
    return {
        SLURM.name: "`#SBATCH --gres=gpu:2`, which is GPUs on each node",
        PBS.name: "`ngpus=2` to the chunk: `#PBS -l select=2:ncpus=8:ngpus=2`",
        LSF.name: '`#BSUB -gpu "num=2"`, which is GPUs on each host',
    }[header.scheduler.name]


def slip(check: Check, path: str, header: Header, runs: Sequence[NodeRun]) -> Fault | None:
    """What keeps a job from training to its end although all of it is well-formed."""
    if fault := header_slip(path, header):
        return fault
    team = {node: own[0] for node, own in sorted(by_node(runs).items()) if own}
    if fault := started_fault(path, [*team.values()], launch_text(check)):
        return fault
    if fault := reach_fault(path, team.values(), launch_text(check)) if len(team) > 1 else None:
        return fault
    first = next(iter(team.values()), None)
    nodes = [start.arguments for start in team.values()]
    return option_fault(check, path, first.script, nodes, source(check, path)) if first else None


def run_job(check: Check, path: str, header: Header) -> Chosen:
    """Run the job's commands as its first node would, and compare what starts where with the header."""
    if header.nodes > MOST_NODES:
        too_many = Fault(
            Stage.NUMBERS,
            f"{path} asks for {header.nodes} nodes.",
            "Two nodes with two GPUs each are enough.",
        )
        return Chosen([], [], too_many)
    # Torque lists a host for each of the cores that were asked for on it.
    cores = re.search(r":ppn=(\d{1,3})\b", " ".join(line.text for line in header.directives))
    slots = int(cores[1]) if cores else header.tasks_per_node
    lab = replace(
        Lab.draw(check.rng, header.nodes),
        slots=min(slots or 1, MOST_TASKS),
        gpus=min(header.gpus_per_node or GPUS, MOST_TASKS),
    )
    environment = batch(lab, header)
    own = path.rpartition("/")[0]
    exported = header.options.get(EXPORTS[header.scheduler.name], "")
    how: dict[str, Json] = {"job": True, "at_home": _begins_at_home(header), "export": exported}
    ways = [[{**single_run(path, "", environment), **how}]]
    if own:
        # Submitted from the folder of the launch files.
        moved = {name: f"@WORK/{own}" if value == "@WORK" else value for name, value in environment.items()}
        ways.append([{**single_run(path, own, moved), **how}])
    chosen = choose(check, lab, ways, lambda runs: job_fault(path, header, runs, lab, check.submission.files))
    fault = chosen.fault
    lost = (
        fault and fault.stage in (Stage.NOTHING, Stage.SCRIPT) and b"PBS_O_WORKDIR" not in tree(check)[path]
    )
    if fault and lost and how["at_home"]:
        told = 'PBS starts a job in the home folder: begin with cd "$PBS_O_WORKDIR", where qsub was called. '
        return replace(chosen, fault=replace(fault, hint=told + fault.hint))
    return chosen


def _begins_at_home(header: Header) -> bool:
    """Whether the job starts in the home folder of its owner; Torque's -d and -w and PBS's sandbox name another."""
    options = header.options
    return (
        header.scheduler is PBS and not {"d", "w"} & options.keys() and "sandbox" not in options.get("W", "")
    )


def job_fault(
    path: str, header: Header, runs: Sequence[NodeRun], lab: Lab, files: Mapping[str, bytes]
) -> Fault | None:
    """What is wrong with what a job started."""
    starts = by_node(runs)
    every = [start for own in starts.values() for start in own]
    if header.whole_nodes and every:
        each = every[0].processes(GPUS) if every[0].kind == "torchrun" else len(every) // header.nodes
        header = replace(header, gpus_per_node=each)
    if every and all(start.kind == "python" and "RANK" in start.places for start in every):
        return _without_torchrun(path, header, every)
    if fault := early_fault(runs, starts, path, text_of(path, files)):
        return fault
    busy = {node: own for node, own in starts.items() if own}
    for node, own in busy.items():
        if len(own) > 1:
            return _several(path, header, node, busy)
    team = {node: own[0] for node, own in sorted(busy.items())}
    for node, start in team.items():
        # What is not counted must not be taken for a wrong number.
        if late_options(start) and (fault := script_fault(f"{path} on node {node}", start, files)):
            return fault
    if fault := _numbers(path, header, team):
        return fault
    for node, start in team.items():
        where = f"{path} on node {node}"
        if fault := script_fault(where, start, files) or devices_fault(where, start, files):
            return fault
    fault = meeting_fault(path, team, lab.hosts, is_job=True) if header.nodes > 1 else None
    fault = fault or _login_fault(path, next(iter(team.values())))
    return fault or _one_by_one(path, header, team) or _left_behind(path, header, runs, team)


def _login_fault(path: str, start: Start) -> Fault | None:
    """A meeting on the machine where the job was handed in."""
    if start.endpoint.host != LOGIN:
        return None
    return Fault(
        Stage.MEETING,
        f"{path}: all meet at {start.endpoint}, the machine on which the job was handed in. No node of the "
        "job waits there.",
        "Take the first of the job's own nodes: they are in $SLURM_JOB_NODELIST, $PBS_NODEFILE or $LSB_HOSTS.",
    )


def _one_by_one(path: str, header: Header, team: Mapping[int, Start]) -> Fault | None:
    """Nodes that have to meet, each of which is started when the one before has ended."""
    late = [node for node, start in team.items() if start.late]
    if not late:
        return None
    first = next((node for node in team if node not in late), 0)
    return Fault(
        Stage.MEETING,
        f"{path} starts torchrun on node {late[0]} only once the one on node {first} has ended, and that one waits "
        f"for all {header.nodes} nodes.",
        "Start them side by side: an `&` behind each command of the loop and one `wait` behind the loop"
        + (", or one srun for all nodes." if header.scheduler is SLURM else "."),
    )


def _left_behind(
    path: str, header: Header, runs: Sequence[NodeRun], team: Mapping[int, Start]
) -> Fault | None:
    """A job's file that ends while torchrun runs in the background. What LSF does with that depends on its settings."""
    ended_well = all(run.status == 0 and "not found" not in run.output for run in runs)
    if header.scheduler is LSF or not ended_well or not any(start.left for start in team.values()):
        return None
    return Fault(
        Stage.MEETING,
        f"{path} comes to its end while torchrun still runs in the background: with the file the job ends, and "
        f"{header.scheduler.name} stops whatever is left of it.",
        "Write `wait` as the last line, or take the `&` away.",
    )


def _several(path: str, header: Header, node: int, busy: Mapping[int, Sequence[Start]]) -> Fault:
    starts = busy[node]
    each = starts[0].processes(header.gpus_per_node or 1) or 1
    hint = "Start torchrun once on each node; it starts the processes of its node by itself. "
    if len(busy) < header.nodes:
        hint += f"The commands of the file run on the first node only: {_starter(header)} runs one on another node."
    elif header.scheduler is SLURM:
        hint += (
            "srun starts one copy for each task: ask for --ntasks-per-node=1, and give srun no -n of its own."
        )
    else:
        listed_in = "$PBS_NODEFILE" if header.scheduler is PBS else "$LSB_HOSTS"
        hint += (
            f"{listed_in} may name a node once for each of its slots: `sort -u` leaves one of each. mpirun's -np "
            "counts the copies on all nodes."
        )
    return Fault(
        Stage.NUMBERS,
        f"{path} starts torchrun {len(starts)} times on node {node}, each with {each} process{'es' * (each != 1)}.",
        hint,
    )


def _numbers(path: str, header: Header, team: Mapping[int, Start]) -> Fault | None:
    """Nodes and GPUs: as many as were asked for."""
    gpus = header.gpus_per_node or 0
    for node, start in team.items():
        count = start.processes(gpus)
        if count is None or count != gpus:
            told = f"{count} process{'es' * (count != 1)}" if count else "no countable number of processes"
            return Fault(
                Stage.NUMBERS,
                f"{path} asks for {gpus} GPU{plural(gpus)} on each node, but torchrun starts {told} there.",
                "One process for each GPU: make --nproc-per-node and the number of GPUs asked for the same."
                + (" Without --nproc-per-node torchrun starts one." if "nproc" not in start.command else "")
                + (
                    " Is a variable empty? Slurm sets SLURM_GPUS_PER_NODE only where the header has --gpus-per-node."
                    if count is None and header.scheduler is SLURM
                    else ""
                ),
            )
        if start.nodes[1] != header.nodes:
            asked = f"{header.nodes} node{plural(header.nodes)}"
            return Fault(
                Stage.NUMBERS,
                f"{path} asks {header.scheduler.name} for {asked}, but torchrun is told --nnodes {start.nodes[1]}"
                + (" (its default)." if "nnodes" not in start.command and start.nodes[1] == 1 else "."),
                _nodes_hint(header, start),
            )
        if start.standalone and header.nodes > 1:
            return Fault(
                Stage.NUMBERS,
                f"{path} starts torchrun with --standalone on node {node}: the nodes never meet.",
                "Take --standalone out and let all nodes meet at the first one with --rdzv-endpoint.",
            )
    if len(team) != header.nodes:
        return Fault(
            Stage.NUMBERS,
            f"{path} starts torchrun on {len(team)} of {header.nodes} nodes; it would wait for the other in vain.",
            f"The commands of the file run on the first node only. {_starter(header)} runs a command on every node.",
        )
    return None


def _starter(header: Header) -> str:
    return {"Slurm": "srun", "PBS": "pbsdsh", "LSF": "blaunch"}[header.scheduler.name]


def _nodes_hint(header: Header, start: Start) -> str:
    if header.scheduler is LSF and header.nodes == 1 and start.nodes[1] > 1:
        ptile = re.search(r"ptile\s*=\s*(\d{1,4})", " ".join(line.text for line in header.directives))
        why = (
            f"ptile={ptile[1]} puts up to {ptile[1]} of the slots of -n on one host"
            if ptile
            else "span[hosts=1] keeps all slots on one host"
        )
        return f'{why}. For two ask for `-n 4 -R "span[ptile=2]"`, or the like.'
    variable = {"Slurm": '"$SLURM_JOB_NUM_NODES"', "PBS": '"$(sort -u "$PBS_NODEFILE" | wc -l)"', "LSF": "2"}
    return f"Make both the same, for example --nnodes {variable[header.scheduler.name]}."


def _without_torchrun(path: str, header: Header, starts: Sequence[Start]) -> Fault | None:
    """One task for each GPU, each told its place by variables: what torchrun would do."""
    gpus, nodes = header.gpus_per_node or 0, header.nodes
    world = gpus * nodes
    hint = (
        "Without torchrun every process needs RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, for example "
        f"from {_PLACES[header.scheduler.name]}: in the environment of each task, not of the job's file."
    )
    if len(starts) != world:
        return Fault(
            Stage.NUMBERS,
            f"{path} starts {len(starts)} process{'es' * (len(starts) != 1)}, but asks for {gpus} GPU{plural(gpus)} "
            f"on each of {nodes} node{plural(nodes)}.",
            "One process for each GPU, or torchrun once on each node.",
        )
    for name, wanted in (
        ("RANK", {str(rank) for rank in range(world)}),
        ("WORLD_SIZE", {str(world)}),
        ("LOCAL_RANK", {str(rank) for rank in range(gpus)}),
    ):
        seen = {start.places.get(name, "") for start in starts}
        if seen != wanted and not (name == "LOCAL_RANK" and seen == {"0"} and _see_one_gpu_each(starts)):
            return Fault(
                Stage.NUMBERS,
                f"{path} starts {world} processes: {name} is {_listed(seen)}{' in all of them' * (len(seen) == 1)}, "
                f"expected {_listed(wanted)}.",
                hint,
            )
    if all(any("file://" in word for word in start.words) for start in starts):
        return None  # they meet in a file, by --init-method
    addresses = {start.places.get("MASTER_ADDR", "") for start in starts}
    ports = {start.places.get("MASTER_PORT", "") for start in starts}
    if len(addresses) > 1 or len(ports) > 1:
        return Fault(Stage.MEETING, f"{path} gives its processes different places to meet.", hint)
    place = Start("torchrun", 0, "", endpoint=Endpoint(min(addresses).lower(), min(ports)), backend="static")
    return (place_fault(path, place) if nodes > 1 else None) or _login_fault(path, place)


def _see_one_gpu_each(starts: Sequence[Start]) -> bool:
    """Whether each process of a node sees one GPU, another than the others do; it is the first one for each of them."""
    seen = [(start.node, start.places.get("CUDA_VISIBLE_DEVICES", "")) for start in starts]
    return len(set(seen)) == len(seen) and all(
        re.fullmatch(r"\d+|GPU-[\w-]+", devices) for _, devices in seen
    )


def _listed(values: set[str]) -> str:
    return ", ".join(value or "(not set)" for value in sorted(values))


def cluster_job(check: Check) -> tuple[str, Header] | None:
    """The file of the job, and its header with the nodes and GPUs on each; None when that cannot be told."""
    jobs = find_jobs(check)
    return next((job for job in jobs if header_fault(*job) is None and job[1].gpus_per_node), None)
