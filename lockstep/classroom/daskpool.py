"""The pool whose processes run on the workers of a Dask cluster.

Dask starts workers, finds them and carries messages. Which hand-in is graded where is decided here, so that every
assignment has a number and nothing is graded twice: what a worker that was given up still says belongs to a number
that nobody knows any more. Dask's own scheduling, which repeats a task by itself, is not used.
"""

from __future__ import annotations

import contextlib
import pickle
import queue
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from distributed import Client

from lockstep.classroom.jobqueue import JobQueue
from lockstep.classroom.node import Gradings, Look, Told, begin, leave, look, look_around, stop, take_over
from lockstep.classroom.parcel import Parcel, pack
from lockstep.classroom.task import Ended, Event, Lost, Setup, Task
from lockstep.grading import CouldNotGrade
from lockstep.members import SubmissionError
from lockstep.text import safe_line

LOOK_SECONDS = 0.5
"""How often it is looked which workers there are."""

ANSWER_SECONDS = 60
"""How long a scheduler may take to answer, busy as it may be."""


@dataclass
class _Node:
    """A Dask worker. `fit` is None until it was looked at."""

    address: str
    shown: str
    slots: int
    fit: bool | None = None
    running: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class _Looked:
    """A worker said what it has, or nothing of use."""

    key: tuple[str, str]
    answer: Look | Exception


@dataclass(frozen=True)
class _NotBegun:
    """A worker did not take an assignment."""

    number: int
    unfit: str


class DaskPool:
    """Processes that grade on the workers of a Dask cluster; see Pool."""

    def __init__(
        self,
        where: str,
        client: Client,
        jobs: JobQueue | None,
        setup: Setup,
        timeout: float,
        wait_seconds: float,
        say: Callable[[str], None],
    ) -> None:
        """Grade on what reports to this client's scheduler. `open_pool` makes one."""
        self._where = where
        self._client = client
        self._jobs = jobs
        self._setup = setup
        self._timeout = timeout
        self._wait_seconds = wait_seconds
        self._say = say
        self._kept = contextlib.ExitStack()
        self._topic = f"lockstep-{secrets.token_hex(8)}"
        self._inbox: queue.SimpleQueue[Told | _Looked | _NotBegun] = queue.SimpleQueue()
        self._nodes: dict[tuple[str, str], _Node] = {}
        self._running: dict[int, tuple[Task, _Node]] = {}
        self._assignments = 0
        self._refused: list[str] = []
        self._stopping = False
        self._here = look_around(setup)
        self._next_look = 0.0
        self._last_fit = time.monotonic()
        client.subscribe_topic(self._topic, lambda event: self._inbox.put(pickle.loads(event[1])))

    def keep(self, resources: contextlib.ExitStack) -> None:
        """What to let go of at the end."""
        self._kept = resources

    @property
    def remarks(self) -> tuple[str, ...]:
        """See Pool."""
        return tuple(sorted(self._refused))

    def __enter__(self) -> DaskPool:
        return self

    def __exit__(self, *exception: object) -> None:
        self._tell_all(leave)
        self._kept.close()

    def stop(self) -> None:
        """See Pool."""
        self._stopping = True

    def run(self, tasks: Iterable[Task], hear: Callable[[Event], None]) -> None:
        """See Pool."""
        coming = iter(tasks)
        waiting: Task | None = None
        told = False
        while True:
            self._look_round(hear)
            while not self._stopping and (node := self._free()) is not None:
                task, waiting = waiting or next(coming, None), None
                if task is None:
                    break
                self._hand_out(task, node, hear)
            if self._stopping and not told:
                told = True
                self._tell_all(stop)
            if not self._running:
                # While there is nobody to give it to, one task is asked for: without any there is nothing to wait for.
                waiting = waiting or (None if self._stopping else next(coming, None))
                if waiting is None:
                    return
                self._insist_on_nodes()
            with contextlib.suppress(queue.Empty):
                self._handle(self._inbox.get(timeout=LOOK_SECONDS), hear)

    def _free(self) -> _Node | None:
        """The worker with the most room."""
        fit = [node for node in self._nodes.values() if node.fit and len(node.running) < node.slots]
        return max(fit, key=lambda node: node.slots - len(node.running), default=None)

    def _hand_out(self, task: Task, node: _Node, hear: Callable[[Event], None]) -> None:
        try:
            parcel = pack(Path(task.path))
        except SubmissionError as error:
            hear(Ended(task.attempt, str(error)))
            return
        self._assignments += 1
        number = self._assignments
        self._running[number] = (task, node)
        node.running.add(number)
        self._aside(self._begin, number, task, parcel, node)

    def _begin(self, number: int, task: Task, parcel: Parcel, node: _Node) -> None:
        try:
            self._call(node, begin, self._topic, number, task, parcel)
        except Exception as error:
            self._inbox.put(_NotBegun(number, safe_line(str(error)) or type(error).__name__))

    def _aside(self, function: Callable[..., None], *arguments: object) -> None:
        """Speak to a worker in a thread of its own: one that does not answer must not keep the others waiting."""
        threading.Thread(target=function, args=arguments, daemon=True).start()

    def _handle(self, heard: Told | _Looked | _NotBegun, hear: Callable[[Event], None]) -> None:
        if isinstance(heard, _Looked):
            self._judge(heard)
            return
        if heard.number not in self._running:
            return  # of an assignment that was given up
        _, node = self._running[heard.number]
        event = heard.event if isinstance(heard, Told) else None
        if event is None and heard.unfit and not self._stopping:
            self._refuse(node, heard.unfit, hear)
            return
        if event is None or isinstance(event, Ended | Lost):
            del self._running[heard.number]
            node.running.discard(heard.number)
        if event is not None:
            hear(event)

    def _look_round(self, hear: Callable[[Event], None]) -> None:
        """See which workers there are: those that are gone lose their tasks, new ones are looked at."""
        now = time.monotonic()
        if now < self._next_look:
            return
        present = self._present()
        for key in set(self._nodes) - set(present):
            node = self._nodes.pop(key)
            self._lose(node, f"the Dask worker on {node.shown} went away", hear)
        for key, about in present.items():
            if key not in self._nodes:
                self._nodes[key] = _Node(key[0], f"{about['host']} ({key[0]})", about["nthreads"])
                self._aside(self._look_at, key, self._nodes[key])
        if any(node.fit for node in self._nodes.values()):
            self._last_fit = now
        if self._jobs is not None and not self._stopping:
            for sentence in self._jobs.look({str(about["name"]) for about in present.values()}):
                self._say(sentence)
        self._next_look = time.monotonic() + LOOK_SECONDS

    def _present(self) -> Mapping[tuple[str, str], Mapping[str, Any]]:
        """The workers that report to the scheduler. One that starts again has another folder, if not address."""
        try:
            if self._client.status == "running" and (scheduler := self._client.scheduler) is not None:
                # Not Client.scheduler_info: what it returns another thread may have replaced by a summary.
                about = self._client.sync(scheduler.identity, n_workers=-1, callback_timeout=ANSWER_SECONDS)
                return {
                    (address, worker["local_directory"]): worker
                    for address, worker in about["workers"].items()
                }
        except (OSError, TimeoutError, RuntimeError):
            pass
        raise CouldNotGrade(
            f"the Dask scheduler at {self._where} went away. What is graded is kept: when it is there again, the "
            "same command goes on where this one stopped"
        )

    def _look_at(self, key: tuple[str, str], node: _Node) -> None:
        answer: Look | Exception
        try:
            answer = self._call(node, look, self._setup)
            if _unfit(answer, self._here) is None:
                self._call(node, take_over, Gradings(self._topic, self._timeout))
        except Exception as error:
            answer = error
        self._inbox.put(_Looked(key, answer))

    def _call(self, node: _Node, function: Callable[..., object], *arguments: object) -> Any:
        answers = self._client.run(function, *arguments, workers=[node.address], on_error="return")
        answer = answers.get(node.address, RuntimeError("it went away"))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _judge(self, looked: _Looked) -> None:
        node = self._nodes.get(looked.key)
        if node is None:
            return
        if not isinstance(looked.answer, Exception):
            node.shown = f"{safe_line(looked.answer.host)} ({node.address})"
        reason = _unfit(looked.answer, self._here)
        if reason is None:
            node.fit = True
        else:
            self._refuse(node, reason, lambda event: None)

    def _refuse(self, node: _Node, reason: str, hear: Callable[[Event], None]) -> None:
        """Give a worker no work, or no more."""
        sentence = f"{node.shown} gets no {'more ' if node.fit else ''}work: {reason}"
        node.fit = False
        self._refused.append(sentence)
        self._say(sentence)
        self._lose(node, reason, hear)

    def _lose(self, node: _Node, reason: str, hear: Callable[[Event], None]) -> None:
        for number in sorted(node.running):
            task, _ = self._running.pop(number)
            hear(Lost(task.attempt, reason))
        node.running.clear()

    def _insist_on_nodes(self) -> None:
        """Raise CouldNotGrade when there is nobody to wait for any more."""
        nodes = self._nodes.values()
        if any(node.fit is not False for node in nodes):
            return
        reasons = "; ".join(self.remarks)
        if self._jobs is not None and (gone := self._jobs.gone) is not None:
            raise CouldNotGrade("; ".join(filter(None, [gone, reasons])))
        if reasons and len(nodes) >= (self._jobs.wanted if self._jobs else 1):
            raise CouldNotGrade(f"no worker of {self._where} can grade: {reasons}")
        if time.monotonic() - self._last_fit > self._wait_seconds:
            what = (
                f"for {self._wait_seconds / 60:g} minutes there was no worker at {self._where} that can grade"
            )
            raise CouldNotGrade("; ".join(filter(None, [what, reasons, "what is graded is kept"])))

    def _tell_all(self, order: Callable[..., object]) -> None:
        """Have every worker that grades for us do something, and wait until it has."""
        addresses = [node.address for node in self._nodes.values() if node.fit]
        if addresses and self._client.status == "running":
            with contextlib.suppress(Exception):
                self._client.run(order, self._topic, workers=addresses, on_error="ignore")


def _unfit(answer: Look | Exception, here: Look) -> str | None:
    """Why a worker with this answer gets no work; None when it would grade as this machine does."""
    if isinstance(answer, Exception):
        return f"lockstep cannot be used where the Dask worker runs ({safe_line(str(answer))})"
    others = [
        f"{name} {answer.versions.get(name) or 'is missing'}{f', here {version}' if version else ''}"
        for name, version in here.versions.items()
        if answer.versions.get(name) != version
    ]
    if others:
        return f"it has other versions: {'; '.join(others)}"
    if answer.problem is not None:
        return answer.problem
    if answer.files != here.files:
        return "its lockstep, graders, reference or fixtures are other files than those here"
    return None
