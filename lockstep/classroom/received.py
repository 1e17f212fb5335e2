"""What of a class is graded already: every student's newest hand-in and its gradings, in a few queries for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from lockstep.classroom import tables
from lockstep.verdict import Verdict


@dataclass(frozen=True)
class Graded:
    """The newest grading of one exercise. A `faulty` one holds a fault of the grader: it is no grade."""

    attempt: int
    seed: int
    fingerprint: str
    faulty: bool


@dataclass(frozen=True)
class Received:
    """A student's newest hand-in as the gradebook has it, and by exercise how it was last graded."""

    id: int
    digest: str
    label: str
    late_days: float | None
    problem: str
    notes: tuple[str, ...]
    graded: Mapping[str, Graded]


def received(connection: Connection) -> Mapping[str, Received]:
    """By student."""
    handins, attempts, gradings, checks = (
        tables.handins,
        tables.attempts,
        tables.gradings,
        tables.checks,
    )
    latest: dict[int, dict[str, Graded]] = {}
    faults = {
        (row.attempt, row.exercise)
        for row in connection.execute(
            select(checks.c.attempt, checks.c.exercise)
            .where(checks.c.verdict == str(Verdict.FAULT))
            .distinct()
        )
    }
    ended = (
        select(attempts.c.handin, attempts.c.seed, gradings)
        .join(gradings, gradings.c.attempt == attempts.c.id)
        .where(attempts.c.state == tables.DONE, attempts.c.problem == "")
        .order_by(attempts.c.id)
    )
    for row in connection.execute(ended):
        faulty = (row.attempt, row.exercise) in faults
        own = latest.setdefault(row.handin, {})
        own[row.exercise] = Graded(row.attempt, row.seed, row.fingerprint, faulty)
    newest = select(func.max(handins.c.id)).group_by(handins.c.student)
    return {
        row.student: Received(
            id=row.id,
            digest=row.digest,
            label=row.label,
            late_days=row.late_days,
            problem=row.problem,
            notes=tuple(row.notes),
            graded=latest.get(row.id, {}),
        )
        for row in connection.execute(select(handins).where(handins.c.id.in_(newest)))
    }
