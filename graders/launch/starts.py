"""What a launch script started, as the probe wrote it down, read without trusting its shape."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lockstep.compare import elements, integer
from lockstep.sandbox.machines import machine_at
from lockstep.wire import Json

LOCAL = {"localhost", "localhost.localdomain", "ip6-localhost", "::1", "0.0.0.0", "0", "::", ""}
# What torchrun takes for a number of processes, its own words and backends from elsewhere: as many as there are of it.
BY_GPUS, BY_CORES = 0, -1
DEVICES = {**dict.fromkeys("auto gpu xpu hpu npu mlu musa".split(), BY_GPUS), "cpu": BY_CORES}
STATIC_PORT, C10D_PORT = "29500", "29400"


@dataclass(frozen=True)
class Endpoint:
    """Where the nodes of a job meet, as one of them was told. `port` is empty when there is none."""

    host: str
    port: str

    @property
    def is_local(self) -> bool:
        """Whether every node would take itself for this host."""
        return self.host in LOCAL or self.host.startswith("127.")

    def __str__(self) -> str:
        """As torchrun would be told."""
        return f"{self.host}:{self.port}" if self.port else self.host


@dataclass(frozen=True)
class Start:
    """One program that a node was to start. `kind` is torchrun, python, submits or other.

    For torchrun, `problem` says why it refuses its command line; all else is then at its default. `nproc` may
    be BY_GPUS or BY_CORES. `there` says whether the script lies where torchrun would look for it.
    `places` are the variables by which a process learns its place in the group without torchrun, its GPUs and its
    network. `timeout` is what the `timeout` that it runs below was told. Of a job: `late` says that it
    started only after another node's had ended, `left` that the job's file ended before it.
    """

    kind: str
    node: int
    program: str
    words: tuple[str, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""
    nodes: tuple[int, int] = (1, 1)
    nproc: int | None = 1
    standalone: bool = False
    backend: str = "static"
    endpoint: Endpoint = Endpoint("", "")
    rdzv_id: str = ""
    local_addr: str = ""
    node_rank: int = 0
    script: str = ""
    arguments: tuple[str, ...] = ()
    there: bool = False
    folder: str = ""
    late: bool = False
    left: bool = False
    timeout: str = ""

    @property
    def command(self) -> str:
        """The command line, for a message."""
        return " ".join([self.program, *self.words])[:300]

    @property
    def script_name(self) -> str:
        """The name of the file of Python that is started, without its folder."""
        return self.script.replace("\\", "/").rpartition("/")[2]

    def processes(self, gpus: int) -> int | None:
        """How many processes torchrun starts on a node with so many GPUs; None when it cannot be told."""
        if self.nproc == BY_CORES:
            return None
        return gpus if self.nproc == BY_GPUS else self.nproc


@dataclass(frozen=True)
class NodeRun:
    """One run of a script as one node: its exit status (None: it did not end), output, and what it started.

    `elsewhere` are folders that it changed to, and that only exist on another machine.
    """

    node: int
    status: int | None
    output: str
    starts: tuple[Start, ...]
    elsewhere: tuple[str, ...] = ()


def read_ways(value: Json) -> list[list[NodeRun]]:
    """Every way in which the script was run, each with its nodes."""
    return [[_run(run) for run in elements(way)] for way in elements(value)]


def read_run(value: Json, records: Json = None) -> NodeRun:
    """One run; `records` where they are kept apart from it."""
    return _run({**value, "records": records} if isinstance(value, dict) else value)


def by_node(way: Sequence[NodeRun]) -> dict[int, list[Start]]:
    """What each node was to start.

    A script may start all nodes from the first, over ssh or srun: then what the others ran is one copy too many.
    """
    runs = way[:1] if way and len({start.node for start in way[0].starts}) > 1 else way
    starts: dict[int, list[Start]] = {run.node: [] for run in runs}
    for run in runs:
        for start in run.starts:
            starts.setdefault(start.node, []).append(start)
    # Beside torchrun a script may run what prepares the training.
    return {node: [start for start in own if start.kind == "torchrun"] or own for node, own in starts.items()}


def _run(value: Json) -> NodeRun:
    run = value if isinstance(value, dict) else {}
    return NodeRun(
        node=integer(run.get("node")) or 0,
        status=integer(run.get("status")),
        output=_text(run.get("output")),
        starts=tuple(_starts(run.get("records"))),
        elsewhere=tuple(_elsewhere(run.get("records"))),
    )


def _starts(value: Json) -> Iterator[Start]:
    for record in elements(value):
        if not isinstance(record, dict):
            continue
        kind, node = _text(record.get("kind")), integer(record.get("node")) or 0
        program = _text(record.get("program"))
        words = tuple(_text(word) for word in elements(record.get("words")))
        places = _object(record.get("places"))
        common = {name: machine_at(_text(value)) for name, value in places.items() if isinstance(name, str)}
        start = Start(kind, node, program, words, common, timeout=_text(record.get("timeout")))
        if kind == "torchrun":
            yield _torchrun(_object(record.get("facts")), record, start)
        elif kind in ("python", "submits", "other"):
            yield replace(start, script=_text(record.get("script")))


def _elsewhere(value: Json) -> Iterator[str]:
    for record in elements(value):
        if isinstance(record, dict) and record.get("kind") == "elsewhere":
            yield from (_text(word) for word in elements(record.get("words"))[-1:])


def _torchrun(facts: Mapping[str, Json], record: Mapping[str, Json], start: Start) -> Start:
    folder, there = _text(record.get("folder")), record.get("there") is True
    if "problem" in facts or not facts:
        return Start(
            start.kind, start.node, start.program, start.words, start.places,
            problem=_text(facts.get("problem")) or "nothing was recorded", folder=folder, timeout=start.timeout,
        )  # fmt: skip
    nodes = _nodes(_text(facts.get("nnodes")))
    standalone = facts.get("standalone") is True
    backend = "c10d" if standalone else _text(facts.get("backend"))
    return Start(
        start.kind, start.node, start.program, start.words, start.places,
        problem="" if nodes else f"--nnodes {_text(facts.get('nnodes'))} is neither a number nor MIN:MAX",
        nodes=nodes or (0, 0),
        nproc=_nproc(_text(facts.get("nproc"))),
        standalone=standalone,
        backend=backend,
        endpoint=Endpoint("localhost", "0") if standalone else _endpoint(facts, backend),
        rdzv_id=_text(facts.get("id")),
        local_addr=_text(facts.get("local_addr")),
        node_rank=integer(facts.get("node_rank")) or 0,
        script=_script(facts),
        arguments=tuple(_text(word) for word in elements(facts.get("arguments"))),
        there=there,
        folder=folder,
        late=record.get("late") is True,
        left=record.get("left") is True,
        timeout=start.timeout,
    )  # fmt: skip


def _script(facts: Mapping[str, Json]) -> str:
    script = _text(facts.get("script"))
    return script.replace(".", "/") + ".py" if facts.get("module") is True else script


def _nodes(text: str) -> tuple[int, int] | None:
    match = re.fullmatch(r"(\d{1,6})(?::(\d{1,6}))?", text)
    return (int(match[1]), int(match[2] or match[1])) if match else None


def _nproc(text: str) -> int | None:
    if text in DEVICES:
        return DEVICES[text]
    # Not even a sign: torchrun takes -2, starts nothing and waits.
    return int(text) if re.fullmatch(r"[1-9]\d{0,5}", text) else None


def _endpoint(facts: Mapping[str, Json], backend: str) -> Endpoint:
    text = _text(facts.get("endpoint")).strip()
    if not text and backend == "static":
        return Endpoint(
            machine_at(_text(facts.get("master_addr")).lower()),
            _text(facts.get("master_port")) or STATIC_PORT,
        )
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, ""
    if not port and backend != "static":
        port = C10D_PORT
    return Endpoint(machine_at(host.strip("[]").lower()), port)


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}
