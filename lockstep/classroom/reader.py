"""Puts records together with one query a table: what counts of a class of 5,000 is read in seconds.

Older gradings stay in the database; how many there are must not be felt here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, Row, Select, func, select

from lockstep.classroom import rows, tables
from lockstep.classroom.catalogue import ExerciseTitle
from lockstep.classroom.latepolicy import LatePolicy
from lockstep.classroom.latest import latest_gradings, newest_handins, on_latest
from lockstep.classroom.record import Flag, Mark, Override, Record
from lockstep.result import CheckResult, ExerciseResult
from lockstep.uncollected import nothing_collected
from lockstep.verdict import Verdict

_VERDICTS = {str(verdict): verdict for verdict in Verdict}
_position = itemgetter(0)


class Reader:
    """The records of a class, or of one student."""

    def __init__(
        self,
        connection: Connection,
        policy: LatePolicy,
        catalogue: Sequence[ExerciseTitle],
        student: str | None = None,
    ) -> None:
        self._connection = connection
        self._policy = policy
        self._catalogue = {exercise.id: exercise for exercise in catalogue}
        self._student = student

    def records(self) -> tuple[Record, ...]:
        """Every student's, by name and id."""
        with nothing_collected():
            return tuple(self._records())

    def _records(self) -> Iterator[Record]:
        has_roster = self._connection.scalar(
            select(tables.students.c.id).where(tables.students.c.enrolled).limit(1)
        )
        handins, attempts = self._newest_handins(), self._last_attempts()
        exercises = self._exercises()
        overrides, marks, flags = self._overrides(), self._marks(), self._flags()
        students = self._rows(select(tables.students), tables.students.c.id)
        for row in sorted(students, key=lambda row: (row.name.casefold(), row.id)):
            handin = handins.get(row.id)
            number = 0 if handin is None else handin.id
            last = attempts.get(number)
            decided = tuple(overrides.get(row.id, ()))
            yield Record(
                student=rows.student(row),
                label="" if handin is None else handin.label,
                late_days=None if handin is None else handin.late_days,
                attempt=None if last is None or handin is None else rows.attempt(last, handin.digest),
                exercises=self._with_decided(exercises.get(number, {}), decided),
                overrides=decided,
                marks=tuple(marks.get(row.id, ())),
                flags=tuple(flags.get(row.id, ())),
                notes=() if handin is None else tuple(handin.notes),
                problem=(last.problem if last is not None else "") or (handin.problem if handin else ""),
                policy=self._policy,
                in_class=row.enrolled or has_roster is None,
            )

    def _newest_handins(self) -> Mapping[str, Row[Any]]:
        table = tables.handins
        found = self._connection.execute(select(table).where(table.c.id.in_(newest_handins(self._student))))
        return {row.student: row for row in found}

    def _last_attempts(self) -> Mapping[int, Row[Any]]:
        table = tables.attempts
        last = (
            select(func.max(table.c.id))
            .where(table.c.state == tables.DONE, table.c.handin.in_(newest_handins(self._student)))
            .group_by(table.c.handin)
        )
        found = self._connection.execute(select(table).where(table.c.id.in_(last)))
        return {row.handin: row for row in found}

    def _exercises(self) -> Mapping[int, Mapping[str, list[CheckResult]]]:
        """By hand-in and exercise, the checks in their order."""
        table = tables.checks
        latest = latest_gradings(newest_handins(self._student))
        # Named one by one: 400,000 rows are taken apart here, and what nobody needs is not fetched.
        query = select(
            latest.c.handin,
            table.c.exercise,
            table.c.position,
            table.c.check,
            table.c.verdict,
            table.c.points,
            table.c.max_points,
            table.c.message,
            table.c.hint,
            table.c.seconds,
            table.c.reviews,
            table.c.cpu_seconds,
            table.c.spoils,
        ).join(latest, on_latest(table, latest))
        found: dict[tuple[int, str], list[tuple[int, CheckResult]]] = {}
        key: tuple[int, str] | None = None
        checks: list[tuple[int, CheckResult]] = []
        texts: dict[str, str] = {}
        same = texts.setdefault  # ids, messages and hints are the same for many students
        for (
            handin, exercise, position, check, verdict, points, most, message, hint, seconds, reviews, cpu, spoils,
        ) in self._connection.execute(query):  # fmt: skip
            if key != (handin, exercise):  # rows of one exercise mostly come together
                key = (handin, same(exercise, exercise))
                checks = found.setdefault(key, [])
            result = CheckResult(
                same(check, check),
                _VERDICTS[verdict],
                points,
                most,
                same(message, message),
                same(hint, hint),
                seconds,
                rows.reviews(reviews) if reviews else (),
                cpu,
                spoils,
            )
            checks.append((position, result))
        exercises: dict[int, dict[str, list[CheckResult]]] = defaultdict(dict)
        for (handin, exercise), placed in found.items():
            # Sorted here: databases differ in how they order names.
            placed.sort(key=_position)
            exercises[handin][exercise] = [result for _, result in placed]
        return exercises

    def _with_decided(
        self, graded: Mapping[str, Sequence[CheckResult]], overrides: Sequence[Override]
    ) -> tuple[ExerciseResult, ...]:
        """The exercises that were graded, and those that were not and that a person gave points for all the same."""
        found = {exercise: self._result(exercise, checks) for exercise, checks in graded.items()}
        for override in overrides:
            if override.exercise not in found:
                found[override.exercise] = self._result(override.exercise, self._not_checked(override))
        return tuple(found[exercise] for exercise in sorted(found))

    def _result(self, exercise: str, checks: Sequence[CheckResult]) -> ExerciseResult:
        title = self._catalogue.get(exercise)
        return ExerciseResult(exercise, tuple(checks), 0.0 if title is None else title.by_person)

    def _not_checked(self, override: Override) -> tuple[CheckResult, ...]:
        exercise = self._catalogue.get(override.exercise)
        points = {} if exercise is None else {check.id: check.max_points for check in exercise.checks}
        return tuple(CheckResult(check, Verdict.NOT_CHECKED, 0.0, most) for check, most in points.items())

    def _overrides(self) -> Mapping[str, list[Override]]:
        table = tables.overrides
        found: dict[str, list[Override]] = defaultdict(list)
        everything = self._rows(select(table), table.c.student)
        for row in sorted(everything, key=lambda row: (row.exercise, row.check)):
            item = Override(row.exercise, row.check, row.points, row.comment, row.by, row.at)
            found[row.student].append(item)
        return found

    def _marks(self) -> Mapping[str, list[Mark]]:
        table = tables.marks
        found: dict[str, list[Mark]] = defaultdict(list)
        everything = self._rows(select(table), table.c.student)
        for row in sorted(everything, key=lambda row: (row.exercise, row.question)):
            item = Mark(row.exercise, row.question, row.points, row.comment, row.by, row.at, row.answer)
            found[row.student].append(item)
        return found

    def _flags(self) -> Mapping[str, list[Flag]]:
        table = tables.flags
        found: dict[str, list[Flag]] = defaultdict(list)
        for row in self._rows(select(table).order_by(table.c.id), table.c.student):
            found[row.student].append(Flag(row.kind, row.subject, row.detail, tuple(row.others)))
        return found

    def _rows(self, query: Select[Any], student: Any) -> Sequence[Row[Any]]:
        if self._student is not None:
            query = query.where(student == self._student)
        return self._connection.execute(query).all()
