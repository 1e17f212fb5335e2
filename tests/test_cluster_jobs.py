"""Jobs of a queue: what the TOML may say, the scripts that are submitted, and a queue of two shell scripts."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockstep.classroom.jobqueue import CLUSTERS, JobQueue, Jobs, read_jobs
from lockstep.grading import CouldNotGrade
from tests.graded_on_a_cluster import Watching, graded, make_graders, order
from tests.sandboxed import ROOT

JOBS = Jobs(
    jobs=3,
    cores=4,
    memory="8 GB",
    queue="short",
    account="cs101",
    walltime="02:00",
    directives=("--first", "-second 2"),
    prologue=("module load python",),
    python="/shared/my venv/bin/python",
)
HEADERS = {
    "slurm": "#SBATCH -p short|#SBATCH -A cs101|#SBATCH -t 02:00|#SBATCH --cpus-per-task=4|#SBATCH --mem=8G|#SBATCH --first",
    "pbs": "#PBS -q short|#PBS -A cs101|#PBS -l walltime=02:00|#PBS -l select=1:ncpus=4:mem=7630MB|#PBS -second 2",
    "lsf": '#BSUB -q short|#BSUB -P "cs101"|#BSUB -W 02:00|#BSUB -n 4|#BSUB -second 2',
    "sge": "#$ -q short|#$ -P cs101|#$ -l h_rt=02:00|#$ -second 2",
}


@pytest.mark.parametrize("kind", CLUSTERS)
def test_a_job_asks_for_what_the_file_says(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    with JobQueue(kind, JOBS, tmp_path / "jobs") as queue:
        script = queue.cluster.job_script()
        (private,) = (tmp_path / "jobs").iterdir()
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
        assert [line for line in HEADERS[kind].split("|") if line not in script.splitlines()] == []
        worker = script.splitlines()[-1]
        assert worker.startswith("'/shared/my venv/bin/python' -m distributed.cli.dask_worker tls://")
        for option in ("--nthreads 4", "--no-nanny", "--no-dashboard", f"--tls-key {private}/key.pem"):
            assert option in worker
    assert list((tmp_path / "jobs").iterdir()) == list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("queues = 'short'", "queues is no key of this file; there are jobs, cores, memory, queue"),
        ("jobs = 'ten'", "jobs is a whole number from 1 on, not 'ten'"),
        ("jobs = true", "jobs is a whole number from 1 on, not True"),
        ("cores = 0", "cores is a whole number from 1 on, not 0"),
        ("wait_minutes = -1", "wait_minutes is a number above 0, not -1"),
        ("memory = 16", "memory is a text of one line in quotation marks, not 16"),
        (r'queue = "a\nb"', r"queue is a text of one line in quotation marks, not 'a\nb'"),
        ("directives = '--x'", "directives is a list of texts"),
        ("directives = [1]", "directives is a text of one line"),
        ("queue = ", "is not TOML"),
    ],
)
def test_a_mistake_in_the_file_is_a_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_text(text)
    with pytest.raises(CouldNotGrade, match=re.escape(sentence)):
        read_jobs(tmp_path / "cluster.toml")


def test_the_file_of_the_documentation_is_understood(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "cluster.md").read_text()
    found = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert found
    for number, text in enumerate(found):
        (tmp_path / f"{number}.toml").write_text(text)
        read_jobs(tmp_path / f"{number}.toml")


def test_what_cannot_be_a_folder_of_jobs(tmp_path: Path) -> None:
    with pytest.raises(CouldNotGrade, match="has a space in its path"):
        JobQueue("slurm", JOBS, tmp_path / "my results")
    with pytest.raises(CouldNotGrade, match="needs a --cluster-config FILE that says jobs and memory"):
        JobQueue("slurm", Jobs(cores=1), tmp_path)


class Queue:
    """A queue of two shell scripts, which starts jobs at once; `jobs` are the process groups of those that ran."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def jobs(self) -> list[int]:
        return [int(path.name) for path in sorted((self.folder / "ids").iterdir(), key=os.path.getmtime)]

    def running(self) -> list[int]:
        return [job for job in self.jobs() if _runs(job)]

    def qdel(self, job: int) -> None:
        os.killpg(job, 9)


def _runs(job: int) -> bool:
    try:
        state = Path(f"/proc/{job}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"  # somebody else's to bury


QSUB = """#!/bin/sh
cp "$1" "$0.$$"
setsid bash "$0.$$" >>"$0.log" 2>&1 &
touch "${0%/bin/qsub}/ids/$!"
echo "$!.server"
"""
# Unlike the real one it comes back when the job has ended.
QDEL = """#!/bin/bash
kill -TERM -- -"$1"
timeout 60 tail --pid="$1" -f /dev/null
"""


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    for name in ("bin", "ids"):
        (tmp_path / "queue" / name).mkdir(parents=True)
    for name, text in (("qsub", QSUB), ("qdel", QDEL)):
        program = tmp_path / "queue" / "bin" / name
        program.write_text(text)
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'queue' / 'bin'}:{os.environ['PATH']}")
    # Dask keeps a folder for its locks on every node, which outlives its workers.
    monkeypatch.setenv("DASK_TEMPORARY_DIRECTORY", str(tmp_path / "dask"))
    made = Queue(tmp_path / "queue")
    yield made
    for job in made.running():
        made.qdel(job)


def config(folder: Path, *lines: str) -> Path:
    text = ["jobs = 1", "cores = 1", "memory = '1 GB'", f"folder = '{folder / 'jobs'}'", *lines]
    (folder / "cluster.toml").write_text("\n".join(text))
    return folder / "cluster.toml"


def test_a_job_that_is_lost_is_replaced_and_none_is_left(queue: Queue, tmp_path: Path) -> None:
    graders = make_graders(tmp_path / "graders")
    os.mkfifo(graders / "gate")

    def kill() -> None:
        queue.qdel(*queue.jobs())
        (graders / "gate").unlink()

    watching = Watching(kill)
    graded(order(tmp_path, "pbs", graders, config(tmp_path)), watching)
    assert len(watching.losses) == 1
    assert len(watching.checks) == len(set(watching.checks)) == 6
    assert len(queue.jobs()) == 2
    assert queue.running() == []
    assert "1 job was submitted to pbs" in watching.said


def test_jobs_that_cannot_start_a_worker_end_the_grading(queue: Queue, tmp_path: Path) -> None:
    watching = Watching()
    wanted = order(
        tmp_path, "pbs", make_graders(tmp_path / "graders"), config(tmp_path, "python = '/nowhere/python'")
    )
    with pytest.raises(
        CouldNotGrade, match="the jobs of pbs ended before the class was graded; their logs are in"
    ):
        graded(wanted, watching)
    assert len(queue.jobs()) == 3
    assert any(
        "ended with status 127 before it could grade (lockstep-1)" in sentence for sentence in watching.said
    )


def test_what_the_queue_refuses_is_a_sentence(queue: Queue, tmp_path: Path) -> None:
    (queue.folder / "bin" / "qsub").write_text("#!/bin/sh\necho 'qsub: Unknown queue' >&2\nexit 1\n")
    wanted = order(tmp_path, "pbs", make_graders(tmp_path / "graders"), config(tmp_path, "queue = 'shrt'"))
    with pytest.raises(
        CouldNotGrade, match="pbs does not take the job: qsub: Unknown queue; what --cluster-config says"
    ):
        graded(wanted)


def test_a_machine_without_the_queue_is_a_sentence(tmp_path: Path) -> None:
    wanted = order(tmp_path, "sge", make_graders(tmp_path / "graders"), config(tmp_path))
    with pytest.raises(
        CouldNotGrade, match="there is no program qsub on this machine; --cluster sge submits jobs"
    ):
        graded(wanted)
