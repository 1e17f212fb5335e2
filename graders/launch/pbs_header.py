"""The `#PBS` lines of a job for PBS.

Source: the manual pages qsub of PBS Professional and OpenPBS.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from graders.launch.schedulers import Header, integer

PBS_TIME = re.compile(r"\d+(:\d{1,2}){0,2}(\.\d+)?")
PBS_PART = re.compile(r"(ncpus|ngpus|mpiprocs|mem)=\w+(:.*)?")
PBS_WITH_WORD = set("aAcCeJkjlmMNopPqrSuvW")


def read_pbs(header: Header, words: Sequence[str]) -> Header:
    """What the words of all `#PBS` lines ask for."""
    problems: list[str] = []
    remarks: list[str] = []
    resources: dict[str, str] = {}
    options = _short_options(words, PBS_WITH_WORD)
    pairs = zip(["", *words], words, strict=False)
    if torn := next((word for before, word in pairs if before[:1] != "-" and PBS_PART.fullmatch(word)), None):
        problems.append(
            f"`{torn}` stands alone: the parts of a chunk have colons between them, as in select=2:ngpus=2"
        )
    for option, value in options:
        if option == "l":
            for item in value.split(","):
                name, _, amount = item.strip().partition("=")
                resources[name] = amount
    nodes, tasks, gpus = 1, None, integer(resources.get("ngpus", ""))
    # Resources of a site's own have any name; this one stands in the guides of Polaris and Aurora.
    system = re.search(r":system=(\w{1,40})", resources.get("select", ""))
    if "select" in resources:
        nodes, tasks, gpus = _pbs_chunks(resources["select"], problems)
        if system and gpus is None:
            remarks.append(
                f"`system={system[1]}` is one machine's name for its nodes, which are given out whole: as many GPUs as "
                "they have."
            )
        if nodes > 1 and "scatter" not in resources.get("place", ""):
            remarks.append("Without `-l place=scatter` PBS may put both chunks on one node.")
    elif "nodes" in resources:
        nodes, tasks, gpus = _pbs_chunks(resources["nodes"], problems)
        remarks.append("`-l nodes=N:ppn=M` is Torque's and older PBS's; PBS Professional now has -l select.")
    walltime = resources.get("walltime")
    if walltime is not None and "nodes" in resources:
        walltime = _torque_days(walltime)
    if walltime is not None and not (PBS_TIME.fullmatch(walltime) and re.search(r"[1-9]", walltime)):
        problems.append(
            f"`walltime={walltime}` is no time that qsub reads; it takes seconds or hours:minutes:seconds"
        )
    seconds = None if walltime is None else _pbs_seconds(walltime)
    if seconds is not None and 60 <= seconds < 600 and not re.match(r"\d+:\d+:", walltime or ""):
        remarks.append(
            f"`walltime={walltime}` is {seconds} seconds: PBS takes seconds, minutes:seconds and hours:minutes:seconds."
        )
    return replace(
        header,
        nodes=nodes,
        tasks_per_node=tasks,
        gpus_per_node=gpus,
        whole_nodes=gpus is None and system is not None,
        walltime=walltime,
        seconds=seconds,
        problems=tuple(problems),
        remarks=tuple(remarks),
        options=dict(options),
    )


def _torque_days(text: str) -> str:
    """Torque's days:hours:minutes:seconds as hours:minutes:seconds; anything else as it is."""
    found = re.fullmatch(r"(\d{1,3}):(\d{1,3})(:\d{1,2}:\d{1,2})", text)
    return f"{24 * int(found[1]) + int(found[2])}{found[3]}" if found else text


def _pbs_seconds(text: str) -> int | None:
    """A limit on the time, as qsub reads it: 30 is seconds, 1:30 minutes and seconds."""
    if not PBS_TIME.fullmatch(text) or len(text) > 20:
        return None
    hours, minutes, seconds = [0, 0, *(int(part) for part in text.partition(".")[0].split(":"))][-3:]
    return (hours * 60 + minutes) * 60 + seconds


def _pbs_chunks(text: str, problems: list[str]) -> tuple[int, int | None, int | None]:
    nodes, tasks = 0, None
    gpus: set[int | None] = set()
    for chunk in text.split("+"):
        count, *items = chunk.split(":")
        number = integer(count)
        if not number:
            # `select=ncpus=8` is one chunk; a name of a host is one node.
            items, number = ([count, *items], 1) if not count or not count[0].isdigit() else (items, 1)
            if "$" in count:
                problems.append(f"`{count}` is a variable: qsub reads these lines, not the shell")
        nodes += number
        amounts = {name: value for name, _, value in (item.partition("=") for item in items)}
        tasks = integer(amounts.get("mpiprocs", "")) or tasks
        gpus.add(integer(amounts.get("ngpus", amounts.get("gpus", ""))))
    if len(gpus) > 1:
        problems.append(f"`{text}` asks for chunks with different numbers of GPUs")
    return nodes, tasks, next(iter(gpus)) if len(gpus) == 1 else None


def _short_options(words: Sequence[str], with_word: set[str]) -> list[tuple[str, str]]:
    """Options of one letter and their values, whether these stand in the same word or in the next."""
    found = []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if not word.startswith("-") or len(word) < 2:
            continue
        value = word[2:]
        if word[1] in with_word and not value and at < len(words):
            value = words[at]
            at += 1
        found.append((word[1], value))
    return found
