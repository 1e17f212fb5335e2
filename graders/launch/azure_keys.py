"""The keys of an Azure ML command job: those that Azure does not know, and what names no image or machines.

Sources: learn.microsoft.com, "CLI (v2) command job YAML schema" (keys, defaults); azure-ai-ml 1.35.2: what has to be a
mapping, and `limits`: `_schema/job`; that an environment needs a version: `operations/_operation_orchestrator.py`,
`get_asset_arm_id`.
"""

from __future__ import annotations

import re

from graders.launch.fault import SHORTEST, plural
from graders.launch.manifests import MANY, PLACEHOLDER, Manifest, Reading, dotted, like, shown
from lockstep.text import safe_line
from lockstep.wire import Json
from lockstep.yamlfile import Place

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
MAPPINGS = ("environment_variables", "tags", "limits", "outputs")
"""What else has to be a mapping; which keys it has is looked at elsewhere, or anybody's choice."""
CURATED = "AzureML-"
"""What Microsoft's own environments begin with, whose version may be left to the service."""


def look_at_keys(manifest: Manifest, reading: Reading) -> None:
    """Keys that Azure does not know: it would leave them aside without a word."""
    groups: tuple[tuple[Place, list[str], bool], ...] = (
        ((), JOB, False),
        (("distribution",), DISTRIBUTION, True),
        (("resources",), RESOURCES, True),
        *(((name,), [], False) for name in MAPPINGS),
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
        unknown = [key for key in values if known and key not in known] if isinstance(values, dict) else []
        for key in unknown[:MANY]:
            home = next((there for there, names, _ in groups if there != place and key in names), None)
            hint = like(key, known) if home is None else _belongs(key, home)
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


def _belongs(key: str, place: Place) -> str:
    """Where a key is one that Azure knows."""
    return (
        f"`{key}` belongs below `{dotted(place)}:`."
        if place
        else f"`{key}` belongs at the top, not indented."
    )


def look_at_environment(manifest: Manifest, reading: Reading) -> None:
    """An environment that names neither something registered nor an image."""
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
    elif (name := unversioned(environment)) and not name.startswith(CURATED):
        reading.problems.append(manifest.problem(place, *version_missing("environment", environment, name)))


def look_at_limits(manifest: Manifest, reading: Reading) -> None:
    """A time that Azure does not read, or in which no training ends: it wants seconds. What 0 means, it decides."""
    timeout = manifest.get("limits", "timeout")
    if isinstance(timeout, str) and re.fullmatch(r"\s*[+-]?[0-9_]{1,20}\s*", timeout):
        timeout = int(timeout) if re.fullmatch(r"[0-9]{1,20}", timeout.strip()) else None
    if timeout is None:
        return
    if isinstance(timeout, int | float) and not isinstance(timeout, bool):
        if 0 < timeout < SHORTEST:
            reading.slips.append(
                manifest.problem(
                    ("limits", "timeout"),
                    f"`limits.timeout` is {shown(timeout)} second{plural(int(timeout))}, in which no training ends: "
                    "Azure cancels the job then.",
                    "It counts seconds: 3600 is one hour.",
                )
            )
        return
    reading.problems.append(
        manifest.problem(
            ("limits", "timeout"),
            f"`limits.timeout` is {shown(timeout)}, which Azure refuses; expected a whole number.",
            "It counts seconds: 3600 is one hour.",
        )
    )


def unversioned(value: Json) -> str:
    """The name in `azureml:NAME` that says neither a version nor a label; nothing for whatever else there is."""
    found = re.fullmatch(r"azureml:([^:@/${}\s]+)[:@]?", value) if isinstance(value, str) else None
    return found[1] if found else ""


def version_missing(where: str, value: Json, name: str) -> tuple[str, str]:
    """The message and the hint for what is registered, but named without its version."""
    name = safe_line(name, 60)
    return (
        f"`{where}` is {shown(value)}, without a version, which Azure refuses.",
        f"Several versions may be registered: write `azureml:{name}@latest` or one of them, `azureml:{name}:1`.",
    )


def _may_be_an_image(value: Json) -> bool:
    """Whether something names an image; what a script got from its SDK is no text."""
    return value is not None and (
        not isinstance(value, str) or (value.strip() != "" and not PLACEHOLDER.search(value))
    )


def look_at_compute(manifest: Manifest, reading: Reading) -> None:
    """A cluster that has no name."""
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


def _names(value: Json, words: tuple[str, ...] = ()) -> bool:
    """Whether a text names something that is registered: azureml:NAME, an ARM id, or one of the words."""
    if not isinstance(value, str) or PLACEHOLDER.search(value):
        return False
    return value.lower() in words or re.match(r"azureml:\S|/subscriptions/|\$\{\{", value) is not None
