"""Who hands in: students as a roster names them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Student:
    """One student. `id` is the institution's, or where no roster says otherwise the name of what was handed in.

    `team` excuses equal work inside it; `extra_days` is time granted beyond the deadline, in days. `columns` are
    further ids that an LMS wants back, by the name of the roster's column, such as Canvas's `SIS Login ID`.
    `enrolled` says that the roster names them: a hand-in without a student there is kept and listed.
    """

    id: str
    name: str = ""
    email: str = ""
    team: str = ""
    extra_days: float = 0.0
    columns: tuple[tuple[str, str], ...] = ()
    enrolled: bool = True

    @property
    def shown(self) -> str:
        """The name for a table; the id where there is none."""
        return self.name or self.id

    @property
    def with_id(self) -> str:
        """The name and the id, by which one of two of that name is meant; the id where there is no name."""
        return f"{self.name} ({self.id})" if self.name else self.id
