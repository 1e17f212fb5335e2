"""Where hung ranks stand: they are heard to the end, however long a busy machine keeps them from writing it."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from lockstep.sandbox import watching
from lockstep.sandbox.box import Box
from lockstep.sandbox.limits import Limits
from lockstep.sandbox.processes import has_yet_to_handle
from tests.sandboxed import run

PATIENCE = 60
SHORT = Limits(seconds=1)

# Its time is up long before it lets the signal in, which asks it where it stands.
SLOW_TO_ANSWER = """
import signal, time
def main():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    while signal.SIGUSR1 not in signal.sigpending():
        time.sleep(0.01)
    time.sleep(1.5)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
    while True: pass
"""
NEVER_ANSWERS = SLOW_TO_ANSWER.replace("time.sleep(1.5)", "time.sleep(600)")

STARTS_RANKS = """
import os
if os.environ["RANK"] == "1":
    while True: pass
ours, theirs = os.pipe()
os.read(ours, 1)
"""
START = "for rank in 0 1; do RANK=$rank python student.py & done; python -c 'while True: pass' & wait"

# What this one writes takes more than one page, and of a pipe that is full the writer waits.
DEEP = """
import faulthandler, signal, sys
faulthandler.register(signal.SIGUSR1, file=int(sys.argv[1]), all_threads=False)
def a_function_whose_name_is_quite_long_so_that_ninety_of_it_fill_two_pages(depth):
    if depth:
        return a_function_whose_name_is_quite_long_so_that_ninety_of_it_fill_two_pages(depth - 1)
    print("ready", flush=True)
    sys.stdin.read()
a_function_whose_name_is_quite_long_so_that_ninety_of_it_fill_two_pages(90)
"""


@pytest.fixture
def writing() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A process that writes its stack when asked, and the pipe of one page that it writes into."""
    ours, theirs = os.pipe()
    fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, os.sysconf("SC_PAGESIZE"))
    started = subprocess.Popen(
        [sys.executable, "-c", DEEP, str(theirs)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[theirs],
    )
    os.close(theirs)
    try:
        assert started.stdout is not None
        assert started.stdout.readline() == b"ready\n"
        yield started, ours
    finally:
        started.kill()
        started.communicate()
        os.close(ours)


def test_a_signal_is_handled_when_its_handler_is_through(
    writing: tuple[subprocess.Popen[bytes], int],
) -> None:
    process, pipe = writing
    assert not has_yet_to_handle(process.pid, signal.SIGUSR1)
    process.send_signal(signal.SIGUSR1)
    select.select([pipe], [], [], PATIENCE)
    assert has_yet_to_handle(process.pid, signal.SIGUSR1)
    stack = bytearray()
    deadline = time.monotonic() + PATIENCE
    while has_yet_to_handle(process.pid, signal.SIGUSR1):
        assert time.monotonic() < deadline
        stack += _what_is_in(pipe)
    stack += _what_is_in(pipe)
    assert stack.startswith(b"Stack (most recent call first)")
    assert stack.endswith(b"in <module>\n")


def _what_is_in(pipe: int) -> bytes:
    return os.read(pipe, 1 << 16) if select.select([pipe], [], [], 0)[0] else b""


def test_who_is_stopped_or_gone_is_not_waited_for(writing: tuple[subprocess.Popen[bytes], int]) -> None:
    process, _ = writing
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    process.send_signal(signal.SIGUSR1)
    assert not has_yet_to_handle(process.pid, signal.SIGUSR1)
    process.kill()
    process.wait()
    assert not has_yet_to_handle(process.pid, signal.SIGUSR1)


def test_a_rank_that_is_slow_to_say_where_it_stands_is_heard(box: Box) -> None:
    (rank,) = run(box, SLOW_TO_ANSWER, limits=SHORT).ranks
    assert rank.standing is not None
    assert str(rank.standing.frame) == "student.py, line 8"


def test_the_ranks_that_a_command_started_say_where_they_stand(box: Box) -> None:
    limits = Limits(seconds=3)  # three that are busy share the processors, and count only what they get
    (rank,) = run(
        box, STARTS_RANKS, call="command", values=[{"command": ["sh", "-c", START]}], limits=limits
    ).ranks
    assert rank.standing is not None
    assert rank.standing.waits_in == "a command that has not ended"
    started = {number: str(one.frame) for number, one in rank.standing.started}
    assert started == {0: "student.py, line 6", 1: "student.py, line 4"}


def test_a_rank_whose_time_is_up_before_it_could_begin_is_not_ended_by_being_asked(box: Box) -> None:
    box.wait_ready()
    for seconds in (0.0, 0.005, 0.01, 0.02):
        outcome = run(
            box, "import time\ndef main(): time.sleep(600)", ranks=4, limits=Limits(seconds=seconds)
        )
        assert outcome.timed_out
        assert {rank.status for rank in outcome.ranks} == {None}


def test_student_code_finds_no_signal_blocked(box: Box) -> None:
    blocked = "import signal\ndef main(): return len(signal.pthread_sigmask(signal.SIG_BLOCK, []))\n"
    (rank,) = run(box, blocked).ranks
    assert rank.values == {"seen": 0}
    for command in (
        ["python", "student.py"],
        ["sh", "-c", "grep SigBlk /proc/self/status | grep -c [1-9]; true"],
    ):
        (rank,) = run(box, blocked + "print(main())\n", call="command", values=[{"command": command}]).ranks
        assert str(rank.values["said"]).strip() == "0"


def test_there_is_an_end_to_waiting_for_one_that_never_says_it(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "STACK_SECONDS", 0.5)
    outcome = run(box, NEVER_ANSWERS, limits=SHORT)
    assert outcome.timed_out
    assert outcome.ranks[0].standing is not None
    assert outcome.ranks[0].standing.frame is None
