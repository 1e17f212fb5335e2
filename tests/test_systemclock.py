"""The system's clock is set while student code runs: what it timed then is not held against it."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from lockstep.check import MOST_TRIES
from lockstep.sandbox import systemclock
from lockstep.sandbox.box import Box
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.sandbox.prepared import Prepared
from lockstep.sandbox.spec import RunSpec
from lockstep.sandbox.systemclock import SystemClock
from lockstep.sandbox.watching import Watching
from tests.made_up import check_of
from tests.sandboxed import run

SAYS_WHEN = "import time\ndef main(): return time.time()"


class Clocks:
    """Two clocks that go on only when they are told to, or when somebody looks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds, self.set_by, self.slept = 50.0, 1.8e9, 0.0
        self.waits = iter(())
        there = SimpleNamespace(monotonic=self.monotonic, time=self.time)
        monkeypatch.setattr(systemclock, "time", there)

    def monotonic(self) -> float:
        self.seconds += next(self.waits, 1e-7)
        return self.seconds - self.slept

    def time(self) -> float:
        return self.seconds + self.set_by


def _set_back(clocks: Clocks) -> None:
    clocks.set_by -= 0.02


def _set_ahead(clocks: Clocks) -> None:
    clocks.set_by += 1.0


def _leap_second(clocks: Clocks) -> None:
    clocks.set_by -= 1.0


def _sleeps(clocks: Clocks) -> None:
    clocks.seconds += 3600
    clocks.slept += 3600


@pytest.mark.parametrize("happens", [_set_back, _set_ahead, _leap_second, _sleeps])
def test_a_clock_that_is_set_is_noticed(
    happens: Callable[[Clocks], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks = Clocks(monkeypatch)
    clock = SystemClock()
    happens(clocks)
    assert clock.was_set()


def _nothing(clocks: Clocks) -> None:
    clocks.seconds += 300


def _hardly(clocks: Clocks) -> None:
    clocks.set_by += 0.005


def _waits_between_two_clocks(clocks: Clocks) -> None:
    clocks.waits = iter([1e-7, 3.0, 1e-7, 1e-7, 5.0])


def _waits_every_time(clocks: Clocks) -> None:
    clocks.waits = iter([0.2] * 100)


@pytest.mark.parametrize("happens", [_nothing, _hardly, _waits_between_two_clocks, _waits_every_time])
def test_no_other_clock_is(happens: Callable[[Clocks], None], monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = Clocks(monkeypatch)
    clock = SystemClock()
    happens(clocks)
    assert not clock.was_set()


def test_a_run_knows_when_it_was(box: Box) -> None:
    before = time.time()
    outcome = run(box, SAYS_WHEN)
    assert before <= outcome.began_at <= outcome.ranks[0].values["seen"] <= outcome.ended_at <= time.time()
    assert not outcome.clock_was_set


def test_a_run_knows_that_the_clock_was_set_meanwhile(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    box.wait_ready()
    watch = Watching.watch

    def watch_a_clock_that_is_set(watching: Watching, following: Prepared) -> None:
        clocks = SimpleNamespace(monotonic=time.monotonic, time=lambda: time.time() - 5.0)
        monkeypatch.setattr(systemclock, "time", clocks)
        watch(watching, following)

    monkeypatch.setattr(Watching, "watch", watch_a_clock_that_is_set)
    assert run(box, SAYS_WHEN).clock_was_set


WRONG, RIGHT = (RankOutcome(complete=True, values={"seen": seen}) for seen in ("wrong", "right"))
SET_MEANWHILE = Outcome((WRONG,), elapsed=1.0, cpu_seconds=1.0, clock_was_set=True)


def seen_in(*outcomes: Outcome) -> tuple[Outcome, float | None, int]:
    """What a check sees of a run in a sandbox that answers so; what it counts for that; how often it was run."""
    runs: list[RunSpec] = []

    def answer(spec: RunSpec) -> Outcome:
        runs.append(spec)
        return outcomes[len(runs) - 1]

    check = check_of("scaling", "speedup", answer)
    outcome = check.run("calls")
    assert all(spec is runs[0] for spec in runs)
    return outcome, check.cpu_seconds, len(runs)


@pytest.mark.parametrize("times", [0, 1, 2])
def test_it_is_run_again_until_the_clock_goes_on_evenly(times: int) -> None:
    right = Outcome((RIGHT,), elapsed=1.0, cpu_seconds=1.0)
    assert seen_in(*[SET_MEANWHILE] * times, right) == (right, times + 1, times + 1)


def test_where_the_clock_is_set_all_the_time_it_is_judged_by_what_there_is() -> None:
    assert seen_in(*[SET_MEANWHILE] * 9) == (SET_MEANWHILE, MOST_TRIES, MOST_TRIES)
