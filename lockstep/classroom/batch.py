"""Grades the hand-ins of a class: hands tasks to a pool, and writes into the gradebook what it says, check by check.

Nothing is kept here but what is under way: a coordinator that is killed loses the checks that were being made, and
the next one goes on from the gradebook.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from lockstep.classroom.gradebook import Gradebook
from lockstep.classroom.plan import Wanted, Work, taken_over
from lockstep.classroom.pool import Pool
from lockstep.classroom.task import Began, CheckEnded, Ended, Event, Lost, Setup, Task
from lockstep.result import CheckResult

TIMES = 3
"""How often a hand-in is taken up: what ends a worker that often would end others, and a person has to look at it."""


class Watcher(Protocol):
    """Hears, in the coordinator, what becomes of the work."""

    def begun(self, attempt: int, work: Work, node: str, total_checks: int) -> None:
        """A worker took a hand-in up and will make so many checks."""

    def checked(self, attempt: int, work: Work, exercise: str, result: CheckResult) -> None:
        """A check ended, whichever way."""

    def ended(self, attempt: int, work: Work, problem: str) -> None:
        """A hand-in is done, or with a `problem` was given up."""

    def lost(self, attempt: int, work: Work, reason: str) -> None:
        """A worker went away with a hand-in; it will be taken up again."""


@dataclass(frozen=True)
class Way:
    """How a class is graded. Without a `seed` each attempt draws a secret one; `versions` are for the record."""

    setup: Setup
    wanted: Wanted
    versions: Mapping[str, str]
    seed: int | None = None


class Batch:
    """The hand-ins that are under way, and those that have to be taken up again."""

    def __init__(self, book: Gradebook, way: Way, watcher: Watcher) -> None:
        self._book = book
        self._way = way
        self._watcher = watcher
        self._under_way: dict[int, Work] = {}
        self._lost: dict[int, tuple[Work, str]] = {}

    def grade(self, pool: Pool, work: Iterable[Work]) -> None:
        """Grade all of it, or until the pool is stopped. Raises CouldNotGrade, and GradebookError."""
        coming = work
        for _ in range(TIMES):
            self._lost = {}
            pool.run(self._tasks(coming), self._hear)
            coming = [work for work, _ in self._lost.values()]
        for attempt, (again, reason) in self._lost.items():
            problem = (
                f"It was taken up {TIMES} times, and each time {reason}. The checks that were made are kept, and "
                "somebody has to look at what ends the others."
            )
            self._book.end(attempt, problem)
            self._watcher.ended(attempt, again, problem)

    def _tasks(self, work: Iterable[Work]) -> Iterator[Task]:
        """Tasks, each made when there is a worker for it."""
        for item in work:
            drawn = self._way.seed if self._way.seed is not None else item.seed
            begun = self._book.begin(
                item.handin,
                item.fingerprints,
                secrets.randbits(48) if drawn is None else drawn,
                versions=self._way.versions,
                taken_over=tuple(taken_over(self._book, item, self._way.wanted)),
            )
            self._under_way[begun.id] = item
            yield Task(
                attempt=begun.id,
                path=str(item.path),
                exercises=tuple(item.fingerprints),
                seed=begun.seed,
                setup=self._way.setup,
                digest=item.digest,
                done=begun.done,
            )

    def _hear(self, event: Event) -> None:
        work = self._under_way[event.attempt]
        match event:
            case Began(attempt, node, total_checks):
                self._book.took_up(attempt, node)
                self._watcher.begun(attempt, work, node, total_checks)
            case CheckEnded(attempt, exercise, position, result):
                self._book.write_check(attempt, exercise, position, result)
                self._watcher.checked(attempt, work, exercise, result)
            case Ended(attempt, problem):
                del self._under_way[attempt]
                self._book.end(attempt, problem)
                self._watcher.ended(attempt, work, problem)
            case Lost(attempt, reason):
                del self._under_way[attempt]
                self._lost[attempt] = (work, reason)
                self._watcher.lost(attempt, work, reason)
