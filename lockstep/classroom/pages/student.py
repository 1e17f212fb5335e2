"""What a student reads about their own work, and nothing else: this is the border that everything else stays behind.

Seeds, digests, machines, flags, what rubrics look for and where else a text was found are of other people's concern
or give answers away. They are not in these classes, so no template can show them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from lockstep.classroom.catalogue import ExerciseTitle
from lockstep.classroom.latepolicy import LatePolicy, in_words
from lockstep.classroom.pages.plots import Plot
from lockstep.classroom.pages.symbols import BY_VERDICT, Symbol, lost
from lockstep.classroom.pages.text import Folded, day, folded, prose
from lockstep.classroom.record import Override, Record
from lockstep.reasons import by_reason
from lockstep.result import CheckResult, ExerciseResult, Review
from lockstep.text import safe_line
from lockstep.verdict import Verdict

ANSWER_CHARACTERS = 20_000
"""What is kept of a written answer; nobody reads more of it on a page."""


@dataclass(frozen=True)
class Decision:
    """What a person decided, not who. `was` are the points before, None where they only commented."""

    comment: Folded
    at: str
    was: float | None = None
    points: float | None = None


@dataclass(frozen=True)
class ToldBy:
    """A check that stands for others that say the same, or that the same error stopped."""

    id: str
    anchor: str


@dataclass(frozen=True)
class CheckView:
    """One check: what is asked for, how it ended, what was seen and what to try."""

    id: str
    name: str
    """The exercise and the check, for a list of several exercises'."""
    anchor: str
    title: Markup
    symbol: Symbol
    points: float
    max_points: float
    message: Folded
    hint: Folded
    decision: Decision | None
    told_by: ToldBy | None
    """The check above that has told the same error already."""

    @property
    def lost(self) -> bool:
        """Whether the student's own work did not pass it."""
        return lost(self.symbol.code)

    @property
    def waits(self) -> bool:
        """Whether it only waits for another check: ten of them with one reason are told in few words."""
        return self.symbol is BY_VERDICT[Verdict.NOT_CHECKED] and not (self.message.more or self.hint.more)


@dataclass(frozen=True)
class AnswerView:
    """A written answer, with the points and the comment of whoever marked it. `points` is None until then.

    `is_held` says that points for the exercise as a whole hold, whatever the answer gets.
    """

    question: str
    title: str
    answer: Folded
    numbers: tuple[str, ...]
    points: float | None
    max_points: float
    comment: Folded
    waits: bool
    is_held: bool


@dataclass(frozen=True)
class ExerciseView:
    """One exercise with its checks and answers."""

    id: str
    title: str
    points: float
    max_points: float
    checks: tuple[CheckView, ...]
    answers: tuple[AnswerView, ...]
    decision: Decision | None

    @property
    def passed(self) -> int:
        """Checks that passed."""
        return sum(check.symbol is BY_VERDICT[Verdict.PASSED] for check in self.checks)


@dataclass(frozen=True)
class StudentView:
    """Everything on one student's page."""

    name: str
    id: str
    team: str
    handed_in: str
    graded: str
    state: str
    """A sentence where there are no points to show; otherwise empty."""
    exercises: tuple[ExerciseView, ...]
    plots: tuple[Plot, ...]
    notes: tuple[Folded, ...]
    raw: float
    penalty: float
    final: float
    max_points: float
    late: str
    waiting: int
    waiting_points: float

    @property
    def lost(self) -> tuple[CheckView, ...]:
        """The checks that did not pass, without those that only wait for another or tell its error again."""
        checks = (check for exercise in self.exercises for check in exercise.checks)
        return tuple(check for check in checks if check.lost and check.told_by is None)


Titles = Mapping[str, tuple[str, Mapping[str, Markup]]]
"""By exercise: its title, and those of its checks."""


def check_titles(catalogue: Sequence[ExerciseTitle]) -> Titles:
    """The titles of a catalogue, ready for pages: they are the same on all of them."""
    return {
        exercise.id: (
            safe_line(exercise.title),
            {check.id: prose(safe_line(check.title, 500)) for check in exercise.checks},
        )
        for exercise in catalogue
    }


def student_view(record: Record, titles: Titles, plots: Sequence[Plot]) -> StudentView:
    """What the student of this record may read."""
    waiting = [review for exercise in record.exercises for review in record.waiting_of(exercise)]
    return StudentView(
        name=safe_line(record.student.shown),
        id=safe_line(record.student.id),
        team=safe_line(record.student.team),
        handed_in=safe_line(record.label),
        graded=day(record.attempt.ended_at) if record.attempt and record.attempt.ended_at else "",
        state=_state(record),
        exercises=tuple(
            _exercise(record, exercise, f"check-{place}", *titles.get(exercise.id, ("", {})))
            for place, exercise in enumerate(record.exercises, start=1)
        ),
        plots=tuple(plots),
        notes=tuple(folded(note) for note in record.notes),
        raw=record.raw_points,
        penalty=record.penalty,
        final=record.final_points,
        max_points=record.max_points,
        late=_late(record),
        waiting=len(waiting),
        waiting_points=sum(review.max_points for review in waiting),
    )


def _state(record: Record) -> str:
    if record.problem:
        return f"Your work could not be graded: {safe_line(record.problem, 500)}"
    if not record.handed_in:
        return "Nothing was handed in under your name. If you did hand in, tell your instructor under which."
    return "" if record.exercises else "Your work has not been graded yet."


def _exercise(
    record: Record, exercise: ExerciseResult, anchor: str, title: str, checks: Mapping[str, Markup]
) -> ExerciseView:
    graded = sum(check.points for check in exercise.checks)
    anchors = {check.id: f"{anchor}-{place}" for place, check in enumerate(exercise.checks, start=1)}
    told_by = {
        check.id: ToldBy(safe_line(first.id), anchors[first.id])
        for first, *others in by_reason(exercise.checks)
        if first.verdict in {Verdict.CRASHED, Verdict.FAILED, Verdict.HUNG, Verdict.LIMIT}
        for check in others
    }
    return ExerciseView(
        id=safe_line(exercise.id),
        title=title,
        points=record.points_of(exercise),
        max_points=record.max_points_of(exercise),
        checks=tuple(
            _check(
                record,
                exercise.id,
                check,
                anchors[check.id],
                checks.get(check.id, Markup()),
                told_by.get(check.id),
            )
            for check in exercise.checks
        ),
        answers=tuple(_answer(review, record.is_held(exercise.id)) for review in record.reviews_of(exercise)),
        decision=_decision(record.override_of(exercise.id), graded),
    )


def _check(
    record: Record,
    exercise: str,
    check: CheckResult,
    anchor: str,
    title: Markup,
    told_by: ToldBy | None,
) -> CheckView:
    return CheckView(
        id=safe_line(check.id),
        name=safe_line(f"{exercise} / {check.id}"),
        anchor=anchor,
        title=title,
        symbol=BY_VERDICT[check.verdict],
        points=record.points_of_check(exercise, check),
        max_points=check.max_points,
        message=folded(check.message),
        hint=folded(check.hint),
        decision=_decision(record.override_of(exercise, check.id), check.points),
        told_by=told_by,
    )


def _answer(review: Review, is_held: bool) -> AnswerView:
    return AnswerView(
        question=safe_line(review.question),
        title=safe_line(review.title, 500),
        answer=folded(review.answer, ANSWER_CHARACTERS),
        numbers=tuple(safe_line(number) for number in review.numbers),
        points=review.points,
        max_points=review.max_points,
        comment=folded(review.comment),
        waits=review.waits,
        is_held=is_held,
    )


def _decision(override: Override | None, graded: float) -> Decision | None:
    if override is None:
        return None
    return Decision(
        comment=folded(override.comment),
        at=day(override.at),
        was=None if override.points is None else graded,
        points=override.points,
    )


def _late(record: Record) -> str:
    """A sentence on why points were taken off, or why none were; empty for work in time."""
    late, extra = record.late_days or 0.0, record.student.extra_days
    if late <= 0:
        return ""
    granted = f", {in_words(extra)} of extra time granted" if extra else ""
    return f"Handed in {in_words(late)} after the deadline{granted}. {_policy(record.policy)}"


def _policy(policy: LatePolicy) -> str:
    if not policy.percent_per_day:
        return "That takes no points off."
    grace = f" after {in_words(policy.grace_days)} of grace" if policy.grace_days else ""
    most = f", at most {policy.max_percent:g} %" if policy.max_percent < 100 else ""
    return f"Each day begun{grace} takes {policy.percent_per_day:g} % of the points earned off{most}."
