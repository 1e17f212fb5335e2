"""What to do where a script does not take the options that it was started with, by argparse's own last line."""

from __future__ import annotations

import re

# In argparse's words, and in those of click, absl and fire.
UNKNOWN_OPTION = r"(?:unrecognized arguments?|no such option|unknown (?:option|flag|argument))\b"
_UNKNOWN = re.compile(rf"{UNKNOWN_OPTION}[^\w-]*(--?\w[\w-]*)", re.I)
# A word that no option was to take.
_LEFT_OVER = re.compile(r"unrecognized arguments: (\w[\w.-]{0,60})")
_ARGUMENT = re.compile(r"argument (?:-\w+/)?(--?\w[\w-]*)(?:/--?\w[\w-]*)*: (.{1,200})")


def refused(said: str) -> str:
    """What to do about the option that `said`, the last lines of a script, complains of; empty where it does not."""
    if unknown := _UNKNOWN.search(said):
        flag = unknown[1]
        underscores = f"--{flag.lstrip('-').replace('-', '_')}"
        spelled = f", with hyphens and not as {underscores}" if "-" in flag.lstrip("-") else ""
        return f"The script has no {flag}: options have the names that the exercise gives them{spelled}."
    if word := _LEFT_OVER.search(said):
        return (
            f'The option in front of {word[1]} takes a value: has it action="store_true", which takes none?'
        )
    if argument := _ARGUMENT.search(said):
        flag, complaint = argument[1], argument[2]
        if "expected one argument" in complaint:
            return (
                f'{flag} is a flag, which stands alone and takes no value: action="store_true" in the place of a type. '
                "With type=bool an option wants a word, and takes every word for true."
            )
        if "invalid int value" in complaint:
            return f"{flag} is no whole number there: it has type=float, or no type where it is a word."
        if "invalid choice" in complaint:
            return f"{flag} has to take every value that the exercise names: are they all among its choices?"
    if "arguments are required" in said:
        return "These options are not in the line that the script was started with: give them a default."
    return ""
