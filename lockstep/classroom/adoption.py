"""Makes all that a gradebook holds of one student another's, as they turned out to be one person, or nobody's."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sqlalchemy import Connection, Table, and_, delete, select, update

from lockstep.classroom import rows, tables


def adopt(connection: Connection, stranger: str, student: str, keys: Mapping[str, str]) -> None:
    """Move hand-ins, gradings and decisions of `stranger` to `student`; the stranger is no more.

    `keys` are the new names of answers by the old ones: they begin with whose they are.
    """
    _move_handins(connection, stranger, student)
    for table in (tables.overrides, tables.marks):
        _move_decisions(connection, table, stranger, student, keys)
    connection.execute(delete(tables.flags).where(tables.flags.c.student == stranger))
    _move_points(connection, stranger, student)
    connection.execute(delete(tables.students).where(tables.students.c.id == stranger))


def forget(connection: Connection, student: str) -> None:
    """Delete all that there is of a student; flags that name nobody else beside the one they are for, as well."""
    handins, attempts = tables.handins, tables.attempts
    own = select(handins.c.id).where(handins.c.student == student)
    made = select(attempts.c.id).where(attempts.c.handin.in_(own))
    for table in (tables.checks, tables.gradings):
        connection.execute(delete(table).where(table.c.attempt.in_(made)))
    connection.execute(delete(attempts).where(attempts.c.handin.in_(own)))
    for row in connection.execute(select(tables.flags.c.id, tables.flags.c.others)).all():
        if row.others == [student]:
            connection.execute(delete(tables.flags).where(tables.flags.c.id == row.id))
    for table in (handins, tables.overrides, tables.marks, tables.flags):
        connection.execute(delete(table).where(table.c.student == student))
    _move_points(connection, student, None)
    connection.execute(delete(tables.students).where(tables.students.c.id == student))


def _move_points(connection: Connection, stranger: str, student: str | None) -> None:
    """What the last grading gave a stranger is the student's, who may have some already, or with None nobody's."""
    kept = select(tables.about.c.value).where(tables.about.c.key == tables.POINTS)
    points = json.loads(connection.scalar(kept) or "{}")
    given = points.pop(stranger, None)
    if given is not None:
        if student is not None:
            points.setdefault(student, given)
        rows.put(connection, tables.about, {"key": tables.POINTS, "value": json.dumps(points)})


def _move_handins(connection: Connection, stranger: str, student: str) -> None:
    table, attempts = tables.handins, tables.attempts
    known = _handins(connection, student)
    for digest, own in _handins(connection, stranger).items():
        twin = known.get(digest, own)
        kept, left = max(own, twin), min(own, twin)
        if kept != left:
            connection.execute(update(attempts).where(attempts.c.handin == left).values(handin=kept))
            connection.execute(delete(table).where(table.c.id == left))
        connection.execute(update(table).where(table.c.id == kept).values(student=student))


def _handins(connection: Connection, student: str) -> Mapping[str, int]:
    """The numbers of a student's hand-ins, by their digests."""
    table = tables.handins
    found = connection.execute(select(table.c.digest, table.c.id).where(table.c.student == student))
    return {row.digest: row.id for row in found}


def _move_decisions(
    connection: Connection, table: Table, stranger: str, student: str, keys: Mapping[str, str]
) -> None:
    names = [column.name for column in table.primary_key if column.name != "student"]
    for row in connection.execute(select(table).where(table.c.student == stranger)).mappings().all():
        same = and_(table.c.student == student, *(table.c[name] == row[name] for name in names))
        decided = connection.scalar(select(table.c.at).where(same))
        if decided is None or decided < row["at"]:
            moved = {**row, "student": student}
            if "answer" in moved:
                moved["answer"] = keys.get(moved["answer"], moved["answer"])
            rows.put(connection, table, moved)
    connection.execute(delete(table).where(table.c.student == stranger))
