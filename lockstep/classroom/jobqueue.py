"""Workers as jobs of a queue: what the TOML of `--cluster-config` says, and the jobs that dask-jobqueue submits for it.

The scheduler runs in this process and speaks TLS with keys that are made for one grading: the computers of a queue are
shared, and whoever may speak to a Dask scheduler may run programs in its owner's name. It serves no dashboard.
"""

from __future__ import annotations

import contextlib
import importlib
import shlex
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from lockstep.grading import CouldNotGrade
from lockstep.text import safe_line

if TYPE_CHECKING:
    from dask_jobqueue.core import JobQueueCluster
    from distributed.security import Security

CLUSTERS: Mapping[str, tuple[str, str]] = {
    "slurm": ("SLURMCluster", "account"),
    "pbs": ("PBSCluster", "account"),
    "lsf": ("LSFCluster", "project"),
    "sge": ("SGECluster", "project"),
}
"""The queues, each with dask-jobqueue's class and with what the class calls an account."""

SUBMISSIONS = 3
"""Jobs that are submitted for each one that was asked for: a lost one is replaced, but not for ever."""

END_SECONDS = 10.0
"""How long jobs may take to end by themselves before they are cancelled."""


@dataclass(frozen=True)
class Jobs:
    """The keys of the TOML. `cores`, `memory` and `walltime` are those of one job, in the spelling of the queue.

    A job grades as many hand-ins at a time as it has cores. `directives` are further lines of its header, `prologue`
    further lines of its script; `python` is the interpreter of the environment that holds lockstep there. `folder` is
    where keys and logs lie: every node has to see it. After `wait_minutes` without a node that grades, the grading
    ends. `tls_*` are the files to speak to a scheduler at `tls://...` with.
    """

    jobs: int = 0
    cores: int = 0
    memory: str = ""
    queue: str | None = None
    account: str | None = None
    walltime: str | None = None
    directives: tuple[str, ...] = ()
    prologue: tuple[str, ...] = ()
    python: str = sys.executable
    interface: str | None = None
    folder: str | None = None
    wait_minutes: float | None = None
    tls_ca_file: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None


def read_jobs(path: Path | None) -> Jobs:
    """What a TOML file says; all of it may be missing. Raises CouldNotGrade with a sentence."""
    if path is None:
        return Jobs()
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CouldNotGrade(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CouldNotGrade(f"{path} is not TOML: {error}") from error
    types = get_type_hints(Jobs)
    if unknown := sorted(set(table) - set(types)):
        known = ", ".join(field.name for field in fields(Jobs))
        raise CouldNotGrade(f"{path}: {unknown[0]} is no key of this file; there are {known}")
    values = {key: _value(f"{path}: {key}", value, types[key]) for key, value in table.items()}
    return Jobs(**values)


def _value(place: str, value: object, kind: Any) -> Any:
    if get_args(kind) and not isinstance(kind, UnionType):
        if not isinstance(value, list):
            raise CouldNotGrade(f"{place} is a list of texts, such as ['one', 'two']")
        return tuple(_value(place, item, str) for item in value)
    wanted = get_args(kind)[0] if isinstance(kind, UnionType) else kind
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if wanted is str:
        if not isinstance(value, str) or not value or not value.isprintable():
            raise CouldNotGrade(f"{place} is a text of one line in quotation marks, not {value!r}")
        return value
    if not number or float(str(value)) <= 0 or (wanted is int and not isinstance(value, int)):
        what = "a whole number from 1 on" if wanted is int else "a number above 0"
        raise CouldNotGrade(f"{place} is {what}, not {value!r}")
    return value


class JobQueue:
    """Jobs of one queue and the scheduler that they report to. Use as a context manager: leaving it ends them all."""

    def __init__(self, kind: str, jobs: Jobs, folder: Path) -> None:
        """Start a scheduler in this process; `folder` is made where it is missing. Raises CouldNotGrade."""
        if missing := [key for key in ("jobs", "cores", "memory") if not getattr(jobs, key)]:
            raise CouldNotGrade(
                f"--cluster {kind} needs a --cluster-config FILE that says {' and '.join(missing)}; "
                "docs/cluster.md has an example"
            )
        self.kind = kind
        self.logs = folder.absolute()
        self.wanted = jobs.jobs
        if any(character.isspace() for character in str(self.logs)):
            raise CouldNotGrade(
                f"the folder for keys and logs of jobs, {self.logs}, has a space in its path, which queues do not "
                "take; name another as `folder` in the file for --cluster-config"
            )
        self._jobs = jobs
        self._problem: str | None = None
        self._running: dict[str, Any] = {}
        self._submitted = 0
        self._began: set[str] = set()
        with contextlib.ExitStack() as stack:
            try:
                self.logs.mkdir(parents=True, exist_ok=True)
                self._private = Path(tempfile.mkdtemp(prefix="private-", dir=self.logs))
                stack.callback(shutil.rmtree, self._private, ignore_errors=True)
                self._cluster: JobQueueCluster = self._start(make_keys(self._private))
                stack.callback(self._cluster.close)
            except (OSError, ValueError, RuntimeError) as error:
                said = safe_line(str(error))
                raise CouldNotGrade(f"the jobs of {self.kind} cannot be prepared: {said}") from error
            self._kept = stack.pop_all()

    def _start(self, security: Security) -> JobQueueCluster:
        import dask

        class_name, account = CLUSTERS[self.kind]
        jobs = self._jobs
        options = {
            account: jobs.account,
            "queue": jobs.queue,
            "walltime": jobs.walltime,
            "cores": jobs.cores,
            "memory": jobs.memory,
            "processes": 1,
            "interface": jobs.interface,
            "python": shlex.quote(jobs.python),
            "job_name": "lockstep",
            "job_extra_directives": list(jobs.directives),
            "log_directory": str(self.logs),
            "security": security,
            # A job is one worker: when that is gone, so is the job, and the queue gives its place to the next.
            "nanny": False,
            "worker_extra_args": ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"],
            "scheduler_options": {"dashboard": False, "dashboard_address": "127.0.0.1:0"},
        }
        settings = {
            # Its web server cannot be turned off, but has nothing to serve, and serves it to this machine alone.
            "distributed.scheduler.http.routes": [],
            # The scheduler keeps a folder for its locks, which outlives it.
            "temporary-directory": str(self._private),
        }
        with dask.config.set(settings):
            cluster: JobQueueCluster = getattr(importlib.import_module("dask_jobqueue"), class_name)(
                **options
            )
            return cluster

    @property
    def cluster(self) -> JobQueueCluster:
        """What a Dask client connects to."""
        return self._cluster

    def __enter__(self) -> JobQueue:
        return self

    def __exit__(self, *_: object) -> None:
        running, self._running = self._running, {}
        self._dismiss([name for name in running if name in self._began])
        for job in running.values():
            # One that cannot be cancelled ends by itself: its worker finds no scheduler any more.
            with contextlib.suppress(Exception):
                self._cluster.sync(job.close)
        self._kept.close()

    def _dismiss(self, names: Collection[str]) -> None:
        """Let workers end by themselves: signalled while their scheduler goes, they may never do so (Dask 2026.8)."""
        scheduler = self._cluster.scheduler
        if names and scheduler is not None:
            with contextlib.suppress(Exception):
                self._cluster.sync(
                    scheduler.retire_workers, names=list(names), close_workers=True, remove=False
                )
        deadline = time.monotonic() + END_SECONDS
        while time.monotonic() < deadline and any(self._status(name) is None for name in names):
            time.sleep(0.1)

    @property
    def gone(self) -> str | None:
        """Why no job is left that could start a worker; None while there is one."""
        if self._running:
            return None
        ended = f"the jobs of {self.kind} ended before the class was graded; their logs are in {self.logs}"
        return self._problem or ended

    def look(self, alive: Collection[str]) -> list[str]:
        """Submit what is missing; `alive` are the names of the workers that report. Returns sentences about it."""
        said = []
        self._began |= set(alive)
        for name in list(self._running):
            if name in alive:
                continue
            if name in self._began:
                self._forget(name)
                said.append(f"a job of {self.kind} ended ({name})")
            elif (status := self._status(name)) is not None:
                self._forget(name)
                said.append(
                    f"a job of {self.kind} ended with status {status} before it could grade ({name}); its log is in "
                    f"{self.logs}"
                )
        missing = min(self.wanted - len(self._running), SUBMISSIONS * self.wanted - self._submitted)
        if missing > 0 and self._problem is None:
            try:
                for _ in range(missing):
                    self._submit()
                said.append(
                    f"{missing} {'job was' if missing == 1 else 'jobs were'} submitted to {self.kind}"
                )
            except CouldNotGrade as refusal:
                self._problem = str(refusal)
                said.append(self._problem)
        return said

    def _submit(self) -> None:
        self._submitted += 1
        name = f"lockstep-{self._submitted}"
        spec = self._cluster.new_spec
        # A queue says in its own way, or not at all, that a job has ended; the folder is there in any case.
        note = f"{{ echo $? >{shlex.quote(str(self._ended(name)))}; }} 2>/dev/null"
        prologue = [f"trap {shlex.quote(note)} EXIT", *self._jobs.prologue]
        job = spec["cls"](
            self._cluster.scheduler_address,
            name=name,
            **{**spec["options"], "job_script_prologue": prologue},
        )
        try:
            self._cluster.sync(job.start)
        except FileNotFoundError as error:
            raise CouldNotGrade(
                f"there is no program {error.filename} on this machine; --cluster {self.kind} submits jobs with it, "
                "so start the grading where jobs are submitted"
            ) from error
        except (RuntimeError, ValueError) as error:
            raise CouldNotGrade(
                f"{self.kind} does not take the job: {_complaint(error)}; what --cluster-config says has to suit it"
            ) from error
        self._running[name] = job

    def _forget(self, name: str) -> None:
        self._cluster.sync(self._running.pop(name).close)

    def _status(self, name: str) -> str | None:
        try:
            return safe_line(self._ended(name).read_text()) or None
        except OSError:
            return None

    def _ended(self, name: str) -> Path:
        return self._private / f"{name}.ended"


def make_keys(folder: Path) -> Security:
    """Make keys for one grading, and put them into files of this folder: the jobs are given their paths."""
    from distributed.security import Security

    made = Security.temporary().get_tls_config_for_role("worker")
    places = {}
    for name, text in made.items():
        if isinstance(text, str) and "\n" in text:
            places[name] = folder / f"{name}.pem"
            places[name].write_text(text)
    roles, names = ("client", "scheduler", "worker"), ("key", "cert")
    own = {f"tls_{role}_{name}": str(places[name]) for role in roles for name in names}
    return Security(require_encryption=True, tls_ca_file=str(places["ca_file"]), **own)


def _complaint(error: Exception) -> str:
    """What the queue's own program said, out of dask-jobqueue's report of its call."""
    _, found, said = str(error).partition("stderr:\n")
    return safe_line(said if found else str(error), 300)
