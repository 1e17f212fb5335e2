"""One line of what the doctor says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lockstep.jsontext import Json


class Level(StrEnum):
    """How a thing is, from good to bad."""

    OK = "ok"
    WEAKER = "weaker"
    """Grading works, and keeps a promise less well, or gives honest work less room."""
    REFUSED = "refused"
    """Nothing is graded."""


@dataclass(frozen=True)
class Finding:
    """What was seen of one thing, what follows from it for grading, and the one command that mends it, if any does.

    `values` are the figures and versions in it, for programs.
    """

    id: str
    title: str
    level: Level
    seen: str
    follows: str
    mend: str = ""
    values: Mapping[str, Json] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        """As `--json` prints it."""
        return {
            "id": self.id,
            "level": str(self.level),
            "seen": self.seen,
            "follows": self.follows,
            "mend": self.mend or None,
            "values": dict(self.values),
        }
