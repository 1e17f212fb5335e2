"""How long `lockstep verify-report` takes: on one report, on files that are none, and for a thousand reports."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.figure import Figure
from fixtures.reports import KINDS, honest, knowledge
from fixtures.reports.malformed import MALFORMED, sound
from lockstep.reports.document import document
from lockstep.reports.verify import verify

GENERATED = 1_000
PYTHON_STARTS = 0.02  # seconds, on the machine that the bounds were set on


def figures(repetitions: int) -> Iterator[Figure]:
    """Every row; seconds are those of whole commands, the start of Python included."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        sound(place / "sound.json")
        names = [f"{number}.json" for number in range(len(MALFORMED))]
        for name, malformed in zip(names, MALFORMED, strict=True):
            malformed.write(place / name)
        ours, bare = [], []
        for _ in range(repetitions):
            ours.append(_command(place, "-m", "lockstep.cli", "verify-report", "sound.json"))
            bare.append(_command(place, "-c", "pass"))
        whole, empty = statistics.median(ours), statistics.median(bare)
        # This machine may be slower than the one that the bounds were set on, or busy.
        slower = max(1.0, empty / PYTHON_STARTS)
        yield Figure(
            "`lockstep verify-report` on one report, no model to be measured",
            f"{whole * 1000:.0f} ms, of which {empty * 1000:.0f} ms start Python",
            f"0.5 s where Python starts in {PYTHON_STARTS} s",
            whole < 0.5 * slower,
        )
        each = {
            malformed.name: _command(place, "-m", "lockstep.cli", "verify-report", name)
            for name, malformed in zip(names, MALFORMED, strict=True)
        }
        slowest = max(each, key=lambda name: each[name])
        yield Figure(
            f"the slowest of {len(each)} malformed files (a gigabyte, 10,000 levels, 400 digits ...)",
            f"{each[slowest] * 1000:.0f} ms ({slowest})",
            f"2 s where Python starts in {PYTHON_STARTS} s",
            each[slowest] < 2 * slower,
        )
    reports = [honest(KINDS[number % 5], np.random.default_rng([0, number])) for number in range(GENERATED)]
    facts = [knowledge(report) for report in reports]
    began = time.perf_counter()
    for report, known in zip(reports, facts, strict=True):
        verify(document(report), known)
    spent = time.perf_counter() - began
    yield Figure(
        "all rules on one of 1,000 generated reports",
        f"{spent / GENERATED * 1000:.1f} ms",
        "",
        True,
    )


def _command(folder: Path, *arguments: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, timeout=300, check=False)
    return time.perf_counter() - began
