"""Sources that two students have in common, up to names and layout: for a person to lay side by side.

What is compared are fingerprints (lockstep.classroom.winnowing), what was handed out and what a good part of the class
wrote left out. A file is held against all that somebody else handed in, so that splitting it hides nothing. How the
thresholds were measured: docs/copies.md.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from lockstep.classroom.overlap import Index
from lockstep.classroom.tokens import is_plain
from lockstep.classroom.winnowing import Prints

LEAST = 24
"""Fingerprints that have to be shared, of about 60 tokens: ten lines that nobody handed out."""
SIMILAR = 0.5
"""The share of a file from which a person should look; independent work came to 0.4 at most."""
LONG, SIMILAR_LONG = 100, 1 / 3
"""The same where so many fingerprints are shared, of some forty lines: chance makes a few lines alike, never many."""
SIMILAR_PLAIN = 0.9
"""The same for launch files: every manual has the same example, and there are few ways to be right."""
NEAREST = 20
"""Others that are told, the most alike; a ring of hundreds is no more readable than this."""

_GAP = 4
"""Lines between two passages that are told as one."""


@dataclass(frozen=True)
class Passage:
    """A file, how much of it the other one has as well (0 to 1), and in which lines."""

    path: str
    share: float
    where: str


@dataclass(frozen=True)
class Alike:
    """What one student's sources have in common with others', most alike first.

    Students are numbers in the sequence that was compared. `mine` and `theirs` are the passages shared with the first
    of `others`; `same` says that the two files are equal byte for byte. `files` are all the student's own that are
    alike, `more` counts students beyond those told.
    """

    mine: Passage
    theirs: Passage
    same: bool
    others: tuple[int, ...]
    files: tuple[str, ...]
    more: int = 0


@dataclass(frozen=True)
class _Pair:
    """Two students and the file of one of them that has most in common with the other's work."""

    place: int
    other: int
    shared: int


def alike(students: Sequence[Sequence[Prints]], excused: Callable[[int, int], bool]) -> Mapping[int, Alike]:
    """For each student whose sources are like somebody else's, with whom and where.

    `excused(a, b)` says that two may share work. Both of two students are told, even if only one of them has most of
    the other's work.
    """
    files = [(student, prints) for student, own in enumerate(students) for prints in own]
    index = Index([prints.hashes for _, prints in files], [student for student, _ in files], len(students))
    strongest: dict[int, dict[int, _Pair]] = {}
    paths: dict[int, dict[str, None]] = {}
    more: dict[int, int] = {}
    for overlap in index.overlaps(LEAST, SIMILAR_LONG):
        student, prints = files[overlap.place]
        enough = overlap.shared >= _needed(prints, overlap.own)
        owners, counts = overlap.owners[enough].tolist(), overlap.shared[enough].tolist()
        strangers = (
            (other, shared)
            for other, shared in zip(owners, counts, strict=True)
            if not excused(student, other)
        )
        nearest = list(islice(strangers, NEAREST))
        if not nearest:
            continue
        paths.setdefault(student, {})[_name(prints)] = None
        if len(nearest) == NEAREST:
            more[student] = max(more.get(student, 0), len(owners) - NEAREST)
        for other, shared in nearest:
            pair = _Pair(overlap.place, other, shared)
            for a, b in ((student, other), (other, student)):
                known = strongest.setdefault(a, {}).get(b)
                if known is None or known.shared < shared:
                    strongest[a][b] = pair
    compare = _Comparison(files, index)
    return {
        student: _told(student, pairs, compare, paths.get(student, {}), more.get(student, 0))
        for student, pairs in sorted(strongest.items())
    }


def _needed(prints: Prints, own: int) -> float:
    """How many of a file's own fingerprints somebody else has to have."""
    if is_plain(prints.path):
        return SIMILAR_PLAIN * own
    return min(SIMILAR * own, max(LONG, SIMILAR_LONG * own))


def _told(
    student: int, pairs: Mapping[int, _Pair], compare: _Comparison, paths: Mapping[str, None], more: int
) -> Alike:
    nearest = sorted(pairs, key=lambda other: (-pairs[other].shared, other))
    found = compare.beside(pairs[nearest[0]])
    if compare.owner(pairs[nearest[0]].place) != student:
        found = replace(found, mine=found.theirs, theirs=found.mine)
    return replace(
        found,
        others=tuple(nearest[:NEAREST]),
        files=tuple(dict.fromkeys([found.mine.path, *paths])),
        more=max(more, len(nearest) - NEAREST, 0),
    )


class _Comparison:
    """All files of a class, for looking into pairs of them."""

    def __init__(self, files: Sequence[tuple[int, Prints]], index: Index) -> None:
        self._files = files
        self._index = index
        self._places: dict[int, list[int]] = {}
        for place, (student, _) in enumerate(files):
            self._places.setdefault(student, []).append(place)

    def owner(self, place: int) -> int:
        """Whose file this is."""
        return self._files[place][0]

    def beside(self, pair: _Pair) -> Alike:
        """The file of a pair beside that file of the other's which has most of it."""
        student, mine = self._files[pair.place]
        own = self._own(pair.place)
        theirs = max(self._places[pair.other], key=lambda place: int(np.isin(own, self._own(place)).sum()))
        shared = own[np.isin(own, self._whole(pair.other))]
        back = self._own(theirs)
        their_file = self._files[theirs][1]
        found_back = back[np.isin(back, self._whole(student))]
        return Alike(
            Passage(_name(mine), len(shared) / len(own), _where(mine, shared)),
            Passage(_name(their_file), len(found_back) / len(back), _where(their_file, shared)),
            mine.digest == their_file.digest,
            (pair.other,),
            (_name(mine),),
        )

    def _own(self, place: int) -> NDArray[np.uint32]:
        return self._files[place][1].hashes[~self._index.common(place)]

    def _whole(self, student: int) -> NDArray[np.uint32]:
        return np.concatenate([self._own(place) for place in self._places[student]])


def _where(prints: Prints, shared: NDArray[np.uint32]) -> str:
    """Where fingerprints stand in a file, in words: lines, or the cells of a notebook."""
    kept = np.isin(prints.hashes, shared)
    spans = sorted(zip(prints.first[kept].tolist(), prints.last[kept].tolist(), strict=True))
    word, gap = "line", _GAP
    if prints.cells:
        spans = sorted({(_cell(prints, first), _cell(prints, last)) for first, last in spans})
        word, gap = "cell", 1
    ranges = list(_joined(spans, gap))
    told = [f"{first}" if first == last else f"{first} to {last}" for first, last in ranges[:5]]
    rest = len(ranges) - len(told)
    plural = "s" if len(ranges) > 1 or ranges[0][0] != ranges[0][1] else ""
    return f"{word}{plural} {', '.join(told)}{f' and {rest} more' if rest else ''}"


def _name(prints: Prints) -> str:
    return f"{prints.path.removesuffix('.py')}.ipynb" if prints.cells else prints.path


def _cell(prints: Prints, line: int) -> int:
    return max(1, bisect_right(prints.cells, line))


def _joined(spans: Sequence[tuple[int, int]], gap: int) -> Iterator[tuple[int, int]]:
    begin, end = spans[0]
    for first, last in spans[1:]:
        if first > end + gap:
            yield begin, end
            begin, end = first, last
        end = max(end, last)
    yield begin, end
