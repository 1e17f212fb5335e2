"""What of a hand-in is compared with others', small enough to be kept for a whole class: some 20 KB each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from lockstep.classroom.readings import Readings, readings
from lockstep.classroom.winnowing import Given, Prints, digest, fingerprints
from lockstep.source import direction_marks
from lockstep.submission import Submission
from lockstep.text import safe_line

MADE = frozenset({".png", ".svg", ".wandb"})
"""Suffixes of what programs draw or log; JPEG is what data sets are made of, and PDF what courses hand out."""
CROWDED = 20
"""From so many of them in one folder they are a data set."""


@dataclass(frozen=True)
class Traces:
    """One hand-in. `own` says that something in it was not handed out.

    `made` are plots and logs with their digests, `turned` the places where a source holds direction marks.
    """

    digest: str
    own: bool
    prints: tuple[Prints, ...]
    readings: tuple[Readings, ...]
    made: tuple[tuple[str, bytes], ...]
    turned: tuple[str, ...]


def traces(submission: Submission, known: Given) -> Traces:
    """What is kept of a hand-in; what was handed out is left out."""
    return Traces(
        submission.digest,
        any(digest(content) not in known.digests for content in submission.files.values()),
        fingerprints(submission, known),
        readings(submission, known),
        _made(submission, known),
        _turned(submission),
    )


def _made(submission: Submission, known: Given) -> tuple[tuple[str, bytes], ...]:
    folders: dict[str, list[str]] = {}
    for path in submission.files:
        place = PurePosixPath(path)
        if place.suffix.lower() in MADE or "tfevents" in place.name:
            folders.setdefault(str(place.parent), []).append(path)
    paths = [path for inside in folders.values() if len(inside) < CROWDED for path in inside]
    digests = [(path, digest(submission.files[path])) for path in paths if submission.files[path]]
    return tuple((path, value) for path, value in digests if value not in known.digests)


def _turned(submission: Submission) -> tuple[str, ...]:
    places = []
    for path, content in submission.files.items():
        if path.endswith(".py") and path not in submission.problems:
            notebook = submission.notebooks.get(path)
            name = f"{path.removesuffix('.py')}.ipynb" if notebook is not None else path
            for line in direction_marks(content):
                where = notebook.place(line) if notebook is not None else f"line {line}"
                places.append(f"{safe_line(name, 80)}, {where}")
    return tuple(places)
