"""The trusted end of one warm server: wait for it, give it runs one after the other, know what is left of them."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import cast

from lockstep.sandbox import channel
from lockstep.sandbox.backend import Groups
from lockstep.sandbox.limits import Limits
from lockstep.sandbox.outcome import Outcome
from lockstep.sandbox.prepared import Prepared
from lockstep.sandbox.spec import RunSpec
from lockstep.sandbox.watching import Watching

# Both take seconds, and on a machine with thirty busy processes for two cores a minute and more. Who breaks off too
# early breaks what would have worked; a server that ends is noticed at once.
START_SECONDS = 600.0
GONE_SECONDS = 300.0


class Connection:
    """One server, by the socket that it is told by. Raises OSError or EOFError wherever the server is gone."""

    def __init__(self, control: socket.socket, *, isolated: bool, groups: Groups) -> None:
        control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.control = control
        self.pid: int | None = None
        # What the server has resident, in bytes.
        self.memory = 0
        self._isolated = isolated
        self._groups = groups
        self._ready = False
        self._numbers = itertools.count()
        self._ended: set[int] = set()
        self._leaving: tuple[Prepared, contextlib.ExitStack] | None = None
        # CPU seconds of the last run that its outcome tells, and those of taking it apart, which the next one tells.
        self._told = self._late = 0.0
        self._next: Prepared | None = None

    @property
    def ready(self) -> bool:
        """Whether the server has said that it is warm."""
        return self._ready

    def wait_ready(self) -> bool:
        """Wait until the server is warm; False when it ended instead, or took too long."""
        if self._ready:
            return True
        self.control.settimeout(START_SECONDS)
        try:
            message = channel.receive(self.control)
        except TimeoutError:
            message = None
        finally:
            self.control.settimeout(None)
        if message is None or message.fields.get("op") != "ready":
            return False
        self.pid = message.pid
        if message.pid:
            self.memory = _resident(message.pid)
        self._ready = True
        return True

    def run(self, spec: RunSpec, frame: bytes) -> Outcome:
        """Run once, after the last run is gone; `frame` is what the supervisor is told of the run."""
        self._wait_gone()
        prepared = self._next or self._prepare()
        self._next = None
        with contextlib.ExitStack() as stack:
            stack.callback(prepared.close)
            prepared.attend()
            prepared.backend.limit(self._with_supervisors(spec))
            watching = Watching(spec, prepared, self._isolated)
            stack.callback(watching.close)
            self._next = self._prepare()
            channel.send(prepared.status, {"op": "job"}, tuple(watching.open(frame)))
            watching.close_inside_ends()
            # From here on the server has to be heard before anything of the run is let go.
            self._told = 0.0
            self._leaving = prepared, stack.pop_all()
            try:
                watching.watch(self._next)
            finally:
                watching.end()
            return self._counted(watching.outcome())

    def _with_supervisors(self, spec: RunSpec) -> Limits:
        """The limits of a run, in which our own processes are not held against the student's."""
        supervisors = 2 + len(spec.ranks) if self._isolated and spec.apart else 1
        return replace(spec.limits, processes=spec.limits.processes + supervisors)

    def _counted(self, outcome: Outcome) -> Outcome:
        """The outcome with the CPU time that has been counted since the last one was told."""
        if outcome.cpu_seconds is None:
            return outcome
        self._told, late, self._late = outcome.cpu_seconds, self._late, 0.0
        return replace(outcome, cpu_seconds=outcome.cpu_seconds + late)

    def settle(self) -> None:
        """Wait until nothing is left of the last run, nor of the one that is being prepared."""
        try:
            self._wait_gone()
        finally:
            if self._next is not None:
                following, self._next = self._next, None
                following.end()
                with contextlib.closing(following):
                    self._wait_ended(following.number)

    def wait_closed(self) -> None:
        """Wait until every process that holds the other end has let go of it."""
        with contextlib.suppress(OSError):
            self.control.shutdown(socket.SHUT_WR)
            self.control.settimeout(GONE_SECONDS)
            while self.control.recv(channel.MAX_MESSAGE):
                pass
        self.control.close()

    def _prepare(self) -> Prepared:
        return Prepared(next(self._numbers), self.control, self._groups.open())

    def _wait_gone(self) -> None:
        """Wait until the kernel has taken the last run apart; it does so while the judge looks at the answers."""
        if self._leaving is None:
            return
        prepared, stack = self._leaving
        with stack:
            self._leaving = None
            # It has been told already, but where Ctrl-C broke in.
            prepared.end()
            self._wait_ended(prepared.number)
            used = prepared.backend.usage().cpu_seconds
            self._late += max(0.0, (used or 0.0) - self._told)

    def _wait_ended(self, number: int) -> None:
        self.control.settimeout(GONE_SECONDS)
        try:
            while number not in self._ended:
                message = channel.receive(self.control)
                if message is None:
                    raise EOFError("the server ended")
                self._ended.add(cast(int, message.fields["id"]))
        except TimeoutError:
            raise EOFError("a run did not end") from None
        finally:
            self.control.settimeout(None)
        self._ended.discard(number)


def _resident(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
