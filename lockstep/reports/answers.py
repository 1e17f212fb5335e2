"""C16: what the answers of a report say in words, against its numbers."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from lockstep.reports.counts import device_count
from lockstep.reports.document import Number, Report
from lockstep.reports.finding import Finding, few, unusual
from lockstep.reports.ratios import speedups
from lockstep.reports.rule import Facts, Rule
from lockstep.text import safe_line

NEAR = 0.05
"""Of its value: who writes in words rounds as it comes."""
MOST_GROUPS = 12
"""Configurations that are compared pair by pair; of more only the claims count."""
MOST_TEXT, MOST_NUMBERS, MOST_SENTENCES = 20_000, 8, 200
"""Characters of an answer, numbers of a sentence and sentences that name a quantity: what is read of each."""
_CLAIMED = {"speedup": ("speedup",), "efficiency": ("efficiency",), "accuracy": ("accuracy_pct", "acc5_pct")}
_QUANTITY = re.compile(r"\b(speed-?up|efficiency|accuracy)\b", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.])\d{1,9}(?:\.\d{1,9})?(?![\w.]*\w)|(?<![\w.])\d{1,9}(?:\.\d{1,9})?(?=x\b)")
# What a number counts, so that it is no result.
_COUNTS = re.compile(
    r"\s*(?:logical |physical |different )?(?:gpu|cpu|core|worker|process|rank|device|node|machine|epoch|step|batch"
    r"|image|run|repetition|class|bit|s\b|ms\b|sec|min|gb|mb|gib|mib|points?\b)",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    r"(?:batch(?: size)?|size|n|top|epoch|step|seed|on|with|for|from|to|of)\s*(?:[=-]\s*)?$", re.IGNORECASE
)
# Sentences about something else than what was measured here.
_ELSEWHERE = re.compile(
    r"\b(?:ideal\w*|theor\w+|perfect\w*|linear\w*|expect\w*|would|could|should|if|paper|publish\w+|reference|amdahl\w*"
    r"|limit\w*|most|least|up to|not|less|more|below|above|under|over|than|between|only|drop\w*|differ\w*|gain\w*|lecture"
    r"|nvidia|lambda|others?)\b",
    re.IGNORECASE,
)


def _contradictions(report: Report, facts: Facts) -> Iterator[Finding]:
    yield from few(_answers(report))


def _answers(report: Report) -> Iterator[Finding]:
    known = {quantity: _known(report, quantity) for quantity in _CLAIMED}
    for question, sentence, quantity, after in itertools.islice(_sentences(report), MOST_SENTENCES):
        values, said = known[quantity], list(_results(sentence, after))
        if values and said and not any(_fits(number, value) for number in said for value in values):
            nearest = min(values, key=lambda value: abs(value - said[0].value))
            yield unusual(
                f'answers["{safe_line(question, 40)}"]: "{safe_line(sentence.strip(), 120)}" names {said[0].text} as '
                f"{quantity}; the nearest that the report claims, or its readings give, is {nearest:.4g}. Is the sentence "
                "from an earlier measurement, or about another one? Then say so.",
                said=said[0].value,
                nearest=nearest,
            )


def _sentences(report: Report) -> Iterator[tuple[str, str, str, int]]:
    """Question, sentence, quantity, and where the quantity's name ends; of sentences on what was measured here."""
    for question, answer in report.answers.items():
        for sentence in re.split(r"[.!?;]\s+|\n", answer[:MOST_TEXT]):
            named = _QUANTITY.search(sentence)
            if named is not None and _ELSEWHERE.search(sentence) is None:
                yield question, sentence, named.group(1).lower().replace("-", ""), named.end()


def _results(sentence: str, after: int) -> Iterator[Number]:
    """The numbers of a sentence that may be results, if one follows the quantity's name closely."""
    numbers = itertools.islice(_NUMBER.finditer(sentence), MOST_NUMBERS)
    found = [number for number in numbers if not _is_a_count(sentence, number)]
    if any(after <= match.start() <= after + 25 for match in found):
        yield from (Number(match.group()) for match in found)


def _is_a_count(sentence: str, number: re.Match[str]) -> bool:
    if _COUNTS.match(sentence, number.end()):
        return True
    before = sentence[max(0, number.start() - 20) : number.start()]
    # "a speedup of 1.9" is a result, "with 2" and "for 4" are not.
    return (
        "." not in number.group()
        and _COUNTED.search(before) is not None
        and not before.rstrip().endswith(" of")
    )


def _known(report: Report, quantity: str) -> list[float]:
    """What the report claims for a quantity, and what follows from its readings; nothing where it claims none."""
    claims = [
        claim for claim in report.claims if claim.what in _CLAIMED[quantity] and claim.value is not None
    ]
    known = [claim.value.value for claim in claims if claim.value is not None]
    if not known or quantity == "accuracy" or len(report.groups) > MOST_GROUPS:
        return known
    counts = (
        {device_count(report, group.config) for group in report.groups} if quantity == "efficiency" else {1}
    )
    pairs = itertools.permutations(report.groups, 2)
    ratios = [way.value for group, base in pairs for way in speedups(group, base)]
    return known + [ratio / n for ratio in ratios for n in counts if n is not None]


def _fits(number: Number, value: float) -> bool:
    """Whether a number in words can stand for `value`: rounded, in percent, as a gain, or turned over."""
    meant = [value, value * 100, value / 100, (value - 1) * 100, value - 1]
    meant += [1 / value, 100 / value] if value else []
    return any(number.agrees_with(each, NEAR * abs(each)) for each in meant)


RULES: tuple[Rule, ...] = (
    Rule(
        id="C16",
        demands="Speedups, efficiencies and accuracies in the answers are those of the report.",
        threshold=f"within the printed decimals or {NEAR:.0%} of a claim, or of what any two configurations give; as a ratio, "
        "a percentage or a gain. Sentences on anything expected, published or compared are left out",
        why="An answer kept from an earlier measurement is the usual reason.",
        honest="Now and then: language has more ways than a pattern. It never costs anything.",
        examine=_contradictions,
    ),
)
