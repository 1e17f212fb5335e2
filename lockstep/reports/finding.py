"""What a rule has to say about a report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lockstep.jsontext import Json


class Judgement(StrEnum):
    """The five words for a finding and for a whole report. None of them says that a figure is true."""

    CONSISTENT = "consistent"
    """Nothing against it. A finding of this kind is advice to the student, and costs nothing."""
    NOT_VERIFIED = "not verified"
    """Could not be looked into; the message says why."""
    UNUSUAL = "unusual"
    """Honest reports show it rarely: for a person to read, and costs nothing."""
    INCONSISTENT = "inconsistent"
    """Numbers of the report contradict each other or what was handed in with it."""
    IMPOSSIBLE = "impossible"
    """No machine of the kind that is named can have done it."""

    @property
    def costs(self) -> bool:
        """Whether it takes points away."""
        return self in (Judgement.INCONSISTENT, Judgement.IMPOSSIBLE)


MAX_TOLD = 3
"""Findings of one kind that are told one by one; who reads these finds the others."""

ASIDE = "Unusual, which costs nothing"
"""How a judge introduces an unusual finding among its notes; a class is searched for it."""

GRAVITY = tuple(Judgement)
"""From harmless to grave: a report is as bad as its worst finding."""


@dataclass(frozen=True)
class Finding:
    """One thing that one rule found; `numbers` are the figures in the message, for a program to read.

    The message says what the report states, what follows from it and by which formula, and names the most
    common innocent reason before any other.
    """

    judgement: Judgement
    message: str
    numbers: Mapping[str, Json] = field(default_factory=dict)
    rule: str = ""
    """Filled in by whoever ran the rule."""

    def to_json(self) -> dict[str, Json]:
        """As `lockstep verify-report --json` prints it."""
        return {
            "rule": self.rule,
            "verdict": str(self.judgement),
            "message": self.message,
            "numbers": dict(self.numbers),
        }


def advice(message: str, **numbers: Json) -> Finding:
    """Tell the student something that costs nothing."""
    return Finding(Judgement.CONSISTENT, message, numbers)


def not_verified(message: str, **numbers: Json) -> Finding:
    """Say what could not be looked into, and why."""
    return Finding(Judgement.NOT_VERIFIED, message, numbers)


def unusual(message: str, **numbers: Json) -> Finding:
    """Point a person to something that honest reports rarely show; the message says how rarely."""
    return Finding(Judgement.UNUSUAL, message, numbers)


def inconsistent(message: str, **numbers: Json) -> Finding:
    """Two numbers that cannot both be right."""
    return Finding(Judgement.INCONSISTENT, message, numbers)


def impossible(message: str, **numbers: Json) -> Finding:
    """A number beyond what the named machine can do."""
    return Finding(Judgement.IMPOSSIBLE, message, numbers)


def few(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The first few of each judgement, and how many more there are."""
    counts = dict.fromkeys(Judgement, 0)
    for finding in findings:
        counts[finding.judgement] += 1
        if counts[finding.judgement] <= MAX_TOLD:
            yield finding
    for judgement, count in counts.items():
        if count > MAX_TOLD:
            more = count - MAX_TOLD
            yield Finding(judgement, f"The same holds for {more} more.", {"more": more})
