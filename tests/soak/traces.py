"""What gradings could leave behind in the process that grades and around it, and how much memory that process holds."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import select
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from lockstep.sandbox.limits import MIB
from lockstep.sandbox.watched import own_memory
from tests.sandboxed import _descendants, control_groups, is_alive

PR_SET_CHILD_SUBREAPER = 36
GONE_SECONDS = 60.0
LISTENING = "0A"
"""The state of a TCP socket that waits for connections, in /proc/net/tcp."""

AUTOMATIC = re.compile(r"@[0-9a-f]{5}")
"""What the kernel calls a socket that says who sends; it goes with its descriptor."""


@dataclass(frozen=True)
class Traces:
    """Counted by name, because a box that was started anew has other process ids and the same names."""

    processes: Counter[str]
    mounts: Counter[str]
    control_groups: Counter[str]
    ports_and_sockets: Counter[str]
    descriptors: Counter[str]
    files: Counter[str]


def adopt_orphans() -> None:
    """Become the parent of whatever a sandbox leaves running, so that it is seen."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def look(scratch: Path) -> Traces:
    """What is there now; `scratch` is where this process has its temporary files."""
    descriptors = dict(_descriptors())
    return Traces(
        processes=Counter(_name(pid) for pid in _descendants(os.getpid()) if is_alive(pid)),
        mounts=Counter(Path("/proc/self/mountinfo").read_text().splitlines()),
        control_groups=Counter(Path(group).name.rpartition("-")[0] for group in control_groups()),
        ports_and_sockets=Counter(name for inode, name in _sockets() if inode in descriptors.values()),
        # A pipe's or a socket's number is another one each time.
        descriptors=Counter(target.partition(":[")[0] for target in descriptors.values()),
        files=Counter(path.relative_to(scratch).as_posix() for path in scratch.rglob("*")),
    )


def left(before: Traces, after: Traces) -> list[str]:
    """What is there now and was not, and the other way round; a sentence each."""
    found = []
    for field in fields(Traces):
        old, new = getattr(before, field.name), getattr(after, field.name)
        kind = field.name.replace("_", " ")
        found += [f"{kind}: {count} more: {name}" for name, count in (new - old).items()]
        found += [f"{kind}: {count} fewer: {name}" for name, count in (old - new).items()]
    return found


def memory() -> float:
    """MiB of this process's own; pages of files come and go with what memory there is."""
    return own_memory(os.getpid()) / MIB


def wait_gone(pids: Iterable[int]) -> None:
    """Wait until none of these processes runs, or a minute: the kernel may take a moment to end what was killed."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            handle = os.pidfd_open(pid)
            select.select([handle], [], [], GONE_SECONDS)
            os.close(handle)


def reap(known: set[int]) -> None:
    """Take leave of orphans that have ended; `known` children are somebody else's to wait for."""
    for pid in _children():
        if pid not in known and not is_alive(pid):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _children() -> set[int]:
    found: set[int] = set()
    for children in Path("/proc/self/task").glob("*/children"):
        found |= {int(word) for word in children.read_text().split()}
    return found


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "ended"


def _descriptors() -> Iterator[tuple[str, str]]:
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the folder that is being listed
            yield name, os.readlink(f"/proc/self/fd/{name}")


def _sockets() -> Iterator[tuple[str, str]]:
    """Listening ports and abstract sockets of this network namespace, by what a descriptor's link says of them."""
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == LISTENING:
                yield f"socket:[{words[9]}]", f"port {int(words[1].rpartition(':')[2], 16)}"
    for line in Path("/proc/self/net/unix").read_text().splitlines()[1:]:
        words = line.split()
        if len(words) == 8 and words[7].startswith("@") and not AUTOMATIC.fullmatch(words[7]):
            # Which of the users that boxes are lent is free depends on who else grades on this machine.
            yield f"socket:[{words[6]}]", words[7].rstrip("0123456789")
