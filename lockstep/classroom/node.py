"""What runs inside a Dask worker on another machine: a look at what is there, and the gradings of one coordinator.

Nothing is graded in the Dask worker itself. It starts the same processes that grade on a single machine, and hands on
what they say, check by check.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import pickle
import platform
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from distributed import Worker, WorkerPlugin

from lockstep.classroom.fingerprint import fingerprints, versions
from lockstep.classroom.parcel import Parcel, unpack
from lockstep.classroom.pool import LocalPool
from lockstep.classroom.scratch import Scratch
from lockstep.classroom.task import Ended, Event, Lost, Setup, Task
from lockstep.classroom.worker import machine_problem
from lockstep.exercise import ExerciseError, find_exercises
from lockstep.grading import default_graders
from lockstep.members import SubmissionError
from lockstep.text import safe_line

SPOKEN = ("node.py", "parcel.py", "pool.py", "task.py", "worker.py")
"""Files of this folder that have to be the same on both sides, so that they understand each other."""

PLUGIN = "lockstep"
"""The one name under which gradings are known to a Dask worker: whoever comes later takes it over."""

TAKEN_OVER = "another grading took this Dask worker over"

IDLE_SECONDS = 300.0
"""After that long without a task a process that grades is ended: its coordinator may have been killed."""


@dataclass(frozen=True)
class Look:
    """What a machine has: versions by name, and hashes of all files that have a part in a grade, by what they are for.

    `problem` says why it cannot grade at all.
    """

    host: str
    versions: Mapping[str, str]
    files: Mapping[str, str]
    problem: str | None


@dataclass(frozen=True)
class Told:
    """What a node says about an assignment: an event, or without one that it does not go on with it.

    `unfit` says why it can grade nothing more; it is empty where it was asked to stop.
    """

    number: int
    event: Event | None
    unfit: str = ""


def look_around(setup: Setup) -> Look:
    """What this machine has. May take seconds: a sandbox is tried."""
    graders = Path(setup.graders) if setup.graders else default_graders()
    here = Path(__file__)
    files = {name: hashlib.sha256(here.with_name(name).read_bytes()).hexdigest() for name in SPOKEN}
    try:
        exercises = find_exercises(graders)
        problem = None if exercises else f"there are no graders in {graders}"
        files.update(fingerprints(exercises, setup))
    except (ExerciseError, OSError) as error:
        problem = f"its graders cannot be read: {error}"
    return Look(platform.node(), versions(), files, problem or machine_problem(setup))


async def look(setup: Setup) -> Look:
    """`look_around`, without keeping a Dask worker from its heartbeats."""
    return await asyncio.to_thread(look_around, setup)


async def take_over(gradings: Gradings, dask_worker: Worker) -> None:
    """Let this Dask worker grade for a coordinator, and for no other any more."""
    await dask_worker.plugin_add(gradings, name=PLUGIN, catch_errors=False)


async def begin(topic: str, assignment: int, task: Task, parcel: Parcel, dask_worker: Worker) -> None:
    """Begin a task and return at once. Raises RuntimeError where another coordinator took over."""
    gradings = dask_worker.plugins.get(PLUGIN)
    if not isinstance(gradings, Gradings) or gradings.topic != topic:
        raise RuntimeError(TAKEN_OVER)
    gradings.begin(assignment, task, parcel)


async def stop(topic: str, dask_worker: Worker) -> None:
    """End what was begun for a coordinator when the present checks are done, and return at once."""
    gradings = dask_worker.plugins.get(PLUGIN)
    if isinstance(gradings, Gradings) and gradings.topic == topic:
        gradings.stop()


async def leave(topic: str, dask_worker: Worker) -> None:
    """End at once whatever was begun for a coordinator."""
    gradings = dask_worker.plugins.get(PLUGIN)
    if isinstance(gradings, Gradings) and gradings.topic == topic:
        await dask_worker.plugin_remove(PLUGIN)


class Gradings(WorkerPlugin):
    """The gradings of one coordinator on one Dask worker. Their processes stay warm between tasks."""

    name = PLUGIN

    def __init__(self, topic: str, timeout: float) -> None:
        """Say what happens under a `topic`; a hand-in may take `timeout` seconds. Travels before it is set up."""
        self.topic = topic
        self._timeout = timeout

    def setup(self, worker: Worker) -> None:
        """See WorkerPlugin."""
        self._worker = worker
        self._lock = threading.Lock()
        self._stopping = self._ending = False
        self._idle: dict[LocalPool, threading.Timer] = {}
        self._busy: dict[LocalPool, threading.Thread] = {}
        self._register = _Register(Path(worker.local_directory))
        self._handins = self._register.scratch.new()

    async def teardown(self, worker: Worker) -> None:
        """See WorkerPlugin."""
        await asyncio.to_thread(self._end)

    def stop(self) -> None:
        """Let what is under way end with its present check."""
        with self._lock:
            self._stopping = True
            for pool in self._busy:
                pool.stop()

    def begin(self, assignment: int, task: Task, parcel: Parcel) -> None:
        """Grade in a thread of its own. Raises RuntimeError once it is to end."""
        with self._lock:
            if self._stopping or self._ending:
                raise RuntimeError(TAKEN_OVER)
            pool, timer = self._idle.popitem() if self._idle else (self._new_pool(), None)
            thread = threading.Thread(target=self._grade, args=(pool, assignment, task, parcel), daemon=True)
            self._busy[pool] = thread
        if timer is not None:
            timer.cancel()
        thread.start()

    def _new_pool(self) -> LocalPool:
        return LocalPool(1, self._timeout, self._register.scratch)

    def _grade(self, pool: LocalPool, assignment: int, task: Task, parcel: Parcel) -> None:
        last = Told(assignment, None)

        def hear(event: Event) -> None:
            nonlocal last
            if isinstance(event, Ended | Lost):
                last = Told(assignment, event)
            else:
                self._tell(Told(assignment, event))

        try:
            with tempfile.TemporaryDirectory(dir=self._handins) as folder:
                pool.run([replace(task, path=str(unpack(parcel, Path(folder))))], hear)
        except SubmissionError as error:
            last = Told(assignment, Ended(task.attempt, str(error)))
        except Exception as error:  # whatever it is, nobody else would hear of it
            last = Told(assignment, None, safe_line(str(error)) or type(error).__name__)
        if last.event is None and self._ending:
            last = Told(assignment, None, TAKEN_OVER)
        self._put_back(pool)
        # Only now: the next task comes at once, and is to find these processes warm.
        self._tell(last)

    def _put_back(self, pool: LocalPool) -> None:
        with self._lock:
            del self._busy[pool]
            if not self._ending and not self._stopping:
                timer = threading.Timer(IDLE_SECONDS, self._dismiss, [pool])
                timer.daemon = True
                self._idle[pool] = timer
                timer.start()
                return
        pool.__exit__()

    def _dismiss(self, pool: LocalPool) -> None:
        with self._lock:
            idle = self._idle.pop(pool, None)
        if idle is not None:
            pool.__exit__()

    def _tell(self, told: Told) -> None:
        self._worker.log_event(self.topic, pickle.dumps(told))

    def _end(self) -> None:
        with self._lock:
            self._ending = True
            idle, self._idle = self._idle, {}
            busy = dict(self._busy)
        for pool in busy:
            pool.abandon()
        for pool, timer in idle.items():
            timer.cancel()
            pool.__exit__()
        for thread in busy.values():
            thread.join()
        self._register.close()


class _Register:
    """The scratch folders of one Dask worker, listed beside its own folder; those of killed workers go first."""

    def __init__(self, own: Path) -> None:
        for lock in own.parent.glob("lockstep-*.lock"):
            with lock.open("a") as file:
                if _locks(file):  # whoever held it is gone
                    with Scratch(lock.with_suffix("")):
                        lock.unlink(missing_ok=True)
        self._lock = (own.parent / f"lockstep-{own.name}.lock").open("a")
        _locks(self._lock)
        self.scratch = Scratch(Path(self._lock.name).with_suffix(""))

    def close(self) -> None:
        """Remove the folders."""
        with self.scratch:
            Path(self._lock.name).unlink(missing_ok=True)
        self._lock.close()


def _locks(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
