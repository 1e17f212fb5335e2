"""An exercise as its folder describes it: `graders/<id>/exercise.toml`, beside the judge and the probe."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from lockstep.template import is_given

FILE = "exercise.toml"


class Server(IntEnum):
    """The warm servers of a sandbox, in the order in which they become ready; each has what those before it have."""

    EARLY = 0
    """torch, torchvision, matplotlib"""
    FULL = 1
    """process groups and optimizers as well"""
    LATE = 2
    """the modules that exercises list under `warm` as well"""


class ExerciseError(Exception):
    """An exercise.toml that does not say what it must; the message names the file and the key."""


@dataclass(frozen=True)
class CheckSpec:
    """One check: its points, the checks it builds on, and the wall-clock limit of each of its runs."""

    id: str
    points: float
    needs: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class Exercise:
    """One exercise. `checks` are in the order of the file; `warm` are modules that are imported once for it.

    `given` are files that are handed out with it, by name: where they were not handed in, they are there all the same.
    An `early` exercise uses neither process groups nor optimizers: its checks need not wait for their imports.
    `by_person` are the points of the questions in its rubric, whoever answers them: checks do not give them.
    """

    id: str
    title: str
    files: tuple[str, ...]
    checks: tuple[CheckSpec, ...]
    folder: Path
    warm: tuple[str, ...] = ()
    given: tuple[tuple[str, bytes], ...] = ()
    early: bool = False
    by_person: float = 0.0

    @property
    def server(self) -> Server:
        """The first server that has what this exercise needs."""
        if self.warm:
            return Server.LATE
        return Server.EARLY if self.early else Server.FULL

    @property
    def probe(self) -> Path:
        """The only file of the exercise that exists inside the sandbox."""
        return self.folder / "probe.py"

    def check(self, name: str) -> CheckSpec:
        """The check with this id. Raises ExerciseError when there is none."""
        for check in self.checks:
            if check.id == name:
                return check
        raise ExerciseError(f"{self.folder / FILE} has no check {name!r}")


def load_exercise(folder: Path) -> Exercise:
    """Read one exercise. Raises ExerciseError."""
    path = folder / FILE
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        default = float(data.get("limits", {}).get("seconds", 10.0))
        checks = tuple(_check(entry, default) for entry in data["check"])
        exercise = Exercise(
            id=folder.name,
            title=data["title"],
            files=tuple(data["files"]),
            checks=checks,
            folder=folder,
            warm=tuple(data.get("warm", ())),
            given=tuple(_given(folder.parent.parent / "reference", name) for name in data.get("given", ())),
            early=data.get("early") is True,
            by_person=_points_of(folder / data["rubric"]) if "rubric" in data else 0.0,
        )
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ExerciseError(f"{path}: {type(error).__name__}: {error}") from error
    known = {check.id for check in checks}
    for check in checks:
        for need in check.needs:
            if need not in known:
                raise ExerciseError(f"{path}: {check.id} needs {need}, which is no check of this exercise")
    return exercise


def _given(reference: Path, name: str) -> tuple[str, bytes]:
    """A file of the reference that students get as it is. Raises ValueError for any other."""
    if not is_given(reference / name):
        raise ValueError(f"given: {name} is no file of reference/ without a solution in it")
    return name, (reference / name).read_bytes()


def _points_of(rubric: Path) -> float:
    """What a person can give for all questions of a rubric together."""
    questions = tomllib.loads(rubric.read_text(encoding="utf-8"))["question"]
    return sum(float(question["points"]) for question in questions)


def _check(entry: Mapping[str, object], seconds: float) -> CheckSpec:
    unknown = set(entry) - {"id", "points", "needs", "seconds"}
    if unknown:
        raise ValueError(f"unknown key {sorted(unknown)[0]!r} in a check")
    needs = entry.get("needs", [])
    if not isinstance(needs, list):
        raise ValueError("needs is not a list")
    return CheckSpec(
        id=str(entry["id"]),
        points=float(str(entry["points"])),
        needs=tuple(str(need) for need in needs),
        seconds=float(str(entry.get("seconds", seconds))),
    )


def find_exercises(graders: Path) -> tuple[Exercise, ...]:
    """Every exercise below a folder, by name."""
    return tuple(load_exercise(path.parent) for path in sorted(graders.glob(f"*/{FILE}")))
