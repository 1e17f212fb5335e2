"""A Slurm controller of one's own, to ask a real `sbatch --test-only` what it reads in a job's file.

It knows many nodes and none of them exists: nodes of the state CLOUD may be scheduled without being there, and
`--test-only` starts nothing. So no slurmd is needed, no munge, no root, and nothing outside the folder it is
given; the port is open to this machine alone. Sources: the manual pages slurm.conf(5) and sbatch(1) of Slurm
22.05, which is Debian 12's.
"""

from __future__ import annotations

import getpass
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("sbatch", "scontrol", "slurmctld")
# Partition `gpus3` has nodes of 3 GPUs each, so many of every type; nothing but their GPUs tells nodes apart.
MOST_GPUS = 8
TYPES = ("a100", "h100", "v100")
NODES = 4
CONFIGURATION = """
ClusterName=lockstep
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
CommunicationParameters=NoCtldInAddrAny
SlurmUser={user}
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SwitchType=switch/none
MpiDefault=none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu,tmp
SlurmctldParameters=cloud_dns
SuspendProgram=/bin/true
ResumeProgram=/bin/true
SuspendTime=300
"""


@dataclass(frozen=True)
class Answer:
    """What sbatch said. `options` are those that it read, by name; `nodes` and `processors` what it would give."""

    accepted: bool
    output: str
    options: Mapping[str, str]
    nodes: int = 0
    processors: int = 0


@dataclass(frozen=True)
class Cluster:
    """A controller that runs. `environment` leads Slurm's programs to it and to no other."""

    environment: Mapping[str, str]

    def ask(self, job: Path, *options: str) -> Answer:
        """What `sbatch --test-only` says of a job's file; `options` outweigh those of the file."""
        command = ["sbatch", "--test-only", "--verbose", *options, str(job)]
        done = subprocess.run(
            command, env=self.environment, cwd=job.parent, capture_output=True, text=True, timeout=60
        )
        if "Unable to contact slurm controller" in done.stderr:
            raise RuntimeError(done.stderr)
        read = re.findall(r"^sbatch: ([a-z0-9-]+) +: (.*)$", done.stderr, re.MULTILINE)
        given = re.search(r"Job \d+ to start at \S+ using (\d+) processors on nodes (\S*) in ", done.stderr)
        if done.returncode or given is None:
            return Answer(False, done.stderr, dict(read))
        return Answer(True, done.stderr, dict(read), _hosts(given[2]), int(given[1]))

    def gpus_per_node(self, job: Path) -> int | None:
        """How many GPUs its nodes must have at least; None where even the most are too few."""
        counts = range(MOST_GPUS + 1)
        return next((n for n in counts if self.ask(job, f"--partition=gpus{n}").accepted), None)


def missing_programs() -> Sequence[str]:
    """What has to be installed first."""
    return [name for name in PROGRAMS if shutil.which(name, path=_environment()["PATH"]) is None]


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A controller that keeps its files in `folder` and ends with the block."""
    (folder / "state").mkdir()
    configuration = folder / "slurm.conf"
    configuration.write_text(_configuration(folder))
    (folder / "gres.conf").touch()
    environment = {**_environment(), "SLURM_CONF": str(configuration)}
    with (folder / "slurmctld.out").open("wb") as output:
        # -D: in the foreground, a child of this process, which so can end it without looking for it.
        controller = subprocess.Popen(
            ["slurmctld", "-D", "-f", str(configuration)], env=environment, stdout=output, stderr=output
        )
        try:
            # Slurm's programs wait for a controller that does not answer yet.
            subprocess.run(
                ["scontrol", "show", "partition"],
                env=environment,
                stdout=subprocess.DEVNULL,
                timeout=60,
                check=True,
            )
            yield Cluster(environment)
        finally:
            controller.terminate()
            try:
                controller.wait(30)
            except subprocess.TimeoutExpired:
                controller.kill()
                controller.wait()


def _environment() -> dict[str, str]:
    # On a cluster's login node there may be options for every job, SBATCH_PARTITION for example.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SBATCH"))}
    return {**kept, "PATH": f"{kept.get('PATH', os.defpath)}:/usr/sbin:/sbin"}


def _configuration(folder: Path) -> str:
    # Ports that were free a moment ago: Slurm takes no port 0.
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    host = socket.gethostname().partition(".")[0]
    text = CONFIGURATION.format(host=host, port=port, user=getpass.getuser(), folder=folder)
    for count in range(MOST_GPUS + 1):
        groups = {kind: f"{kind}x{count}n[1-{NODES}]" for kind in TYPES}
        for kind, names in groups.items():
            gpus = f"gpu:{kind}:{count}," if count else ""
            text += f"NodeName={names} CPUs=64 RealMemory=500000 Gres={gpus}tmp:100 State=CLOUD\n"
        text += f"PartitionName=gpus{count} Nodes={','.join(groups.values())} MaxTime=INFINITE State=UP\n"
    return text + "PartitionName=every Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"


def _hosts(names: str) -> int:
    """How many hosts `a[1-2,4],b` names."""
    count = 0
    for _, ranges in re.findall(r"([^,\[]+)(?:\[([^\]]*)\])?", names):
        for part in (ranges or "0").split(","):
            first, _, last = part.partition("-")
            count += int(last or first) - int(first) + 1
    return count
