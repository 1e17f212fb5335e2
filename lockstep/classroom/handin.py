"""What came in for one student, before anybody has looked into it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lockstep.classroom.people import Student


@dataclass(frozen=True)
class HandIn:
    """One student's files: `path` is what `lockstep.submission.open_submission` reads.

    `label` is the name under which it arrived, for a person who wants to find it again. `late_days` is how long
    after the deadline it arrived, in days, extra time not yet taken off; None when nothing says so.
    `problem` is a sentence where there is nothing to grade, such as an empty upload; `notes` cost nothing.
    """

    student: Student
    path: Path | None
    label: str
    late_days: float | None = None
    problem: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unmatched:
    """A file or folder that belongs to nobody on the roster, and why; listed, never dropped.

    One that is `set_aside` is no stranger's: an older hand-in of a known student, or a file of tools.
    """

    label: str
    reason: str
    set_aside: bool = False


@dataclass(frozen=True)
class Intake:
    """All that came in: what is graded, what matched nobody or was set aside, and who handed in nothing."""

    handins: tuple[HandIn, ...]
    unmatched: tuple[Unmatched, ...] = ()
    missing: tuple[Student, ...] = ()

    @property
    def set_aside(self) -> int:
        """How many of the `unmatched` were set aside."""
        return sum(item.set_aside for item in self.unmatched)
