"""The `#BSUB` lines of a job for LSF.

Source: IBM's reference of bsub.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from graders.launch.schedulers import Header, integer

LSF_WITH_WORD = set("abBcCDeEfFgGHIiJjkKLMmnNoOpPqQRrSsTtuUvwWZ")
# They begin as others do that are written together with their value.
LSF_LONG = ("-We", "-network", "-notify")
LSF_TIME = re.compile(r"(\d+:)?\d+(/\S+)?")


def read_lsf(header: Header, words: Sequence[str]) -> Header:
    """What the words of all `#BSUB` lines ask for."""
    slots = nodes = per_host = gpus = None
    are_whole = are_of_tasks = False
    walltime: str | None = None
    options: dict[str, str] = {}
    problems: list[str] = []
    remarks: list[str] = []
    at = 0
    while at < len(words):
        option, value = words[at], words[at + 1] if at + 1 < len(words) else ""
        at += 2
        if option == "-n":
            slots = integer(value.split(",")[-1])
            if slots is None:
                problems.append(f"`-n {value}` is no number of slots")
        elif option == "-nnodes":
            nodes, are_whole = integer(value), True
        elif option == "-gpu":
            if value.strip(' "-') and "=" not in value:
                problems.append(f'`-gpu {value}` is written `-gpu "num=2"`')
            match = re.search(r"\bnum=(\d{1,3})(/task)?", value)
            gpus = int(match[1]) if match else 1
            are_of_tasks = bool(match and match[2])
        elif option == "-W":
            walltime = value
        elif option in LSF_LONG:
            continue
        elif option == "-env":
            options["env"] = value
        elif option == "-R":
            if re.search(r"\bspan\s*[^\s\[]", value):
                problems.append(f"`-R {value[:60]}`: what belongs to span stands in square brackets")
            if match := re.search(r"\bhosts\s*=\s*1\b", value):
                nodes = 1
            if (counted := re.findall(r"(\d{1,4})\*\{", value)) and slots is None:
                slots = sum(map(int, counted))  # of parts that each ask for something else
            if match := re.search(r"\bptile\s*=\s*(\d{1,4})", value):
                per_host = int(match[1])
            if match := re.search(r"\bngpus_(?:excl_[pt]|shared|physical)\s*=\s*(\d{1,3})", value):
                gpus = int(match[1])
        elif (
            re.fullmatch(r"-[a-zA-Z]\S+", option)
            and not option.startswith("--")
            and option[1] in LSF_WITH_WORD - {"I"}
        ):
            # Written together, `-n4`; its value was no word of its own.
            at -= 2
            if option[1] in "nWR" and len(option) > 2:
                words = [*words[:at], option[:2], option[2:], *words[at + 1 :]]
            else:
                at += 1
        else:
            at -= 1 if value.startswith("-") or not option.startswith("-") else 0
    if walltime is not None and not (LSF_TIME.fullmatch(walltime) and re.search(r"[1-9]", walltime)):
        problems.append(f"`-W {walltime}` is no time that bsub reads; it takes minutes or hours:minutes")
    if nodes is None and per_host and slots:
        nodes = -(-slots // per_host)
    tasks = per_host or (-(-slots // nodes) if slots and nodes else None)
    if nodes is None and (slots or 1) > 1:
        remarks.append(
            f'`-n {slots}` without `-R "span[hosts=1]"` or `-R "span[ptile=...]"`: '
            "LSF may spread the slots over any hosts."
        )
    if header.unread or (
        header.command and any(line.number > header.command.number for line in header.directives)
    ):
        remarks.append("LSF reads `#BSUB` lines below commands, too, but a reader looks for them at the top.")
    return replace(
        header,
        nodes=nodes or 1,
        tasks_per_node=tasks,
        gpus_per_node=gpus * (tasks or 1) if gpus and are_of_tasks else gpus,
        whole_nodes=are_whole and gpus is None,
        walltime=walltime,
        problems=tuple(problems),
        remarks=tuple(remarks),
        options=options,
    )
