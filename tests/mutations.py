"""A recording of runs with exactly one thing changed: a value, an array, a rank, or how the run ended.

Every mutant has a `key`, which says what was changed (`train values.steps[]`), and a `change`, which says how. Of the
places that share both, in one run, a few are drawn: the thousandth item of a list is judged as the first one is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lockstep.sandbox.outcome import Outcome, RankOutcome, StudentError
from lockstep.wire import Array
from tests.observed import Run, plain_name

PER_RUN = 2
"""Places of one key that are changed in each run."""
SLIGHTLY = 1 + 1e-3
CLOSED = {"runs": False}


@dataclass(frozen=True)
class Mutant:
    """The runs of a check, one thing of them changed."""

    key: str
    change: str
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class _Place:
    """Where one change is made, and the run as it is then."""

    key: str
    change: str
    run: Run


class _Gone:
    """Stands for what is left out."""


GONE = _Gone()


def mutants(runs: Sequence[Run], rng: np.random.Generator) -> Iterator[Mutant]:
    """Every change of every key, at places that are drawn."""
    for number, run in enumerate(runs):
        before = next((each for each in reversed(runs[:number]) if _alike(each, run)), None)
        places: dict[tuple[str, str], list[_Place]] = {}
        for place in [*_in_the_run(run), *_between_the_ranks(run, before), *_in_the_ranks(run)]:
            places.setdefault((place.key, place.change), []).append(place)
        for (key, change), found in places.items():
            chosen = rng.choice(len(found), min(PER_RUN, len(found)), replace=False)
            for place in (found[which] for which in sorted(chosen)):
                yield Mutant(key, change, (*runs[:number], place.run, *runs[number + 1 :]))
