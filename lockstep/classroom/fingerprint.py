"""What a grade depends on besides the hand-in: while that is the same, the same work is not graded again."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from lockstep.classroom.task import Setup
from lockstep.exercise import Exercise

PACKAGE = Path(__file__).resolve().parent.parent

NOT_THE_ENGINE = frozenset({"classroom", "doctor"})
"""Folders of lockstep that have no part in a verdict."""

LIBRARIES = ("torch", "torchvision", "numpy", "pytorch-lightning")
"""Packages of which another release may change what student code does, or what a judge computes."""


def versions() -> Mapping[str, str]:
    """What graded, for the record: Python, lockstep and the libraries, by name."""
    return {
        "python": platform.python_version(),
        **{name: _version(name) for name in ("lockstep", *LIBRARIES)},
    }


def fingerprints(exercises: Sequence[Exercise], setup: Setup) -> Mapping[str, str]:
    """For each exercise the SHA-256 over everything that its verdicts depend on and no student has a hand in.

    That is the engine, the exercise's own folder, beside the folder of graders `reference/` and the generators in
    `fixtures/`, versions, and how it is run. Raises OSError where a file cannot be read.
    """
    shared = hashlib.sha256(json.dumps([versions(), _how(setup)], sort_keys=True).encode())
    _add(shared, PACKAGE, _engine())
    roots = {exercise.folder.resolve().parent.parent for exercise in exercises}
    for root in sorted(roots):
        _add(shared, root, sorted((root / "fixtures").glob("*.py")))
        _add(shared, root, _below(root / "reference"))
    found = {}
    for exercise in exercises:
        own = shared.copy()
        _add(own, exercise.folder, _below(exercise.folder))
        found[exercise.id] = own.hexdigest()
    return found


def _how(setup: Setup) -> list[object]:
    return [setup.sandbox == "none", setup.device, list(setup.world_sizes)]


def _engine() -> Iterator[Path]:
    for path in _below(PACKAGE):
        if path.relative_to(PACKAGE).parts[0] not in NOT_THE_ENGINE:
            yield path


def _below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.parent.name != "__pycache__")


def _add(total: hashlib._Hash, root: Path, paths: Iterable[Path]) -> None:
    for path in paths:
        content = path.read_bytes()
        # The length goes in front, or a byte could move from one file to the next unnoticed.
        total.update(f"{path.relative_to(root).as_posix()}\n{len(content)}\n".encode())
        total.update(content)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
