"""What a run may use, with every back end that this machine has: control groups of either version, or our eyes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from lockstep.exercise import Server
from lockstep.sandbox import backend, cgroup, cgroup1, cgroup2, watched
from lockstep.sandbox.box import Box
from lockstep.sandbox.limits import MIB, Limits
from lockstep.verdict import LimitExceeded
from tests.sandboxed import SHARING, control_groups, run, seen, verdict


def _parents() -> dict[str, backend.Parent | None]:
    found: dict[str, backend.Parent | None] = {}
    hierarchies = cgroup.own_hierarchies()
    if "" in hierarchies:
        with contextlib.suppress(cgroup.Unusable):
            found[cgroup2.NAME] = cgroup2.find(hierarchies[""])
    with contextlib.suppress(cgroup.Unusable):
        found[cgroup1.NAME] = cgroup1.find(hierarchies)
    return {**found, watched.NAME: None}


PARENTS = _parents()


@pytest.fixture(params=list(PARENTS))
def held(box: Box, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Box]:
    """The box, with one of this machine's back ends for its runs."""
    box.settle()  # a run that is prepared already has its own
    for server in box._servers:
        monkeypatch.setattr(server, "_groups", backend.Groups(PARENTS[request.param]))
    yield box
    leaving = box._servers[Server.FULL]._leaving
    assert leaving is not None
    assert leaving[0].backend.name == request.param
    box.settle()  # and so has the one that is prepared now


def test_the_back_end_is_the_best_that_there_is() -> None:
    assert backend.describe().name == next(iter(PARENTS))


@pytest.mark.parametrize(
    ("source", "limits", "words"),
    [
        (
            "kept = []\n    while True: kept.append(bytes(1 << 24) + b'x')",
            Limits(60, memory=300 * MIB),
            "memory",
        ),
        (
            "import mmap\n    kept = []\n    while True:\n        kept.append(mmap.mmap(-1, 1 << 24))\n"
            "        kept[-1].write(b'x' * (1 << 24))",
            Limits(60, memory=300 * MIB),
            "memory",
        ),
        (
            "import os, time\n    while True:\n        if os.fork() == 0: time.sleep(60)",
            Limits(60, processes=40),
            "more than the 40 processes and threads",
        ),
        (
            "import threading, time\n"
            "    while True: threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
            Limits(60, processes=40),
            "more than the 40 processes and threads",
        ),
    ],
    ids=["memory", "memory that forks would share", "processes", "threads"],
)
def test_what_uses_too_much_is_stopped(held: Box, source: str, limits: Limits, words: str) -> None:
    outcome = run(held, f"def main():\n    {source}\n", limits=limits)
    problem = verdict(outcome, limits)
    assert isinstance(problem, LimitExceeded), problem
    assert words in str(problem)
    assert not outcome.timed_out


def test_memory_is_counted_for_the_whole_run(held: Box) -> None:
    # A rank that is through stays, and keeps what it has, until all are.
    source = """
        kept = []
        def main():
            kept.append(bytes(90 << 20) + b"x")
            return 1
    """
    limits = Limits(60, memory=250 * MIB)
    alone = run(held, source, limits=limits)
    assert alone.limit is None
    assert alone.peak_memory is not None
    assert 80 * MIB < alone.peak_memory < 250 * MIB
    assert run(held, source, ranks=4, limits=limits).limit == "memory"


def test_memory_that_processes_share_is_counted_once(held: Box) -> None:
    """A data set that was loaded before its DataLoader forked workers is there once."""
    assert seen(held, SHARING, limits=Limits(60, memory=300 * MIB)) == 120 << 20


def test_our_own_processes_are_not_held_against_a_run(held: Box) -> None:
    source = "def main(inputs): return inputs.rank"
    for _ in range(8):  # what is gone may be counted a moment longer, now and then
        as_many = run(held, source, ranks=4, call="give", limits=Limits(60, processes=4))
        assert [rank.values.get("seen") for rank in as_many.ranks] == [0, 1, 2, 3]
    assert run(held, source, ranks=4, call="give", limits=Limits(60, processes=3)).limit == "processes"


def test_what_a_run_computes_is_counted_outside(held: Box) -> None:
    burn = """
        import os, time
        def main():
            children = [os.fork() for _ in range(2)]
            end = time.process_time() + 0.3
            while time.process_time() < end:
                pass
            if 0 in children:
                os._exit(0)
            for child in children:
                os.waitpid(child, 0)
            return 1
    """
    counted = run(held, burn).cpu_seconds
    assert counted is not None
    assert counted >= 0.85


@pytest.mark.parametrize("name", PARENTS.keys() - {watched.NAME})
def test_what_is_left_in_a_group_is_ended_with_it(name: str) -> None:
    others = control_groups()
    group = backend.Groups(PARENTS[name]).open()
    assert control_groups() > others
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as left:
        group.add(left.pid)
        group.close()
        assert left.wait(60) == -signal.SIGKILL
    assert group.name == name
    assert control_groups() == others


@pytest.mark.skipif(PARENTS.keys() <= {watched.NAME}, reason="no control groups here")
def test_groups_of_a_killed_lockstep_are_removed_by_the_next() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    parent = next(iter(PARENTS.values()))
    folder = parent.pids if isinstance(parent, cgroup1.Parent) else parent.folder
    here = cgroup.numbering()
    groups = dead, busy, own, elsewhere = tuple(
        folder / f"lockstep-{pid}-{numbering}-{n}"
        for pid, numbering, n in (
            (ended.pid, here, 0), (ended.pid, here, 1), (os.getpid(), here, "x"), (ended.pid, "1", 0)
        )
    )  # fmt: skip
    for group in groups:
        group.mkdir()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as survivor:
        (busy / "cgroup.procs").write_text(str(survivor.pid))
        backend.remove_forgotten_groups()
        left = [group.exists() for group in groups]
        survivor.kill()
    for group in (busy, own, elsewhere):
        group.rmdir()
    assert not dead.exists()
    assert left == [False, True, True, True]
