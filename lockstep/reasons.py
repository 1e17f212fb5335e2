"""Which checks of an exercise have the same to say: one error stops many, and is worth reading once."""

from __future__ import annotations

from collections.abc import Iterable

from lockstep.result import CheckResult
from lockstep.verdict import Verdict

# "... raised ValueError: ... (ddp_train.py, line 84, in gathered), while calling evaluate(...)." The place is behind
# the error's own words, which may be anything: it is looked for from the end.
_PLACED = "), while "


def by_reason(checks: Iterable[CheckResult]) -> tuple[tuple[CheckResult, ...], ...]:
    """The checks that have something to say, those that say the same together, word for word or for one error."""
    groups: dict[object, list[CheckResult]] = {}
    for check in checks:
        if check.verdict is not Verdict.PASSED or check.message:
            groups.setdefault(_reason(check), []).append(check)
    return tuple(map(tuple, groups.values()))


def _reason(check: CheckResult) -> object:
    if check.verdict in {Verdict.NOT_CHECKED, Verdict.FAULT}:
        return check.message, check.hint
    if check.verdict is Verdict.FAILED and check.message:
        return check.verdict, check.message, check.hint
    error, is_placed, _ = check.message.rpartition(_PLACED)
    return (error, check.hint) if check.verdict is Verdict.CRASHED and is_placed else check.id
