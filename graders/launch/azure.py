"""What an Azure ML job says: a command job of CLI v2 in YAML, or a script over a Python SDK as it ran in the sandbox.

Source: learn.microsoft.com, "Azure Machine Learning SDK v1" (deprecated 2025-03-31, support ended 2026-06-30).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from graders.launch.azure_command import look_at_code, look_at_command
from graders.launch.azure_inputs import look_at_inputs, look_at_outputs
from graders.launch.azure_keys import look_at_compute, look_at_environment, look_at_keys, look_at_limits
from graders.launch.azure_meeting import look_at_distribution
from graders.launch.commands import Start, modernise
from graders.launch.manifests import Claim, Manifest, Problem, Reading, dotted, named, opened, shown, whole
from lockstep.wire import Json
from lockstep.yamlfile import Place

NAME = "launch/azure_job.yml"
SCHEMA = "https://azuremlschemas.azureedge.net/latest/commandJob.schema.json"
OLD_KEYS = set(
    "script arguments target compute_target framework communicator nodeCount node_count history".split()
)
"""Keys of a v1 .runconfig file."""
SUPPORT_ENDED = "2026-06-30"


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
    look_at_keys(manifest, reading)
    start = look_at_command(manifest, reading)
    look_at_inputs(manifest, reading)
    look_at_outputs(manifest, reading)
    look_at_limits(manifest, reading)
    look_at_environment(manifest, reading)
    look_at_compute(manifest, reading)
    instances = _count(manifest, reading, ("resources", "instance_count"))
    processes = _count(manifest, reading, ("distribution", "process_count_per_instance"))
    look_at_distribution(manifest, reading, start, instances or 1, processes or 1, files)
    if start is not None:
        reading.starts[reading.file] = start
        reading.apart |= {reading.file} if (instances or 1) > 1 else set()
        look_at_code(manifest, reading, start, files)
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


def _count(manifest: Manifest, reading: Reading, place: Place) -> int | None:
    """A number of machines or processes; a text of digits will do, as Azure takes it."""
    value = manifest.get(*place)
    number = _number(value)
    if value is not None and (number is None or number < 1):
        reading.problems.append(
            manifest.problem(
                place, f"`{dotted(place)}` is {shown(value)}; expected a whole number from 1.",
                "It counts machines." if "instance_count" in place else "It counts the processes of one machine.",
            )
        )  # fmt: skip
        return None
    return number


def _number(value: Json) -> int | None:
    return int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,4}", value) else whole(value)


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
            # Torchrun reads each option from a variable as well; one that the command sets is not looked for.
            told = manifest.get("environment_variables", "PET_NPROC_PER_NODE")
            is_open = "PET_NPROC_PER_NODE" in str(manifest.get("command"))
            each = None if is_open else 1 if told is None else _number(told)
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
