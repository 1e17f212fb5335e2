"""Exercise 4, the command line of ddp_train.py: which images it takes by default."""

from __future__ import annotations

from lockstep.check import Check
from lockstep.sandbox.outcome import Outcome
from lockstep.text import safe_line


def finds_data(check: Check, outcome: Outcome) -> None:
    """End the check where a script that is not told a folder looks for its images in somebody's home.

    It has trained on images where it was told.
    """
    events = [event for rank in outcome.ranks for event in rank.events if event.get("kind") == "data_at_home"]
    folder = next((told for event in events if isinstance(told := event.get("folder"), str)), "")
    check.expect(
        not folder,
        "`python ddp_train.py` trains where it is given --training-data. Without that option it looks for CIFAR-10 "
        f"in {safe_line(folder)}, which is on one person's machine only, and finds nothing there. The images were "
        "in the folder `data` beside the script, where the exercise has them.",
        'Leave the default as in the template, parser.add_argument("--training-data", default="data"), and give '
        "--training-data where you start it, if your images lie elsewhere.",
        points=check.points / 2,
    )
