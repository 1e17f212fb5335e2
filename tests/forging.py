"""A submission that answers in its probe's place: whatever it sends, no judge may break on it or believe it."""

from __future__ import annotations

from collections.abc import Iterable

from lockstep.result import CheckResult
from lockstep.verdict import Verdict

_FORGERY = """
from lockstep.sandbox import probing
made = probing.Observation.__init__

def forging(self, values, arrays=None):
    if {spared!r} not in values:
        values, arrays = {{name: {odd} for name in values}}, {{name: {odd_array} for name in arrays or {{}}}}
    made(self, values, arrays or {{}})

probing.Observation.__init__ = forging
"""


def forgery(odd: str, odd_array: str = "None", *, spared: str | None = None) -> str:
    """Python that sends `odd` for every value and `odd_array` for every array, both of them expressions.

    An answer that has a value called `spared` goes through as it is: without it no other check would be made.
    """
    return _FORGERY.format(odd=odd, odd_array=odd_array, spared=spared)


def taken_in(checks: Iterable[CheckResult]) -> list[tuple[str, Verdict, str]]:
    """The checks that broke on an answer or gave points for it: id, verdict and message."""
    return [
        (check.id, check.verdict, check.message)
        for check in checks
        if check.verdict is Verdict.FAULT or check.points
    ]
