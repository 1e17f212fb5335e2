"""Scripts that catch whatever is raised.

A probe that has seen enough raises nothing through their frames, and who ends for a fault has ended for the other ranks.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fixtures import build
from lockstep.sandbox.box import Box
from tests.samples import graded

GUARD = '\nif __name__ == "__main__":\n'
ENDS_AT_ONCE = """    import os, traceback
    try:
    {call}    except SystemExit:
        raise
    except BaseException:
        # Without it the other ranks would wait for this one.
        traceback.print_exc()
        os._exit(1)
"""


ENDS_IN_ORDER = ENDS_AT_ONCE.replace("os._exit(1)", "raise SystemExit(1)")


@pytest.mark.parametrize(
    ("exercise", "checks", "guarded"),
    [
        ("ddp_train", ["no_double_softmax", "checkpoint", "lr_scaling"], ENDS_AT_ONCE),
        ("ddp_train", ["fails_fast"], ENDS_IN_ORDER),
        ("amp", ["autocast_on", "clip_is_unscaled", "off_is_fp32"], ENDS_AT_ONCE),
        ("lightning_train", ["data", "precision", "script"], ENDS_AT_ONCE),
    ],
)
def test_whoever_catches_everything_loses_nothing(
    exercise: str, checks: list[str], guarded: str, tmp_path: Path, box: Box
) -> None:
    folder = tmp_path / "work"
    shutil.copytree(build.ROOT / "reference", folder, ignore=shutil.ignore_patterns("reports", "__pycache__"))
    script = folder / f"{'amp_train' if exercise == 'amp' else exercise}.py"
    before, call = script.read_text().split(GUARD)
    script.write_text(before + GUARD + guarded.format(call=call))
    (graded_one,) = graded(folder, exercise, box, checks=checks).exercises
    assert [(c.id, c.message) for c in graded_one.checks if c.id in checks and c.points < c.max_points] == []
