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
START_SECONDS = 60
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
            command, env=self.environment, cwd=job.parent, capture_output=True, text=True, timeout=300
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


def missing_programs(programs: Sequence[str] = PROGRAMS) -> Sequence[str]:
    """What has to be installed first."""
    return [name for name in programs if shutil.which(name, path=environment_without_slurm()["PATH"]) is None]


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A controller that keeps its files in `folder` and ends with the block."""
    (folder / "state").mkdir()
    configuration = folder / "slurm.conf"
    configuration.write_text(_configuration(folder))
    (folder / "gres.conf").touch()
    environment = {**environment_without_slurm(), "SLURM_CONF": str(configuration)}
    # -D: in the foreground, a child of this process, which so can end it without looking for it.
    with daemon(folder, environment, "slurmctld", "-D", "-f", str(configuration)):
        wait_until_it_answers(environment)
        yield Cluster(environment)


@contextmanager
def daemon(folder: Path, environment: Mapping[str, str], *command: str, ready: str = "") -> Iterator[None]:
    """A program that runs as long as the block, which begins when it has printed `ready`, if anything."""
    with (folder / f"{command[0]}.out").open("wb") as output:
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE if ready else output, stderr=subprocess.STDOUT
        )
        try:
            if ready and not any(ready.encode() in line for line in process.stdout or ()):
                raise RuntimeError(f"{command[0]} ended before it was ready")
            yield
        finally:
            process.terminate()
            try:
                process.communicate(timeout=300)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


def wait_until_it_answers(environment: Mapping[str, str]) -> None:
    """Wait for a controller that was just started; Slurm's programs wait for one that does not answer yet."""
    command = ["scontrol", "show", "partition"]
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, timeout=START_SECONDS, check=True)


def free_port() -> int:
    """A port that was free a moment ago: Slurm takes no port 0."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def short_hostname() -> str:
    """The name by which Slurm knows this machine."""
    return socket.gethostname().partition(".")[0]


def environment_without_slurm() -> dict[str, str]:
    """This process's own, with the folders of daemons on the path."""
    # On a cluster's login node there may be options for every job, SBATCH_PARTITION for example.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SBATCH"))}
    return {**kept, "PATH": f"{kept.get('PATH', os.defpath)}:/usr/sbin:/sbin"}


def _configuration(folder: Path) -> str:
    text = CONFIGURATION.format(
        host=short_hostname(), port=free_port(), user=getpass.getuser(), folder=folder
    )
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
