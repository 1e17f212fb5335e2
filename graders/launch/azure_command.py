"""The command line of an Azure ML command job: what it starts, what it uses, and whether that was handed in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from graders.launch.background import leaves_training
from graders.launch.commands import Start, start_in, starts_only, torn_line
from graders.launch.manifests import Manifest, Reading, like, shown, stated
from lockstep.text import safe_line

OWN_SCRIPTS = (
    "amp_train data_parallel ddp_train fashion_trainer lfw_dataset lightning_train perf_report scaling train_noddp"
).split()
"""The course's, which whoever hands in a part of it need not hand in."""
_INPUT = re.compile(r"\$\{\{\s*inputs\.([\w-]{1,60})")
# $inputs.NAME, ${inputs.NAME} and {{inputs.NAME}}
_NO_INPUT = re.compile(r"(?:(?<!\$\{)\{\s*|\$)inputs\.([\w-]{1,60})")


def look_at_command(manifest: Manifest, reading: Reading) -> Start | None:
    """What the command starts; None where there is no command, or it trains nothing."""
    command = manifest.get("command")
    if not isinstance(command, str) or not command.strip():
        hint = "Write one text, as a shell reads it: `command: python ddp_train.py --epochs 3`."
        reading.problems.append(
            manifest.problem(("command",), f"`command` {stated(command)}; expected a command line.", hint)
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
    elif leaves_training(command):
        reading.problems.append(
            manifest.problem(
                ("command",), "the command starts its training in the background, with `&`, and comes to its end at "
                "once: with its command the job has ended, and the training is stopped.",
                "Take the `&` away, or write `wait` behind it. Azure keeps what a job prints by itself.",
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


def look_at_code(manifest: Manifest, reading: Reading, start: Start, files: Mapping[str, bytes]) -> None:
    """Whether what the command starts lies in the folder that `code` names."""
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
