"""The grader of exercise 8, its scripts: odd ones, the headers of jobs, what torchrun is told, forged records."""

from __future__ import annotations

import os
import re
import shutil
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures import build, expect
from graders.launch import (
    commands,
    early_faults,
    header_slips,
    meeting_faults,
    reach,
    refusals,
    script_faults,
    script_options,
    scripts,
    starts,
    test_launch,
    timeouts,
    workers,
)
from graders.launch.headers import read_header, scheduler_of
from graders.launch.probe.paths import call_through_env, functions
from graders.launch.probe.torchrun import told
from graders.launch.schedulers import LSF, PBS, SLURM, Scheduler
from lockstep.check import Check, Setting
from lockstep.exercise import load_exercise
from lockstep.sandbox.box import Box
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.sandbox.spec import RunSpec
from lockstep.submission import Submission, open_submission
from lockstep.verdict import CheckEnded, Verdict
from tests.observed import Judge
from tests.samples import graded

EXERCISE = "launch"
SCRIPTS = ("single_node", "multi_node", "multi_node_runs", "cluster_header")


def by_id(folder: Path, box: Box, *checks: str) -> dict[str, Any]:
    (exercise,) = graded(folder, EXERCISE, box, checks=checks).exercises
    return {check.id: check for check in exercise.checks}


def test_a_missing_file_is_said_by_its_own_check(tmp_path: Path, box: Box) -> None:
    (tmp_path / "launch").mkdir()
    (tmp_path / "launch" / "notes.md").write_text("later")
    (tmp_path / "launch" / "torchrun_multi_final.sh").write_text("torchrun ddp_train.py")
    (tmp_path / "torchrun_multi.sh").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "torchrun_single.sh").write_text("torchrun ddp_train.py")
    checks = by_id(tmp_path, box, *SCRIPTS)
    assert "no launch/torchrun_single.sh" in checks["single_node"].message
    assert "other/torchrun_single.sh" in checks["single_node"].message
    assert "no launch/torchrun_multi.sh" in checks["multi_node"].message
    assert "`launch/torchrun_multi_final.sh` was not read: rename it" in checks["multi_node"].message
    assert checks["multi_node_runs"].verdict is Verdict.NOT_CHECKED
    assert "train.slurm" in checks["cluster_header"].message


def test_a_hand_in_of_nothing_but_the_folder_launch(tmp_path: Path, box: Box) -> None:
    """Intake may take the only folder for a wrapper; the scripts still find the folder above theirs."""
    for name in ("torchrun_single.sh", "torchrun_multi.sh", "train.slurm"):
        (tmp_path / name).write_bytes((build.ROOT / "reference" / "launch" / name).read_bytes())
    (tmp_path / "azure_job.py").write_text("import azureml\n")
    assert {check.verdict for check in by_id(tmp_path, box, *SCRIPTS).values()} == {Verdict.PASSED}


CHEATS = {
    # Whatever it says on the recorder's socket: what counts is what the kernel says was started.
    "talks to the recorder": """
        python - <<'END'
        import glob, json, os, socket, tempfile
        (path,) = glob.glob(os.path.join(tempfile.gettempdir(), "nodes-*", "asked"))
        for words in (b"stand-in", b"[[1]]", b'{"total": {}}', b"[" * 60000, b'{"RANK": []}', b"\\xff"):
            end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            end.connect(path)
            end.send(words)
            end.settimeout(1)
            try:
                end.recv(1 << 20)
            except OSError:
                pass
        END
    """,
    "floods the recorder": "for i in $(seq 70); do torchrun --bogus; done",
    "prints without end": "yes torchrun --standalone ddp_train.py",
    "leaves the tools": 'rm -rf "${TMPDIR:-/tmp}"/nodes-*; torchrun --standalone ddp_train.py',
    "is no shell script": "\0\x7fELF\0\0",
    "calls itself": 'bash "$0" & bash "$0" & wait',
}


@pytest.mark.parametrize("name", CHEATS)
def test_a_script_that_cheats_or_misbehaves_gets_a_verdict(name: str, tmp_path: Path, box: Box) -> None:
    (tmp_path / "launch").mkdir()
    text = "\n".join(line.removeprefix("        ") for line in CHEATS[name].splitlines())
    (tmp_path / "launch" / "torchrun_single.sh").write_text(text)
    (check,) = by_id(tmp_path, box, "single_node").values()
    assert check.verdict in expect.CAUGHT, check
    assert check.points == 0


def test_manifests_that_give_the_script_no_arguments(tmp_path: Path, box: Box) -> None:
    """Where the script that was handed in can be asked, too."""
    reference = build.ROOT / "reference"
    shutil.copy(reference / "ddp_train.py", tmp_path)
    (tmp_path / "launch").mkdir()
    for name in ("pytorchjob.yaml", "azure_job.yml"):
        text = (reference / "launch" / name).read_text()
        bare = re.sub(r"^ *args: .*\n|(?<=python ddp_train.py) .*$", "", text, flags=re.MULTILINE)
        assert "--epochs" not in bare
        (tmp_path / "launch" / name).write_text(bare)
    checks = by_id(tmp_path, box, "pytorchjob", "azure")
    assert [(each.id, each.message) for each in checks.values() if each.verdict is not Verdict.PASSED] == []


OVER_AN_SDK = {
    "v2": """
        from azure.ai.ml import MLClient, PyTorchDistribution, command
        client = MLClient.from_config(None)
        found = client.environments.get("ddp", label="latest")
        job = command(command="python ddp_train.py", code="..", compute="gpu")
        job.environment = f"{found.name}:{found.version}"
        job.distribution = PyTorchDistribution(process_count_per_instance=2)
        job.set_resources(instance_count=2)
        client.jobs.create_or_update(job)
    """,
    "v1": """
        from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace
        from azureml.core.runconfig import PyTorchConfiguration
        space = Workspace.from_config()
        config = ScriptRunConfig("..", "ddp_train.py", distributed_job_config=PyTorchConfiguration(process_count=4, node_count=2))
        config.run_config.target = space.compute_targets["gpu"]
        config.run_config.environment = Environment.get(space, "ddp")
        Experiment(space, "ddp").submit(config)
    """,
}


@pytest.mark.parametrize("version", OVER_AN_SDK)
def test_what_a_job_of_azure_is_told_behind_its_call(version: str, tmp_path: Path, box: Box) -> None:
    reference = build.ROOT / "reference"
    (tmp_path / "launch").mkdir()
    for name in ("torchrun_multi.sh", "pytorchjob.yaml"):
        shutil.copy(reference / "launch" / name, tmp_path / "launch")
    (tmp_path / "launch" / "azure_job.py").write_text(textwrap.dedent(OVER_AN_SDK[version]))
    checks = by_id(tmp_path, box, "azure", "consistent")
    assert [each for each in checks.values() if each.verdict is not Verdict.PASSED] == []


SLURM_TOP = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1 --gres=gpu:2 --time=60\n"
LOOP = """hosts=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
for i in 0 1; do
    srun -N1 -n1 -w "${hosts[i]}" torchrun --nnodes 2 --nproc-per-node 2 --node-rank $i --master-addr "${hosts[0]}" ddp_train.py &
    BETWEEN
done
"""
HEAD = 'host=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\n'
EACH = "exec torchrun --nnodes 2 --nproc-per-node 2 --rdzv-backend c10d --rdzv-id 8 --rdzv-endpoint $HOST:29500 ddp_train.py"
MEETS = "torchrun --nnodes 2 --nproc-per-node 2 --rdzv-backend c10d --rdzv-id 8 --rdzv-endpoint $first:29500 ddp_train.py"
PBS_TOP = """#!/bin/bash
#PBS -l select=2:system=polaris
#PBS -l place=scatter,walltime=0:30:00
cd "$PBS_O_WORKDIR"
first=$(head -n 1 "$PBS_NODEFILE")
"""
LSF_TOP = """#!/bin/bash
#BSUB -nnodes 2
#BSUB -W 30
first=$(sort -u "$LSB_DJOB_HOSTFILE" | grep -v batch | head -n 1)
"""
TASKS = "export MASTER_ADDR=$first MASTER_PORT=29500\n"
PBS_TASKS = PBS_TOP.replace("system=polaris", "ncpus=64:mpiprocs=2:ngpus=2") + TASKS
# Odd jobs that train all the same.
JOBS = {
    "slow to start the second": SLURM_TOP + LOOP.replace("BETWEEN", "python3 -c 'import time; time.sleep(1)'") + "wait",
    "sleeps by the path of it": SLURM_TOP + LOOP.replace("BETWEEN", "/bin/sleep 1") + "wait",
    "busy between the two": SLURM_TOP + LOOP.replace("BETWEEN", 'for k in $(seq 300); do : "$(:)"; done') + "wait",
    "looks after both": SLURM_TOP
    + LOOP.replace("BETWEEN", "pids+=($!)")
    + 'while kill -0 "${pids[@]}" 2> /dev/null; do sleep 10; done',
    "sleeps as long as it takes": SLURM_TOP + LOOP.replace("BETWEEN", ":") + "sleep 3500",
    "asked by the options of sbatch": SLURM_TOP
    + "# sbatch --cpus-per-task=4 -G 4 train.slurm\nset -u; echo $SLURM_CPUS_PER_TASK $SLURM_GPUS $SLURM_GPUS_ON_NODE\n"
    + LOOP.replace("BETWEEN", ":")
    + "wait",
    "reads its hosts in a loop": SLURM_TOP
    + LOOP.replace("for i in 0 1; do", "i=-1; while read host; do i=$((i + 1))").replace("BETWEEN", "hostname").replace("done", 'done < <(printf "%s\\n" "${hosts[@]}")')
    + "wait",
    "exports by quoted names": SLURM_TOP + HEAD + f"srun --export='ALL,\"HOST='$host'\",PATH=/none,IFACES=\"a,b\"' bash -c '[ $IFACES = a,b ] && {EACH}'",
    "exports in its header": SLURM_TOP + "#SBATCH --export=HOST=10.0.0.1\n" + f"srun bash -c '{EACH}'",
    "reads from what stays open": SLURM_TOP + HEAD + f"exec 3<> <(:)\necho 'HOST='$host'; {EACH}' >&3\nsrun bash <&3",
    "reads from a file": SLURM_TOP + HEAD + f"each=$(mktemp)\necho 'HOST='$host'; {EACH}' > $each\nsrun -i $each bash",
    "reads nothing where more is to come": SLURM_TOP + HEAD + f"export host\nbash <<'END'\nsrun --input=none cat\nsrun bash -c 'HOST=$host; {EACH}'\nEND",
    "waits by a short option": SLURM_TOP + HEAD + f"export HOST=$host\nsrun -W 60 --nice --interactive bash -c '{EACH}'",
    "PALS by long options": PBS_TOP + f"mpiexec -n 2 --ppn 1 --depth 8 --cpu-bind depth --mem-bind none --gpu-bind none {MEETS}",
    "PALS by short options": PBS_TOP + f"mpiexec -n 2 -ppn 1 -d 8 --cpu-bind list:0-7:8-15 --line-buffer --env NCCL_DEBUG=INFO {MEETS}",
    "Hydra with variables": PBS_TOP + f"export first\nmpiexec.hydra -l -env OMP_NUM_THREADS 4 -genv HOST $first -n 2 -ppn 1 bash -c '{EACH}'",
    "Open MPI with variables": PBS_TOP + f"mpirun --tag-output --report-bindings -x PATH -x HOST=$first --npernode 1 -np 2 bash -c '{EACH}'",
    "resource sets by letters": LSF_TOP + f"jsrun -n2 -r1 -a1 -g2 -c42 -b none -E OMP_NUM_THREADS=4 {MEETS}",
    "resource sets by words": LSF_TOP + f"jsrun --nrs 2 --rs_per_host 1 --tasks_per_rs=1 --gpu_per_rs ALL_GPUS --cpu_per_rs ALL_CPUS --smpiargs=off {MEETS}",
    "resource sets that fill a host": LSF_TOP + f"jsrun -n 2 -a 1 -g 2 -c 20 -E HOST=$first -E OMP_NUM_THREADS=4 bash -c '{EACH}'",
    "in a container of Shifter": SLURM_TOP + "#SBATCH --image=nersc/pytorch:24.06 --module=gpu,nccl-plugin\n" + HEAD + f"srun shifter --env HOST=$host bash -c 'HOST='$host'; {EACH}'",
    "in a container of pyxis": SLURM_TOP + "#SBATCH --container-image=docker://pytorch\n#SBATCH --container-writable\n" + HEAD + f"export HOST=$host\nsrun --container-mount-home bash -c '{EACH}'",
    "in a container of Docker": SLURM_TOP + HEAD + "srun docker run --rm --gpus all --network host -v $PWD:$PWD -w $PWD pytorch/pytorch:2.4.0 " + MEETS.replace("$first", "$host"),
    "in a container of podman-hpc": SLURM_TOP + HEAD + "srun podman-hpc run --rm --gpu -e HOST=$host pytorch bash -c 'HOST='$host'; " + EACH + "'",
    "in an environment of pixi": SLURM_TOP + HEAD + "srun pixi run " + MEETS.replace("$first", "$host"),
    "by a file of programs": SLURM_TOP + HEAD + "conf=$(mktemp -p .)\necho \"0-1 " + MEETS.replace("--rdzv-backend c10d", "--rdzv-backend static --node-rank %t").replace("$first", "$host") + '" > $conf\nsrun --multi-prog $conf',
    "asks with quotes what nobody says": PBS_TOP + f"args=$(printf ' %q' \"$@\")\npbsdsh -- bash -c \"cd '$PBS_O_WORKDIR' && {MEETS}$args\"",
    "a PALS task for each GPU": PBS_TASKS + "mpiexec -n $(wc -l < $PBS_NODEFILE) --ppn 2 --cpu-bind depth bash -c 'RANK=$PMI_RANK LOCAL_RANK=$PMI_LOCAL_RANK WORLD_SIZE=$PMI_SIZE exec python ddp_train.py'",
    "a jsrun task that sees one GPU": LSF_TOP + TASKS + "jsrun -n4 -r2 -a1 -g1 bash -c 'RANK=$PMIX_RANK LOCAL_RANK=0 WORLD_SIZE=$OMPI_COMM_WORLD_SIZE exec python ddp_train.py'",
    "an srun task that sees one GPU": SLURM_TOP.replace("--ntasks-per-node=1", "--ntasks-per-node=2") + HEAD + TASKS.replace("$first", "$host") + "srun --gpus-per-task=1 bash -c 'RANK=$SLURM_PROCID LOCAL_RANK=0 WORLD_SIZE=$SLURM_NTASKS exec python ddp_train.py'",
    "an ibrun task for each GPU": SLURM_TOP.replace("--ntasks-per-node=1", "-n 4") + HEAD + TASKS.replace("$first", "$host") + "ibrun bash -c 'RANK=$PMI_RANK LOCAL_RANK=$MPI_LOCALRANKID WORLD_SIZE=$SLURM_NTASKS exec python ddp_train.py'",
    "GPUs for each of LSF's tasks": LSF_TOP.replace("-nnodes 2", '-n 4 -R "span[ptile=2]" -gpu "num=1/task:mode=shared"') + f"for host in $(uniq $LSB_DJOB_HOSTFILE); do ssh $host \"cd $LS_SUBCWD && {MEETS}\" & done\nwait",
    "all of Torque's cores": PBS_TASKS.replace("select=2:ncpus=64:mpiprocs=2:ngpus=2", "nodes=2:ppn=2:gpus=2") + "mpirun -np $(wc -l < $PBS_NODEFILE) -machinefile $PBS_NODEFILE bash -c 'RANK=$OMPI_COMM_WORLD_RANK LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE exec python ddp_train.py'",
    "tasks that meet in a file": SLURM_TOP.replace("--ntasks-per-node=1", "--ntasks-per-node=2") + "srun bash -c 'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS exec python ddp_train.py --init-method file://$PWD/.meet'",
    "by the path of an environment": SLURM_TOP + HEAD + 'mamba activate ddp\nsrun "$CONDA_PREFIX/bin/torchrun" ' + MEETS.replace("$first", "$host").removeprefix("torchrun "),
    "by a path of the cluster": SLURM_TOP + HEAD + "srun /opt/conda/envs/ddp/bin/" + MEETS.replace("$first", "$host"),
    "by a path of the cluster behind others": SLURM_TOP
    + HEAD
    + "export HOST=$host\nsrun timeout 600 env OMP_NUM_THREADS=1 bash -c '"
    + EACH.replace("torchrun", "/opt/conda/bin/torchrun")
    + "'",
    "by paths of the cluster in bash": SLURM_TOP
    + "ENV=~/miniconda3/envs/ddp\n"
    + HEAD.replace("scontrol", "/usr/bin/scontrol")
    + "export HOST=$host PYTHON=$ENV'/bin'/python\n"
    + "/opt/slurm/bin/srun bash -c '"
    + EACH.replace("exec torchrun", '"$PYTHON" -m torch.distributed.run')
    + "'",
    "asks for its first node": SLURM_TOP + """first=$(scontrol show job "$SLURM_JOB_ID" | sed -n 's/.*BatchHost=\\([^ ]*\\).*/\\1/p')\n""" + f"srun {MEETS}",
    "asks ClusterShell": SLURM_TOP + f'first=$(nodeset -e "$SLURM_JOB_NODELIST" | cut -d" " -f1)\nsrun {MEETS}',
    "asks the queue": SLURM_TOP + 'first=$(squeue -h -j "$SLURM_JOB_ID" -o %B)\n' + f"srun {MEETS}",
    "asks for the address of a node": SLURM_TOP + HEAD + "first=$(scontrol show node $host | grep -oP 'NodeAddr=\\K\\S+')\n" + f"srun {MEETS}",
    "asks a name server": SLURM_TOP + HEAD + f"first=$(dig +short $host)\n[ $first = $(host $host | awk '/has address/ {{print $4}}') ] && srun {MEETS}",
    "asks Python for the address": SLURM_TOP + HEAD + f"first=$(python -c \"import socket; print(socket.gethostbyname('$host'))\")\nsrun {MEETS}",
    "asks for its interface": SLURM_TOP + "first=$(ip -4 addr show ib0 | grep -oP '(?<=inet\\s)\\d+(\\.\\d+){3}')\n" + f"[ $first = $(ip -o route get 8.8.8.8 | sed -n 's/.*src \\([0-9.]*\\).*/\\1/p') ] && srun {MEETS}",
    "reads all that Slurm says": SLURM_TOP + "#SBATCH --mem=16G --array=1\nset -u\n: $SLURM_JOB_ACCOUNT $SLURM_CLUSTER_NAME $SLURM_JOB_QOS $SLURM_MEM_PER_NODE $SLURM_ARRAY_TASK_ID\n" + f"srun bash -uc 'first=$(scontrol show hostnames $SLURM_STEP_NODELIST | head -n 1); : $SLURM_STEP_ID $SLURM_SRUN_COMM_HOST; {MEETS}'",
    "GPUs as a resource of tasks": SLURM_TOP.replace("--gres=gpu:2", "--tres-per-task=cpu=8,gres/gpu:a100=2") + HEAD + "srun " + MEETS.replace("$first", "$host"),
    "whole nodes of a partition": SLURM_TOP.replace("--gres=gpu:2", "--exclusive -p gpu-a100") + HEAD + "srun " + MEETS.replace("$first", "$host"),
    "counts the GPUs that it asked for": SLURM_TOP.replace("gpu:2", "gpu:4") + HEAD + "each=$(nvidia-smi --query-gpu=index --format=csv,noheader | wc -l)\n[ $(nvidia-smi --query-gpu=count --format=csv,noheader | head -n 1) = $each ] && srun " + MEETS.replace("$first", "$host").replace("per-node 2", "per-node $each"),
    "an environment beside the script": SLURM_TOP + HEAD + "srun .venv/bin/" + MEETS.replace("$first", "$host"),
    "what Torque says": PBS_TASKS.replace("select=2:ncpus=64:mpiprocs=2:ngpus=2", "nodes=2:ppn=2:gpus=2") + f"each=$(grep -c \"^$(hostname)-gpu\" $PBS_GPUFILE)\n[ $PBS_NUM_PPN = $each ] && mpirun -pernode {MEETS.replace('per-node 2', 'per-node $each')}",
    "hosts of which each stands there once": PBS_TASKS.replace("select=2:ncpus=64:mpiprocs=2:ngpus=2", "nodes=2:ppn=2:gpus=2") + f"sort -u $PBS_NODEFILE > hosts.txt\nmpirun --hostfile hosts.txt {MEETS}",
    "hosts with a slot each": PBS_TASKS.replace("select=2:ncpus=64:mpiprocs=2:ngpus=2", "nodes=2:ppn=2:gpus=2") + f"mpirun -H $(sort -u $PBS_NODEFILE | sed 's/$/:1/' | paste -sd,) {MEETS}",
    "one host after the other": PBS_TASKS + f"mpirun -np 2 -bynode {MEETS}",
    "a here-document over ssh": PBS_TASKS + f"for host in $(sort -u $PBS_NODEFILE); do\nssh -T $host <<END &\ncd $PWD\n{MEETS}\nEND\ndone\nwait",
    "a file of hosts for pdsh": PBS_TASKS + f"pdsh -w ^$PBS_NODEFILE \"cd $PWD && {MEETS}\"",
    "asks qstat": PBS_TASKS + f"first=$(qstat -f $PBS_JOBID | sed -n 's/.*exec_host = \\([^/]*\\).*/\\1/p')\npbsdsh -- bash -c \"cd $PWD && {MEETS}\"",
    "LSF's file of ranks, and how long it takes": LSF_TOP.replace("-nnodes 2", '-n 2 -R "span[ptile=1]" -gpu "num=2" -We 20 -notify exit').replace("HOSTFILE", "RANKFILE") + f"blaunch {MEETS}",
    "writes down what machine it is on": SLURM_TOP
    + "set -euo pipefail\nlspci | grep -i nvidia\n[ $(lspci | grep -ci nvidia) = 2 ]\nibstat | grep -i active | head -n 20\n"
    + "ibv_devinfo | grep -q mlx5\nlstopo | grep -i numa\ndcgmi discovery -l | grep GPU\nseff $SLURM_JOB_ID\nquota -s\n"
    + HEAD.replace("head -n 1", "gawk 'NR == 1'")
    + "srun hwloc-bind node:0 -- " + MEETS.replace("$first", "$host") + " 2>&1 | ts '%H:%M:%S'",
    "the last one in front": SLURM_TOP + LOOP.replace("&\n    BETWEEN", "$([ $i = 1 ] || echo '&')").replace("srun", "eval srun"),
}  # fmt: skip


# Much like others.
SELDOM = {
    "in a container of podman-hpc", "in a container of pyxis", "in an environment of pixi", "by a path of the cluster",
    "PALS by short options", "Hydra with variables", "resource sets by words", "resource sets that fill a host",
    "an ibrun task for each GPU", "an srun task that sees one GPU", "asks ClusterShell", "asks a name server",
    "hosts with a slot each", "one host after the other", "asks qstat", "a file of hosts for pdsh", "asks the queue",
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SELDOM else ()) for name in JOBS]
)
def test_an_odd_job_that_trains_passes(name: str, tmp_path: Path, box: Box) -> None:
    (tmp_path / "launch").mkdir()
    shutil.copy(build.ROOT / "reference" / "ddp_train.py", tmp_path)
    suffix = {"#SBATCH": "slurm", "#PBS": "pbs", "#BSUB": "lsf"}[JOBS[name].splitlines()[1].split()[0]]
    (tmp_path / "launch" / f"train.{suffix}").write_text(JOBS[name])
    (check,) = by_id(tmp_path, box, "cluster_header").values()
    assert check.verdict is Verdict.PASSED, check


@pytest.mark.parametrize(
    ("job", "told"),
    [
        (LSF_TOP + f"jsrun -n 4 -r 2 -a 1 -g 1 {MEETS}", "starts torchrun 2 times on node 0"),
        (LSF_TOP + f"jsrun -n 1 -r 1 -g 2 {MEETS}", "starts torchrun on 1 of 2 nodes"),
        (PBS_TOP + f"mpiexec -n 2 -ppn 2 --depth 8 {MEETS}", "starts torchrun 2 times on node 0"),
        (PBS_TOP + f"mpiexec -n 2 -ppn 1 torchrunn {MEETS}", "torchrunn is what srun, mpiexec or the like was to start"),
        (PBS_TASKS + "mpiexec -n 4 -ppn 2 bash -c 'RANK=$PMI_RANK LOCAL_RANK=0 WORLD_SIZE=4 exec python ddp_train.py'", "LOCAL_RANK is 0 in all of them"),
        (PBS_TOP + f"mpiexec -n 2 -ppn 1 {MEETS} \"$MORE\"", "which it refuses"),
        (PBS_TOP + f"set -e\nlspcii\nmpiexec -n 2 -ppn 1 {MEETS}", "lspcii"),
        (PBS_TOP + f"aprun -n 2 {MEETS}", "There is no program aprun where this is graded."),
    ],
)  # fmt: skip
def test_a_job_that_starts_too_much_or_nothing_is_told(job: str, told: str, tmp_path: Path, box: Box) -> None:
    (tmp_path / "launch").mkdir()
    shutil.copy(build.ROOT / "reference" / "ddp_train.py", tmp_path)
    (tmp_path / "launch" / ("train.pbs" if "#PBS" in job else "train.lsf")).write_text(job)
    (check,) = by_id(tmp_path, box, "cluster_header").values()
    assert check.verdict is Verdict.FAILED
    assert told in f"{check.message} {check.hint}", check


# Programs by the paths of another machine

ALONE = '--standalone --nproc-per-node "${NPROC:-2}" ddp_train.py "$@"'
BY_PATHS = {
    "a default": 'TORCHRUN=${TORCHRUN:-/opt/conda/bin/torchrun}\n"$TORCHRUN" ' + ALONE,
    "a default of a folder": '"${CONDA:-/opt/conda}/bin/torchrun" ' + ALONE,
    "a default with a variable": 'CONDA=/opt/conda\n"${TORCHRUN:-$CONDA/bin/torchrun}" ' + ALONE,
    "declare": 'declare -r CONDA=/opt/conda; BIN=$CONDA/bin\n"$BIN/torchrun" ' + ALONE,
    "typeset": 'typeset CONDA="/opt/conda" BIN=bin; $CONDA/$BIN/torchrun ' + ALONE,
    "local": 'go() {\n    local conda=/opt/conda\n    $conda/bin/torchrun "$@"\n}\ngo ' + ALONE,
    "one of several": 'CONDA=/opt/conda\n[ -d /apps ] && CONDA=/apps/conda\n"$CONDA/bin/torchrun" ' + ALONE,
    "a file that is sourced": ". launch/env.sh\n$CONDA/bin/torchrun " + ALONE,
    "a file of settings": "set -a; source launch/site.env; set +a\n$SITE/bin/torchrun " + ALONE,
    "a function of its name": 'torchrun() { /opt/conda/bin/torchrun "$@"; }\ntorchrun ' + ALONE,
    "an array": 'run=(/opt/conda/bin/torchrun --standalone)\nexec "${run[@]}" ' + ALONE,
    "exec": "exec /opt/conda/bin/torchrun " + ALONE,
    "exec of a variable": 'TORCHRUN=/opt/conda/bin/torchrun\nOMP_NUM_THREADS=1 exec "$TORCHRUN" ' + ALONE,
    "exec into a log": "exec > >(cat) 2>&1\nexec 3>&1\nexec /opt/conda/bin/torchrun " + ALONE + " >&3",
    "exec behind a test": "if true; then exec ~/miniconda3/bin/python -m torch.distributed.run " + ALONE + "; fi",
    "exec in sh": 'sh launch/go.sh "$@"',
    "command": "command /opt/conda/bin/torchrun " + ALONE,
    "env": "env OMP_NUM_THREADS=4 /opt/conda/bin/torchrun " + ALONE,
    "env by its path": "/usr/bin/env -u OMP_NUM_THREADS /opt/conda/bin/torchrun " + ALONE,
    "nohup": "nohup /opt/conda/bin/torchrun " + ALONE + " &\nwait $!",
    "timeout": "timeout -k 5 3600 /opt/conda/bin/torchrun " + ALONE,
    "several in front": "exec nohup nice -n 5 stdbuf -oL /opt/conda/bin/torchrun " + ALONE,
    "setsid": "setsid -w /opt/conda/bin/torchrun " + ALONE,
    "time": "time /opt/conda/bin/torchrun " + ALONE,
    "time by its path": "/usr/bin/time -p /opt/conda/bin/torchrun " + ALONE,
    "a container": "apptainer exec --nv image.sif /opt/conda/bin/torchrun " + ALONE,
    "an environment beside the script": ".venv/bin/torchrun " + ALONE,
    "an environment below the folder": 'ROOT="$(cd "$(dirname "$0")" && pwd)"\n"$ROOT/venv/bin/python" -m torch.distributed.run ' + ALONE,
    "exec of one beside it": 'PYTHON="$PWD/.venv/bin/python"\n$PYTHON -V; exec ./.venv/bin/torchrun ' + ALONE,
}  # fmt: skip


@pytest.mark.parametrize("spelling", BY_PATHS)
def test_a_program_is_found_by_a_path_of_another_machine(spelling: str, tmp_path: Path, box: Box) -> None:
    (tmp_path / "launch").mkdir()
    shutil.copy(build.ROOT / "reference" / "ddp_train.py", tmp_path)
    for name, text in {
        "torchrun_single.sh": f'#!/bin/bash\nset -eu\ncd "$(dirname "$0")/.."\n{BY_PATHS[spelling]}\n',
        "env.sh": "export CONDA=/opt/conda\n",
        "site.env": "SITE=/apps/site\n",
        "go.sh": f"#!/bin/sh\nexec /opt/conda/bin/torchrun {ALONE}\n",
    }.items():
        (tmp_path / "launch" / name).write_text(text)
    check = by_id(tmp_path, box, "single_node")["single_node"]
    assert check.verdict is Verdict.PASSED, check


PLAIN = '--nproc-per-node "${NPROC:-2}" ddp_train.py "$@"'
# Other ways to say as much on one node.
SINGLE = {
    "at its own name": "torchrun --master-addr $(uname -n) " + PLAIN,
    "at the name that Python knows": "torchrun --master-addr $(python3 -c 'import socket; print(socket.gethostname())') " + PLAIN,
    "at the address of that": "torchrun --master-addr $(python3 -c 'import socket; print(socket.gethostbyname(socket.gethostname()))') " + PLAIN,
    "a process for each core": 'torchrun --standalone --nproc-per-node "${NPROC:-cpu}" ddp_train.py "$@"',
    "a process for each of Intel's GPUs": "torchrun --standalone --nproc-per-node=xpu ddp_train.py",
    "as many as torch counts": "torchrun --standalone --nproc-per-node $(python -c 'import torch; print(torch.cuda.device_count())') ddp_train.py",
    "below a profiler": "torchrun --no-python --standalone --nproc-per-node 2 nsys profile -o rank%q{RANK} python ddp_train.py",
    "a shell for each process": "torchrun --no-python --standalone --nproc-per-node 2 bash -c 'exec numactl -N $LOCAL_RANK python ddp_train.py \"$@\"' -- --epochs 3",
    "a module by uv": "uv run -m torch.distributed.run --standalone " + PLAIN,
    "a tool by uv": "uvx --from torch torchrun --standalone " + PLAIN,
    "with more rights": "sudo -E prlimit --nofile=65536 torchrun --standalone " + PLAIN,
    "under a name that nobody else has": "torchrun --rdzv-backend c10d --rdzv-endpoint localhost:0 --rdzv-id $(uuidgen) " + PLAIN,
}  # fmt: skip


@pytest.mark.parametrize("name", SINGLE)
def test_an_odd_script_for_one_node_passes(name: str, tmp_path: Path, box: Box) -> None:
    (tmp_path / "launch").mkdir()
    shutil.copy(build.ROOT / "reference" / "ddp_train.py", tmp_path)
    (tmp_path / "launch" / "torchrun_single.sh").write_text(f"#!/bin/bash\nset -eu\n{SINGLE[name]}\n")
    (check,) = by_id(tmp_path, box, "single_node").values()
    assert check.verdict is Verdict.PASSED, check


@pytest.mark.parametrize("own", ["$(uname -n)", "$(python -c 'import socket; print(socket.gethostname())')"])
def test_nodes_that_each_name_themselves_never_meet(own: str, tmp_path: Path, box: Box) -> None:
    (tmp_path / "launch").mkdir()
    (tmp_path / "launch" / "torchrun_multi.sh").write_text(MEETS.replace("$first", own))
    (check,) = by_id(tmp_path, box, "multi_node").values()
    assert "Nodes that go to different places never meet" in check.message


@pytest.mark.parametrize(
    "line",
    [
        "exec > log 2>&1",
        "exec 3>&1 4<> file",
        "exec {log}>&1",
        'exec "$@"',
        "exec torchrun x.py",
        'exec "$HERE/inner.sh" /opt/conda/bin/torchrun',
        "command -v /opt/conda/bin/torchrun",
        'docker exec "$TORCHRUN" x.py',
        "apptainer \\\n  exec /images/torchrun x.py",
        "find . -exec /opt/conda/bin/python {} +",
    ],
)
def test_a_script_that_calls_no_program_past_bash_stays_as_it_is(line: str, tmp_path: Path) -> None:
    text = f"#!/bin/bash\nTORCHRUN=/opt/conda/bin/torchrun\n{line}\n"
    (tmp_path / "go.sh").write_text(text)
    call_through_env(str(tmp_path), frozenset({"torchrun", "python"}))
    assert (tmp_path / "go.sh").read_text() == text


def test_a_link_out_of_the_folder_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "mine.sh").write_text("exec /opt/conda/bin/torchrun x.py\n")
    (tmp_path / "work" / "go.sh").symlink_to(tmp_path / "mine.sh")
    call_through_env(str(tmp_path / "work"), frozenset({"torchrun"}))
    assert (tmp_path / "mine.sh").read_text() == "exec /opt/conda/bin/torchrun x.py\n"


def test_a_program_of_the_submission_stays_one(tmp_path: Path) -> None:
    for folder in ("bin", ".venv/bin", "launch/bin"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "torchrun").write_text("#!/home/me/.venv/bin/python\n")
    (tmp_path / ".venv" / "pyvenv.cfg").touch()
    (tmp_path / "go.sh").write_text(
        "bin/torchrun; launch/bin/torchrun; .venv/bin/torchrun; venv/bin/torchrun\n"
    )
    found = re.findall(r"function (\S+)", functions(str(tmp_path), frozenset({"torchrun"})))
    assert found == [".venv/bin/torchrun", "venv/bin/torchrun"]


def test_nothing_but_a_plain_path_becomes_a_function(tmp_path: Path) -> None:
    (tmp_path / "go.sh").write_text(
        "A='/x;id' B=/y$(id) C=/z\n$A/torchrun; $B/torchrun; ${C:-`id`}/torchrun; /{a,b}/torchrun; $C/../torchrun\n"
    )
    lines = functions(str(tmp_path), frozenset({"torchrun"})).splitlines()
    assert lines
    for line in lines:
        assert re.fullmatch(r'function /[\w./+-]+ \{ command torchrun "\$@"; \}', line), line


@pytest.mark.parametrize(
    "output",
    [
        "go.sh: line 3: /opt/conda/bin/torchrun: No such file or directory\n",
        "go.sh: line 3: exec: /opt/conda/bin/torchrun: cannot execute: No such file or directory\n",
        "nohup: failed to run command '/opt/conda/bin/torchrun': No such file or directory\n",
        "env: ‘/opt/conda/bin/torchrun’: No such file or directory\n",
    ],
)
def test_a_path_that_leads_nowhere_is_told(output: str) -> None:
    fault = early_faults.nothing_fault(starts.NodeRun(0, 127, output, ()), "`bash go.sh`")
    assert fault.hint is not None
    assert fault.hint.startswith("The path /opt/conda/bin/torchrun leads to nothing")
    assert "by its name alone" in fault.hint


@pytest.mark.parametrize(
    ("source", "output", "words"),
    [
        ("x\nfirst= $(cat hosts)", "go.sh: line 2: n17: command not found", "a blank beside the `=`"),
        ("  N = 1", "go.sh: line 1: N: command not found", "a blank beside the `=`"),
        ("A=1 run --x = 3", "go.sh: line 1: run: command not found", "no program run"),
        ("run", "go.sh: line 9: run: command not found", "no program run"),
        ("", "python: No module named torch.distributed_run", "knows no module torch.distributed_run"),
        ("", "go.sh: line 3: NPROC: unbound variable", "${NPROC:-2}"),
    ],
)
def test_what_is_said_of_a_script_that_starts_nothing(source: str, output: str, words: str) -> None:
    fault = early_faults.nothing_fault(starts.NodeRun(0, 1, output, ()), "`bash go.sh`", source)
    assert fault.hint is not None
    assert words in fault.hint


@pytest.mark.parametrize(
    ("host", "port", "words"),
    [
        ("", "29500", "A variable is empty there"),
        ("tcp://n1", "29500", "without a protocol"),
        ("n[1,2]", "29500", "as Slurm shortens it"),
        ("n1 29500", "", "stands a colon"),
        ("n1\nn2", "29500", "Those are several"),
        ("$first", "29500", "single ones do not"),
    ],
)
def test_what_is_said_of_a_place_that_is_no_host(host: str, port: str, words: str) -> None:
    command = f"torchrun --rdzv-endpoint={host}:{port} ddp_train.py"
    start = starts.Start(
        "torchrun", 0, "torchrun", tuple(command.split(" ")), endpoint=starts.Endpoint(host, port)
    )
    fault = meeting_faults.place_fault("x", start)
    assert fault is not None
    assert words in (fault.hint or "")
    assert "\n" not in fault.message


@pytest.mark.parametrize(
    ("is_job", "words"), [(True, "fills in a variable once"), (False, "Hand on the number")]
)
def test_numbers_of_nodes_that_are_all_the_same(is_job: bool, words: str) -> None:
    start = starts.Start(
        "torchrun", 0, "torchrun", ("--node-rank", "0"), endpoint=starts.Endpoint("n1", "29500"), nodes=(2, 2)
    )
    fault = meeting_faults.meeting_fault("x", {0: start, 1: start}, ("n1", "n2"), is_job)
    assert fault is not None
    assert words in (fault.hint or "")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("python3", "leave `python3` out"),
        ("\u2014nproc-per-node", "type `--` anew"),
        ("4", "is the option missing"),
        ("train.py", "Start ddp_train.py"),
    ],
)
def test_what_torchrun_was_given_for_a_script(script: str, words: str) -> None:
    fault = script_faults.script_fault("x", starts.Start("torchrun", 0, "torchrun", script=script), {})
    assert fault is not None
    assert words in (fault.hint or "")


@pytest.mark.parametrize(
    ("scheduler", "line", "is_told"),
    [
        (LSF, '-R "span(ptile=2)"', True),
        (LSF, '-R "span [ptile=2]"', False),
        (LSF, "-gpu 2", True),
        (LSF, "-gpu mode=shared", False),
        (LSF, "-gpu -", False),
        (PBS, "-l select=2 ncpus=8 ngpus=2", True),
        (PBS, "-l mem=16gb -l ncpus=4", False),
    ],
)
def test_what_lsf_and_pbs_do_not_read(scheduler: Scheduler, line: str, is_told: bool) -> None:
    header = read_header(scheduler, f"#!/bin/bash\n{scheduler.prefix} {line}\n")
    assert bool(header.problems) == is_told, header.problems


# Headers


@pytest.mark.parametrize(
    ("scheduler", "lines", "asked"),
    [
        (SLURM, "--nodes=2 --gres=gpu:2 --time=60", (2, None, 2, "60")),
        (SLURM, "-N 2\n-t1:00:00\n--gpus-per-node=2", (2, None, 2, "1:00:00")),
        (SLURM, "-N2 -n 4 --gpus-per-task=1", (2, 2, 2, None)),
        (SLURM, "--nodes 2-2 --gpus 4 -t 1-0", (2, None, 2, "1-0")),
        (SLURM, "--nodes=2 -G a100:8 --ntasks-per-node 1", (2, 1, 4, None)),
        (SLURM, "--ntasks=4 --ntasks-per-node=2 --gres=gpu:v100:2", (2, 2, 2, None)),
        (SLURM, "--gres=tmp:10,gpu:a100:2", (1, None, 2, None)),
        (SLURM, "--gres=gpu", (1, None, 1, None)),
        (SLURM, "--gres=gpu:h100", (1, None, 1, None)),
        (SLURM, "--exclusive --nodes=2 --requeue --gres gpu:2 # of each node", (2, None, 2, None)),
        (SLURM, '--job-name="my job" --nodes=3', (3, None, None, None)),
        (SLURM, "--ntasks-per-n=2 --nodes=2", (2, 2, None, None)),
        (SLURM, "--nodes=2\n--nodes=3", (3, None, None, None)),
        (SLURM, "--nodes=2 --tasks-per-node=2", (2, 2, None, None)),
        (SLURM, "--nodes=2 --ntasks=1", (1, 1, None, None)),
        (SLURM, "--gpus=4 --gpus-per-node=2", (2, None, 2, None)),
        (SLURM, "--nodes=2 --gres=gpu:2 --ntasks-per-gpu=1", (2, 2, 2, None)),
        (SLURM, "--nodes=2 --gres=gpu:2 --gpus-per-task=1", (2, 2, 2, None)),
        (SLURM, "--nodes=2 --ntasks=2 --ntasks-per-node=4", (2, 1, None, None)),
        (SLURM, "--nodes=2 --ntasks-per-node=2 --tres-per-task=cpu:4,gres/gpu:1", (2, 2, 2, None)),
        (SLURM, "-N2 --sockets-per-node=2 --gpus-per-socket=1", (2, None, 2, None)),
        (SLURM, "-N2 --tres-per-task=cpu=4,license/x=1 --gres=gpu:2", (2, None, 2, None)),
        (SLURM, "-HN2 -vv --nodes=+2\\", (2, None, None, None)),
        (PBS, "-l select=2:ncpus=16:mem=32gb:ngpus=2:gpu_model=v100,walltime=1:00:00", (2, None, 2, "1:00:00")),
        (PBS, "-lselect=1:ngpus=2+1:ngpus=2 -l walltime=600", (2, None, 2, "600")),
        (PBS, "-l nodes=2:ppn=8:gpus=2 -l walltime=00:30:00", (2, None, 2, "00:30:00")),
        (PBS, "-l nodes=2:ppn=2:gpus=2 -l walltime=1:02:00:00", (2, None, 2, "26:00:00")),
        (PBS, "-l select=4:ncpus=4:mpiprocs=2:ngpus=1 -j oe -V", (4, 2, 1, None)),
        (PBS, "-l ngpus=1,ncpus=4", (1, None, 1, None)),
        (PBS, "-l select=2:system=polaris -l walltime=0:30:00 -q debug", (2, None, None, "0:30:00")),
        (LSF, '-n 8 -R "span[hosts=1]" -gpu "num=2:mode=exclusive_process" -W 15:00', (1, 8, 2, "15:00")),
        (LSF, "-n4 -R 'span[ptile=2] rusage[mem=4GB]'\n-gpu num=2\n-W30", (2, 2, 2, "30")),
        (LSF, "-q gpu -n 2,4 -R 'span[ptile=1]' -gpu -", (4, 1, 1, None)),
        (LSF, "-n 1 -R 'rusage[ngpus_excl_p=2]' -B -N -u a@b.c", (1, None, 2, None)),
        (LSF, "-R '2*{span[ptile=1]}' -We 10 -network mode=dual -W 30", (2, 1, None, "30")),
        (LSF, "-P CSC123 -nnodes 2 -W 0:30 -alloc_flags smt1", (2, None, None, "0:30")),
    ],
)  # fmt: skip
def test_what_a_header_asks_for(scheduler: Scheduler, lines: str, asked: tuple[object, ...]) -> None:
    text = "#!/bin/bash\n" + "".join(f"{scheduler.prefix} {line}\n" for line in lines.splitlines())
    header = read_header(scheduler, text)
    assert (header.nodes, header.tasks_per_node, header.gpus_per_node, header.walltime) == asked
    assert header.problems == ()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 1800),
        ("00:01", 1),
        ("90:30", 5430),
        ("1:00:05", 3605),
        ("1-", 86400),
        ("1-2", 93600),
        ("1-2:30", 95400),
        ("0-0:0:30", 30),
        ("1h", None),
        ("9" * 5000, None),
    ],
)
def test_limits_on_the_time_as_slurm_reads_them(text: str, seconds: int | None) -> None:
    header = read_header(SLURM, f"#!/bin/bash\n#SBATCH --time={text}\n")
    assert header.seconds == seconds


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--time=02:00", "`--time=02:00:00`"),
        ("--time=20:00", ""),
        ("--time=1:00:00", ""),
        ("--mem=8", "`--mem=8G`"),
        ("--mem=0", ""),
        ("--mem=16000", ""),
        ("--array=1-4", "SLURM_ARRAY_TASK_ID"),
        ("--array=1-4%1", ""),
        ("--array=1", ""),
    ],
)
def test_what_slurm_takes_and_is_seldom_meant(line: str, words: str) -> None:
    remarks = read_header(SLURM, f"#!/bin/bash\n#SBATCH {line}\n").remarks
    assert (remarks == ()) == (words == "")
    assert words in " ".join(remarks)


@pytest.mark.parametrize(
    ("scheduler", "line", "left"),
    [
        (SLURM, "--account=<your-account>", "`<your-account>`"),
        (SLURM, "--partition=TODO", "`TODO`"),
        (PBS, "-A <project id>", "`<project id>`"),
        (LSF, '-R "select[mem<100 && ncpus>4]"', ""),
        (SLURM, "--output=slurm-%j.out", ""),
    ],
)
def test_places_to_fill_in_are_a_remark(scheduler: Scheduler, line: str, left: str) -> None:
    text = f"#!/bin/bash\n{scheduler.prefix} {line}\n"
    said = list(header_slips.placeholders(read_header(scheduler, text)))
    assert len(said) == (left != "")
    assert left in " ".join(said)


@pytest.mark.parametrize("shell", ["/bin/csh", "/usr/bin/env tcsh -f", "/bin/bash"])
def test_a_script_in_another_language_than_bash_is_told_so(shell: str) -> None:
    output = "go.sh: line 2: syntax error near unexpected token `('"
    said = early_faults.nothing_fault(
        starts.NodeRun(0, 2, output, ()), "`bash go.sh`", f"#!{shell}\nif (1) then\n"
    )
    assert ("write it for bash" in said.hint) == ("csh" in shell)


@pytest.mark.parametrize(
    ("walltime", "seconds"),
    [("30", 30), ("1:30", 90), ("1:00:00", 3600), ("10:00:00", 36000), ("0:45.5", 45), ("1h", None)],
)
def test_how_long_pbs_waits(walltime: str, seconds: int | None) -> None:
    header = read_header(PBS, f"#!/bin/bash\n#PBS -l walltime={walltime}\n")
    assert header.seconds == seconds
    assert ("minutes:seconds" in " ".join(header.remarks)) == (walltime == "1:30")


@pytest.mark.parametrize(
    ("lines", "held"), [("#SBATCH --hold", True), ("#SBATCH -QH", True), ("# sbatch --hold", False)]
)
def test_a_job_that_is_held(lines: str, held: bool) -> None:
    assert read_header(SLURM, f"#!/bin/bash\n{lines}\n").held == held


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("--dependency=afterok:123456", "123456"),
        ("-d afterany:1,aftercorr:77:78", "77"),
        ("--dependency=singleton", ""),
        ("--dependency=afterany:123456", ""),
        ("--dependency=afterok:1?afterany:2", ""),
        ("--dependency=123456", ""),
    ],
)
def test_a_job_that_waits_for_another(line: str, number: str) -> None:
    header = read_header(SLURM, f"#!/bin/bash\n#SBATCH {line}\n")
    assert header_slips.waits_for(header) == number
    assert header_slips.waits_for(read_header(SLURM, f"#!/bin/bash\n# sbatch {line} train.slurm\n")) == ""


@pytest.mark.parametrize(
    ("line", "is_told"),
    [
        ("--mem=16M", True),
        ("--mem 100mb", True),
        ("--mem=4096K", True),
        ("--mem=128M", False),
        ("--mem=16G", False),
        ("--mem=1T", False),
        ("--mem=0", False),
        ("--mem=0M", False),
        # Of gigabytes, where a cluster is set to count so.
        ("--mem=16", False),
        ("--mem-per-cpu=64M --cpus-per-task=8", False),
    ],
)
def test_memory_in_which_torch_has_no_room(line: str, is_told: bool) -> None:
    header = read_header(SLURM, f"#!/bin/bash\n#SBATCH {line}\n")
    assert header.problems == ()
    assert (header_slips.header_slip("train.slurm", header) is not None) == is_told


@pytest.mark.parametrize(
    ("arguments", "in_doubt"),
    [
        ("--epochs 3 --batch-size=32 --training_data /a --resume", []),
        ("--bachsize 32", ["--bachsize"]),
        ("--epochs=three --lr ten", ["--epochs", "--lr"]),
        ("--lr 1e-3 --epochs", ["--epochs"]),
        ("--lr 0,1 --batch-size 1e2 --seed .5", ["--lr", "--batch-size", "--seed"]),
        ("--lr .1 --checkpoint --resume --report=/a", ["--checkpoint"]),
        ("--resume True --scale-lr=yes --epochs 3", ["--scale-lr", "True"]),
        ("-epochs 3 -warm-up 1 -lr -1", ["-epochs", "-lr"]),
        ("--weight_decay 1 --model.depth 2 --warm 3", []),
        ("50 10 -e 5 --", ["50", "10"]),
    ],
)
def test_options_that_are_asked_about(arguments: str, in_doubt: list[str]) -> None:
    files = {
        "ddp_train.py": b"class Options:\n    weight_decay = warmup = 0\nnames = ['model.depth', '-warm-up']\n"
    }
    assert refusals.doubtful(arguments.split(), files, "ddp_train.py") == in_doubt


def test_words_are_not_asked_about_where_a_script_takes_some() -> None:
    files = {"tutorial.py": b"parser.add_argument('epochs', type=int)\n", "ddp_train.py": b""}
    assert refusals.doubtful(["50", "10"], files, "tutorial.py") == []
    assert refusals.doubtful(["50", "10"], files, "ddp_train.py") == ["50", "10"]


def test_only_so_many_arguments_are_looked_at() -> None:
    words = [f"--option-{number}" for number in range(10_000)]
    assert len(refusals.doubtful(words, {"ddp_train.py": b"x"}, "ddp_train.py")) == refusals.MOST_WORDS


# What a node starts with python, each with the variables that it is given, and what is said about it.
BY_PYTHON = [
    ([("ddp_train.py", ())], "that is one process"),
    ([("prepare.py", ()), ("ddp_train.py", ())], "that is one process"),
    (
        [("ddp_train.py", ("RANK", "WORLD_SIZE"))],
        "with python on a node, with RANK and WORLD_SIZE set: it starts",
    ),
    ([("ddp_train.py", ("RANK",))] * 2, "starts ddp_train.py with python 2 times on a node, with RANK set"),
    ([("prepare.py", ()), *[("ddp_train.py", ())] * 3], "starts ddp_train.py with python 3 times"),
]


@pytest.mark.parametrize(("begun", "words"), BY_PYTHON)
def test_what_is_said_of_python_without_torchrun(
    begun: list[tuple[str, tuple[str, ...]]], words: str
) -> None:
    own = [
        starts.Start("python", 0, "python", script=script, places=dict.fromkeys(places, "0"))
        for script, places in begun
    ]
    fault = early_faults.early_fault([], {0: own}, "`sh x.sh`")
    assert fault is not None
    assert words in fault.message
    assert ("one process" in fault.message) == ("one process" in words)
    assert ("exercise asks for torchrun" in fault.message) == ("one process" not in words)


# Scripts of their own kind, and what they are given: one that takes an option by any means has taken it.
TAKERS = {
    "a parser made from pieces": (
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--' + 'e' + 'xtra')\nparser.parse_args()",
        "--extra 1",
    ),
    "leaves aside what it does not know": (
        "import argparse\nargparse.ArgumentParser().parse_known_args()",
        "--extra 1",
    ),
    "reads no option": ("import sys\nprint(len(sys.argv))", "--extra 1"),
    "breaks before it reads them": ("import not_there", "--extra 1"),
    "goes on without end": ("while True: pass", "--extra 1"),
    "ends with 2 for itself": ("import sys\nsys.exit(2)", "--extra 1"),
    "epochs in words": (
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--epochs')\nparser.parse_args()",
        "--epochs three",
    ),
    "has -h for itself": (
        "import argparse\nparser = argparse.ArgumentParser(add_help=False)\nparser.add_argument('-h')\nparser.parse_args()",
        "-h 1",
    ),
    "reads no option, --help neither": ("print('training')", "--help"),
    "resumes from a place of its own": (
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--resume', action='store_true')\n"
        "parser.add_argument('--checkpoint', default='a.pt')\nparser.parse_args()",
        "--resume",
    ),
    "misses the file that it resumes from": (
        "import argparse, os\nparser = argparse.ArgumentParser()\nparser.add_argument('--resume', action='store_true')\n"
        "parser.add_argument('--checkpoint', default='a.pt')\nargs = parser.parse_args()\n"
        "if not os.path.exists(args.checkpoint):\n    parser.error('--resume: there is no file of --checkpoint')",
        "--resume",
    ),
    "has epochs without end": (
        "import argparse, itertools\nparser = argparse.ArgumentParser()\nparser.add_argument('--epochs', type=int)\n"
        "args = parser.parse_args()\nepochs = range(args.epochs) if args.epochs else itertools.count()",
        "--epochs 0",
    ),
    "one node at its own address": ("", "--init-method tcp://localhost:23456"),
}
# Launch scripts that ask for help where whoever calls them says nothing.
HELPS = ('ddp_train.py "${@:---help}"', '[ $# -gt 0 ] || set -- --help\ntorchrun ddp_train.py "$@"')


@pytest.mark.parametrize("name", TAKERS)
def test_a_script_that_refuses_nothing_is_believed(
    name: str, tmp_path: Path, box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, arguments = TAKERS[name]
    if name == "goes on without end":
        monkeypatch.setattr(refusals, "ANSWER_SECONDS", 2.0)
    (tmp_path / "launch").mkdir()
    (tmp_path / "ddp_train.py").write_text(source)
    (tmp_path / "launch" / "torchrun_single.sh").write_text(
        f"torchrun --standalone ddp_train.py {arguments}\n"
    )
    (check,) = by_id(tmp_path, box, "single_node").values()
    assert check.verdict is Verdict.PASSED, check


@pytest.mark.parametrize("text", HELPS)
def test_help_for_those_who_say_nothing(text: str, tmp_path: Path, box: Box) -> None:
    (tmp_path / "launch").mkdir()
    command = text if "torchrun" in text else f"torchrun {text}"
    (tmp_path / "launch" / "torchrun_single.sh").write_text(f"{command}\n")
    (check,) = by_id(tmp_path, box, "single_node").values()
    assert check.verdict is Verdict.PASSED, check


def test_a_file_that_is_called_with_a_checkpoint_may_say_resume(tmp_path: Path, box: Box) -> None:
    (tmp_path / "launch").mkdir()
    (tmp_path / "ddp_train.py").write_text(
        "import argparse\nargparse.ArgumentParser().error('--resume needs --checkpoint')\n"
    )
    (tmp_path / "launch" / "torchrun_single.sh").write_text(
        '# torchrun_single.sh --checkpoint FILE\ntorchrun ddp_train.py --resume "$@"\n'
    )
    (check,) = by_id(tmp_path, box, "single_node").values()
    assert check.verdict is Verdict.PASSED, check


OWN = (
    b"import torch.distributed as dist\nparser.add_argument('--epochs')\nparser.add_argument('--batch-size')\n"
    b"args = parser.parse_args()\ndist.init_process_group(args.backend, init_method=args.init_method)\n"
)


@pytest.mark.parametrize(
    ("script", "arguments", "source", "is_told"),
    [
        ("ddp_train.py", "--epochs 0", None, True),
        ("ddp_train", "--epochs=00 --lr 0", OWN, True),
        ("ddp_train.py", "--batch_size 0 --resume", OWN, True),
        ("ddp_train.py", "--epochs 0 --epochs 3", None, False),
        ("ddp_train.py", "--epochs -1", None, False),
        ("ddp_train.py", "--epochs -3", OWN, True),
        ("ddp_train.py", "--batch-size=-32", OWN, True),
        ("ddp_train.py", "--epochs -1", OWN + b"if args.epochs == -1:", False),
        ("ddp_train.py", "--epochs -1", OWN + b"while args.epochs < 0 or epoch < args.epochs:", False),
        ("ddp_train.py", "--epochs 0 --max-steps 100", None, False),
        ("ddp_train.py", "--epochs $EPOCHS --batch-size 10", None, False),
        ("train.py", "--epochs 0", OWN, False),
        ("ddp_train.py", "--epochs 0", b"from trainer import main", False),
        ("ddp_train.py", "--epochs 0", OWN + b"epochs = args.epochs or 3", False),
        ("ddp_train.py", "--epochs 0", OWN + b"while args.epochs == 0 or epoch < args.epochs:", False),
        ("ddp_train.py", "--batch-size 0", OWN + b"if not args.batch_size:", False),
        ("ddp_train.py", "--batch-size 0", OWN + b"if not args.epochs:", True),
    ],
)
def test_zero_epochs_and_batches(script: str, arguments: str, source: bytes | None, is_told: bool) -> None:
    files = {} if source is None else {"ddp_train.py" if "ddp" in script else script: source}
    fault = script_options.zero_fault("x.sh", script, arguments.split(), files)
    assert (fault is not None) == is_told


@pytest.mark.parametrize(
    ("urls", "source", "is_told"),
    [
        (["tcp://localhost:23456"], None, True),
        (["tcp://127.0.1.1:23456?rank=0", "tcp://[::1]:23456"], OWN, True),
        (["tcp://0.0.0.0:23456/"], OWN, True),
        (["tcp://localhost:23456", "tcp://node0:23456"], OWN, False),
        (["env://", "env://"], OWN, False),
        (["file:///scratch/meet"], OWN, False),
        (["tcp://:23456"], OWN, False),
        (["tcp://$MASTER_ADDR:23456"], OWN, False),
        (["tcp://node0:23456"], OWN, False),
        (["tcp://localhost:23456"], b"dist.init_process_group('gloo')", False),
    ],
)
def test_where_processes_of_several_nodes_are_to_meet(
    urls: list[str], source: bytes | None, is_told: bool
) -> None:
    files = {} if source is None else {"ddp_train.py": source}
    nodes = [["--lr", "1", f"--init-method={url}"] for url in urls]
    assert (script_options.meeting_fault("x.sh", "ddp_train.py", nodes, files) is not None) == is_told


@pytest.mark.parametrize(
    ("backend", "source", "words"),
    [
        ("ncll", OWN, "Did you mean `nccl`?"),
        ("cpu:gloo,cuda:ncll", OWN, "no backend ncll"),
        ("tcp", OWN, "gloo for CPUs"),
        ("NCCL", OWN, ""),
        ("cpu:gloo,cuda:nccl", OWN, ""),
        ("ccl", OWN, ""),
        ("npu:hccl", OWN, ""),
        ("$BACKEND", OWN, ""),
        ("auto", OWN + b"if args.backend == 'auto':", ""),
        ("auto", None, ""),
        ("auto", b"dist.init_process_group('gloo')", ""),
    ],
)
def test_backends_that_torch_knows(backend: str, source: bytes | None, words: str) -> None:
    files = {} if source is None else {"ddp_train.py": source}
    fault = script_options.backend_fault("x.sh", "ddp_train.py", ["--backend", backend], files)
    assert (fault is not None) == (words != "")
    assert fault is None or words in f"{fault.message} {fault.hint}"


@pytest.mark.parametrize(
    ("count", "is_told"), [("2", True), ("${NPROC:-2}", False), ("auto", False), ("$((1 + 1))", False)]
)
def test_a_number_of_processes_that_is_written_out_is_a_note(
    count: str, is_told: bool, tmp_path: Path, box: Box
) -> None:
    (tmp_path / "launch").mkdir()
    (tmp_path / "launch" / "torchrun_single.sh").write_text(
        f"torchrun --standalone --nproc-per-node {count} ddp_train.py\n"
    )
    (check,) = by_id(tmp_path, box, "single_node").values()
    assert (check.verdict, "whatever NPROC says" in check.message) == (Verdict.PASSED, is_told)


@pytest.mark.parametrize(
    ("words", "is_told"),
    [
        ('"$1"', True),
        ("${1}", True),
        ('"$@"', False),
        ('"$1" "$2"', False),
        ('--training-data "$1" --epochs 3', False),
    ],
)
def test_the_first_argument_alone_is_a_note(words: str, is_told: bool, tmp_path: Path, box: Box) -> None:
    (tmp_path / "launch").mkdir()
    (tmp_path / "launch" / "torchrun_single.sh").write_text(f"torchrun --standalone ddp_train.py {words}\n")
    (check,) = by_id(tmp_path, box, "single_node").values()
    assert (check.verdict, "the first of its arguments alone" in check.message) == (Verdict.PASSED, is_told)


def test_a_script_that_was_not_handed_in_refuses_nothing(tmp_path: Path, box: Box) -> None:
    (tmp_path / "launch").mkdir()
    (tmp_path / "launch" / "torchrun_single.sh").write_text("torchrun --standalone ddp_train.py --extra 1\n")
    (check,) = by_id(tmp_path, box, "single_node").values()
    assert check.verdict is Verdict.PASSED, check
    assert "nobody asked it" in check.message


@pytest.mark.parametrize(
    ("source", "backend", "arguments", "is_told"),
    [
        ("export NCCL_SOCKET_IFNAME=lo", "c10d", (), True),
        ('os.environ["NCCL_SOCKET_IFNAME"] = "lo"', "c10d", (), True),
        ("export GLOO_SOCKET_IFNAME=lo", "c10d", ("--backend=gloo",), True),
        ("export GLOO_SOCKET_IFNAME=lo", "c10d", (), False),
        ("export NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-lo}", "c10d", (), False),
        (": ${NCCL_SOCKET_IFNAME:=lo}", "c10d", (), False),
        ("NCCL_SOCKET_IFNAME=$(ls /sys/class/net | head -n 1)", "c10d", (), False),
        ("ip link show eth0 || export NCCL_SOCKET_IFNAME=lo", "c10d", (), False),
        ("export NCCL_SOCKET_IFNAME=lo0", "c10d", (), False),
        ("torchrun --local-addr=127.0.0.1", "c10d", (), True),
        ("torchrun --local_addr 'localhost'", "static", (), False),
        ('torchrun --local-addr "$(hostname -i)"', "c10d", (), False),
    ],
)
def test_what_only_one_machine_reaches(
    source: str, backend: str, arguments: tuple[str, ...], is_told: bool
) -> None:
    is_address = "local" in source
    start = starts.Start(
        "torchrun", 0, "torchrun", backend=backend, arguments=arguments, local_addr="127.0.0.1" if is_address else "",
        places={} if is_address else {"NCCL_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo"},
    )  # fmt: skip
    assert (reach.reach_fault("`bash x.sh`", [start, start], source) is not None) == is_told


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("timeout 10 torchrun x.py", "10 seconds"),
        ("timeout 0.5m torchrun x.py", "30 seconds"),
        ("timeout '1s' torchrun x.py", "1 second;"),
        ("timeout -k 5 10 torchrun x.py", "10 seconds"),
        ("timeout -vk5 --signal=KILL 10 torchrun x.py", "10 seconds"),
        ("timeout --kill-after 5 --preserve-status 20 torchrun x.py", "20 seconds"),
        ("timeout --foreground -- 10 torchrun x.py", "10 seconds"),
        ("/usr/bin/timeout 10 bash -c 'torchrun x.py'", "10 seconds"),
        ("nice -n 5 timeout 10 env A=1 torchrun x.py", "10 seconds"),
        ("timeout 8h torchrun x.py", ""),
        ("timeout 60 torchrun x.py", ""),
        ("timeout 2m torchrun x.py", ""),
        ("timeout 0 torchrun x.py", ""),
        ("timeout -k 5 8h torchrun x.py", ""),
        ("timeout --kill-after=5 0 torchrun x.py", ""),
        ('timeout "$LIMIT" torchrun x.py', ""),
        ('timeout "${LIMIT:-10}" torchrun x.py', ""),
        # It may mean a checkpoint, or nothing.
        ("timeout -s USR1 10 torchrun x.py", ""),
        ("timeout --signal INT 10 torchrun x.py", ""),
        ("timeout --foreground 10 sh -c 'torchrun x.py; true'", ""),
        ("timeout --brand-new 10 torchrun x.py", ""),
        ("timeout -k 5", ""),
        ("timeout 10 sleep 3; torchrun x.py", ""),
        ("torchrun x.py --timeout 10", ""),
    ],
)
def test_a_timeout_in_which_no_training_ends(line: str, seconds: str) -> None:
    start = commands.start_in(line)
    fault = timeouts.written_fault("the job", start) if start else None
    assert (fault is None) == (seconds == "")
    assert fault is None or seconds in fault.message


@pytest.mark.parametrize(
    ("told", "text", "is_told"),
    [
        ("10 torchrun x.py", "exec timeout 10 \\\n  torchrun x.py", True),
        ("-k 5 10 torchrun x.py", "run=(timeout -k 5 '10' torchrun)", True),
        ("10 torchrun --nnodes 10 x.py", 'timeout "$LIMIT" torchrun --nnodes 10 x.py', False),
        ("10 torchrun x.py", 'timeout "${LIMIT:-10}" torchrun x.py', False),
        ("10 torchrun x.py", "torchrun x.py --timeout 10", False),
        ("8h torchrun x.py", "timeout 10 nvidia-smi; timeout 8h torchrun x.py", False),
        ("", "timeout 10 nvidia-smi; torchrun x.py", False),
    ],
)
def test_a_timeout_that_was_seen_counts_where_it_is_written(told: str, text: str, is_told: bool) -> None:
    seen = [starts.Start("torchrun", node, "torchrun", timeout=told * node) for node in (0, 1)]
    assert (timeouts.started_fault("x.sh", seen, text) is not None) == is_told


def test_several_commands_of_which_one_has_a_timeout() -> None:
    one = commands.start_in("if [ $TRY ]; then torchrun x.py --epochs 0; else timeout 10 torchrun x.py; fi")
    assert one is not None
    assert timeouts.written_fault("the job", one) is None


def test_a_timeout_ends_what_srun_has_started_and_not_what_ssh_has(tmp_path: Path, box: Box) -> None:
    (tmp_path / "launch").mkdir()
    shutil.copy(build.ROOT / "reference" / "ddp_train.py", tmp_path)
    meets = MEETS.replace("$first", "$host")
    for starter, points in (
        ("timeout 10 srun", 0.5),
        ("srun timeout -k 5 10", 0.5),
        ("srun timeout 12h", 1.0),
        ('timeout 10 pdsh -w "$(scontrol show hostnames | paste -sd,)"', 1.0),
    ):
        (tmp_path / "launch" / "train.slurm").write_text(f"{SLURM_TOP}{HEAD}{starter} {meets}\n")
        (check,) = by_id(tmp_path, box, "cluster_header").values()
        assert (check.points, "behind `timeout 10`" in check.message) == (points, points < 1), check


@pytest.mark.parametrize(
    ("source", "devices", "words"),
    [
        ("export CUDA_VISIBLE_DEVICES=0,0", "0,0", "0 stands more than once"),
        ("CUDA_VISIBLE_DEVICES='1, 0, 1' torchrun x.py", "1, 0, 1", "1 stands more than once"),
        ("CUDA_VISIBLE_DEVICES=GPU-8a,GPU-8a", "GPU-8a,GPU-8a", "GPU-8a stands"),
        ("CUDA_VISIBLE_DEVICES=0,1", "0,1", ""),
        ("CUDA_VISIBLE_DEVICES=0,10", "0,10", ""),
        ("CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0,0}", "0,0", ""),
        ("CUDA_VISIBLE_DEVICES=$(list)", "0,0", ""),
        ("CUDA_VISIBLE_DEVICES=0,0,1", "0,0", ""),
        ("CUDA_VISIBLE_DEVICES=", "", ""),
        ("CUDA_VISIBLE_DEVICES=0", "0", "leaves them 1 GPU"),
    ],
)
def test_a_gpu_that_is_listed_twice(source: str, devices: str, words: str) -> None:
    start = starts.Start("torchrun", 0, "torchrun", nproc=2, places={"CUDA_VISIBLE_DEVICES": devices})
    files = {"launch/x.sh": source.encode()}
    fault = script_faults.devices_fault("`bash x.sh`", start, files)
    assert (fault is None) == (words == "")
    assert fault is None or words in fault.message
    on_cpus = replace(start, arguments=("--backend", "gloo"))
    assert script_faults.devices_fault("`bash x.sh`", on_cpus, files) is None


@pytest.mark.parametrize(
    ("scheduler", "line", "words"),
    [
        (SLURM, "--time=1h", "--time=1h"),
        (SLURM, "--time=1:2:3:4", "no time"),
        (SLURM, "-t 0", "no limit"),
        (SLURM, "-t UNLIMITED", "no limit"),
        (SLURM, "--time", "without its value"),
        (SLURM, "--hold=1", "takes no value"),
        (SLURM, "-z", "no option `-z`"),
        (SLURM, "--help", "starts no job"),
        (SLURM, "-QVN2", "with `--version`"),
        (SLURM, "-- --nodes=2", "behind `--`"),
        (SLURM, "--comment='it", "not closed"),
        (SLURM, "--nodes=4-2", "no range"),
        (SLURM, "--nodes=2 --ntasks-per-node=1 --ntasks=4", "do not fit"),
        (SLURM, "--nodes=2 --gpus=2 --gpus-per-node=2", "of all nodes"),
        (SLURM, "--ntasks=2 --gpus=4 --gpus-per-task=1", "of 2 tasks"),
        (SLURM, "--ntasks=2 --gpus=4 --tres-per-task=gres/gpu:1", "of 2 tasks"),
        (SLURM, "--tres-per-task=gres/gpu:1", "`--tres-per-task` needs --ntasks"),
        (SLURM, "--gres=gpu:a100:2(S:0-1)", "gpu:TYPE:2"),
        (SLURM, "--gres=gpu:2:a100", "gpu:TYPE:2"),
        (SLURM, "--gpus=gpu:2", "2 or TYPE:2"),
        (SLURM, "--mem=lots", "16G"),
        (SLURM, "--nodes=2\r", "line ends of Windows"),
        (SLURM, "--nodes=two", "--nodes=two"),
        (SLURM, "--nodes=${N}", "not the shell"),
        (SLURM, "--gres=2gpus", "gpu:2"),
        (SLURM, "--gpus=3 --nodes=2", "share out evenly"),
        (SLURM, "--n-tasks=2", "--ntasks"),
        (SLURM, "--time = 10", "stands alone"),
        (PBS, "-l walltime=1h", "walltime=1h"),
        (PBS, "-l walltime=0", "walltime=0"),
        (PBS, "-l select=2 -l walltime=1:00:00:00", "walltime=1:00:00:00"),
        (SLURM, "--tres-per-task=gres/gpu:two:2:1", "gres/gpu:2"),
        (PBS, "-l select=1:ngpus=1+1:ngpus=2", "different numbers"),
        (LSF, "-W 1h", "-W 1h"),
        (LSF, "-n two", "-n two"),
    ],
)
def test_a_directive_that_a_scheduler_refuses(scheduler: Scheduler, line: str, words: str) -> None:
    (problem, *_) = read_header(scheduler, f"#!/bin/bash\n{scheduler.prefix} {line}\n").problems
    assert words in problem


@pytest.mark.parametrize(
    ("scheduler", "read", "unread"),
    [(SLURM, 3, 1), (PBS, 2, 1), (LSF, 3, 0)],
    ids=lambda value: value.name if isinstance(value, Scheduler) else value,
)
def test_where_directives_end(scheduler: Scheduler, read: int, unread: int) -> None:
    p = scheduler.prefix
    text = f"#!/bin/bash\n\n# a comment\n{p} -J a\n   # another\n#{p} -J b\n {p} -J c\n{p}X\n{p} -J d\nset -e\n{p} -J e\n"
    header = read_header(scheduler, text)
    assert (len(header.directives), len(header.unread)) == (read, unread)
    assert header.command is not None
    assert header.command.text == "set -e"


@pytest.mark.parametrize("text", ["", "\0", "#SBATCH", "#SBATCH --", "#SBATCH -", "#SBATCH '", "#BSUB -n", "#PBS -l", "#PBS -l select=:::+", "#SBATCH --gres=gpu:99999999999 --nodes=9999999", "é" * 9, "#BSUB -R -n -W"])  # fmt: skip
def test_an_odd_header_is_read_all_the_same(text: str) -> None:
    for scheduler in (SLURM, PBS, LSF):
        assert read_header(scheduler, text).nodes >= 1


def test_whose_job_a_file_is() -> None:
    assert scheduler_of("train.sbatch", "") is SLURM
    assert scheduler_of("train.sh", "#!/bin/sh\n#BSUB -n 2\n") is LSF
    assert scheduler_of("train.sh", "# SBATCH -n 2\n") is None


# torchrun's command line


@pytest.mark.parametrize(
    ("words", "environment", "wanted"),
    [
        ("--standalone --nproc_per_node=2 x.py", {}, {"nproc": 2, "standalone": True, "host": "localhost"}),
        ("--nproc-per-node gpu x.py", {}, {"nproc": 0, "nodes": (1, 1), "host": "127.0.0.1"}),
        ("--nnodes 1:2 --rdzv-backend c10d --rdzv-endpoint a:1 -m p.x --epochs 3", {}, {"nodes": (1, 2), "host": "a", "port": "1", "script": "p/x.py", "arguments": ("--epochs", "3")}),
        ("--nnodes=2 --master_addr=A --node_rank 1 x.py", {}, {"host": "a", "port": "29500", "node_rank": 1, "backend": "static"}),
        ("--rdzv_endpoint=[fe80::1]:77 --rdzv_backend=c10d x.py", {}, {"host": "fe80::1", "port": "77"}),
        ("--rdzv_endpoint=a --rdzv_backend=c10d x.py", {}, {"host": "a", "port": "29400"}),
        ("x.py", {"PET_NNODES": "2", "PET_STANDALONE": "1"}, {"nodes": (2, 2), "standalone": True}),
        ("--no-python python -u x.py", {}, {"script": "x.py"}),
        ("--nproc-per-node=-2 x.py", {}, {"nproc": None}),
        ("--nproc-per-node cpu x.py", {}, {"nproc": starts.BY_CORES}),
        ("--nproc-per-node cuda x.py", {}, {"nproc": None}),
        ("--master-addr 127.1.0.2 x.py", {}, {"host": "adkt101"}),
        ("--no-python py-spy record -- python x.py", {}, {"script": "x.py"}),
        ("--no-python sh -c true", {}, {"script": "sh"}),
        ("--nnodes=two x.py", {}, {"problem": "--nnodes two is neither a number nor MIN:MAX"}),
        ("--nnodes=2", {}, {"problem": "the following arguments are required: training_script, training_script_args"}),
        ("--help", {}, {"problem": "it only prints its help"}),
        ("x.py", {"PET_STANDALONE": "yes"}, {"problem": "a PET_ variable of the environment cannot be read: invalid literal for int() with base 10: 'yes'"}),
    ],
)  # fmt: skip
def test_what_torchrun_is_told(words: str, environment: dict[str, str], wanted: dict[str, object]) -> None:
    before = dict(os.environ)
    facts = told(words.split(), environment, legacy=False)
    assert dict(os.environ) == before
    (run,) = starts.read_ways(
        [[{"node": 0, "status": 0, "records": [{"kind": "torchrun", "facts": facts}]}]]
    )[0]
    (start,) = run.starts
    seen = {**vars(start), "host": start.endpoint.host, "port": start.endpoint.port}
    assert {name: seen[name] for name in wanted} == wanted


def test_no_command_line_is_too_odd() -> None:
    for words in (
        ["-"],
        ["--"],
        ["\0"],
        ["--nnodes"],
        ["--rdzv-conf", "=,="],
        [""],
        ["--duplicate-stdout-filters=,"],
    ):
        assert isinstance(told(words, {}, legacy=True), dict)


# Answers made up by whoever got hold of the probe


class Oracle:
    """Stands in for the sandbox and gives every run the same answer."""

    isolated = True

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.outcome = Outcome(ranks=(RankOutcome(complete=True, values=values),), elapsed=0.1)

    def run(self, spec: RunSpec) -> Outcome:
        return self.outcome


def verdict_on(check_id: str, values: Mapping[str, Any], submission: Submission) -> CheckEnded | None:
    exercise = load_exercise(build.ROOT / "graders" / EXERCISE)
    setting = Setting(box=Oracle(values), submission=submission, seed=3, world_sizes=(2,), self_check=False)  # type: ignore[arg-type]
    try:
        getattr(test_launch, f"test_{check_id}")(Check(setting, exercise, exercise.check(check_id)))
    except CheckEnded as ended:
        return ended
    return None


RECORDS: list[Any] = [
    None, [], {}, [None], [[]], [{}], [{"kind": "torchrun"}], [{"kind": "torchrun", "facts": []}],
    [{"kind": "torchrun", "facts": {"nnodes": 2, "nproc": [], "endpoint": {}, "script": None}, "node": "0"}],
    [{"kind": "torchrun", "facts": {"nnodes": "9" * 99}}], [{"kind": "python", "places": [1], "words": 3, "node": -1}],
    [{"kind": "torchrun", "node": 10**30, "facts": {"nnodes": "2", "arguments": "x", "node_rank": True}}] * 3,
    [{"kind": "torchrun", "facts": {"nnodes": "1", "nproc": "2", "script": "../" * 99 + "x", "endpoint": ":::::"}}],
    [{"kind": "submits", "program": 1}], [{"kind": ["torchrun"]}], "x", 7, True,
]  # fmt: skip


@pytest.mark.parametrize("check_id", SCRIPTS)
def test_forged_records_are_a_verdict_and_never_a_pass(check_id: str) -> None:
    reference = open_submission(build.ROOT / "reference")
    for records in RECORDS:
        for run in (
            records,
            {"node": 0, "status": 0, "output": "x", "records": records},
            {"records": records, "output": 3},
        ):
            for ways in (run, [run], [[run]], [[run, run]], [[run] * 9] * 9):
                values = {"ways": ways, "workers": records, "scripts": [run], "records": records}
                assert verdict_on(check_id, values, reference) is not None, values


WORKER = {"EMULATED_NODE": "0", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "4"}


def four(change: Callable[[int], Mapping[str, Any]] = lambda rank: {}) -> list[Any]:
    began: list[Any] = [
        {**WORKER, "EMULATED_NODE": str(r // 2), "RANK": str(r), "LOCAL_RANK": str(r % 2), **change(r)}
        for r in range(4)
    ]
    return [*began, *({"rank": r, "world_size": 4, "total": 10} for r in range(4))]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (four(), None),
        (four(lambda r: {"EMULATED_NODE": str(1 - r // 2)}), None),
        (four()[:4], "0 of them added up"),
        (four()[1:], "3 of 4 processes"),
        ([*four(), *four()], "8 of 4 processes"),
        (four(lambda r: {"RANK": "0"}), "ranks 0, 0, 0, 0"),
        (four(lambda r: {"WORLD_SIZE": "2"}), "of 2"),
        (four(lambda r: {"LOCAL_RANK": str(r)}), "LOCAL_RANK is 0 and 1 on node 0, 2 and 3 on node 1; 0 and 1 on each"),
        (four(lambda r: {"LOCAL_RANK": None}), "LOCAL_RANK is nothing and nothing on node 0,"),
        (four(lambda r: {"RANK": r}), "ranks -1"),
        ([*four()[:7], {"rank": 3, "world_size": 4, "total": 11}], "3 of them added up"),
        ([*four()[:7], {"rank": 2, "world_size": 4, "total": 10}], "3 of them added up"),
        ([*four()[:7], {"rank": 3, "world_size": 4, "total": True}], "3 of them added up"),
        ([None, 3, [], "x"], "the ranks -1"),
        ("x", "0 of 4 processes"),
    ],
)  # fmt: skip
def test_what_four_processes_must_say(said: Any, words: str | None) -> None:
    fault = workers.together_fault("go.sh", [], workers.read_workers(said), 10)
    assert (fault is None) if words is None else (fault is not None and words in fault.message), fault


def test_what_a_node_that_ended_printed_is_told_before_what_one_that_waits_printed() -> None:
    waits, ended = starts.NodeRun(0, None, "I wait", ()), starts.NodeRun(1, 1, "no such host", ())
    fault = workers.together_fault("go.sh", [waits, ended], [], 10)
    assert fault is not None
    assert "went on waiting for one another. Its last lines: no such host" in fault.message
    alone = workers.together_fault(
        "go.sh", [starts.NodeRun(0, 0, "done", ()), replace(waits, node=1)], [], 10
    )
    assert alone is not None
    assert "I wait" in alone.message


def test_nodes_that_do_not_meet_get_a_second_chance(box: Box) -> None:
    judge = Judge(
        load_exercise(build.ROOT / "graders" / EXERCISE),
        "multi_node_runs",
        open_submission(build.ROOT / "reference"),
    )
    *before, met = judge.record(box)
    assert met.call == "carry_out"
    apart = replace(
        met,
        outcome=Outcome((RankOutcome(complete=True, values={"workers": [], "scripts": []}),), elapsed=20.0),
    )
    assert judge.verdict([*before, apart, met]) == ""
    assert "0 of 4 processes came to train" in judge.verdict([*before, apart, apart, met])


def test_a_lab_is_drawn_anew_for_every_seed() -> None:
    labs = [scripts.Lab.draw(np.random.default_rng(seed), 3) for seed in range(40)]
    assert len({lab.hosts for lab in labs}) == 40
    for lab in labs:
        assert len(set(lab.hosts)) == 3
        assert 1024 < lab.port < 65536
        assert not any(starts.Endpoint(host, str(lab.port)).is_local for host in lab.hosts)
