"""The last words of `lockstep grade`: what became of the class, where it is written, and what is left for a person."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from lockstep.classroom.catalogue import ExerciseTitle
from lockstep.classroom.exports.grade import MISSING, scale, why_no_grade
from lockstep.classroom.grade import Graded
from lockstep.classroom.intake import LATE
from lockstep.classroom.record import Record, in_class
from lockstep.classroom.turned import told
from lockstep.terminal import notes
from lockstep.text import few_lines

LISTED = 10
"""People and files that are named; all of them are on the class page."""


def ungraded(records: Sequence[Record], catalogue: Sequence[ExerciseTitle]) -> tuple[tuple[Record, str], ...]:
    """Those in the class who handed in and have no grade, and why."""
    graded_on = scale(records, catalogue)
    found = ((record, why_no_grade(record, graded_on)) for record in in_class(records))
    return tuple((record, why) for record, why in found if why and why != MISSING)


def summary(
    graded: Graded,
    records: Sequence[Record],
    catalogue: Sequence[ExerciseTitle],
    out: Path,
    gradebook: str = "",
    turned: Sequence[tuple[str, str]] = (),
) -> RenderableType:
    """What became of the class, in a few lines; those that hold a command or a path are never broken.

    `gradebook` is what other commands are given where it is not in the folder of results; `turned` are points that
    changed, as `lockstep.classroom.turned` finds them.
    """
    results = shlex.quote(gradebook or str(out))
    others = [record for record in records if not record.in_class]
    records = in_class(records)
    unsure = _nobody_knows(graded, records)
    without = ungraded(records, catalogue)
    parts: list[RenderableType] = [Text(line) for line in _figures(graded, records, without, catalogue)]
    lists = (
        ("Not graded:", [f"{_told_apart(record, records)}: {why}" for record, why in without]),
        ("Decided before, and fewer points than now:", list(_outgrown(records))),
        (
            "Other points than before for the same work:",
            told(turned, {record.student.id: _told_apart(record, records) for record in records}),
        ),
        ("Graded before under another name:", graded.renamed),
        (
            "Not on the roster; what they have is kept and counts nowhere:",
            [_told_apart(record, others) for record in others],
        ),
        (
            "Not among these hand-ins, and no roster says whether they are in the class; what they have counts:",
            [_told_apart(record, records) for record in unsure],
        ),
        ("Machines:", graded.remarks),
        (
            "Nobody's, or set aside:" if graded.intake.set_aside else "Nobody's:",
            [f"{item.label}: {item.reason}" for item in graded.intake.unmatched],
        ),
    )
    for title, lines in lists:
        if lines:
            parts += [Text(), Text(title, style="bold"), notes(few_lines(lines, LISTED))]
    parts.append(Text())
    steps = list(_next_steps(records, without, out, results))
    if others or unsure:
        whom = "--not-on-roster" if others else "STUDENT"
        steps.append(
            f"Who was never in the class is taken out of the results: lockstep remove {results} {whom}"
        )
    parts += [Text(line, no_wrap=True, overflow="ignore") for line in steps]
    return Group(*parts)


def _nobody_knows(graded: Graded, records: Sequence[Record]) -> Sequence[Record]:
    """Without a roster those who are not in this download: handed in before, or made up by a wrong folder."""
    if any(record.student.enrolled for record in records):
        return ()
    present = {handin.student.id for handin in graded.intake.handins}
    return [record for record in records if record.student.id not in present]


def _figures(
    graded: Graded,
    records: Sequence[Record],
    without: Sequence[tuple[Record, str]],
    catalogue: Sequence[ExerciseTitle],
) -> Iterator[str]:
    plan = graded.plan
    handed_in, set_aside = len(graded.intake.handins), graded.intake.set_aside
    nobodys = len(graded.intake.unmatched) - set_aside
    kept = {record.student.id for record in records if record.handed_in}
    none = {record.student.id for record, _ in without}
    begun = {(work.path, work.name) for work in plan.work}
    given_up = sum(
        handin.path is not None
        and handin.student.id in none
        and (handin.path.absolute(), handin.student.shown) in begun
        for handin in graded.intake.handins
    )
    nothing = [student for student in graded.intake.missing if student.id not in kept]
    yield (
        f"{_count(handed_in, 'hand-in')}: {len(plan.work) - given_up} graded now, {plan.unchanged} unchanged, "
        f"{len(without)} without a grade. {_count(len(nothing), 'student')} handed in nothing, "
        f"{_count(nobodys, 'file')} {'belongs' if nobodys == 1 else 'belong'} to nobody."
    )
    if absent := len(graded.intake.missing) - len(nothing):
        are = "is" if absent == 1 else "are"
        yield f"{_count(absent, 'student')} {are} not among these hand-ins; what they handed in before counts."
    if late := sum(LATE in handin.notes for handin in graded.intake.handins):
        yield (
            f"{_count(late, 'hand-in')} {'is' if late == 1 else 'are'} marked LATE by Canvas, and nothing says by how "
            "much: no points are taken off. The roster's column `late days` or `submitted at` can say it."
        )
    if set_aside:
        yield (
            f"{_count(set_aside, 'file')} {'was' if set_aside == 1 else 'were'} set aside: older hand-ins of known "
            "students, or what tools have made."
        )
    final = [record.final_points for record in records if record.handed_in and record.student.id not in none]
    if final:
        most = scale(records, catalogue).max_points
        slowest = max(records, key=_seconds)
        yield (
            f"Mean {sum(final) / len(final):.1f} of {most:g} points. "
            f"Slowest: {slowest.student.shown}, {_seconds(slowest):.0f} s in checks."
        )


def _outgrown(records: Sequence[Record]) -> Iterator[str]:
    """Decisions from before the last grading that keep a student from points which the graders give now."""
    for record in records:
        graded = {exercise.id: exercise for exercise in record.exercises}
        for held in record.overrides:
            exercise = graded.get(held.exercise)
            if (
                held.points is None
                or exercise is None
                or record.attempt is None
                or record.attempt.started_at <= held.at
            ):
                continue
            others = tuple(each for each in record.overrides if each is not held)
            free = replace(record, overrides=others)
            checks = {check.id: check.points for check in exercise.checks}
            now = checks.get(held.check, 0.0) if held.check else free.points_of(exercise)
            if now > held.points:
                what = f"{held.exercise}/{held.check}" if held.check else held.exercise
                yield (
                    f"{_told_apart(record, records)}: {what}: a decision holds {held.points:g}, "
                    f"the graders now give {now:g}"
                )


def _next_steps(
    records: Sequence[Record], without: Sequence[tuple[Record, str]], out: Path, results: str
) -> Iterator[str]:
    yield f"{out / 'index.html'} shows the class; tables are in {out / 'exports'}/."
    waiting = sum(record.waiting_reviews for record in records)
    if waiting:
        wait = "waits" if waiting == 1 else "wait"
        yield f"{_count(waiting, 'answer')} {wait} for a person: lockstep review {results}"
    flagged = sum(bool(record.flags) for record in records)
    if flagged:
        yield f"{_count(flagged, 'student')} to look at or talk to: they are flagged on the class page."
    if without:
        yield f"Points that a person gives stay, whatever is graded later: lockstep override {results}"


def _told_apart(record: Record, records: Sequence[Record]) -> str:
    """A student's name, with the id where others are called the same."""
    name = record.student.shown
    same = sum(other.student.shown == name for other in records)
    return name if same == 1 else record.student.with_id


def _seconds(record: Record) -> float:
    return sum(exercise.seconds for exercise in record.exercises)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
