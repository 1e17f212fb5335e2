"""300 hand-ins, of the exercises' samples as many as fit, graded as an instructor would: half an hour and more each."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from fixtures.build import Sample, exercise_toml
from fixtures.classroom import build_class, dealt
from fixtures.works import CHEAP, Work, beside, class_works
from lockstep.grading import default_graders, known_exercises
from tests.attack_corpus import FOLDER, all_attacks, refused_works
from tests.whole_class import grade, tables, wrong

OTHERS = tuple(exercise for exercise in known_exercises(default_graders()) if exercise not in CHEAP)
STUDENTS = 300
GROWTH = 8.0
"""MiB by which the coordinator may grow while it grades: what Python keeps of a few hundred names is less."""

of_exercises = pytest.mark.parametrize("exercises", [CHEAP, OTHERS], ids=["cheap exercises", "the others"])


@of_exercises
def test_there_are_works_for_such_a_class(tmp_path: Path, exercises: tuple[str, ...]) -> None:
    works = _works(tmp_path / "canary", exercises)
    assert len(works) > STUDENTS
    assert len(dealt(works, STUDENTS, random.Random(1))) == STUDENTS


@pytest.mark.slow
@of_exercises
def test_a_class_of_300(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, exercises: tuple[str, ...]
) -> None:
    # Students see where it lies, as their own code names it; no page may name any path beside the results.
    canary = tmp_path_factory.mktemp("elsewhere") / "canary"
    works = _works(canary, exercises)
    canary.write_text("untouched")
    (tmp_path / "class").mkdir()
    class_ = build_class(tmp_path / "class", works, STUDENTS)
    results = tmp_path / "results"
    chosen = [word for exercise in exercises for word in ("--exercise", exercise)]
    command = [class_.submissions, "--roster", class_.roster, "--out", results, *chosen]

    graded = grade(*command, temporary=tmp_path / "temporary", timeout=6 * 3600)
    assert graded.status == 1, graded.err  # some are on no roster
    assert wrong(class_, results, exercises) == []
    assert canary.read_text() == "untouched"
    quarter = len(graded.memory) // 4
    early, late = (statistics.median(graded.memory[at : at + quarter]) for at in (quarter, 3 * quarter))
    assert late - early < GROWTH, graded.memory

    before = tables(results)
    again = grade(*command, temporary=tmp_path / "temporary")
    assert "0 graded now" in again.out
    assert tables(results) == before


def _works(canary: Path, exercises: Sequence[str]) -> list[Work]:
    """What the class hands in: everything there is, and of an exercise that has more than fit some, drawn by lot."""
    works = [*class_works(exercises), *refused_works(), *_attacks(canary, exercises)]
    alone = [work for work in works if not work.of]
    rng, chosen = random.Random(1), list(alone)
    for exercise in exercises:
        own = [work for work in works if work.of == exercise]
        chosen += rng.sample(own, min(len(own), STUDENTS - len(alone)))
    return chosen


def _attacks(canary: Path, exercises: Sequence[str]) -> list[Work]:
    """The attacks that run, but for those that take their check's whole time; what else they fail is not said."""
    works = []
    for attack in all_attacks():
        exercise = attack.about.get("exercise")
        if exercise in exercises and not attack.about.get("slow"):
            checks = tuple(check["id"] for check in exercise_toml(exercise)["check"])
            sample = Sample(exercise, "mistake", attack.name, (), checks, attack.about["title"], FOLDER)
            no_points = tuple(f"{exercise}/{check}" for check in attack.about["checks"])
            files = {path.name for path in attack.folder.iterdir()} - {"attack.toml"}
            of = exercise if files == {f"{exercise}.py"} and "base" not in attack.about else ""
            write = partial(attack.build, canary=canary)
            right, unsaid = beside(exercise, write, exercises)
            works.append(Work(attack.name, write, {exercise: sample, **right}, unsaid, no_points, of=of))
    return works
