"""A run without a control group: what its processes use is counted up from /proc, and when that is too much."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lockstep.sandbox import watched
from lockstep.sandbox.limits import GIB, MIB, Limits
from lockstep.sandbox.watched import Tree, Watched
from lockstep.verdict import GraderFault

FREE = 10 * GIB
LIMITS = Limits(memory=2 * GIB, processes=40)


@contextmanager
def _program(source: str) -> Iterator[subprocess.Popen[bytes]]:
    """A Python that says "ready" and then waits until it is let go."""
    with subprocess.Popen(
        [sys.executable, "-c", f"{source}\nprint('ready', flush=True)\nimport sys; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"ready\n"
        try:
            yield started
        finally:
            started.kill()


def test_threads_and_processes_are_counted_whoever_started_them() -> None:
    source = """
import os, sys, threading
def start():
    for _ in range(2):
        if os.fork() == 0:
            sys.stdin.read()
            os._exit(0)
    begun.set()
    threading.Event().wait()
begun = threading.Event()
threading.Thread(target=start, daemon=True).start()
begun.wait()
"""
    with _program(source) as started:
        # The program, its thread, and the two processes that the thread started.
        assert watched.look(started.pid, 0, 100).tasks == 4
        assert watched.look(started.pid, 0, 2).tasks == 2


def test_memory_behind_no_file_is_counted_private_or_shared() -> None:
    source = """
import mmap
private = bytearray(b"x") * (30 << 20)
shared = mmap.mmap(-1, 20 << 20)
shared.write(b"x" * (20 << 20))
"""
    with _program("") as bare, _program(source) as started:
        before = watched.own_memory(bare.pid)
        more = watched.look(started.pid, before, 100).memory
    assert 50 * MIB <= more < 60 * MIB


def test_memory_of_a_process_whose_first_thread_has_ended_is_counted() -> None:
    source = """
import ctypes, os, sys, threading
kept = bytearray(b"x") * (40 << 20)
def stay():
    while open("/proc/self/stat").read().rpartition(")")[2].split()[0] != "Z":
        pass
    print("ready", flush=True)
    sys.stdin.read()
threading.Thread(target=stay).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
"""
    with _program("") as bare, _program(source) as started:
        before = watched.own_memory(bare.pid)
        more = watched.look(started.pid, before, 100).memory
        exact = watched.exact_memory(started.pid, GIB)
    assert 40 * MIB <= more < 60 * MIB
    # It is taken for the supervisor, which has nothing of its own.
    assert exact == 0


def test_shared_memory_that_is_in_no_page_table_is_found() -> None:
    source = """
import mmap, os, sys
shared = mmap.mmap(-1, 20 << 20)
shared.write(b"x" * (20 << 20))
shared.madvise(mmap.MADV_DONTNEED)
if os.fork() == 0:
    sys.stdin.read()
    os._exit(0)
"""
    with _program("") as bare, _program(source) as started:
        before = watched.own_memory(bare.pid)
        assert watched.look(started.pid, before, 100).memory < 20 * MIB
        assert watched.shared_mappings(started.pid) == 20 * MIB
        assert watched.shared_mappings(bare.pid) == 0


def test_what_forks_share_is_counted_once_when_it_is_counted_exactly() -> None:
    # The first process is taken for the supervisor, which has nothing of its own.
    source = """
import os, sys
if os.fork() != 0:
    os.wait()
    os._exit(0)
kept = bytearray(b"x") * (40 << 20)
for _ in range(3):
    if os.fork() == 0:
        sys.stdin.read()
        os._exit(0)
"""
    with _program(source) as started:
        many = watched.look(started.pid, watched.own_memory(started.pid), 100).memory
        exact = watched.exact_memory(started.pid, GIB)
    assert many >= 160 * MIB
    assert exact is not None
    assert 38 * MIB <= exact < 60 * MIB


def test_a_name_in_no_encoding_hides_nothing() -> None:
    source = """
with open("/proc/self/comm", "wb") as file:
    file.write(b"\\xff) Z 0\\n")
kept = bytearray(b"x") * (40 << 20)
"""
    with _program(source) as started:
        tree = watched.look(started.pid, 0, 100)
    assert tree.tasks == 1
    assert tree.memory >= 40 * MIB


def test_a_process_that_is_gone_counts_nothing() -> None:
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    assert watched.look(ended.pid, 0, 100) == Tree(0, 0, 0.0)
    assert watched.exact_memory(ended.pid, GIB) is None


# When it is too much


class Machine:
    """What lockstep sees of a run and of the machine that it runs on; `sums` counts shared memory several times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tasks, self.sums, self.exact = 2, 0, 0
        self.available = FREE
        self.counted = 0
        self.readable = True
        self.mapped = 0
        monkeypatch.setattr(watched, "own_memory", lambda pid: 0)
        monkeypatch.setattr(watched, "shared_mappings", lambda pid: self.mapped)
        monkeypatch.setattr(watched, "look", lambda pid, before, most: Tree(self.tasks, self.sums, 1.5))
        monkeypatch.setattr(watched, "exact_memory", self._count)
        monkeypatch.setattr(watched, "available_memory", lambda groups: (self.available, 2 * FREE))

    def _count(self, pid: int, enough: int) -> int | None:
        self.counted += 1
        return self.exact if self.readable else None

    def run(self) -> Watched:
        """A run that begins now."""
        run = Watched()
        run.add(1)
        run.limit(LIMITS)
        return run


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_within_its_limits_nothing_is_exceeded_or_counted_twice(machine: Machine) -> None:
    run = machine.run()
    machine.sums = 2 * GIB
    machine.tasks = 40
    assert run.usage().exceeded is None
    machine.sums = GIB
    assert run.usage().peak_memory == 2 * GIB
    assert machine.counted == 0


def test_more_processes_than_allowed_are_noticed_while_they_are_there(machine: Machine) -> None:
    run = machine.run()
    machine.tasks = 41
    assert run.usage().exceeded == "processes"


def test_memory_is_counted_exactly_before_anybody_is_blamed(machine: Machine) -> None:
    run = machine.run()
    machine.sums, machine.exact = 6 * GIB, GIB
    assert run.usage().exceeded is None
    machine.sums, machine.exact = 9 * GIB, 3 * GIB
    assert run.usage().exceeded == "memory"


def test_the_exact_count_is_made_again_only_when_what_was_free_may_be_used_up(machine: Machine) -> None:
    run = machine.run()
    # As if the count had taken long: it would otherwise be made again after a time.
    machine.sums, machine.exact = 6 * GIB, GIB
    run.usage()
    run._next_exact = float("inf")
    machine.sums = 7 * GIB
    assert run.usage().exceeded is None
    assert machine.counted == 1
    machine.sums, machine.exact = 7 * GIB + 1, 2 * GIB + 1
    assert run.usage().exceeded == "memory"
    assert machine.counted == 2


def test_where_the_kernel_counts_nothing_exactly_the_sum_decides(machine: Machine) -> None:
    run = machine.run()
    machine.readable = False
    machine.sums = 3 * GIB
    assert run.usage().exceeded == "memory"


@pytest.mark.parametrize(
    ("free", "used", "left", "exceeded"),
    [
        (10 * GIB, GIB, 9 * GIB, None),
        (2 * GIB, 1700 * MIB, 300 * MIB, "machine"),
        (2 * GIB, 600 * MIB, 300 * MIB, None),
        (600 * MIB, 300 * MIB, 300 * MIB, None),
    ],
    ids=["memory is left", "the run has it", "others have it", "there was hardly any"],
)
def test_a_run_that_leaves_the_machine_no_memory_is_ended(
    machine: Machine, free: int, used: int, left: int, exceeded: str | None
) -> None:
    machine.available = free
    run = machine.run()
    machine.sums, machine.available = used, left
    assert [run.usage().exceeded for _ in range(10)] == [exceeded] * 10


def test_memory_that_no_process_has_ends_a_run_without_blame(machine: Machine) -> None:
    run = machine.run()
    machine.available = 300 * MIB
    for _ in range(watched.PATIENT_LOOKS - 1):
        assert run.usage().exceeded is None
    machine.available = FREE
    run.usage()  # another run had it, and was ended
    machine.available = 300 * MIB
    for _ in range(watched.PATIENT_LOOKS - 1):
        assert run.usage().exceeded is None
    with pytest.raises(GraderFault, match="the machine ran out of memory"):
        run.usage()


def test_shared_memory_that_no_process_has_is_the_run_s_when_the_machine_is_full(machine: Machine) -> None:
    run = machine.run()
    machine.mapped, machine.available = 6 * GIB, 300 * MIB
    for _ in range(watched.PATIENT_LOOKS - 1):
        assert run.usage().exceeded is None
    assert run.usage().exceeded == "machine"


def test_what_this_machine_or_its_container_has_is_read(tmp_path: Path) -> None:
    available, total = watched.available_memory([])
    assert 0 < available < total
    for name, text in (("max", "4096"), ("current", "3000"), ("stat", "anon 2900\ninactive_file 100\n")):
        (tmp_path / f"memory.{name}").write_text(text)
    assert watched.available_memory([tmp_path / "none", tmp_path]) == (1196, total)
