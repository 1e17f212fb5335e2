"""What arrived for one student, as far as names tell, before it is known who that is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from lockstep.members import Member


@dataclass(frozen=True)
class Item:
    """A file or folder of the class's download, of a folder on disk or of one big archive.

    `label` is its path below what was given. `members` lists what it holds, paths relative to it (of a file: the
    file itself), and `inside` what lies in it directly; both raise SubmissionError. `place` is where it lies on
    disk, if it does. `changed` is when, in seconds since 1970; clocks of students and of LMSs have a say in it.
    `stray` is why it can be nobody's, a sentence.
    """

    name: str
    label: str
    is_folder: bool
    members: Callable[[], list[Member]]
    inside: Callable[[], Sequence[Item]]
    place: Path | None
    changed: float
    stray: str = ""


@dataclass(frozen=True)
class Person:
    """What a download says about who handed in; empty where it says nothing. Every text is untrusted.

    `number` is what `system` (canvas, moodle, gradescope or github) calls the person; without a system all there
    is is the name of a file or folder, which may be an `id`, an `email` or its beginning, or a `name`.
    """

    system: str = ""
    number: str = ""
    id: str = ""
    name: str = ""
    email: str = ""


@dataclass(frozen=True)
class Piece:
    """One item of a hand-in; `name` is what the student had called the file, empty for a folder."""

    item: Item
    name: str = ""


@dataclass(frozen=True)
class Arrival:
    """One hand-in of one person, or of several who handed in together.

    `problem` is a sentence where there is nothing to grade, `doubt` one that says why it is nobody's hand-in unless
    a student is called so. `is_late` is what Canvas says; by how much it does not say.
    """

    people: tuple[Person, ...]
    pieces: tuple[Piece, ...]
    notes: tuple[str, ...] = ()
    problem: str = ""
    doubt: str = ""
    is_late: bool = False
    submitted_at: datetime | None = None

    @property
    def label(self) -> str:
        """The name under which it arrived."""
        first = self.pieces[0].item.label
        return f"{first} and {len(self.pieces) - 1} more" if len(self.pieces) > 1 else first

    @property
    def changed(self) -> float:
        """When the newest of it was changed, in seconds since 1970."""
        return max(piece.item.changed for piece in self.pieces)


@dataclass(frozen=True)
class Sorted:
    """Items by who handed them in. What is `set_aside` is nobody's, for a reason in a sentence."""

    arrivals: tuple[Arrival, ...] = ()
    set_aside: tuple[tuple[Item, str], ...] = ()
