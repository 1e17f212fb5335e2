"""What a script over an Azure SDK asked for, as the probe's stand-in for the SDK wrote it down.

SDK v1: `ScriptRunConfig` (azureml-core 1.x reference); its `PyTorchConfiguration(process_count=...)` counts the
processes of all nodes, unlike v2's process_count_per_instance. SDK v2: `azure.ai.ml.command`, whose arguments are the
keys of the YAML file.
"""

from __future__ import annotations

from collections.abc import Mapping

from graders.launch import azure
from graders.launch.commands import start_in
from graders.launch.manifests import Claim, Manifest, Problem, Reading, shown, whole
from lockstep.compare import elements
from lockstep.wire import Json
from lockstep.yamlfile import Document

_PARAMETERS = (
    "source_directory script arguments run_config _telemetry_values compute_target environment "
    "distributed_job_config resume_from max_run_duration_seconds command"
).split()


def script_path(files: Mapping[str, bytes]) -> str | None:
    """The script that speaks to Azure: launch/azure_job.py, or another that imports an SDK."""
    for path in ("launch/azure_job.py", "azure_job.py"):
        if path in files:
            return path
    for path in sorted(files):
        is_near = path.startswith("launch/") or "/" not in path
        if (
            is_near
            and path.endswith(".py")
            and (b"ScriptRunConfig" in files[path] or b"azure.ai.ml" in files[path])
        ):
            return path
    return None


def read_script(path: str, seen: Mapping[str, Json], files: Mapping[str, bytes]) -> Reading:
    """Judge what a script asked for. `seen` comes out of the sandbox and may have any shape."""
    reading = Reading(path)
    calls = [call for call in elements(seen.get("calls")) if isinstance(call, dict)]
    configs = [call for call in calls if call.get("of") == "ScriptRunConfig"]
    jobs = [call for call in calls if call.get("of") in ("command", "CommandJob")]
    if configs:
        _version_one(configs[-1], reading)
    elif jobs:
        azure.look_at(Manifest(Document(_as_job(jobs[-1]), {})), reading, files)
    else:
        reading.problems.append(
            Problem(
                "running it makes no ScriptRunConfig.",
                "Make one with source_directory, script, compute_target and environment, and submit it; or write "
                f"{azure.NAME}.",
            )
        )
        return reading
    if not any(call.get("of") in ("submit", "create_or_update", "begin_create_or_update") for call in calls):
        reading.problems.append(
            Problem(
                "running it submits nothing.", "Hand the configuration to `Experiment(...).submit(config)`."
            )
        )
    return reading


def _version_one(call: Mapping[str, Json], reading: Reading) -> None:
    reading.notes.append(
        f"Microsoft's support for SDK v1 ended on {azure.SUPPORT_ENDED}. In v2 this is a file: `type: command`, "
        "`command`, `code`, `environment`, `compute`, and `distribution` in the place of PyTorchConfiguration."
    )
    config = _arguments(call)
    run_config = config.get("run_config") is not None
    if not config.get("script") and not config.get("command"):
        reading.problems.append(
            Problem("its ScriptRunConfig has no `script`.", 'Name the file to run: script="ddp_train.py".')
        )
    for name, sets in (("compute_target", "target"), ("environment", "environment")):
        if config.get(name) is None and not run_config and sets not in elements(call.get("set")):
            reading.problems.append(
                Problem(f"its ScriptRunConfig has no `{name}`.", f"Pass {name}=... to ScriptRunConfig.")
            )
    job = config.get("distributed_job_config")
    kind, arguments = (job.get("of"), _mapping(job.get("kwargs"))) if isinstance(job, dict) else (None, {})
    if kind == "PyTorchConfiguration":
        _processes(arguments, reading, _command(config.get("command")))
    elif kind == "MpiConfiguration":
        nodes = whole(arguments.get("node_count")) or 1
        each = whole(arguments.get("process_count_per_node")) or 1
        reading.notes.append(
            "MpiConfiguration sets OMPI_COMM_WORLD_RANK and not RANK; PyTorchConfiguration sets what torch reads."
        )
        reading.claim = _claim(reading.file, nodes, nodes * each)
    elif job is None:
        reading.notes.append("There is no distributed_job_config: one process on one machine.")
        reading.claim = _claim(reading.file, 1, 1)


def _command(value: Json) -> str | None:
    """A command line, which may be a list of words."""
    return value if isinstance(value, str) else " ".join(map(str, elements(value))) or None


def _processes(arguments: Mapping[str, Json], reading: Reading, command: str | None) -> None:
    nodes, count = arguments.get("node_count", 1), arguments.get("process_count")
    machines = whole(nodes)
    start = None if command is None else start_in(command)
    if (
        count is None
        and start is not None
        and start.by == "torchrun"
        and machines is not None
        and machines > 0
    ):
        # One command on each node, as the guide has it, which starts the processes by itself.
        each = start.number("nproc_per_node") if "nproc_per_node" in start.flags else 1
        reading.claim = None if each is None else _claim(reading.file, machines, machines * each)
        return
    number = whole(nodes if count is None else count)
    if number is None or machines is None or number < 1 or machines < 1 or number % machines:
        reading.problems.append(
            Problem(
                f"PyTorchConfiguration has process_count={shown(count)} and node_count={shown(nodes)}.",
                "process_count counts the processes of all nodes: a multiple of node_count.",
            )
        )
        return
    reading.claim = _claim(reading.file, machines, number)


def _claim(file: str, nodes: int, world: int) -> Claim:
    how = f"{world} process{'es' if world > 1 else ''} on {nodes} machine{'s' if nodes > 1 else ''}"
    return Claim(
        file, frozenset({world}), how, nodes, hint="process_count counts the processes of all nodes."
    )


def _arguments(call: Mapping[str, Json]) -> dict[str, Json]:
    """Arguments by name, however they were passed."""
    by_place = dict(zip(_PARAMETERS, elements(call.get("args")), strict=False))
    return {**by_place, **_mapping(call.get("kwargs"))}


def _as_job(call: Mapping[str, Json]) -> Json:
    """The YAML file that `azure.ai.ml.command(...)` stands for."""
    given = dict(_mapping(call.get("kwargs")))
    job: dict[str, Json] = {"type": "command"}
    for name in ("command", "code", "inputs", "environment_variables"):
        if name in given:
            job[name] = given[name]
    for name in ("environment", "compute"):
        value = given.get(name)
        if isinstance(value, str):
            # The SDK takes bare names.
            job[name] = (
                value
                if ":" in value.partition("@")[0] and value.startswith("azureml")
                else f"azureml:{value}"
            )
        elif isinstance(value, dict):
            inner = _mapping(value.get("kwargs"))
            job[name] = inner if inner.keys() & {"image", "build"} else "azureml:unknown@latest"
    spread = given.get("distribution")
    if isinstance(spread, dict):
        of = spread.get("of")
        kind = {"type": str(of).removesuffix("Distribution").lower()} if of else {}
        job["distribution"] = {**kind, **(_mapping(spread.get("kwargs")) if of else spread)}
    parts = given.get("resources")
    given |= _mapping(parts.get("kwargs")) if isinstance(parts, dict) else {}
    resources: dict[str, Json] = {
        name: given[name] for name in ("instance_count", "instance_type", "shm_size") if name in given
    }
    if resources:
        job["resources"] = resources
    return job


def _mapping(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}
