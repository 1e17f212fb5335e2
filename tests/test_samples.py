"""Every exercise: the worked solution earns all points, the template none, and each sample what it must.

A new exercise has nothing to add here: its samples say themselves what must become of them (fixtures/build.py).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures import build, expect
from lockstep.grading import default_graders, known_exercises
from lockstep.sandbox.box import Box
from tests.samples import graded, samples_to_meet, surprises

EXERCISES = known_exercises(default_graders())
SAMPLES = {exercise: build.all_submissions(exercise) for exercise in EXERCISES}


@pytest.mark.parametrize("exercise", EXERCISES)
def test_the_reference_earns_every_point(exercise: str, box: Box) -> None:
    assert expect.reference_surprises(graded(build.ROOT / "reference", exercise, box)) == []


@pytest.mark.parametrize("exercise", EXERCISES)
def test_the_template_earns_nothing(exercise: str, box: Box) -> None:
    assert expect.template_surprises(graded(build.ROOT / "student_template", exercise, box)) == []


@pytest.mark.parametrize(
    "sample", [sample for exercise in EXERCISES for sample in samples_to_meet(SAMPLES[exercise])]
)
def test_samples_score_what_they_must(sample: build.Sample, tmp_path: Path, box: Box) -> None:
    assert surprises(sample, tmp_path, box) == []


@pytest.mark.parametrize("exercise", EXERCISES)
def test_every_check_has_mistakes_of_its_own(exercise: str) -> None:
    checks = {check["id"] for check in build.exercise_toml(exercise)["check"]}
    assert checks == {sample.fails[0] for sample in SAMPLES[exercise] if sample.kind == "mistake"}
