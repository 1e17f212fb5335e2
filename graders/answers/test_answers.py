"""Exercise 10: written answers. A person marks them; here it is only told what a person could not mark.

Nothing is run: the file and the reports beside it are read as text. Both checks are worth no points, and a number that
is not among the student's own is a question to them, never a reproach: measurements are made again, and an old number
stays in a text.
"""

from __future__ import annotations

from graders.answers.measured import FILES, Figure, Kind, Reports, headlines, read_reports
from graders.answers.quotes import Quote, quotes
from graders.answers.rubric import Question, questions
from graders.answers.sections import FILE, MAX_BYTES, Answers, Section, candidates, decode, parse
from graders.answers.substance import FEWEST_WORDS, SAME_ANSWERS, own_text, own_words, same_text, why_nothing
from lockstep.check import Check
from lockstep.members import shown, size_text
from lockstep.result import Review
from lockstep.verdict import NotChecked

STATED = (Kind.RATIO, Kind.SHARE, Kind.RATE)
"""What an answer compares by; seconds are also those of something that no report is about."""

NEAREST = 3
TOLD = 4
"""Sentences about single numbers; more are not read."""


def test_present(check: Check) -> None:
    """Every question has a heading, `## Q1` and so on, and an answer in words of your own below it."""
    answers = read(check)
    same = same_text(answers.sections, questions())
    leave_to_a_person(check, answers, same)
    for remark in answers.remarks:
        check.note(remark)
    missing = [question for question in questions() if question.number not in answers.sections]
    if missing:
        check.fail(
            f"{listed(missing)} {'has' if len(missing) == 1 else 'have'} no heading.",
            hint=where_it_went(answers, missing),
        )
    empty: dict[str, list[Question]] = {}
    for question in questions():
        if why := why_nothing(answers.sections[question.number], question):
            empty.setdefault(why, []).append(question)
    if empty:
        check.fail(
            " ".join(f"{listed(asked)}: {why}." for why, asked in empty.items()),
            hint=f"Say it in a sentence or two of your own, in any language: at least {FEWEST_WORDS} different words.",
        )
    for group in same:
        names = [f"Q{number}" for number in group]
        told = f"{', '.join(names[1:])} {'has' if len(names) == 2 else 'have'} the same answer as {names[0]}."
        check.expect(
            len(group) < SAME_ANSWERS,
            told,
            hint="Each question asks for something else; answer it by itself.",
        )
        check.note(told)


def test_grounded(check: Check) -> None:
    """The measurements that your answers quote are those of your own reports."""
    answers = read(check)
    given = {
        question: answers.sections[question.number]
        for question in questions()
        if question.number in answers.sections
        and why_nothing(answers.sections[question.number], question) is None
    }
    if not given:
        raise NotChecked(
            "There is no answer whose numbers could be compared.", "Write `## Q1` and an answer below it."
        )
    reports = read_reports(check.submission)
    contradicted: list[str] = []
    for question, section in given.items():
        contradicted += look_at_numbers(check, question, section, reports)
    check.expect(
        not contradicted,
        " ".join(contradicted[:TOLD]),
        hint="Measured again since? Then quote the report that you hand in. A number from elsewhere needs its source "
        "beside it. This costs no points; a person reads your answer.",
    )


def read(check: Check) -> Answers:
    """The answers of a submission; ends the check where there is no file to read."""
    paths = candidates(check.submission)
    if not paths:
        check.fail(f"There is no {FILE}.", hint="Plain text, with a heading `## Q1` for each question.")
    if len(paths) > 1:
        check.fail(
            f"There are {len(paths)} files of that name: {', '.join(map(shown, paths[:3]))}.",
            hint="Keep one of them, at the top of your folder.",
        )
    data = check.submission.files[paths[0]]
    if len(data) > MAX_BYTES:
        check.fail(
            f"{shown(paths[0])} has {size_text(len(data))}; more than {size_text(MAX_BYTES)} is not read.",
            hint="A few sentences a question are enough. Pictures go into files of their own.",
        )
    text, encoding = decode(data)
    if encoding:
        check.note(
            f"{shown(paths[0])} was read as {encoding}; save it as UTF-8, so that everybody reads the same."
        )
    return parse(text, questions())


def leave_to_a_person(check: Check, answers: Answers, same: list[list[int]]) -> None:
    """Hand every question to whoever marks it, with what they want beside it."""
    reports = read_reports(check.submission)
    first = {number: group[0] for group in same for number in group[1:]}
    for question in questions():
        section = answers.sections.get(question.number, Section())
        own = [figure for kind in question.reports for figure in reports.figures.get(kind, ())]
        check.review(
            Review(
                question=question.name,
                title=question.title,
                max_points=question.points,
                answer=own_text(section.text, question),
                words=len(own_words(section.said, question).own),
                look_for="" if check.self_check else question.look_for,
                numbers=tuple(headlines(own)),
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


def look_at_numbers(check: Check, question: Question, section: Section, reports: Reports) -> list[str]:
    """What to ask about the numbers of one answer; a single one among others that are found is only a note.

    An answer contradicts the reports when it is about numbers, and none of them is the student's own.
    """
    found = quotes(section.told) if question.reports else []
    absent = [FILES[kind] for kind in question.reports if kind not in reports.files]
    if found and absent:
        broken = [path for path in reports.unreadable if path.casefold().endswith(absent[0])]
        why = f"{shown(broken[0])} is no valid report" if broken else f"there is no `reports/{absent[0]}`"
        check.note(f"{question.name} quotes {found[0].text}; {why}, so nothing was compared.")
    own = [figure for kind in question.reports for figure in reports.figures.get(kind, ())]
    everything = [figure for figures in reports.figures.values() for figure in figures]
    comparable = [quote for quote in found if any(figure.kind is quote.kind for figure in own)]
    odd = [quote for quote in comparable if not any(quote.agrees_with(figure) for figure in everything)]
    path = next((reports.files[kind] for kind in question.reports if kind in reports.files), "")
    told = [f"{question.name} says {quote.text}; {nearest(quote, own, path)}." for quote in odd]
    if odd and len(odd) == len(comparable) and (len(odd) > 1 or odd[0].kind in STATED):
        return told
    for sentence in told[:TOLD]:
        check.note(f"Unusual: {sentence}")
    return []


def nearest(quote: Quote, own: list[Figure], path: str) -> str:
    """What the report has of that kind."""
    alike = sorted((figure for figure in own if figure.kind is quote.kind), key=quote.distance)
    found = headlines(alike, NEAREST)
    return f"{shown(path)} has {'; '.join(found)}" if found else f"nothing in {shown(path)} comes near it"


def listed(asked: list[Question]) -> str:
    """Questions in a sentence."""
    names = [question.name for question in asked]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
