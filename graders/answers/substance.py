"""Whether an answer says anything: no judgement of what it says, which is a person's."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graders.answers.rubric import Question
from graders.answers.sections import Section
from lockstep.similarity import similarity, words

FEWEST_WORDS = 8
"""Different words of the shortest answer that can hold a reason."""

OWN_WORDS = 3
"""Of them at least so many that the question does not hold."""

SAME = 0.9
"""Similarity of two answers to different questions from which they are one text."""

SAME_ANSWERS = 4
"""Questions answered with one text: fewer can be honest ("no GPU here, so I could not measure it")."""

IN_A_COMMENT = "an answer inside a comment, `<!-- -->`, which no reader sees"

_PLACEHOLDER = re.compile(
    r"\b(?:todo|tbd|tba|fixme|xxx+|wip|n/a|lorem ipsum|placeholder)\b|\?{2,}|\.{3,}|…"
    r"|\b(?:insert|write|put|enter|add)?\s*(?:your|my|the)\s+(?:answer|text)\s*(?:(?:goes|comes)\s*)?here\b"
    r"|\b(?:skriv|indsæt)?\s*(?:dit |mit )?svar(?:et)? her\b",
    re.IGNORECASE,
)
# The text that typesetters fill pages with, by words of it that no answer on this subject holds.
_LOREM = frozenset(
    "lorem ipsum dolor amet consectetur consetetur adipiscing sadipscing elit elitr eiusmod tempor incididunt "
    "labore dolore magna aliqua aliquyam nostrud exercitation ullamco laboris nisi aliquip voluptua accusam".split()
)


@dataclass(frozen=True)
class Words:
    """The words of an answer without the template's text, and without what holds the place of an answer."""

    own: tuple[str, ...]
    new: frozenset[str]
    """Those that the question does not hold."""


def own_words(said: str, question: Question) -> Words:
    """What is left of a section's text without the sentences of the question."""
    given = {_key(sentence) for sentence in _sentences(question.text)}
    kept = [sentence for sentence in _sentences(said) if _key(sentence) not in given]
    own = tuple(words(_PLACEHOLDER.sub(" ", "\n".join(kept))))
    return Words(own, frozenset(own) - set(words(question.text)))


def own_text(text: str, question: Question) -> str:
    """A section as a person reads it: without the lines that the template gave."""
    given = {_key(line) for line in (question.title, question.prompt)}
    kept = [line for line in text.split("\n") if not line.strip() or _key(line) not in given]
    return "\n".join(kept).strip()


def why_nothing(section: Section, question: Question) -> str | None:
    """What the section holds instead of an answer; None when it is one."""
    said = own_words(section.said, question)
    different = len(set(said.own))
    if not section.said.strip() or not said.own:
        if len(own_words(section.comments, question).own) >= FEWEST_WORDS:
            return IN_A_COMMENT
        if section.pictures:
            return "a picture and no text"
        if _PLACEHOLDER.search(section.said):
            return "a placeholder and no answer"
        return "the question and nothing more" if words(section.told) else "no answer"
    if len(_LOREM & set(said.own)) >= max(3, different // 3):
        return "filler text"
    if different < FEWEST_WORDS and _PLACEHOLDER.search(section.said):
        return "a placeholder and no answer"
    if different < FEWEST_WORDS:
        return f"no more than {different} different word{'s' * (different != 1)}"
    if len(said.new) < OWN_WORDS:
        return "the question and nothing more"
    return None


def same_text(sections: Mapping[int, Section], asked: Sequence[Question]) -> list[list[int]]:
    """Groups of questions that were answered with one text, each with the smallest number first."""
    groups: list[list[int]] = []
    own = {
        question.number: own_words(sections[question.number].said, question).own
        for question in asked
        if question.number in sections
    }
    for number, text in own.items():
        for group in groups:
            if text and (
                own[group[0]] == text or similarity(" ".join(own[group[0]]), " ".join(text)) >= SAME
            ):
                group.append(number)
                break
        else:
            groups.append([number])
    return [group for group in groups if len(group) > 1]


def _sentences(text: str) -> list[str]:
    return [sentence for sentence in re.split(r"(?<=[.?!:])\s+|\n", text) if sentence.strip()]


def _key(sentence: str) -> tuple[str, ...]:
    return tuple(words(sentence))
