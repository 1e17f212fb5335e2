"""Which checks of an exercise have the same to say: one error stops many, and is worth reading once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from lockstep.result import CheckResult
from lockstep.text import NOT_WRITTEN
from lockstep.verdict import Verdict

# "... raised ValueError: ... (ddp_train.py, line 84, in gathered), while calling evaluate(...)." What was called is
# behind the error's own words, which may be anything: it is looked for from the end. Where an error came out of a
# library that was called by a library, there is no place.
_CALLED = ", while "
# "Your code used more than the 4 GiB of this check while calling evaluate(...), and was stopped."
_MEANWHILE = " while "
# "... ended with status 2: x.py: error: unrecognized arguments: --devices 1", whatever was being tried.
_ENDED = " ended with status "
# "No answer within 10 s while calling evaluate(...): it is busy at ddp_train.py, line 31.", whatever was called.
_NO_ANSWER = "No answer within "
_LINE = re.compile(r"\bline \d")
# Some judges begin with where it was run: "On a machine without a GPU: your code raised ...".
_WHO = re.compile(r"(?P<where>[^:\n]{1,120}: )?(?:[Yy]our code|[Rr]ank \d+ of \d+) (?=raised |called )")
# Other data make other numbers in the words of one error: "shape '[8, 5]' is invalid for input of size 15".
_NUMBER = re.compile(r"\d+")
# Of a file that is still the template each check is stopped by another line.
_UNWRITTEN = re.compile(rf"[^:\n]{{1,40}} raised NotImplementedError: (\S{{1,80}} {NOT_WRITTEN}) ")


def by_reason(checks: Iterable[CheckResult]) -> tuple[tuple[CheckResult, ...], ...]:
    """The checks that have something to say, those that say the same together, word for word or for one error."""
    telling = [check for check in checks if check.verdict is not Verdict.PASSED or check.message]
    places: dict[str, str] = {}
    for check in telling:
        words, place = _error(check)
        if place:
            places.setdefault(words, place)
    groups: dict[object, list[CheckResult]] = {}
    for check in telling:
        groups.setdefault(_reason(check, places), []).append(check)
    return tuple(map(tuple, groups.values()))


def _reason(check: CheckResult, places: Mapping[str, str]) -> object:
    if check.verdict in {Verdict.NOT_CHECKED, Verdict.FAULT}:
        return check.message, check.hint
    if check.verdict is Verdict.CRASHED and (unwritten := _UNWRITTEN.match(check.message)):
        return unwritten[1], check.hint
    words, place = _error(check)
    if words:  # one that does not say where it was raised is taken for the same as one that does
        own_hint = check.hint if check.verdict is Verdict.FAILED else ""
        return check.verdict, words, place or places.get(words, ""), own_hint
    if check.verdict is Verdict.LIMIT:
        used, is_called, _ = check.message.rpartition(_MEANWHILE)
        return (used, check.hint) if is_called else check.id
    if check.verdict is Verdict.HUNG and (standing := _standing(check.message)):
        return check.verdict, standing, check.hint
    if check.verdict is Verdict.CRASHED or not check.message:
        return check.id
    _, ended, how = check.message.partition(_ENDED)
    told = how if ended and check.verdict is Verdict.FAILED else check.message
    return check.verdict, told, check.hint


def _standing(message: str) -> str:
    """Where it was when nothing answered any more; empty where that is not said."""
    called, _, where = message.rpartition(": ")
    _, is_placed, place = where.partition(" at ")
    return where if called.startswith(_NO_ANSWER) and is_placed and _LINE.search(place) else ""


def _error(check: CheckResult) -> tuple[str, str]:
    """The words of the error that ended a check, whichever process raised it, and where; empty where none did."""
    error, is_called, _ = check.message.rpartition(_CALLED)
    who = _WHO.match(error)
    # Failed it is where a judge knows the error, and says more of it.
    if check.verdict not in {Verdict.CRASHED, Verdict.FAILED} or not is_called or who is None:
        return "", ""
    words, is_placed, place = error[who.end() :].rpartition(" (")
    if not is_placed or not place.endswith(")"):
        words, place = error[who.end() :], ""
    return _NUMBER.sub("0", (who["where"] or "") + words), place
