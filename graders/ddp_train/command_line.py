"""Exercise 4, the command line of ddp_train.py: what it says of itself, and which images it takes by default."""

from __future__ import annotations

from lockstep.check import Check
from lockstep.sandbox.outcome import Outcome
from lockstep.text import safe_line


def answers_help(check: Check, outcome: Outcome) -> None:
    """End the check where --help raises instead of telling the options."""
    raised = _noted(outcome, "no_help", "raised")
    check.expect(
        not raised,
        "ddp_train.py takes its options, but `python ddp_train.py --help` ends with a traceback: "
        f"{safe_line(raised)}. Whoever wants to know which options there are does not get to see them.",
        "argparse fills the help texts in with %, as in %(default)s: write %% for a percent sign of your own.",
        points=check.points / 2,
    )


def finds_data(check: Check, outcome: Outcome) -> None:
    """End the check where a script that is not told a folder looks for its images in somebody's home.

    It has trained on images where it was told.
    """
    folder = _noted(outcome, "data_at_home", "folder")
    check.expect(
        not folder,
        "`python ddp_train.py` trains where it is given --training-data. Without that option it looks for CIFAR-10 "
        f"in {safe_line(folder)}, which is on one person's machine only, and finds nothing there. The images were "
        "in the folder `data` beside the script, where the exercise has them.",
        'Leave the default as in the template, parser.add_argument("--training-data", default="data"), and give '
        "--training-data where you start it, if your images lie elsewhere.",
        points=check.points / 2,
    )


def _noted(outcome: Outcome, kind: str, field: str) -> str:
    """What some rank noted of that kind; nothing where none did."""
    found = [event.get(field) for rank in outcome.ranks for event in rank.events if event.get("kind") == kind]
    return next((value for value in found if isinstance(value, str)), "")
