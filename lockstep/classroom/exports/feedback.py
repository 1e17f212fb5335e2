"""What a student may read about their own grading, in words: the one place that every export takes it from.

Left out is what belongs to the grader or to others: seed, machine, versions, what a rubric looks for, flags, where
an equal answer was found, who decided. Messages and hints of checks hold no secret (docs/security.md); sentences of
the intake may name files of this machine, of which the folders are taken off.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lockstep.classroom.catalogue import ExerciseTitle
from lockstep.classroom.latepolicy import in_words
from lockstep.classroom.record import Record
from lockstep.result import CheckResult, ExerciseResult, Review
from lockstep.terminal import of_points
from lockstep.text import safe, safe_line
from lockstep.verdict import Verdict

_FOLDERS = re.compile(r"(?<![\w.:/~])/(?:[^\s/'\"`<>|]+/)+")


@dataclass(frozen=True)
class Item:
    """One thing that earns points: a check, or with `verdict` None a written answer.

    `number` is its place, such as 2.3; `points` are what counts, None while an answer waits for a person.
    `said` is what there is to read about it, lines broken by `\\n`; empty where all is well.
    """

    exercise: str
    number: str
    name: str
    title: str
    verdict: Verdict | None
    points: float | None
    max_points: float
    seconds: float
    said: str

    @property
    def passed(self) -> bool:
        """Whether there is nothing left to do: by the grader's verdict, or because a person gave all points."""
        return self.verdict is Verdict.PASSED or (self.points or 0.0) >= self.max_points > 0


def items(record: Record, catalogue: Sequence[ExerciseTitle]) -> tuple[Item, ...]:
    """Every check and answer of a student, in order."""
    places = {title.id: place for place, title in enumerate(catalogue, 1)}
    titles = {(exercise.id, check.id): check.title for exercise in catalogue for check in exercise.checks}
    unknown = len(places)
    found: list[Item] = []
    for exercise in record.exercises:
        if exercise.id not in places:
            unknown += 1
        place = places.get(exercise.id, unknown)
        both = (*_checks(record, exercise, titles), *_answers(record, exercise))
        found += [Item(exercise.id, f"{place}.{part}", *rest) for part, rest in enumerate(both, 1)]
    return tuple(found)


def summary(record: Record) -> tuple[str, ...]:
    """Sentences on the whole: points, penalty, what is still open, and why there is nothing where there is nothing."""
    lines = []
    if record.exercises:
        lines.append(f"{of_points(record.final_points, record.max_points)}.")
        if record.penalty:
            late = in_words(record.late_days or 0.0)
            lines.append(f"{late} late: {record.penalty:g} of {record.raw_points:g} points are taken off.")
    if record.problem:
        lines.append(f"Nothing could be graded: {public(record.problem)}")
    lines += _decided(record)
    if record.waiting_reviews:
        answers = (
            "1 answer waits" if record.waiting_reviews == 1 else f"{record.waiting_reviews} answers wait"
        )
        lines.append(f"{answers} for a person, who may still give points.")
    lines += [f"Note: {public(note)}" for note in record.notes]
    return tuple(lines)


def public(sentence: str) -> str:
    """A sentence about a hand-in as its student may read it: harmless, and without the folders of this machine."""
    return _FOLDERS.sub("", safe(sentence))


_Rest = tuple[str, str, Verdict | None, float | None, float, float, str]


def _checks(
    record: Record, exercise: ExerciseResult, titles: Mapping[tuple[str, str], str]
) -> Iterator[_Rest]:
    for check in exercise.checks:
        points = record.points_of_check(exercise.id, check)
        title = safe_line(titles.get((exercise.id, check.id), ""))
        said = "\n".join(_said(record, exercise, check))
        yield check.id, title, check.verdict, points, check.max_points, check.seconds, said


def _said(record: Record, exercise: ExerciseResult, check: CheckResult) -> Iterator[str]:
    if check.message:
        yield safe(check.message)
    if check.hint:
        yield f"Try: {safe(check.hint)}"
    override = record.override_of(exercise.id, check.id)
    if override is not None:
        if override.points is not None:
            yield f"A person gave {override.points:g} instead of {check.points:g} points."
        if override.comment:
            yield f"Comment: {safe(override.comment)}"


def _answers(record: Record, exercise: ExerciseResult) -> Iterator[_Rest]:
    for review in record.reviews_of(exercise):
        said = "\n".join(_marked(review, record.is_held(exercise.id)))
        points = None if review.waits else review.points or 0.0
        yield safe_line(review.question), safe_line(review.title), None, points, review.max_points, 0.0, said


def _marked(review: Review, is_held: bool) -> Iterator[str]:
    if review.waits:
        yield "The points for the exercise as a whole hold." if is_held else "Waits for a person."
    elif not review.answer and review.points is None:
        yield "There is no answer."
    if review.comment:
        yield f"Comment: {safe(review.comment)}"


def _decided(record: Record) -> Iterator[str]:
    graded = {exercise.id: exercise for exercise in record.exercises}
    for override in record.overrides:
        if override.check:
            continue
        exercise = graded.get(override.exercise)
        said = ""
        if exercise is not None and override.points is not None:
            points = of_points(record.points_of(exercise), record.max_points_of(exercise))
            said = f" a person gave {points}."
        yield f"{safe_line(override.exercise)}:{said} {safe(override.comment)}".strip()
