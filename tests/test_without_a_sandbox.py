"""`--sandbox none`, on a student's laptop: every exercise grades as it does in the sandbox."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fixtures import expect
from lockstep.exercise import find_exercises
from lockstep.grading import Options, Silent, default_graders, grade, known_exercises
from lockstep.sandbox.box import Box, open_box
from tests.sandboxed import ROOT


@pytest.fixture(scope="module")
def plain_box() -> Iterator[Box]:
    with open_box(find_exercises(default_graders()), isolated=False) as plain:
        yield plain


LONG = ("amp", "data_parallel", "fashion_trainer", "lightning_train", "reports")
"""Most of the time goes into these; the others have ranks, threads, scripts and shells among them."""


@pytest.mark.parametrize(
    "exercise",
    [
        pytest.param(exercise, marks=pytest.mark.slow if exercise in LONG else ())
        for exercise in known_exercises(default_graders())
    ],
)
def test_the_reference_earns_every_point(exercise: str, plain_box: Box) -> None:
    options = Options(ROOT / "reference", exercises=(exercise,), sandbox="none", self_check=True)
    assert expect.reference_surprises(grade(options, Silent(), plain_box)) == []


def test_no_file_has_a_fixed_name_in_the_temporary_folder() -> None:
    # Without a sandbox it is everyone's: what one grading leaves there another one finds.
    named = [path for path in default_graders().rglob("*.py") if "/tmp/" in path.read_text(encoding="utf-8")]
    assert named == []
