"""Write what the rules say of themselves into `docs/report-rules.md`: `make rules`.

A threshold that changes in the code changes here, and a test compares the file with the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lockstep.reports import rerun
from lockstep.reports.finding import Judgement
from lockstep.reports.rule import Rule
from lockstep.reports.verify import RULES as ALONE

RULES = (*ALONE, *rerun.RULES)
"""Of a report alone, and of a report whose script was run again."""
PAGE = Path(__file__).parents[2] / "docs" / "report-rules.md"

PARTS = {
    "S": "Form and origin",
    "C": "Do the numbers agree with each other?",
    "P": "Can a machine do this?",
    "F": "Do readings look like readings?",
    "R": "Beside the reference's own report",
    "X": "When the student's script is run again",
}

HEAD = """\
# The rules for performance reports

Made by `make rules` from the rules themselves. `lockstep verify-report` and the exercise `reports` put them to a
report. Nobody's figures are ever called true: what is checked is whether they can be.

| word | it means | it costs |
|---|---|---|
"""

WORDS = {
    Judgement.CONSISTENT: ("nothing against it; a finding of this kind is advice to the student", "nothing"),
    Judgement.NOT_VERIFIED: ("could not be looked into, and why", "nothing"),
    Judgement.UNUSUAL: ("honest reports show it rarely; a person should read it", "nothing"),
    Judgement.INCONSISTENT: ("numbers contradict each other, or what was handed in with them", "points"),
    Judgement.IMPOSSIBLE: ("no machine of the kind that is named can have done it", "points"),
}


def markdown(rules: Sequence[Rule]) -> str:
    """The page: the words, then every rule by its letter."""
    lines = [HEAD + "\n".join(f"| {word} | {means} | {costs} |" for word, (means, costs) in WORDS.items())]
    for letter, title in PARTS.items():
        own = [rule for rule in rules if rule.id.startswith(letter)]
        if own:
            lines.append(f"\n## {title}\n")
            lines.append("| rule | a report must show | the line | why there | honest reports |")
            lines.append("|---|---|---|---|---|")
            lines += [_row(rule) for rule in own]
    return "\n".join(lines) + "\n"


def _row(rule: Rule) -> str:
    kinds = "" if rule.kinds is None else f" ({', '.join(sorted(rule.kinds))})"
    cells = (rule.id, rule.demands + kinds, rule.threshold, rule.why, rule.honest)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


if __name__ == "__main__":
    PAGE.write_text(markdown(RULES), encoding="utf-8")
