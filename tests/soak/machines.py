"""The machine as a grading may find it: left alone, busy, short of memory, or suspended now and then.

None of it harms whoever else is on it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager

from lockstep.sandbox.cgroup import own_hierarchies
from lockstep.sandbox.limits import MIB
from tests.sandboxed import ROOT

BUSY = "while True: pass"
WRITES = """
import os, sys
file = open(sys.argv[1], "r+b", buffering=0)
block = os.urandom(1 << 20)
while True:
    file.seek(0)
    for _ in range(64):
        file.write(block)
    os.fsync(file)
"""
SUSPENDS = """
import os, random, select, signal, sys, time
from lockstep.sandbox.processes import members
grades = int(sys.argv[1])
def below():
    return {pid for pid in members(grades) if pid != os.getpid()}
def tell(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass
while not select.select([0], [], [], random.uniform(1, 4))[0]:
    stopped = set()
    while new := below() - stopped:
        tell(sorted(new), signal.SIGSTOP)
        stopped |= new
    time.sleep(float(sys.argv[2]))
    tell(stopped, signal.SIGCONT)
"""
SUSPENDED = 12.0
"""Seconds at a time, more than most checks give a run."""
TIGHT = 1280 * MIB
"""Bytes for the process that grades, a warm sandbox and all that runs in it: where there are enough, at most 1170 MiB
were counted of honest work."""


class NoMemoryGroup(Exception):
    """This machine lends no control group by which memory could be made short; the message says so."""


@contextmanager
def idle() -> Iterator[None]:
    """Nothing of ours runs beside the grading."""
    yield


@contextmanager
def loaded() -> Iterator[None]:
    """Two busy processes for every core, and one that writes to the disk without a pause."""
    with ExitStack() as stack:
        # A file without a name: the folder for temporary files has to be empty at all times.
        file = stack.enter_context(tempfile.TemporaryFile())
        writes = [WRITES, f"/proc/{os.getpid()}/fd/{file.fileno()}"]
        for program, *arguments in [[BUSY]] * (2 * (os.cpu_count() or 1)) + [writes]:
            burner = subprocess.Popen([sys.executable, "-c", program, *arguments])
            stack.callback(burner.wait)
            stack.callback(burner.kill)
        yield


@contextmanager
def suspended() -> Iterator[None]:
    """Every few seconds this process and all that it started are stopped, as by a scheduler that suspends a job."""
    words = [sys.executable, "-c", SUSPENDS, str(os.getpid()), str(SUSPENDED)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, cwd=ROOT) as suspends:
        try:
            yield
        finally:
            # It ends between two pauses, and so leaves nothing stopped.
            assert suspends.stdin is not None
            suspends.stdin.close()
            suspends.wait()


@contextmanager
def tight() -> Iterator[None]:
    """This process, and whatever it starts, has no more memory than it needs, as on a small machine.

    What it holds already is not counted. Raises NoMemoryGroup where there is no group for it.
    """
    parents = {controller: tree.own for controller, tree in own_hierarchies().items()}
    parent = parents.get("memory", parents.get(""))
    if parent is None:
        raise NoMemoryGroup("this machine has no control groups")
    with ExitStack() as stack:
        group = parent / f"soak-{os.getpid()}"
        try:
            group.mkdir()
            stack.callback(group.rmdir)
            (group / ("memory.limit_in_bytes" if "memory" in parents else "memory.max")).write_text(
                str(TIGHT)
            )
            (group / "cgroup.procs").write_text(str(os.getpid()))
        except OSError as error:
            raise NoMemoryGroup(f"no memory can be set apart in {parent}: {error}") from error
        stack.callback((parent / "cgroup.procs").write_text, str(os.getpid()))
        yield


MACHINES: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "idle": idle,
    "loaded": loaded,
    "memory-tight": tight,
    "suspended": suspended,
}
