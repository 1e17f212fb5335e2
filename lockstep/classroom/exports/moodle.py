"""Moodle's offline grading worksheet, filled in place: grades and feedback comments change, every other byte stays.

Moodle documentation, "Assignment settings" (feedback type "Offline grading worksheet") and "Using Assignment",
section "Offline marking": the file that is downloaded is the one that is uploaded again, and Moodle takes a row only
where its column `Last modified (grade)` is what Moodle has itself.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence

from lockstep.classroom.catalogue import ExerciseTitle
from lockstep.classroom.exports import feedback
from lockstep.classroom.exports.fill import Filled, Grade, Row, fill
from lockstep.classroom.exports.grade import scale
from lockstep.classroom.exports.owners import EMAIL, NAME
from lockstep.classroom.exports.worksheet import Worksheet, parse_number, read_worksheet
from lockstep.classroom.record import Record
from lockstep.classroom.sheet import SheetError

IDENTIFIER, GRADE, MOST = "Identifier", "Grade", "Maximum Grade"
CHANGEABLE, COMMENTS = "Grade can be changed", "Feedback comments"
_IDS = (
    (IDENTIFIER, IDENTIFIER),
    ("ID number", "ID number"),
    ("Username", "Username"),
    ("Email address", EMAIL),
)

COMMENT = 30_000
"""Characters of a comment: a spreadsheet takes 32,767 in a cell, and cuts off the rest without a word."""

# The comment's own semicolons end HTML entities; a spreadsheet that splits at them must find no formula behind one.
_FORMULA = re.compile(r"(?<=;)[\s\"]*(?:[=+\-@＝＋－＠][\s\"]*)+")


def fill_moodle(
    data: bytes, name: str, records: Sequence[Record], catalogue: Sequence[ExerciseTitle]
) -> Filled:
    """The worksheet with `Grade` and, where Moodle offers it, `Feedback comments` filled. Raises SheetError.

    Grades are scaled to the row's `Maximum Grade`. A row whose grade cannot be changed stays as it is. Who handed in
    something of which nothing could be graded gets the reason as a comment, and no grade.
    """
    try:
        sheet = read_worksheet(data, name, (IDENTIFIER, GRADE))
    except SheetError as error:
        raise SheetError(
            f"{error} A worksheet in another language is not read: "
            "switch Moodle to English and download it once more."
        ) from error
    has_comments = sheet.has(COMMENTS)

    def written(grade: Grade) -> Iterator[tuple[str, str]]:
        if grade.points:
            yield GRADE, grade.points
        if has_comments and (grade.points or grade.record.problem):
            yield COMMENTS, comment(grade.record, catalogue)

    return fill(
        sheet,
        {row: _row(sheet, row) for row in range(len(sheet.rows))},
        records,
        scale(records, catalogue),
        sheet.decimal_mark(MOST, GRADE),
        may_exceed=False,
        written=lambda grade: dict(written(grade)),
    )


def comment(record: Record, catalogue: Sequence[ExerciseTitle]) -> str:
    """What the student reads, as HTML, which Moodle takes comments for; at most `COMMENT` characters."""
    paragraphs = [_html("\n".join(feedback.summary(record)))]
    items = [item for item in feedback.items(record, catalogue) if item.said or not item.passed]
    room = COMMENT - len(paragraphs[0])
    for position, item in enumerate(items):
        paragraph = _html(_paragraph(item))
        room -= len(paragraph) + len("<p></p>")
        if room < 200:
            paragraphs.append(f"and {len(items) - position} more remarks")
            break
        paragraphs.append(paragraph)
    return "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs if paragraph)


def _paragraph(item: feedback.Item) -> str:
    points = "" if item.points is None else f", {item.points:g} of {item.max_points:g} points"
    head = f"{item.exercise} / {item.name}: {item.verdict or 'answer'}{points if item.max_points else ''}"
    return "\n".join(part for part in (head, item.title, item.said) if part)


def _html(text: str) -> str:
    escaped = html.escape(text).replace("\n", "<br>")
    return _FORMULA.sub(
        lambda found: re.sub(r"[^\s\"]", lambda sign: f"&#{ord(sign[0])};", found[0]), escaped
    )


def _row(sheet: Worksheet, row: int) -> Row:
    most = parse_number(sheet.text(row, MOST))
    closed = ""
    if sheet.text(row, CHANGEABLE).casefold() == "no":
        closed = "has a grade that Moodle does not let anybody change"
    elif sheet.text(row, MOST) and most is None:
        closed = f"has no points for a maximum, but {sheet.text(row, MOST)}"
    ids = {kind.casefold(): sheet.text(row, column) for column, kind in _IDS}
    return Row(
        sheet.text(row, "Full name") or sheet.text(row, IDENTIFIER),
        {**ids, NAME: sheet.text(row, "Full name")},
        most,
        closed,
    )
