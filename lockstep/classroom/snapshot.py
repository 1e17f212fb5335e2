"""A class as its gradebook has it at one moment: all that exports and pages are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from lockstep.classroom.catalogue import ExerciseTitle
from lockstep.classroom.exports.write import ExportSummary, write_all
from lockstep.classroom.gradebook import Gradebook
from lockstep.classroom.handin import Unmatched
from lockstep.classroom.pages.write import write_pages
from lockstep.classroom.record import Record
from lockstep.classroom.slug import slugs

PUBLISHED = "published"
"""Under this a gradebook keeps what was made of it last, which is nothing that it says of the class."""


@dataclass(frozen=True)
class Snapshot:
    """The class. As long as the gradebook has this `revision`, nothing else would be written."""

    revision: str
    records: tuple[Record, ...]
    catalogue: tuple[ExerciseTitle, ...]
    unmatched: tuple[Unmatched, ...]

    @classmethod
    def of(cls, book: Gradebook) -> Snapshot:
        """The class as it is now. Raises GradebookError."""
        # Before anything is read: what people decide meanwhile makes another revision.
        revision = book.revision(PUBLISHED)
        return cls(revision, book.records(), book.catalogue(), book.unmatched())

    def is_outdated(self, book: Gradebook) -> bool:
        """Whether the gradebook says something else by now. Raises GradebookError."""
        return book.revision(PUBLISHED) != self.revision

    @cached_property
    def slugs(self) -> Mapping[str, str]:
        """What folders and files of students are called, by id."""
        return slugs(self.records)

    def write_exports(self, out: Path) -> ExportSummary:
        """Write all exports into `out`. Raises OSError."""
        return write_all(self.records, self.catalogue, self.unmatched, out, slugs=self.slugs)

    def write_pages(self, results: Path) -> int:
        """Write all pages into a folder of results; returns how many are new. Raises OSError."""
        title = results.absolute().name
        return write_pages(self.records, self.catalogue, self.unmatched, self.slugs, results, title)
