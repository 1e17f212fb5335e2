"""What goes into an Azure ML command job and what comes out of it: data that lies nowhere, types and modes unknown.

Source: azure-ai-ml 1.35.2: the types and modes, and that their case does not matter,
`_schema/job/input_output_entry.py`; that each input needs a path, `operations/_job_operations.py`,
`_resolve_job_input`; that what is registered needs a version, `operations/_operation_orchestrator.py`.
"""

from __future__ import annotations

from graders.launch.azure_keys import unversioned, version_missing
from graders.launch.manifests import Manifest, Reading, like, shown
from lockstep.text import safe_line
from lockstep.wire import Json
from lockstep.yamlfile import Place

TYPES = ("uri_folder", "uri_file", "mltable", "custom_model", "mlflow_model", "triton_model")
LITERALS = ("string", "integer", "number", "boolean")
"""Types of inputs in a component's file, whose values a job gives without a type."""
MODES = ("ro_mount", "download", "direct")
TABLE_MODES = (*MODES, "eval_mount", "eval_download")


def look_at_inputs(manifest: Manifest, reading: Reading) -> None:
    """Inputs of no known type or mode, and data that lies nowhere: Azure refuses the job. The first is told."""
    inputs = manifest.get("inputs")
    for name, value in inputs.items() if isinstance(inputs, dict) else ():
        if isinstance(value, dict) and _refused_input(manifest, reading, name, value):
            return


def _refused_input(manifest: Manifest, reading: Reading, name: str, value: dict[str, Json]) -> bool:
    kind, path, mode = value.get("type"), value.get("path"), value.get("mode")
    place: Place = ("inputs", name)
    where = f"inputs.{safe_line(name, 40)}"
    if isinstance(kind, str) and ("${{" in kind or kind.lower() in LITERALS):
        return False
    if _unknown(manifest, reading, (*place, "type"), kind, TYPES):
        return True
    if isinstance(kind, str) and (path is None or path == ""):
        reading.problems.append(
            manifest.problem(
                place, f"`{where}` is a {kind.lower()} without a `path`, which Azure refuses.",
                "Say where the data lies: `path: azureml:NAME@latest` for data that is registered, an address, "
                "or a folder beside this file.",
            )
        )  # fmt: skip
        return True
    if bare := unversioned(path):
        told = version_missing(f"{where}.path", path, bare)
        reading.problems.append(manifest.problem((*place, "path"), *told))
        return True
    # Without a type it may be a table, as far as the schema goes.
    modes = TABLE_MODES if not isinstance(kind, str) or kind.lower() == "mltable" else MODES
    return _unknown(manifest, reading, (*place, "mode"), mode, modes)


def look_at_outputs(manifest: Manifest, reading: Reading) -> None:
    """Outputs that are no mapping or of no known type: Azure refuses the job. The first is told."""
    outputs = manifest.get("outputs")
    for name, value in outputs.items() if isinstance(outputs, dict) else ():
        if value is not None and not isinstance(value, dict):
            reading.problems.append(
                manifest.problem(
                    ("outputs", name),
                    f"`outputs.{safe_line(name, 40)}` is {shown(value)}, which Azure refuses; expected a mapping.",
                    "Write `type: uri_folder` below the name, and `path:` where it is to lie.",
                )
            )
            return
        if value and _unknown(manifest, reading, ("outputs", name, "type"), value.get("type"), TYPES):
            return


def _unknown(manifest: Manifest, reading: Reading, place: Place, value: Json, known: tuple[str, ...]) -> bool:
    """Whether a value is none of those that are known, in whatever case; the reading says so then."""
    if value is None or isinstance(
        value, dict
    ):  # a mapping is what a script's SDK gave, or told by its schema
        return False
    text = value.lower() if isinstance(value, str) else ""
    if text in known or "${{" in text:
        return False
    group, name, field = place
    told = f"Azure knows {', '.join(known[:-1])} and {known[-1]}."
    where = f"{group}.{safe_line(str(name), 40)}.{field}"
    message = f"`{where}` is {shown(value)}, which Azure refuses."
    reading.problems.append(manifest.problem(place, message, f"{like(text, known)} {told}".strip()))
    return True
