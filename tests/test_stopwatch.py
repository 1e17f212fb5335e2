"""Ctrl-Z, a suspended job, a container that is paused: what was not watched is not held against who is graded."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import cast

import pytest

from graders.reports import spot
from lockstep.classroom import pool
from lockstep.sandbox import stopwatch
from lockstep.sandbox.box import Box
from lockstep.sandbox.limits import Limits
from lockstep.sandbox.starvation import Limit
from lockstep.sandbox.stopwatch import Stopwatch
from lockstep.sandbox.watching import Watching
from tests.sandboxed import ROOT, run

HOURS = 3 * 3600.0
TAKES_A_SECOND = "import time\ndef main(): time.sleep(1); return 7"
# Grades, and is stopped by itself at its first look at the run: where it comes first does not depend on the machine.
STOPPED = """
import os, signal
from lockstep.exercise import find_exercises
from lockstep.sandbox.box import open_box
from lockstep.sandbox.limits import Limits
from lockstep.sandbox.watching import Watching
from tests.sandboxed import PROBE, run

looks = []
look = Watching._look_at_limits

def look_and_stop(watching):
    look(watching)
    looks.append(None)
    if len(looks) == 1:
        os.kill(os.getpid(), signal.SIGSTOP)

with open_box((), isolated=True, probes={"engine": PROBE}) as box:
    Watching._look_at_limits = look_and_stop
    outcome = run(box, SOURCE, limits=Limits(seconds=SECONDS))
print(outcome.timed_out, outcome.ranks[0].complete, outcome.elapsed - outcome.stood_still < SECONDS)
"""


class Leaps:
    """A clock that leaps ahead once, when asked for the `at`-th time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
        self.asked = 0
        self._at = at
        self._real = time.monotonic
        monkeypatch.setattr(stopwatch, "time", SimpleNamespace(monotonic=self.now))

    def now(self) -> float:
        self.asked += 1
        return self._real() + (HOURS if self.asked >= self._at else 0.0)


def test_a_stopwatch_counts_a_moment_for_a_long_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 50.0
    monkeypatch.setattr(stopwatch.time, "monotonic", lambda: now)
    watch = Stopwatch(most=2.0)
    for pause, counted in ((0.5, 0.5), (2.0, 2.5), (HOURS, 4.5), (1.0, 5.5), (HOURS, 7.5)):
        now += pause
        assert watch.seconds() == pytest.approx(counted)
    assert watch.stood_still == pytest.approx(2 * HOURS - 4.0)


def test_a_limit_does_not_count_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = Limit(60.0, os.getpid())
    Leaps(monkeypatch, at=1)
    assert not limit.is_reached()


def test_a_hand_in_does_not_take_longer_because_the_class_was_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = object.__new__(pool._Worker)
    worker.give(600.0)
    Leaps(monkeypatch, at=1)
    assert not worker.is_late()
    worker.give(0.0)
    assert worker.is_late()


def test_a_grading_that_was_stopped_goes_on_with_what_it_was_sent_meanwhile() -> None:
    seconds = 4
    script = STOPPED.replace("SOURCE", repr(TAKES_A_SECOND)).replace("SECONDS", str(seconds))
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as grading:
        _, status = os.waitpid(grading.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        time.sleep(2 * seconds)  # it is stopped for longer than the run may take
        grading.send_signal(signal.SIGCONT)
        said, _ = grading.communicate(timeout=300)
    assert said.split() == [b"False", b"True", b"True"]


def test_a_run_that_is_paused_with_who_watches_it_gets_its_time(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    box.wait_ready()
    clock = Leaps(monkeypatch, at=4)
    outcome = run(box, TAKES_A_SECOND, limits=Limits(seconds=4))
    assert clock.asked > 4
    assert outcome.ranks[0].complete
    assert not outcome.timed_out
    assert outcome.stood_still == pytest.approx(HOURS, rel=1e-3)


def test_a_pause_does_not_make_the_time_of_a_run_endless(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    box.wait_ready()
    Leaps(monkeypatch, at=4)
    outcome = run(box, "import time\ndef main(): time.sleep(600)", limits=Limits(seconds=2))
    assert outcome.timed_out
    # Told as it was: the clock of who is graded went on as well.
    assert outcome.stood_still > HOURS - 2


def test_the_clock_outside_starts_before_one_inside_can(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Watching.close_inside_ends

    def slow_to_look(watching: Watching) -> None:
        told(watching)
        if not watching.outcome().ranks[0].complete:
            select.select([watching._pipes[0].result.fd], [], [])

    monkeypatch.setattr(Watching, "close_inside_ends", slow_to_look)
    outcome = run(
        box,
        "import time\ndef main():\n    start = time.monotonic(); time.sleep(0.5)\n    return time.monotonic() - start",
    )
    (rank,) = outcome.ranks
    assert rank.complete
    assert outcome.elapsed >= cast(float, rank.values["seen"])


def test_how_long_a_script_took_proves_nothing_where_it_was_stopped() -> None:
    assert "stopped for 61 s" in spot._busy(61.2)
