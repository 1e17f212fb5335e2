"""`lockstep show`: why a student has the points they have, for whoever is asked about one of them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from lockstep import terminal
from lockstep.classroom.decisions import DONE, REFUSED, DecisionError, find_student, find_subject
from lockstep.classroom.exports import feedback
from lockstep.classroom.exports.feedback import Item
from lockstep.classroom.gradebook import Gradebook, GradebookError, open_gradebook
from lockstep.classroom.record import Record
from lockstep.terminal import of_points
from lockstep.text import safe_line


def run_show(*, gradebook: str, student: str, what: str | None) -> int:
    """Print what a student reads about an exercise, a check or all that cost points; returns the exit status."""
    out = terminal.console_for(sys.stdout)
    try:
        with open_gradebook(gradebook, create=False) as book:
            record = book.record(find_student(book, student).id)
            if what is not None:
                find_subject(book, record.student.id, what)
            out.print(_about(record))
            items = _meant(feedback.items(record, book.catalogue()), what)
            out.print(Group(*(part for item in items for part in _item(item))))
            for line in _again(book, record, items, what):
                out.print(Text(line), soft_wrap=True)
            return DONE
    except (DecisionError, GradebookError) as refusal:
        terminal.complain(str(refusal))
        return REFUSED


def _about(record: Record) -> RenderableType:
    said = feedback.summary(record) or ("Nothing was handed in.",)
    return Group(Text(safe_line(record.student.with_id), style="bold"), terminal.notes(said))


def _meant(items: Sequence[Item], what: str | None) -> list[Item]:
    """What was asked about; where nothing was said, all that did not pass or has a point missing."""
    if what is None:
        return [item for item in items if not item.passed or item.max_points > (item.points or 0.0)]
    exercise, _, name = what.partition("/")
    return [item for item in items if item.exercise == exercise and name in ("", item.name)]


def _item(item: Item) -> Iterator[RenderableType]:
    verdict = "" if item.verdict is None else f"{item.verdict}, "
    earned = "no points yet" if item.points is None else of_points(item.points, item.max_points)
    yield Text()
    yield Text.assemble((safe_line(f"{item.exercise} / {item.name}"), "bold"), f": {verdict}{earned}")
    for text, style in ((item.title, "bright_black"), (item.said, "")):
        if text:
            yield terminal.Quote(text, style)


def _again(book: Gradebook, record: Record, items: Sequence[Item], what: str | None) -> Iterator[str]:
    """How to make the same checks on the same data, once for each exercise."""
    received = book.received().get(record.student.id)
    graded = {} if received is None else received.graded
    exercises = dict.fromkeys(item.exercise for item in items if item.verdict is not None)
    check = (what or "").partition("/")[2]
    for place, exercise in enumerate(name for name in exercises if name in graded):
        if not place:
            yield ""
            yield f"The same again, on the same data, from what came in as {safe_line(record.label)}:"
        only = f" --check {shlex.quote(check)}" if check and items[0].verdict is not None else ""
        yield f"pytest graders/ --submission PATH --exercise {exercise}{only} --seed {graded[exercise].seed}"
