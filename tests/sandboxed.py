"""What the tests of the sandbox share: run a snippet as a student's code, and look at what is left of it."""

from __future__ import annotations

import ctypes
import os
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from lockstep import explain
from lockstep.check import torchrun_environment
from lockstep.exercise import Server
from lockstep.sandbox.backend import possible_parents
from lockstep.sandbox.box import Box
from lockstep.sandbox.limits import Limits
from lockstep.sandbox.outcome import Outcome
from lockstep.sandbox.spec import Pack, RankInputs, RunSpec
from lockstep.submission import Submission
from lockstep.verdict import CheckEnded
from lockstep.wire import Array, Json

ROOT = Path(__file__).resolve().parent.parent
PROBE = Path(__file__).with_name("probes") / "engine.py"
GENEROUS = Limits(seconds=60)
SHORT = Limits(seconds=2)
# Long enough for student code to be reached on a machine that is busy with everything else.
PATIENT = Limits(seconds=6)
# Five processes that have the same 120 MiB.
SHARING = """
import os, time
def main():
    kept = bytearray(b"x") * (120 << 20)
    workers = []
    for _ in range(4):
        workers.append(os.fork())
        if workers[-1] == 0:
            time.sleep(0.7)
            os._exit(0)
    for worker in workers:
        os.waitpid(worker, 0)
    return len(kept)
"""


def run(
    box: Box,
    source: str,
    *,
    ranks: int | None = None,
    call: str = "call",
    values: Sequence[Mapping[str, Json]] | None = None,
    arrays: Mapping[str, Array] | None = None,
    data: Mapping[str, Mapping[str, bytes]] | None = None,
    files: Mapping[str, str] | None = None,
    limits: Limits = GENEROUS,
    server: Server = Server.FULL,
    shared_files: bool = False,
    counts_left: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    """Run `source` as student.py. `ranks=None` is one process without a group; `values` are one per rank."""
    count = ranks or 1
    sources = {"student.py": source, **(files or {})}
    return box.run(
        RunSpec(
            probe="engine",
            call=call,
            submission=Pack({name: textwrap.dedent(text).encode() for name, text in sources.items()}),
            ranks=[
                RankInputs(
                    values=values[rank] if values else {},
                    arrays=arrays or {},
                    environment={
                        **(torchrun_environment(rank, count) if ranks else {}),
                        **(environment or {}),
                    },
                )
                for rank in range(count)
            ],
            data={name: Pack(tree) for name, tree in (data or {}).items()},
            limits=limits,
            server=server,
            shared_files=shared_files,
            counts_left=counts_left,
        )
    )


def seen(box: Box, source: str, **options: object) -> Json:
    """What `main()` of a well-behaved single process returned."""
    outcome = run(box, source, **options)  # type: ignore[arg-type]
    (rank,) = outcome.ranks
    assert rank.complete, outcome
    assert rank.error is None, outcome
    return rank.values["seen"]


def verdict(outcome: Outcome, limits: Limits = GENEROUS) -> CheckEnded:
    """What a check would end with; there must be something wrong."""
    nothing = Submission("hand-in", files={}, executable=frozenset(), digest="", notes=())
    problem = explain.problem(outcome, limits, nothing)
    assert problem is not None, outcome
    return problem


def message(outcome: Outcome, limits: Limits = GENEROUS) -> str:
    """The sentence a student reads about a run that went wrong."""
    return verdict(outcome, limits).feedback.message


def processes_of(box: Box) -> set[int]:
    """Every live process of a box, seen from outside."""
    return _descendants(box._process.pid)


def _descendants(pid: int) -> set[int]:
    found = {pid}
    for task in _listed(f"/proc/{pid}/task"):
        try:
            children = Path(f"/proc/{pid}/task/{task}/children").read_text().split()
        except OSError:
            continue
        for child in children:
            found |= _descendants(int(child))
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def traces(box: Box) -> tuple[set[int], set[str], str]:
    """What a run could leave outside: processes of the box, control groups of ours, mounts."""
    box.wait_ready()
    box.settle()
    return processes_of(box), control_groups(), Path("/proc/self/mountinfo").read_text()


def control_groups() -> set[str]:
    """The control groups that runs of this process have made and not removed."""
    return {str(path) for parent in possible_parents() for path in parent.glob(f"lockstep-{os.getpid()}-*")}


def keeps_abstract_sockets_apart() -> bool:
    """Whether this kernel's Landlock can (Linux 6.12): asked for its version, it answers with a number."""
    create_ruleset, version_please = 444, 1
    return int(ctypes.CDLL(None).syscall(create_ruleset, None, ctypes.c_size_t(0), version_please)) >= 6


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
