"""The worked amp_train.py of which one part is another."""

from __future__ import annotations

import shutil
from pathlib import Path

from fixtures import build
from lockstep.result import CheckResult
from lockstep.sandbox.box import Box
from tests.samples import graded

EXERCISE = "amp"


def result(tmp_path: Path, box: Box, check: str, old: str, new: str) -> CheckResult:
    """How one check ends for the worked solution of which one part is another."""
    for name in ("amp_train.py", "perf_report.py"):
        shutil.copy(build.ROOT / "reference" / name, tmp_path / name)
    source = tmp_path / "amp_train.py"
    text = source.read_text()
    assert text.count(old) == 1
    source.write_text(text.replace(old, new))
    (exercise,) = graded(tmp_path, EXERCISE, box, checks=[check]).exercises
    (found,) = exercise.checks
    return found
