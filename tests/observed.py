"""What the checks of a worked solution saw: recorded once in the sandbox, judged again without it.

A recording holds every run that a check asked for, in order. With the same seed a judge draws the same inputs again,
so that it can be given the same answers, or answers of which one thing is changed.
"""

from __future__ import annotations

import importlib
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields, replace
from typing import Any, cast
from unittest import mock

import numpy as np
from PIL import Image

from lockstep.check import Check, Setting
from lockstep.exercise import Exercise
from lockstep.sandbox.box import Box
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.sandbox.spec import RunSpec
from lockstep.submission import Submission
from lockstep.verdict import CheckEnded, GraderFault

SEED = 7


@dataclass(frozen=True)
class Run:
    """One run of a check: the probe's function, and what came back.

    Its `name` is that of the function, from the second run of it on with the number: `train`, `train/2`.
    """

    name: str
    call: str
    outcome: Outcome


def judge_of(exercise: Exercise, check_id: str) -> Callable[[Check], None]:
    """The test that makes this check; the judges of an exercise may lie in several files."""
    for file in sorted(exercise.folder.glob("test_*.py")):
        module = importlib.import_module(f"graders.{exercise.id}.{file.stem}")
        if found := vars(module).get(f"test_{check_id}"):
            return cast(Callable[[Check], None], found)
    raise LookupError(f"{exercise.id} has no test_{check_id}")


class Recorder:
    """Stands before a sandbox and keeps what it answers."""

    def __init__(self, box: Box) -> None:
        self.isolated = box.isolated
        self.runs: list[Run] = []
        self._box = box

    def run(self, spec: RunSpec) -> Outcome:
        outcome = self._box.run(spec)
        earlier = sum(run.call == spec.call for run in self.runs)
        name = f"{spec.call}/{earlier + 1}" if earlier else spec.call
        self.runs.append(Run(name, spec.call, outcome))
        return outcome


class Replayer:
    """Stands in for a sandbox and answers from a recording; whatever else is asked gets an answer without content."""

    isolated = True

    def __init__(self, runs: Sequence[Run]) -> None:
        self._left = list(runs)
        self._now = runs[0].outcome.began_at if runs else time.time()

    def time(self) -> float:
        """The time of the recording, as it was after the last run."""
        return self._now

    def run(self, spec: RunSpec) -> Outcome:
        if not self._left or self._left[0].call != spec.call:
            # A judge that is in doubt may look once more.
            return Outcome(tuple(RankOutcome(complete=True) for _ in spec.ranks), elapsed=0.1)
        run = self._left.pop(0)
        self._now = run.outcome.ended_at
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
        with (
            mock.patch("time.time", replayer.time),
            mock.patch("os.getloadavg", return_value=(0.0, 0.0, 0.0)),
        ):
            try:
                self._judge(replayer)
            except CheckEnded as ended:
                points = self.exercise.check(self.check).points
                return "" if 0 < points <= ended.points else ended.feedback.message
            except GraderFault as fault:
                return str(fault)
        return ""

    def _judge(self, box: Recorder | Replayer) -> None:
        setting = Setting(
            box=box, submission=self.submission, seed=SEED, world_sizes=(2, 3, 4), self_check=False
        )  # type: ignore[arg-type]
        # Large pictures take most of the time, and show no more.
        with mock.patch("graders.lfw_dataset.faces.patchwork", plain_picture):
            judge_of(self.exercise, self.check)(
                Check(setting, self.exercise, self.exercise.check(self.check))
            )


def plain_picture(rng: np.random.Generator) -> Image.Image:
    """A small picture in one colour that no other picture has."""
    return Image.new("RGB", (8, 8), tuple(map(int, rng.bytes(3))))


def plain_name(name: str) -> str:
    """A name as those of its kind have it: without its numbers, and of a path without its last part."""
    folder, slash, last = name.rpartition("/")
    return re.sub(r"\d+", "#", f"{folder}/*" if slash else last)


# What a judge reads


class Reading:
    """Notes what a judge reads of a recording, by key: `run values.name.#.part`, where # is a number."""

    def __init__(self) -> None:
        self.keys: set[str] = set()

    def runs(self, runs: Sequence[Run]) -> list[Run]:
        """The same runs, watched."""
        return [replace(run, outcome=self._outcome(run)) for run in runs]

    def _outcome(self, run: Run) -> Outcome:
        ranks = tuple(self._rank(run.name, rank) for rank in run.outcome.ranks)
        given = {each.name: getattr(run.outcome, each.name) for each in fields(Outcome)}
        return self._watched(Outcome, run.name, {**given, "ranks": ranks})

    def _rank(self, run: str, rank: RankOutcome) -> RankOutcome:
        given = {each.name: getattr(rank, each.name) for each in fields(RankOutcome)}
        given["values"] = WatchedDict(rank.values, f"{run} values", self.keys)
        given["arrays"] = WatchedDict(rank.arrays, f"{run} arrays", self.keys)
        return self._watched(RankOutcome, run, given)

    def _watched(self, kind: type[Any], run: str, given: Mapping[str, Any]) -> Any:
        keys = self.keys

        class Watched(kind):
            def __getattribute__(self, name: str) -> Any:
                # The engine reads everything, to say how a run ended; here it is about the judges.
                if sys._getframe(1).f_globals.get("__name__", "").startswith("graders."):
                    keys.add(f"{run} {name}")
                return object.__getattribute__(self, name)

        return Watched(**given)


class WatchedDict(dict[str, Any]):
    """A JSON object that notes which of its keys are read."""

    def __init__(self, content: Mapping[str, Any], key: str, keys: set[str]) -> None:
        super().__init__({n: _watched_value(v, part(key, n), keys) for n, v in content.items()})
        self._key, self._keys = key, keys

    def _read(self, name: object) -> None:
        self._keys.add(part(self._key, str(name)))

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
        return [(name, self[name]) for name in super().__iter__()]

    def values(self) -> Any:
        return [self[name] for name in super().__iter__()]

    def __eq__(self, other: object) -> bool:
        return dict(self.items()) == other

    __hash__ = None


def is_read(key: str, keys: Set[str]) -> bool:
    """Whether a key, or the list or document that it is in, is among those that were read."""
    key = key.partition(":")[0]
    while key not in keys and key.endswith(".#"):
        key = key.removesuffix(".#")
    return key in keys and not key.endswith((" values", " arrays"))


def of_any_run(key: str) -> str:
    """The key of the same thing in the first run of the same function."""
    return re.sub(r"^(\w+)/\d+ ", r"\1 ", key)


def part(key: str, name: str) -> str:
    """The key of a part of something."""
    return f"{key}.{plain_name(name)}"


def _watched_value(value: Any, key: str, keys: set[str]) -> Any:
    if isinstance(value, dict):
        return WatchedDict(value, key, keys)
    if isinstance(value, list):
        return [_watched_value(item, f"{key}.#", keys) for item in value]
    return value
