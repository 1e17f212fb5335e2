"""A `timeout` in front of a training that ends it before its first epoch has.

Source: timeout(1) of GNU coreutils: its options, a duration with s, m, h or d behind it, the command.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from getopt import GetoptError, getopt

from graders.launch.commands import Start as Written
from graders.launch.fault import SHORTEST, Fault, Stage
from graders.launch.starts import Start
from lockstep.text import safe_line

_OPTIONS = ("k:s:fpv", ["kill-after=", "signal=", "foreground", "preserve-status", "verbose"])
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})([smhd]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
# Other signals may be for the training to take note of, and behind `&` a shell has INT ignored.
_ENDING = ("TERM", "SIGTERM", "15", "KILL", "SIGKILL", "9")
# Left in the foreground it ends what it starts, and not what that has started.
_ITSELF = re.compile(r"(?:.*/)?(?:torchrun|python[0-9.]*)")


def started_fault(where: str, starts: Sequence[Start], text: str) -> Fault | None:
    """What scripts started below a `timeout`; `text` is theirs, and only a duration that is written there counts."""
    written = {told for words in _written(text) if (told := _read(words)) is not None}
    told_each = (_read(start.timeout.split()) for start in starts)
    faults = (_fault(where, told) for told in told_each if told is not None and told in written)
    return next((fault for fault in faults if fault is not None), None)


def written_fault(where: str, start: Written) -> Fault | None:
    """What a command in a manifest starts behind a `timeout`."""
    names = [word.rpartition("/")[2] for word in start.before]
    if "timeout" not in names:
        return None
    behind = len(names) - names[::-1].index("timeout")
    told = _read([*start.before[behind:], *start.words])
    return None if told is None else _fault(where, told)


def _fault(where: str, told: str) -> Fault | None:
    found = _DURATION.fullmatch(told)
    seconds = float(found[1]) * _SECONDS[found[2]] if found else 0.0
    if not 0 < seconds < SHORTEST:
        return None
    return Fault(
        Stage.NUMBERS,
        f"{where} starts the training behind `timeout {safe_line(told, 20)}`, which ends it after "
        f"{seconds:g} second{'' if seconds == 1 else 's'}; no training ends in that time.",
        "timeout counts seconds unless m, h or d stands behind the number: `timeout 8h`. If it was for a try, take it "
        "out.",
    )


def _read(words: Sequence[str]) -> str | None:
    """The duration among the words behind `timeout`; None where it cannot be read, or may not end the command."""
    try:
        options, rest = getopt(list(words), *_OPTIONS)
    except GetoptError:
        return None
    signals = ["TERM", *(value.upper() for name, value in options if name in ("-s", "--signal"))]
    foreground = any(name in ("-f", "--foreground") for name, _ in options)
    duration, command = [*rest, "", ""][:2]
    ends = signals[-1] in _ENDING and (not foreground or _ITSELF.fullmatch(command) is not None)
    return duration if ends and _DURATION.fullmatch(duration) else None


def _written(text: str) -> Iterator[list[str]]:
    """What stands behind each `timeout` of a text, as words without their quotes."""
    for line in re.sub(r"\\\r?\n", " ", text).splitlines():
        for found in itertools.islice(re.finditer(r"(?<![\w$-])timeout\s", line), 20):
            yield [word.strip("\"'") for word in line[found.end() : found.end() + 200].split()[:8]]
