"""What the checks of a worked solution saw: recorded once in the sandbox, judged again without it.

A recording holds every run that a check asked for, in order. With the same seed a judge draws the same inputs again,
so that it can be given the same answers, or answers of which one thing is changed.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any
from unittest import mock

from lockstep.check import Check, Setting
from lockstep.exercise import Exercise
from lockstep.sandbox.box import Box
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.sandbox.spec import RunSpec
from lockstep.submission import Submission
from lockstep.verdict import CheckEnded
from tests.test_forged_answers import judge_of

SEED = 7


@dataclass(frozen=True)
class Run:
    """One run of a check: the probe's function, what came back, and when."""

    call: str
    outcome: Outcome
    began: float
    ended: float


class Recorder:
    """Stands before a sandbox and keeps what it answers."""

    def __init__(self, box: Box) -> None:
        self.isolated = box.isolated
        self.runs: list[Run] = []
        self._box = box

    def run(self, spec: RunSpec) -> Outcome:
        began = time.time()
        outcome = self._box.run(spec)
        self.runs.append(Run(spec.call, outcome, began, time.time()))
        return outcome


class Replayer:
    """Stands in for a sandbox and answers from a recording; whatever else is asked gets an answer without content."""

    isolated = True

    def __init__(self, runs: Sequence[Run]) -> None:
        self._left = list(runs)
        self._now = runs[0].began if runs else time.time()

    def time(self) -> float:
        """The time of the recording, as it was after the last run."""
        return self._now

    def run(self, spec: RunSpec) -> Outcome:
        if not self._left or self._left[0].call != spec.call:
            # A judge that is in doubt may look once more.
            return Outcome(tuple(RankOutcome(complete=True) for _ in spec.ranks), elapsed=0.1)
        run = self._left.pop(0)
        self._now = run.ended
        return run.outcome


@dataclass(frozen=True)
class Judge:
    """One check of one submission."""

    exercise: Exercise
    check: str
    submission: Submission

    def record(self, box: Box) -> list[Run]:
        """Make the check in the sandbox. Raises CheckEnded when it does not pass."""
        recorder = Recorder(box)
        self._judge(recorder)
        return recorder.runs

    def verdict(self, runs: Sequence[Run]) -> str:
        """What the judge makes of these runs: nothing when the check passes, else why not."""
        replayer = Replayer(runs)
        # What a judge asks of the clock and the machine is what was so when the runs were made.
        with mock.patch("time.time", replayer.time), mock.patch("os.getloadavg", lambda: (0.0, 0.0, 0.0)):
            try:
                self._judge(replayer)
            except CheckEnded as ended:
                points = self.exercise.check(self.check).points
                return "" if 0 < points <= ended.points else ended.feedback.message
        return ""

    def _judge(self, box: Recorder | Replayer) -> None:
        setting = Setting(box=box, submission=self.submission, seed=SEED, world_sizes=(2, 3, 4), self_check=False)  # type: ignore[arg-type]
        judge_of(self.exercise, self.check)(Check(setting, self.exercise, self.exercise.check(self.check)))


def plain_name(name: str) -> str:
    """A name without its numbers, which are the same for one thing of many."""
    return re.sub(r"\d+", "#", name)


# What a judge reads


class Reading:
    """Notes what a judge reads of a recording, by key: `call values.name[].part`."""

    def __init__(self) -> None:
        self.keys: set[str] = set()

    def runs(self, runs: Sequence[Run]) -> list[Run]:
        """The same runs, watched."""
        return [Run(run.call, self._outcome(run), run.began, run.ended) for run in runs]

    def _outcome(self, run: Run) -> Outcome:
        ranks = tuple(self._rank(run.call, rank) for rank in run.outcome.ranks)
        given = {each.name: getattr(run.outcome, each.name) for each in fields(Outcome)}
        return self._watched(Outcome, run.call, {**given, "ranks": ranks})

    def _rank(self, call: str, rank: RankOutcome) -> RankOutcome:
        given = {each.name: getattr(rank, each.name) for each in fields(RankOutcome)}
        given["values"] = WatchedDict(rank.values, f"{call} values", self.keys)
        given["arrays"] = WatchedDict(rank.arrays, f"{call} arrays", self.keys)
        return self._watched(RankOutcome, call, given)

    def _watched(self, kind: type[Any], call: str, given: Mapping[str, Any]) -> Any:
        keys = self.keys

        class Watched(kind):  # type: ignore[misc]
            def __getattribute__(self, name: str) -> Any:
                # The engine reads everything, to say how a run ended; here it is about the judges.
                if sys._getframe(1).f_globals.get("__name__", "").startswith("graders."):
                    keys.add(f"{call} {name}")
                return object.__getattribute__(self, name)

        return Watched(**given)


class WatchedDict(dict[str, Any]):
    """A JSON object that notes which of its keys are read."""

    def __init__(self, content: Mapping[str, Any], key: str, keys: set[str]) -> None:
        super().__init__({n: _watched_value(v, _part(key, n), keys) for n, v in content.items()})
        self._key, self._keys = key, keys

    def _read(self, name: object) -> None:
        self._keys.add(_part(self._key, str(name)))

    def __getitem__(self, name: str) -> Any:
        self._read(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self._read(name)
        return super().__contains__(name)

    def get(self, name: str, default: object = None) -> Any:
        self._read(name)
        return super().get(name, default)

    def __iter__(self) -> Iterator[str]:
        for name in super().__iter__():
            self._read(name)
            yield name

    def items(self) -> Any:
        return [(name, self[name]) for name in super().keys()]

    def values(self) -> Any:
        return [self[name] for name in super().keys()]

    def __eq__(self, other: object) -> bool:
        return dict(self.items()) == other

    __hash__ = None  # type: ignore[assignment]


def _part(key: str, name: str) -> str:
    return f"{key}.{plain_name(name)}"


def _watched_value(value: Any, key: str, keys: set[str]) -> Any:
    if isinstance(value, dict):
        return WatchedDict(value, key, keys)
    if isinstance(value, list):
        return [_watched_value(item, f"{key}[]", keys) for item in value]
    return value
