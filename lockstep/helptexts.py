"""What to say of a script whose --help ends with a traceback (lockstep.sandbox.helptexts notes it)."""

from __future__ import annotations

from lockstep.check import Check
from lockstep.sandbox.outcome import RankOutcome
from lockstep.text import safe_line


def answers_help(check: Check, seen: RankOutcome, file: str) -> None:
    """End the check, at half of its points, where --help of the script raises instead of telling the options.

    Nobody asks a notebook for help.
    """
    raised = [event.get("raised") for event in seen.events if event.get("kind") == "no_help"]
    told = next((text for text in raised if isinstance(text, str)), "")
    check.expect(
        not told or file in check.submission.notebooks,
        f"{file} takes its options, but `python {file} --help` ends with a traceback: {safe_line(told)}. Whoever wants "
        "to know which options there are does not get to see them.",
        "argparse fills the help texts in with %, as in %(default)s: write %% for a percent sign of your own.",
        points=check.points / 2,
    )
