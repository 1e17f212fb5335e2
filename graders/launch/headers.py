"""What a cluster job asks for in the comments at its top: Slurm's `#SBATCH`, PBS's `#PBS`, LSF's `#BSUB`.

Each scheduler has rules of its own for where such lines count. Sources: the manual pages sbatch(1) of Slurm
and qsub of PBS Professional and OpenPBS, and IBM's reference of bsub for LSF.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

LARGEST = 10_000


@dataclass(frozen=True)
class Line:
    """A line of the file, counted from 1."""

    number: int
    text: str


@dataclass(frozen=True)
class Scheduler:
    """How one scheduler reads a job's file. `stops`: what stands below the first command no longer counts."""

    name: str
    prefix: str
    submit: str
    stops: bool
    needs_shebang: bool
    example: str


SLURM = Scheduler("Slurm", "#SBATCH", "sbatch", True, True, "#SBATCH --time=01:00:00")
PBS = Scheduler("PBS", "#PBS", "qsub", True, False, "#PBS -l walltime=01:00:00")
LSF = Scheduler("LSF", "#BSUB", "bsub", False, False, "#BSUB -W 1:00")
SCHEDULERS = (SLURM, PBS, LSF)


@dataclass(frozen=True)
class Header:
    """What a job asks for; None where it does not say. `nodes` is 1 where a scheduler would take that.

    `unread` are directives below the first command, which is `command`. `problems` are sentences about
    directives that the scheduler would refuse, `remarks` about what it takes otherwise than it looks.
    """

    scheduler: Scheduler
    directives: tuple[Line, ...]
    unread: tuple[Line, ...]
    command: Line | None
    shebang: bool
    nodes: int = 1
    tasks_per_node: int | None = None
    gpus_per_node: int | None = None
    walltime: str | None = None
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def scheduler_of(path: str, text: str) -> Scheduler | None:
    """Whose job this is, by the file's name or else by the directives in it."""
    suffix = path.rpartition(".")[2].lower()
    by_suffix = {
        "slurm": SLURM, "sbatch": SLURM, "pbs": PBS, "qsub": PBS, "lsf": LSF, "bsub": LSF,
    }  # fmt: skip
    if suffix in by_suffix:
        return by_suffix[suffix]
    for scheduler in SCHEDULERS:
        if re.search(rf"^{scheduler.prefix}\s", text, re.MULTILINE):
            return scheduler
    return None


def read_header(scheduler: Scheduler, text: str) -> Header:
    """The header of a job's file, by its scheduler's rules."""
    directives: list[Line] = []
    unread: list[Line] = []
    command: Line | None = None
    for number, raw in enumerate(text.splitlines(), start=1):
        line = Line(number, raw.strip())
        # A directive begins in the first column; `# SBATCH` and `##SBATCH` are comments like any other.
        if raw.startswith(scheduler.prefix) and raw[len(scheduler.prefix) :][:1] in ("", " ", "\t"):
            (unread if command and scheduler.stops else directives).append(line)
        elif line.text and not line.text.startswith("#") and command is None:
            command = line
    header = Header(
        scheduler,
        directives=tuple(directives),
        unread=tuple(unread),
        command=command,
        shebang=text.startswith("#!"),
    )
    words: list[str] = []
    for line in directives:
        words += _words(line.text[len(scheduler.prefix) :])
    return _READERS[scheduler.name](header, words)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:  # a quotation mark that is not closed
        return text.split()


def _integer(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,6}", text) and int(text) <= LARGEST else None


# Slurm

SLURM_SHORT: Mapping[str, str] = {
    "N": "nodes", "n": "ntasks", "t": "time", "G": "gpus", "J": "job-name", "o": "output", "e": "error",
    "p": "partition", "A": "account", "c": "cpus-per-task", "C": "constraint", "w": "nodelist", "x": "exclude",
    "a": "array", "d": "dependency", "D": "chdir", "i": "input", "L": "licenses", "M": "clusters", "m": "distribution",
    "q": "qos", "S": "core-spec", "b": "begin", "B": "extra-node-info", "F": "nodefile",
}  # fmt: skip
SLURM_OPTIONS = (
    "account acctg-freq array batch bb bbf begin chdir cluster-constraint clusters comment constraint container "
    "container-id contiguous core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot "
    "dependency distribution error exclude exclusive export export-file extra extra-node-info get-user-env gid "
    "gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags help hint hold ignore-pbs "
    "input job-name kill-on-invalid-dep licenses mail-type mail-user mcs-label mem mem-bind mem-per-cpu "
    "mem-per-gpu mincpus network nice no-kill no-requeue nodefile nodelist nodes ntasks ntasks-per-core "
    "ntasks-per-gpu ntasks-per-node ntasks-per-socket open-mode output overcommit oversubscribe parsable partition "
    "power prefer priority profile propagate qos quiet reboot requeue reservation resv-ports segment signal "
    "sockets-per-node spread-job stepmgr switches test-only thread-spec threads-per-core time time-min tmp "
    "tres-bind tres-per-task uid usage use-min-nodes verbose version wait wait-all-nodes wckey wrap x11"
).split()
SLURM_FLAGS = (
    "contiguous hold ignore-pbs no-requeue overcommit oversubscribe parsable quiet reboot requeue spread-job "
    "stepmgr test-only use-min-nodes verbose version wait help usage exclusive nice no-kill get-user-env propagate x11"
).split()
SLURM_TIME = re.compile(
    r"(?P<minutes>\d+)(:(?P<seconds>\d{1,2}))?|(?P<h>\d+):(?P<m>\d{1,2}):(?P<s>\d{1,2})"
    r"|(?P<days>\d+)-(?P<dh>\d{1,2})(:(?P<dm>\d{1,2})(:(?P<ds>\d{1,2}))?)?"
)


def _slurm(header: Header, words: Sequence[str]) -> Header:
    options, problems = _slurm_options(words)
    nodes = _slurm_count(options, "nodes", problems)
    tasks = _slurm_count(options, "ntasks", problems)
    per_node = _slurm_count(options, "ntasks-per-node", problems)
    count = nodes or (-(-tasks // per_node) if tasks and per_node else 1)
    if per_node is None and tasks is not None:
        per_node = -(-tasks // count)
    gpus = _slurm_gpus(options, count, per_node or 1, tasks, problems)
    walltime = options.get("time")
    if walltime is not None and not SLURM_TIME.fullmatch(walltime):
        problems.append(
            f"`--time={walltime}` is no time that sbatch reads; it takes minutes, minutes:seconds, "
            "hours:minutes:seconds, days-hours, and days-hours:minutes:seconds"
        )
    elif walltime is not None and not re.search(r"[1-9]", walltime):
        problems.append(f"`--time={walltime}` asks for no limit at all")
    return replace(
        header,
        nodes=count,
        tasks_per_node=per_node,
        gpus_per_node=gpus,
        walltime=walltime,
        problems=tuple(problems),
    )


def _slurm_options(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    found: dict[str, str] = {}
    problems: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word.startswith("--"):
            given, equals, value = word[2:].partition("=")
            name = _slurm_name(given)
            if name is None:
                near = difflib.get_close_matches(given, SLURM_OPTIONS, 1)
                problems.append(
                    f"sbatch has no option `--{given}`" + (f"; is it --{near[0]}?" if near else "")
                )
                continue
        elif word.startswith("-") and len(word) > 1:
            name, equals, value = SLURM_SHORT.get(word[1], ""), "", word[2:]
            if not name:
                continue
        else:
            problems.append(f"`{word}` stands alone: sbatch takes it for no option")
            continue
        if not equals and not value and name not in SLURM_FLAGS and at < len(words):
            value = words[at]
            at += 1
        found[name] = value
    return found, problems


def _slurm_name(given: str) -> str | None:
    """The option of this name, or the only one that begins like that, as getopt takes it."""
    if given in SLURM_OPTIONS:
        return given
    begun = [name for name in SLURM_OPTIONS if name.startswith(given)] if given else []
    return begun[0] if len(begun) == 1 else None


def _slurm_count(options: Mapping[str, str], name: str, problems: list[str]) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    # A range of nodes: at least and at most so many.
    value = _integer(text.rpartition("-")[2]) if name == "nodes" else _integer(text)
    if not value:
        variable = " (a variable is not filled in here: sbatch reads these lines, not the shell)"
        problems.append(f"`--{name}={text}` is no number{variable if '$' in text else ''}")
    return value or None


def _slurm_gpus(
    options: Mapping[str, str], nodes: int, tasks_per_node: int, tasks: int | None, problems: list[str]
) -> int | None:
    if "gres" in options:
        for item in options["gres"].split(","):
            words = item.partition("(")[0].removeprefix("gres/").replace("=", ":").split(":")
            if words[0] == "gpu":
                return _slurm_gpu_count("gres", words[1:], problems)
        if re.search(r"gpu", options["gres"], re.IGNORECASE):
            problems.append(f"`--gres={options['gres']}` is written gpu:2 or gpu:TYPE:2")
    for name, per_node in (
        ("gpus-per-node", 1.0),
        ("gpus", 1 / nodes),
        ("gpus-per-task", float(tasks_per_node)),
    ):
        if name not in options:
            continue
        total = 0
        for item in options[name].split(","):
            total += _slurm_gpu_count(name, item.split(":"), problems) or 0
        if name == "gpus-per-task" and tasks is not None:
            return total * tasks // nodes
        if name == "gpus" and total % nodes:
            problems.append(f"`--gpus={options[name]}` does not share out evenly over {nodes} nodes")
        return int(total * per_node + 1e-9) or None
    return None


def _slurm_gpu_count(name: str, words: Sequence[str], problems: list[str]) -> int | None:
    """The number in `2`, `a100:2`, `a100` (one) or nothing (one)."""
    text = words[-1] if words else ""
    if words and (value := _integer(text)) is not None:
        return value
    if "$" in text:
        problems.append(f"`--{name}` holds a variable: sbatch reads these lines, not the shell")
        return None
    return 1


# PBS

PBS_TIME = re.compile(r"\d+(:\d{1,2}){0,2}(\.\d+)?")
PBS_WITH_WORD = set("aAcCeJkjlmMNopPqrSuvW")


def _pbs(header: Header, words: Sequence[str]) -> Header:
    problems: list[str] = []
    remarks: list[str] = []
    resources: dict[str, str] = {}
    for option, value in _short_options(words, PBS_WITH_WORD):
        if option == "l":
            for item in value.split(","):
                name, _, amount = item.strip().partition("=")
                resources[name] = amount
    nodes, tasks, gpus = 1, None, _integer(resources.get("ngpus", ""))
    if "select" in resources:
        nodes, tasks, gpus = _pbs_chunks(resources["select"], problems)
        if nodes > 1 and "scatter" not in resources.get("place", ""):
            remarks.append("Without `-l place=scatter` PBS may put both chunks on one node.")
    elif "nodes" in resources:
        nodes, tasks, gpus = _pbs_chunks(resources["nodes"], problems)
        remarks.append("`-l nodes=N:ppn=M` is Torque's and older PBS's; PBS Professional now has -l select.")
    walltime = resources.get("walltime")
    if walltime is not None and not (PBS_TIME.fullmatch(walltime) and re.search(r"[1-9]", walltime)):
        problems.append(
            f"`walltime={walltime}` is no time that qsub reads; it takes seconds or hours:minutes:seconds"
        )
    return replace(
        header,
        nodes=nodes,
        tasks_per_node=tasks,
        gpus_per_node=gpus,
        walltime=walltime,
        problems=tuple(problems),
        remarks=tuple(remarks),
    )


def _pbs_chunks(text: str, problems: list[str]) -> tuple[int, int | None, int | None]:
    nodes, tasks = 0, None
    gpus: set[int | None] = set()
    for chunk in text.split("+"):
        count, *items = chunk.split(":")
        number = _integer(count)
        if not number:
            # `select=ncpus=8` is one chunk; a name of a host is one node.
            items, number = ([count, *items], 1) if not count or not count[0].isdigit() else (items, 1)
            if "$" in count:
                problems.append(f"`{count}` is a variable: qsub reads these lines, not the shell")
        nodes += number
        amounts = {name: value for name, _, value in (item.partition("=") for item in items)}
        tasks = _integer(amounts.get("mpiprocs", "")) or tasks
        gpus.add(_integer(amounts.get("ngpus", amounts.get("gpus", ""))))
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


# LSF

LSF_WITH_WORD = set("abBcCDeEfFgGHIiJjkKLMmnNoOpPqQRrSsTtuUvwWZ")
LSF_TIME = re.compile(r"(\d+:)?\d+(/\S+)?")


def _lsf(header: Header, words: Sequence[str]) -> Header:
    slots = nodes = per_host = gpus = None
    walltime: str | None = None
    problems: list[str] = []
    remarks: list[str] = []
    at = 0
    while at < len(words):
        option, value = words[at], words[at + 1] if at + 1 < len(words) else ""
        at += 2
        if option == "-n":
            slots = _integer(value.split(",")[-1])
            if slots is None:
                problems.append(f"`-n {value}` is no number of slots")
        elif option == "-nnodes":
            nodes = _integer(value)
        elif option == "-gpu":
            match = re.search(r"\bnum=(\d{1,3})", value)
            gpus = int(match[1]) if match else 1
        elif option == "-W":
            walltime = value
        elif option == "-R":
            if match := re.search(r"\bhosts\s*=\s*1\b", value):
                nodes = 1
            if match := re.search(r"\bptile\s*=\s*(\d{1,4})", value):
                per_host = int(match[1])
            if match := re.search(r"\bngpus_(?:excl_p|shared|physical)\s*=\s*(\d{1,3})", value):
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
        tasks_per_node=per_host or (-(-slots // nodes) if slots and nodes else None),
        gpus_per_node=gpus,
        walltime=walltime,
        problems=tuple(problems),
        remarks=tuple(remarks),
    )


_READERS: Mapping[str, Callable[[Header, Sequence[str]], Header]] = {
    "Slurm": _slurm,
    "PBS": _pbs,
    "LSF": _lsf,
}
