"""One student as gradebook, exports and pages see them: what was graded, what people said, what it comes to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from lockstep.classroom.latepolicy import LatePolicy
from lockstep.classroom.people import Student
from lockstep.result import CheckResult, ExerciseResult, Review
from lockstep.verdict import Verdict


@dataclass(frozen=True)
class Override:
    """What a person decided about a check, or with an empty `check` about an exercise as a whole.

    `points` replace those earned; None leaves them and adds only the comment.
    """

    exercise: str
    check: str
    points: float | None
    comment: str
    by: str
    at: str


@dataclass(frozen=True)
class Mark:
    """The points a person gave for a written answer; None where they only commented.

    `answer` is the `answer_key` of what they read: the mark says nothing about an answer that was written later.
    Empty, it holds for any.
    """

    exercise: str
    question: str
    points: float | None
    comment: str
    by: str
    at: str
    answer: str = ""


@dataclass(frozen=True)
class Flag:
    """Something that a person should look at. `kind` is a short stable word, `subject` what it is about.

    `others` are ids of the students it concerns as well. A flag never costs points.
    """

    kind: str
    subject: str
    detail: str
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Attempt:
    """One grading of one hand-in. `seed` and `versions` replay it; times are UTC in ISO 8601."""

    id: int
    digest: str
    seed: int
    state: str
    versions: Mapping[str, str]
    node: str
    started_at: str
    ended_at: str | None
    problem: str = ""


@dataclass(frozen=True)
class Record:
    """All there is to say about one student. `attempt` is None where nothing was graded, and `problem` says why.

    `exercises` hold verdicts and points as the graders gave them; what people changed is in `overrides` and
    `marks`. An exercise that was not graded is among them, its checks not checked, where a person decided about it.
    Who is not `in_class`, because there is a roster and it does not name them, is kept and counts nowhere.
    Every text may be the student's: untrusted.
    """

    student: Student
    label: str = ""
    late_days: float | None = None
    attempt: Attempt | None = None
    exercises: tuple[ExerciseResult, ...] = ()
    overrides: tuple[Override, ...] = ()
    marks: tuple[Mark, ...] = ()
    flags: tuple[Flag, ...] = ()
    notes: tuple[str, ...] = ()
    problem: str = ""
    policy: LatePolicy = field(default_factory=LatePolicy)
    in_class: bool = True

    @cached_property
    def raw_points(self) -> float:
        """Points before the late penalty: the graders', with a person's overrides and marks laid over them."""
        return _exact(sum(self.points_of(exercise) for exercise in self.exercises))

    @property
    def max_points(self) -> float:
        """Points that can be earned, those of answers that a person marks among them."""
        return _exact(sum(self.max_points_of(exercise) for exercise in self.exercises))

    @property
    def penalty(self) -> float:
        """Points taken off for being late."""
        return _exact(self.policy.penalty(self.raw_points, self.late_days, self.student.extra_days))

    @property
    def final_points(self) -> float:
        """What counts: raw points less the penalty."""
        return _exact(self.raw_points - self.penalty)

    @property
    def handed_in(self) -> bool:
        """Whether anything came in for this student."""
        return bool(self.label)

    @property
    def waiting_reviews(self) -> int:
        """Answers that nobody has marked yet and for which points would count."""
        return sum(len(self.waiting_of(exercise)) for exercise in self.exercises)

    def is_held(self, exercise: str) -> bool:
        """Whether a person gave points for the exercise as a whole: then no check and no answer of it counts."""
        whole = self.override_of(exercise)
        return whole is not None and whole.points is not None

    def waiting_of(self, exercise: ExerciseResult) -> tuple[Review, ...]:
        """The exercise's answers that wait for points; none where it `is_held`."""
        if self.is_held(exercise.id):
            return ()
        return tuple(review for review in self.reviews_of(exercise) if review.waits)

    def points_of(self, exercise: ExerciseResult) -> float:
        """Points of one exercise, what people decided included."""
        whole = self.override_of(exercise.id)
        if whole is not None and whole.points is not None:
            return whole.points
        if not self.overrides and not exercise.reviews:
            return _exact(exercise.points)
        graded = sum(self.points_of_check(exercise.id, check) for check in exercise.checks)
        return _exact(graded + sum(review.points or 0.0 for review in self.reviews_of(exercise)))

    def max_points_of(self, exercise: ExerciseResult) -> float:
        """Points that can be earned in one exercise, by checks and by answers; the same whoever has answered."""
        answers = sum(review.max_points for review in exercise.reviews)
        return _exact(exercise.max_points + max(answers, exercise.by_person))

    def points_of_check(self, exercise: str, check: CheckResult) -> float:
        """Points of one check, an override included."""
        override = self.override_of(exercise, check.id)
        return check.points if override is None or override.points is None else override.points

    def override_of(self, exercise: str, check: str = "") -> Override | None:
        """What a person decided about a check, or about the exercise as a whole."""
        return self._by_subject.get((exercise, check))

    def reviews_of(self, exercise: ExerciseResult) -> tuple[Review, ...]:
        """The exercise's written answers with the points and comments that people gave."""
        return tuple(self._marked(exercise.id, review) for review in exercise.reviews)

    def verdicts(self) -> Mapping[tuple[str, str], Verdict]:
        """How each check ended, by (exercise, check)."""
        return {
            (exercise.id, check.id): check.verdict for exercise in self.exercises for check in exercise.checks
        }

    @cached_property
    def _by_subject(self) -> Mapping[tuple[str, str], Override]:
        return {(override.exercise, override.check): override for override in self.overrides}

    def _marked(self, exercise: str, review: Review) -> Review:
        for mark in self.marks:
            if (mark.exercise, mark.question) == (exercise, review.question) and (
                not mark.answer or mark.answer == answer_key(self.student.id, exercise, review)
            ):
                return replace(review, points=mark.points, comment=mark.comment)
        return review


def in_class(records: Iterable[Record]) -> tuple[Record, ...]:
    """Those who count: whom the roster names or, where there is none, everybody."""
    return tuple(record for record in records if record.in_class)


def answer_key(student: str, exercise: str, review: Review) -> str:
    """A name for what a student answered to a question; another answer has another one."""
    text = json.dumps([student, exercise, review.question, review.answer])
    # A letter in front: a spreadsheet takes 12e34567 for a number.
    return f"a{hashlib.sha256(text.encode()).hexdigest()[:15]}"


def _exact(points: float) -> float:
    """Points without what adding tenths in binary leaves behind: equal grades shall be equal numbers."""
    return round(points, 6)
