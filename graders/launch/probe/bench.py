"""What is known in one run: the emulated machines, and what stand-ins were asked to start on them."""

from __future__ import annotations

import contextlib
import marshal
import os
import re
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lockstep.sandbox.machines import machine_at
from lockstep.sandbox.processes import members, stat
from lockstep.sandbox.starvation import Limit
from lockstep.wire import Json

MAX_RECORDS, MAX_TASKS, MAX_TEXT, MAX_OUTPUT = 48, 64, 500, 8192
# Seconds for what a script left in the background to be heard of.
AFTERWARDS = 1.5
# A job's torchruns are answered once all nodes have one, or nothing else happens: so often in a row nobody asks and no
# process of the job works. What is not clear after so many seconds stays unclear.
MOMENT, WHILE, UNCLEAR = 3, 25, 3.0
# Which of the emulated nodes a process runs on.
NODE = "EMULATED_NODE"
# How many GPUs each of them has, for the Python of a script that asks.
GPUS = "EMULATED_GPUS"
# What the `timeout` was told that a process runs below, if any.
TIMEOUT = "EMULATED_TIMEOUT"
# Variables of a record that a judge may want to see: how a process learns its place without torchrun, its GPUs, its
# network.
PLACES = (
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "CUDA_VISIBLE_DEVICES", "GLOO_SOCKET_IFNAME",
    "NCCL_SOCKET_IFNAME",
)  # fmt: skip


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
class Script:
    """A script that runs as one node."""

    node: int
    process: subprocess.Popen[bytes]
    output: bytes = b""
    status: int | None = None


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

    def note(self, request: Request, kind: str, program: str, words: Sequence[str], **more: Json) -> None:
        """Write down that a node was to start something."""
        self.records.append(
            {
                "kind": kind,
                "node": request.node,
                "program": program,
                "words": [text(word) for word in words[:60]],
                "places": {
                    name: text(request.environment[name]) for name in PLACES if name in request.environment
                },
                **({"timeout": text(request.environment[TIMEOUT])} if TIMEOUT in request.environment else {}),
                **more,
            }
        )

    def host_number(self, name: str, asking: int) -> int:
        """The node of this name; a name of the script's own stands for the other node."""
        name = machine_at(name.rpartition("@")[2])
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


def text(word: str) -> str:
    """A word of a student's, short enough and in UTF-8."""
    return word[:MAX_TEXT].encode("utf-8", "replace").decode()
