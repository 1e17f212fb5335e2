"""Slurm's headers as this repository reads them, beside what a real `sbatch --test-only` says of them.

Only `make slurm` runs these tests: they need Debian's slurm. Wherever sbatch and headers.py differ without a
reason that is given here, headers.py is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures import build
from graders.launch.headers import read_header
from graders.launch.schedulers import SLURM, Header
from graders.launch.slurm_header import SLURM_FLAGS, SLURM_OPTIONS, SLURM_OTHER_NAMES
from tests import slurm_cluster
from tests.slurm_cluster import Answer, Cluster

pytestmark = pytest.mark.slurm

EXERCISE = "launch"
JOB = "launch/train.slurm"
SAMPLES = [
    sample
    for sample in build.all_submissions(EXERCISE)
    if sample.kind == "correct" or sample.name.startswith("slurm_")
]
# Mistakes that sbatch itself refuses. It takes the others: they show only when the job runs.
REFUSED = {
    "slurm_bad_time",
    "slurm_misspelt_option",
    "slurm_no_shebang",
    "slurm_variable_in_directive",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if missing := slurm_cluster.missing_programs():
        pytest.fail(f"{', '.join(missing)} not found; `make slurm` installs Debian's slurm")
    with slurm_cluster.cluster(tmp_path_factory.mktemp("slurm")) as running:
        yield running


def differences(header: Header, answer: Answer, cluster: Cluster, job: Path) -> list[str]:
    """What the header's reader says otherwise than sbatch."""
    refused = bool(header.problems) or not header.shebang
    if answer.accepted == refused:
        return [f"read as {'refused' if refused else 'accepted'} {header.problems}: {answer.output}"]
    if refused:
        return []
    pairs = {
        "nodes": (header.nodes, answer.nodes),
        "GPUs on a node": (header.gpus_per_node or 0, cluster.gpus_per_node(job)),
        "a walltime": (header.walltime is not None, "time" in answer.options),
    }
    # The processors of an exclusive job are all those of its nodes.
    if "exclusive" not in answer.options:
        tasks = answer.processors // int(answer.options.get("cpus-per-task", 1))
        pairs["tasks on a node"] = (header.tasks_per_node or 1, -(-tasks // answer.nodes))
    return [f"{what}: {ours}, by sbatch {its}" for what, (ours, its) in pairs.items() if ours != its]


def compared(text: str, cluster: Cluster, job: Path) -> list[str]:
    job.write_bytes(text.encode())
    # The partition is no concern of the grader's; whether the queue of a header exists only its cluster knows.
    return differences(read_header(SLURM, text), cluster.ask(job, "--partition=every"), cluster, job)


def test_the_reference(cluster: Cluster, tmp_path: Path) -> None:
    text = (build.ROOT / "reference" / JOB).read_text()
    assert compared(text, cluster, tmp_path / "train.slurm") == []
    answer = cluster.ask(tmp_path / "train.slurm")
    assert (answer.nodes, answer.processors, answer.options["time"]) == (2, 16, "01:00:00")


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample.kind}-{sample.name}")
def test_samples(sample: build.Sample, cluster: Cluster, tmp_path: Path) -> None:
    folder = build.build(sample, tmp_path / sample.name)
    text = (folder / JOB).read_text() if (folder / JOB).is_file() else ""
    if "#SBATCH" not in text:
        return  # a submission with a job for PBS or LSF, or with none
    assert compared(text, cluster, tmp_path / "train.slurm") == []
    accepted = cluster.ask(tmp_path / "train.slurm", "--partition=every").accepted
    assert accepted == (sample.name not in REFUSED)


# What people write, well and badly. Lines of one header stand apart with a bar.
HEADERS = """
--nodes=2 --gres=gpu:2 --time=60
-N 2 | -t1:00:00 | --gpus-per-node=2
-N2 -n 4 --gpus-per-task=1
--nodes 2-2 --gpus 4 -t 1-0
--nodes 2-4 --gpus-per-node=2
--nodes=2 -G a100:8 --ntasks-per-node 1
--ntasks=4 --ntasks-per-node=2 --gres=gpu:v100:2
--gres=tmp:10,gpu:a100:2
--gres=gpu
--gres=gpu:h100
--exclusive --nodes=2 --requeue --gres gpu:2 # of each node
--exclusive=user --nodes=2
--job-name="my job" --nodes=3
--nodes=2 | --nodes=3
--nodes | 2
--tasks-per-node=2 --nodes=2
--ntasks-per-n=2 --nodes=2
--tasks=2 --nodes=1
--ntask=2
--node=2
--n-tasks=2
--NODES=2
--nodes=2 --ntasks=5
--nodes=2 --ntasks=1
--nodes=3 --ntasks=2
--nodes=1-3 --ntasks=2
--nodes=4-2
--nodes=2-
--nodes=2,3
--nodes=two
--nodes=$NODES
--nodes=+2
--nodes=02
--nodes=
--nodes = 2
--nodes =2
-N=2
-nodes=2
-time=60
-gres=gpu:2
nodes=2
-- --nodes=2
--nodes=2 stray
--nodes=2#x
--nodes="2"
'--nodes=2'
--nodes=2\\
--nodes=2 \\
--comment='two words' --nodes=2
--comment='not closed
--ntasks=0
--ntasks=-1
--ntasks=2,3
--ntasks-per-node=0
--ntasks-per-node=2 --nodes=2 --ntasks=3
--ntasks-per-node=2 --nodes=2 --ntasks=8
--gpus-per-node=2 --gpus=4
--gpus-per-node=2 --gpus=4 --nodes=2
--gpus-per-node=2 --gpus=2 --nodes=2
--gres=gpu:2 --gpus=2 --nodes=2
--gres=gpu:2 --gpus=4 --nodes=2
--gpus-per-node=2 --gpus-per-task=1 --nodes=2
--gpus-per-node=2 --gpus-per-task=1 --ntasks=4
--gpus-per-node=2 --gpus-per-task=2 --ntasks=4
--gres=gpu:2 --gpus-per-task=1 --nodes=2 --ntasks-per-node=2
--gres=gpu:3 --gpus-per-task=2 --nodes=2
--gres=gpu:1 --gpus-per-task=3
--gpus=4 --gpus-per-task=1 --nodes=2 --ntasks=4
--gpus=4 --gpus-per-task=1 --nodes=2 --ntasks-per-node=2
--gpus=4 --gpus-per-task=1 --nodes=2 --ntasks-per-node=1
--gpus=4 --gpus-per-task=1 --ntasks=2
--gpus-per-task=2
--gpus-per-task=2 --nodes=2
--gpus-per-task=1 --nodes=2 --ntasks-per-node=2
--gpus-per-task=1 --gres=gpu:1 --ntasks-per-node=1
--gpus-per-task=1 --gres=gpu:4 --ntasks-per-node=1
--ntasks-per-gpu=1 --gpus=4 --nodes=2
--ntasks-per-gpu=2 --gpus-per-node=2 --nodes=2
--ntasks-per-gpu=1 --gres=gpu:2 --nodes=2
--ntasks-per-gpu=1 --gpus-per-node=2 --ntasks=4
--ntasks-per-gpu=1 --ntasks=4 --nodes=2
--ntasks-per-gpu=1 --ntasks-per-node=2 --nodes=2
--ntasks-per-gpu=1 --gpus-per-task=1 --ntasks=2
--gres=gpu:1 --gpus-per-node=2
--gpus-per-node=1 --gres=gpu:2
--gres=gpu:1 | --gres=gpu:2
--gpus=0
--gres=gpu:0
--gres=none
--gres=
--gres=2gpus
--gres=gpus:2
--gres=GPU:2
--gres=gpu:
--gres=gpu:a100:
--gres=gpu:2:a100
--gres=gpu:a100:2(S:0-1)
--gres=gpu:1,gpu:a100:1
--gres=gpu:$N
--gres=gpu 2
--gpus=gpu:2
--gpus-per-node=gpu:2
--gpus=-2
--gpus=$N
-t 90
-t 90:30
-t 1:00:00
-t 100:100:100
-t 1-
-t 1-0
-t 0-02:30
-t 2-25:61:61
-t 1h
-t 60m
-t 1d
-t 1.5
-t 1:
-t :30
-t 1:2:
-t 1:2:3:4
-t 1-2:3:4:5
-t ''
--time = 10
-HN2 -vv
-H -O -k -s -v -Q -W --nodes=2
-H2
-W 2
-K
-z
--hold=1
--requeue=1
--oversubscribe=yes
--overcommit --contiguous --no-requeue
--no-kill=off --nice=5 --propagate=STACK --get-user-env
--nice 5
--parsable=x
--wait-all-nodes=1 --open-mode=append --export=ALL --chdir=/tmp
--open-mode=sometimes
--mail-type=END,FAIL --mail-user=a@b.c
--mail-type=end
--mail-type=WHENEVER
--mem=16G --cpus-per-task=4
--mem=16GB
--mem=0
--mem=lots
--mem=16 G
--mem-per-cpu=4g
--cpus-per-task=0
--cpus-per-task=x
--output
--time
""".strip().splitlines()


@pytest.mark.parametrize("header", HEADERS)
def test_headers(header: str, cluster: Cluster, tmp_path: Path) -> None:
    lines = "".join(f"#SBATCH {line}\n" for line in header.split(" | "))
    assert compared(f"#!/bin/bash\n{lines}hostname\n", cluster, tmp_path / "job.sh") == []


@pytest.mark.parametrize(
    "text",
    [
        "#!/bin/bash\n\n# SBATCH --nodes=2\n##SBATCH --nodes=3\n #SBATCH --nodes=4\nhostname\n",
        "#!/bin/bash\n#SBATCH --nodes=2\nset -e\n#SBATCH --nodes=4\n",
        "#!/bin/bash\n#SBATCH --nodes=2\n\n: a comment\n#SBATCH --nodes=4\n",
        "#!/bin/bash\n#SBATCH\t--nodes=2\nhostname\n",
        "#!/bin/bash\n#SBATCH--nodes=2\nhostname\n",
        "#!/bin/bash\n#SBATCHES --nodes=2\nhostname\n",
        "#!/bin/bash\n#SBATCH --nodes=2 \\\n  --gres=gpu:2\nhostname\n",
        "#!/bin/bash\r\n#SBATCH --nodes=2\r\nhostname\r\n",
        "\n#!/bin/bash\n#SBATCH --nodes=2\nhostname\n",
        "#SBATCH --nodes=2\nhostname\n",
    ],
)
def test_where_directives_stand(text: str, cluster: Cluster, tmp_path: Path) -> None:
    assert compared(text, cluster, tmp_path / "job.sh") == []


STRICTER = {
    "--nodes=0": "is no number",
    "--gpus=3 --nodes=2": "share out evenly",
    "-t 0": "no limit",
    "-t 00:00": "no limit",
    "-t 0-0": "no limit",
    "-t UNLIMITED": "no limit",
    "-t infinite": "no limit",
    "-t -5": "no time",
}


@pytest.mark.parametrize("header", STRICTER)
def test_what_sbatch_takes_and_the_grader_does_not(header: str, cluster: Cluster, tmp_path: Path) -> None:
    """Such a job runs, but not as its author means: with no limit on the time, or other GPUs on every node."""
    job = tmp_path / "job.sh"
    job.write_text(f"#!/bin/bash\n#SBATCH {header}\nhostname\n")
    assert cluster.ask(job, "--partition=every").accepted
    assert STRICTER[header] in read_header(SLURM, job.read_text()).problems[0]


# The manual pages of later versions have these options and spellings.
LATER_OPTIONS = set(
    "container-id extra export-file resv-ports segment stepmgr tres-bind tres-per-task".split()
)
LATER = ["--gres=gpu=2", "--gres=gres/gpu:2"]


@pytest.mark.parametrize("header", LATER)
def test_what_only_a_later_sbatch_takes(header: str, cluster: Cluster, tmp_path: Path) -> None:
    job = tmp_path / "job.sh"
    job.write_text(f"#!/bin/bash\n#SBATCH {header}\nhostname\n")
    assert not cluster.ask(job).accepted
    assert read_header(SLURM, job.read_text()).gpus_per_node == 2


def test_every_option_of_sbatch_is_known(cluster: Cluster, tmp_path: Path) -> None:
    """getopt lists every option that a single letter behind two dashes may stand for."""
    job = tmp_path / "job.sh"
    job.write_text("#!/bin/bash\nhostname\n")
    listed: set[str] = set()
    for letter in "abcdefghijklmnopqrstuvwxyz":
        _, ambiguous, rest = cluster.ask(job, f"--{letter}").output.partition("is ambiguous;")
        listed |= set(re.findall(r"'--([a-z0-9-]+)'", rest)) if ambiguous else set()
    assert len(listed) > 80
    assert listed <= set(SLURM_OPTIONS)


def test_which_options_take_a_value(cluster: Cluster, tmp_path: Path) -> None:
    job = tmp_path / "job.sh"
    job.write_text("#!/bin/bash\nhostname\n")
    for name in sorted(set(SLURM_OPTIONS) - set(SLURM_OTHER_NAMES)):
        said = cluster.ask(job, f"--{name}=").output
        if f"unrecognized option '--{name}" in said:
            assert name in LATER_OPTIONS
        else:
            assert ("doesn't allow an argument" in said) == (name in SLURM_FLAGS), name
