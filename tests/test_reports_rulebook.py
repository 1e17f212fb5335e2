"""The rules as data: every one says what it demands and why, and docs/report-rules.md says the same."""

from __future__ import annotations

import pytest

from lockstep.reports.rule import Rule
from lockstep.reports.rulebook import PAGE, PARTS, RULES, markdown


def test_the_page_is_what_the_rules_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == markdown(RULES), "run `make rules`"


def test_every_rule_is_there_once() -> None:
    names = [rule.id for rule in RULES]
    assert len(set(names)) == len(names)
    assert {name[0] for name in names} <= set(PARTS)
    assert all(f"| {name} |" in markdown(RULES) for name in names)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_says_what_it_is(rule: Rule) -> None:
    for text in (rule.demands, rule.threshold, rule.why, rule.honest):
        assert len(text) > 4
        assert "../" not in text
