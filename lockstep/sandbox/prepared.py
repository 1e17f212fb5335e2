"""A run in waiting: its namespaces and what limits it are made, it only has to be told what to run.

Making them takes longer than many a run, most of it waiting for the kernel, so that the next one is made
while the present one runs. No student code is near a prepared run before it gets its job.
"""

from __future__ import annotations

import contextlib
import socket

from lockstep.sandbox import channel
from lockstep.sandbox.backend import Backend
from lockstep.verdict import GraderFault


class Prepared:
    """The trusted end of a run that the server has been asked for."""

    def __init__(self, number: int, control: socket.socket, backend: Backend) -> None:
        """Ask the server behind `control` for a run. Raises OSError when it is gone."""
        self.number = number
        self.supervisor: int | None = None
        self.backend = backend
        self.status, theirs = channel.pair()
        self.status.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        try:
            channel.send(control, {"op": "prepare", "id": number}, (theirs.fileno(),))
        except BaseException:  # Ctrl-C as well
            self.close()
            raise
        finally:
            theirs.close()
        self._heard = False

    def attend(self) -> None:
        """Wait for the supervisor's first word and have the back end take it in. Raises GraderFault."""
        if self._heard:
            return
        self._heard = True
        message = channel.receive(self.status)
        if message is None or message.fields["op"] != "hello":
            why = "it ended" if message is None else message.fields.get("text")
            raise GraderFault(f"a run could not be prepared: {why}")
        self.supervisor = message.pid
        if message.pid:
            self.backend.add(message.pid)

    def end(self) -> None:
        """Let the supervisor hear that this was all: it ends, with what it has started. It may be told twice."""
        with contextlib.suppress(OSError):
            self.status.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Let go of it."""
        self.status.close()
        self.backend.close()
