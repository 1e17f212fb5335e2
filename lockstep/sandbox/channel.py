"""Small JSON messages with file descriptors over a Unix socket pair; both sides of the sandbox use it."""

from __future__ import annotations

import array
import json
import os
import socket
import struct
import traceback
from dataclasses import dataclass

from lockstep.wire import Json

MAX_MESSAGE = 128 << 10
MAX_FDS = 250
FAULT_TEXT = 4000
# Begins a line in what a rank writes of where it stands: from there on another one wrote, which its command started.
STARTED = "Started as rank "
MAX_STARTED = 16
_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True)
class Message:
    """One message: its fields, the descriptors that came with it, and the sender's pid as seen here."""

    fields: dict[str, Json]
    fds: tuple[int, ...] = ()
    pid: int | None = None


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends that keep message boundaries and see each other's end of file."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(end: socket.socket, fields: dict[str, Json], fds: tuple[int, ...] = ()) -> None:
    """Send one message. Raises OSError when the other end is gone."""
    data = json.dumps(fields).encode()
    if len(data) > MAX_MESSAGE:
        raise ValueError(f"a message of {len(data)} bytes is too large")
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    end.sendmsg([data], rights, socket.MSG_NOSIGNAL)


def send_fault(end: socket.socket, error: BaseException) -> None:
    """Tell the trusted side what went wrong with lockstep's own code inside; it becomes a grader fault there."""
    send(end, {"op": "fault", "text": "".join(traceback.format_exception(error))[-FAULT_TEXT:]})


def receive(end: socket.socket) -> Message | None:
    """Wait for one message; None at end of file. Only our own code writes to these sockets."""
    size = socket.CMSG_SPACE(MAX_FDS * 4) + socket.CMSG_SPACE(_CREDENTIALS.size)
    try:
        data, ancillary, _, _ = end.recvmsg(MAX_MESSAGE, size, socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        return None
    fds: list[int] = []
    pid = None
    for level, kind, payload in ancillary:
        if level != socket.SOL_SOCKET:
            continue
        if kind == socket.SCM_RIGHTS:
            received = array.array("i")
            received.frombytes(payload[: len(payload) - len(payload) % received.itemsize])
            fds.extend(received)
        elif kind == socket.SCM_CREDENTIALS:
            pid = _CREDENTIALS.unpack(payload)[0]
    if not data:
        for fd in fds:
            os.close(fd)
        return None
    return Message(json.loads(data), tuple(fds), pid)
