"""What turned between two gradings of a class, and what else was not the same that could be the cause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lockstep.classroom.record import Record
from lockstep.result import Result
from lockstep.verdict import Verdict

OTHER_WORK, OTHER_GRADERS, OTHER_DATA = "other work", "other graders", "other data"
"""Why a verdict may have turned, the weightiest first: the first that applies is named."""
UNEXPLAINED = "nothing else changed"

GRADED, DECIDED, LATE = "verdicts", "decisions", "lateness"
"""Where a student's points may have changed."""


@dataclass(frozen=True)
class Side:
    """One student in one of the two gradings. What is not known of it is None or empty.

    `points` are what counts, `parts` where they come from: by graders, by people, less what lateness costs.
    `digest` stands for the work that was handed in; it is empty where nothing was.
    """

    name: str
    points: float
    max_points: float
    parts: Mapping[str, float]
    checks: Mapping[tuple[str, str], tuple[Verdict, float]]
    seed: int | None = None
    digest: str | None = None
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)


Grading = Mapping[str, Side]
"""By student id."""


@dataclass(frozen=True)
class Turned:
    """One check that ended otherwise. `before` and `after` are None where it was not made.

    `cause` is empty where nobody knows what else changed.
    """

    student: str
    name: str
    exercise: str
    check: str
    before: Verdict | None
    after: Verdict | None
    points_before: float
    points_after: float
    cause: str = ""

    @property
    def lost(self) -> bool:
        """Whether it passed before and does not any more."""
        return self.before is Verdict.PASSED and self.after is not Verdict.PASSED

    @property
    def gained(self) -> bool:
        """Whether it passes now and did not before."""
        return self.after is Verdict.PASSED and self.before is not Verdict.PASSED


@dataclass(frozen=True)
class Moved:
    """One student's points, as they count. `where` they changed: a few of GRADED, DECIDED and LATE."""

    student: str
    name: str
    before: float
    after: float
    where: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """All that is not the same. `both` students and `compared` checks are in either grading.

    `graders` are the exercises that were graded with something else, each with the number of students it concerns;
    `versions` are programs and libraries, each with those of both gradings.
    """

    added: tuple[str, ...]
    gone: tuple[str, ...]
    turned: tuple[Turned, ...]
    moved: tuple[Moved, ...]
    graders: Mapping[str, int]
    versions: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]
    both: int
    compared: int

    @property
    def changed(self) -> bool:
        """Whether a student, a verdict or a grade is another; that graders are is no change of a grade."""
        return bool(self.added or self.gone or self.turned or self.moved)


def side_of_record(record: Record, fingerprints: Mapping[str, str]) -> Side:
    """A student as a gradebook has them; `fingerprints` say by exercise what it was graded with."""
    graded = sum(exercise.points for exercise in record.exercises)
    attempt = record.attempt
    return Side(
        name=record.student.shown,
        points=record.final_points,
        max_points=record.max_points,
        parts={GRADED: graded, DECIDED: record.raw_points - graded, LATE: record.penalty},
        checks=_checks(Result("", 0, record.exercises)),
        seed=None if attempt is None else attempt.seed,
        digest="" if attempt is None else attempt.digest,
        fingerprints=fingerprints,
        versions={} if attempt is None else attempt.versions,
    )


def side_of_result(result: Result) -> Side:
    """A submission as `lockstep check` saw it."""
    parts = {GRADED: result.points}
    return Side(result.submission, result.points, result.max_points, parts, _checks(result), result.seed)


def _checks(result: Result) -> Mapping[tuple[str, str], tuple[Verdict, float]]:
    return {
        (exercise.id, check.id): (check.verdict, check.points)
        for exercise in result.exercises
        for check in exercise.checks
    }


def difference(old: Grading, new: Grading) -> Difference:
    """What changed from one grading to another: lost verdicts first, then those gained, then the rest."""
    both = [student for student in new if student in old]
    turned = [item for student in both for item in _turned(student, old[student], new[student])]
    return Difference(
        added=tuple(student for student in new if student not in old),
        gone=tuple(student for student in old if student not in new),
        turned=tuple(
            sorted(turned, key=lambda item: (not item.lost, not item.gained, item.exercise, item.check))
        ),
        moved=tuple(sorted(_moved(old, new, both), key=lambda item: item.after - item.before)),
        graders=_graders(old, new, both),
        versions=_versions(list(old.values()), list(new.values())),
        both=len(both),
        compared=sum(len(old[student].checks.keys() & new[student].checks.keys()) for student in both),
    )


def _turned(student: str, old: Side, new: Side) -> Iterator[Turned]:
    none = (None, 0.0)
    for exercise, check in {**old.checks, **new.checks}:
        before, points_before = old.checks.get((exercise, check), none)
        after, points_after = new.checks.get((exercise, check), none)
        if before is not after or abs(points_after - points_before) > _NOISE:
            cause = _cause(exercise, old, new)
            yield Turned(
                student, new.name, exercise, check, before, after, points_before, points_after, cause
            )


def _cause(exercise: str, old: Side, new: Side) -> str:
    if old.digest is None or new.digest is None:
        return OTHER_DATA if old.seed != new.seed else ""
    if old.digest != new.digest:
        return OTHER_WORK
    if old.fingerprints.get(exercise) != new.fingerprints.get(exercise):
        return OTHER_GRADERS
    return OTHER_DATA if old.seed != new.seed else UNEXPLAINED


_NOISE = 1e-6
"""What adding in another order may change of a sum of points."""


def _moved(old: Grading, new: Grading, both: Sequence[str]) -> Iterator[Moved]:
    for student in both:
        before, after = old[student], new[student]
        where = tuple(
            part
            for part in (GRADED, DECIDED, LATE)
            if abs(after.parts.get(part, 0.0) - before.parts.get(part, 0.0)) > _NOISE
        )
        if abs(after.points - before.points) > _NOISE or where:
            yield Moved(student, after.name, before.points, after.points, where)


def _graders(old: Grading, new: Grading, both: Sequence[str]) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for student in both:
        before, after = old[student].fingerprints, new[student].fingerprints
        for exercise in before.keys() & after.keys():
            if before[exercise] != after[exercise]:
                found[exercise] = found.get(exercise, 0) + 1
    return dict(sorted(found.items()))


def _versions(
    old: Sequence[Side], new: Sequence[Side]
) -> Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    names = {name for side in (*old, *new) for name in side.versions}
    found = {name: (_of(name, old), _of(name, new)) for name in sorted(names)}
    return {name: pair for name, pair in found.items() if pair[0] != pair[1]}


def _of(name: str, sides: Sequence[Side]) -> tuple[str, ...]:
    return tuple(sorted({side.versions[name] for side in sides if name in side.versions}))
