"""300 hand-ins with every sample of every exercise in them, graded as an instructor would. It takes an hour and more."""

from __future__ import annotations

import statistics
from functools import partial
from pathlib import Path

import pytest

from fixtures.build import Sample, exercise_toml
from fixtures.classroom import build_class
from fixtures.works import Work, class_works
from lockstep.grading import default_graders, known_exercises
from tests.attack_corpus import FOLDER, all_attacks, refused_works
from tests.whole_class import grade, tables, wrong

EXERCISES = known_exercises(default_graders())
GROWTH = 8.0
"""MiB by which the coordinator may grow while it grades: what Python keeps of a few hundred names is less."""


@pytest.mark.slow
def test_a_class_of_300(tmp_path: Path) -> None:
    works = [*class_works(EXERCISES), *refused_works(), *_attacks(tmp_path / "canary")]
    (tmp_path / "canary").write_text("untouched")
    (tmp_path / "class").mkdir()
    class_ = build_class(tmp_path / "class", works, 300)
    results = tmp_path / "results"
    command = [class_.submissions, "--roster", class_.roster, "--out", results]

    graded = grade(*command, temporary=tmp_path / "temporary", timeout=6 * 3600)
    assert graded.status == 1, graded.err  # some are on no roster
    assert wrong(class_, results, EXERCISES) == []
    assert (tmp_path / "canary").read_text() == "untouched"
    quarter = len(graded.memory) // 4
    early, late = (statistics.median(graded.memory[at : at + quarter]) for at in (quarter, 3 * quarter))
    assert late - early < GROWTH, graded.memory

    before = tables(results)
    again = grade(*command, temporary=tmp_path / "temporary")
    assert "0 graded now" in again.out
    assert tables(results) == before


def _attacks(canary: Path) -> list[Work]:
    """The attacks that run, but for those that take their check's whole time; what else they fail is not said."""
    works = []
    for attack in all_attacks():
        exercise = attack.about.get("exercise")
        if exercise is not None and not attack.about.get("slow"):
            checks = tuple(check["id"] for check in exercise_toml(exercise)["check"])
            sample = Sample(exercise, "mistake", attack.name, (), checks, attack.about["title"], FOLDER)
            no_points = tuple(f"{exercise}/{check}" for check in attack.about["checks"])
            files = {path.name for path in attack.folder.iterdir()} - {"attack.toml"}
            of = exercise if files == {f"{exercise}.py"} and "base" not in attack.about else ""
            write = partial(attack.build, canary=canary)
            works.append(Work(attack.name, write, {exercise: sample}, no_points, of=of))
    return works
