"""Tells a check that found no file to look at from one that looked at it and failed: less work is not worse work."""

from __future__ import annotations

import re

from lockstep.result import CheckResult
from lockstep.verdict import Verdict

# As probes and judges say it, the name of the file in the place of the blank.
_SAID = re.compile(r"There is (?:no `?[\w/-]+\.\w+|none of )|[\w/-]+\.\w+: there is no such file\.")


def has_no_file(check: CheckResult) -> bool:
    """Whether what the check is about was not handed in, or not under its name; its message says so first."""
    ended = check.verdict is Verdict.FAILED and not check.points
    return ended and _SAID.match(check.message) is not None
