"""The gradebook: every attempt, check and decision of a class, in SQLite or PostgreSQL.

One process grades, and writes check by check, each in a transaction of its own: whatever is killed, what was written
stays. A person may override and comment meanwhile, from another process.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, func, or_, select, update

from lockstep.classroom import rows, tables
from lockstep.classroom.adoption import adopt, forget
from lockstep.classroom.catalogue import CheckTitle, ExerciseTitle
from lockstep.classroom.database import Database, GradebookError, HeldError
from lockstep.classroom.handin import HandIn, Unmatched
from lockstep.classroom.latepolicy import LatePolicy
from lockstep.classroom.latest import newest_handins
from lockstep.classroom.people import Student
from lockstep.classroom.reader import Reader
from lockstep.classroom.received import Received, received
from lockstep.classroom.record import Attempt, Flag, Mark, Override, Record, answer_key
from lockstep.classroom.revision import revision
from lockstep.classroom.roster import Roster, roster_of
from lockstep.classroom.sheet import Sheet
from lockstep.classroom.tables import DONE, DROPPED, POINTS, RUNNING
from lockstep.result import CheckResult

__all__ = [
    "DONE",
    "DROPPED",
    "POINTS",
    "RUNNING",
    "Begun",
    "Gradebook",
    "GradebookError",
    "HeldError",
    "open_gradebook",
]

SET_ASIDE = "set aside"
"""Under this a gradebook keeps which of the unmatched files were set aside, by their places."""


@dataclass(frozen=True)
class Begun:
    """An attempt that is under way: its id, its seed, and the checks that are done, in order."""

    id: int
    seed: int
    done: tuple[tuple[str, CheckResult], ...] = ()


class Gradebook:
    """An open gradebook. Use as a context manager; every method is one transaction and may raise GradebookError."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._read, self._write = database.read, database.write

    def __enter__(self) -> Gradebook:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about the place of the gradebook, for whoever opened it."""
        return self._database.notes

    @property
    def shown(self) -> str:
        """Where it is, for a message: a file, or a URL without its password."""
        return self._database.shown

    def grading(self) -> AbstractContextManager[None]:
        """Keep other processes from grading into this gradebook as long as the block lasts.

        Raises HeldError where one does already. A process that ends, even by `kill -9`, keeps nobody out.
        """
        return self._database.hold()

    # What comes in

    def enroll(self, students: Iterable[Student], *, everybody: bool = False) -> None:
        """Write students down; of those already there the new names, teams and times count.

        Where these are `everybody` in the class, the others are enrolled no more; what they have is kept.
        """
        by_id = {student.id: rows.student_row(student) for student in students}
        with self._write() as connection:
            if everybody:
                connection.execute(update(tables.students).values(enrolled=False))
            rows.put_all(connection, tables.students, list(by_id.values()))

    def adopt(self, stranger: str, student: str) -> None:
        """Make hand-ins, gradings and decisions of a `stranger` those of `student`, and forget the stranger.

        The newer of their hand-ins is the student's newest, and of two decisions about one thing the later counts.
        Raises GradebookError for an unknown one.
        """
        record = self.record(stranger)
        keys = {
            answer_key(stranger, exercise.id, review): answer_key(student, exercise.id, review)
            for exercise in record.exercises
            for review in exercise.reviews
        }
        with self._write() as connection:
            _insist(connection, student)
            adopt(connection, stranger, student, keys)

    def remove(self, students: Iterable[str]) -> None:
        """Forget students, by id, with hand-ins, gradings and decisions. Raises GradebookError for an unknown one."""
        with self._write() as connection:
            for student in students:
                _insist(connection, student)
                forget(connection, student)

    def receive(self, handin: HandIn, digest: str, notes: Sequence[str] = ()) -> int:
        """Write a hand-in down and return its number; the same work of the same student keeps its number.

        It becomes the student's newest. `digest` is empty where nothing can be graded.
        """
        table, attempts = tables.handins, tables.attempts
        row = {
            "label": handin.label,
            "late_days": handin.late_days,
            "problem": handin.problem,
            "notes": [*handin.notes, *notes],
            "seen_at": rows.now(),
        }
        with self._write() as connection:
            own = table.c.student == handin.student.id
            found = connection.scalar(select(table.c.id).where(own, table.c.digest == digest))
            newest = connection.scalar(select(func.max(table.c.id)).where(own))
            if found is not None and found == newest:
                connection.execute(update(table).where(table.c.id == found).values(row))
                return int(found)
            new = {"student": handin.student.id, "digest": digest, **row}
            if found is None:
                return rows.put_numbered(connection, table, new)
            # Work that was handed in before, again: what it earned then is moved to where the newest is.
            moved = rows.put_numbered(connection, table, {**new, "digest": f"moving {found}"})
            connection.execute(update(attempts).where(attempts.c.handin == found).values(handin=moved))
            connection.execute(delete(table).where(table.c.id == found))
            connection.execute(update(table).where(table.c.id == moved).values(digest=digest))
            return moved

    def set_late(self, days: Mapping[str, float]) -> None:
        """Write down, by student id, how late the newest hand-ins were, where a roster says so afterwards."""
        table = tables.handins
        with self._write() as connection:
            for student, late in days.items():
                newest = table.c.id.in_(newest_handins(student))
                connection.execute(update(table).where(newest).values(late_days=late))

    def list_unmatched(self, unmatched: Sequence[Unmatched]) -> None:
        """Replace the list of files that belong to nobody or were set aside."""
        aside = [place for place, item in enumerate(unmatched) if item.set_aside]
        with self._write() as connection:
            connection.execute(delete(tables.unmatched))
            new = [{"label": item.label, "reason": item.reason} for item in unmatched]
            rows.put_new(connection, tables.unmatched, new)
            rows.put(connection, tables.about, {"key": SET_ASIDE, "value": json.dumps(aside)})

    # Grading

    def received(self) -> Mapping[str, Received]:
        """By student the newest hand-in, and how its exercises were last graded."""
        with self._read() as connection:
            return received(connection)

    def checks_of(self, attempt: int, exercise: str) -> tuple[tuple[int, CheckResult], ...]:
        """How the checks of one exercise ended in an attempt, each with its position."""
        table = tables.checks
        with self._read() as connection:
            found = _checks(connection, table.c.attempt == attempt, table.c.exercise == exercise)
            return tuple((row.position, rows.check_result(row)) for row in found)

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
        table = tables.attempts
        with self._write() as connection:
            chosen = _drop_all_but(connection, handin, fingerprints, taken_over)
            if chosen is not None:
                anew = {"state": RUNNING, "problem": "", "ended_at": None}
                connection.execute(update(table).where(table.c.id == chosen.id).values(anew))
                return Begun(chosen.id, chosen.seed, _checks_done(connection, chosen.id))
            row = {
                "handin": handin,
                "seed": seed,
                "state": RUNNING,
                "versions": dict(versions or {}),
                "node": "",
                "started_at": rows.now(),
                "problem": "",
            }
            new = rows.put_numbered(connection, table, row)
            gradings = [
                {"attempt": new, "exercise": exercise, "position": place, "fingerprint": fingerprint}
                for place, (exercise, fingerprint) in enumerate(fingerprints.items())
            ]
            rows.put_new(connection, tables.gradings, gradings)
            checks = [
                rows.check_row(new, exercise, position, result, taken_over=True)
                for exercise, position, result in taken_over
            ]
            rows.put_new(connection, tables.checks, checks)
            return Begun(new, seed, _checks_done(connection, new) if checks else ())

    def took_up(self, attempt: int, node: str) -> None:
        """Write down which machine grades an attempt."""
        table = tables.attempts
        with self._write() as connection:
            connection.execute(update(table).where(table.c.id == attempt).values(node=node))

    def write_check(self, attempt: int, exercise: str, position: int, result: CheckResult) -> None:
        """Write how one check ended; `position` is its place in the order of its exercise."""
        with self._write() as connection:
            row = rows.check_row(attempt, exercise, position, result, taken_over=False)
            rows.put(connection, tables.checks, row)

    def end(self, attempt: int, problem: str = "") -> None:
        """End an attempt. With a `problem` it is no grade, and that sentence says why; its checks stay for later."""
        table = tables.attempts
        row = {"state": DONE, "ended_at": rows.now(), "problem": problem}
        with self._write() as connection:
            connection.execute(update(table).where(table.c.id == attempt).values(row))

    # What people decide

    def override(self, student: str, override: Override) -> None:
        """Write down what a person decided; it survives every grading. Raises GradebookError for an unknown student."""
        with self._write() as connection:
            _insist(connection, student)
            rows.put(connection, tables.overrides, {"student": student, **vars(override)})

    def withdraw_override(self, student: str, exercise: str, check: str = "") -> bool:
        """Take an override back; returns whether there was one."""
        table = tables.overrides
        same = and_(table.c.student == student, table.c.exercise == exercise, table.c.check == check)
        with self._write() as connection:
            return bool(connection.execute(delete(table).where(same)).rowcount)

    def mark(self, student: str, mark: Mark) -> None:
        """Write down the points a person gave for an answer. Raises GradebookError for an unknown student."""
        self.mark_all([(student, mark)])

    def mark_all(self, marks: Iterable[tuple[str, Mark]]) -> None:
        """Write down the points a person gave, by student id: all of them or, where it raises, none."""
        with self._write() as connection:
            for student, mark in marks:
                _insist(connection, student)
                rows.put(connection, tables.marks, {"student": student, **vars(mark)})

    def withdraw_mark(self, student: str, exercise: str, question: str) -> bool:
        """Take the points for an answer back; returns whether there were any."""
        table = tables.marks
        same = and_(table.c.student == student, table.c.exercise == exercise, table.c.question == question)
        with self._write() as connection:
            return bool(connection.execute(delete(table).where(same)).rowcount)

    # What is remembered for those who read

    def set_flags(self, flags: Mapping[str, Sequence[Flag]]) -> None:
        """Replace all flags, by student id."""
        with self._write() as connection:
            connection.execute(delete(tables.flags))
            new = [
                {**vars(flag), "others": list(flag.others), "student": student}
                for student, own in flags.items()
                for flag in own
            ]
            rows.put_new(connection, tables.flags, new)

    def traces(self, basis: str) -> Mapping[str, bytes]:
        """What is kept for comparisons on this `basis`, by the digest of the hand-in."""
        table = tables.traces
        with self._read() as connection:
            found = connection.execute(select(table.c.digest, table.c.packed).where(table.c.basis == basis))
            return {row.digest: row.packed for row in found}

    def keep_traces(self, basis: str, new: Mapping[str, bytes]) -> None:
        """Keep what is compared of hand-ins, by digest; of those that are nobody's newest nothing is kept any more."""
        table, handins = tables.traces, tables.handins
        newest = select(handins.c.digest).where(handins.c.id.in_(newest_handins()))
        with self._write() as connection:
            for digest, content in new.items():
                rows.put(connection, table, {"digest": digest, "basis": basis, "packed": content})
            connection.execute(
                delete(table).where(or_(table.c.basis != basis, table.c.digest.not_in(newest)))
            )

    def remember(self, key: str, value: object) -> None:
        """Keep a value of JSON under a key."""
        with self._write() as connection:
            rows.put(connection, tables.about, {"key": key, "value": json.dumps(value)})

    def recall(self, key: str) -> Any:
        """The value kept under a key, or None."""
        with self._read() as connection:
            return _recalled(connection, key)

    def revision(self, *aside: str) -> str:
        """A name for all that the gradebook says, without what it remembers under the keys in `aside`."""
        with self._read() as connection:
            return revision(connection, aside)

    def remember_catalogue(self, exercises: Sequence[ExerciseTitle]) -> None:
        """Keep the titles of exercises and checks, so that pages can be made where there are no graders."""
        known = {exercise.id: exercise for exercise in (*self.catalogue(), *exercises)}
        self.remember("catalogue", [asdict(exercise) for exercise in known.values()])

    def catalogue(self) -> tuple[ExerciseTitle, ...]:
        """The titles of exercises and checks, in the order of the graders."""
        return tuple(
            ExerciseTitle(
                entry["id"],
                entry["title"],
                tuple(CheckTitle(**check) for check in entry["checks"]),
                entry.get("by_person", 0.0),  # not in gradebooks of before
            )
            for entry in self.recall("catalogue") or ()
        )

    def remember_policy(self, policy: LatePolicy) -> None:
        """Keep what being late costs, so that pages and exports made later take off the same."""
        self.remember("late policy", policy.to_json())

    def remember_roster(self, sheet: Sheet) -> None:
        """Keep who is in the class, so that a grading to which no roster is given knows them as well."""
        self.remember("roster", sheet.to_json())

    def roster(self) -> Roster | None:
        """Who is in the class; None where nobody has said. Raises RosterError."""
        kept = self.recall("roster")
        return None if kept is None else roster_of(Sheet.from_json(kept))

    def policy(self) -> LatePolicy:
        """What being late costs; nothing where nobody has said."""
        kept = self.recall("late policy")
        return LatePolicy() if kept is None else LatePolicy.from_json(kept)

    # Reading

    def students(self) -> tuple[Student, ...]:
        """Everybody, by name and id."""
        with self._read() as connection:
            found = [rows.student(row) for row in connection.execute(select(tables.students))]
            return tuple(sorted(found, key=lambda student: (student.name.casefold(), student.id)))

    def unmatched(self) -> tuple[Unmatched, ...]:
        """Files that belong to nobody or were set aside, as of the last grading."""
        with self._read() as connection:
            aside = set(_recalled(connection, SET_ASIDE) or ())
            found = connection.execute(select(tables.unmatched).order_by(tables.unmatched.c.id))
            return tuple(Unmatched(row.label, row.reason, place in aside) for place, row in enumerate(found))

    def attempts(self, student: str) -> tuple[Attempt, ...]:
        """Every attempt at anything a student handed in, oldest first."""
        table, handins = tables.attempts, tables.handins
        query = (
            select(table, handins.c.digest)
            .join(handins, handins.c.id == table.c.handin)
            .where(handins.c.student == student)
            .order_by(table.c.id)
        )
        with self._read() as connection:
            return tuple(rows.attempt(row, row.digest) for row in connection.execute(query))

    def records(self, policy: LatePolicy | None = None) -> tuple[Record, ...]:
        """Every student, by name and id: the newest hand-in as it was last graded, and what people decided.

        Without a `policy` the one that was remembered says what being late costs.
        """
        return self._records(policy, None)

    def record(self, student: str, policy: LatePolicy | None = None) -> Record:
        """One student, by id, as in `records`. Raises GradebookError for an unknown one."""
        for record in self._records(policy, student):
            return record
        raise _unknown(student)

    def _records(self, policy: LatePolicy | None, student: str | None) -> tuple[Record, ...]:
        policy = self.policy() if policy is None else policy
        catalogue = self.catalogue()
        with self._read() as connection:
            return Reader(connection, policy, catalogue, student).records()


def open_gradebook(place: str | Path, *, create: bool = True) -> Gradebook:
    """The gradebook at a path, as SQLite, or at a database URL such as `postgresql://user@host/name`.

    A folder of results stands for the gradebook in it. One that is not there is made, unless `create` is False.
    Raises GradebookError.
    """
    return Gradebook(Database(place, create=create))


def _recalled(connection: Connection, key: str) -> Any:
    text = connection.scalar(select(tables.about.c.value).where(tables.about.c.key == key))
    return None if text is None else json.loads(text)


def _drop_all_but(
    connection: Connection,
    handin: int,
    fingerprints: Mapping[str, str],
    taken_over: Sequence[tuple[str, int, CheckResult]],
) -> Row[int, int, str, str] | None:
    """The newest attempt, where it was to grade exactly this and has not; others that still run are dropped."""
    table = tables.attempts
    of_this = select(table.c.id, table.c.seed, table.c.state, table.c.problem).where(table.c.handin == handin)
    newest = connection.execute(of_this.order_by(table.c.id.desc()).limit(1)).first()
    chosen = None
    if newest is not None and (newest.state == RUNNING or (newest.state == DONE and newest.problem)):
        wanted = dict(fingerprints), {(exercise, result.id) for exercise, _, result in taken_over}
        chosen = newest if _asked_for(connection, newest.id) == wanted else None
    others = and_(table.c.handin == handin, table.c.state == RUNNING)
    if chosen is not None:
        others = and_(others, table.c.id != chosen.id)
    dropped = {"state": DROPPED, "ended_at": rows.now()}
    connection.execute(update(table).where(others).values(dropped))
    return chosen


def _asked_for(connection: Connection, attempt: int) -> tuple[dict[str, str], set[tuple[str, str]]]:
    """What an attempt was to grade, with fingerprints, and the checks that it took over."""
    gradings, checks = tables.gradings, tables.checks
    to_grade = select(gradings.c.exercise, gradings.c.fingerprint).where(gradings.c.attempt == attempt)
    over = select(checks.c.exercise, checks.c.check).where(checks.c.attempt == attempt, checks.c.taken_over)
    grades = {row.exercise: row.fingerprint for row in connection.execute(to_grade)}
    return grades, {(row.exercise, row.check) for row in connection.execute(over)}


def _checks_done(connection: Connection, attempt: int) -> tuple[tuple[str, CheckResult], ...]:
    found = _checks(connection, tables.checks.c.attempt == attempt)
    return tuple((row.exercise, rows.check_result(row)) for row in found)


def _checks(connection: Connection, *conditions: ColumnElement[bool]) -> list[Row[Any]]:
    found = connection.execute(select(tables.checks).where(*conditions)).all()
    # Sorted here: databases differ in how they order names.
    return sorted(found, key=lambda row: (row.exercise, row.position, row.check))


def _insist(connection: Connection, student: str) -> None:
    known = connection.scalar(select(tables.students.c.id).where(tables.students.c.id == student))
    if known is None:
        raise _unknown(student)


def _unknown(student: str) -> GradebookError:
    return GradebookError(f"the gradebook knows no student {student!r}")
