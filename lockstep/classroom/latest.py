"""What of all that was ever handed in and graded counts: of each student the newest work, of that the last gradings.

Older ones stay in the database; these queries keep them there, however many there are.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Subquery, Table, and_, func, select

from lockstep.classroom import tables


def newest_handins(student: str | None = None) -> Any:
    """The numbers of the newest hand-ins, of one student or of all."""
    table = tables.handins
    query = select(func.max(table.c.id)).group_by(table.c.student)
    return query if student is None else query.where(table.c.student == student)


def latest_gradings(handins: Any) -> Subquery:
    """`handin`, `exercise`, and as `attempt` the last attempt at it that ended without a problem."""
    return _last_ended(handins, tables.attempts.c.problem == "")


def latest_failures(handins: Any) -> Subquery:
    """`handin`, `exercise`, and as `attempt` the last attempt at it that ended with a problem."""
    return _last_ended(handins, tables.attempts.c.problem != "")


def _last_ended(handins: Any, how: ColumnElement[bool]) -> Subquery:
    attempts, gradings = tables.attempts, tables.gradings
    return (
        select(attempts.c.handin, gradings.c.exercise, func.max(attempts.c.id).label("attempt"))
        .join(gradings, attempts.c.id == gradings.c.attempt)
        .where(attempts.c.handin.in_(handins), attempts.c.state == tables.DONE, how)
        .group_by(attempts.c.handin, gradings.c.exercise)
        .subquery()
    )


def on_latest(table: Table, latest: Subquery) -> Any:
    """Joins `gradings` or `checks` to the gradings that count."""
    return and_(table.c.attempt == latest.c.attempt, table.c.exercise == latest.c.exercise)
