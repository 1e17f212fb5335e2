"""The gradebook: every attempt, check and decision, in SQLite or any other database that SQLAlchemy knows.

One process writes while a class is graded, check by check, each in a transaction of its own: whatever is killed,
what was written stays. A person may override and comment meanwhile, from another process.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Connection,
    Row,
    and_,
    create_engine,
    delete,
    event,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.exc import SQLAlchemyError

from lockstep.classroom import tables
from lockstep.classroom.catalogue import CheckTitle, ExerciseTitle
from lockstep.classroom.handin import HandIn, Unmatched
from lockstep.classroom.latepolicy import LatePolicy
from lockstep.classroom.people import Student
from lockstep.classroom.received import Received, received
from lockstep.classroom.record import Attempt, Flag, Mark, Override, Record
from lockstep.classroom.tables import DONE, DROPPED, RUNNING
from lockstep.result import CheckResult, ExerciseResult, Review
from lockstep.verdict import Verdict

BUSY_SECONDS = 60
"""How long a write waits for another process's: a person's override never fails because a class is graded."""


class GradebookError(Exception):
    """The gradebook cannot be opened, read or written; the message is a sentence."""


@dataclass(frozen=True)
class Begun:
    """An attempt that is under way: its id, its seed, and the checks that are done, in order."""

    id: int
    seed: int
    done: tuple[tuple[str, CheckResult], ...] = ()


class Gradebook:
    """An open gradebook. Use as a context manager; every method is one transaction."""

    def __init__(self, url: str) -> None:
        """Open the gradebook at a database URL, making its tables where there are none. Raises GradebookError."""
        try:
            self._engine = create_engine(url)
            if self._engine.dialect.name == "sqlite":
                event.listen(self._engine, "connect", _prepare_sqlite)
            tables.metadata.create_all(self._engine)
            self._check_format()
        except (SQLAlchemyError, ImportError) as error:
            raise GradebookError(
                f"the gradebook {_shown(url)} cannot be opened: {_first_line(error)}"
            ) from error

    def __enter__(self) -> Gradebook:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()

    # What comes in

    def enroll(self, students: Iterable[Student]) -> None:
        """Write students down; of those already there the new names, teams and times count."""
        with self._write() as connection:
            for student in students:
                row = {**vars(student), "columns": [list(pair) for pair in student.columns]}
                _put(connection, tables.students, row, ("id",))

    def receive(self, handin: HandIn, digest: str, notes: Sequence[str] = ()) -> int:
        """Write a hand-in down and return its number; the same work of the same student keeps its number.

        It becomes the student's newest. `digest` is empty where nothing can be graded.
        """
        with self._write() as connection:
            table = tables.handins
            same = and_(table.c.student == handin.student.id, table.c.digest == digest)
            found = connection.scalar(select(table.c.id).where(same))
            newest = connection.scalar(
                select(func.max(table.c.id)).where(table.c.student == handin.student.id)
            )
            row = {
                "label": handin.label,
                "late_days": handin.late_days,
                "problem": handin.problem,
                "notes": [*handin.notes, *notes],
                "seen_at": _now(),
            }
            if found is not None and found == newest:
                connection.execute(update(table).where(table.c.id == found).values(row))
                return int(found)
            if found is not None:
                # Work that was handed in before, again: what it earned then is moved to where the newest is.
                new = _inserted(
                    connection, table, {"student": handin.student.id, "digest": f"moving {found}", **row}
                )
                attempts = tables.attempts
                connection.execute(update(attempts).where(attempts.c.handin == found).values(handin=new))
                connection.execute(delete(table).where(table.c.id == found))
                connection.execute(update(table).where(table.c.id == new).values(digest=digest))
                return new
            return _inserted(connection, table, {"student": handin.student.id, "digest": digest, **row})

    def list_unmatched(self, unmatched: Sequence[Unmatched]) -> None:
        """Replace the list of files that belong to nobody."""
        with self._write() as connection:
            connection.execute(delete(tables.unmatched))
            for item in unmatched:
                connection.execute(insert(tables.unmatched).values(label=item.label, reason=item.reason))

    # Grading

    def received(self) -> Mapping[str, Received]:
        """By student the newest hand-in, and how its exercises were last graded."""
        with self._engine.connect() as connection:
            return received(connection)

    def checks_of(self, attempt: int, exercise: str) -> tuple[tuple[int, CheckResult], ...]:
        """How the checks of one exercise ended in an attempt, each with its position."""
        with self._engine.connect() as connection:
            table = tables.checks
            same = and_(table.c.attempt == attempt, table.c.exercise == exercise)
            rows = connection.execute(_ordered(table).where(same))
            return tuple((row.position, _result(row)) for row in rows)

    def begin(
        self,
        handin: int,
        fingerprints: Mapping[str, str],
        seed: int,
        *,
        versions: Mapping[str, str] | None = None,
        taken_over: Sequence[tuple[str, int, CheckResult]] = (),
    ) -> Begun:
        """Begin an attempt at a hand-in, or go on with the one that was cut off or ended with a problem.

        `fingerprints` are those of the exercises to grade, in order. `taken_over` are checks, by exercise and
        position, that need not be made again. An attempt that was to do exactly this is gone on with, its own seed
        and its checks kept; any other that still runs is dropped.
        """
        with self._write() as connection:
            chosen = _drop_all_but(connection, handin, fingerprints, taken_over)
            if chosen is not None:
                row = {"state": RUNNING, "problem": "", "ended_at": None}
                table = tables.attempts
                connection.execute(update(table).where(table.c.id == chosen.id).values(row))
                return Begun(chosen.id, chosen.seed, _checks_done(connection, chosen.id))
            new = _inserted(
                connection,
                tables.attempts,
                {
                    "handin": handin,
                    "seed": seed,
                    "state": RUNNING,
                    "versions": dict(versions or {}),
                    "node": "",
                    "started_at": _now(),
                    "problem": "",
                },
            )
            for place, (exercise, fingerprint) in enumerate(fingerprints.items()):
                connection.execute(
                    insert(tables.gradings).values(
                        attempt=new, exercise=exercise, position=place, fingerprint=fingerprint
                    )
                )
            for exercise, position, result in taken_over:
                connection.execute(
                    insert(tables.checks).values(_check_row(new, exercise, position, result, True))
                )
            return Begun(new, seed, _checks_done(connection, new))

    def took_up(self, attempt: int, node: str) -> None:
        """Write down which machine grades an attempt."""
        with self._write() as connection:
            table = tables.attempts
            connection.execute(update(table).where(table.c.id == attempt).values(node=node))

    def write_check(self, attempt: int, exercise: str, position: int, result: CheckResult) -> None:
        """Write how one check ended; `position` is its place in the order of its exercise."""
        with self._write() as connection:
            row = _check_row(attempt, exercise, position, result, False)
            _put(connection, tables.checks, row, ("attempt", "exercise", "check"))

    def end(self, attempt: int, problem: str = "") -> None:
        """End an attempt. With a `problem` it is no grade, and that sentence says why; its checks stay for later."""
        with self._write() as connection:
            table = tables.attempts
            row = {"state": DONE, "ended_at": _now(), "problem": problem}
            connection.execute(update(table).where(table.c.id == attempt).values(row))

    # What people decide

    def override(self, student: str, override: Override) -> None:
        """Write down what a person decided; it survives every grading. Raises GradebookError for an unknown student."""
        with self._write() as connection:
            _insist(connection, student)
            row = {"student": student, **vars(override)}
            _put(connection, tables.overrides, row, ("student", "exercise", "check"))

    def withdraw_override(self, student: str, exercise: str, check: str = "") -> bool:
        """Take an override back; returns whether there was one."""
        with self._write() as connection:
            table = tables.overrides
            same = and_(table.c.student == student, table.c.exercise == exercise, table.c.check == check)
            return bool(connection.execute(delete(table).where(same)).rowcount)

    def mark(self, student: str, mark: Mark) -> None:
        """Write down the points a person gave for an answer. Raises GradebookError for an unknown student."""
        with self._write() as connection:
            _insist(connection, student)
            _put(
                connection,
                tables.marks,
                {"student": student, **vars(mark)},
                ("student", "exercise", "question"),
            )

    # What is remembered for those who read

    def set_flags(self, flags: Mapping[str, Sequence[Flag]]) -> None:
        """Replace all flags, by student id."""
        with self._write() as connection:
            connection.execute(delete(tables.flags))
            for student, own in flags.items():
                for flag in own:
                    row = {**vars(flag), "others": list(flag.others), "student": student}
                    connection.execute(insert(tables.flags).values(row))

    def remember(self, key: str, value: object) -> None:
        """Keep a value of JSON under a key."""
        with self._write() as connection:
            _put(connection, tables.about, {"key": key, "value": json.dumps(value)}, ("key",))

    def recall(self, key: str) -> Any:
        """The value kept under a key, or None."""
        with self._engine.connect() as connection:
            text = connection.scalar(select(tables.about.c.value).where(tables.about.c.key == key))
            return None if text is None else json.loads(text)

    def remember_catalogue(self, exercises: Sequence[ExerciseTitle]) -> None:
        """Keep the titles of exercises and checks, so that pages can be made where there are no graders."""
        known = {exercise.id: exercise for exercise in (*self.catalogue(), *exercises)}
        self.remember("catalogue", [asdict(exercise) for exercise in known.values()])

    def catalogue(self) -> tuple[ExerciseTitle, ...]:
        """The titles of exercises and checks, in the order of the graders."""
        return tuple(
            ExerciseTitle(
                entry["id"], entry["title"], tuple(CheckTitle(**check) for check in entry["checks"])
            )
            for entry in self.recall("catalogue") or ()
        )

    # Reading

    def unmatched(self) -> tuple[Unmatched, ...]:
        """Files that belong to nobody, as of the last grading."""
        with self._engine.connect() as connection:
            rows = connection.execute(select(tables.unmatched).order_by(tables.unmatched.c.id))
            return tuple(Unmatched(row.label, row.reason) for row in rows)

    def attempts(self, student: str) -> tuple[Attempt, ...]:
        """Every attempt at anything a student handed in, oldest first."""
        with self._engine.connect() as connection:
            table, handins = tables.attempts, tables.handins
            rows = connection.execute(
                select(table, handins.c.digest)
                .join(handins, handins.c.id == table.c.handin)
                .where(handins.c.student == student)
                .order_by(table.c.id)
            )
            return tuple(_attempt(row) for row in rows)

    def records(self, policy: LatePolicy | None = None) -> tuple[Record, ...]:
        """Every student, by name and id: the newest hand-in as it was last graded, and what people decided."""
        with self._engine.connect() as connection:
            return tuple(_Reader(connection, policy or LatePolicy()).records())

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        try:
            with self._engine.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise GradebookError(f"the gradebook cannot be written: {_first_line(error)}") from error

    def _check_format(self) -> None:
        found = self.recall("format")
        if found is None:
            self.remember("format", tables.FORMAT)
        elif found != tables.FORMAT:
            raise GradebookError(
                f"the gradebook has format {found}, this lockstep reads {tables.FORMAT}: use the version that wrote it"
            )


def open_gradebook(place: str | Path) -> Gradebook:
    """The gradebook at a path, as SQLite, or at a database URL such as `postgresql+psycopg://host/name`."""
    text = str(place)
    return Gradebook(text if "://" in text else f"sqlite:///{Path(text).absolute()}")


class _Reader:
    """Puts records together with one query a table: a class of 5,000 is read in seconds."""

    def __init__(self, connection: Connection, policy: LatePolicy) -> None:
        self._policy = policy
        self._students = connection.execute(select(tables.students)).all()
        newest: dict[str, Row[Any]] = {}
        for row in connection.execute(select(tables.handins).order_by(tables.handins.c.id)):
            newest[row.student] = row
        self._handins = newest
        chosen = {row.id for row in newest.values()}
        # By hand-in and exercise the last attempt that reached its end; a later one goes on top.
        self._attempts: dict[int, list[Row[Any]]] = {}
        done = select(tables.attempts).where(tables.attempts.c.state == DONE).order_by(tables.attempts.c.id)
        for row in connection.execute(done):
            if row.handin in chosen:
                self._attempts.setdefault(row.handin, []).append(row)
        wanted = {row.id for rows in self._attempts.values() for row in rows}
        self._gradings = _by(
            "attempt", (row for row in connection.execute(_ordered(tables.gradings)) if row.attempt in wanted)
        )
        self._checks = _by(
            "attempt", (row for row in connection.execute(_ordered(tables.checks)) if row.attempt in wanted)
        )
        self._overrides = _by("student", connection.execute(select(tables.overrides)))
        self._marks = _by("student", connection.execute(select(tables.marks)))
        self._flags = _by("student", connection.execute(select(tables.flags).order_by(tables.flags.c.id)))

    def records(self) -> Iterator[Record]:
        """Every student's."""
        for row in sorted(self._students, key=lambda row: (row.name.casefold(), row.id)):
            yield self._record(row)

    def _record(self, row: Row[Any]) -> Record:
        handin = self._handins.get(row.id)
        attempts = self._attempts.get(handin.id, []) if handin is not None else []
        last = attempts[-1] if attempts else None
        problem = "" if handin is None else handin.problem
        if last is not None and last.problem:
            problem = last.problem
        return Record(
            student=_student(row),
            label="" if handin is None else handin.label,
            late_days=None if handin is None else handin.late_days,
            attempt=None if last is None or handin is None else _attempt(last, handin.digest),
            exercises=tuple(self._exercises(attempts)),
            overrides=tuple(
                Override(item.exercise, item.check, item.points, item.comment, item.by, item.at)
                for item in self._overrides.get(row.id, ())
            ),
            marks=tuple(
                Mark(item.exercise, item.question, item.points, item.comment, item.by, item.at)
                for item in self._marks.get(row.id, ())
            ),
            flags=tuple(
                Flag(item.kind, item.subject, item.detail, tuple(item.others))
                for item in self._flags.get(row.id, ())
            ),
            notes=() if handin is None else tuple(handin.notes),
            problem=problem,
            policy=self._policy,
        )

    def _exercises(self, attempts: Sequence[Row[Any]]) -> Iterator[ExerciseResult]:
        latest: dict[str, int] = {}
        for attempt in (attempt for attempt in attempts if not attempt.problem):
            for grading in self._gradings.get(attempt.id, ()):
                latest[grading.exercise] = attempt.id
        for exercise, number in sorted(latest.items()):
            rows = [row for row in self._checks.get(number, ()) if row.exercise == exercise]
            if rows:
                yield ExerciseResult(exercise, tuple(_result(row) for row in rows))


def _drop_all_but(
    connection: Connection,
    handin: int,
    fingerprints: Mapping[str, str],
    taken_over: Sequence[tuple[str, int, CheckResult]],
) -> Row[Any] | None:
    """The newest attempt, where it was to grade exactly this and has not; others that still run are dropped."""
    attempts, gradings, checks = tables.attempts, tables.gradings, tables.checks
    rows = connection.execute(
        select(attempts).where(attempts.c.handin == handin).order_by(attempts.c.id.desc())
    ).all()
    chosen = None
    for row in rows[:1]:
        if row.state == RUNNING or (row.state == DONE and row.problem):
            grades = connection.execute(select(gradings).where(gradings.c.attempt == row.id))
            over = select(checks).where(checks.c.attempt == row.id, checks.c.taken_over)
            taken = {(item.exercise, item.check) for item in connection.execute(over)}
            same = {item.exercise: item.fingerprint for item in grades} == dict(fingerprints)
            if same and taken == {(exercise, result.id) for exercise, _, result in taken_over}:
                chosen = row
    for row in rows:
        if row.state == RUNNING and row is not chosen:
            connection.execute(
                update(attempts).where(attempts.c.id == row.id).values(state=DROPPED, ended_at=_now())
            )
    return chosen


def _checks_done(connection: Connection, attempt: int) -> tuple[tuple[str, CheckResult], ...]:
    rows = connection.execute(_ordered(tables.checks).where(tables.checks.c.attempt == attempt))
    return tuple((row.exercise, _result(row)) for row in rows)


def _ordered(table: Any) -> Any:
    return select(table).order_by(table.c.attempt, table.c.exercise, table.c.position)


def _by(column: str, rows: Iterable[Row[Any]]) -> Mapping[Any, list[Row[Any]]]:
    found: dict[Any, list[Row[Any]]] = {}
    for row in rows:
        found.setdefault(getattr(row, column), []).append(row)
    return found


def _check_row(
    attempt: int, exercise: str, position: int, result: CheckResult, taken_over: bool
) -> dict[str, object]:
    return {
        "attempt": attempt,
        "exercise": exercise,
        "check": result.id,
        "position": position,
        "verdict": str(result.verdict),
        "points": result.points,
        "max_points": result.max_points,
        "message": result.message,
        "hint": result.hint,
        "seconds": result.seconds,
        "cpu_seconds": result.cpu_seconds,
        "spoils": result.spoils,
        "reviews": [{**vars(review), "numbers": list(review.numbers)} for review in result.reviews],
        "taken_over": taken_over,
        "ended_at": _now(),
    }


def _result(row: Row[Any]) -> CheckResult:
    return CheckResult(
        id=row.check,
        verdict=Verdict(row.verdict),
        points=row.points,
        max_points=row.max_points,
        message=row.message,
        hint=row.hint,
        seconds=row.seconds,
        reviews=tuple(Review(**{**review, "numbers": tuple(review["numbers"])}) for review in row.reviews),
        cpu_seconds=row.cpu_seconds,
        spoils=row.spoils,
    )


def _student(row: Row[Any]) -> Student:
    columns = tuple((str(name), str(value)) for name, value in row.columns)
    return Student(row.id, row.name, row.email, row.team, row.extra_days, columns, row.enrolled)


def _attempt(row: Row[Any], digest: str | None = None) -> Attempt:
    return Attempt(
        id=row.id,
        digest=row.digest if digest is None else digest,
        seed=row.seed,
        state=row.state,
        versions=row.versions,
        node=row.node,
        started_at=row.started_at,
        ended_at=row.ended_at,
        problem=row.problem,
    )


def _insist(connection: Connection, student: str) -> None:
    known = connection.scalar(select(tables.students.c.id).where(tables.students.c.id == student))
    if known is None:
        raise GradebookError(f"the gradebook knows no student {student!r}")


def _put(connection: Connection, table: Any, row: Mapping[str, object], keys: Sequence[str]) -> None:
    """Insert a row, or replace the one with the same keys; in words that every database understands."""
    same = and_(*(table.c[key] == row[key] for key in keys))
    if connection.scalar(select(func.count()).select_from(table).where(same)):
        connection.execute(update(table).where(same).values(row))
    else:
        connection.execute(insert(table).values(row))


def _inserted(connection: Connection, table: Any, row: Mapping[str, object]) -> int:
    key = connection.execute(insert(table).values(row)).inserted_primary_key
    assert key is not None
    return int(key[0])


def _prepare_sqlite(connection: Any, _: object) -> None:
    """Let readers read while one process writes, and writers wait for each other (sqlite.org/wal.html)."""
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _shown(url: str) -> str:
    """The URL without a password."""
    from sqlalchemy.engine import make_url

    try:
        return make_url(url).render_as_string(hide_password=True)
    except SQLAlchemyError:
        return "URL"


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
