"""The `#SBATCH` lines of a job for Slurm.

Source: the manual page sbatch(1).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from graders.launch.schedulers import Header, integer

SLURM_SHORT: Mapping[str, str] = {
    "N": "nodes", "n": "ntasks", "t": "time", "G": "gpus", "J": "job-name", "o": "output", "e": "error",
    "p": "partition", "A": "account", "c": "cpus-per-task", "C": "constraint", "w": "nodelist", "x": "exclude",
    "a": "array", "d": "dependency", "D": "chdir", "i": "input", "L": "licenses", "M": "clusters", "m": "distribution",
    "q": "qos", "S": "core-spec", "b": "begin", "B": "extra-node-info", "F": "nodefile", "k": "no-kill",
}  # fmt: skip
# Those that take no value may share a word: `-HN2` is `-H -N2`.
SLURM_SHORT_FLAGS = "HOQVWhsv"
# Of every version from 22.05 on; what is an option of a later one only is not refused either.
SLURM_OPTIONS = (
    "account acctg-freq array batch bb bbf begin chdir cluster cluster-constraint clusters comment constraint "
    "container container-id context contiguous core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task "
    "deadline delay-boot dependency distribution error exclude exclusive export export-file extra "
    "extra-node-info get-user-env gid gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres "
    "gres-flags help hint hold ignore-pbs input job-name kill-on-invalid-dep licenses mail-type mail-user "
    "mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus network nice no-kill no-requeue nodefile nodelist "
    "nodes ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket ntasks-per-tres open-mode "
    "output overcommit oversubscribe parsable partition power prefer priority profile propagate qos quiet "
    "reboot requeue reservation resv-ports segment signal sockets-per-node spread-job stepmgr switches "
    "tasks-per-node test-only thread-spec threads-per-core time time-min tmp tres-bind tres-per-task uid "
    "usage use-min-nodes verbose version wait wait-all-nodes wckey wrap"
).split()
# Of plugins that clusters add: pyxis, Shifter, CSCS's containers, Jülich's and EAR's.
PLUGIN_OPTIONS = (
    "clearenv container-entrypoint container-env container-image container-mount-home container-mounts container-name "
    "container-readonly container-remap-root container-save container-workdir container-writable cuda-mps "
    "disable-perfparanoid ear ear-cpufreq ear-policy edf entrypoint environment image module no-container-entrypoint "
    "no-container-mount-home no-container-remap-root repo uenv view volume"
).split()
PLUGIN_FLAGS = (
    "clearenv container-entrypoint container-mount-home container-readonly container-remap-root container-writable "
    "cuda-mps disable-perfparanoid entrypoint no-container-entrypoint no-container-mount-home no-container-remap-root"
).split()
SLURM_OTHER_NAMES = {"tasks-per-node": "ntasks-per-node", "cluster": "clusters"}
SLURM_FLAGS = (
    "contiguous help hold ignore-pbs no-requeue overcommit oversubscribe parsable quiet reboot requeue spread-job "
    "stepmgr test-only usage use-min-nodes verbose version wait"
).split()
# With one of these sbatch starts no job.
SLURM_NO_JOB = {"help", "test-only", "usage", "version"}
SLURM_SHORT_FLAG_NAMES = {"H": "hold", "V": "version", "h": "help"}
# They take a value only behind `=`.
SLURM_WITH_OR_WITHOUT = "exclusive get-user-env nice no-kill propagate".split()
SLURM_TIME = re.compile(r"\d+(:\d+){0,2}|\d+-(\d+(:\d+){0,2})?")
SLURM_NO_LIMIT = re.compile(r"[0:-]+|UNLIMITED|INFINITE", re.IGNORECASE)
_MEMORY = re.compile(r"\d+([KMGT]B?)?", re.IGNORECASE)
SLURM_VALUES: Mapping[str, tuple[re.Pattern[str], str]] = {
    "cpus-per-task": (re.compile(r"\+?0*[1-9]\d*"), "a number from 1"),
    "mem": (_MEMORY, "a size such as 16G"),
    "mem-per-cpu": (_MEMORY, "a size such as 4G"),
    "mem-per-gpu": (_MEMORY, "a size such as 16G"),
    "mail-type": (
        re.compile(
            r"((NONE|BEGIN|END|FAIL|REQUEUE|ALL|INVALID_DEPEND|STAGE_OUT|ARRAY_TASKS|TIME_LIMIT(_[589]0)?)(,|$))+",
            re.IGNORECASE,
        ),
        "BEGIN, END, FAIL, ALL, or several of these with commas between",
    ),
    "open-mode": (re.compile(r"a|append|t|truncate", re.IGNORECASE), "append or truncate"),
}


def read_slurm(header: Header, words: Sequence[str]) -> Header:
    """What the words of all `#SBATCH` lines ask for."""
    options, problems = _slurm_options(words)
    remarks: list[str] = []
    asked = _slurm_nodes(options, problems)
    tasks = _slurm_count(options, "ntasks", problems)
    per_node = _slurm_count(options, "ntasks-per-node", problems)
    per_gpu = _slurm_count(options, "ntasks-per-gpu", problems)
    gpus = {name: _slurm_gpus(options, name, problems) for name in SLURM_GPU_OPTIONS}
    each, total = gpus["gres"] if gpus["gres"] is not None else gpus["gpus-per-node"], gpus["gpus"]
    if each is None and (each_socket := gpus["gpus-per-socket"]):
        each = each_socket * (_slurm_count(options, "sockets-per-node", problems) or 1)
    of_task = "gpus-per-task" if gpus["gpus-per-task"] is not None else "tres-per-task"
    each_task = gpus[of_task]
    needed = total or (tasks or 0) * (each_task or 0) or (-(-tasks // per_gpu) if tasks and per_gpu else 0)
    if asked:
        nodes = asked
    elif tasks and per_node:
        nodes = -(-tasks // per_node)
    else:
        # How many nodes with that many GPUs each hold all that are needed.
        nodes = -(-needed // each) if needed and each else 1
    if asked and tasks and tasks < asked:
        nodes = tasks
        remarks.append(
            f"`--ntasks={tasks}` is less than `--nodes={asked}`: sbatch takes only {tasks} of them."
        )
    if asked and tasks and per_node and tasks > asked * per_node:
        problems.append(f"{tasks} tasks do not fit on {asked} nodes with {per_node} on each")
    if total and each and total != each * nodes:
        problems.append(
            f"`--gpus={options['gpus']}` counts the GPUs of all nodes, and {each} on each of {nodes} are {each * nodes}"
        )
    if per_gpu and (per_node or each_task):
        other = "--ntasks-per-node" if per_node else f"--{of_task}"
        problems.append(f"sbatch takes --ntasks-per-gpu or {other}, not both")
    fits = bool(per_node and each_task) and each in (None, (per_node or 0) * (each_task or 0))
    if each_task and not (tasks or asked or total or fits):
        problems.append(f"`--{of_task}` needs --ntasks beside it")
    if each and each_task and each % each_task:
        problems.append(f"{each} GPUs on a node do not share out over tasks with {each_task} each")
    if total is None and each is not None:
        total = each * nodes
    if tasks is None and per_node is None and total:
        tasks = (total // each_task if each_task else total * (per_gpu or 0)) or None
    started = tasks or (nodes * per_node if per_node else nodes)
    if total is None:
        total = started * each_task if each_task else started // per_gpu if per_gpu else None
    elif gpus["gpus"] and each_task and total != each_task * started:
        problems.append(
            f"`--gpus={options['gpus']}` does not fit `--{of_task}={options[of_task]}` "
            f"of {started} task{'s' * (started != 1)}"
        )
    if total and total % nodes:
        problems.append(f"{total} GPUs do not share out evenly over {nodes} nodes")
    if tasks is not None:
        # With both, --ntasks-per-node is only the most that one node may have.
        per_node = min(per_node or tasks, -(-tasks // nodes))
    walltime = _slurm_time(options, problems)
    # Whoever has nodes for himself has their GPUs as well, where they are of a kind that has some.
    whole = options.get("exclusive") == "" and bool({"partition", "constraint", "nodelist"} & options.keys())
    return replace(
        header,
        nodes=nodes,
        tasks_per_node=per_node,
        gpus_per_node=total // nodes if total else None,
        whole_nodes=whole and total is None,
        walltime=walltime,
        seconds=None if walltime is None else _slurm_seconds(walltime),
        held="hold" in options,
        problems=tuple(problems),
        remarks=(*remarks, *_slurm_remarks(options)),
        options=options,
    )


def _slurm_remarks(options: Mapping[str, str]) -> Iterator[str]:
    """What is allowed, and seldom meant."""
    time = options.get("time", "")
    if re.fullmatch(r"\d+:\d+", time) and 60 <= (_slurm_seconds(time) or 0) < 600:
        yield f"`--time={time}` is minutes:seconds; hours and minutes are written `--time={time}:00`."
    for name in ("mem", "mem-per-cpu", "mem-per-gpu"):
        if re.fullmatch(r"0*[1-9]\d?", text := options.get(name, "")):
            yield (
                f"`--{name}={text}` is {text} MB where a cluster is not set to count otherwise: write the unit, as in "
                f"`--{name}={text}G`."
            )
    array = options.get("array", "")
    if re.search("[-,]", array) and not array.endswith("%1"):
        yield (
            f"`--array={array}` makes a job of each number, and each trains everything unless the file reads "
            "SLURM_ARRAY_TASK_ID."
        )


def _slurm_options(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    found: dict[str, str] = {}
    problems: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word == "--":
            problems += [f"`{left}` stands behind `--`, where sbatch takes no option" for left in words[at:]]
            break
        if word.startswith("--"):
            given, equals, value = word[2:].partition("=")
            name = slurm_name(given)
            if name is None:
                near = difflib.get_close_matches(given, SLURM_OPTIONS, 1)
                problems.append(
                    f"sbatch has no option `--{given}`" + (f"; is it --{near[0]}?" if near else "")
                )
                continue
            if equals and name in SLURM_FLAGS and name not in SLURM_WITH_OR_WITHOUT:
                problems.append(f"`--{name}` takes no value, and `{word}` gives it one")
        elif word.startswith("-") and len(word) > 1:
            letters = word[1:].lstrip(SLURM_SHORT_FLAGS)
            for letter in word[1 : len(word) - len(letters)]:
                if letter in SLURM_SHORT_FLAG_NAMES:
                    found[SLURM_SHORT_FLAG_NAMES[letter]] = ""
            if not letters:
                continue
            name, equals, value = SLURM_SHORT.get(letters[0]), "", letters[1:]
            if name is None:
                problems.append(f"sbatch has no option `-{letters[0]}`")
                continue
        else:
            problems.append(f"`{word}` stands alone: sbatch takes it for no option")
            continue
        if not equals and not value and name not in (*SLURM_FLAGS, *PLUGIN_FLAGS, *SLURM_WITH_OR_WITHOUT):
            if at == len(words):
                problems.append(f"`{word}` is without its value")
                break
            value = words[at]
            at += 1
        found[name] = value
    problems += [f"with `--{name}` sbatch starts no job" for name in sorted(SLURM_NO_JOB & found.keys())]
    for name, (pattern, wanted) in SLURM_VALUES.items():
        if name in found and not pattern.fullmatch(found[name]):
            problems.append(f"`--{name}={found[name]}` should be {wanted}")
    return found, problems


def slurm_name(given: str) -> str | None:
    """The option of this name, or the only one that begins like that, as getopt takes it."""
    if given in PLUGIN_OPTIONS:
        return given
    if given not in SLURM_OPTIONS:
        begun = [name for name in SLURM_OPTIONS if name.startswith(given)] if given else []
        if len(begun) != 1:
            return None
        given = begun[0]
    return SLURM_OTHER_NAMES.get(given, given)


def _slurm_count(options: Mapping[str, str], name: str, problems: list[str]) -> int | None:
    text = options.get(name)
    return None if text is None else _slurm_number(text, f"--{name}={text}", problems)


def _slurm_number(text: str, option: str, problems: list[str]) -> int | None:
    value = integer(text.removeprefix("+"))
    if not value:
        variable = " (a variable is not filled in here: sbatch reads these lines, not the shell)"
        problems.append(f"`{option}` is no number{variable if '$' in text else ''}")
    return value or None


def _slurm_nodes(options: Mapping[str, str], problems: list[str]) -> int | None:
    """The most of a range: sbatch gives so many where it can."""
    text = options.get("nodes")
    if text is None:
        return None
    least, dash, most = text.rpartition("-")
    value = _slurm_number(most, f"--nodes={text}", problems)
    if value and dash and least and (integer(least) is None or int(least) > value):
        problems.append(f"`--nodes={text}` is no range from the least to the most")
    return value


def _slurm_time(options: Mapping[str, str], problems: list[str]) -> str | None:
    text = options.get("time")
    if text is not None and SLURM_NO_LIMIT.fullmatch(text):
        problems.append(f"`--time={text}` asks for no limit at all")
    elif text is not None and not SLURM_TIME.fullmatch(text):
        problems.append(
            f"`--time={text}` is no time that sbatch reads; it takes minutes, minutes:seconds, "
            "hours:minutes:seconds, days-hours, and days-hours:minutes:seconds"
        )
    return text


def _slurm_seconds(text: str) -> int | None:
    """A limit on the time, as sbatch(1) reads it: 30 is minutes, 1:30 minutes and seconds, 1-12 days and hours."""
    if not SLURM_TIME.fullmatch(text) or len(text) > 20:
        return None
    days, dash, rest = text.rpartition("-")
    parts = [int(part) for part in rest.split(":")] if rest else [0]
    if dash or len(parts) == 3:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
    else:
        hours, minutes, seconds = (0, *parts, 0)[:3]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


# What they count: the GPUs of each node, of the whole job, of each task, of each socket.
SLURM_GPU_OPTIONS = ("gres", "gpus-per-node", "gpus", "gpus-per-task", "tres-per-task", "gpus-per-socket")
SLURM_GPUS = re.compile(r"(?:[A-Za-z0-9][\w.-]*:)?(?P<count>\d+)|[A-Za-z0-9][\w.-]*")


def _slurm_gpus(options: Mapping[str, str], name: str, problems: list[str]) -> int | None:
    """How many GPUs one option asks for; None where it does not speak of GPUs or cannot be read."""
    text = options.get(name)
    if text is None:
        return None
    if "$" in text:
        problems.append(f"`--{name}={text}` holds a variable: sbatch reads these lines, not the shell")
        return None
    # `gpu:2`, `a100:2`, `a100` (one) and, as a resource, `gpu` (one). Later versions write gres/gpu=2 as well.
    items = [
        item.removeprefix("gres/").removeprefix("gres:").replace("=", ":") for item in text.split(",") if item
    ]
    forms = {"gres": "gpu:2 or gpu:TYPE:2", "tres-per-task": "gres/gpu:2 or gres/gpu:TYPE:2"}
    if name == "tres-per-task" and not any(item.startswith("gpu") for item in items):
        return None  # of processors or licenses alone
    if name in forms:
        pairs = [item.partition(":") for item in items]
        items = [rest if colon else "1" for kind, colon, rest in pairs if kind == "gpu"]
        wrong = not pairs or (not items and re.search("gpu", text, re.IGNORECASE))
    else:
        wrong = not items or any(re.match("gpu(:|$)", item) for item in items)
    counts = [SLURM_GPUS.fullmatch(item) for item in items]
    kinds = {":" in item or not item.isdigit() for item in items}
    if wrong or None in counts or len(kinds) > 1:
        written = forms.get(name, "2 or TYPE:2")
        problems.append(f"`--{name}={text}` is written {written}")
        return None
    numbers = [integer(match["count"] or "1") or 0 for match in counts if match]
    # A resource that is named twice counts once.
    return (numbers[0] if name in forms else sum(numbers)) if numbers else None
