"""Work that also stands in the worked solutions, which lie beside the graders where every student can have them.

Each hand-in is held against them alone: how many others did the same makes no difference. Reports are compared with
theirs when they are graded (lockstep.reports.between).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lockstep.classroom.compared import ANSWERS, Told, beside, listed_paths
from lockstep.classroom.copies import alike
from lockstep.classroom.people import Student
from lockstep.classroom.record import Flag, Record
from lockstep.classroom.traces import Traces
from lockstep.classroom.winnowing import Given, Prints, fingerprints
from lockstep.similarity import COPIED, similarity
from lockstep.submission import SubmissionError, open_submission
from lockstep.text import safe_line

WORKED = "worked solution"


@dataclass(frozen=True)
class Worked:
    """What hand-ins are compared with: the digest of the worked solutions, and the fingerprints of their sources.

    `texts` are those that may hold answers, each with the one of the same name that was handed out, or "".
    """

    digest: str = ""
    prints: tuple[Prints, ...] = ()
    texts: tuple[tuple[str, str], ...] = ()


def worked(folder: Path | None, known: Given, handed: Sequence[Path]) -> Worked:
    """The worked solutions in a folder; `known` is what the folders `handed` out hold.

    Where there is no such folder, or nothing in it that could be handed in, there is nothing to compare with.
    """
    try:
        found = open_submission(folder) if folder is not None else None
    except (SubmissionError, OSError):
        found = None
    if found is None:
        return Worked()
    texts = tuple(
        (_text(content), _handed_out(path, handed))
        for path, content in found.files.items()
        if path.lower().endswith(".md")
    )
    return Worked(found.digest, fingerprints(found, known), texts)


def from_sources(students: Sequence[Student], found: Sequence[Traces], solutions: Worked) -> Told:
    """Flags for sources that also stand in the worked solutions, for whose they are."""
    for student, own in zip(students, found, strict=True):
        each = alike([own.prints, solutions.prints], lambda _one, _other: False).get(0)
        if each is not None:
            detail = beside(each, "the worked solutions", "what was handed out")
            yield student.id, Flag(WORKED, listed_paths(each.files), detail)


def from_answers(records: Sequence[Record], solutions: Worked) -> Told:
    """Flags for written answers that share their words with those of the worked solutions."""
    for record in records:
        shares = dict(_shares(record, solutions))
        if shares:
            told = ", ".join(f"{question}: {share:.0%}" for question, share in shares.items())
            detail = f"Runs of three words of the answer that the worked solutions hold as well. {told}."
            yield record.student.id, Flag(ANSWERS, ", ".join(shares), detail)


def _shares(record: Record, solutions: Worked) -> Iterator[tuple[str, float]]:
    for exercise in record.exercises:
        for review in exercise.reviews:
            same = (
                similarity(review.answer, text, common=f"{review.title} {handed_out}")
                for text, handed_out in solutions.texts
            )
            share = max(same, default=0.0) if review.answer else 0.0
            if share >= COPIED:
                yield safe_line(review.question, 40), share


def _handed_out(path: str, handed: Sequence[Path]) -> str:
    """What was handed out below this path; solutions that all lie in one folder are read from there."""
    places = (place for root in handed for place in root.rglob("*"))
    return " ".join(
        _text(place.read_bytes())
        for place in places
        if place.is_file() and f"/{place.as_posix()}".endswith(f"/{path}")
    )


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")
