"""Programs that start others, on some nodes or all."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence

from .bench import MAX_TASKS, TIMEOUT, Bench, Order, Request

MAX_FILE = 1 << 16


def _tasks(
    bench: Bench, request: Request, words: Sequence[str], places: Sequence[tuple[int, dict[str, str]]]
) -> Order:
    """Start `words` once for every (node, further variables)."""
    if not words:
        return {}
    # What ssh and the like have started goes on where they are ended.
    started = [
        {"words": list(words), "changes": {TIMEOUT: None, **variables, **bench.on_node(node)}}
        for node, variables in places[:MAX_TASKS]
    ]
    return {"start": started}


SRUN_WITH_WORD = set("ABcdDeGiJLmMnNopqrStTwWxC")
SRUN_FLAGS = (
    "label exclusive unbuffered no-kill overlap overcommit pty quiet verbose oversubscribe exact immediate "
    "kill-on-bad-exit no-allocate preserve-env disable-status spread-job use-min-nodes hold contiguous "
    "multi-prog propagate compress send-libs resv-ports x11 test-only help version nice interactive bell "
    "quit-on-interrupt usage reboot debugger-test stepmgr external-launcher container-mount-home container-writable "
    "container-readonly container-remap-root cuda-mps"
).split()


def srun(bench: Bench, request: Request) -> Order:
    """What srun is to do."""
    words = [word for word in request.words[1:] if word != "--multi-prog"]
    options, command = _options(words, SRUN_WITH_WORD, SRUN_FLAGS)
    environment = request.environment
    hosts = options.get("w") or options.get("nodelist")
    among = [bench.host_number(name, request.node) for name in hosts.split(",")] if hosts else None
    nodes = _number(options.get("N") or options.get("nodes"))
    per_node = _number(options.get("ntasks-per-node"))
    count = _number(options.get("n") or options.get("ntasks"))
    if among is None:
        allocated = len(bench.cluster.hosts)
        among = list(range(min(nodes or allocated, allocated)))
    if per_node is None and count is None:
        per_node = _number(environment.get("SLURM_NTASKS_PER_NODE"))
        count = None if per_node else _number(environment.get("SLURM_NTASKS"))
    if count is None:
        count = len(among) * (per_node or 1)
    count = max(1, min(count, MAX_TASKS))
    among = among[:count]
    changes = exported(options.get("export", ""))
    # srun hands a signal on to its tasks.
    changes |= {name: environment[name] for name in (TIMEOUT,) if name in environment}
    share = per_node if per_node and per_node * len(among) >= count else -(-count // len(among))
    on_each = f"{share}(x{len(among)})" if len(among) > 1 else str(share)
    places = []
    for task in range(count):
        index = task // share
        places.append(
            (
                among[index],
                {
                    **changes,
                    **_step_gpus(options, environment, share, task % share),
                    "SLURM_PROCID": str(task),
                    "SLURM_LOCALID": str(task % share),
                    "SLURM_NODEID": str(index),
                    "SLURM_NTASKS": str(count),
                    "SLURM_NPROCS": str(count),
                    "SLURM_STEP_NUM_NODES": str(len(among)),
                    "SLURM_STEP_NUM_TASKS": str(count),
                    "SLURM_TASKS_PER_NODE": on_each,
                    "SLURMD_NODENAME": bench.cluster.hosts[among[index]],
                    "SLURM_STEP_NODELIST": ",".join(bench.cluster.hosts[node] for node in among),
                    "SLURM_STEP_TASKS_PER_NODE": on_each,
                    "SLURM_STEP_ID": "0",
                    "SLURM_STEPID": "0",
                    "SLURM_GTIDS": str(task),
                    "SLURM_TASK_PID": str(1000 + task),
                    "SLURM_SRUN_COMM_HOST": "10.0.0.1",
                    "SLURM_SRUN_COMM_PORT": "40000",
                    "SLURM_STEP_LAUNCHER_PORT": "40000",
                },
            )
        )
    order = _tasks(bench, request, command, places)
    if len(words) < len(request.words) - 1:
        order = {"start": list(_programs(request, command, order.get("start", [])))}
    return {
        **order,
        **_srun_input(options.get("input", options.get("i", "all")), request, count),
    }


def _step_gpus(
    options: Mapping[str, str], environment: Mapping[str, str], tasks_per_node: int, task: int
) -> dict[str, str]:
    """The GPUs that srun leaves to a step which asks for fewer than its job has; all of them where it does not ask.

    Of several tasks on a node each has its own, if it says how many each has.
    """
    each = options.get("gpus-per-task")
    if tasks_per_node > 1:
        own = _number(each or environment.get("SLURM_GPUS_PER_TASK")) or 0
        return _visible(range(task * own, (task + 1) * own))
    resource = re.fullmatch(r"gpu(?::[A-Za-z][\w-]*)?:(\d{1,2})", options.get("gres", ""))
    count = _number(options.get("gpus-per-node")) or _number(each) or (int(resource[1]) if resource else 0)
    return _visible(range(count))


def _visible(devices: Sequence[int]) -> dict[str, str]:
    """What tells a process its GPUs, if it has any."""
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, devices[:16]))} if devices else {}


def _programs(request: Request, command: Sequence[str], tasks: Sequence[Order]) -> Iterator[Order]:
    """What each task starts by the file of `srun --multi-prog`: lines such as `0-3,5 program --rank %t`."""
    path = os.path.join(request.folder, *command[:1])
    if not os.path.isfile(path):
        return
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = [line.split(maxsplit=1) for line in file.read(MAX_FILE).splitlines()]
    told = [line for line in lines if len(line) == 2 and not line[0].startswith("#")]
    for number, task in enumerate(tasks):
        program = next((text for numbers, text in told if _is_among(number, numbers)), "")
        with contextlib.suppress(ValueError):
            words = shlex.split(re.sub("%[to]", str(number), program), comments=True)
            yield from [{**task, "words": words}] * bool(words)


def _is_among(number: int, numbers: str) -> bool:
    """Whether a task is one of these, such as 0-3,5; a star is all."""
    for part in numbers.split(","):
        first, _, last = part.partition("-")
        begin = _number(first)
        if part == "*" or (begin is not None and begin <= number <= (_number(last or first) or 0)):
            return True
    return False


def _srun_input(mode: str, request: Request, count: int) -> Order:
    """Where srun's tasks read from: each gets a copy of its stdin, unless it is told of a file or of one task."""
    if mode == "all":
        # A single task needs no copy, and leaves to a loop around it what it does not read.
        return {"copies": count > 1}
    file = os.devnull if mode == "none" else os.path.join(request.folder, mode)
    return {"stdin": file} if mode == "none" or os.path.isfile(file) else {}


def exported(text: str) -> dict[str, str]:
    """What `--export=ALL,NAME=value` of srun or a batch system sets. NONE, or names without ALL, take nothing away.

    A comma in quotation marks belongs to the value. What the stand-ins are found by stays.
    """
    found = {}
    for entry in re.findall(r"""(?:'[^']*'|"[^"]*"|[^,])+""", text):
        name, equals, value = entry.strip("'\" ").partition("=")
        if equals and re.fullmatch(r"[A-Za-z_]\w*", name) and name not in ("PATH", "BASH_ENV"):
            found[name] = value.strip("'\"")
    return found


def _options(
    words: Sequence[str], with_word: set[str], flags: Sequence[str]
) -> tuple[dict[str, str], list[str]]:
    """Split a getopt command line before the command it ends with; options by their name without dashes."""
    found: dict[str, str] = {}
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        word = words[at]
        at += 1
        if word == "--":
            break
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if not equals and name not in flags and not name.startswith("no-") and at < len(words):
                value = words[at]
                at += 1
            found[name] = value
        elif word[1] in with_word:
            value = word[2:].removeprefix("=")
            if not value and at < len(words):
                value = words[at]
                at += 1
            found[word[1]] = value
        else:
            found[word[1]] = word[2:]
    return found, list(words[at:])


def _number(text: str | None) -> int | None:
    match = re.match(r"\d{1,4}", text or "")
    return int(match[0]) if match else None


# Of Open MPI, Hydra and PALS. Whatever else has a value is seen by what follows it, which is no program.
MPI_WITH_WORD = (
    "host H hostfile machinefile f map-by bind-to rank-by x mca-file wdir wd cwd cpus-per-proc cpus-per-rank env "
    "genvlist envlist launcher rmk iface ppn perhost npernode N np n c d depth cpu-bind mem-bind gpu-bind hosts"
).split()
MPI_WITH_TWO = ("mca", "gmca")


def mpirun(bench: Bench, request: Request) -> Order:
    """What mpirun is to do."""
    words, at = request.words[1:], 0
    count = per_node = listed = None
    by_node = False
    changes: dict[str, str] = {}
    while at < len(words) and words[at].startswith("-"):
        name, _, value = words[at].lstrip("-").partition("=")
        at += 1
        if name in MPI_WITH_TWO:
            at += 2
            continue
        # The last word is the command's.
        following = words[at] if at < len(words) - 1 and not value else "-"
        if not following.startswith("-") and (name in MPI_WITH_WORD or not is_program(request, following)):
            value, at = following, at + 1
        if name in ("env", "genv") and "=" not in value:
            # Hydra's have the variable and its value in two words.
            value, at = f"{value}={words[at]}" if at < len(words) else value, at + 1
        if name in ("x", "env", "genv"):
            changes |= exported(value)
        elif name in ("np", "n", "c"):
            count = _number(value)
        elif name in ("npernode", "ppn", "perhost", "N"):
            per_node = _number(value)
        elif name == "map-by" and (match := re.search(r"ppr:(\d+):(?:node|socket)", value)):
            per_node = int(match[1])
        elif name == "pernode":
            per_node = 1
        elif name == "bynode" or (name == "map-by" and value.split(":")[0] == "node"):
            by_node = True
        elif name in ("host", "H", "hosts"):
            listed = _slots_of(value.split(","))
        elif name in ("hostfile", "machinefile", "f"):
            listed = _slots_of(_lines(request, value)) or listed
    total = len(bench.cluster.hosts)
    slots = listed or bench.cluster.slots
    if count is None:
        count = total * (per_node or slots)
    if by_node and per_node is None:
        per_node = -(-count // total)
    share = per_node or max(slots, -(-count // total))
    places = []
    for task in range(min(count, MAX_TASKS)):
        node, local = min(task // share, total - 1), task % share
        names = {
            "OMPI_COMM_WORLD_RANK": task, "OMPI_COMM_WORLD_LOCAL_RANK": local, "OMPI_COMM_WORLD_SIZE": count,
            "OMPI_COMM_WORLD_LOCAL_SIZE": min(share, count), "OMPI_COMM_WORLD_NODE_RANK": local, "PMI_RANK": task,
            "PMI_SIZE": count, "PMIX_RANK": task, "MPI_LOCALRANKID": local, "MPI_LOCALNRANKS": min(share, count),
            "PMI_LOCAL_RANK": local, "PMI_LOCAL_SIZE": min(share, count), "PALS_RANKID": task, "PALS_NODEID": node,
            "PALS_LOCAL_RANKID": local, "PALS_LOCAL_SIZE": min(share, count), "MV2_COMM_WORLD_RANK": task,
            "MV2_COMM_WORLD_SIZE": count, "MV2_COMM_WORLD_LOCAL_RANK": local,
        }  # fmt: skip
        places.append((node, {**changes, **{name: str(value) for name, value in names.items()}}))
    return _tasks(bench, request, words[at:], places)


def _slots_of(hosts: Sequence[str]) -> int | None:
    """How many tasks the first of the hosts of a list has room for: each host, `host:2` or `host slots=2`, or once for
    each.
    """
    lines = [line.split("#")[0].strip() for line in hosts]
    names = [re.split(r"[:\s]", line)[0] for line in lines if line]
    said = next((re.search(r"(?::|slots=)(\d{1,3})\b", line) for line in lines if line), None)
    return int(said[1]) if said else names.count(names[0]) if names else None


def _lines(request: Request, path: str) -> list[str]:
    """The lines of a file of hosts; none where it cannot be read."""
    with contextlib.suppress(OSError), open(os.path.join(request.folder, path), errors="replace") as file:
        return file.read(MAX_FILE).splitlines()
    return []


def is_program(request: Request, word: str) -> bool:
    """Whether a word names something that can be started: a program that is there, or a file."""
    found = shutil.which(word, path=request.environment.get("PATH"))
    return found is not None or os.path.isfile(os.path.join(request.folder, word))


JSRUN_WITH_WORD = set("nacgrdbEFDhplKmokteMSUfXTz")


def jsrun(bench: Bench, request: Request) -> Order:
    """What jsrun is to do: it puts resource sets on hosts, and tasks into each."""
    words = request.words[1:]
    options, command = _options(words, JSRUN_WITH_WORD, ("immediate", "help", "version"))
    hosts = len(bench.cluster.hosts)

    def told(letter: str, name: str) -> int | None:
        return _number(options.get(letter) or options.get(name))

    tasks, sets = told("a", "tasks_per_rs") or 1, told("n", "nrs")
    on_host, gpus = told("r", "rs_per_host"), told("g", "gpu_per_rs")
    if sets is None and (processes := told("p", "np")):
        sets = -(-processes // tasks)
    if on_host is None:
        # A host holds as many sets as have GPUs there. How many cores its hosts have, each cluster knows for itself.
        on_host = max(1, bench.cluster.gpus // gpus) if gpus else -(-(sets or hosts) // hosts)
    sets = min(sets or hosts * on_host, hosts * on_host)
    changes = exported(",".join(re.findall(r"(?:^|\0)(?:-E|--env)[\0=]?([^\0]+)", "\0".join(words))))
    places = []
    for task in range(min(sets * tasks, MAX_TASKS)):
        node, local = divmod(task, on_host * tasks)
        own = local // tasks * (gpus or 0)
        names = {
            "OMPI_COMM_WORLD_RANK": task, "OMPI_COMM_WORLD_LOCAL_RANK": local, "OMPI_COMM_WORLD_SIZE": sets * tasks,
            "OMPI_COMM_WORLD_LOCAL_SIZE": on_host * tasks, "PMIX_RANK": task, "JSM_NAMESPACE_RANK": task,
            "JSM_NAMESPACE_SIZE": sets * tasks, "JSM_NAMESPACE_LOCAL_RANK": local,
        }  # fmt: skip
        visible = _visible(range(own, own + (gpus or 0)))
        places.append((node, {**visible, **changes, **{name: str(value) for name, value in names.items()}}))
    return _tasks(bench, request, command, places)


def pbsdsh(bench: Bench, request: Request) -> Order:
    """What pbsdsh is to do."""
    options, command = _options(request.words[1:], set("cnhl"), ())
    nodes = range(len(bench.cluster.hosts))
    only = _number(options.get("n"))
    chosen = [node for node in nodes if only is None or node == only]
    return _tasks(
        bench,
        request,
        command,
        [(node, {"PBS_NODENUM": str(node), "PBS_TASKNUM": str(node + 1)}) for node in chosen],
    )


def pbs_tmrsh(bench: Bench, request: Request) -> Order:
    """What PBS's own rsh is to do: it takes rsh's options before the host's name and after it."""
    _, rest = _options(request.words[1:], {"l"}, ())
    _, command = _options(rest[1:], {"l"}, ())
    if len(command) == 1 and len(command[0].split()) > 1:
        command = ["bash", "-c", command[0]]
    return _tasks(bench, request, command, [(bench.host_number(name, request.node), {}) for name in rest[:1]])


def blaunch(bench: Bench, request: Request) -> Order:
    """What blaunch is to do."""
    options, command = _options(request.words[1:], set("zu"), ("no-shell", "use-login-shell"))
    names = options.get("z", "").split()
    if not names and command and command[0] in bench.cluster.hosts:
        names = [command.pop(0)]
    nodes = [bench.host_number(name, request.node) for name in names] or range(len(bench.cluster.hosts))
    return _tasks(bench, request, command, [(node, {}) for node in dict.fromkeys(nodes)])


def ssh(bench: Bench, request: Request) -> Order:
    """What ssh is to do."""
    _, rest = _options(request.words[1:], set("bceEFIiJlLmoOpQRSwWD"), ())
    if not rest:
        return {}
    node = bench.host_number(rest[0], request.node)
    # Without a command a shell reads what it is to do, of a here-document for one.
    command = ["bash", "-c", " ".join(rest[1:])] if rest[1:] else ["bash"]
    return _tasks(bench, request, command, [(node, {})])


def pdsh(bench: Bench, request: Request) -> Order:
    """What pdsh is to do."""
    options, rest = _options(request.words[1:], set("wxfltuR"), ())
    told = options.get("w", "").strip()
    # ^FILE has them in lines.
    told = " ".join(_lines(request, told[1:])) if told.startswith("^") else told
    names = [name for name in re.split(r"[,\s]+", told) if name]
    nodes = [bench.host_number(name, request.node) for name in names] or range(len(bench.cluster.hosts))
    return _tasks(
        bench, request, ["bash", "-c", " ".join(rest)], [(node, {}) for node in dict.fromkeys(nodes)]
    )
