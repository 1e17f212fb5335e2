"""`lockstep review`: the written answers of a class, out to a person as a table and back with points."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from lockstep import terminal
from lockstep.classroom.decisions import DONE, REFUSED, user
from lockstep.classroom.gradebook import GradebookError, open_gradebook
from lockstep.classroom.marking import MarkingError, Taken, read_reviews, waiting, write_reviews
from lockstep.classroom.record import Record
from lockstep.classroom.renewal import renew
from lockstep.text import safe_line


def run_review(*, gradebook: str, write: Path | None, read: Path | None, by: str, above_max: bool) -> int:
    """`lockstep review`: write the table, take it in, or say how many answers wait. Returns the exit status."""
    out = terminal.console_for(sys.stdout)
    try:
        with open_gradebook(gradebook, create=False) as book:
            if write is not None:
                place = book.shown if "://" in gradebook else gradebook
                out.print(Text(_written(write_reviews(book, write), write, place)), soft_wrap=True)
            elif read is not None:
                out.print(Text(_told(read_reviews(book, read, by or user(), above_max=above_max))))
                out.print(Text(renew(book, gradebook)), soft_wrap=True)
            else:
                out.print(Text("\n".join(_summary(book.records()))))
            return DONE
    except MarkingError as refusal:
        for problem in refusal.problems:
            terminal.complain(problem)
        if read is not None:
            terminal.complain("nothing was taken in")
    except GradebookError as refusal:
        terminal.complain(str(refusal))
    except OSError as error:
        terminal.complain(f"{write} cannot be written: {error.strerror}")
    return REFUSED


def _written(count: int, path: Path, place: str) -> str:
    if not count:
        return f"No answer waits; {path} has a header and no row."
    back = shlex.join(["lockstep", "review", place, "--read", str(path)])
    return f"{_answers(count)} in {path}: fill in points and comment, then: {back}"


def _told(taken: Taken) -> str:
    parts = [f"Points for {_answers(taken.marked)}"]
    if taken.commented:
        parts.append(f"{taken.commented} with a comment only, which still wait")
    if taken.empty:
        parts.append(f"{taken.empty} left empty")
    if taken.changed:
        parts.append(f"{taken.changed} had other points before")
    if taken.outdated:
        parts.append(f"{taken.outdated} for an answer that the student has replaced since: the new one waits")
    return " ".join(["; ".join(parts) + ".", *_held(taken)])


def _held(taken: Taken) -> list[str]:
    if not taken.held:
        return []
    few = "; ".join(safe_line(name, 80) for name in taken.held[:10])
    more = f"; {len(taken.held) - 10} more" if len(taken.held) > 10 else ""
    return [
        f"A decision about the exercise as a whole holds, whatever its answers have got ({few}{more}): "
        "`lockstep override --withdraw` takes it back."
    ]


def _summary(records: Sequence[Record]) -> list[str]:
    found = waiting(records)
    if not found:
        return ["No answer waits."]
    lines = [f"{_answers(len(found), ' waits', ' wait')} for a person:"]
    counts = Counter((answer.exercise, answer.review.question, answer.review.title) for answer in found)
    for (exercise, question, title), count in counts.items():
        lines.append(f"{count:6}  {safe_line(exercise)}/{safe_line(question)}  {safe_line(title)}")
    return lines


def _answers(count: int, one: str = "", many: str = "") -> str:
    return f"1 answer{one}" if count == 1 else f"{count} answers{many}"
