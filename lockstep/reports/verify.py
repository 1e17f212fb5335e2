"""Put all rules to reports, and say of each what was found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from lockstep.reports import (
    accounting,
    answers,
    claims,
    clocks,
    equipment,
    fabrication,
    logs,
    physics,
    provenance,
    reference,
)
from lockstep.reports.document import Report
from lockstep.reports.finding import GRAVITY, Finding, Judgement
from lockstep.reports.rule import Facts, Rule

RULES: tuple[Rule, ...] = (
    *provenance.RULES,
    *claims.RULES,
    *clocks.RULES,
    *accounting.RULES,
    *equipment.RULES,
    *answers.RULES,
    *logs.RULES,
    *physics.RULES,
    *fabrication.RULES,
    *reference.RULES,
)


@dataclass(frozen=True)
class Verification:
    """What was found in one report, the gravest first."""

    findings: tuple[Finding, ...]

    @property
    def judgement(self) -> Judgement:
        """The word for the report as a whole. What could not be verified does not make it worse."""
        told = [each.judgement for each in self.findings if each.judgement is not Judgement.NOT_VERIFIED]
        return max(told, key=GRAVITY.index, default=Judgement.CONSISTENT)


def verify(report: Report, facts: Facts, rules: Sequence[Rule] = RULES) -> Verification:
    """Put the rules to one report of the right form."""
    return Verification(gravest_first(_examined(report, facts, rules)))


def _examined(report: Report, facts: Facts, rules: Sequence[Rule]) -> Iterator[Finding]:
    for rule in rules:
        if rule.kinds is None or report.kind in rule.kinds:
            for finding in rule.examine(report, facts):
                yield replace(finding, rule=rule.id)


def gravest_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """In the order in which a person should read them."""
    return tuple(sorted(findings, key=lambda finding: -GRAVITY.index(finding.judgement)))
