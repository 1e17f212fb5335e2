"""Files that are handed out with an exercise: who leaves them out has them all the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lockstep.exercise import ExerciseError, find_exercises, load_exercise
from lockstep.grading import Options, Silent, grade
from lockstep.sandbox.box import Box, open_box
from lockstep.verdict import Verdict

LAB = Path(__file__).parent / "labs" / "graders"
USES_IT = "from handed_out import FACTOR\ndef double(x): return FACTOR * x\n"


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    with open_box(find_exercises(LAB), isolated=True) as warm:
        yield warm


@pytest.mark.parametrize(
    ("own", "verdict"),
    [(None, Verdict.PASSED), ("FACTOR = 3\n", Verdict.FAILED)],
    ids=["left_out", "changed"],
)
def test_what_was_not_handed_in_is_there(tmp_path: Path, box: Box, own: str | None, verdict: Verdict) -> None:
    (tmp_path / "tiny.py").write_text(USES_IT)
    if own is not None:
        (tmp_path / "handed_out.py").write_text(own)
    result = grade(Options(submission=tmp_path, graders=LAB, checks=("doubles",)), Silent(), box)
    assert [check.verdict for exercise in result.exercises for check in exercise.checks] == [verdict]


@pytest.mark.parametrize(
    "text", ["# >>> solution: write it\nX = 1\n# <<<\n", None], ids=["solution", "missing"]
)
def test_a_solution_is_never_given(tmp_path: Path, text: str | None) -> None:
    folder = tmp_path / "graders" / "tiny"
    folder.mkdir(parents=True)
    (folder / "exercise.toml").write_text(
        'title = "x"\nfiles = ["x.py"]\ngiven = ["x.py"]\n[[check]]\nid = "y"\npoints = 1\n'
    )
    (tmp_path / "reference").mkdir()
    if text is not None:
        (tmp_path / "reference" / "x.py").write_text(text)
    with pytest.raises(ExerciseError, match=r"x\.py is no file of reference/ without a solution"):
        load_exercise(folder)
