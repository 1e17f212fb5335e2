"""What an Azure ML job says: a command job of CLI v2 in YAML, or a script over a Python SDK as it ran in the sandbox.

Sources: learn.microsoft.com: "CLI (v2) command job YAML schema" (keys, defaults), "Distributed GPU training guide"
(`distribution: pytorch` starts the command process_count_per_instance times on each machine and sets RANK, LOCAL_RANK,
WORLD_SIZE, MASTER_ADDR, MASTER_PORT, NODE_RANK), "Azure Machine Learning SDK v1" (deprecated 2025-03-31, support ended
2026-06-30).
The types of inputs and that their case does not matter: azure-ai-ml 1.35.2, `_schema/job/input_output_entry.py`; that
each needs a path: `operations/_job_operations.py`, `_resolve_job_input`.
What torchrun takes for an address and a number when nobody says them: torch 2.8, `distributed/run.py`; that it reads
PET_MASTER_ADDR and not MASTER_ADDR: `distributed/argparse_util.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from graders.launch.commands import Start, meets_itself, modernise, start_in, starts_only, torn_line
from graders.launch.manifests import (
    MANY,
    PLACEHOLDER,
    Claim,
    Manifest,
    Problem,
    Reading,
    dotted,
    like,
    named,
    opened,
    shown,
    whole,
)
from lockstep.text import safe_line
from lockstep.wire import Json
from lockstep.yamlfile import Place

NAME = "launch/azure_job.yml"
SCHEMA = "https://azuremlschemas.azureedge.net/latest/commandJob.schema.json"
JOB = (
    "$schema type name display_name experiment_name description tags properties command code environment "
    "environment_variables compute distribution resources limits inputs outputs identity services queue_settings "
    "job_tier parent_job_name component id creation_context status"
).split()
DISTRIBUTION = (
    "type process_count_per_instance parameter_server_count worker_count port address include_dashboard "
    "head_node_additional_args worker_node_additional_args"
).split()
RESOURCES = (
    "instance_count instance_type shm_size docker_args properties locations max_instance_count max_node_count"
).split()
OLD_KEYS = set(
    "script arguments target compute_target framework communicator nodeCount node_count history".split()
)
"""Keys of a v1 .runconfig file."""
KINDS = ("pytorch", "mpi", "tensorflow", "ray")
INPUT_TYPES = ("uri_folder", "uri_file", "mltable", "custom_model", "mlflow_model", "triton_model")
LITERALS = ("string", "integer", "number", "boolean")
"""Types of inputs in a component's file, whose values a job gives without a type."""
OWN_SCRIPTS = (
    "amp_train data_parallel ddp_train fashion_trainer lfw_dataset lightning_train perf_report scaling train_noddp"
).split()
"""The course's, which whoever hands in a part of it need not hand in."""
TOLD = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK"}
"""What `distribution: pytorch` sets."""
SUPPORT_ENDED = "2026-06-30"
_TOGETHER = "--node-rank $NODE_RANK --master-addr $MASTER_ADDR --master-port $MASTER_PORT"
_INPUT = re.compile(r"\$\{\{\s*inputs\.(\w{1,60})")
# ${inputs.NAME} and {{inputs.NAME}}
_NO_INPUT = re.compile(r"(?<!\$\{)\{\s*inputs\.(\w{1,60})")


def read_azure(files: Mapping[str, bytes]) -> Reading | None:
    """Look at the YAML file among the files of a submission; None when there is none."""
    path = named(files, "azure_job", (".yml", ".yaml", ".json")) or next(
        (path for path in sorted(files) if re.fullmatch(r"(?:launch/)?azure[\w-]*\.ya?ml", path)), None
    )
    if path is None:
        return None
    reading = Reading(path)
    found = opened(reading, files[path], "a command job")
    if not found:
        return reading
    manifest = Manifest(found[0])
    if not isinstance(found[0].value, dict):
        message = f"this is {shown(found[0].value)} and no job."
        reading.problems.append(Problem(message, "A job is a mapping: `type: command`, `command: ...`.", 1))
        return reading
    if len(found) > 1:
        reading.notes.append(
            f"{path} holds {len(found)} documents, of which Azure reads one; the first was read."
        )
    reading.notes += manifest.document.traps[:2]
    if not isinstance(manifest.get("$schema"), str):
        reading.notes.append(f"With `$schema: {SCHEMA}` an editor checks the keys while you type.")
    look_at(manifest, reading, files)
    return reading


def look_at(manifest: Manifest, reading: Reading, files: Mapping[str, bytes]) -> None:
    """Add to `reading` what there is to say about one command job."""
    if _other_kind(manifest, reading):
        return
    _keys(manifest, reading)
    start = _command(manifest, reading)
    _inputs(manifest, reading)
    _environment(manifest, reading)
    _compute(manifest, reading)
    instances = _count(manifest, reading, ("resources", "instance_count"))
    processes = _count(manifest, reading, ("distribution", "process_count_per_instance"))
    _distribution(manifest, reading, start, instances or 1, processes or 1, files)
    if start is not None:
        reading.starts[reading.file] = start
        _code(manifest, reading, start, files)
        if start.old:
            reading.notes.append(modernise(start))
    reading.claim = _claim(manifest, reading.file, start, instances or 1, processes or 1)


def _other_kind(manifest: Manifest, reading: Reading) -> bool:
    """Whether this is no command job at all, which is then the only thing to say."""
    kind, schema = manifest.get("type"), manifest.get("$schema")
    keys = set(manifest.document.value) if isinstance(manifest.document.value, dict) else set()
    if kind is not None and str(kind).lower() != "command":
        hint = "Write `type: command`: one command, on as many machines as `resources` says."
        reading.problems.append(
            manifest.problem(("type",), f"`type` is {shown(kind)}; expected command.", hint)
        )
    elif isinstance(schema, str) and not re.match(r"commandjob|$", schema.rsplit("/", 1)[-1].lower()):
        reading.problems.append(
            manifest.problem(
                ("$schema",), f"`$schema` names {shown(schema.rsplit('/', 1)[-1])}; expected commandJob.schema.json.",
                f"Write `$schema: {SCHEMA}`.",
            )
        )  # fmt: skip
    elif "command" not in keys and keys & OLD_KEYS:
        old = sorted(keys & OLD_KEYS)[0]
        reading.problems.append(
            manifest.problem(
                (old,), f"`{old}` belongs to a run configuration of SDK v1; expected a command job of v2.",
                'A v2 job has `command: "python ddp_train.py ..."`, `code`, `environment` and `compute`.',
            )
        )  # fmt: skip
    elif "apiVersion" in keys:
        reading.problems.append(
            manifest.problem(
                ("apiVersion",), "this is a manifest of Kubernetes; expected a job of Azure ML.",
                "Write a command job: `type: command`, `command`, `code`, `environment`, `compute`.",
            )
        )  # fmt: skip
    return bool(reading.problems)


def _keys(manifest: Manifest, reading: Reading) -> None:
    """Keys that Azure does not know: it would leave them aside without a word."""
    groups: tuple[tuple[Place, list[str], bool], ...] = (
        ((), JOB, False),
        (("distribution",), DISTRIBUTION, True),
        (("resources",), RESOURCES, True),
    )
    for place, known, strict in groups:
        values = manifest.get(*place)
        if values is not None and not isinstance(values, dict):
            reading.problems.append(
                manifest.problem(
                    place, f"`{dotted(place)}` is {shown(values)}; expected a mapping.",
                    "What belongs to it stands below it, indented further.",
                )
            )  # fmt: skip
        unknown = [key for key in values if key not in known] if isinstance(values, dict) else []
        for key in unknown[:MANY]:
            hint = like(key, known)
            where = f" in `{dotted(place)}`" if place else ""
            if not hint and not strict:
                reading.notes.append(
                    f"`{safe_line(key, 40)}` is no key of a command job; Azure leaves it aside."
                )
                continue
            reading.problems.append(
                manifest.problem(
                    (*place, key), f"there is no key `{safe_line(key, 40)}`{where}, so Azure leaves it aside.",
                    hint or f"Known are {', '.join(known[:3])} and others.",
                )
            )  # fmt: skip


def _command(manifest: Manifest, reading: Reading) -> Start | None:
    command = manifest.get("command")
    if not isinstance(command, str) or not command.strip():
        seen = "is missing" if command is None else f"is {shown(command)}"
        hint = "Write one text, as a shell reads it: `command: python ddp_train.py --epochs 3`."
        reading.problems.append(
            manifest.problem(("command",), f"`command` {seen}; expected a command line.", hint)
        )
        return None
    start = start_in(command)
    if start is None:
        reading.problems.append(
            manifest.problem(
                ("command",), f"`command` is {shown(command)}, which starts no training.",
                "Start your script with it: `python ddp_train.py ...`.",
            )
        )  # fmt: skip
    if torn := torn_line(command):
        reading.slips.append(
            manifest.problem(
                ("command",), f"the command has the line `{safe_line(torn, 60)}`, which the shell runs as a command of "
                "its own: the script does not get it.",
                "Fold the lines into one, `command: >-` above lines of one indentation, or end all but the last with a "
                "backslash.",
            )
        )  # fmt: skip
    inputs = manifest.get("inputs")
    given = set(inputs) if isinstance(inputs, dict) else set()
    for name in _INPUT.findall(command):
        if name not in given:
            reading.problems.append(
                manifest.problem(
                    ("command",), f"the command uses `inputs.{name}`, but `inputs` has no `{name}`.",
                    like(name, given) or f"Add `{name}:` with its `type` and `path` below `inputs:`.",
                )
            )  # fmt: skip
            break
    for name in _NO_INPUT.findall(command):
        if name in given:
            reading.slips.append(
                manifest.problem(
                    ("command",), f"Azure puts nothing in for `inputs.{name}` in the command: only a dollar sign and "
                    "two braces on each side stand for an input.",
                    f"Write `${{{{inputs.{name}}}}}`; in an f-string of Python every brace twice.",
                )
            )  # fmt: skip
            break
    return start


def _inputs(manifest: Manifest, reading: Reading) -> None:
    """Types of inputs that Azure does not know, and data that lies nowhere: it refuses the job."""
    inputs = manifest.get("inputs")
    for name in inputs if isinstance(inputs, dict) else {}:
        place: Place = ("inputs", name, "type")
        kind, path = manifest.get(*place), manifest.get("inputs", name, "path")
        if not isinstance(kind, str) or "${{" in kind or kind.lower() in LITERALS:
            continue
        if kind.lower() in INPUT_TYPES:
            if path is None or path == "":
                reading.problems.append(
                    manifest.problem(
                        ("inputs", name),
                        f"`inputs.{safe_line(name, 40)}` is a {kind.lower()} without a `path`, which Azure refuses.",
                        "Say where the data lies: `path: azureml:NAME@latest` for data that is registered, an address, "
                        "or a folder beside this file.",
                    )
                )
                break
            continue
        known = f"Azure knows {', '.join(INPUT_TYPES[:-1])} and {INPUT_TYPES[-1]}."
        reading.problems.append(
            manifest.problem(
                place, f"`inputs.{safe_line(name, 40)}.type` is {shown(kind)}, which Azure refuses.",
                f"{like(kind.lower(), INPUT_TYPES)} {known}".strip(),
            )
        )  # fmt: skip
        break


def _environment(manifest: Manifest, reading: Reading) -> None:
    environment = manifest.get("environment")
    place: Place = ("environment",)
    hint = (
        "Name a registered one, `azureml:NAME@latest` or `azureml:NAME:VERSION`, or give `image:` (and `conda_file:`) "
        "below it."
    )
    if environment is None:
        reading.problems.append(manifest.problem(place, "`environment` is missing.", hint))
    elif isinstance(environment, dict):
        if not environment.keys() & {"image", "build"}:
            reading.problems.append(
                manifest.problem(place, "`environment` names neither an `image` nor a `build`.", hint)
            )
        elif not environment.get("build") and not _may_be_an_image(environment.get("image")):
            seen = shown(environment.get("image"))
            reading.problems.append(
                manifest.problem((*place, "image"), f"`environment.image` is {seen}, which names none.", hint)
            )
    elif not _names(environment):
        reading.problems.append(
            manifest.problem(place, f"`environment` is {shown(environment)}, which names none.", hint)
        )


def _may_be_an_image(value: Json) -> bool:
    """Whether something names an image; what a script got from its SDK is no text."""
    return value is not None and (
        not isinstance(value, str) or (value.strip() != "" and not PLACEHOLDER.search(value))
    )


def _names(value: Json, words: tuple[str, ...] = ()) -> bool:
    """Whether a text names something that is registered: azureml:NAME, an ARM id, or one of the words."""
    if not isinstance(value, str) or PLACEHOLDER.search(value):
        return False
    return value.lower() in words or re.match(r"azureml:\S|/subscriptions/|\$\{\{", value) is not None


def _compute(manifest: Manifest, reading: Reading) -> None:
    compute = manifest.get("compute")
    if compute is None:
        reading.notes.append(
            "Without `compute` the job runs on serverless machines, of the size in `resources.instance_type`."
        )
    elif not _names(compute, ("local", "serverless")):
        hint = "Write the cluster's name behind `azureml:`, as in `azureml:gpu-cluster`."
        reading.problems.append(
            manifest.problem(("compute",), f"`compute` is {shown(compute)}, which names no cluster.", hint)
        )


def _count(manifest: Manifest, reading: Reading, place: Place) -> int | None:
    """A number of machines or processes; a text of digits will do, as Azure takes it."""
    value = manifest.get(*place)
    number = int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,4}", value) else whole(value)
    if value is not None and (number is None or number < 1):
        reading.problems.append(
            manifest.problem(
                place, f"`{dotted(place)}` is {shown(value)}; expected a whole number from 1.",
                "It counts machines." if "instance_count" in place else "It counts the processes of one machine.",
            )
        )  # fmt: skip
        return None
    return number


def _distribution(
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
        seen = shown(manifest.get("distribution", "type"))
        reading.problems.append(
            manifest.problem(
                (*place, "type"), f"`distribution.type` is {seen}; expected pytorch.",
                like(kind, KINDS) or "With `type: pytorch` Azure sets RANK, WORLD_SIZE and MASTER_ADDR.",
            )
        )  # fmt: skip
    elif kind in ("tensorflow", "ray") or (kind == "mpi" and not torchrun and not _reads_mpi(files)):
        reading.problems.append(
            manifest.problem(
                (*place, "type"), f"`distribution.type` is {kind}, which does not set RANK and WORLD_SIZE.",
                "Write `type: pytorch`: its processes are told what torch's process group asks for.",
            )
        )  # fmt: skip
    if not kind and instances > 1 and not torchrun:
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
    if start is not None and torchrun and instances > 1:
        _meeting(manifest, reading, start, instances)
    variables = manifest.get("environment_variables")
    if told := sorted(TOLD & set(variables)) if kind == "pytorch" and isinstance(variables, dict) else []:
        reading.notes.append(
            f"`environment_variables` sets {told[0]}, which Azure sets for each process: leave that to it."
        )
    if not kind and not torchrun and instances == 1:
        reading.notes.append("There is no `distribution`: one process on one machine.")


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


def _reads_mpi(files: Mapping[str, bytes]) -> bool:
    """Whether a script of the submission reads what mpirun sets."""
    return any(b"OMPI_COMM_WORLD" in data for path, data in files.items() if path.endswith((".py", ".sh")))


def _code(manifest: Manifest, reading: Reading, start: Start, files: Mapping[str, bytes]) -> None:
    code, script = manifest.get("code"), start.script
    if code is None:
        if isinstance(manifest.get("environment"), str):
            reading.notes.append(
                "Without `code` nothing of yours is uploaded: the image has to hold the script."
            )
        return
    if not isinstance(code, str) or not script or "://" in code or code.startswith(("azureml:", "/")):
        return
    # Relative to the file itself, not to where `az` is called.
    folder = [step for step in (PurePosixPath(reading.file).parent / code).parts if step != "."]
    while ".." in folder[1:]:
        at = folder.index("..", 1)
        del folder[at - 1 : at + 1]
    path = "/".join([*folder, script.removeprefix("./")])
    if ".." not in folder and path not in files and PurePosixPath(script).name in files:
        reading.notes.append(
            f"`code` is relative to this file: {safe_line(path, 60)} is not there, {safe_line(script, 40)} lies above."
        )
    elif ".." not in folder and _is_missing(start, str(manifest.get("command")), files):
        # Who hands in the launch files alone may have the script.
        around = "/".join(folder)
        beside = (file for file in files if file.rpartition("/")[0] == around and file.endswith(".py"))
        there = sorted(file for file in beside if file != reading.file)
        if not there:
            reading.notes.append(f"{safe_line(path, 60)}, which the command starts, was not handed in.")
            return
        reading.problems.append(
            manifest.problem(
                ("command",), f"the command starts {safe_line(script, 60)}, and there is no such file in the folder "
                f"that `code` names, where {safe_line(there[0], 60)} lies.",
                like(PurePosixPath(script).name, {PurePosixPath(file).name for file in files})
                or "Start your script by its name: `python ddp_train.py ...`.",
            )
        )  # fmt: skip


def _is_missing(start: Start, command: str, files: Mapping[str, bytes]) -> bool:
    """Whether a script is nowhere in the submission, and does not come to be before it is started."""
    script = PurePosixPath(start.script or "")
    known = {PurePosixPath(path).stem for path in files if path.endswith((".py", ".ipynb"))}
    return (
        start.by in ("python", "torchrun")
        and script.suffix == ".py"
        and not re.search(r"[$~]|^/|\.\./", str(script))
        and script.stem not in known.union(OWN_SCRIPTS)
        and command.count(script.name) == 1
        and starts_only(command, start)
    )


def _claim(
    manifest: Manifest, file: str, start: Start | None, instances: int, processes: int
) -> Claim | None:
    if start is None:
        return None
    odds: list[Problem] = []
    each: int | None = processes
    if start.by == "torchrun":
        each = start.number("nproc_per_node")
        if each is None and "nproc_per_node" not in start.flags:
            each = 1
        nodes = start.number("nnodes")
        if nodes is not None and nodes != instances:
            odds.append(
                manifest.problem(
                    ("command",), f"--nnodes {nodes}, but `resources.instance_count` is {instances}.",
                    "Both count machines.",
                )
            )  # fmt: skip
    elif start.by == "other" and (processes == 1 or manifest.get("distribution") is None):
        each = None  # a script of their own may start anything, with torchrun for one
    if each is None:
        return Claim(file, nodes=instances, odds=tuple(odds))
    how = f"{instances} machine{'s' if instances > 1 else ''} x {each} process{'es' if each > 1 else ''}"
    hint = "Azure starts instance_count x process_count_per_instance processes."
    return Claim(file, frozenset({instances * each}), how, instances, tuple(odds), hint)
