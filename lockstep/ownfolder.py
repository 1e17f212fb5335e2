"""Whether a script failed only for want of a file or a folder that its author has: a default may name one."""

from __future__ import annotations

import re

# A file without a name is what is left where an option was not given.
_NOT_HERE = re.compile(r"\[Errno \d+\] [^:]{1,80}: '(?!\.?')")


def lacks_a_file(message: str) -> bool:
    """Whether a message tells of one, in the words of Python's OSError."""
    return _NOT_HERE.search(message) is not None
