"""Beside a student's scaling.py: call one function with many arguments, and tell what came back of each call.

Nothing here knows what is right: the judge draws the arguments and knows which of them ask for an error.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, cast

import numpy as np

from lockstep.sandbox.probing import Inputs, Observation, Student, plain
from lockstep.wire import Json

# What the calls of a list may raise. What divides by zero may do so in one case only, and be wrong in all of them.
CAUGHT: dict[str, tuple[type[BaseException], ...]] = {
    "legal": (ValueError, ArithmeticError),
    "bad": (Exception, SystemExit),
    "positional": (Exception, SystemExit),
}
KINDS = (ValueError, TypeError, OverflowError)  # what the judge asks of an error


def calls(student: Student, inputs: Inputs) -> Observation:
    """Call the function with each list of arguments."""
    name = cast(str, inputs.values["function"])
    function = student.get(student.load("scaling"), name)
    return Observation(
        {
            key: [
                call(student, function, name, each, caught)
                for each in cast(list[dict[str, Any]], inputs.values[key])
            ]
            for key, caught in CAUGHT.items()
            if key in inputs.values
        }
    )


def call(
    student: Student,
    function: Callable[..., object],
    name: str,
    given: dict[str, Any],
    caught: tuple[type[BaseException], ...],
) -> dict[str, Json]:
    """What one call returned, or which of the `caught` errors it raised; other errors come out."""
    arguments = [unpacked(value) for value in given["arguments"]]
    try:
        with student.calling(given["shown"]):
            returned = function(*arguments, **given["keywords"])
    except caught as error:
        kinds: list[Json] = [kind.__name__ for kind in KINDS if isinstance(error, kind)]
        return {"raised": type(error).__name__[:60], "kinds": kinds}
    with student.calling(given["shown"]):
        return {"returned": plain(as_number(returned))}


def unpacked(value: object) -> object:
    """An argument from JSON, which has no word for NaN and infinity."""
    return float(value["float"]) if isinstance(value, dict) else value


def as_number(value: object) -> object:
    """A number of whatever kind, Fraction, Decimal or a library's own, as an int or a float; anything else as it is."""
    if isinstance(value, np.ndarray) and value.ndim == 0:  # as np.where and np.vectorize return one
        value = value.item()
    if isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real | Decimal) else value
