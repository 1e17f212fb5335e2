"""The tables of a gradebook. Rows of attempts and checks are only ever added or filled in; what people said stays.

Times are UTC in ISO 8601, durations in seconds, points as they stand in results.
"""

from __future__ import annotations

import math
import re
from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)

FORMAT = 1
"""Raised when a reader of an older gradebook would misread a newer one."""

RUNNING, DONE, DROPPED = "running", "done", "dropped"
"""The states of an attempt."""

# PostgreSQL refuses NUL, no database takes half of a surrogate pair, which is what Python makes of a file name that is
# no UTF-8. U+FDD0 is a code point that Unicode gives to no character, ever.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_ESCAPED = re.compile("\ufdd0([0-9a-f]{4})")
_TO_ESCAPE = re.compile("[\x00\ud800-\udfff\ufdd0]")


class Words(TypeDecorator[str]):
    """Text of any length; what no database takes in it becomes U+FFFD."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Any) -> str | None:
        """What is stored."""
        return value and _UNSTORABLE.sub("\ufffd", value)


class Name(TypeDecorator[str]):
    """Text by which something is found again: whatever is in it comes back as it was."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Any) -> str | None:
        """What is stored."""
        return value and _TO_ESCAPE.sub(lambda found: f"\ufdd0{ord(found[0]):04x}", value)

    def process_result_value(self, value: str | None, dialect: Any) -> str | None:
        """What was given."""
        if value is None or "\ufdd0" not in value:
            return value
        return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), value)


class Number(TypeDecorator[float]):
    """A finite number: SQLite keeps NaN as NULL, PostgreSQL as NaN, and no sum survives either."""

    impl = Float
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Any) -> float | None:
        """What is stored. Raises ValueError."""
        if value is not None and not math.isfinite(value):
            raise ValueError(f"{value} is no finite number")
        return value


class WholeNumber(TypeDecorator[int]):
    """A whole number of any size, such as a seed that a person chose: databases stop at 2**63."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Any) -> str | None:
        """What is stored."""
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: Any) -> int | None:
        """What was given."""
        return None if value is None else int(value)


metadata = MetaData()

about = Table(
    "about", metadata, Column("key", String(64), primary_key=True), Column("value", Text, nullable=False)
)
POINTS = "points"
"""A key of `about`: by student, what graders gave for which work when a grading was last through."""

students = Table(
    "students",
    metadata,
    Column("id", Name, primary_key=True),
    Column("name", Words, nullable=False),
    Column("email", Words, nullable=False),
    Column("team", Name, nullable=False),
    Column("extra_days", Number, nullable=False),
    Column("columns", JSON, nullable=False),
    Column("enrolled", Boolean, nullable=False),
)

# One row for each version of somebody's work; the newest is the one that counts.
handins = Table(
    "handins",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("student", Name, ForeignKey("students.id"), nullable=False, index=True),
    Column("digest", String(64), nullable=False),
    Column("label", Name, nullable=False),
    Column("late_days", Number),
    Column("problem", Words, nullable=False),
    Column("notes", JSON, nullable=False),
    Column("seen_at", String(32), nullable=False),
    UniqueConstraint("student", "digest"),
)

# One row for each grading of a hand-in: `state` is running, done, or dropped (it stopped and will not go on).
attempts = Table(
    "attempts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("handin", Integer, ForeignKey("handins.id"), nullable=False, index=True),
    Column("seed", WholeNumber, nullable=False),
    Column("state", String(16), nullable=False),
    Column("versions", JSON, nullable=False),
    Column("node", Words, nullable=False),
    Column("started_at", String(32), nullable=False),
    Column("ended_at", String(32)),
    Column("problem", Words, nullable=False),
)

# Which exercises an attempt grades; an equal fingerprint would reach the same verdicts on the same hand-in.
gradings = Table(
    "gradings",
    metadata,
    Column("attempt", Integer, ForeignKey("attempts.id"), primary_key=True),
    Column("exercise", String(100), primary_key=True),
    Column("position", Integer, nullable=False),
    Column("fingerprint", String(64), nullable=False),
)

checks = Table(
    "checks",
    metadata,
    Column("attempt", Integer, ForeignKey("attempts.id"), primary_key=True),
    Column("exercise", String(100), primary_key=True),
    Column("check", String(100), primary_key=True),
    Column("position", Integer, nullable=False),
    Column("verdict", String(32), nullable=False),
    Column("points", Number, nullable=False),
    Column("max_points", Number, nullable=False),
    Column("message", Words, nullable=False),
    Column("hint", Words, nullable=False),
    Column("seconds", Number, nullable=False),
    Column("cpu_seconds", Number),
    Column("spoils", Boolean, nullable=False),
    Column("reviews", JSON(none_as_null=True)),  # null for none, as most checks have
    # An attempt at one check alone takes the others over from the attempt before it.
    Column("taken_over", Boolean, nullable=False),
    Column("ended_at", String(32), nullable=False),
)

# What a person decided. No attempt refers to these and nothing but a person changes them.
overrides = Table(
    "overrides",
    metadata,
    Column("student", Name, ForeignKey("students.id"), primary_key=True),
    Column("exercise", String(100), primary_key=True),
    Column("check", String(100), primary_key=True),  # empty: the exercise as a whole
    Column("points", Number),  # null: a comment only
    Column("comment", Words, nullable=False),
    Column("by", Words, nullable=False),
    Column("at", String(32), nullable=False),
)

marks = Table(
    "marks",
    metadata,
    Column("student", Name, ForeignKey("students.id"), primary_key=True),
    Column("exercise", String(100), primary_key=True),
    Column("question", Name, primary_key=True),
    Column("points", Number),
    Column("comment", Words, nullable=False),
    Column("by", Words, nullable=False),
    Column("at", String(32), nullable=False),
    Column("answer", String(64), nullable=False),  # key of the answer that was read; empty: of any
)

# What a person should look at. Made anew by every grading of the class.
flags = Table(
    "flags",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("student", Name, ForeignKey("students.id"), nullable=False, index=True),
    Column("kind", String(32), nullable=False),
    Column("subject", Words, nullable=False),
    Column("detail", Words, nullable=False),
    Column("others", JSON, nullable=False),  # ids of the students it concerns as well
)

# Files that nobody on the roster could have handed in, as of the last grading.
unmatched = Table(
    "unmatched",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("label", Name, nullable=False),
    Column("reason", Words, nullable=False),
)

# What is compared of a hand-in, by its digest, as long as it is somebody's newest: later ones are laid beside it.
traces = Table(
    "traces",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("basis", String(64), nullable=False),  # what was left out as handed out, and how it was read
    Column("packed", LargeBinary, nullable=False),
)
