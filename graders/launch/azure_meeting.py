"""How the machines and processes of an Azure ML command job find one another.

Sources: learn.microsoft.com, "Distributed GPU training guide" (`distribution: pytorch` starts the command
process_count_per_instance times on each machine and sets RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT,
NODE_RANK). What torchrun takes for an address and a number when nobody says them: torch 2.8, `distributed/run.py`;
that it reads PET_MASTER_ADDR and not MASTER_ADDR: `distributed/argparse_util.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from graders.launch.commands import Start, meets_itself
from graders.launch.handed_script import standalone_script
from graders.launch.manifests import Manifest, Reading, like, stated
from lockstep.text import safe_line
from lockstep.wire import Json
from lockstep.yamlfile import Place

KINDS = ("pytorch", "mpi", "tensorflow", "ray")
TOLD = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK"}
"""What `distribution: pytorch` sets."""
_OF_MPI = (("RANK", "(?:OMPI_COMM_WORLD|PMI)_RANK"), ("WORLD_SIZE", "(?:OMPI_COMM_WORLD|PMI)_SIZE"))
"""What torch's process group asks for, and what has it where mpirun starts the processes."""
_BETWEEN_COMMANDS = re.compile(r"[;&|\n]+")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_TOGETHER = "--node-rank $NODE_RANK --master-addr $MASTER_ADDR --master-port $MASTER_PORT"


def look_at_distribution(
    manifest: Manifest,
    reading: Reading,
    start: Start | None,
    instances: int,
    processes: int,
    files: Mapping[str, bytes],
) -> None:
    """How the machines and processes find one another."""
    place: Place = ("distribution",)
    kind = str(manifest.get("distribution", "type") or "").lower()
    torchrun = start is not None and start.by == "torchrun"
    if isinstance(manifest.get("distribution"), dict) and kind not in KINDS:
        seen = stated(manifest.get("distribution", "type"))
        reading.problems.append(
            manifest.problem(
                (*place, "type"), f"`distribution.type` {seen}; expected pytorch.",
                like(kind, KINDS) or "With `type: pytorch` Azure sets RANK, WORLD_SIZE and MASTER_ADDR.",
            )
        )  # fmt: skip
    elif kind in ("tensorflow", "ray") or (
        kind == "mpi" and not torchrun and not _reads_mpi(manifest, files)
    ):
        reading.problems.append(
            manifest.problem(
                (*place, "type"), f"`distribution.type` is {kind}, which does not set RANK and WORLD_SIZE.",
                "Write `type: pytorch`: its processes are told what torch's process group asks for.",
            )
        )  # fmt: skip
    elif not kind and instances > 1 and not torchrun:
        reading.problems.append(
            manifest.problem(
                ("resources", "instance_count"), f"{instances} machines are asked for, but no `distribution`.",
                "Add `distribution:` with `type: pytorch` and `process_count_per_instance`, or the machines train "
                "alone.",
            )
        )  # fmt: skip
    if kind and torchrun and processes > 1:
        reading.problems.append(
            manifest.problem(
                (*place, "process_count_per_instance"),
                f"Azure starts the command {processes} times on each machine, and each time it is a torchrun that "
                "starts processes of its own.",
                "Start `python ddp_train.py` and let Azure start the processes; or keep torchrun, with "
                "process_count_per_instance: 1, --nnodes, --node-rank $NODE_RANK and the address of the first "
                "machine.",
            )
        )  # fmt: skip
    variables = manifest.get("environment_variables")
    if start is not None and torchrun and instances > 1:
        _meeting(manifest, reading, start, instances)
        if not kind and (missing := _asked_of_azure(manifest.get("command"), variables)):
            reading.notes.append(
                f"${missing} is what Azure sets for `distribution: {{type: pytorch}}`, and there is no `distribution`: "
                "with one of process_count_per_instance 1 it is sure to be there."
            )
    elif start is not None and instances > 1 and (script := standalone_script(start, files)):
        reading.problems.append(
            manifest.problem(
                ("command",), f"the command starts {safe_line(script, 60)}, and torchrun's `--standalone` in it makes "
                f"a group of its own on each of the {instances} machines.",
                f"Write --nnodes {instances} {_TOGETHER} in its place.",
            )
        )  # fmt: skip
    if told := sorted(TOLD & set(variables)) if kind == "pytorch" and isinstance(variables, dict) else []:
        reading.notes.append(
            f"`environment_variables` sets {told[0]}, which Azure sets for each process: leave that to it."
        )
    if not kind and not torchrun and instances == 1:
        reading.notes.append("There is no `distribution`: one process on one machine.")


def _asked_of_azure(command: Json, variables: Json) -> str:
    """The first variable of Azure's that a command uses, and that nothing in the file sets; "" where there is none."""
    text, given = str(command), variables if isinstance(variables, dict) else {}
    used = (name for name in sorted(TOLD) if re.search(rf"\$\{{?{name}\b", text))
    return next((name for name in used if name not in given and f"{name}=" not in text), "")


def _meeting(manifest: Manifest, reading: Reading, start: Start, instances: int) -> None:
    """Whether torchruns on several machines can meet."""
    nodes, place = start.number("nnodes"), ("command",)
    # Torchrun reads each option from a variable as well, and the command may set one.
    variables = manifest.get("environment_variables")
    told = f"{manifest.get('command')} {' '.join(variables) if isinstance(variables, dict) else ''}"

    def said(option: str) -> bool:
        return start.is_open or option in start.flags or f"PET_{option.upper()}" in told

    by_default = "" if "PET_RDZV_BACKEND" in told or start.is_open else "static"
    backend = start.flags.get("rdzv_backend", by_default) or by_default
    where = start.flags.get("rdzv_endpoint", "")
    if backend == "static":
        where = where or start.flags.get("master_addr", "")
    if "standalone" in start.flags or nodes == 1 or not said("nnodes"):
        reading.problems.append(
            manifest.problem(
                place, f"each of the {instances} machines starts a torchrun of one node, so that they train alone.",
                f"Write --nnodes {instances} {_TOGETHER}.",
            )
        )  # fmt: skip
    elif meets_itself(where):
        reading.problems.append(
            manifest.problem(
                place, f"the machines are to meet at {safe_line(where, 40)}, which each takes for itself.",
                "Azure puts the first machine's address into $MASTER_ADDR.",
            )
        )  # fmt: skip
    elif start.number("node_rank") is not None and backend == "static":
        reading.problems.append(
            manifest.problem(
                place, f"every machine starts with --node-rank {start.number('node_rank')}.",
                "Azure puts the machine's number into $NODE_RANK.",
            )
        )  # fmt: skip
    elif backend == "static" and not (said("master_addr") or said("rdzv_endpoint")):
        reading.problems.append(
            manifest.problem(
                place, "torchrun is told no --master-addr, which is then 127.0.0.1: each of the "
                f"{instances} machines waits for the others at its own address.",
                f"Azure sets MASTER_ADDR and NODE_RANK, but torchrun does not read them: write {_TOGETHER}.",
            )
        )  # fmt: skip
    elif backend == "static" and not said("node_rank"):
        reading.problems.append(
            manifest.problem(
                place, "torchrun is told no --node-rank, which is then 0 on each of the "
                f"{instances} machines: nodes that share a number never meet.",
                "Azure sets NODE_RANK, but torchrun does not read it: write --node-rank $NODE_RANK.",
            )
        )  # fmt: skip
    elif backend == "c10d" and not said("rdzv_endpoint"):
        reading.problems.append(
            manifest.problem(
                place, "torchrun is told no --rdzv-endpoint, which is then localhost: each of the "
                f"{instances} machines waits for the others at its own address.",
                "With c10d --master-addr does not count: write --rdzv-endpoint $MASTER_ADDR:$MASTER_PORT.",
            )
        )  # fmt: skip


def _reads_mpi(manifest: Manifest, files: Mapping[str, bytes]) -> bool:
    """Whether a script of the submission reads what mpirun sets, or the command hands it on."""
    command = manifest.get("command")
    return (isinstance(command, str) and all(_hands_on(command, *pair) for pair in _OF_MPI)) or any(
        b"OMPI_COMM_WORLD" in data for path, data in files.items() if path.endswith((".py", ".sh"))
    )


def _hands_on(command: str, name: str, source: str) -> bool:
    """Whether a shell puts the variable `source` into `name` for what it starts."""
    given = re.compile(rf"""(?<!\w){name}=["']?\$\{{?{source}\b""")
    parts = [part.split() for part in _BETWEEN_COMMANDS.split(command.replace("\\\n", " "))]
    exported = any("allexport" in part or part[:2] == ["set", "-a"] for part in parts) or any(
        part[:1] == ["export"] and name in part for part in parts
    )
    # An assignment that stands alone is the shell's own until it is exported.
    return any(
        given.search(" ".join(part)) and (exported or not all(map(_ASSIGNMENT.match, part))) for part in parts
    )
