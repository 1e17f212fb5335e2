"""A Dask cluster of processes on this machine, of which each can be killed by its number."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


class DaskCluster:
    """A scheduler and workers, children of this process. Use `dask_cluster`."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._folder = folder
        self._workers: list[subprocess.Popen[str]] = []
        # A scheduler only carries messages: it has to do without lockstep.
        without = {"PYTHONPATH": str(unusable_lockstep(folder / "without"))}
        self._scheduler = self._start(
            "dask_scheduler", "--host", "127.0.0.1", "--port", "0", *options, environment=without
        )
        assert self._scheduler.stderr is not None
        # It says where it listens, so there is nothing to wait for but that line.
        found = (re.search(r"Scheduler at:\s*(\w+://\S+)", line) for line in self._scheduler.stderr)
        self.address = next(match[1] for match in found if match)

    def add_worker(self, *, slots: int = 1, environment: Mapping[str, str] | None = None) -> int:
        """Start a worker and return the number of its process."""
        options = ["--no-nanny", "--nthreads", str(slots), "--memory-limit", "0", "--host", "127.0.0.1"]
        options += ["--local-directory", str(self._folder)]
        worker = self._start("dask_worker", self.address, *options, environment=environment)
        self._workers.append(worker)
        return worker.pid

    def kill(self, pid: int) -> None:
        """SIGKILL to a worker."""
        (worker,) = (worker for worker in self._workers if worker.pid == pid)
        worker.kill()
        worker.wait()

    def kill_scheduler(self) -> None:
        """SIGKILL to the scheduler; its workers end by themselves."""
        self._scheduler.kill()
        self._scheduler.wait()

    def close(self) -> None:
        """End what is left."""
        # The scheduler last, and not for long: a worker that is told to end may wait for it for ever (Dask 2026.8).
        for process in [*self._workers, self._scheduler]:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stderr is not None:
                process.stderr.close()

    def _start(
        self, program: str, *options: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", f"distributed.cli.{program}", *options]
        command += ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
        with (self._folder / f"{program}.log").open("a") as log:
            return subprocess.Popen(
                command,
                cwd=self._folder,
                # Dask keeps a folder for its locks, which outlives its processes.
                env={**os.environ, "DASK_TEMPORARY_DIRECTORY": str(self._folder), **(environment or {})},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE if program == "dask_scheduler" else log,
                text=True,
            )


def unusable_lockstep(folder: Path) -> Path:
    """A folder for Python's path, below which there is a lockstep that cannot be imported."""
    (folder / "lockstep").mkdir(parents=True)
    (folder / "lockstep" / "__init__.py").write_text("raise ImportError('no torch here')\n")
    return folder


@contextmanager
def dask_cluster(folder: Path, *options: str) -> Iterator[DaskCluster]:
    """A scheduler with these options, to which workers can be added; all of it ends with the block."""
    cluster = DaskCluster(folder, *options)
    try:
        yield cluster
    finally:
        cluster.close()
