"""Takes students out of a gradebook who are in no class: a wrong roster or a wrong folder has put them there."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Group
from rich.text import Text

from lockstep import terminal
from lockstep.classroom.decisions import DONE, REFUSED, DecisionError, find_student
from lockstep.classroom.gradebook import Gradebook, GradebookError, open_gradebook
from lockstep.classroom.intake import UNPACKED
from lockstep.classroom.record import Record
from lockstep.classroom.renewal import renew
from lockstep.classroom.slug import slugs
from lockstep.classroom.unpacked import remove
from lockstep.terminal import of_points


def run_remove(*, gradebook: str, students: Sequence[str], not_on_roster: bool) -> int:
    """`lockstep remove`: take students out, or with none list whom the roster does not name. Returns the status."""
    out = terminal.console_for(sys.stdout)
    try:
        with open_gradebook(gradebook, create=False) as book:
            if not students and not not_on_roster:
                out.print(_candidates(book.records()))
                return DONE
            with book.grading():
                if students and not_on_roster:
                    raise DecisionError("name students or say --not-on-roster, not both")
                records = _others(book) if not_on_roster else _named(book, students)
                decided = [record for record in records if not_on_roster and _is_decided(record)]
                gone = [record for record in records if record not in decided]
                # Before they are forgotten: who else there is decides what their folders are called.
                names = slugs(book.students())
                book.remove(record.student.id for record in gone)
                unpacked = [f"{UNPACKED}/{names[record.student.id]}" for record in gone]
                left = [place for place in unpacked if not remove(Path(gradebook, place))]
            out.print(_told(gone, decided, left))
            if gone:
                out.print(Text(renew(book, gradebook)), soft_wrap=True)
            return DONE
    except (DecisionError, GradebookError) as refusal:
        terminal.complain(str(refusal))
        return REFUSED


def _others(book: Gradebook) -> list[Record]:
    """Whom the roster does not name. Raises DecisionError where there is none."""
    records = book.records()
    if not any(record.student.enrolled for record in records):
        raise DecisionError("there is no roster: say whom you mean, or grade with --roster first")
    return [record for record in records if not record.in_class]


def _named(book: Gradebook, students: Sequence[str]) -> list[Record]:
    """Those meant, by id, name or address; nobody of the roster. Raises DecisionError."""
    found = dict.fromkeys(find_student(book, text).id for text in students)
    records = [book.record(student) for student in found]
    for record in records:
        if record.student.enrolled:
            raise DecisionError(
                f"{record.student.shown} is on the roster, and the next grading would put them back: grade with a "
                "--roster without them first"
            )
    return records


def _is_decided(record: Record) -> bool:
    return bool(record.overrides or record.marks)


def _candidates(records: Sequence[Record]) -> Group | Text:
    others = [record for record in records if not record.in_class]
    if others:
        return Group(Text("Not on the roster:", style="bold"), terminal.notes(map(_line, others)))
    if any(record.student.enrolled for record in records):
        return Text("Everybody is on the roster.")
    return Text("There is no roster, so nobody can be told from the class: say whom you mean.")


def _told(gone: Sequence[Record], decided: Sequence[Record], left: Sequence[str]) -> Group:
    lists = (
        ("Removed:", [*map(_line, gone)]),
        ("Left, because nothing says that lockstep has unpacked them:", left),
        (
            "Kept, because a person decided about them; name them to remove them all the same:",
            [*map(_line, decided)],
        ),
    )
    parts = []
    for title, lines in lists:
        if lines:
            parts += [Text(title, style="bold"), terminal.notes(lines)]
    return Group(*(parts or [Text("Everybody is on the roster.")]))


def _line(record: Record) -> str:
    """Who it is, and what of theirs there is to lose."""
    name = record.student.with_id
    if not record.handed_in:
        return f"{name}: handed in nothing"
    had = of_points(record.final_points, record.max_points)
    return f"{name}: {record.label}, {had}"
