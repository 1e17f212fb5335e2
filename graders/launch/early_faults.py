"""Scripts that do not come as far as a torchrun that takes its command line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from graders.launch.fault import CONTINUATION, TRAINING, Fault, Stage
from graders.launch.starts import NodeRun, Start
from lockstep.text import last_lines

START_WITH_TORCHRUN = (
    "torchrun --nproc-per-node 2 ... ddp_train.py starts the processes and tells them apart."
)
_UNSET = (
    "Nothing sets {0}. torchrun_multi.sh is given NODE_RANK, MASTER_ADDR and MASTER_PORT, a job what its scheduler "
    "sets. Everything else the script sets itself, in a line above."
)
_UNASKED = (
    "Slurm sets SLURM_{0} only for a job that asks with the option of that name, such as --gpus-per-node or "
    "--cpus-per-task. SLURM_GPUS_ON_NODE and SLURM_CPUS_ON_NODE are there in every job."
)
# What bash prints, and what it usually means; {0} is the word in brackets.
_SHELL_HINTS: Sequence[tuple[re.Pattern[str], str]] = (
    (
        re.compile(r"\\r'|\r"),
        "Each line ends as Windows ends lines, in a character more, which the shell takes for a part of the command. "
        "Save the file with the line ends LF: in VS Code they stand at the bottom right, as CRLF. In a terminal, "
        "`sed -i 's/\\r$//' FILE` does it.",
    ),
    (re.compile(r"(?<!\S)-[\w-]\S*: command not found"), CONTINUATION),
    (
        re.compile(
            r"SLURM_(GPUS|GPUS_PER_NODE|GPUS_PER_TASK|CPUS_PER_TASK|NTASKS_PER_NODE): unbound variable"
        ),
        _UNASKED,
    ),
    (
        re.compile(r"NPROC: unbound variable"),
        'NPROC is not set unless whoever calls the script sets it: "${NPROC:-2}" is 2 then.',
    ),
    (re.compile(r"(?<!\w)(\w+): unbound variable"), _UNSET),
    (re.compile(r"(?<!\w)(\w+): parameter (?:null or )?not set"), _UNSET),
    (
        re.compile(r"cd: \S+: No such file"),
        'That folder is only on your own machine: begin from the script\'s, "$(dirname "$0")".',
    ),
    (
        re.compile(r"syntax error|unexpected (?:EOF|end of file)"),
        "The shell cannot read the file: look for a quote, an if or a loop that is not closed.",
    ),
    (re.compile(r"is not written yet"), "This part of the template is not filled in yet."),
    (
        re.compile(
            # From the beginning of a word on: any slash in it might begin the path.
            r"(?<![^\s:'‘’\"])([~/][^\s:'‘’\"]*/(?:torchrun|python[\d.]*|srun|mpirun|mpiexec))['’\"]?: "
            "(?:cannot execute: )?No such file"
        ),
        "The path {0} leads to nothing where this is graded, and may not on the next cluster: call the program by its "
        "name alone, and it is found.",
    ),
    (
        re.compile(r"No module named '?([\w.]+)"),
        "Python knows no module {0}. torchrun is a program; as a module it is `python -m torch.distributed.run`.",
    ),
    (
        re.compile(r"(?<!\S)(\S+): command not found"),
        "There is no program {0} where this is graded. torchrun and python are there, and to start them on the nodes "
        "of a job srun, mpirun, mpiexec, pbsdsh, blaunch, jsrun, ssh and pdsh.",
    ),
    (
        re.compile(r"^(\S+): No such file or directory$", re.MULTILINE),
        "{0} is what srun, mpiexec or the like was to start, and nothing of that name is known where this is graded. "
        "Is it misspelt, or the value of an option?",
    ),
)


# A value behind a blank is a command to the shell, and so is a name with one behind it.
_BLANK_AT_EQUALS = re.compile(r"\s*(?:(?:export|local|readonly|declare)\s+)?[A-Za-z_]\w*(?:\s+=|=\s+\S)")


def early_fault(
    way: Sequence[NodeRun], starts: Mapping[int, Sequence[Start]], call: str, source: str = ""
) -> Fault | None:
    """What keeps a script from coming as far as a torchrun that takes its command line; `source` is its text."""
    for run in way:
        if run.status is None:
            return Fault(
                Stage.ENDLESS,
                f"{call} did not come to an end. In place of torchrun, srun and the like it finds programs that note "
                f"how they are called and end at once: what goes on is the script itself.{printed(run)}",
                "Is there a loop that waits for something, or a question to somebody at the keyboard?",
            )
    if not any(starts.values()):
        return nothing_fault(way[0] if way else NodeRun(0, None, "", ()), call, source)
    for own in starts.values():
        for start in own:
            if start.kind != "torchrun":
                return no_torchrun_fault(start, call, own)
            if start.problem:
                return unreadable_fault(start, call)
    return None


def text_of(path: str, files: Mapping[str, bytes]) -> str:
    """The text of a launch file, which may have been handed in without its folder."""
    return files.get(path, files.get(path.removeprefix("launch/"), b"")).decode("utf-8", "replace")


def nothing_fault(run: NodeRun, call: str, source: str = "") -> Fault:
    """The script ended, and started nothing on the way."""
    ended = "to its end" if run.status == 0 else f"until it ended with status {run.status}"
    hint = (
        _language_hint(source)
        or _assignment_hint(run.output, source)
        or _shell_hint(run.output)
        or (
            "It prints the command instead of running it: take the echo and the quotes away."
            if run.status != 127 and re.search(r"torchrun|torch\.distributed", run.output)
            else "Does it leave before that line, or is the line a comment, or in a function that nothing calls?"
            if run.status == 0
            else "Run it in a terminal; `bash -x` shows every line that it comes to."
        )
    )
    return Fault(Stage.NOTHING, f"{call} ran {ended} and started no torchrun.{printed(run)}", hint)


def no_torchrun_fault(start: Start, call: str, own: Sequence[Start]) -> Fault:
    """The script started something else; `own` is all that it started on this node."""
    if start.kind == "submits":
        return Fault(
            Stage.NO_TORCHRUN,
            f"{call} hands a job to a scheduler with {start.program} and starts no torchrun itself.",
            "This file is what runs on a node. The file for the scheduler is another one, train.slurm, .pbs or .lsf.",
        )
    if start.kind == "other":
        return Fault(
            Stage.NO_TORCHRUN,
            f"{call} starts the processes with {start.program}; the exercise is about torchrun.",
            START_WITH_TORCHRUN,
        )
    training = _trainings(own)
    told = [name for name in ("RANK", "WORLD_SIZE") if any(name in each.places for each in training)]
    if len(training) > 1 or told:
        script = training[0].script if training else ""
        times = f"{len(training)} times " if len(training) > 1 else ""
        variables = f", with {' and '.join(told)} set" if told else ", with neither RANK nor WORLD_SIZE set"
        return Fault(
            Stage.NO_TORCHRUN,
            f"{call} starts {script or 'the script'} with python {times}on a node{variables}: it starts the processes "
            "itself, without torchrun, and the exercise asks for torchrun.",
            START_WITH_TORCHRUN,
        )
    return Fault(
        Stage.NO_TORCHRUN,
        f"{call} starts {start.script or 'the script'} with python: that is one process, which knows of no others.",
        START_WITH_TORCHRUN,
    )


def _trainings(own: Sequence[Start]) -> list[Start]:
    """The starts of the script that Python was given most often; of two as often the last, behind what prepares."""
    scripts = [start.script for start in own if start.kind == "python"]
    most = max(reversed(scripts), key=scripts.count, default="")
    return [start for start in own if start.kind == "python" and start.script == most]


def unreadable_fault(start: Start, call: str) -> Fault:
    """Torchrun refuses its command line."""
    hint = "Compare with `torchrun --help`. Its own options stand in front of the script, the script's behind it."
    if "required" in start.problem:
        hint = (
            f"The script, {TRAINING}, is missing at the end, or the line breaks off before it. {CONTINUATION}"
        )
    if "PET_" in start.problem:
        hint = "Variables that begin with PET_ set torchrun's options; flags among them take 0 or 1."
    return Fault(
        Stage.UNREADABLE, f"{call}: torchrun does not take `{start.command}`: {start.problem}.", hint
    )


def printed(run: NodeRun) -> str:
    """The end of what a script printed, as a sentence; nothing where it printed nothing."""
    return f" Its last lines: {last_lines(run.output)}" if run.output.strip() else ""


def _language_hint(source: str) -> str:
    """What to tell whose script is in the language of a shell that reads bash's otherwise."""
    found = re.match(r"#!.*\b(csh|tcsh|fish|pwsh)\b", source)
    if found is None:
        return ""
    return (
        f"Its first line names {found[1]}, and it is run by bash here, as the scripts of the template are: write it "
        "for bash, with `#!/bin/bash` in that line and `export NAME=value` to set a variable."
    )


def _assignment_hint(output: str, source: str) -> str:
    """What to tell whose line is no assignment but a command, which is not found."""
    lines = source.splitlines()
    for found in re.finditer(r"line (\d{1,6}): \S+: command not found", output):
        number = int(found[1])
        line = lines[number - 1] if 0 < number <= len(lines) else ""
        if _BLANK_AT_EQUALS.match(line):
            return f"In line {number} a blank beside the `=` makes a command of a part: write NAME=value without any."
    return ""


def _shell_hint(output: str) -> str:
    for pattern, hint in _SHELL_HINTS:
        if match := pattern.search(output):
            return hint.replace("{0}", match[1] if match.lastindex else "")
    return ""
