"""A process that grades one hand-in after the other: `python -P -m lockstep.classroom.worker FD`.

Its coordinator holds the other end of the socket FD, sends tasks one at a time and reads events. When that end is
gone, so is the worker, and with it everything that it started.
"""

from __future__ import annotations

import contextlib
import os
import platform
import queue
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from lockstep.classroom.task import STOP, Began, CheckEnded, Ended, Event, Setup, Task
from lockstep.exercise import Exercise, find_exercises
from lockstep.grading import CouldNotGrade, Options, Silent, default_graders, grade
from lockstep.result import CheckResult
from lockstep.sandbox import bubblewrap
from lockstep.verdict import GraderFault, Verdict

if TYPE_CHECKING:
    from lockstep.sandbox.box import Box
    from lockstep.submission import Submission

BOX_SUBMISSIONS = 25
"""Hand-ins that one sandbox is lent to: starting one computes for seconds, and nothing is meant to last for ever."""

REPLACING = frozenset({Verdict.HUNG, Verdict.LIMIT, Verdict.FAULT})
"""After one of these the next hand-in gets a new sandbox, though nothing of a run stays in one."""

GONE_SECONDS = 20.0
"""How long a worker without a coordinator may take to put its sandbox away."""


def machine_problem(setup: Setup) -> str | None:
    """Why nothing can be graded on this machine, as a sentence; None when it can."""
    if setup.sandbox != "none" and (refusal := bubblewrap.refusal()) is not None:
        return refusal
    if setup.device == "cuda" and not bubblewrap.gpu_devices():
        return "there is no NVIDIA GPU that a process can open (no /dev/nvidia0), and `--device cuda` asks for one"
    return None


@dataclass(frozen=True)
class _Kind:
    """What a sandbox has to be like for a task."""

    graders: Path
    isolated: bool
    real_gpus: int


class Grader:
    """Grades tasks in this process and thread, one after the other, with a sandbox that stays warm between them."""

    def __init__(self, stopping: Callable[[], bool] = lambda: False) -> None:
        """Once `stopping` is true, `grade` raises KeyboardInterrupt at the end of a check."""
        self._stopping = stopping
        self._box: Box | None = None
        self._kind: _Kind | None = None
        self._known: frozenset[str] = frozenset()
        self._lent = 0
        self._is_worn = False

    def grade(self, task: Task, hear: Callable[[Event], None]) -> None:
        """Grade one hand-in; `hear` gets every event, an Ended last. Raises KeyboardInterrupt when it was stopped."""
        graders = Path(task.setup.graders) if task.setup.graders else default_graders()
        exercises = {exercise.id: exercise for exercise in find_exercises(graders)}
        listener = _Listener(task, exercises, hear, self._stopping)
        if listener.nothing_left:
            hear(Ended(task.attempt))
            return
        box = self._lend(task, graders, exercises)
        if any(exercises[name].probe.exists() for name in task.exercises if name in exercises):
            listener.wait = box.wait_ready
        try:
            grade(_options(task, graders), listener, box)
        except CouldNotGrade as refusal:
            hear(Ended(task.attempt, listener.problem or str(refusal)))
        else:
            hear(Ended(task.attempt))
        self._lent += 1
        self._is_worn = self._lent >= BOX_SUBMISSIONS or bool(listener.seen & REPLACING)

    def close(self) -> None:
        """Put the sandbox away."""
        box, self._box = self._box, None
        if box is not None:
            box.close()

    def _lend(self, task: Task, graders: Path, exercises: Mapping[str, Exercise]) -> Box:
        setup = task.setup
        real_gpus = len(bubblewrap.gpu_devices()) if setup.device == "cuda" else 0
        kind = _Kind(graders, setup.sandbox != "none", real_gpus)
        fits = kind == self._kind and self._known.issuperset(task.exercises)
        if self._box is None or not fits or self._is_worn:
            old, self._box = self._box, None
            known = self._known if kind == self._kind else frozenset()
            self._kind, self._known = kind, known.union(task.exercises)
            # The new one warms up while the old one is put away and the hand-in is read.
            self._box, self._lent, self._is_worn = self._open(exercises), 0, False
            if old is not None:
                old.close()
        return self._box

    def _open(self, exercises: Mapping[str, Exercise]) -> Box:
        from lockstep.sandbox.box import open_box

        assert self._kind is not None
        known = [exercise for name, exercise in exercises.items() if name in self._known]
        return open_box(known, isolated=self._kind.isolated, real_gpus=self._kind.real_gpus)


class _Listener(Silent):
    """Turns what happens while a task is graded into the events of a worker."""

    def __init__(
        self,
        task: Task,
        exercises: Mapping[str, Exercise],
        hear: Callable[[Event], None],
        stopping: Callable[[], bool],
    ) -> None:
        self._task = task
        self._hear = hear
        self._stopping = stopping
        self._positions = {
            (name, check.id): position
            for name in task.exercises
            if name in exercises
            for position, check in enumerate(exercises[name].checks)
        }
        done = {(name, result.id) for name, result in task.done}
        self.nothing_left = bool(self._positions) and done.issuperset(self._positions)
        self.seen: set[Verdict] = set()
        self.problem = ""
        self.wait: Callable[[], None] = lambda: None

    def started(self, total_checks: int, submission: Submission) -> None:
        """Say who grades. Raises CouldNotGrade when these are not the files that the grade would be written for."""
        if self._task.digest and submission.digest != self._task.digest:
            self.problem = "The files changed after they were taken in. Grade again."
            raise CouldNotGrade(self.problem)
        # Or the first check would be said to have taken as long as the sandbox to start. One that does not is told
        # by the checks that need it.
        with contextlib.suppress(GraderFault):
            self.wait()
        self._hear(Began(self._task.attempt, platform.node(), total_checks))

    def check_done(self, exercise: str, result: CheckResult) -> None:
        """Say how it ended at once: nothing that was said is lost with this process."""
        self.seen.add(result.verdict)
        position = self._positions[exercise, result.id]
        self._hear(CheckEnded(self._task.attempt, exercise, position, result))
        if self._stopping():
            raise KeyboardInterrupt


def _options(task: Task, graders: Path) -> Options:
    return Options(
        submission=Path(task.path),
        exercises=task.exercises,
        seed=task.seed,
        sandbox=task.setup.sandbox,
        device=task.setup.device,
        world_sizes=task.setup.world_sizes,
        done=task.done,
        graders=graders,
    )


class _Orders:
    """What the coordinator says, read by a thread of its own: it may say stop, or vanish, while a check runs."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._main = threading.main_thread()
        threading.Thread(target=self._read, daemon=True).start()

    def stopping(self) -> bool:
        """Whether nothing more is to be begun."""
        return self._stopping.is_set()

    def next(self) -> Task | None:
        """Wait for a task; None when there will be none any more."""
        return self._tasks.get()

    def _read(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while (order := self._connection.recv()) != STOP:
                self._tasks.put(order)
            self._stopping.set()
            self._tasks.put(None)
            self._connection.recv()  # comes back when the coordinator has let go
        self._stopping.set()
        self._tasks.put(None)
        assert self._main.ident is not None
        # Into the present check, which may be a long one. The handler lets in only the first.
        signal.pthread_kill(self._main.ident, signal.SIGTERM)
        self._main.join(GONE_SECONDS)
        os._exit(1)


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def main() -> int:
    """Serve the coordinator at the other end of a socket until it lets go; the exit status is 0."""
    connection: Connection = Connection(int(sys.argv[1]))
    signal.signal(signal.SIGTERM, _interrupt)
    orders = _Orders(connection)
    grader = Grader(orders.stopping)
    try:
        while (task := orders.next()) is not None:
            grader.grade(task, connection.send)
    except (KeyboardInterrupt, BrokenPipeError):
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        grader.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
