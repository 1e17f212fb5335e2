"""Fingerprints of sources: a few numbers by which equal passages are found, whatever their names and layout.

Schleimer, Wilkerson, Aiken, "Winnowing: local algorithms for document fingerprinting", SIGMOD 2003.
Of the runs of `RUN` tokens some are kept, chosen so that two sources which share `RUN + WINDOW - 1` tokens in a row
keep one in common, wherever it stands.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lockstep.classroom.tokens import MOST, Tokens, is_source, tokens
from lockstep.submission import Submission

RUN = 12
"""Tokens of a run, about a line and a half: shorter ones are everybody's, longer ones are broken by any change."""
WINDOW = 4
"""Of so many runs that follow each other at least one is kept."""

_BASE, _MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
_LAST_LINE = int(np.iinfo(np.uint16).max)


@dataclass(frozen=True)
class Prints:
    """The fingerprints of one file without what was handed out, each from line `first` to line `last`.

    `digest` is equal for files that are equal byte for byte. `cells` are the lines on which the cells of a notebook
    begin; `path` is then that of the Python it was read as.
    """

    path: str
    digest: bytes
    hashes: NDArray[np.uint32]
    first: NDArray[np.uint16]
    last: NDArray[np.uint16]
    cells: tuple[int, ...] = ()


@dataclass(frozen=True)
class Given:
    """What students were handed: every run of its tokens, and the digests of its files."""

    runs: NDArray[np.uint32]
    digests: frozenset[bytes]


def given(paths: Iterable[Path]) -> Given:
    """What these files, and folders of files, hold."""
    files = [file for path in paths for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    contents = [(file.name, file.read_bytes()) for file in files if file.is_file()]
    runs = [_runs(tokens(name, content)) for name, content in contents if is_source(name)]
    return Given(
        np.unique(np.concatenate([np.zeros(0, dtype=np.uint32), *runs])),
        frozenset(digest(content) for _, content in contents),
    )


def digest(content: bytes) -> bytes:
    """Equal for files that are equal; line ends of another system make no difference."""
    return hashlib.blake2b(content.replace(b"\r\n", b"\n"), digest_size=8).digest()


def fingerprints(submission: Submission, known: Given) -> tuple[Prints, ...]:
    """The fingerprints of each source of a hand-in; files in which nothing is the student's own are left out."""
    found = []
    left = MOST
    for path, content in submission.files.items():
        if left <= 0:
            break
        if not is_source(path) or path in submission.problems:
            continue
        whole = digest(content)
        if whole in known.digests:
            continue
        read = tokens(path, content, left)
        left -= len(read.codes)
        hashes, first, last = _winnowed(read, known.runs)
        if len(hashes):
            notebook = submission.notebooks.get(path)
            origins = notebook.cell_of_line if notebook is not None else ()
            cells = tuple(
                line for line, origin in enumerate(origins, 1) if origin is not None and origin[1] == 1
            )
            found.append(Prints(path, whole, hashes, first, last, cells))
    return tuple(found)


def _winnowed(
    source: Tokens, known: NDArray[np.uint32]
) -> tuple[NDArray[np.uint32], NDArray[np.uint16], NDArray[np.uint16]]:
    runs = _runs(source)
    kept = _kept(runs)
    hashes, places = np.unique(runs[kept], return_index=True)
    own = ~_in(hashes, known)
    begin = kept[places[own]]
    lines = np.minimum(source.lines, _LAST_LINE).astype(np.uint16)
    return hashes[own], lines[begin], lines[begin + RUN - 1]


def _in(values: NDArray[np.uint32], known: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Which of the values are among those known, which are sorted: np.isin would sort them every time."""
    if not len(known):
        return np.zeros(len(values), dtype=np.bool_)
    found = np.minimum(np.searchsorted(known, values), len(known) - 1)
    return np.asarray(known[found] == values, dtype=np.bool_)


def _runs(source: Tokens) -> NDArray[np.uint32]:
    """A number for every run of tokens, by its place."""
    count = len(source.codes) - RUN + 1
    if count <= 0:
        return np.zeros(0, dtype=np.uint32)
    total = np.zeros(count, dtype=np.uint64)
    for offset in range(RUN):
        total = total * _BASE + source.codes[offset : offset + count]
    # The upper bits are the good ones of a polynomial.
    total = (total ^ (total >> np.uint64(31))) * _MIX
    return (total >> np.uint64(32)).astype(np.uint32)


def _kept(runs: NDArray[np.uint32]) -> NDArray[np.int64]:
    """The places of the runs that winnowing keeps: the smallest of every window, the last of equal ones."""
    count = len(runs) - WINDOW + 1
    if count <= 0:
        return np.arange(len(runs))[-1:]
    # One number for value and place, so that the minimum of a window says where it is.
    ranked = (runs.astype(np.uint64) << np.uint64(32)) + np.arange(len(runs), 0, -1, dtype=np.uint64)
    smallest = np.minimum.reduce([ranked[offset : offset + count] for offset in range(WINDOW)])
    left = (np.unique(smallest) & np.uint64(0xFFFFFFFF)).astype(np.int64)
    return np.sort(len(runs) - left)
