"""Rows of the gradebook's tables, and the values they hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, Table, and_, bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError

from lockstep.classroom.people import Student
from lockstep.classroom.record import Attempt
from lockstep.result import CheckResult, Review
from lockstep.verdict import Verdict


def put(connection: Connection, table: Table, row: Mapping[str, object]) -> None:
    """Insert a row, or replace the one with the same primary key; in words that every database understands."""
    keys = [column.name for column in table.primary_key]
    same = and_(*(table.c[key] == row[key] for key in keys))
    others = {name: value for name, value in row.items() if name not in keys}
    replace = update(table).where(same).values(others)
    if connection.execute(replace).rowcount:
        return
    try:
        with connection.begin_nested():
            connection.execute(insert(table).values(row))
    except IntegrityError:
        # Another process may have inserted it between the two; anything else fails again.
        if not connection.execute(replace).rowcount:
            raise


def put_all(connection: Connection, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
    """Insert or replace many rows of a table with one key, in three statements."""
    (key,) = table.primary_key
    known = set(connection.scalars(select(key)))
    old, new = [], []
    for row in rows:
        if row[key.name] in known:
            others = {name: value for name, value in row.items() if name != key.name}
            old.append({**others, "its_key": row[key.name]})
        else:
            new.append(row)
    if old:
        connection.execute(update(table).where(key == bindparam("its_key")), old)
    put_new(connection, table, new)


def put_new(connection: Connection, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
    """Insert rows that are not there yet."""
    if rows:
        connection.execute(insert(table), list(rows))


def put_numbered(connection: Connection, table: Table, row: Mapping[str, object]) -> int:
    """Insert a row and return the number that it got."""
    key = connection.execute(insert(table).values(row)).inserted_primary_key
    assert key is not None
    return int(key[0])


def check_row(
    attempt: int, exercise: str, position: int, result: CheckResult, *, taken_over: bool
) -> dict[str, object]:
    """A row of `checks`."""
    reviews = [{**vars(review), "numbers": list(review.numbers)} for review in result.reviews]
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
        "reviews": reviews or None,
        "taken_over": taken_over,
        "ended_at": now(),
    }


def check_result(row: Row[Any]) -> CheckResult:
    """The result in a row of `checks`."""
    return CheckResult(
        id=row.check,
        verdict=Verdict(row.verdict),
        points=row.points,
        max_points=row.max_points,
        message=row.message,
        hint=row.hint,
        seconds=row.seconds,
        reviews=reviews(row.reviews),
        cpu_seconds=row.cpu_seconds,
        spoils=row.spoils,
    )


def reviews(kept: Sequence[Mapping[str, Any]] | None) -> tuple[Review, ...]:
    """The reviews in a cell of `checks.reviews`."""
    return tuple(Review(**{**review, "numbers": tuple(review["numbers"])}) for review in kept or ())


def student_row(student: Student) -> dict[str, object]:
    """A row of `students`."""
    return {**vars(student), "columns": [list(pair) for pair in student.columns]}


def student(row: Row[Any]) -> Student:
    """The student in a row of `students`."""
    columns = tuple((str(name), str(value)) for name, value in row.columns)
    return Student(row.id, row.name, row.email, row.team, row.extra_days, columns, row.enrolled)


def attempt(row: Row[Any], digest: str) -> Attempt:
    """The attempt in a row of `attempts`, at the work with this digest."""
    return Attempt(
        id=row.id,
        digest=digest,
        seed=row.seed,
        state=row.state,
        versions=row.versions,
        node=row.node,
        started_at=row.started_at,
        ended_at=row.ended_at,
        problem=row.problem,
    )


def now() -> str:
    """The time as the gradebook keeps it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
