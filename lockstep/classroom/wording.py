"""Written answers to one question that share their words: who has them from whom, or both from where, is for a person.

The measure is lockstep.similarity; here is only which answers of a class are put to it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lockstep.classroom.overlap import Index
from lockstep.similarity import CHARACTERS, COPIED, FEWEST, SHINGLE, similarity, words

NEAREST = 20
"""Others that one answer is put beside, those it shares most with."""


@dataclass(frozen=True)
class SameWords:
    """An answer that others' share words with, by their places; `shares` as `similarity` has them, highest first."""

    student: int
    others: tuple[int, ...]
    shares: tuple[float, ...]


def same_words(
    answers: Sequence[str], question: str, excused: Callable[[int, int], bool]
) -> Iterator[SameWords]:
    """For each of the answers to a question whose words it shares; empty answers belong to those who gave none.

    What the question holds counts for nothing, nor what many write. `excused(a, b)` says that two may share work.
    """
    written = [place for place, answer in enumerate(answers) if answer]
    index = Index([_runs(answers[place]) for place in written], range(len(written)), len(written))
    found: dict[int, dict[int, float]] = {}
    for overlap in index.overlaps(FEWEST // 2, COPIED):
        one = written[overlap.place]
        others = (written[int(other)] for other in overlap.owners[: 2 * NEAREST])
        near = [other for other in others if not excused(one, other)] if overlap.own >= FEWEST else []
        for other in near[:NEAREST]:
            if other not in found.get(one, {}):
                share = similarity(answers[one], answers[other], common=question)
                found.setdefault(one, {})[other] = share
                found.setdefault(other, {})[one] = share
    for student, shares in sorted(found.items()):
        alike = sorted(((share, other) for other, share in shares.items() if share >= COPIED), key=_highest)
        if alike:
            yield SameWords(student, *zip(*((other, share) for share, other in alike), strict=True))


def _highest(pair: tuple[float, int]) -> tuple[float, int]:
    return -pair[0], pair[1]


def _runs(answer: str) -> NDArray[np.uint32]:
    found = words(answer[:CHARACTERS])
    runs: set[int] = {
        zlib.crc32(" ".join(run).encode("utf-8", "replace"))
        for run in zip(*(found[start:] for start in range(SHINGLE)), strict=False)
    }
    return np.array(sorted(runs), dtype=np.uint32)
