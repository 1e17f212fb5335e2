"""Exercise 7: the arithmetic of data-parallel training, judged on hidden numbers.

Each check calls one function many times in one process: first with arguments that are in order, then with
some that are not. Whoever has the formula right and lets bad input pass, or takes an argument by name alone, keeps
half of the points.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from graders.scaling.expected import (
    ARGUMENTS,
    FUNCTIONS,
    Call,
    Kind,
    Number,
    Slip,
    bad_calls,
    legal_calls,
    positional_calls,
    right,
    steps,
)
from lockstep.check import Check
from lockstep.compare import close, number, shown
from lockstep.text import listed
from lockstep.verdict import CheckEnded
from lockstep.wire import Json

WITHOUT_ERRORS = BY_NAME_ALONE = 0.5  # of the points
# What `plain` makes of numbers that JSON has no room for.
OUT_OF_REACH = ({"type": "a huge int"}, {"type": "NaN"}, {"type": "infinity"})
# A function that another may call, with which arguments, and what becomes of the value.
BUILDS_ON: dict[str, tuple[str, Callable[..., tuple[Number, ...]], Callable[..., float]]] = {
    "steps_per_epoch": (
        "effective_batch_size",
        lambda n, batch, world: (batch, world),
        lambda own, n, batch, world, drop_last=False: steps(n, own, 1, drop_last) if own else math.nan,
    ),
    "scaled_lr": (
        "effective_batch_size",
        lambda lr, base, batch, world: (batch, world),
        lambda own, lr, base, batch, world: lr * own / base,
    ),
    "efficiency": ("speedup", lambda t1, tn, n: (t1, tn), lambda own, t1, tn, n: own / n),
}


def test_effective_batch_size(check: Check) -> None:
    """`effective_batch_size(batch_size, world_size)` counts the samples of one step on all processes."""
    judge(check)


def test_steps_per_epoch(check: Check) -> None:
    """`steps_per_epoch(n_samples, batch_size, world_size, drop_last)` counts the steps of one epoch."""
    judge(check)


def test_scaled_lr(check: Check) -> None:
    """`scaled_lr(base_lr, base_batch_size, batch_size, world_size)` follows the linear scaling rule."""
    judge(check)


def test_speedup(check: Check) -> None:
    """`speedup(t1, tn)` says how many times as fast n processes are as one."""
    judge(check)


def test_efficiency(check: Check) -> None:
    """`efficiency(t1, tn, n)` is the speedup per process."""
    judge(check)


def test_amdahl_speedup(check: Check) -> None:
    """`amdahl_speedup(serial_fraction, n)` is the speedup that Amdahl's law leaves."""
    judge(check)


def test_karp_flatt(check: Check) -> None:
    """`karp_flatt(speedup, n)` is the serial fraction that a measured speedup points to."""
    judge(check)


def judge(check: Check) -> None:
    """Draw calls of the function that the check is named after, make them, and look at every answer."""
    legal, bad = legal_calls(check.id, check.rng), bad_calls(check.id, check.rng)
    positional = positional_calls(check.id, check.rng)
    values: dict[str, Json] = {
        "function": check.id,
        "legal": [call.to_json() for call in legal],
        "bad": [call.to_json() for call in bad],
    }
    if positional:
        values["positional"] = [call.to_json() for call in positional]
    seen = check.run("calls", values=values).ranks[0].values
    told = answers(seen.get("legal"), len(legal))
    look_at_legal(check, legal, told, inherited(check, legal, told))
    look_at_positional(check, positional, answers(seen.get("positional"), len(positional)))
    look_at_bad(check, bad, answers(seen.get("bad"), len(bad)))


def answers(said: Json, count: int) -> list[dict[str, Any]]:
    """What the probe saw of each call; nothing of any where it does not tell of each, or somebody else told."""
    told = said if isinstance(said, list) and len(said) == count else [None] * count
    return [answer if isinstance(answer, dict) else {} for answer in told]


def inherited(check: Check, calls: list[Call], seen: list[dict[str, Any]]) -> str:
    """What to tell whose formula is right, but for what another function of theirs gave it; nothing where that is not so."""
    if check.id not in BUILDS_ON or all(map(agrees, seen, map(right, calls))):
        return ""
    name, arguments_of, rest = BUILDS_ON[check.id]
    parts = [Call(name, arguments_of(*call.arguments)) for call in calls]
    values: dict[str, Json] = {"function": name, "legal": [part.to_json() for part in parts]}
    try:
        said = check.run("calls", values=values).ranks[0].values.get("legal")
    except CheckEnded:
        return ""
    told = answers(said, len(parts))
    if all(map(agrees, told, map(right, parts))):
        return ""
    own = [number(answer.get("returned")) for answer in told]
    follows = all(
        value is not None and close(answer.get("returned"), rest(value, *call.arguments, **call.keywords))
        for value, call, answer in zip(own, calls, seen, strict=True)
    )
    return (
        f"It is as wrong as your `{name}` is, and right where that is: mend `{name}` first."
        if follows
        else ""
    )


def look_at_legal(check: Check, calls: list[Call], seen: list[dict[str, Any]], cause: str = "") -> None:
    """End the check when a call returned something else than it has to; a float that is whole will do.

    `cause` is told as a hint in place of a usual one.
    """
    wrong = [
        (call, answer) for call, answer in zip(calls, seen, strict=True) if not agrees(answer, right(call))
    ]
    if wrong:
        call, answer = wrong[0]
        check.fail(
            f"`{call}` {did(answer)}; expected {figure(right(call))}." + others(len(wrong), len(calls)),
            hint=cause or _hint(calls, seen, answer),
        )
    if isinstance(right(calls[0]), int) and any(isinstance(answer["returned"], float) for answer in seen):
        check.note(
            f"{check.id} returns a float where it counts something; range() and others only take an int. That costs no "
            "points."
        )


def look_at_positional(check: Check, calls: list[Call], seen: list[dict[str, Any]]) -> None:
    """End the check, with a part of its points, when what can be given by name cannot be given by its place."""
    for call, answer in zip(calls, seen, strict=True):
        if not agrees(answer, right(call)):
            check.fail(
                f"The formula is right, but `{call}` {did(answer)}; expected {figure(right(call))}, as where the last "
                "argument is given by name.",
                hint="Keep the arguments in the order of the exercise, none of them behind a `*` alone.",
                points=BY_NAME_ALONE * check.points,
            )


def agrees(answer: dict[str, Any], expected: float) -> bool:
    """Whether a call returned the expected number: exactly where something is counted."""
    value = answer.get("returned")
    if isinstance(expected, int):
        return number(value) == expected
    # A learning rate may be smaller than what is otherwise as good as nothing.
    return close(value, expected, atol=min(1e-6, 0.02 * abs(expected)) if expected else 1e-6)


def did(answer: dict[str, Any]) -> str:
    """What a call did, for a message."""
    if "raised" in answer:
        return f"raised {_text(answer['raised'])}"
    if "returned" not in answer:
        return "gave no answer"
    return f"returned {figure(answer['returned'])}"


def figure(value: Json) -> str:
    """A number with the digits that matter, or what a value is."""
    return f"{value:.6g}" if isinstance(value, float) else shown(value)


def others(wrong: int, of: int) -> str:
    """How many more calls went wrong, as a sentence."""
    return f" {wrong} of {of} calls gave something else than expected." if wrong > 1 else ""


def _text(value: Json) -> str:
    return value[:60] if isinstance(value, str) else "something"


def _hint(calls: list[Call], seen: list[dict[str, Any]], first: dict[str, Any]) -> str:
    """The usual cause: a known slip that explains every answer, or what the first wrong one looks like."""
    for slip in FUNCTIONS[calls[0].function].slips:
        if all(_does(slip, call, answer) for call, answer in zip(calls, seen, strict=True)):
            return slip.hint
    if first.get("raised") == "ValueError":
        return _hint_for_refusals(calls, seen)
    if "raised" in first:
        return "These arguments are in order: for none of them the formula may divide by zero."
    if "returned" in first and first["returned"] is None:
        return "`print` only shows a number: `return` it."
    if "returned" in first and number(first["returned"]) is None and first["returned"] not in OUT_OF_REACH:
        return "Return a number."
    by_hand = "Work the formula out by hand for the numbers of this call"
    if calls[0].function == "steps_per_epoch":
        return f"{by_hand}; there are no parts of a step: round up, and down with `drop_last=True`."
    return f"{by_hand}; return the result unrounded." if _are_rounded(calls, seen) else f"{by_hand}."


def _does(slip: Slip, call: Call, answer: dict[str, Any]) -> bool:
    """Whether a call did what the formula of a slip does with these arguments."""
    try:
        return agrees(answer, slip.formula(*call.arguments, **call.keywords))
    except ArithmeticError as error:
        return answer.get("raised") == type(error).__name__


def _hint_for_refusals(calls: list[Call], seen: list[dict[str, Any]]) -> str:
    """What to tell whose function refuses arguments that are in order."""
    kinds = FUNCTIONS[calls[0].function].kinds
    refused = [answer.get("raised") == "ValueError" for answer in seen]
    whole = [
        any(
            isinstance(value, int) and kind not in (Kind.COUNT, Kind.SIZE)
            for value, kind in zip(call.arguments, kinds, strict=False)
        )
        for call in calls
    ]
    if refused == whole:
        return "A whole number is a number, too: isinstance(x, float) is false for it, isinstance(x, (int, float)) true."
    return "These arguments are in order: look at the condition before your `raise ValueError`."


def _are_rounded(calls: list[Call], seen: list[dict[str, Any]]) -> bool:
    """Whether all answers are the right ones, rounded to as many decimals."""
    told = [number(answer.get("returned")) for answer in seen]
    return any(
        all(
            value is not None and close(value, round(right(call), places), rtol=1e-9, atol=1e-9)
            for call, value in zip(calls, told, strict=True)
        )
        for places in range(7)
    )


def look_at_bad(check: Check, calls: list[Call], seen: list[dict[str, Any]]) -> None:
    """End the check, with a part of its points, when bad input does not raise ValueError.

    Whoever makes a number of a text, and answers rightly for that, has only been asked for less.
    """
    wrong = [
        (call, answer)
        for call, answer in zip(calls, seen, strict=True)
        if not refuses(answer, call.others) and not reads_the_text(call, answer)
    ]
    if wrong:
        call, answer = wrong[0]
        more = f" {len(wrong)} of {len(calls)} bad calls went that way." if len(wrong) > 1 else ""
        check.fail(
            f"The formula is right, but `{call}` {did(answer)}; expected a ValueError.{more}",
            hint=_hint_for_bad(check.id, wrong),
            points=WITHOUT_ERRORS * check.points,
        )
    other = next(
        ((call, answer) for call, answer in zip(calls, seen, strict=True) if not refuses(answer, ())), None
    )
    if other is not None:
        call, answer = other
        check.note(f"`{call}` {did(answer)}; the exercise asks for a ValueError. That costs no points.")


def refuses(answer: dict[str, Any], others: tuple[str, ...]) -> bool:
    """Whether a call raised ValueError, or one of the `others` that say as much."""
    kinds = answer.get("kinds")
    return isinstance(kinds, list) and any(kind in kinds for kind in ("ValueError", *others))


def reads_the_text(call: Call, answer: dict[str, Any]) -> bool:
    """Whether a call took a text for the number that it spells."""
    spelled = tuple(int(value) if isinstance(value, str) else value for value in call.arguments)
    return spelled != call.arguments and agrees(answer, right(replace(call, arguments=spelled)))


def _hint_for_bad(function: str, wrong: list[tuple[Call, dict[str, Any]]]) -> str:
    raised = {_text(answer["raised"]) for _, answer in wrong if "raised" in answer}
    if "NameError" in raised:
        return "The line that should raise it has a name that is nowhere: it is spelt `ValueError`."
    if "AssertionError" in raised:
        return "`python -O` skips every `assert`: write `if ...: raise ValueError(...)`."
    if all("returned" in answer and answer["returned"] is None for _, answer in wrong):
        return "`return None` or a printed warning goes unnoticed: write `raise ValueError(...)`."
    if all(any(value != value for value in call.arguments) for call, _ in wrong):
        return (
            "Every comparison with NaN is false, so that `x <= 0` lets it pass: ask `not 0 < x < math.inf`, or "
            "math.isfinite(x)."
        )
    if function == "karp_flatt" and all(call.arguments[1] == 1 for call, _ in wrong):
        return "On one process 1 - 1 / n is zero, and nothing can be told: n has to be above one."
    return f"Check each argument before the formula, and raise ValueError unless {must_be(function)}."


def must_be(function: str) -> str:
    """What the arguments of a function have to be, those of one kind together."""
    of_kind: dict[str, list[str]] = {}
    for name, kind in zip(ARGUMENTS[function], FUNCTIONS[function].kinds, strict=True):
        of_kind.setdefault(kind.value, []).append(name)
    return ", and ".join(
        f"{listed(names)} {'is' if len(names) == 1 else 'are each'} {kind}" for kind, names in of_kind.items()
    )
