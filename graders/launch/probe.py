"""Runs launch scripts as the nodes of a small cluster would, with stand-ins for the programs they start.

A stand-in does nothing of its own: it asks this process, which reads from the kernel what the stand-in was
started with, writes that down and says what to do. Where two nodes train for real, torchrun is the real one.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import itertools
import json
import marshal
import os
import re
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from torch.distributed import run as torchrun

from lockstep.sandbox.probing import Inputs, Observation, Student
from lockstep.sandbox.processes import members, stat
from lockstep.sandbox.starvation import LONGEST, Limit
from lockstep.wire import Json

MAX_RECORDS, MAX_TASKS, MAX_TEXT, MAX_OUTPUT = 48, 64, 500, 8192
# Seconds for what a script left in the background to be heard of.
AFTERWARDS = 1.5
# A job's torchruns are answered once all nodes have one, or nothing else happens: so often in a row nobody asks and no
# process of the job works. What is not clear after so many seconds stays unclear.
MOMENT, WHILE, UNCLEAR = 3, 25, 3.0
# Which of the emulated nodes a process runs on.
NODE = "EMULATED_NODE"
# Variables of a record that a judge may want to see: how a process learns its place without torchrun, its GPUs, its
# network.
PLACES = (
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "CUDA_VISIBLE_DEVICES", "GLOO_SOCKET_IFNAME",
    "NCCL_SOCKET_IFNAME",
)  # fmt: skip
# What runs the command behind it, and stands in front of `python` behind --no-python.
PREFIXES = ("env", "nice", "nohup", "numactl", "stdbuf", "taskset", "time", "timeout")

# Few and small imports: a job on two nodes starts a dozen of these.
STAND_IN = r"""#!{python} -IS
import _socket, _thread, marshal, os, sys
end = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
end.connect({socket!r})
end.send(b"stand-in")
answer = end.recv(1 << 20)
end.close()
order = marshal.loads(answer) if answer else {{"status": 1}}
def environment(changes):
    kept = {{name: value for name, value in os.environ.items() if changes.get(name, "") is not None}}
    return {{**kept, **{{name: value for name, value in changes.items() if value is not None}}}}
def started(words, changes, stdin):
    if isinstance(stdin, str):
        actions = [(os.POSIX_SPAWN_OPEN, 0, stdin, os.O_RDONLY, 0)]
    else:
        actions = [(os.POSIX_SPAWN_DUP2, stdin, 0)] if stdin else []
    try:
        return os.posix_spawnp(words[0], words, environment(changes), file_actions=actions)
    except OSError as error:
        print(words[0] + ": " + error.strerror, file=sys.stderr)
        return None
def feed(ends):
    while data := os.read(0, 1 << 16):
        for end in list(ends):
            try:
                os.write(end, data)
            except OSError:
                ends.remove(end)
    for end in ends:
        os.close(end)
sys.stdout.write(order.get("say", ""))
sys.stdout.flush()
if "become" in order:
    os.execvpe(order["become"][0], order["become"], environment(order.get("changes", {{}})))
tasks = order.get("start", [])
# Of a stdin that is no device each gets a copy.
copied = order.get("copies") and sys.stdin and not os.fstat(0).st_rdev
pipes = [os.pipe() for task in tasks] if copied else []
stdins = [end for end, _ in pipes] or [order.get("stdin")] * len(tasks)
pids = [started(task["words"], task["changes"], stdin) for task, stdin in zip(tasks, stdins)]
for end, _ in pipes:
    os.close(end)
if pipes:
    _thread.start_new_thread(feed, ([end for _, end in pipes],))
ends = [127 if pid is None else abs(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])) for pid in pids]
os._exit(max([order.get("status", 0), *ends]) & 255)
"""

# What a cluster has and this place lacks must not stop a script with `set -e` before it starts anything: files to
# source, folders of one's own, data to copy, limits to lift.
SHELL = r"""
lockstep_source() {{
    if [ ! -e "$1" ]; then case "$1" in /*|*/activate|*conda*) return 0 ;; esac; fi
    builtin source "$@"
}}
source() {{ lockstep_source "$@"; }}
.() {{ lockstep_source "$@"; }}
cd() {{
    case "${{@: -1}}" in
        /*) if [ ! -d "${{@: -1}}" ]; then lockstep-elsewhere "${{@: -1}}"; builtin cd {work!r}; return; fi ;;
    esac
    builtin cd "$@"
}}
ulimit() {{ builtin ulimit "$@" 2>/dev/null || true; }}
for tool in cp mv ln mkdir tar unzip; do
    eval "$tool() {{ command $tool \"\$@\" || true; }}"
done
unset tool
"""

TRAINER = """
import json, os, socket
from datetime import timedelta

import torch
import torch.distributed as dist

end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
end.connect({socket!r})
end.send(json.dumps({{name: os.environ.get(name) for name in {names!r}}}).encode())
number = torch.tensor([int(end.recv(64))])
dist.init_process_group("gloo", timeout=timedelta(seconds={seconds}))
dist.all_reduce(number)
seen = {{"rank": dist.get_rank(), "world_size": dist.get_world_size(), "total": int(number)}}
end.send(json.dumps(seen).encode())
end.recv(64)
dist.barrier()
dist.destroy_process_group()
"""

# Python that may call torchrun's main by itself: then it becomes the stand-in.
LAUNCHERS = """
import importlib, os, sys
from lockstep.sandbox import warm

def stands_in(module):
    def main(args=None):
        sys.stdout.flush()
        words = sys.argv[1:] if args is None else args
        os.execvp("python3", ["python3", "-m", module, *map(str, words)])
    importlib.import_module(module).main = main

for module in ("torch.distributed.run", "torch.distributed.launch"):
    stands_in(module)
warm.execute(sys.argv[1:])
"""
REPORTED = (NODE, "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK")


@dataclass(frozen=True)
class Request:
    """A stand-in as the kernel knows it: its name and arguments, its environment, its folder."""

    words: list[str]
    environment: dict[str, str]
    folder: str
    pid: int = 0

    @property
    def node(self) -> int:
        """The emulated node it runs on."""
        text = self.environment.get(NODE, "0")
        return int(text) if text.isdigit() and len(text) < 4 else 0


@dataclass(frozen=True)
class Cluster:
    """The machines that a script believes to be on."""

    hosts: list[str]
    gpus: int
    slots: int


Order = dict[str, Any]


@dataclass(frozen=True)
class Held:
    """A torchrun of a job that has no answer yet, as the real one would still run."""

    end: socket.socket
    request: Request
    record: dict[str, Json]


@dataclass
class Bench:
    """The stand-ins of one run and what they were started with. `real` carries torchrun's commands out.

    `holds`: the script is a job's, and torchruns are kept waiting until it is clear what it does beside them. Of those
    in `gone` each was let go though it was without the others; `silent` counts how often nobody asked, `resting` how
    often nobody worked either.
    """

    cluster: Cluster
    tools: str
    home: str
    work: str
    numbers: list[int] | None = None
    records: list[dict[str, Json]] = field(default_factory=list)
    workers: list[dict[str, Json]] = field(default_factory=list)
    strangers: dict[str, int] = field(default_factory=dict)
    agents: list[int] = field(default_factory=list)
    afterwards: Limit | None = None
    holds: bool = False
    held: list[Held] = field(default_factory=list)
    gone: list[Request] = field(default_factory=list)
    resting: int = 0
    silent: int = 0
    unclear: Limit | None = None
    slept: bool = False
    ended: bool = False

    def order(self, request: Request) -> Order:
        """What a stand-in is to do."""
        name = os.path.basename(request.words[0])
        answer = HANDLERS.get(name, _nothing)
        if len(self.records) >= MAX_RECORDS:
            return {"status": 1}
        return answer(self, request)

    def note(self, request: Request, kind: str, program: str, words: Sequence[str], **more: Json) -> None:
        """Write down that a node was to start something."""
        self.records.append(
            {
                "kind": kind,
                "node": request.node,
                "program": program,
                "words": [_text(word) for word in words[:60]],
                "places": {
                    name: _text(request.environment[name]) for name in PLACES if name in request.environment
                },
                **more,
            }
        )

    def host_number(self, name: str, asking: int) -> int:
        """The node of this name; a name of the script's own stands for the other node."""
        name = name.rpartition("@")[2]
        if name in ("localhost", "127.0.0.1", "0.0.0.0", "0"):
            return asking
        if name in self.cluster.hosts:
            return self.cluster.hosts.index(name)
        if match := re.fullmatch(r"10\.0\.0\.(\d{1,2})", name):
            return min(max(int(match[1]) - 1, 0), len(self.cluster.hosts) - 1)
        last = len(self.cluster.hosts) - 1
        return self.strangers.setdefault(name, min(1 + len(self.strangers), last))

    def is_through(self, scripts: Sequence[Script]) -> bool:
        """Whether there is nothing more to see: all numbers are added up, or nobody is left who could do that."""
        if self.numbers and sum("total" in worker for worker in self.workers) == len(self.numbers):
            return True
        if any(script.status is None for script in scripts):
            return False
        # A script may leave torchrun in the background.
        if self.numbers:
            return not any(map(_lives, self.agents))
        self.afterwards = self.afterwards or Limit(AFTERWARDS, os.getppid())
        return self.afterwards.is_reached() or not any(_group_lives(s.process.pid) for s in scripts)

    def attend(self, script: Script, heard: bool) -> None:
        """Answer the torchruns that are held once it is clear what a job does beside them.

        A job that has ended has left them behind. One that rests waits for them: if not all nodes have one, those that
        come later come too late. What counts is the order of things, on a slow machine as on a fast one.
        """
        self.ended = script.status is not None
        if not self.held:
            return
        self.unclear = self.unclear or Limit(UNCLEAR, os.getppid())
        # Below the supervisor, which starts what `python` is here; it and this process are at work themselves.
        own = (os.getppid(), os.getpid())
        rests = not heard and all(_rests(pid) for pid in members(os.getppid()) if pid not in own)
        self.resting = self.resting + 1 if rests else 0
        self.silent = 0 if heard else self.silent + 1
        complete = len({held.request.node for held in self.held}) >= len(self.cluster.hosts)
        if self.ended:
            for held in self.held:
                held.record["left"] = not self.slept
        elif not complete and self.resting >= WHILE:
            self.gone = [held.request for held in self.held]
        elif complete and (self.slept or self.resting >= MOMENT or self.silent >= WHILE):
            # Whatever it does, it goes on.
            pass
        elif not self.unclear.is_reached():
            return
        self.holds = False
        for held in self.held:
            with contextlib.suppress(OSError):
                held.end.send(marshal.dumps({}))
        self.held.clear()

    def is_late(self, request: Request) -> bool:
        """Whether it asks only after those that waited for it have ended."""
        return (
            bool(self.gone)
            and all(gone.node != request.node for gone in self.gone)
            and not any(_lives(gone.pid) for gone in self.gone)
        )

    def on_node(self, node: int) -> dict[str, str | None]:
        """What differs in the environment of a process on this node."""
        return {NODE: str(node), "HOSTNAME": self.cluster.hosts[node]}


def _lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _rests(pid: int) -> bool:
    """Whether a process waits in all threads, and not for the clock: for another process.

    Where a thread waits the kernel keeps to itself for the warm Python, and maybe for all: then nobody can tell.
    """
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/wchan") as file:
                waits = not re.search("^0?$|sleep|select|poll", file.read())
            state = next(iter(stat(int(thread))), "X")
            if state != "Z" and not (state == "S" and waits):
                return False
    except OSError:
        return False
    return True


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _text(word: str) -> str:
    return word[:MAX_TEXT].encode("utf-8", "replace").decode()


# What torchrun was told


def told(words: Sequence[str], environment: Mapping[str, str], *, legacy: bool) -> dict[str, Json]:
    """Torchrun's own reading of its command line, as plain values; `problem` when it refuses it."""
    said = io.StringIO()
    with _lent_environment({name: value for name, value in environment.items() if name.startswith("PET_")}):
        try:
            parser = torchrun.get_args_parser()
            if legacy:
                parser.add_argument("--use-env", "--use_env", action="store_true")
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
                args = parser.parse_args(list(words))
        except SystemExit:
            lines = [line for line in said.getvalue().splitlines() if "error: " in line]
            return {
                "problem": _text(lines[-1].partition("error: ")[2]) if lines else "it only prints its help"
            }
        except ValueError as error:
            return {"problem": _text(f"a PET_ variable of the environment cannot be read: {error}")}
    command = [args.training_script, *args.training_script_args]
    before = list(words[: len(words) - len(command)])
    if args.no_python:
        command = _behind_python(command)
    # With torch.distributed.launch a script may follow that reads --local-rank.
    return {
        "nnodes": _text(str(args.nnodes)),
        "nproc": _text(str(args.nproc_per_node)),
        "backend": _text(str(args.rdzv_backend)),
        "endpoint": _text(str(args.rdzv_endpoint or "")),
        "id": _text(str(args.rdzv_id)),
        "local_addr": _text(str(args.local_addr or "")),
        "standalone": bool(args.standalone),
        "node_rank": int(args.node_rank) if -(1 << 40) < int(args.node_rank) < 1 << 40 else None,
        "master_addr": _text(str(args.master_addr)),
        "master_port": None if args.master_port is None else _text(str(args.master_port)),
        "module": bool(args.module),
        "script": _text(command[0]),
        "arguments": [_text(word) for word in command[1:41]],
        # `torchrun OPTIONS -- SCRIPT`: behind the dashes no more options can stand.
        "options": len(before) - (before[-1:] == ["--"]),
    }


def _behind_python(command: list[str]) -> list[str]:
    """A command from the file of Python on; all of it where `python` is not what it starts."""
    words = list(command)
    is_python = re.compile(r"(.*/)?python[0-9.]*").fullmatch
    if words and os.path.basename(words[0]) in PREFIXES:
        # Which of its options take a value does not matter.
        words = list(itertools.dropwhile(lambda word: not is_python(word), words))
    if not words or not is_python(words[0]):
        return command
    return list(itertools.dropwhile(lambda word: not word.endswith(".py"), words)) or command


@contextlib.contextmanager
def _lent_environment(values: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _torchrun(bench: Bench, request: Request) -> Order:
    return _start(bench, request, "torchrun", request.words[1:], legacy=False)


def _start(bench: Bench, request: Request, program: str, words: list[str], *, legacy: bool) -> Order:
    facts = told(words, request.environment, legacy=legacy)
    script = str(facts.get("script", ""))
    file = script.replace(".", "/") + ".py" if facts.get("module") else script
    there = os.path.isfile(os.path.join(request.folder, file))
    bench.note(
        request,
        "torchrun",
        program,
        words,
        facts=facts,
        there=there,
        folder=_text(_below(bench, request.folder)),
        late=bench.is_late(request),
        left=bench.ended and not bench.slept,
    )
    if bench.numbers is None or "problem" in facts:
        return {"status": 2} if "problem" in facts else {"hold": True}
    bench.agents.append(request.pid)
    options = words[: cast(int, facts["options"])]
    if legacy:
        options = [
            word for word in words[: cast(int, facts["options"])] if word not in ("--use-env", "--use_env")
        ]
    return {
        "become": [
            _real("torchrun"),
            *_on_loopback(options, facts, bench),
            os.path.join(bench.tools, "trainer.py"),
        ],
        "changes": {
            "GLOO_SOCKET_IFNAME": "lo",
            "TP_SOCKET_IFNAME": "lo",
            **dict.fromkeys(
                ("PET_MODULE", "PET_NO_PYTHON", "PET_RUN_PATH", "BASH_ENV", "CUDA_VISIBLE_DEVICES"), None
            ),
        },
    }


def _below(bench: Bench, folder: str) -> str:
    if folder == bench.home:
        return "~"
    inside = folder == bench.work or folder.startswith(bench.work + os.sep)
    return os.path.relpath(folder, bench.work) if inside else folder


def _real(name: str) -> str:
    """The warm `python` or `torchrun`; `sys.executable` lies beside it."""
    return os.path.join(os.path.dirname(sys.executable), name)


def _on_loopback(options: list[str], facts: Mapping[str, Json], bench: Bench) -> list[str]:
    """The same options for machines that are all this one: names of hosts become 127.0.0.1, ports stay."""
    kept = [word for word in options if word not in ("-m", "--module", "--no-python", "--no_python")]
    kept = [word for word in kept if word not in ("--run-path", "--run_path")]
    endpoint = str(facts["endpoint"])
    port = endpoint.rpartition(":")[2] if ":" in endpoint else ""
    # argparse takes the last of several.
    kept += [
        "--local-addr",
        "127.0.0.1",
        "--max-restarts",
        "0",
        "--log-dir",
        os.path.join(bench.tools, "logs"),
    ]
    if not str(facts["nproc"]).isdigit():
        kept += ["--nproc-per-node", str(bench.cluster.gpus)]
    if facts["backend"] == "static":
        kept += ["--master-addr", "127.0.0.1"]
        kept += ["--rdzv-endpoint", f"127.0.0.1:{port}"] if endpoint else []
    else:
        # etcd's backends need a server of their own, which no script starts.
        kept += [
            "--rdzv-backend",
            "c10d",
            "--rdzv-endpoint",
            f"127.0.0.1:{port or 29400}" if endpoint else "",
        ]
    return kept


def _python(bench: Bench, request: Request) -> Order:
    """Records launchers and training scripts, and is Python for anything else."""
    words = list(request.words[1:])
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-c", "-m", "-"):
        at += 2 if words[at] in ("-X", "-W") else 1
    name, rest = (words[at], words[at + 1 :]) if at < len(words) else ("", [])
    if name == "-m" and rest and rest[0] in ("torch.distributed.run", "torch.distributed.launch"):
        legacy = rest[0].endswith("launch")
        return _start(bench, request, f"python -m {rest[0]}", rest[1:], legacy=legacy)
    if name == "-m" and rest and rest[0].split(".")[0] in OTHER_LAUNCHERS:
        return _other(bench, Request([rest[0].split(".")[0], *rest[1:]], request.environment, request.folder))
    if os.path.basename(name) == "torchrun":  # python $(which torchrun)
        return _start(bench, request, "torchrun", rest, legacy=False)
    if name == "-m" and rest and rest[0] in ("pip", "venv", "wandb"):
        return {}
    stem = os.path.basename(name if name != "-m" or not rest else rest[0]).removesuffix(".py")
    if stem and (name.endswith(".py") or name == "-m") and re.search(r"train|ddp|main", stem):
        bench.note(request, "python", "python", words, script=_text(f"{stem}.py"))
        return {}
    if _may_launch(request, name, rest):
        words = [os.path.join(bench.tools, "launchers.py"), *words[at:]]
    return {"become": [_real("python"), *words], "changes": {"BASH_ENV": None}}


def _may_launch(request: Request, name: str, rest: Sequence[str]) -> bool:
    """Whether this Python may call a launcher's main; what comes from stdin may, for all that can be seen here."""
    if name in ("", "-"):
        return True
    source = rest[0] if name == "-c" and rest else ""
    if not name.startswith("-"):
        with contextlib.suppress(OSError), open(os.path.join(request.folder, name), errors="replace") as file:
            source = file.read(1 << 18)
    return "torch.distributed" in source


# Programs that start others on all nodes


def _tasks(
    bench: Bench, request: Request, words: Sequence[str], places: Sequence[tuple[int, dict[str, str]]]
) -> Order:
    """Start `words` once for every (node, further variables)."""
    if not words:
        return {}
    started = [
        {"words": list(words), "changes": {**variables, **bench.on_node(node)}}
        for node, variables in places[:MAX_TASKS]
    ]
    return {"start": started}


SRUN_WITH_WORD = set("ABcdDeGiJLmMnNopqrStTwxC")
SRUN_FLAGS = (
    "label exclusive unbuffered no-kill overlap overcommit pty quiet verbose oversubscribe exact immediate "
    "kill-on-bad-exit no-allocate preserve-env disable-status spread-job use-min-nodes hold contiguous "
    "multi-prog wait-all-nodes propagate compress send-libs resv-ports x11 test-only help version"
).split()


def _srun(bench: Bench, request: Request) -> Order:
    options, command = _options(request.words[1:], SRUN_WITH_WORD, SRUN_FLAGS)
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
    exported = _exported(options.get("export", ""))
    share = per_node if per_node and per_node * len(among) >= count else -(-count // len(among))
    places = []
    for task in range(count):
        index = task // share
        places.append(
            (
                among[index],
                {
                    **exported,
                    **_step_gpus(options, share),
                    "SLURM_PROCID": str(task),
                    "SLURM_LOCALID": str(task % share),
                    "SLURM_NODEID": str(index),
                    "SLURM_NTASKS": str(count),
                    "SLURM_NPROCS": str(count),
                    "SLURM_STEP_NUM_NODES": str(len(among)),
                    "SLURM_STEP_NUM_TASKS": str(count),
                    "SLURM_TASKS_PER_NODE": f"{share}(x{len(among)})" if len(among) > 1 else str(share),
                    "SLURMD_NODENAME": bench.cluster.hosts[among[index]],
                },
            )
        )
    return {
        **_tasks(bench, request, command, places),
        **_srun_input(options.get("input", options.get("i", "all")), request, count),
    }


def _step_gpus(options: Mapping[str, str], tasks_per_node: int) -> dict[str, str]:
    """The GPUs that srun leaves to a step which asks for fewer than its job has; all of them where it does not ask."""
    each_task = _number(options.get("gpus-per-task")) if tasks_per_node == 1 else None
    resource = re.fullmatch(r"gpu(?::[A-Za-z][\w-]*)?:(\d{1,2})", options.get("gres", ""))
    count = _number(options.get("gpus-per-node")) or each_task or (int(resource[1]) if resource else 0)
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(min(count, 16))))} if count else {}


def _srun_input(mode: str, request: Request, count: int) -> Order:
    """Where srun's tasks read from: each gets a copy of its stdin, unless it is told of a file or of one task."""
    if mode == "all":
        # A single task needs no copy, and leaves to a loop around it what it does not read.
        return {"copies": count > 1}
    file = os.devnull if mode == "none" else os.path.join(request.folder, mode)
    return {"stdin": file} if mode == "none" or os.path.isfile(file) else {}


def _exported(text: str) -> dict[str, str]:
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


MPI_WITH_WORD = (
    "host H hostfile machinefile f map-by bind-to rank-by x mca-file wdir wd cpus-per-proc cpus-per-rank env "
    "genvlist launcher rmk iface ppn perhost npernode N np n c report-bindings-to hosts"
).split()
MPI_WITH_TWO = ("mca", "gmca", "genv")


def _mpirun(bench: Bench, request: Request) -> Order:
    words, at = request.words[1:], 0
    count = per_node = None
    while at < len(words) and words[at].startswith("-"):
        name, _, value = words[at].lstrip("-").partition("=")
        at += 1
        if name in MPI_WITH_TWO:
            at += 2
            continue
        if name in MPI_WITH_WORD and not value and at < len(words):
            value, at = words[at], at + 1
        if name in ("np", "n", "c"):
            count = _number(value)
        elif name in ("npernode", "ppn", "perhost", "N"):
            per_node = _number(value)
        elif name == "map-by" and (match := re.search(r"ppr:(\d+):(?:node|socket)", value)):
            per_node = int(match[1])
        elif name == "map-by" and value.split(":")[0] == "node" and count is not None:
            per_node = -(-count // len(bench.cluster.hosts))
    total = len(bench.cluster.hosts)
    if count is None:
        count = total * (per_node or bench.cluster.slots)
    share = per_node or max(bench.cluster.slots, -(-count // total))
    places = []
    for task in range(min(count, MAX_TASKS)):
        node, local = min(task // share, total - 1), task % share
        names = {
            "OMPI_COMM_WORLD_RANK": task, "OMPI_COMM_WORLD_LOCAL_RANK": local, "OMPI_COMM_WORLD_SIZE": count,
            "OMPI_COMM_WORLD_LOCAL_SIZE": min(share, count), "OMPI_COMM_WORLD_NODE_RANK": local, "PMI_RANK": task,
            "PMI_SIZE": count, "PMIX_RANK": task, "MPI_LOCALRANKID": local,
        }  # fmt: skip
        places.append((node, {name: str(value) for name, value in names.items()}))
    return _tasks(bench, request, words[at:], places)


def _pbsdsh(bench: Bench, request: Request) -> Order:
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


def _blaunch(bench: Bench, request: Request) -> Order:
    options, command = _options(request.words[1:], set("zu"), ("no-shell", "use-login-shell"))
    names = options.get("z", "").split()
    if not names and command and command[0] in bench.cluster.hosts:
        names = [command.pop(0)]
    nodes = [bench.host_number(name, request.node) for name in names] or range(len(bench.cluster.hosts))
    return _tasks(bench, request, command, [(node, {}) for node in dict.fromkeys(nodes)])


def _ssh(bench: Bench, request: Request) -> Order:
    _, rest = _options(request.words[1:], set("bceEFIiJlLmoOpQRSwWD"), ())
    if len(rest) < 2:
        return {}
    node = bench.host_number(rest[0], request.node)
    return _tasks(bench, request, ["bash", "-c", " ".join(rest[1:])], [(node, {})])


def _pdsh(bench: Bench, request: Request) -> Order:
    options, rest = _options(request.words[1:], set("wxfltuR"), ())
    names = re.split(r"[,\s]+", options.get("w", "").strip()) if options.get("w") else []
    nodes = [bench.host_number(name, request.node) for name in names] or range(len(bench.cluster.hosts))
    return _tasks(
        bench, request, ["bash", "-c", " ".join(rest)], [(node, {}) for node in dict.fromkeys(nodes)]
    )


# Programs that only tell something


def _scontrol(bench: Bench, request: Request) -> Order:
    if len(request.words) <= 2 or not request.words[2].startswith("hostname"):
        return {}
    listed = request.words[3] if len(request.words) > 3 else ""
    # The job's own list is written with brackets; names that a script gives otherwise come back as they are.
    hosts = bench.cluster.hosts if not listed or "[" in listed else listed.split(",")
    return {"say": "".join(f"{host}\n" for host in hosts)}


def _hostname(bench: Bench, request: Request) -> Order:
    if any(word in ("-i", "-I", "--ip-address", "--all-ip-addresses") for word in request.words[1:]):
        return {"say": f"10.0.0.{request.node + 1}\n"}
    return {"say": f"{bench.cluster.hosts[request.node]}\n"}


def _getent(bench: Bench, request: Request) -> Order:
    name = request.words[-1]
    return {"say": f"10.0.0.{bench.host_number(name, request.node) + 1}      {name}\n"}


def _nvidia_smi(bench: Bench, request: Request) -> Order:
    return {"say": "".join(f"GPU {number}: emulated\n" for number in range(bench.cluster.gpus))}


def _nothing(bench: Bench, request: Request) -> Order:
    return {}


def _sleep(bench: Bench, request: Request) -> Order:
    """It need not sleep here; a job that would lets those in the background do their work."""
    bench.slept = True
    return {}


def _elsewhere(bench: Bench, request: Request) -> Order:
    """A folder that exists on another machine."""
    bench.note(request, "elsewhere", "cd", request.words[1:])
    return {}


def _submits(bench: Bench, request: Request) -> Order:
    bench.note(request, "submits", os.path.basename(request.words[0]), request.words[1:])
    return {}


def _other(bench: Bench, request: Request) -> Order:
    bench.note(request, "other", os.path.basename(request.words[0]), request.words[1:])
    return {}


def _wrapper(bench: Bench, request: Request) -> Order:
    """`conda run`, `apptainer exec` and the like: what they start, from the first program that is known here."""
    for at, word in enumerate(request.words[1:], start=1):
        if os.path.basename(word) in STARTERS:
            return {"become": request.words[at:]}
    return {}


Handler = Callable[[Bench, Request], Order]
OTHER_LAUNCHERS = ("accelerate", "deepspeed", "horovodrun", "lightning", "fabric")
HANDLERS: dict[str, Handler] = {
    "torchrun": _torchrun,
    **dict.fromkeys(("python", "python3", *(f"python3.{minor}" for minor in range(8, 16))), _python),
    "srun": _srun,
    **dict.fromkeys(("mpirun", "mpiexec", "orterun"), _mpirun),
    "pbsdsh": _pbsdsh,
    "blaunch": _blaunch,
    "ssh": _ssh,
    "pdsh": _pdsh,
    **dict.fromkeys(("sbatch", "salloc", "qsub", "bsub"), _submits),
    **dict.fromkeys(OTHER_LAUNCHERS, _other),
    "scontrol": _scontrol,
    "hostname": _hostname,
    "getent": _getent,
    "nvidia-smi": _nvidia_smi,
    **dict.fromkeys(
        ("conda", "mamba", "uv", "poetry", "apptainer", "singularity", "numactl", "nsys"), _wrapper
    ),
    # A node that waits until another can be reached need not wait here.
    "sleep": _sleep,
    **dict.fromkeys(("module", "ml", "nc", "ncat", "ping"), _nothing),
    **dict.fromkeys(("pip", "pip3", "git", "wandb", "rsync", "scp", "curl", "wget"), _nothing),
    "lockstep-elsewhere": _elsewhere,
}
STARTERS = {"torchrun", "python", "python3", "bash", "sh", "srun"}


# One run of a script


@contextlib.contextmanager
def _listening(bench: Bench, seconds: float) -> Iterator[socket.socket]:
    """Write the stand-ins and listen to them."""
    path = os.path.join(bench.tools, "asked")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen(64)
    os.mkdir(os.path.join(bench.tools, "bin"))
    os.mkdir(bench.home)
    text = STAND_IN.format(python=os.path.realpath("/proc/self/exe"), socket=path)
    for name in HANDLERS:
        target = os.path.join(bench.tools, "bin", name)
        with open(target, "w") as file:
            file.write(text)
        os.chmod(target, 0o755)
    for name, content in (
        ("bin/activate", ""),
        ("shell", SHELL.format(work=bench.work)),
        ("launchers.py", LAUNCHERS),
        ("trainer.py", TRAINER.format(socket=path, names=REPORTED, seconds=seconds)),
    ):
        with open(os.path.join(bench.tools, name), "w") as file:
            file.write(content)
    try:
        yield listener
    finally:
        listener.close()


def _peer(end: socket.socket) -> Request | None:
    """Whoever is at the other end, from what the kernel says of it rather than from what it says itself."""
    pid = struct.unpack("3i", end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = [word.decode("utf-8", "replace") for word in file.read(1 << 18).split(b"\0")[:-1]]
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = [entry.partition(b"=") for entry in file.read(1 << 18).split(b"\0") if b"=" in entry]
        folder = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return None
    # The interpreter and its flags stand in front of the stand-in's own path.
    if len(words) < 3:
        return None
    environment = {
        name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, _, value in pairs
    }
    return Request(words[2:], environment, folder, pid)


@dataclass
class Script:
    """A script that runs as one node."""

    node: int
    process: subprocess.Popen[bytes]
    output: bytes = b""
    status: int | None = None


def _run(bench: Bench, runs: Sequence[Mapping[str, Any]], student: Student, seconds: float) -> list[Json]:
    """Start the script once for every entry of `runs`, all at once, and serve their stand-ins until they end."""
    # Those that meet wait for one another as long as they may.
    with _listening(bench, LONGEST * seconds) as listener, selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ, _accept)
        scripts = [_begin(bench, run, student) for run in runs]
        for script in scripts:
            assert script.process.stdout is not None
            os.set_blocking(script.process.stdout.fileno(), False)
            selector.register(script.process.stdout, selectors.EVENT_READ, script)
        limit = Limit(seconds, os.getppid())
        while not limit.is_reached() and not bench.is_through(scripts):
            heard = selector.select(timeout=0.02)
            for key, _ in heard:
                if isinstance(key.data, Script):
                    _drain(key.data, selector)
                elif key.data is _accept:
                    selector.register(listener.accept()[0], selectors.EVENT_READ, "end")
                else:
                    _serve(bench, cast(socket.socket, key.fileobj), selector)
            for script in scripts:
                if script.status is None and script.process.poll() is not None:
                    script.status = script.process.returncode
            bench.attend(scripts[0], bool(heard))
        for script in scripts:
            _drain(script, selector)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(script.process.pid, signal.SIGKILL)
            script.process.wait()
        return [
            {
                "node": script.node,
                "status": script.status,
                "output": script.output.decode("utf-8", "replace")[-MAX_OUTPUT // 2 :],
            }
            for script in scripts
        ]


def _accept() -> None:
    """Marks the listening socket among those that are waited for."""


def _begin(bench: Bench, run: Mapping[str, Any], student: Student) -> Script:
    node = int(run["node"])
    # The student's own PATH stays behind the stand-ins.
    environment = {
        **{name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"},
        **_exported(cast(str, run.get("export", ""))),
        "PATH": f"{bench.tools}/bin:{os.environ['PATH']}",
        "BASH_ENV": os.path.join(bench.tools, "shell"),
        **{
            name: _placed(value, student.work)
            for name, value in cast(dict[str, str], run["environment"]).items()
        },
        **cast(dict[str, str], bench.on_node(node)),
    }
    folder = bench.home if run.get("at_home") else os.path.join(student.work, cast(str, run["folder"]))
    script = os.path.relpath(os.path.join(student.work, cast(str, run["script"])), folder)
    process = subprocess.Popen(
        [_interpreter(os.path.join(folder, script)), script, *cast(list[str], run["arguments"])],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    return Script(node, process)


def _interpreter(script: str) -> str:
    """Whose language a script is in, by its first line: to a scheduler any will do whose comments begin with #."""
    first = ""
    with contextlib.suppress(OSError), open(script, errors="replace") as file:
        first = file.readline(200)
    return "python3" if not script.endswith(".sh") and re.match(r"#!.*\bpython[\d.]*\b", first) else "bash"


def _placed(value: str, work: str) -> str:
    """A judge's value with @WORK for the folder of the submission."""
    return value.replace("@WORK", work)


def _drain(script: Script, selector: selectors.BaseSelector) -> None:
    stream = script.process.stdout
    assert stream is not None
    if stream.closed:
        return
    with contextlib.suppress(BlockingIOError):
        for _ in range(16):
            chunk = os.read(stream.fileno(), 1 << 16)
            if not chunk:
                selector.unregister(stream)
                stream.close()
                return
            script.output = (script.output + chunk)[-MAX_OUTPUT:]


def _serve(bench: Bench, end: socket.socket, selector: selectors.BaseSelector) -> None:
    # Anybody in here may connect and say anything.
    with contextlib.suppress(OSError, ValueError, KeyError, RecursionError):
        message = end.recv(1 << 16)
        if message == b"stand-in":
            request = _peer(end)
            order = bench.order(request) if request else {"status": 1}
            if request and bench.holds and order.get("hold") and not bench.ended:
                bench.held.append(Held(end, request, bench.records[-1]))
            else:
                end.send(marshal.dumps(order))
            return
        said = json.loads(message) if message and bench.numbers is not None else None
        if isinstance(said, dict) and len(bench.workers) < MAX_RECORDS:
            _hear(bench, end, said)
            return
    selector.unregister(end)
    end.close()


def _hear(bench: Bench, end: socket.socket, said: dict[str, Json]) -> None:
    """A process of the training first says who it is and gets its number, then what all numbers add up to."""
    assert bench.numbers is not None
    if "total" in said:
        bench.workers.append({"total": said["total"], "rank": said["rank"], "world_size": said["world_size"]})
        end.send(b"seen")
        return
    bench.workers.append({name: said.get(name) for name in REPORTED})
    arrived = sum("RANK" in worker for worker in bench.workers)
    end.send(str(bench.numbers[(arrived - 1) % len(bench.numbers)]).encode())


def _bench(student: Student, inputs: Inputs, numbers: list[int] | None = None) -> Bench:
    cluster = cast(dict[str, Any], inputs.values["cluster"])
    tools = tempfile.mkdtemp(prefix="nodes-")
    return Bench(
        Cluster(cluster["hosts"], cluster["gpus"], cluster["slots"]),
        tools,
        os.path.join(os.path.realpath(tools), "home"),
        os.path.realpath(student.work),
        numbers,
    )


def record(student: Student, inputs: Inputs) -> Observation:
    """Run a script in each of several ways, and in each as one node after the other; what it would have started."""
    seen: list[Json] = []
    for way in cast(list[list[dict[str, Any]]], inputs.values["ways"]):
        nodes: list[Json] = []
        for run in way:
            bench = _bench(student, inputs)
            bench.cluster.hosts[:] = run.get("hosts", bench.cluster.hosts)
            bench.holds = bool(run.get("job"))
            with student.calling(f"running `bash {run['script']}`"), _first_machine(run):
                (ended,) = _run(bench, [run], student, cast(float, inputs.values["seconds"]))
            nodes.append({**cast(dict[str, Json], ended), "records": cast(Json, bench.records)})
            shutil.rmtree(bench.tools, ignore_errors=True)
            if cast(dict[str, Json], ended)["status"] is None:
                # It would not end in another way either, and each takes as long.
                return Observation({"ways": [*seen, nodes]})
        seen.append(nodes)
    return Observation({"ways": seen})


@contextlib.contextmanager
def _first_machine(run: Mapping[str, Any]) -> Iterator[None]:
    """The first node listens already where the others are told to meet it: a script may wait for that."""
    port = run["environment"].get("MASTER_PORT", "")
    with contextlib.ExitStack() as listening:
        # Without a sandbox somebody else may have the port, and then listens too.
        with contextlib.suppress(OSError):
            if run["node"] and port.isdigit():
                listening.enter_context(socket.create_server(("", int(port))))
        yield


def carry_out(student: Student, inputs: Inputs) -> Observation:
    """Run a script as all nodes at once, with the real torchrun and a training that adds up numbers."""
    bench = _bench(student, inputs, cast(list[int], inputs.values["numbers"]))
    runs = cast(list[dict[str, Any]], inputs.values["way"])
    with student.calling(f"running `bash {runs[0]['script']}` as {len(runs)} nodes"):
        ended = _run(bench, runs, student, cast(float, inputs.values["seconds"]))
    return Observation(
        {"scripts": ended, "workers": cast(Json, bench.workers), "records": cast(Json, bench.records)}
    )


def ask_script(student: Student, inputs: Inputs) -> Observation:
    """Run a training script with the arguments that a launch file gives it; how it ended, if it did so in time."""
    command = ["python", cast(str, inputs.values["script"]), *cast(list[str], inputs.values["arguments"])]
    try:
        ended = student.run_command(command, seconds=cast(float, inputs.values["seconds"]))
    except subprocess.TimeoutExpired:
        return Observation({"status": None})
    return Observation({"status": ended.status, "output": ended.output[-MAX_OUTPUT // 2 :]})


# A script over one of Azure's Python SDKs, none of which is there.

ENDED = {"get_status", "status", "provisioning_state"}


class AzureThing:
    """Whatever a script takes from the SDK, or gets out of it: everything can be asked of it, nothing happens.

    `of` is the last name it was taken by; a call of it is written down and gives another such thing.
    """

    def __init__(self, of: str, calls: list[Json], call: dict[str, Json] | None = None) -> None:
        vars(self).update(_of=of, _calls=calls, _call=call, _parts={})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._call is not None and name in ENDED and name != "get_status":
            return "Completed"
        return self._parts.setdefault(name, AzureThing(name, self._calls))

    def __setattr__(self, name: str, value: object) -> None:
        self._parts[name] = value
        if self._call is not None:
            cast(list[Json], self._call["set"]).append(name[:MAX_TEXT])

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Write the call down; what comes of it is another such thing."""
        if self._of in ENDED:
            return "Completed"
        call: dict[str, Json] = {"of": self._of, "set": [], **_said(args, kwargs)}
        if len(self._calls) < MAX_RECORDS:
            self._calls.append(call)
        return AzureThing(self._of, self._calls, call)

    def __getitem__(self, key: object) -> Any:
        return AzureThing(str(key)[:MAX_TEXT], self._calls)

    def __contains__(self, key: object) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def _made_by(self) -> Json:
        """As an argument of something else: the call that made it."""
        return self._call if self._call is not None else {"of": self._of}


def _said(args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, Json]:
    return {
        "args": [_told(value) for value in args[:MAX_TASKS]],
        "kwargs": {str(name)[:MAX_TEXT]: _told(value) for name, value in list(kwargs.items())[:MAX_TASKS]},
    }


def _told(value: object, depth: int = 0) -> Json:
    if type(value) is AzureThing:
        call = cast(dict[str, Json], value._made_by())
        return {name: call[name] for name in ("of", "args", "kwargs") if name in call} if depth < 4 else None
    if value is None or type(value) in (bool, str) or (type(value) is int and abs(value) < 1 << 53):
        return value[:MAX_OUTPUT] if type(value) is str else cast(Json, value)
    if type(value) in (list, tuple) and depth < 4:
        return [_told(item, depth + 1) for item in cast(Sequence[object], value)[:MAX_TASKS]]
    if type(value) is dict and depth < 4:
        items = list(cast(dict[object, object], value).items())[:MAX_TASKS]
        return {str(name)[:MAX_TEXT]: _told(item, depth + 1) for name, item in items if type(name) is str}
    return {"of": "something else"}


class AzureModules:
    """Finds every module below `azureml` and `azure`, made of AzureThings and of exceptions that nobody raises."""

    def __init__(self, calls: list[Json]) -> None:
        self._calls = calls

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        """As a finder of the import system."""
        root = name.partition(".")[0]
        return (
            importlib.util.spec_from_loader(name, cast(Any, self)) if root in ("azureml", "azure") else None
        )

    def create_module(self, spec: Any) -> types.ModuleType:
        """As a loader of the import system."""
        module = types.ModuleType(spec.name)
        vars(module).update(__path__=[], __getattr__=self._member)
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to run."""

    def _member(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name.endswith(("Exception", "Error")):
            return type(name, (Exception,), {})
        return AzureThing(name, self._calls)


def azure_script(student: Student, inputs: Inputs) -> Observation:
    """Run a script that hands a job to Azure; what it called of the SDK, and with what."""
    calls: list[Json] = []
    sys.meta_path.insert(0, cast(Any, AzureModules(calls)))
    status = student.run_script(cast(str, inputs.values["script"]))
    return Observation({"status": status, "calls": [*calls]})
