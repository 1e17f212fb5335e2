"""A command line that ends while the training that it has started with `&` still runs.

Whatever may wait for it, or is not known to end at once, counts as waiting.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from graders.launch.commands import start_in

# What a shell reads otherwise than it looks, or not as a separator: quotes, variables, files, other numbers of a file.
_COVERED = re.compile(
    r"""(?<![^\s;&|()])\#[^\n]*|'[^']*'|"(?:\\.|[^"\\])*"|\\.|\$\{\{[^{}]*\}\}|\$\{[^{}]*\}|\$\(\([^()]*\)\)|\$\([^()]*\)|"""
    r"""`[^`]*`|&>>?|[<>]&|(?<=\|)&""",
    re.DOTALL,
)
_UNCLEAR = re.compile(
    r"""['"`]|<<|[$<>(]\(|\(\s*\)|\b(?:case|coproc|function|select|trap|until|while)\b|<(?!\s*/dev/null\b)"""
)
_ENDS = re.compile(r"&&|\|\||[;\n|&]")
# They end at once, whatever they are told.
_BRIEF = frozenset(
    ": cd date disown done echo exit export hostname jobs ls mkdir printf ps pwd set true".split()
)


def leaves_training(text: str) -> bool:
    """Whether a command line starts its training in the background alone, and comes to its end meanwhile."""
    text = re.sub(r"\\\r?\n", "  ", text)
    covered = _COVERED.sub(lambda found: "_" * len(found[0]), text)
    if _UNCLEAR.search(covered) or "wait" in text:
        return False
    left = False
    for command, in_background in _lists(text, covered):
        if start_in(command) is not None:
            if not in_background:
                return False
            left = True
        elif left and not in_background and not _is_brief(command):
            return False
    return left


def _lists(text: str, covered: str) -> Iterator[tuple[str, bool]]:
    """What stands between `;`, `&` and the ends of lines, and whether there is an `&` behind it.

    A pipe, and what is joined by `&&` or `||`, goes to the background as one.
    """
    begin = 0
    for found in _ENDS.finditer(covered):
        if found[0] in (";", "\n", "&"):
            yield text[begin : found.start()], found[0] == "&"
            begin = found.end()
    yield text[begin:], False


def _is_brief(commands: str) -> bool:
    """Whether each of the commands ends at once."""
    words = (part.strip(" \t\r(){}").split() for part in re.split(r"&&|\|\|?", commands))
    return all(not each or each[0] in _BRIEF or re.fullmatch(r"\w+=\S*", each[0]) for each in words)
