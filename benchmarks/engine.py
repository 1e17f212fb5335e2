"""What the warm server is for: a distributed check, and a whole self-check, in seconds."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from benchmarks.figure import Figure
from benchmarks.weight_sync import sync_run
from benchmarks.whole import whole_reference
from fixtures.build import ROOT
from fixtures.works import REFERENCE
from lockstep.exercise import find_exercises
from lockstep.grading import default_graders
from lockstep.sandbox.box import open_box
from lockstep.submission import open_submission

WARM_PER_SPAWN = 4
TWO = ("lfw_dataset", "ddp_train")
SEVEN = (*TWO, "fashion_trainer", "data_parallel", "lightning_train", "amp", "scaling")
TORCH_IMPORT = 1.3  # seconds, on the machine that the bounds were set on


def spawned() -> float:
    """Seconds of the same check as a plain pytest test; only the test's own call, no start-up of pytest."""
    check = ROOT / "benchmarks" / "spawned_check.py"
    options = "-q -vv --durations=0 -p no:cacheprovider -p no:lockstep".split()
    command = [sys.executable, "-m", "pytest", *options, "-c", os.devnull, "--rootdir", str(ROOT), str(check)]
    environment = {**os.environ, "LOCKSTEP_BENCH_SUBMISSION": str(REFERENCE), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    found = re.search(r"([0-9.]+)s call", done.stdout)
    if done.returncode != 0 or found is None:
        raise SystemExit(f"the spawned check failed:\n{done.stdout[-3000:]}")
    return float(found.group(1))


def _listed(exercises: Sequence[str]) -> str:
    return " and ".join(f"`{name}`" for name in exercises)


def torch_import() -> float:
    """Wall seconds of a new interpreter that only imports torch: how fast this machine is just now."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-I", "-c", "import torch"], check=True, timeout=600)
    return time.perf_counter() - started


def figures(repetitions: int) -> Iterator[Figure]:
    """Every row; comparisons alternate, so that a slow minute of the machine slows both."""
    submission = open_submission(REFERENCE)
    warm: list[float] = []
    cold: list[float] = []
    peaks: list[int] = []
    with open_box(find_exercises(default_graders()), isolated=True) as box:
        sync_run(box, submission)
        for _ in range(repetitions):
            cold.append(spawned())
            warm += [sync_run(box, submission)[0] for _ in range(WARM_PER_SPAWN)]
        server = box.server_memory()
        for _ in range(repetitions):
            peaks.append((sync_run(box, submission, 4)[1].peak_memory or 0) + server)
    ratio = statistics.median(cold) / statistics.median(warm)
    yield Figure(
        "a two-rank weight-sync check: warm server against `torch.multiprocessing.spawn` under plain pytest "
        "(the test's call alone)",
        f"{statistics.median(warm) * 1000:.0f} ms against {statistics.median(cold):.2f} s: 1/{ratio:.0f}",
        "at most 1/25",
        ratio >= 25,
    )
    two, seven, units = [], [], []
    for _ in range(repetitions):
        two.append(whole_reference(*TWO))
        seven.append(whole_reference(*SEVEN))
        units.append(torch_import())
    unit = statistics.median(units)
    for what, seconds, bound in (
        (
            f"the reference, exercises {_listed(TWO)}, graded whole",
            statistics.median(run[0] for run in two),
            12.0,
        ),
        ("of that, until the first check starts", statistics.median(run[1] for run in two), 3.5),
        ("the reference's seven exercises, graded whole", statistics.median(run[0] for run in seven), 45.0),
    ):
        # The bounds were set on a machine that imports torch in 1.3 s; this one may be slower, or busy.
        limit = bound / TORCH_IMPORT
        yield Figure(
            what,
            f"{seconds:.1f} s = {seconds / unit:.1f} x `import torch` ({unit:.2f} s)",
            f"{bound:g} s where `import torch` takes {TORCH_IMPORT} s: {limit:.1f} x",
            seconds <= max(bound, limit * unit),
        )
    shares = {name: statistics.median(run[2][name] for run in seven) for name in SEVEN}
    yield Figure(
        "of that, the checks of each exercise",
        ", ".join(f"{name} {seconds:.1f} s" for name, seconds in shares.items()),
        "",
        True,
    )
    peak = statistics.median(peaks) / 1e9
    yield Figure(
        "peak memory of a 4-rank check, the warm server included",
        f"{peak:.2f} GB",
        "under 1.5 GB",
        peak < 1.5,
    )
