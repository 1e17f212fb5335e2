"""What to do about an exception that the data set or the script raised, and about how the script ended."""

from __future__ import annotations

from collections.abc import Mapping

from graders.lfw_dataset.looks import text
from lockstep.causes import usual_cause
from lockstep.sandbox.outcome import CodeFrame, StudentError
from lockstep.submission import Submission

# What a path leads to that was read in another way than it was meant.
_OF_PATHS = ("FileNotFoundError", "NotADirectoryError", "IsADirectoryError", "PermissionError", "OSError")
_EMPTY = (
    "Was nothing found? Images lie one level below the folder, FOLDER/Person_Name/Person_Name_0001.jpg, and "
    "Path.suffix is '.jpg', with its dot."
)

_BY_HAND = "Run it yourself and read the last lines it prints."
# How Python and torch word what is wrong with the data set itself, where a script makes a loader of it.
_IN_LOADERS = {
    "has no attribute 'next'": "next(iter(loader)) gives a batch; .next() was Python 2's, and torch has dropped it.",
    "default_collate": "A loader makes one tensor of a batch's items, so each has to be one: see items_are_images.",
    "'NoneType' object cannot be interpreted as an integer": "`__len__` returned None: see length.",
}


def raised_hint(problem: object, submission: Submission, about_paths: str) -> str:
    """What is usually behind an exception as the probe described it; `about_paths` where it may come of the path."""
    if not isinstance(problem, dict):
        return about_paths
    kind, message = text(problem.get("type")), text(problem.get("message"))
    # What opens a file says a number first; without one it is the student's own word that nothing is there.
    if kind == "IndexError" or (kind in _OF_PATHS and not message.startswith("[Errno")):
        return f"{_EMPTY} {about_paths}"
    if kind in _OF_PATHS:
        return about_paths
    return (
        _usual(problem, submission, "LFWDataset(path, transform)")
        or "Make one by hand, `LFWDataset(path, transform)[0]`: the line is named above."
    )


def raised_by_script(problem: object, submission: Submission) -> str:
    """What is usually behind an exception that came out of the script."""
    if not isinstance(problem, dict):
        return _BY_HAND
    message = text(problem.get("message"))
    usual = next((hint for words, hint in _IN_LOADERS.items() if words in message), "")
    return usual or _usual(problem, submission, "running the script") or _BY_HAND


def ended_by_script(said: str) -> str:
    """What to do about a status other than 0, by the last line that was printed."""
    if "expected one argument" in said:
        return (
            "A flag that stands alone in this command takes no value: "
            'parser.add_argument("-visualize_batch", action="store_true").'
        )
    if "unrecognized arguments" in said:
        return (
            "The script has to know every flag of this command, spelled just so and with one dash: "
            'parser.add_argument("-batch_size", type=int, default=64).'
        )
    if "arguments are required" in said:
        return "These flags are all that the script is given: give others of your own a default."
    return _BY_HAND


def _usual(problem: Mapping[str, object], submission: Submission, phase: str) -> str:
    place = text(problem.get("place"))
    frames = (CodeFrame(place, 0, ""),) if place else ()
    return usual_cause(
        StudentError(text(problem.get("type")), text(problem.get("message")), frames, phase), submission
    )
