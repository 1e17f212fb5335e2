"""The trusted side of one run while it goes on: its pipes, its clock, its limits."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from lockstep import wire
from lockstep.sandbox import answers, channel, memoryfile, standing, starvation
from lockstep.sandbox.limits import Usage
from lockstep.sandbox.outcome import Outcome
from lockstep.sandbox.prepared import Prepared
from lockstep.sandbox.spec import RunSpec
from lockstep.sandbox.stopwatch import Stopwatch
from lockstep.sandbox.systemclock import SystemClock
from lockstep.verdict import GraderFault
from lockstep.wire import Json

MAX_EVENTS = 4 << 20
# A byte from each process that a probe forks before it calls student code.
MAX_BEGAN = 1 << 20
MAX_STACK = 64 << 10
KEPT_OUTPUT = 64 << 10
# How long ranks whose time is up get to write where they stand; only one that blocks the signal needs all of it.
STACK_SECONDS = 5.0
LOOK_SECONDS = 0.2
END_SECONDS = 10.0
# How long processes that are about to end may take to do so before they count as left running.
PATIENCE_SECONDS = 1.0


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
    began: _Pipe

    def all(self) -> tuple[_Pipe, ...]:
        return (self.result, self.events, self.stacks, self.output, self.began)


class Watching:
    """The trusted side of one run while it goes on: its pipes, its clock, its limits."""

    def __init__(self, spec: RunSpec, prepared: Prepared, isolated: bool) -> None:
        self._spec = spec
        self._prepared = prepared
        self._isolated = isolated
        self._inside: list[int] = []
        self._pipes: list[_RankPipes] = []
        self._selector = selectors.DefaultSelector()
        self._work = ""
        self._report: dict[str, Json] | None = None
        self._states: dict[str, Json] | None = None
        self._exited: dict[int, int] = {}
        self._limit: str | None = None
        self._timed_out = False
        self._stopwatch = Stopwatch()
        self._elapsed = self._stood_still = 0.0
        self._system_clock = SystemClock()
        self._began_at = self._ended_at = 0.0
        self._clock_was_set = False
        self._others = starvation.Others()
        self._usage = Usage(None, None, None)
        self._loopback: int | None = None

    def open(self, frame: bytes) -> list[int]:
        """Make every descriptor the run is given, in the order the supervisor expects them."""
        spec = self._spec
        self._inside.append(memoryfile.make(frame))
        self._inside.append(memoryfile.make(spec.submission.frame()))
        self._inside += [memoryfile.make(pack.frame()) for pack in spec.data.values()]
        for rank in spec.ranks:
            self._inside.append(memoryfile.make(wire.pack(rank.values, rank.arrays)))
            ends = []
            for cap, keep in (
                (wire.MAX_FRAME, None),
                (MAX_EVENTS, None),
                (MAX_STACK, None),
                (spec.limits.output, KEPT_OUTPUT),
                (MAX_BEGAN, None),
            ):
                ours, theirs = os.pipe2(os.O_CLOEXEC)
                os.set_blocking(ours, False)
                self._inside.append(theirs)
                ends.append(_Pipe(ours, cap, keep))
            pipes = _RankPipes(*ends)
            self._pipes.append(pipes)
            for pipe in pipes.all():
                self._selector.register(pipe.fd, selectors.EVENT_READ, pipe)
        self._selector.register(self._prepared.status, selectors.EVENT_READ, None)
        # The run can begin before whoever sends it these is told so: a clock inside must never be ahead of this one.
        self._system_clock, self._began_at = SystemClock(), time.time()
        self._stopwatch, self._others = Stopwatch(), starvation.Others()
        return self._inside

    def close_inside_ends(self) -> None:
        """Close our copies of what the run holds, so that end of file can be seen."""
        while self._inside:
            # Forgotten before it is closed: where Ctrl-C breaks in, its number must not be closed a second time.
            os.close(self._inside.pop())

    def close(self) -> None:
        """Close everything that is still open."""
        self.close_inside_ends()
        self._selector.close()
        for pipes in self._pipes:
            for pipe in pipes.all():
                os.close(pipe.fd)

    def watch(self, following: Prepared) -> None:
        """Read until every rank has ended, the time is up or a limit is hit; meanwhile attend to the next run."""
        self._selector.register(following.status, selectors.EVENT_READ, following)
        deadline = self._spec.limits.seconds
        next_look = LOOK_SECONDS
        while not self._finished() and self._limit is None:
            now = self._stopwatch.seconds()
            if now >= deadline:
                deadline = self._deadline(now)
            if now >= deadline:
                self._timed_out = True
                self._ask_for_stacks()
                break
            if now >= next_look:
                self._look_at_limits()
                next_look = now + LOOK_SECONDS
            self._read(min(deadline, next_look) - now)
        awake, self._stood_still = self._stopwatch.seconds(), self._stopwatch.stood_still
        # All of it, since a student's own clock may have gone on.
        self._elapsed = awake + self._stood_still
        self._ended_at, self._clock_was_set = time.time(), self._system_clock.was_set()
        if self._isolated and self._prepared.supervisor:
            self._loopback = _loopback_bytes(self._prepared.supervisor)
        self._look_at_limits()
        if self._limit is None and (self._timed_out or self._spec.counts_left):
            self._ask_for_report()
        if self._timed_out and self._limit is None and self._is_crowded():
            self._limit = "processes"
        self._drain()

    def _deadline(self, elapsed: float) -> float:
        """When the time is up: while others had the processors the clock stands still, up to a bound."""
        seconds = self._spec.limits.seconds
        return min(seconds + self._waited(elapsed), starvation.LONGEST * seconds)

    def _waited(self, elapsed: float) -> float:
        supervisor = self._prepared.supervisor
        if not supervisor:
            return 0.0
        # Processes that nobody waits for when they end are in the count of a control group alone.
        own = max(starvation.seconds_of(supervisor), self._usage.cpu_seconds or 0.0)
        return starvation.kept_waiting(supervisor, elapsed, self._others.seconds(own))

    def _finished(self) -> bool:
        """Whether every rank has sent its frame or ended without one."""
        return all(
            number in self._exited or wire.is_complete(pipes.result.data)
            for number, pipes in enumerate(self._pipes)
        )

    def _ask_for_report(self) -> None:
        """Hear what is left running; what has yet to end on a busy machine is given more time for it."""
        self._hear_report(0.0 if self._timed_out else PATIENCE_SECONDS)
        if not self._timed_out and (self._report or {}).get("left"):
            elapsed = self._stopwatch.seconds()
            had = max(elapsed - self._waited(elapsed), elapsed / starvation.LONGEST)
            self._hear_report(PATIENCE_SECONDS * (elapsed / had - 1))

    def _hear_report(self, patience: float) -> None:
        before, self._report = self._report, None
        with contextlib.suppress(OSError):
            channel.send(self._prepared.status, {"op": "report", "patience": patience})
        waiting = Stopwatch()
        while self._report is None and self._limit is None and waiting.seconds() < patience + END_SECONDS:
            self._read(LOOK_SECONDS)
        self._report = self._report or before

    def _read(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            if key.data is None:
                self._hear()
                continue
            if isinstance(key.data, Prepared):
                self._selector.unregister(key.fd)
                key.data.attend()
                continue
            pipe = cast(_Pipe, key.data)
            if not pipe.read():
                self._limit = "output"
            if not pipe.open:
                self._selector.unregister(pipe.fd)

    def _hear(self) -> None:
        message = channel.receive(self._prepared.status)
        if message is None:
            self._selector.unregister(self._prepared.status)
            self._limit = self._why_lost("the supervisor of a run ended before its ranks did")
            return
        operation = message.fields["op"]
        if operation == "laid out":
            self._work = cast(str, message.fields["work"])
        elif operation == "exited":
            self._exited[cast(int, message.fields["rank"])] = cast(int, message.fields["status"])
        elif operation == "report":
            self._report = message.fields
        elif operation == "states":
            self._states = cast(dict[str, Json], message.fields["states"])
        elif operation == "fault":
            self._limit = self._why_lost(f"inside the sandbox: {message.fields['text']}")

    def _why_lost(self, what: str) -> str:
        """The limit because of which a supervisor broke: the kernel may have chosen it, or let it start nothing more.

        Raises GraderFault where the run has hit none.
        """
        exceeded = self._prepared.backend.usage().exceeded
        if exceeded is None:
            raise GraderFault(what)
        return exceeded

    def _look_at_limits(self) -> None:
        """End a run that hit a limit: the kernel stops a process bomb from growing, but not from using all the CPU."""
        self._usage = self._prepared.backend.usage()
        self._limit = self._limit or self._usage.exceeded

    def _is_crowded(self) -> bool:
        """Whether so many processes are alive that they are why nothing came back."""
        left = (self._report or {}).get("left")
        return isinstance(left, int) and left >= self._spec.limits.processes // 2

    def _ask_for_stacks(self) -> None:
        """Read until every rank has written where it stands; those that do not are waited for for a time."""
        with contextlib.suppress(OSError):
            channel.send(self._prepared.status, {"op": "stacks", "patience": STACK_SECONDS})
        waiting, most = Stopwatch(), starvation.LONGEST * STACK_SECONDS + END_SECONDS
        while self._states is None and self._limit is None and waiting.seconds() < most:
            self._read(LOOK_SECONDS)

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
        if self._isolated and self._prepared.supervisor:
            # It is pid 1 of its namespace: with it goes everything in there, whatever it ignores.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self._prepared.supervisor, signal.SIGKILL)
        self._prepared.end()

    def outcome(self) -> Outcome:
        """Everything that is known, as values."""
        report = self._report or {}
        states = self._states or {}
        ranks = []
        for number, pipes in enumerate(self._pipes):
            result, events, output = (bytes(pipe.data) for pipe in (pipes.result, pipes.events, pipes.output))
            outcome = answers.read(result, events, output[-KEPT_OUTPUT:], self._exited.get(number))
            outcome = replace(outcome, began=bool(pipes.began.data))
            if self._timed_out and not outcome.complete and number not in self._exited:
                stack = bytes(pipes.stacks.data).decode("utf-8", "replace")
                stands = standing.read(stack, self._work, str(states.get(str(number), "")), outcome.events)
                outcome = replace(outcome, standing=stands)
            ranks.append(outcome)
        return Outcome(
            ranks=tuple(ranks),
            elapsed=self._elapsed,
            timed_out=self._timed_out,
            limit=self._limit,
            loopback_bytes=self._loopback,
            left_running=cast("int | None", report.get("left")),
            peak_memory=self._usage.peak_memory,
            cpu_seconds=self._usage.cpu_seconds,
            stood_still=self._stood_still,
            began_at=self._began_at,
            ended_at=self._ended_at,
            clock_was_set=self._clock_was_set,
        )


def _loopback_bytes(pid: int) -> int | None:
    """Bytes received on the loopback of a process's network; read out here, where student code has no say."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/net/dev").read_text().splitlines():
            name, _, counters = line.partition(":")
            if name.strip() == "lo":
                return int(counters.split()[0])
    return None
