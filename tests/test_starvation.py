"""On a machine that is busy with others a run gets its time; on an idle one not a moment more."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from lockstep.sandbox import probing, starvation, stopwatch
from lockstep.sandbox.box import Box
from lockstep.sandbox.limits import Limits
from lockstep.sandbox.starvation import LONGEST, Limit, kept_waiting
from tests.sandboxed import run

PATIENCE = 60
SLEEPS = "import time\ndef main(): time.sleep(3)"
HANGS = "import time\ndef main(): time.sleep(600)"


@contextlib.contextmanager
def busy(count: int) -> Iterator[int]:
    """A process with `count` busy children that share one processor; afterwards all have ended."""
    program = (
        "import os, time\n"
        f"os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}})\n"
        f"all(os.fork() for _ in range({count}))\n"
        f"until = time.monotonic() + {PATIENCE}\n"
        "while time.monotonic() < until: pass\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    try:
        yield parent.pid
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.wait()


def test_processes_that_share_a_processor_wait_for_it() -> None:
    with busy(3) as pid:
        until = time.monotonic() + PATIENCE
        while kept_waiting(pid, PATIENCE, PATIENCE) < 0.2:
            assert time.monotonic() < until, "nobody waited"
            os.sched_yield()


def test_what_a_run_takes_from_itself_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = len(os.sched_getaffinity(0))
    monkeypatch.setattr(starvation, "_threads", lambda _: (10.0 * cores, 500.0))
    assert kept_waiting(1, 10.0, 500.0) == 0
    assert kept_waiting(1, 15.0, 500.0) == 5.0 * cores


def test_who_crowds_on_one_processor_waits_no_longer_than_others_worked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(starvation, "_threads", lambda _: (10.0, 30.0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8))
    assert kept_waiting(1, 10.0, 500.0) == 30.0
    assert kept_waiting(1, 10.0, 2.5) == 2.5
    assert kept_waiting(1, 10.0, -0.1) == 0


CROWDS = """
import os, signal, time
def main():
    processors = sorted(os.sched_getaffinity(0))
    for _ in range(3):
        if os.fork() == 0:
            break
    else:
        # The others' processor is busy as well, by processes that are counted nowhere when they end.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        os.sched_setaffinity(0, set(processors[1:]) or {processors[0]})
        while True:
            if os.fork() == 0:
                until = time.process_time() + 0.05
                while time.process_time() < until:
                    pass
                os._exit(0)
            try:
                os.wait()
            except ChildProcessError:
                pass
    os.sched_setaffinity(0, {processors[0]})
    while True:
        pass
"""


@pytest.mark.parametrize("told", [True, False], ids=["by the machine", "of itself alone"])
def test_what_others_work_is_as_far_as_it_is_told(told: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    worked = 5.0
    monkeypatch.setattr(starvation, "_seconds_of_all", lambda: worked)
    if not told:  # lxcfs mounts a file of its own there
        monkeypatch.setattr(os, "stat", lambda path: SimpleNamespace(st_dev=7 if path == "/proc/stat" else 8))
    others = starvation.Others()
    worked = 9.0
    assert others.seconds(3.0) == (1.0 if told else math.inf)


def test_a_process_that_is_gone_waits_for_nothing() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert kept_waiting(gone.pid, 60.0, 60.0) == 0


def test_what_others_took_is_not_counted(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starvation, "kept_waiting", lambda pid, elapsed, others: elapsed)
    outcome = run(box, SLEEPS, limits=Limits(seconds=2))
    assert outcome.ranks[0].complete
    assert not outcome.timed_out


def test_a_run_that_crowds_on_one_processor_gets_no_more_time(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[float, float, float]] = []
    waited = starvation.kept_waiting

    def noted(pid: int, elapsed: float, others: float) -> float:
        asked.append((elapsed, waited(pid, elapsed, math.inf), others))
        return waited(pid, elapsed, others)

    monkeypatch.setattr(starvation, "kept_waiting", noted)
    outcome = run(box, CROWDS, limits=Limits(seconds=2))
    assert outcome.timed_out
    assert asked[-1][1] > 1
    # On a busy machine others work as well, and then it does wait for them: no longer than that.
    assert [elapsed for elapsed, _, others in asked[:-1] if elapsed >= 2 + max(others, 0)] == []


def test_there_is_an_end_to_it(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starvation, "kept_waiting", lambda pid, elapsed, others: 10 * elapsed)
    outcome = run(box, HANGS, limits=Limits(seconds=1))
    assert outcome.timed_out
    assert outcome.elapsed >= LONGEST


LEAVES = """
import subprocess
def main(): subprocess.Popen(["sleep", "SECONDS"])
"""


@pytest.mark.parametrize(("seconds", "left"), [(1.5, 0), (600, 1)])
def test_what_has_yet_to_end_gets_time_for_it_on_a_busy_machine(
    seconds: float, left: int, box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starvation, "kept_waiting", lambda pid, elapsed, others: 0.9 * elapsed)
    outcome = run(box, LEAVES.replace("SECONDS", str(seconds)), counts_left=True)
    assert outcome.ranks[0].complete
    assert outcome.left_running == left


@pytest.mark.parametrize(
    ("others", "reached_at"),
    [(0.0, 10.0), (0.5, 20.0), (0.9, 40.0), (1.0, 40.0), (-0.1, 10.0)],
    ids=["idle", "half of it others'", "nine tenths", "all", "counters that are not read at once"],
)
def test_what_others_have_of_all_processors_makes_a_limit_longer(
    others: float, reached_at: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(stopwatch.time, "monotonic", lambda: now)
    monkeypatch.setattr(starvation, "_seconds_of_others", lambda own: others * now * starvation._CORES)
    limit = Limit(10.0, os.getpid())
    reached = []
    for tenths in range(500):
        now = tenths / 10
        if limit.is_reached():
            reached.append(now)
    assert reached[0] == pytest.approx(reached_at, abs=0.11)
    assert len(reached) == 500 - round(10 * reached[0])


def test_the_work_of_others_is_what_all_processors_did_but_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    stat = f"cpu {7 * ticks} {2 * ticks} {ticks} 900 90 {ticks} {ticks} {ticks} 500 500\ncpu0 1 2 3\n"
    monkeypatch.setattr(starvation, "Path", lambda _: SimpleNamespace(read_text=lambda: stat))
    monkeypatch.setattr(starvation, "_ticks", lambda own: own * ticks)
    assert starvation._seconds_of_others(4) == 13 - 4


def test_ones_own_work_is_that_of_a_process_and_of_all_below_it_also_when_they_have_ended() -> None:
    second = os.sysconf("SC_CLK_TCK")
    works = "until = time.process_time() + 0.5\nwhile time.process_time() < until: pass\n"
    program = (
        "import os, sys, time\n"
        "for lives in (True, False):\n"
        "    if os.fork() == 0:\n" + textwrap.indent(works, " " * 8) + "        print('worked', flush=True)\n"
        "        lives and sys.stdin.read()\n"
        "        os._exit(0)\n"
        "    lives or os.wait()\n"
        "print('worked', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as started:
        assert started.stdout is not None
        for _ in range(3):
            assert started.stdout.readline() == b"worked\n"
        assert 0.9 * second < starvation._ticks(started.pid) < 3 * second
        started.communicate()


def test_the_work_of_others_is_seen() -> None:
    before = starvation._seconds_of_others(os.getpid())
    other = "import time\nuntil = time.monotonic() + 60\nwhile time.monotonic() < until: pass"
    # Not one of ours: its parent has gone.
    with subprocess.Popen(
        ["sh", "-c", 'exec setsid "$0" -c "$1" >&- 2>&- & echo $!', sys.executable, other],
        stdout=subprocess.PIPE,
    ) as shell:
        pid = int(shell.communicate()[0])
    try:
        until = time.monotonic() + PATIENCE
        while starvation._seconds_of_others(os.getpid()) < before + 0.5:
            assert time.monotonic() < until, "nobody worked"
            os.sched_yield()
    finally:
        os.kill(pid, signal.SIGKILL)


def test_a_command_gets_its_time_where_others_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starvation, "_seconds_of_others", lambda own: 1000 * time.monotonic())
    command = ["sh", "-c", "sleep 1.5; echo done"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert probing._output(process, Limit(1.0, os.getpid())) == b"done\n"


def test_a_command_whose_time_is_up_is_ended() -> None:
    with (
        subprocess.Popen(["sleep", "600"], stdout=subprocess.PIPE) as process,
        pytest.raises(subprocess.TimeoutExpired, match=r"after 0\.2 seconds"),
    ):
        probing._output(process, Limit(0.2, os.getpid()))
    assert process.returncode == -signal.SIGKILL
