"""What of a class is graded already: every student's newest hand-in and its gradings, in a few queries for all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, select

from lockstep.classroom import tables
from lockstep.classroom.latest import latest_failures, latest_gradings, newest_handins, on_latest
from lockstep.verdict import Verdict


@dataclass(frozen=True)
class Graded:
    """The newest grading of one exercise. A `faulty` one holds a fault of the grader: it is no grade.

    `failed_since` says that a later attempt at it ended with a problem: what was asked for then is still to be done.
    """

    attempt: int
    seed: int
    fingerprint: str
    faulty: bool
    failed_since: bool


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
    handins = tables.handins
    newest = newest_handins()
    graded = _graded(connection, newest)
    return {
        row.student: Received(
            id=row.id,
            digest=row.digest,
            label=row.label,
            late_days=row.late_days,
            problem=row.problem,
            notes=tuple(row.notes),
            graded=graded.get(row.id, {}),
        )
        for row in connection.execute(select(handins).where(handins.c.id.in_(newest)))
    }


def _graded(connection: Connection, newest: object) -> Mapping[int, Mapping[str, Graded]]:
    """By hand-in and exercise."""
    attempts, gradings, checks = tables.attempts, tables.gradings, tables.checks
    latest = latest_gradings(newest)
    faults = select(checks.c.attempt, checks.c.exercise).join(latest, on_latest(checks, latest))
    faulty = {tuple(row) for row in connection.execute(faults.where(checks.c.verdict == str(Verdict.FAULT)))}
    failures = {
        (row.handin, row.exercise): row.attempt for row in connection.execute(select(latest_failures(newest)))
    }
    query = (
        select(latest.c.handin, attempts.c.seed, gradings)
        .join(latest, on_latest(gradings, latest))
        .join(attempts, attempts.c.id == gradings.c.attempt)
    )
    found: dict[int, dict[str, Graded]] = defaultdict(dict)
    for row in connection.execute(query):
        is_faulty = (row.attempt, row.exercise) in faulty
        failed_since = failures.get((row.handin, row.exercise), 0) > row.attempt
        found[row.handin][row.exercise] = Graded(
            row.attempt, row.seed, row.fingerprint, is_faulty, failed_since
        )
    return found
