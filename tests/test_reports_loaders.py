"""The rerun of a comparison of workers: whatever way a script has to start them, its report is of what was read."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures import build
from fixtures.jsonedit import edit_json
from graders.reports import spot
from lockstep.sandbox.box import Box
from tests.samples import graded

EXERCISE = "reports"
REFERENCE = build.ROOT / "reference"
FILES = ("lfw_dataset.py", "perf_report.py", "reports/loader.json", "reports/loader.png")
SOURCE = (REFERENCE / "lfw_dataset.py").read_text()
MADE = "            loader = make_loader(num_workers)\n"
TIMED = "            readings = time_passes(loader, args.batches_to_check)\n"
MAKES = """        return DataLoader(
            dataset, args.batch_size, shuffle=False, num_workers=num_workers, pin_memory=args.pin_memory
        )
"""
DEFINED = "def show_batch("
# What is right, however odd: edits of the reference, each what is found and what takes its place.
RIGHT = {
    "all made before": ((MADE, "            loader = loaders[num_workers]\n"),
        ("        runs = []\n", "        runs = []\n        loaders = {n: make_loader(n) for n in WORKER_COUNTS}\n")),
    "one that is changed": ((MADE, "            loader = make_loader(0)\n            loader.num_workers = num_workers\n"
        "            loader.prefetch_factor = 2\n"),),
    "that stay": (("pin_memory=args.pin_memory\n", "persistent_workers=num_workers > 0\n"),),
    "of a class of its own": ((MAKES, "        return Own(dataset, args.batch_size, num_workers)\n"),
        (DEFINED, "class Own(DataLoader):\n    def __init__(self, data, size, workers):\n"
        "        super().__init__(data, size)\n\n\n" + DEFINED)),
    "as many as there are processors": ((MADE, "            import os\n"
        "            loader = make_loader(min(num_workers, (os.cpu_count() or 1) // 64))\n"),),
    "as many as there are batches": ((MADE, "            loader = make_loader(min(num_workers, len(make_loader(0))))\n"),),
    "in processes of their own": ((TIMED, """            if num_workers:
                from concurrent.futures import ProcessPoolExecutor
                from multiprocessing import get_context
                with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
                    readings = pool.submit(time_passes, loader, args.batches_to_check).result()
            else:
                readings = time_passes(loader, args.batches_to_check)
"""),),
    "spawned": (("num_workers=num_workers, pin_memory=args.pin_memory\n",
        "num_workers=num_workers, multiprocessing_context='spawn' if num_workers else None\n"),),
    "other numbers": (("WORKER_COUNTS = (0, 1, 2, 4)", "WORKER_COUNTS = (0, 1, 3)"),),
}  # fmt: skip


def lost(folder: Path, box: Box, edits: tuple[tuple[str, str], ...]) -> tuple[float, str]:
    """The points of a rerun of the loader's script alone, and what is said of its report."""
    source = SOURCE
    for find, replace in edits:
        assert source.count(find) == 1
        source = source.replace(find, replace)
    for name in FILES:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes((REFERENCE / name).read_bytes())
    (folder / "lfw_dataset.py").write_text(source)
    own = {"file": "reports/loader.json", "path": "attempt.code_sha256", "sha256_of": "lfw_dataset.py"}
    edit_json(folder, own)
    (exercise,) = graded(folder, EXERCISE, box, checks=["spot_rerun"]).exercises
    (check,) = (check for check in exercise.checks if check.id == "spot_rerun")
    said = [line for line in check.message.splitlines() if line.startswith("loader.json")]
    return check.max_points * spot.SHARES["loader.json"] - check.points, "\n".join(said)


@pytest.mark.parametrize("name", RIGHT)
def test_workers_may_be_started_in_any_way(name: str, tmp_path: Path, box: Box) -> None:
    assert lost(tmp_path, box, RIGHT[name]) == (0, "")
