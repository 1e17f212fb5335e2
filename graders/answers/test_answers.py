"""Exercise 10: written answers. A person marks them; here it is only told what a person could not mark.

Nothing is run: the file and the reports beside it are read as text. Both checks are worth no points, and a number that
is not among the student's own is a question to them, never a reproach: measurements are made again, and an old number
stays in a text.
"""

from __future__ import annotations

from dataclasses import dataclass

from graders.answers.measured import FILES, Figure, Kind, Reports, headlines, read_reports
from graders.answers.quotes import Quote, quotes
from graders.answers.rubric import Question, questions
from graders.answers.sections import FILE, MAX_BYTES, Answers, Section, candidates, decode, parse
from graders.answers.substance import (
    FEWEST_WORDS,
    IN_A_COMMENT,
    SAME_ANSWERS,
    own_text,
    own_words,
    same_text,
    why_nothing,
)
from lockstep.check import Check
from lockstep.members import shown, size_text
from lockstep.result import Review
from lockstep.submission import misnamed
from lockstep.text import listed
from lockstep.verdict import Failed, NotChecked

STATED = (Kind.RATIO, Kind.SHARE, Kind.RATE)
"""What an answer compares by; seconds are also those of something that no report is about."""

NEAREST, TOLD = 2, 4
"""Figures that are told beside one quote, and quotes of one answer that are told."""


def test_present(check: Check) -> None:
    """Every question has a heading, `## Q1` and so on, and an answer in words of your own below it."""
    file = read(check)
    answers = file.answers
    same = same_text(answers.sections, questions())
    leave_to_a_person(check, answers, same)
    if file.encoding:
        check.note(
            f"{shown(file.path)} was read as {file.encoding}; save it as UTF-8, so that everybody reads the same."
        )
    for remark in answers.remarks:
        check.note(remark)
    missing = [question for question in questions() if question.number not in answers.sections]
    if missing:
        check.fail(
            f"{listed([question.name for question in missing])} {'has' if len(missing) == 1 else 'have'} no heading.",
            hint=where_it_went(answers, missing),
        )
    empty: dict[str, list[str]] = {}
    for question in questions():
        if why := why_nothing(answers.sections[question.number], question):
            empty.setdefault(why, []).append(question.name)
    if empty:
        check.fail(
            " ".join(f"{listed(names)}: {why}." for why, names in empty.items()),
            hint="Move it out of the comment, below the line with `-->`."
            if list(empty) == [IN_A_COMMENT]
            else f"Say it in a sentence or two of your own, in any language: at least {FEWEST_WORDS} different words.",
        )
    for group in same:
        names = [f"Q{number}" for number in group]
        told = f"{listed(names[1:])} {'has' if len(names) == 2 else 'have'} the same answer as {names[0]}."
        check.expect(
            len(group) < SAME_ANSWERS,
            told,
            hint="Each question asks for something else; answer it by itself.",
        )
        check.note(told)


def test_grounded(check: Check) -> None:
    """The measurements that your answers quote are those of your own reports."""
    sections = read(check).answers.sections
    given = {question: sections.get(question.number, Section()) for question in questions()}
    given = {
        question: section for question, section in given.items() if why_nothing(section, question) is None
    }
    if not given:
        raise NotChecked(
            "There is no answer whose numbers could be compared.", "Write `## Q1` and an answer below it."
        )
    reports = read_reports(check.submission)
    contradicted, unusual = [], []
    for question, section in given.items():
        compared = compare(question, section, reports)
        if compared.contradicts:
            contradicted.append(asked_about(question, compared.odd, reports))
        elif compared.odd:
            unusual.append(asked_about(question, compared.odd, reports))
    for sentence in unusual:
        check.note(f"Unusual: {sentence}")
    tell_what_is_missing(check, given, reports)
    check.expect(
        not contradicted,
        " ".join(contradicted),
        hint="Measured again since? Then quote the report that you hand in. A number from elsewhere needs its source "
        "beside it. This costs no points; a person reads your answer.",
    )


@dataclass(frozen=True)
class File:
    """The file as it was read."""

    path: str
    encoding: str
    answers: Answers


def read(check: Check) -> File:
    """The answers of a submission; ends the exercise where there is no file to read."""
    paths = candidates(check.submission)
    if not paths:
        near = misnamed(check.submission, FILE)
        there = f" {near[0].upper()}{near[1:]}." if near else ""
        raise unreadable(
            f"There is no {FILE}.{there}", "Plain text, with a heading `## Q1` for each question."
        )
    if len(paths) > 1:
        raise unreadable(
            f"There are {len(paths)} files of that name: {', '.join(map(shown, paths[:3]))}.",
            "Keep one of them, at the top of your folder.",
        )
    data = check.submission.files[paths[0]]
    if len(data) > MAX_BYTES:
        raise unreadable(
            f"{shown(paths[0])} has {size_text(len(data))}; more than {size_text(MAX_BYTES)} is not read.",
            "A few sentences a question are enough. Pictures go into files of their own.",
        )
    text, encoding = decode(data)
    return File(paths[0], encoding, parse(text, questions()))


def unreadable(message: str, hint: str) -> Failed:
    """What there is to say once, and not again at the next check."""
    failed = Failed(message, hint)
    failed.spoils = True
    return failed


def leave_to_a_person(check: Check, answers: Answers, same: list[list[int]]) -> None:
    """Hand every question to whoever marks it, with what they want beside it."""
    reports = read_reports(check.submission)
    first = {number: group[0] for group in same for number in group[1:]}
    for question in questions():
        section = answers.sections.get(question.number, Section())
        check.review(
            Review(
                question=question.name,
                title=question.title,
                max_points=question.points,
                answer=own_text(section.text, question),
                words=len(own_words(section.said, question).own),
                look_for="" if check.self_check else question.look_for,
                numbers=tuple(headlines(own_figures(question, reports))),
                duplicate=f"the same text as Q{first[question.number]}" if question.number in first else None,
            )
        )


def where_it_went(answers: Answers, missing: list[Question]) -> str:
    """Why a heading was not found, where that can be told."""
    names = {question.number for question in missing}
    if names & set(answers.in_code):
        return (
            "There are such headings inside a code block: take away the fence (```) around them, or the four blanks in "
            "front."
        )
    if answers.unclosed:
        return "A comment, `<!--`, is never closed by `-->`: all that follows it is part of it."
    return f"Write `## {missing[0].name}` on a line of its own, and the answer below it."


@dataclass(frozen=True)
class Compared:
    """The quotes of one answer that could be compared with a report, and those of them that are not in it."""

    quotes: list[Quote]
    odd: list[Quote]

    @property
    def contradicts(self) -> bool:
        """Whether the answer is about other numbers than the report.

        One that is off among some that are not is a slip or somebody else's; so may be a lone time. Bytes are of many
        things, gradients and buckets among them, and contradict nothing.
        """
        stated = [quote for quote in self.odd if quote.kind in STATED]
        counted = [quote for quote in self.odd if quote.kind is not Kind.BYTES]
        return len(self.odd) == len(self.quotes) and (len(counted) > 1 or bool(stated))


def compare(question: Question, section: Section, reports: Reports) -> Compared:
    """Look for the numbers of one answer in the question's own reports, then in the others."""
    own = own_figures(question, reports)
    others = [figure for figures in reports.figures.values() for figure in figures]
    batches = {figure.value for figure in own if figure.kind is Kind.BATCH}
    found = [
        quote
        for quote in quotes(section.told)
        if any(figure.kind is quote.kind for figure in own)
        # With a batch that the report has not: measured besides.
        and not (batches and quote.batches and not quote.batches & batches)
    ]
    return Compared(found, [quote for quote in found if not is_known(quote, own, others)])


def is_known(quote: Quote, own: list[Figure], others: list[Figure]) -> bool:
    """Whether a quote is a figure of the question's own report, or one that another report is about.

    Seconds may be whatever follows from any report: they are compared with nothing, so they mislead nobody.
    """
    if any(quote.agrees_with(figure) for figure in own):
        return True
    if quote.kind in STATED:
        return any(quote.agrees_with(figure, near=0.0) for figure in others if figure.told)
    return any(quote.agrees_with(figure) for figure in others)


def own_figures(question: Question, reports: Reports) -> list[Figure]:
    """What was measured on the subject of a question."""
    return [figure for kind in question.reports for figure in reports.figures.get(kind, ())]


def asked_about(question: Question, odd: list[Quote], reports: Reports) -> str:
    """What an answer says, beside what the report has of that kind."""
    path = next(reports.files[kind] for kind in question.reports if kind in reports.files)
    near: list[str] = []
    for quote in odd:
        alike = (
            figure for figure in own_figures(question, reports) if figure.kind is quote.kind and figure.told
        )
        near += [figure.told for figure in sorted(alike, key=quote.distance)[:NEAREST]]
    has = "; ".join(list(dict.fromkeys(near))[:TOLD]) or "nothing near it"
    return f"{question.name} says {listed([quote.text for quote in odd[:TOLD]])}; {shown(path)} has {has}."


def tell_what_is_missing(check: Check, given: dict[Question, Section], reports: Reports) -> None:
    """Numbers without a report are nobody's fault: an exercise stands alone."""
    without = {
        question: FILES[kind]
        for question, section in given.items()
        for kind in question.reports
        if kind not in reports.files and quotes(section.told)
    }
    if without:
        names = listed([question.name for question in without])
        files = listed([f"`reports/{file}`" for file in without.values()])
        broken = (
            f" Not valid: {', '.join(map(shown, reports.unreadable[:TOLD]))}." if reports.unreadable else ""
        )
        check.note(f"The numbers of {names} were compared with nothing: no report {files}.{broken}")
