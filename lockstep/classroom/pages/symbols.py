"""How a verdict looks on a page: a sign, a word and a colour, so that none of them is needed alone."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from lockstep.classroom.absent import has_no_file
from lockstep.result import CheckResult
from lockstep.terminal import MARKS
from lockstep.verdict import Verdict

ABSENT = "."
"""The code of a check that was not made for a student."""


@dataclass(frozen=True)
class Symbol:
    """`code` is one letter, for compact data; `name` is the class of the style sheet."""

    code: str
    name: str
    sign: str
    word: str

    def markup(self) -> Markup:
        """The sign and the word. A reader aloud gets only the word."""
        return Markup(
            '<span class="verdict {}"><span class="sign" aria-hidden="true">{}</span> {}</span>'
        ).format(self.name, self.sign, self.word)


BY_VERDICT = {
    verdict: Symbol(code, verdict.name.lower().replace("_", "-"), MARKS[verdict].sign, str(verdict))
    for code, verdict in (
        ("p", Verdict.PASSED),
        ("f", Verdict.FAILED),
        ("c", Verdict.CRASHED),
        ("h", Verdict.HUNG),
        ("l", Verdict.LIMIT),
        ("n", Verdict.NOT_CHECKED),
        ("x", Verdict.FAULT),
    )
}
IN_PART = Symbol("q", "in-part", "◐", "failed, points in part")
FILE_MISSING = Symbol("m", "file-missing", "○", "file missing")
SYMBOLS = (
    BY_VERDICT[Verdict.PASSED],
    IN_PART,
    *(BY_VERDICT[each] for each in BY_VERDICT if each is not Verdict.PASSED),
    FILE_MISSING,
)
"""All of them, in the order of a legend."""

MEANINGS = {
    Verdict.PASSED: "all points",
    Verdict.FAILED: "the code ran and did something else than the exercise asks; a part of the points may be left",
    Verdict.CRASHED: "the code raised an error, or its process died; the line is named",
    Verdict.HUNG: "it did not come back in time; who waits where is named",
    Verdict.LIMIT: "too much memory, disk, output or too many processes",
    Verdict.NOT_CHECKED: "a check it builds on did not pass; look at that one first",
    Verdict.FAULT: "the grader itself failed; tell your instructor, it is not your doing",
}


def shade(check: CheckResult) -> Symbol:
    """The symbol of a check where a failure that left points is told from one that left none, and from no hand-in."""
    if has_no_file(check):
        return FILE_MISSING
    if check.verdict is Verdict.FAILED and check.points > 0:
        return IN_PART
    return BY_VERDICT[check.verdict]


def lost(code: str) -> bool:
    """Whether a check that ended so ran, and the student's own work did not pass it."""
    return code in "fqchl"
