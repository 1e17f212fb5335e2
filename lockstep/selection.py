"""Which checks a call of pytest asks for, in what order; and that each exercise's judges fit its exercise.toml."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from lockstep.exercise import FILE, CheckSpec, Exercise, ExerciseError, find_exercises, load_exercise

Exercises = Mapping[str, Exercise]


def exercise_folder(item: pytest.Item) -> Path | None:
    """The folder of the exercise that a test is a check of; None for a test of something else."""
    folder = item.path.parent
    return folder if (folder / FILE).exists() else None


def check_id(item: pytest.Item) -> str:
    """The name of the check that a test makes, without pytest's parameters and xdist's group."""
    return item.name.removeprefix("test_").partition("[")[0].partition("@")[0]


def spec_of(item: pytest.Item, exercise: Exercise) -> CheckSpec:
    """What the exercise.toml says of a test's check. Raises UsageError where it does not know it."""
    try:
        return exercise.check(check_id(item))
    except ExerciseError as error:
        raise pytest.UsageError(
            f"{item.nodeid}: {error}: list it there, or name the function without test_ if it is no check"
        ) from None


def world_sizes(text: str) -> tuple[int, ...]:
    """The numbers of ranks in `--world-sizes`. Raises UsageError for what are none."""
    try:
        sizes = tuple(int(word) for word in text.split(","))
    except ValueError:
        sizes = ()
    if not sizes or any(not 2 <= size <= 8 for size in sizes):
        raise pytest.UsageError(f"--world-sizes takes numbers from 2 to 8 with commas between, not {text!r}")
    return sizes


def exercises_asked(config: pytest.Config) -> dict[str, Exercise]:
    """The exercises among what pytest is to collect, by name; where `--exercise` names some, these alone.

    Raises UsageError where there is none, a faulty one, or not the one that is named.
    """
    found = _exercises_collected(config)
    asked = [name for words in config.getoption("exercise") for name in words.split(",") if name]
    for name in asked:
        if name not in found:
            raise pytest.UsageError(f"there is no exercise {name!r}; there are {', '.join(sorted(found))}")
    return {name: exercise for name, exercise in found.items() if not asked or name in asked}


def _exercises_collected(config: pytest.Config) -> dict[str, Exercise]:
    found: dict[str, Exercise] = {}
    for argument in config.args:
        place = Path(config.invocation_params.dir, argument.split("::")[0]).resolve()
        place = place.parent if place.is_file() else place
        try:
            own = (load_exercise(place),) if (place / FILE).exists() else ()
            exercises = own or find_exercises(place) or find_exercises(place / "graders")
        except ExerciseError as error:
            raise pytest.UsageError(str(error)) from None
        found.update({exercise.id: exercise for exercise in exercises})
    if not found:
        raise pytest.UsageError("no exercise here: name the folder of graders, as in `pytest graders/`")
    for exercise in found.values():
        # Judges import their own package and the fixtures' generators from beside `graders`.
        root = str(exercise.folder.resolve().parent.parent)
        if root not in sys.path:
            sys.path.insert(0, root)
    return found


def checks_asked(
    config: pytest.Config, items: Sequence[pytest.Item], exercises: Exercises
) -> list[pytest.Item]:
    """Of all tests the checks of `exercises`, in the order of their exercise.toml; where `--check` names some, these.

    Raises UsageError where a check has no judge or two, or one that cannot judge, or where there is none of that name.
    """
    ordered: list[tuple[tuple[int, str, int], pytest.Item]] = []
    for item in items:
        exercise = exercises.get(item.path.parent.name)
        if exercise is not None:
            position = exercise.checks.index(spec_of(item, exercise))
            if "check" not in getattr(item, "fixturenames", ()):
                raise pytest.UsageError(f"{item.nodeid} does not take `check`, so it can find nothing wrong")
            # Exercises that need not wait for all imports come first.
            ordered.append(((exercise.server, exercise.id, position), item))
    ordered.sort(key=lambda entry: entry[0])
    found = [item for _, item in ordered]
    _insist_on_one_judge(found)
    _insist_on_all(found, exercises, config)
    checks = set(config.getoption("check"))
    _insist_on_known(checks, exercises)
    return [item for item in found if not checks or check_id(item) in checks]


def _insist_on_one_judge(items: Sequence[pytest.Item]) -> None:
    """A check with two judges would be made twice, and the one that ends later would count."""
    judges: dict[tuple[str, str], list[pytest.Item]] = {}
    for item in items:
        judges.setdefault((item.path.parent.name, check_id(item)), []).append(item)
    for (folder, check), tests in judges.items():
        files = {item.path.name for item in tests}
        if len(files) > 1:
            raise pytest.UsageError(f"{folder}: {' and '.join(sorted(files))} both have a test_{check}")
        if len(tests) > 1:
            raise pytest.UsageError(
                f"{folder}: {files.pop()} makes test_{check} {len(tests)} times, of which only the last would count: "
                "a check is one function, with a loop in it instead of parameters"
            )


def _insist_on_all(items: Sequence[pytest.Item], exercises: Exercises, config: pytest.Config) -> None:
    """A check of the exercise.toml that no test makes would silently lower what can be earned."""
    if any("::" in argument for argument in config.args) or config.option.keyword or config.option.markexpr:
        return
    there = {(item.path.parent.name, check_id(item)) for item in items}
    if not items or items[0].session.testsfailed:
        return  # there is no judge, or one that cannot be read: pytest says that itself
    for exercise in exercises.values():
        for spec in exercise.checks:
            if (exercise.id, spec.id) not in there:
                raise pytest.UsageError(
                    f"{exercise.folder / FILE} lists {spec.id}, but there is no test_{spec.id}"
                )


def _insist_on_known(checks: set[str], exercises: Exercises) -> None:
    known = {spec.id for exercise in exercises.values() for spec in exercise.checks}
    for name in sorted(checks - known):
        raise pytest.UsageError(f"there is no check {name!r}; there are {', '.join(sorted(known))}")
