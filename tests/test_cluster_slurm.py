"""A class graded by jobs of a real Slurm on this machine. Only `make slurm` runs this: it needs Debian's slurm."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockstep.grading import CouldNotGrade
from tests import slurm_daemons
from tests.graded_on_a_cluster import CHECKS, Watching, graded, order
from tests.slurm_cluster import missing_programs
from tests.slurm_daemons import PARTITION, Slurm

pytestmark = pytest.mark.slurm

JOBS = """
jobs = 2
cores = 1
memory = "1 GB"
queue = "{queue}"
account = "cs101"
walltime = "00:20:00"
directives = ["--comment=grading"]
folder = "{folder}"
"""


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    if missing := missing_programs(slurm_daemons.PROGRAMS):
        pytest.fail(f"{', '.join(missing)} not found; `make slurm` installs Debian's slurm")
    if os.getuid() != 0:
        pytest.fail("slurmd has to be started by root")
    (tmp_path / "slurm").mkdir()
    with slurm_daemons.slurm(tmp_path / "slurm") as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        yield running


def config(folder: Path, queue: str) -> Path:
    path = folder / "cluster.toml"
    path.write_text(JOBS.format(queue=queue, folder=folder / "jobs"))
    return path


def test_cancelled_jobs_cost_the_checks_in_flight(slurm: Slurm, tmp_path: Path) -> None:
    seen: list[str] = []

    def cancel() -> None:
        jobs = slurm.jobs()
        seen.extend(slurm.about(job) for job in jobs)
        for job in jobs:
            slurm.cancel(job)

    watching = Watching(cancel, of="zoe")
    (tmp_path / "here").mkdir()
    on_slurm = order(tmp_path, "slurm", config=config(tmp_path, PARTITION))
    assert graded(on_slurm, watching) == graded(order(tmp_path / "here"))
    assert 1 <= len(watching.losses) <= 2  # the other job may have had nothing to do any more
    assert len(watching.checks) == len(set(watching.checks)) == CHECKS
    assert slurm.jobs() == []
    assert len(seen) == 2
    for about in seen:
        for setting in (f"Partition={PARTITION}", "Account=cs101", "TimeLimit=00:20:00", "Comment=grading"):
            assert setting in about


def test_what_slurm_refuses_is_a_sentence(slurm: Slurm, tmp_path: Path) -> None:
    with pytest.raises(
        CouldNotGrade, match=r"slurm does not take the job: .*invalid partition specified: nowhere"
    ):
        graded(order(tmp_path, "slurm", config=config(tmp_path, "nowhere")))
