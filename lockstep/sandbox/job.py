"""The job of a supervisor: what it is told to run, and with which descriptors."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from lockstep import wire
from lockstep.sandbox import memoryfile
from lockstep.sandbox.ranks import RankPipes
from lockstep.wire import Json

FDS_PER_RANK = 6


@dataclass(frozen=True)
class Job:
    """What one run needs: where it works, its files, its limits and each rank's descriptors, by its number."""

    isolated: bool
    workspace: str
    status: socket.socket
    spec: dict[str, Json]
    seccomp: bytes | None
    files_fd: int
    data_fds: tuple[int, ...]
    ranks: Mapping[int, RankPipes]

    @staticmethod
    def read(status: socket.socket, fds: tuple[int, ...], *, isolated: bool, workspace: str) -> Job:
        """Take a job message's descriptors: spec, files, one per data set, six per rank."""
        spec_fd, files_fd, *others = fds
        frame = wire.unpack(memoryfile.read(spec_fd))
        spec = dict(frame.values)
        names = cast(list[str], spec["data"])
        pipes = others[len(names) :]
        groups = (pipes[i : i + FDS_PER_RANK] for i in range(0, len(pipes), FDS_PER_RANK))
        return Job(
            isolated=isolated,
            workspace=workspace,
            status=status,
            spec=spec,
            seccomp=frame.arrays["seccomp"].tobytes() if "seccomp" in frame.arrays else None,
            files_fd=files_fd,
            data_fds=tuple(others[: len(names)]),
            ranks={number: RankPipes(*group) for number, group in enumerate(groups)},
        )
