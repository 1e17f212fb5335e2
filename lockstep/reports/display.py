"""What a person sees of a verification: a heading per file, the gravest finding first, at the end what was left open.

A word on tone: whoever reads this has measured something, is tired, and wants to know what to do. A figure of a
GPU is never called true; the most there is to say is that nothing speaks against it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from lockstep.reports.finding import Finding, Judgement
from lockstep.terminal import Quote
from lockstep.text import safe, safe_line

if TYPE_CHECKING:
    from lockstep.reports.command import Told

STYLES = {
    Judgement.IMPOSSIBLE: "red",
    Judgement.INCONSISTENT: "red",
    Judgement.UNUSUAL: "yellow",
    Judgement.CONSISTENT: "green",
    Judgement.NOT_VERIFIED: "bright_black",
}
SHOWN = (Judgement.IMPOSSIBLE, Judgement.INCONSISTENT, Judgement.UNUSUAL, Judgement.CONSISTENT)
"""The order in which findings are shown; those that were not verified come last, in one paragraph."""
MEANING = {
    Judgement.IMPOSSIBLE: "costs points",
    Judgement.INCONSISTENT: "costs points",
    Judgement.UNUSUAL: "a person reads it; costs nothing",
}
REASON = 90
"""Characters of a reason in the paragraph of what was not verified."""


def page(told: Sequence[Told]) -> RenderableType:
    """All files, and a last line that counts them."""
    parts: list[RenderableType] = []
    for each in told:
        parts += [of_file(each), Text()]
    return Group(*parts, summary(told))


def of_file(told: Told) -> RenderableType:
    """The heading, and a paragraph per finding."""
    word = told.judgement
    # The name is the student's: it begins no line, and no wrapping may make it do so.
    heading = Text(no_wrap=True, overflow="ellipsis").append(str(word), style=f"bold {STYLES[word]}")
    parts: list[RenderableType] = [heading.append(": ").append(safe_line(told.file), style="bold")]
    if told.report is not None:
        parts.append(Quote(_about(told)))
    findings = told.verification.findings
    if not told.readable:
        return Group(*parts, *(Quote(safe(finding.message)) for finding in findings))
    for judgement in SHOWN:
        for finding in findings:
            if finding.judgement is judgement:
                parts += [Text(), *_paragraph(finding)]
    left_open = [finding for finding in findings if finding.judgement is Judgement.NOT_VERIFIED]
    if left_open:
        parts += [Text(), Quote(_left_open(left_open), style="bright_black")]
    return Group(*parts)


def summary(told: Sequence[Told]) -> Text:
    """How many files there are of each verdict, and what that means for the points."""
    counts = Counter(each.judgement for each in told)
    words = ", ".join(
        f"{counts[word]} {word}" for word in (*SHOWN[::-1], Judgement.NOT_VERIFIED) if counts[word]
    )
    costs = any(each.judgement.costs for each in told)
    line = f"{len(told)} report{'s' * (len(told) != 1)}: {words}. "
    if costs:
        return Text(f"{line}Inconsistent and impossible cost points, the rest does not.", style="bold")
    if not all(each.readable for each in told):
        return Text(f"{line}What cannot be read cannot be graded.", style="bold")
    return Text(f"{line}Nothing here costs points.", style="bold green")


def _about(told: Told) -> str:
    report = told.report
    assert report is not None
    runs, groups = len(report.runs), len(report.groups)
    about = (
        f"{report.kind} of {safe_line(report.student, 60)}: {runs} run{'s' * (runs != 1)} "
        f"of {groups} configuration{'s' * (groups != 1)}."
    )
    if told.judgement is Judgement.CONSISTENT:
        gpus = " What a GPU did, numbers cannot prove." if report.gpus else ""
        return f"{about} Nothing speaks against it.{gpus}"
    return about


def _paragraph(finding: Finding) -> list[RenderableType]:
    word = "advice" if finding.judgement is Judgement.CONSISTENT else str(finding.judgement)
    meaning = MEANING.get(finding.judgement)
    return [
        Text.assemble(
            "  ",
            (finding.rule, "bold"),
            " ",
            (word, STYLES[finding.judgement]),
            (f" ({meaning})" if meaning else "", "bright_black"),
        ),
        Quote(safe(finding.message)),
    ]


def _left_open(findings: Iterable[Finding]) -> str:
    """One paragraph: the rules, those with one reason together."""
    reasons: dict[str, list[str]] = {}
    for finding in findings:
        rules = reasons.setdefault(_short(finding.message), [])
        if finding.rule not in rules:
            rules.append(finding.rule)
    told = "; ".join(f"{', '.join(rules)}: {reason}" for reason, rules in reasons.items())
    return f"not verified: {told}."


def _short(message: str) -> str:
    """The first sentence, or as much of it as a paragraph of many bears."""
    sentence = safe_line(message, 1000).split(". ")[0].rstrip(".")
    return sentence if len(sentence) <= REASON else f"{sentence[:REASON].rsplit(' ', 1)[0]} ..."
