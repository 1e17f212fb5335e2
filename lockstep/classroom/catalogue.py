"""The exercises and checks of a class by their titles, for pages and tables; kept with the grades they explain."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lockstep.exercise import Exercise, ExerciseError


@dataclass(frozen=True)
class CheckTitle:
    """One check: its id, the sentence that says what it asks for, and its points."""

    id: str
    title: str
    max_points: float


@dataclass(frozen=True)
class ExerciseTitle:
    """One exercise: its id, its title, and its checks in the order of its exercise.toml.

    `by_person` are the points that a person gives for written answers.
    """

    id: str
    title: str
    checks: tuple[CheckTitle, ...]
    by_person: float = 0.0

    @property
    def max_points(self) -> float:
        """Points that its checks and a person can give."""
        return sum(check.max_points for check in self.checks) + self.by_person


def catalogue(exercises: Sequence[Exercise]) -> tuple[ExerciseTitle, ...]:
    """Titles of these exercises. A check's is the first line of its judge's docstring, read and never run."""
    return tuple(
        ExerciseTitle(
            exercise.id,
            exercise.title,
            tuple(CheckTitle(check.id, titles.get(check.id, ""), check.points) for check in exercise.checks),
            exercise.by_person,
        )
        for exercise in exercises
        for titles in [_docstrings(exercise.folder)]
    )


def _docstrings(folder: Path) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for path in sorted(folder.glob("test_*.py")):
        try:
            tree = ast.parse(path.read_bytes(), path.name)
        except (SyntaxError, ValueError) as error:
            raise ExerciseError(f"the grader {path} cannot be read: {error}") from error
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                lines = (ast.get_docstring(node) or "").splitlines()
                found[node.name.removeprefix("test_")] = lines[0] if lines else ""
    return found
