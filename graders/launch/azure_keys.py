"""The keys of an Azure ML command job: those that Azure does not know, and what names no data, image or machines.

Sources: learn.microsoft.com, "CLI (v2) command job YAML schema" (keys, defaults). The types of inputs and that their
case does not matter: azure-ai-ml 1.35.2, `_schema/job/input_output_entry.py`; that each needs a path:
`operations/_job_operations.py`, `_resolve_job_input`.
"""

from __future__ import annotations

import re

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
INPUT_TYPES = ("uri_folder", "uri_file", "mltable", "custom_model", "mlflow_model", "triton_model")
LITERALS = ("string", "integer", "number", "boolean")
"""Types of inputs in a component's file, whose values a job gives without a type."""


def look_at_keys(manifest: Manifest, reading: Reading) -> None:
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


def look_at_inputs(manifest: Manifest, reading: Reading) -> None:
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
