"""One sandbox with its warm server, seen from the trusted side: start it, run things in it, end it."""

from __future__ import annotations

import contextlib
import itertools
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from lockstep import wire
from lockstep.exercise import Exercise
from lockstep.sandbox import bubblewrap, channel, seccomp, standing
from lockstep.sandbox.limits import Cgroup, Limits, open_cgroup, own_memory, tree_memory
from lockstep.sandbox.outcome import CodeFrame, Outcome, RankOutcome, StudentError
from lockstep.verdict import GraderFault
from lockstep.wire import Array, Json

PACKAGE = Path(__file__).resolve().parent.parent
# The only files of lockstep that exist inside; the trusted side's own stay outside.
INSIDE_FILES = (
    "__init__.py wire.py sandbox/__init__.py sandbox/channel.py sandbox/confine.py sandbox/server.py "
    "sandbox/supervisor.py sandbox/ranks.py sandbox/probing.py sandbox/loading.py sandbox/warm.py "
    "sandbox/watch.py sandbox/shims.py"
).split()
INSIDE = "/opt/lockstep"
PROBES = "/opt/probes"
START = "import sys; sys.path += {path!r}; from lockstep.sandbox.server import main; main(int(sys.argv[1]))"
MAX_EVENTS = 4 << 20
MAX_STACK = 64 << 10
KEPT_OUTPUT = 64 << 10
STACK_SECONDS = 1.0
LOOK_SECONDS = 0.2
END_SECONDS = 10.0
# A hundred processes that each map torch take seconds to end on a busy machine.
GONE_SECONDS = 60.0
START_SECONDS = 120.0


@dataclass(frozen=True)
class RankInputs:
    """What one rank is given, and its environment on top of the neutral one."""

    values: Mapping[str, Json] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Pack:
    """Files to lay out in a run, by relative path."""

    files: Mapping[str, bytes]
    executable: frozenset[str] = frozenset()

    def frame(self) -> bytes:
        """The pack as one frame."""
        import numpy as np

        entries: list[Json] = [
            [path, len(data), path in self.executable] for path, data in self.files.items()
        ]
        content = np.frombuffer(b"".join(self.files.values()), dtype=np.uint8)
        return wire.pack({"files": entries}, {"content": content})


@dataclass(frozen=True)
class RunSpec:
    """One run: a probe's function, the submission's files, secret data sets, ranks and limits."""

    probe: str
    call: str
    submission: Pack
    ranks: Sequence[RankInputs]
    data: Mapping[str, Pack] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)


class Box:
    """A warm server in its sandbox. Use as a context manager; `run` may be called any number of times."""

    def __init__(self, probes: Mapping[str, Path], *, isolated: bool, modules: Sequence[str] = ()) -> None:
        """Start the server and return at once; `run` waits until it is warm.

        Raises bubblewrap.SandboxUnavailable when `isolated` and this machine has no sandbox.
        """
        self.isolated = isolated
        self._probes = probes
        self._modules = tuple(modules)
        self._numbers = itertools.count()
        self._ended: set[int] = set()
        self._leaving: tuple[int, contextlib.ExitStack] | None = None
        self._server_memory = 0
        self._server_own = 0
        self._server_pid: int | None = None
        self._start()

    def _start(self) -> None:
        self._ready = False
        self._workspace = None if self.isolated else tempfile.mkdtemp(prefix="lockstep-")
        self._filter = seccomp.filter_program() if self.isolated else None
        self._lease = bubblewrap.lease_uid() if self.isolated else None
        ours, theirs = channel.pair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._control = ours
        try:
            self._process = self._launch(theirs)
        except BaseException:
            self._forget()
            raise
        finally:
            theirs.close()
        channel.send(
            ours,
            {
                "op": "configure",
                "isolated": self.isolated,
                "workspace": self._workspace or "/tmp",
                "modules": list(self._modules),
                "probes": [self._inside(name) for name in self._probes],
            },
        )

    def _launch(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        fd = theirs.fileno()
        environment = {
            "PATH": "/usr/bin:/bin",
            "OMP_NUM_THREADS": "1",
            "MPLBACKEND": "Agg",
            "LANG": "C.UTF-8",
        }
        path = [bubblewrap.PACKAGES, INSIDE] if self.isolated else [str(PACKAGE.parent)]
        python = bubblewrap.interpreter() if self.isolated else sys.executable
        server = [python, "-I", "-X", "utf8", "-c", START.format(path=path), str(fd)]
        if not self.isolated:
            environment = {
                **os.environ,
                **environment,
                "MPLCONFIGDIR": str(self._workspace),
                "TMPDIR": str(self._workspace),
            }
            return subprocess.Popen(
                server,
                pass_fds=(fd,),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        visible = {f"{INSIDE}/lockstep/{name}": PACKAGE / name for name in INSIDE_FILES}
        visible |= {f"{PROBES}/{name}.py": path for name, path in self._probes.items()}
        with contextlib.ExitStack() as stack:
            etc: dict[str, int] = {}
            for name, text in bubblewrap.ETC_FILES.items():
                file = stack.enter_context(tempfile.TemporaryFile())
                file.write(text.encode())
                file.seek(0)
                etc[name] = file.fileno()
            environment |= {"HOME": "/tmp", "MPLCONFIGDIR": "/tmp"}
            if library := bubblewrap.library_path():
                environment["LD_LIBRARY_PATH"] = library
            return subprocess.Popen(
                bubblewrap.command(server, visible, etc, environment, self._lease),
                pass_fds=(fd, *etc.values()),
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )

    def __enter__(self) -> Box:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server and with it everything in the box."""
        with contextlib.suppress(OSError, EOFError):
            self.settle()
        if self.isolated:
            self._process.kill()
            # Everything in the box dies after that process, not with it: a user id may be lent again, and
            # memory counted on, only when the last one has let go of the other end of this socket.
            with contextlib.suppress(OSError):
                self._control.settimeout(GONE_SECONDS)
                while self._control.recv(channel.MAX_MESSAGE):
                    pass
        self._control.close()
        if not self.isolated and self._ready:
            # Without namespaces the server ends its runs, then itself, when its control socket closes.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_SECONDS)
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._forget()

    def _forget(self) -> None:
        process = getattr(self, "_process", None)
        if process is not None and process.stderr is not None:
            process.stderr.close()
        if self._lease is not None:
            self._lease.close()
        if self._workspace is not None:
            shutil.rmtree(self._workspace, ignore_errors=True)

    def wait_ready(self) -> None:
        """Wait until the server is warm. Raises GraderFault when it does not start."""
        if self._ready:
            return
        self._control.settimeout(START_SECONDS)
        try:
            message = channel.receive(self._control)
        except TimeoutError:
            message = None
        finally:
            self._control.settimeout(None)
        if message is None or message.fields.get("op") != "ready":
            self._process.kill()
            assert self._process.stderr is not None
            said = self._process.stderr.read()[-2000:].decode("utf-8", "replace")
            raise GraderFault(f"the sandbox's server did not start: {said.strip() or 'it said nothing'}")
        self._server_pid = message.pid
        if message.pid:
            self._server_memory = _resident(message.pid)
            self._server_own = own_memory(message.pid)
        self._ready = True

    def server_memory(self) -> int:
        """Bytes that the warm server has resident; the runs share them."""
        self.wait_ready()
        return self._server_memory

    def restart(self) -> None:
        """Throw the box away and start another, after a run that broke the server."""
        self.close()
        self._start()

    def run(self, spec: RunSpec) -> Outcome:
        """Run once. What it started has been ended; the next run begins when it is gone.

        Raises GraderFault when something of lockstep's own broke; the box is usable again afterwards.
        """
        self.wait_ready()
        try:
            self.settle()
            return self._run(spec)
        except (OSError, EOFError) as error:
            self.restart()
            raise GraderFault(f"the sandbox was lost during a run: {error}") from error
        except GraderFault:
            self.restart()
            raise

    def _run(self, spec: RunSpec) -> Outcome:
        number = next(self._numbers)
        with contextlib.ExitStack() as stack:
            status, theirs = channel.pair()
            stack.callback(status.close)
            status.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            cgroup = open_cgroup(spec.limits) if self.isolated else None
            if cgroup is not None:
                stack.callback(cgroup.close)
            watching = _Watching(spec, status, cgroup, self.isolated, self._server_own)
            stack.callback(watching.close)
            fds = [theirs.fileno(), *watching.open(self._spec_frame(spec))]
            channel.send(self._control, {"op": "run", "id": number}, tuple(fds))
            theirs.close()
            watching.close_inside_ends()
            # From here on the server has to be heard before anything of the run is let go.
            self._leaving = number, stack.pop_all()
            try:
                watching.watch()
            finally:
                watching.end()
            return watching.outcome()

    def settle(self) -> None:
        """Wait until nothing is left of the last run.

        The kernel takes it apart while the judge looks at its answers; the next run and `close` begin here.
        """
        if self._leaving is None:
            return
        number, stack = self._leaving
        with stack:
            self._leaving = None
            self._wait_ended(number)

    def _inside(self, probe: str) -> str:
        """Where the server finds a probe."""
        return f"{PROBES}/{probe}.py" if self.isolated else str(self._probes[probe])

    def _spec_frame(self, spec: RunSpec) -> bytes:
        import numpy as np

        arrays = {} if self._filter is None else {"seccomp": np.frombuffer(self._filter, dtype=np.uint8)}
        environments: list[Json] = [dict(rank.environment) for rank in spec.ranks]
        values: dict[str, Json] = {
            "probe": self._inside(spec.probe),
            "call": spec.call,
            "env": environments,
            "data": list(spec.data),
            "limits": cast(Json, spec.limits.for_inside()),
        }
        return wire.pack(values, arrays)

    def _wait_ended(self, number: int) -> None:
        self._control.settimeout(GONE_SECONDS)
        try:
            while number not in self._ended:
                message = channel.receive(self._control)
                if message is None:
                    raise EOFError("the server ended")
                self._ended.add(cast(int, message.fields["id"]))
        except TimeoutError:
            raise EOFError("a run did not end") from None
        finally:
            self._control.settimeout(None)
        self._ended.discard(number)


def _resident(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _loopback_bytes(pid: int) -> int | None:
    """Bytes received on the loopback of a process's network; read out here, where student code has no say."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/net/dev").read_text().splitlines():
            name, _, counters = line.partition(":")
            if name.strip() == "lo":
                return int(counters.split()[0])
    return None


def open_box(exercises: Sequence[Exercise], *, isolated: bool) -> Box:
    """A box that can run these exercises' probes; it is bound to no submission."""
    probes = {exercise.id: exercise.probe.resolve() for exercise in exercises}
    modules = sorted({name for exercise in exercises for name in exercise.warm})
    return Box(probes, isolated=isolated, modules=modules)


@dataclass
class _Pipe:
    """One pipe from a rank: what has come so far, how much is allowed, how much of the end is kept."""

    fd: int
    cap: int
    keep: int | None = None
    data: bytearray = field(default_factory=bytearray)
    seen: int = 0
    open: bool = True

    def read(self) -> bool:
        """Take what is there; False when more came than is allowed."""
        try:
            chunk = os.read(self.fd, 1 << 20)
        except BlockingIOError:
            return True
        if not chunk:
            self.open = False
            return True
        self.seen += len(chunk)
        self.data += chunk
        if self.keep is not None and len(self.data) > 2 * self.keep:
            del self.data[: -self.keep]
        return self.seen <= self.cap


@dataclass
class _RankPipes:
    result: _Pipe
    events: _Pipe
    stacks: _Pipe
    output: _Pipe

    def all(self) -> tuple[_Pipe, ...]:
        return (self.result, self.events, self.stacks, self.output)


class _Watching:
    """The trusted side of one run while it goes on: its pipes, its clock, its limits."""

    def __init__(
        self, spec: RunSpec, status: socket.socket, cgroup: Cgroup | None, isolated: bool, baseline: int
    ) -> None:
        self._spec = spec
        self._status = status
        self._cgroup = cgroup
        self._isolated = isolated
        self._baseline = baseline
        self._inside: list[int] = []
        self._pipes: list[_RankPipes] = []
        self._selector = selectors.DefaultSelector()
        self._supervisor: int | None = None
        self._work = ""
        self._report: dict[str, Json] | None = None
        self._states: dict[str, Json] | None = None
        self._exited: dict[int, int] = {}
        self._limit: str | None = None
        self._timed_out = False
        self._started = 0.0
        self._elapsed = 0.0
        self._peak = 0
        self._loopback: int | None = None

    def open(self, frame: bytes) -> list[int]:
        """Make every descriptor the run is given, in the order the supervisor expects them."""
        spec = self._spec
        self._inside.append(_memory_file(frame))
        self._inside.append(_memory_file(spec.submission.frame()))
        self._inside += [_memory_file(pack.frame()) for pack in spec.data.values()]
        for rank in spec.ranks:
            self._inside.append(_memory_file(wire.pack(rank.values, rank.arrays)))
            ends = []
            for cap, keep in (
                (wire.MAX_FRAME, None),
                (MAX_EVENTS, None),
                (MAX_STACK, None),
                (spec.limits.output, KEPT_OUTPUT),
            ):
                ours, theirs = os.pipe2(os.O_CLOEXEC)
                os.set_blocking(ours, False)
                self._inside.append(theirs)
                ends.append(_Pipe(ours, cap, keep))
            pipes = _RankPipes(*ends)
            self._pipes.append(pipes)
            for pipe in pipes.all():
                self._selector.register(pipe.fd, selectors.EVENT_READ, pipe)
        self._selector.register(self._status, selectors.EVENT_READ, None)
        return self._inside

    def close_inside_ends(self) -> None:
        """Close our copies of what the run holds, so that end of file can be seen."""
        for fd in self._inside:
            os.close(fd)
        self._inside = []

    def close(self) -> None:
        """Close everything that is still open."""
        self.close_inside_ends()
        self._selector.close()
        for pipes in self._pipes:
            for pipe in pipes.all():
                os.close(pipe.fd)

    def watch(self) -> None:
        """Read until every rank has ended, the time is up or a limit is hit."""
        self._started = time.monotonic()
        deadline = self._started + self._spec.limits.seconds
        next_look = self._started + LOOK_SECONDS
        while not self._finished() and self._limit is None:
            now = time.monotonic()
            if now >= deadline:
                self._timed_out = True
                self._ask_for_stacks()
                break
            if now >= next_look:
                self._look_at_limits()
                next_look = now + LOOK_SECONDS
            self._read(min(deadline, next_look) - now)
        self._elapsed = time.monotonic() - self._started
        if self._isolated and self._supervisor:
            self._loopback = _loopback_bytes(self._supervisor)
        if self._limit is None:
            self._ask_for_report()
        if self._timed_out and self._limit is None and self._is_crowded():
            self._limit = "processes"
        self._drain()

    def _finished(self) -> bool:
        """Whether every rank has sent its frame or ended without one."""
        return all(
            number in self._exited or wire.is_complete(pipes.result.data)
            for number, pipes in enumerate(self._pipes)
        )

    def _ask_for_report(self) -> None:
        with contextlib.suppress(OSError):
            channel.send(self._status, {"op": "report"})
        until = time.monotonic() + END_SECONDS
        while self._report is None and self._limit is None and time.monotonic() < until:
            self._read(max(0.0, until - time.monotonic()))

    def _read(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            if key.data is None:
                self._hear()
                continue
            pipe = cast(_Pipe, key.data)
            if not pipe.read():
                self._limit = "output"
            if not pipe.open:
                self._selector.unregister(pipe.fd)

    def _hear(self) -> None:
        message = channel.receive(self._status)
        if message is None:
            self._selector.unregister(self._status)
            usage = self._cgroup.usage() if self._cgroup else None
            if usage is None or usage.exceeded is None:
                raise GraderFault("the supervisor of a run ended before its ranks did")
            # The kernel chose the supervisor when the run was out of memory.
            self._limit = usage.exceeded
            return
        operation = message.fields["op"]
        if operation == "hello":
            self._supervisor = message.pid
            if self._cgroup is not None and message.pid:
                self._cgroup.add(message.pid)
            channel.send(self._status, {"op": "go"})
        elif operation == "laid out":
            self._work = cast(str, message.fields["work"])
        elif operation == "exited":
            self._exited[cast(int, message.fields["rank"])] = cast(int, message.fields["status"])
        elif operation == "report":
            self._report = message.fields
        elif operation == "states":
            self._states = cast(dict[str, Json], message.fields["states"])
        elif operation == "fault":
            raise GraderFault(f"inside the sandbox: {message.fields['text']}")

    def _look_at_limits(self) -> None:
        """End a run that hit a limit of its control group; without one, look at the memory ourselves."""
        if self._supervisor is None:
            return
        if self._cgroup is not None:
            # The kernel stops a process bomb from growing, but not from using all the CPU until the deadline.
            self._limit = self._limit or self._cgroup.usage().exceeded
            return
        used = tree_memory(self._supervisor, self._baseline)
        self._peak = max(self._peak, used)
        if used > self._spec.limits.memory:
            self._limit = "memory"

    def _is_crowded(self) -> bool:
        """Whether so many processes are alive that they are why nothing came back."""
        left = (self._report or {}).get("left")
        return isinstance(left, int) and left >= self._spec.limits.processes // 2

    def _ask_for_stacks(self) -> None:
        with contextlib.suppress(OSError):
            channel.send(self._status, {"op": "stacks"})
        until = time.monotonic() + STACK_SECONDS
        while time.monotonic() < until and self._limit is None:
            before = sum(pipes.stacks.seen for pipes in self._pipes)
            self._read(0.1)
            waiting = [
                number
                for number, pipes in enumerate(self._pipes)
                if not wire.is_complete(pipes.result.data)
                and not pipes.stacks.data
                and number not in self._exited
            ]
            if self._states and not waiting and before == sum(p.stacks.seen for p in self._pipes):
                break

    def _drain(self) -> None:
        """Take what ended ranks left in their pipes; a rank that ended has closed its ends."""
        for pipes in self._pipes:
            for pipe in pipes.all():
                seen = -1
                while pipe.open and seen != pipe.seen:
                    seen = pipe.seen
                    if not pipe.read():
                        self._limit = self._limit or "output"
                        break

    def end(self) -> None:
        """End everything the run started; the server tells when it is gone."""
        if self._isolated and self._supervisor:
            # It is pid 1 of its namespace: with it goes everything in there, whatever it ignores.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self._supervisor, signal.SIGKILL)
        with contextlib.suppress(OSError):
            channel.send(self._status, {"op": "end"})

    def outcome(self) -> Outcome:
        """Everything that is known, as values."""
        usage = self._cgroup.usage() if self._cgroup else None
        report = self._report or {}
        states = self._states or {}
        ranks = []
        for number, pipes in enumerate(self._pipes):
            outcome = _rank_outcome(pipes, self._exited.get(number))
            if self._timed_out and not outcome.complete and number not in self._exited:
                stack = bytes(pipes.stacks.data).decode("utf-8", "replace")
                stands = standing.read(stack, self._work, str(states.get(str(number), "")), outcome.events)
                outcome = replace(outcome, standing=stands)
            ranks.append(outcome)
        return Outcome(
            ranks=tuple(ranks),
            elapsed=self._elapsed,
            timed_out=self._timed_out,
            limit=self._limit or (usage.exceeded if usage else None),
            loopback_bytes=self._loopback,
            left_running=cast("int | None", report.get("left")),
            peak_memory=usage.peak_memory if usage else self._peak or None,
            cpu_seconds=usage.cpu_seconds if usage else None,
        )


def _memory_file(data: bytes) -> int:
    fd = os.memfd_create("lockstep", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    import fcntl

    # Ranks share these pages; sealed, none can change what another reads.
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
    return fd


def _rank_outcome(pipes: _RankPipes, status: int | None) -> RankOutcome:
    bare = RankOutcome(
        complete=False,
        events=_events(bytes(pipes.events.data)),
        output=bytes(pipes.output.data[-KEPT_OUTPUT:]).decode("utf-8", "replace"),
        status=status,
    )
    if not pipes.result.data:
        return bare
    try:
        frame = wire.unpack(bytes(pipes.result.data))
    except wire.WireError as error:
        return replace(bare, protocol=str(error))
    values, error_fields = frame.values.get("values"), frame.values.get("error")
    return replace(
        bare,
        complete=True,
        values=values if isinstance(values, dict) else {},
        arrays=frame.arrays,
        error=_student_error(error_fields) if isinstance(error_fields, dict) else None,
    )


def _events(data: bytes) -> tuple[Mapping[str, Json], ...]:
    events: list[Mapping[str, Json]] = []
    for line in data.split(b"\n"):
        try:
            event = wire.parse_json(line) if line.startswith(b"{") else None
        except wire.WireError:
            continue
        if isinstance(event, dict):
            events.append(event)
    return tuple(events)


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _student_error(fields: dict[str, Json]) -> StudentError:
    frames: list[CodeFrame] = []
    listed = fields.get("frames")
    for entry in listed if isinstance(listed, list) else []:
        if isinstance(entry, list) and len(entry) == 3 and isinstance(entry[1], int):
            frames.append(CodeFrame(_text(entry[0]), entry[1], _text(entry[2])))
    number, line = fields.get("errno"), fields.get("line")
    return StudentError(
        type=_text(fields.get("type")),
        message=_text(fields.get("message")),
        frames=tuple(frames),
        phase=_text(fields.get("phase")),
        errno=number if isinstance(number, int) else None,
        line=line if isinstance(line, int) else None,
    )
