"""The grader of exercise 6 on options of the script that are otherwise, and nobody's mistake."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fixtures import build
from lockstep.sandbox.box import Box
from tests.samples import graded

EXERCISE = "amp"
AMP = '    parser.add_argument("--amp", default=True, action=argparse.BooleanOptionalAction)\n'
CHOICE = """\
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--amp", action="store_true")
    group.add_argument("--no-amp", dest="amp", action="store_false")
"""


def points(tmp_path: Path, box: Box, check: str, old: str, new: str) -> float:
    """What one check gives for the worked solution of which one part is another."""
    for name in ("amp_train.py", "perf_report.py"):
        shutil.copy(build.ROOT / "reference" / name, tmp_path / name)
    source = tmp_path / "amp_train.py"
    text = source.read_text()
    assert text.count(old) == 1
    source.write_text(text.replace(old, new))
    (exercise,) = graded(tmp_path, EXERCISE, box, checks=[check]).exercises
    (found,) = exercise.checks
    return found.points


@pytest.mark.parametrize(
    "option",
    [
        CHOICE,
        AMP.replace("True", "torch.cuda.is_available()"),
        '    parser.add_argument("--amp", action="store_true", default=True)\n'
        '    parser.add_argument("--no-amp", dest="amp", action="store_false")\n',
    ],
    ids=["is asked for", "of GPUs alone", "the old way"],
)
def test_amp_may_be_chosen_otherwise(option: str, tmp_path: Path, box: Box) -> None:
    assert points(tmp_path, box, "autocast_on", AMP, option) == 1
