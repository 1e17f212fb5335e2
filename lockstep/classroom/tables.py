"""The tables of a gradebook. Rows of attempts and checks are only ever added or filled in; what people said stays.

Times are UTC in ISO 8601, durations in seconds, points as they stand in results.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

FORMAT = 1
"""Raised when a reader of an older gradebook would misread a newer one."""

RUNNING, DONE, DROPPED = "running", "done", "dropped"
"""The states of an attempt."""

metadata = MetaData()

about = Table(
    "about", metadata, Column("key", String(64), primary_key=True), Column("value", Text, nullable=False)
)

students = Table(
    "students",
    metadata,
    Column("id", String(200), primary_key=True),
    Column("name", Text, nullable=False),
    Column("email", Text, nullable=False),
    Column("team", Text, nullable=False),
    Column("extra_days", Float, nullable=False),
    Column("columns", JSON, nullable=False),
    Column("enrolled", Boolean, nullable=False),
)

# One row for each version of somebody's work; the newest is the one that counts.
handins = Table(
    "handins",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("student", String(200), ForeignKey("students.id"), nullable=False, index=True),
    Column("digest", String(64), nullable=False),
    Column("label", Text, nullable=False),
    Column("late_days", Float),
    Column("problem", Text, nullable=False),
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
    Column("seed", BigInteger, nullable=False),
    Column("state", String(16), nullable=False),
    Column("versions", JSON, nullable=False),
    Column("node", Text, nullable=False),
    Column("started_at", String(32), nullable=False),
    Column("ended_at", String(32)),
    Column("problem", Text, nullable=False),
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
    Column("points", Float, nullable=False),
    Column("max_points", Float, nullable=False),
    Column("message", Text, nullable=False),
    Column("hint", Text, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("cpu_seconds", Float),
    Column("spoils", Boolean, nullable=False),
    Column("reviews", JSON, nullable=False),
    # An attempt at one check alone takes the others over from the attempt before it.
    Column("taken_over", Boolean, nullable=False),
    Column("ended_at", String(32), nullable=False),
)

# What a person decided. No attempt refers to these and nothing but a person changes them.
overrides = Table(
    "overrides",
    metadata,
    Column("student", String(200), ForeignKey("students.id"), primary_key=True),
    Column("exercise", String(100), primary_key=True),
    Column("check", String(100), primary_key=True),  # empty: the exercise as a whole
    Column("points", Float),  # null: a comment only
    Column("comment", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("at", String(32), nullable=False),
)

marks = Table(
    "marks",
    metadata,
    Column("student", String(200), ForeignKey("students.id"), primary_key=True),
    Column("exercise", String(100), primary_key=True),
    Column("question", String(100), primary_key=True),
    Column("points", Float),
    Column("comment", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("at", String(32), nullable=False),
)

# What a person should look at. Made anew by every grading of the class.
flags = Table(
    "flags",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("student", String(200), ForeignKey("students.id"), nullable=False, index=True),
    Column("kind", String(32), nullable=False),
    Column("subject", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("others", JSON, nullable=False),  # ids of the students it concerns as well
)

# Files that nobody on the roster could have handed in, as of the last grading.
unmatched = Table(
    "unmatched",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("label", Text, nullable=False),
    Column("reason", Text, nullable=False),
)
