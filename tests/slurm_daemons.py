"""A Slurm of one's own that runs jobs: slurmctld, one slurmd for this machine, and munge between them.

It needs root, as slurmd does, and keeps everything in the folder that it is given. Processes are tracked by their
group, so it needs no control groups and touches none. Sources: the manual pages slurm.conf(5), cgroup.conf(5) and
munged(8) of Debian 12's Slurm 22.05 and MUNGE 0.5.15.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.slurm_cluster import (
    daemon,
    environment_without_slurm,
    free_port,
    short_hostname,
    wait_until_it_answers,
)

PROGRAMS = ("sbatch", "scancel", "scontrol", "squeue", "slurmctld", "slurmd", "munged")
PARTITION = "class"
CPUS = 4
CONFIGURATION = """
ClusterName=lockstep
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SwitchType=switch/none
MpiDefault=none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1
KillWait=5
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=8000 State=UNKNOWN
PartitionName={partition} Nodes=ALL Default=YES MaxTime=60 State=UP
"""


@dataclass(frozen=True)
class Slurm:
    """A Slurm that runs. `environment` leads its programs to it and to no other."""

    environment: Mapping[str, str]

    def jobs(self) -> list[str]:
        """Numbers of the jobs that wait, run or end."""
        return self._asked("squeue", "--noheader", "--format=%i").split()

    def about(self, job: str) -> str:
        """What it knows of a job."""
        return self._asked("scontrol", "--oneliner", "show", "job", job)

    def cancel(self, job: str) -> None:
        """End a job, as its owner or an administrator may."""
        self._asked("scancel", job)

    def _asked(self, *command: str) -> str:
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=300, check=True
        )
        return done.stdout


@contextlib.contextmanager
def slurm(folder: Path) -> Iterator[Slurm]:
    """A Slurm that keeps its files in `folder` and ends with the block."""
    for name in ("state", "spool"):
        (folder / name).mkdir()
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o600)
    configuration = folder / "slurm.conf"
    text = CONFIGURATION.format(
        host=short_hostname(),
        controller_port=free_port(),
        node_port=free_port(),
        folder=folder,
        cpus=CPUS,
        partition=PARTITION,
    )
    configuration.write_text(text)
    # It looks for one on its start; this one it finds everywhere, and none of it is used.
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    environment = {**environment_without_slurm(), "SLURM_CONF": str(configuration)}
    places = {
        "key-file": "munge.key",
        "socket": "munge.socket",
        "pid-file": "munge.pid",
        "log-file": "munge.log",
        "seed-file": "munge.seed",
    }
    munge = [f"--{option}={folder / name}" for option, name in places.items()]
    with contextlib.ExitStack() as stack:
        # --force: nobody else needs to reach its socket.
        munged = daemon(
            folder, environment, "munged", "--foreground", "--force", *munge, ready="Created socket"
        )
        stack.enter_context(munged)
        for command in (("slurmctld",), ("slurmd", "-N", short_hostname())):
            stack.enter_context(daemon(folder, environment, *command, "-D", "-f", str(configuration)))
        wait_until_it_answers(environment)
        yield Slurm(environment)
