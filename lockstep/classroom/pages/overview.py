"""The class in figures: what it comes to, how points are spread, which checks fail, how long exercises take."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from lockstep.classroom.catalogue import CheckTitle, ExerciseTitle
from lockstep.classroom.flags import KINDS, MEANING
from lockstep.classroom.pages.symbols import lost, shade
from lockstep.classroom.record import Record, in_class
from lockstep.text import safe_line

MOST_FAILED = 12
BARS = 24


class Status(StrEnum):
    """Where a student's work stands, in the words of the page."""

    GRADED = "graded"
    WAITS = "answers wait for a person"
    BROKEN = "could not be graded"
    PENDING = "not graded yet"
    MISSING = "handed in nothing"
    NOT_IN_CLASS = "not on the roster"


@dataclass(frozen=True)
class Tally:
    """One check over all students: how often it ended how, by the codes of symbols."""

    exercise: str
    check: str
    title: str
    counts: Mapping[str, int]

    @property
    def made(self) -> int:
        """Students whose work it was made for."""
        return sum(self.counts.values())

    @property
    def failed(self) -> int:
        """Students whose own work did not pass it."""
        return sum(count for code, count in self.counts.items() if lost(code))

    def count(self, codes: str) -> int:
        """Students for whom it ended in one of these."""
        return sum(self.counts.get(code, 0) for code in codes)


@dataclass(frozen=True)
class ExerciseFigures:
    """One exercise over all students it was graded for. Seconds are wall time of its checks."""

    id: str
    title: str
    students: int
    mean: float
    max_points: float
    full: int
    median_seconds: float
    long_seconds: float
    """What 19 of 20 students' checks took at most."""


@dataclass(frozen=True)
class FlagKind:
    """A kind of flags: what to make of it, and how many students have one."""

    kind: str
    meaning: str
    students: int


@dataclass(frozen=True)
class Bin:
    """One bar of the histogram: final points from `low` to `high`."""

    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Overview:
    """What stands at the top of the class page."""

    students: int
    statuses: Mapping[Status, int]
    flagged: int
    kinds: tuple[FlagKind, ...]
    late: int
    scored: int
    """Students with points: the others are in no mean and no histogram."""
    max_points: float
    mean: float
    median: float
    bins: tuple[Bin, ...]
    exercises: tuple[ExerciseFigures, ...]
    tallies: tuple[Tally, ...]
    first_graded: str
    last_graded: str
    versions: tuple[tuple[str, str, int], ...]
    """What graded, which version of it, and how many students."""

    @property
    def most_failed(self) -> tuple[Tally, ...]:
        """The checks that most students did not pass, the worst first."""
        ranked = sorted(self.tallies, key=lambda tally: -tally.failed)
        return tuple(tally for tally in ranked[:MOST_FAILED] if tally.failed)


def status(record: Record) -> Status:
    """Where this student's work stands."""
    if not record.in_class:
        return Status.NOT_IN_CLASS
    if record.problem:
        return Status.BROKEN
    if not record.handed_in:
        return Status.MISSING
    if not record.exercises:
        return Status.PENDING
    return Status.WAITS if record.waiting_reviews else Status.GRADED


def shown_exercises(
    records: Sequence[Record], catalogue: Sequence[ExerciseTitle]
) -> tuple[ExerciseTitle, ...]:
    """The exercises that were graded for anybody, with every check that was made, in the order of the catalogue.

    Whatever the catalogue lacks, because graders have changed since, follows under its id.
    """
    made: dict[str, dict[str, CheckTitle]] = {}
    for record in records:
        for exercise in record.exercises:
            checks = made.setdefault(exercise.id, {})
            for check in exercise.checks:
                if check.id not in checks:
                    checks[check.id] = CheckTitle(check.id, "", check.max_points)
    known = [exercise for exercise in catalogue if exercise.id in made]
    found = [
        replace(
            exercise,
            checks=(
                *(check for check in exercise.checks if check.id in made[exercise.id]),
                *(
                    check
                    for check in made[exercise.id].values()
                    if check.id not in {titled.id for titled in exercise.checks}
                ),
            ),
        )
        for exercise in known
    ]
    rest = sorted(set(made) - {exercise.id for exercise in known})
    return (*found, *(ExerciseTitle(name, "", tuple(made[name].values())) for name in rest))


def flag_kinds(records: Sequence[Record]) -> tuple[FlagKind, ...]:
    """The kinds of flags there are, in the order in which a person should look at them."""
    found = Counter(kind for record in records for kind in {flag.kind for flag in record.flags})
    known = [kind for kind in KINDS if kind in found]
    rest = sorted(set(found) - set(known))
    return tuple(FlagKind(safe_line(kind), MEANING.get(kind, ""), found[kind]) for kind in (*known, *rest))


def overview(records: Sequence[Record], exercises: Sequence[ExerciseTitle]) -> Overview:
    """The figures of a class; `exercises` are those that are shown. Who is not in the class has only a status."""
    members = in_class(records)
    scored = [record for record in members if record.exercises]
    finals = [record.final_points for record in scored]
    most = max((record.max_points for record in scored), default=0.0)
    ended = sorted(
        record.attempt.ended_at for record in members if record.attempt and record.attempt.ended_at
    )
    statuses = Counter(status(record) for record in records)
    return Overview(
        students=len(members),
        statuses={each: statuses[each] for each in Status},
        flagged=sum(bool(record.flags) for record in records),
        kinds=flag_kinds(records),
        late=sum(record.penalty > 0 for record in members),
        scored=len(scored),
        max_points=most,
        mean=statistics.fmean(finals) if finals else 0.0,
        median=statistics.median(finals) if finals else 0.0,
        bins=_bins(finals, most),
        exercises=tuple(_figures(scored, exercise) for exercise in exercises),
        tallies=_tallies(scored, exercises),
        first_graded=ended[0] if ended else "",
        last_graded=ended[-1] if ended else "",
        versions=_versions(members),
    )


def _bins(finals: Sequence[float], most: float) -> tuple[Bin, ...]:
    """At most BARS bars of a round width; a person may give more points than there are, and those count as the most."""
    if not finals or most <= 0:
        return ()
    width = next(step for step in _round_steps() if step * BARS >= most)
    count = max(math.ceil(most / width), 1)
    placed = Counter(min(max(int(value // width), 0), count - 1) for value in finals)
    return tuple(Bin(place * width, min((place + 1) * width, most), placed[place]) for place in range(count))


def _round_steps() -> Sequence[float]:
    return [step * 10.0**power for power in range(-2, 7) for step in (1, 2, 2.5, 5)]


def _figures(records: Sequence[Record], title: ExerciseTitle) -> ExerciseFigures:
    graded = [
        (record, exercise) for record in records for exercise in record.exercises if exercise.id == title.id
    ]
    earned = [record.points_of(exercise) for record, exercise in graded]
    possible = [record.max_points_of(exercise) for record, exercise in graded]
    spent = sorted(exercise.seconds for _, exercise in graded)
    return ExerciseFigures(
        id=safe_line(title.id),
        title=safe_line(title.title),
        students=len(graded),
        mean=statistics.fmean(earned) if earned else 0.0,
        max_points=max(possible, default=0.0),
        full=sum(points >= most for points, most in zip(earned, possible, strict=True)),
        median_seconds=statistics.median(spent) if spent else 0.0,
        long_seconds=spent[math.ceil(0.95 * len(spent)) - 1] if spent else 0.0,
    )


def _tallies(records: Sequence[Record], exercises: Sequence[ExerciseTitle]) -> tuple[Tally, ...]:
    counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for record in records:
        for exercise in record.exercises:
            for check in exercise.checks:
                counts[exercise.id, check.id][shade(check).code] += 1
    return tuple(
        Tally(
            safe_line(exercise.id), safe_line(check.id), safe_line(check.title), counts[exercise.id, check.id]
        )
        for exercise in exercises
        for check in exercise.checks
    )


def _versions(records: Sequence[Record]) -> tuple[tuple[str, str, int], ...]:
    found = Counter(
        (name, version)
        for record in records
        if record.attempt
        for name, version in record.attempt.versions.items()
    )
    return tuple(
        (safe_line(name), safe_line(version), count) for (name, version), count in sorted(found.items())
    )
