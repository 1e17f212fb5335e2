"""Processes that grade a class: the interface that a cluster has as well, and the one for this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import Pipe
from multiprocessing.connection import wait
from pathlib import Path
from typing import Protocol

from lockstep.classroom.scratch import Scratch
from lockstep.classroom.task import STOP, Began, Ended, Event, Lost, Task
from lockstep.grading import CouldNotGrade
from lockstep.sandbox import forgotten
from lockstep.sandbox.stopwatch import Stopwatch
from lockstep.text import safe_line

WORKER_TASKS = 100
"""Hand-ins after which a worker is replaced: pytest and the judges' libraries keep a little of each."""

LOOK_SECONDS = 0.5
"""How often deadlines, and whether to stop, are looked at while nothing is heard."""

MOST_SECONDS = 10.0
"""What counts of the time from one look to the next, in which pages may be written; longer, and it was Ctrl-Z."""

START_SECONDS = 600.0
"""How long a worker may take, on top of what a hand-in may, until it begins with one: it imports torch, as does the
sandbox, and on a busy machine that takes minutes."""

END_SECONDS = 15.0
"""How long a worker may take to put its sandbox away before it is killed."""

KEPT_WORDS = 4096
"""Bytes that are read of what a worker said last."""


class Pool(Protocol):
    """Grades tasks somewhere. Use as a context manager: leaving it ends every worker, whatever it is at."""

    def __enter__(self) -> Pool: ...

    def __exit__(self, *exception: object) -> None: ...

    def run(self, tasks: Iterable[Task], hear: Callable[[Event], None]) -> None:
        """Grade tasks as workers become free, and return when every one that was taken up has Ended or is Lost.

        `hear` gets the events, in this thread, those of one task in their order. No task is taken from `tasks`
        before there is a worker for it. Raises CouldNotGrade when no worker can grade anything.
        """

    def stop(self) -> None:
        """Let `run` return soon, as a signal handler may: checks under way are ended, others are not begun."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences about machines that graded nothing, and why."""


class LocalPool:
    """Worker processes on this machine, started when there is work for them."""

    def __init__(self, jobs: int, timeout: float, scratch: Scratch) -> None:
        """Grade `jobs` hand-ins at a time, each for at most `timeout` seconds."""
        self._jobs = jobs
        self._timeout = timeout
        self._scratch = scratch
        self._workers: list[_Worker] = []
        self._leaving: list[_Worker] = []
        self._stopping = False
        self._abandoned = False

    def __enter__(self) -> LocalPool:
        return self

    def __exit__(self, *exception: object) -> None:
        for worker in [*self._workers]:
            self._dismiss(worker)
        for worker in self._leaving:
            worker.wait_gone()
            worker.forget()
        self._leaving = []
        # Of workers that were killed; those that end by themselves remove their own.
        forgotten.remove()

    def stop(self) -> None:
        """See Pool."""
        self._stopping = True

    @property
    def remarks(self) -> tuple[str, ...]:
        """See Pool."""
        return ()

    def abandon(self) -> None:
        """Let `run` return at once, as another thread may: checks under way are not waited for."""
        self._stopping = self._abandoned = True

    def run(self, tasks: Iterable[Task], hear: Callable[[Event], None]) -> None:
        """See Pool."""
        coming = iter(tasks)
        more = True
        while True:
            while more and not self._stopping and self._has_room():
                task = next(coming, None)
                if task is None:
                    more = False
                else:
                    self._hand_out(task)
            busy = [worker for worker in self._workers if worker.task is not None]
            if not busy or self._abandoned:
                return
            if self._stopping:
                for worker in busy:
                    worker.stop()
            heard = wait([worker.connection for worker in busy], LOOK_SECONDS)
            for worker in busy:
                if worker.connection in heard:
                    for event in self._events(worker):
                        hear(event)
                elif worker.is_late():
                    hear(self._timed_out(worker))
            for worker in [worker for worker in self._leaving if worker.is_gone()]:
                worker.forget()
                self._leaving.remove(worker)

    def _has_room(self) -> bool:
        return sum(worker.task is not None for worker in self._workers) < self._jobs

    def _hand_out(self, task: Task) -> None:
        for worker in [worker for worker in self._workers if worker.task is None]:
            if worker.tasks < WORKER_TASKS and worker.take(task, self._timeout):
                return
            self._dismiss(worker)
        worker = _Worker(self._scratch.new())
        self._workers.append(worker)
        # Should it be gone already, that is heard like any other loss.
        worker.take(task, self._timeout)

    def _events(self, worker: _Worker) -> Iterator[Event]:
        assert worker.task is not None
        try:
            event = worker.connection.recv()
        except (EOFError, OSError):
            yield from self._gone(worker, worker.task)
            return
        worker.heard = True
        if isinstance(event, Began):
            # What it took to start a process is not the hand-in's.
            worker.give(self._timeout)
        elif isinstance(event, Ended):
            worker.task = None
        yield event

    def _gone(self, worker: _Worker, task: Task) -> Iterator[Lost]:
        """A worker closed its end: it stopped because it was told to, or it died."""
        self._dismiss(worker)
        if self._stopping:
            return
        worker.wait_gone()
        if worker.never_started():
            raise CouldNotGrade(f"a process that grades could not start: {worker.obituary()}")
        yield Lost(task.attempt, worker.obituary())

    def _timed_out(self, worker: _Worker) -> Ended:
        assert worker.task is not None
        attempt = worker.task.attempt
        self._dismiss(worker)
        return Ended(
            attempt,
            f"It took longer than the {self._timeout:g} seconds that one hand-in may take. The checks that were "
            "made are kept; a larger --timeout goes on with them.",
        )

    def _dismiss(self, worker: _Worker) -> None:
        """Let it put its sandbox away, while others go on."""
        worker.end()
        self._workers.remove(worker)
        self._leaving.append(worker)


class _Worker:
    """One worker process, from this side."""

    def __init__(self, scratch: Path) -> None:
        self.task: Task | None = None
        self.tasks = 0
        self.heard = False
        self._seconds, self._stopwatch = 0.0, Stopwatch(MOST_SECONDS)
        self._told_to_stop = False
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the process has ended
        self.connection, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                # -P: nothing in the folder that we happen to stand in is imported.
                [sys.executable, "-P", "-m", "lockstep.classroom.worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={**os.environ, "TMPDIR": str(scratch)},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
                # Ctrl-C in a terminal is the coordinator's to deal with.
                start_new_session=True,
            )

    def take(self, task: Task, timeout: float) -> bool:
        """Begin a task; False when the process is gone."""
        self.task = task
        self.tasks += 1
        self.give(START_SECONDS + timeout)
        try:
            self.connection.send(task)
        except OSError:
            return False
        return True

    def give(self, seconds: float) -> None:
        """Let it have so much time from now on."""
        self._seconds, self._stopwatch = seconds, Stopwatch(MOST_SECONDS)

    def is_late(self) -> bool:
        """Whether it has taken longer than it may."""
        return self._stopwatch.seconds() > self._seconds

    def stop(self) -> None:
        """Ask it to begin no further check."""
        if not self._told_to_stop:
            self._told_to_stop = True
            with contextlib.suppress(OSError):
                self.connection.send(STOP)

    def end(self) -> None:
        """Let go of it: it leaves its check, puts its sandbox away and ends, or is killed."""
        self.connection.close()
        self.give(END_SECONDS)

    def is_gone(self) -> bool:
        """Whether it has ended since it was let go of."""
        if self._process.poll() is None and self.is_late():
            self._process.kill()
        return self._process.poll() is not None

    def wait_gone(self) -> None:
        """Wait until it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, self._seconds - self._stopwatch.seconds()))
        self._process.kill()
        self._process.wait()

    def forget(self) -> None:
        """Close what is left of it."""
        self._said.close()

    def never_started(self) -> bool:
        """Whether it ended by itself before its first word, as it would every time; somebody may have killed it."""
        return not self.heard and self._process.returncode > 0

    def obituary(self) -> str:
        """How it ended, in words."""
        status = self._process.returncode
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        self._said.seek(0, os.SEEK_END)
        self._said.seek(max(0, self._said.tell() - KEPT_WORDS))
        lines = self._said.read().decode("utf-8", "replace").strip().splitlines()
        return f"the process that graded {how}" + (f": {safe_line(lines[-1])}" if lines else "")
