"""An exercise as its folder describes it: `graders/<id>/exercise.toml`, beside the judge and the probe."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path, PurePosixPath

from lockstep.template import is_given

FILE = "exercise.toml"
DEFAULT_SECONDS = 10.0
"""Wall-clock limit of one run where an exercise names none."""


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
        """What of the exercise exists inside the sandbox: `probe.py`, or the files of a folder `probe`."""
        folder = self.folder / "probe"
        return folder if folder.is_dir() else self.folder / "probe.py"

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
        # Notepad begins a file with a byte order mark.
        data = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        return _exercise(data, folder)
    except (OSError, ValueError) as error:
        raise ExerciseError(f"{path}: {error}") from error


def _exercise(data: Mapping[str, object], folder: Path) -> Exercise:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", folder.name, re.ASCII):
        # It is an argument of commands, which separate several by commas, a column of tables and part of addresses.
        raise ValueError(
            f"the folder's name is the exercise's: {folder.name!r} has more than letters, digits, _ and - in it"
        )
    _know(data, "exercise", {"title", "files", "check"}, {"limits", "given", "warm", "early", "rubric"})
    limits = data.get("limits", {})
    if not isinstance(limits, dict):
        raise ValueError("limits is no table: write `[limits]`")
    _know(limits, "[limits]", set(), {"seconds"})
    seconds = _number(limits.get("seconds", DEFAULT_SECONDS), "[limits]", "seconds", above=0.0)
    checks: list[CheckSpec] = []
    for entry in _tables(data["check"], "check"):
        check = _check(entry, seconds)
        names = {known.id for known in checks}
        if check.id in names:
            raise ValueError(f"there are two checks {check.id}")
        if wrong := [need for need in check.needs if need not in names]:
            raise ValueError(
                f"{check.id} needs {wrong[0]}, which is no check of this exercise that comes before it"
            )
        checks.append(check)
    reference = folder.parent.parent / "reference"
    return Exercise(
        id=folder.name,
        title=_text(data["title"], "exercise", "title"),
        files=_files(data["files"]),
        checks=tuple(checks),
        folder=folder,
        warm=_texts(data.get("warm", []), "exercise", "warm"),
        given=tuple(_given(reference, name) for name in _texts(data.get("given", []), "exercise", "given")),
        early=_truth(data.get("early", False), "exercise", "early"),
        by_person=_points_of(folder / _text(data["rubric"], "exercise", "rubric"))
        if "rubric" in data
        else 0.0,
    )


def _check(entry: Mapping[str, object], seconds: float) -> CheckSpec:
    where = f"check {entry.get('id', '')}".strip()
    _know(entry, where, {"id", "points"}, {"needs", "seconds"})
    name = _text(entry["id"], where, "id")
    if not re.fullmatch(r"\w+", name, re.ASCII):
        raise ValueError(
            f"{where}: its judge is a function test_{name}: name it by letters, digits and _ alone"
        )
    if name.startswith("test_"):
        raise ValueError(f"{where}: leave out test_, with which the name of its judge begins: {name[5:]!r}")
    return CheckSpec(
        id=name,
        points=_number(entry["points"], where, "points", least=0.0),
        needs=_texts(entry.get("needs", []), where, "needs"),
        seconds=_number(entry.get("seconds", seconds), where, "seconds", above=0.0),
    )


def _files(value: object) -> tuple[str, ...]:
    """What is asked for, by names as they are handed in. Raises ValueError for none, and for what is no such name."""
    names = _texts(value, "exercise", "files")
    if not names:
        raise ValueError("exercise: files is empty: name what students hand in")
    for name in names:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or str(path) != name or "\\" in name:
            raise ValueError(f"files: {name!r} is no file below the folder that is handed in")
        if path.suffix == ".ipynb":
            raise ValueError(
                f"files: name {path.with_suffix('.py')}, which may be handed in as a notebook as well"
            )
    return names


def _given(reference: Path, name: str) -> tuple[str, bytes]:
    """A file of the reference that students get as it is. Raises ValueError for any other."""
    if not is_given(reference / name):
        raise ValueError(f"given: {name} is no file of reference/ without a solution in it")
    return name, (reference / name).read_bytes()


def _points_of(rubric: Path) -> float:
    """What a person can give for all questions of a rubric together."""
    try:
        data = tomllib.loads(rubric.read_text(encoding="utf-8"))
        questions = _tables(data.get("question"), "question")
    except ValueError as error:
        raise ValueError(f"{rubric.name}: {error}") from error
    return sum(_number(question.get("points"), rubric.name, "points", least=0.0) for question in questions)


def _know(table: Mapping[str, object], where: str, needed: set[str], allowed: set[str]) -> None:
    """Refuse a table that lacks a key, or has one that nobody reads: it is misspelt."""
    for key in sorted(needed - table.keys()):
        raise ValueError(f"{where}: the key {key} is missing")
    for key in sorted(table.keys() - needed - allowed):
        raise ValueError(
            f"{where}: the key {key} is unknown; known are {', '.join(sorted(needed | allowed))}"
        )


def _tables(value: object, key: str) -> list[Mapping[str, object]]:
    if not isinstance(value, list) or not value or not all(isinstance(each, dict) for each in value):
        raise ValueError(f"{key} is no list of tables: write `[[{key}]]` above each")
    return value


def _number(
    value: object, where: str, key: str, *, least: float = -math.inf, above: float = -math.inf
) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{where}: {key} is no number")
    if not (math.isfinite(value) and value >= least and value > above):
        wanted = f"{least:g} or more" if least > above else f"more than {above:g}"
        raise ValueError(f"{where}: {key} is {value}, and has to be {wanted}")
    return float(value)


def _truth(value: object, where: str, key: str) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{where}: {key} is neither true nor false")
    return value


def _text(value: object, where: str, key: str) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{where}: {key} is no text")
    return value


def _texts(value: object, where: str, key: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(f"{where}: {key} is no list")
    return tuple(_text(each, where, key) for each in value)


def find_exercises(graders: Path) -> tuple[Exercise, ...]:
    """Every exercise below a folder, by name.

    Raises ExerciseError for a faulty one, and beside others for one that nobody would grade: too deep, or unnamed.
    """
    found = tuple(load_exercise(path.parent) for path in sorted(graders.glob(f"*/{FILE}")))
    if found:
        _insist_on_all(graders)
    return found


def _insist_on_all(graders: Path) -> None:
    for path in sorted(graders.glob(f"*/*/{FILE}")):
        raise ExerciseError(
            f"{path.parent} is too deep to be found: an exercise is a folder in {graders} itself"
        )
    known: dict[str, Path] = {}
    for judge in sorted(graders.glob("*/test_*.py")):
        if not (judge.parent / FILE).exists():
            raise ExerciseError(
                f"{judge} is a judge, but {judge.parent} has no {FILE}, so nobody would ask it"
            )
        if (other := known.setdefault(judge.name, judge)) != judge:
            raise ExerciseError(
                f"{other} and {judge}: two judges have one name; pytest needs a name for each"
            )
